//! Cards that are not what they should be, by registers in memory.

use super::*;
use quaject::near_memory::NearBlock;

fn started(prepare: impl Fn(Registers)) -> Result<Hda, Unusable> {
    codegen::host::link();
    let block = NearBlock::new(REGISTERS_LEN as usize).unwrap();
    let registers = Registers::of_block(&block);
    prepare(registers);
    Hda::new(registers)
}

#[test]
fn a_card_that_does_not_answer_is_not_waited_for_for_ever() {
    // None at all, one without a codec, one whose rings have no size, one that never answers.
    let all_ones = |registers: Registers| {
        for at in (0..REGISTERS_LEN as usize).step_by(4) {
            registers.write(at, u32::MAX);
        }
    };
    let codec = |registers: Registers| registers.write(CODECS, 1u16);
    let silent = |registers: Registers| {
        codec(registers);
        registers.write(0x4e, 0x40u8);
        registers.write(0x5e, 0x40u8);
    };
    let prepared: [(&str, &dyn Fn(Registers)); 4] = [
        ("all ones", &all_ones),
        ("no codec", &|_| {}),
        ("no size", &codec),
        ("no answer", &silent),
    ];
    for (name, prepare) in prepared {
        let error = started(prepare).err();
        assert!(
            matches!(
                error,
                Some(Unusable::DeviceError(DeviceError::Gone | DeviceError::Fit))
            ),
            "{name}: {error:?}"
        );
    }
}
