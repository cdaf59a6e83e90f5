//! Words of the command line, and a device that has its registers in memory.

use super::mmio::{Named, named};
use super::*;

#[test]
fn words_of_the_command_line_name_places() {
    let line = "quiet virtio_mmio.device=512@0xfeb00000:5 virtio_mmio.device=4K@268435456:17:3 \
                virtio_mmio.device=1K@0x1e3 virtio_mmio.device=@1:2 virtio_mmio.device=1@:2 virtio_mmio.device=k@1:2 \
                virtio_mmio.device=99999999999999999999@1:2 virtio_mmio.device=0xffffffffffffffffM@1:2 \
                virtio_mmio.device=1@1:4294967296 virtio_mmio.device=\u{e4}@1:2";
    let found: Vec<Named> = named(line).collect();
    let one = |len, physical, line| Named {
        physical,
        len,
        line,
    };
    assert_eq!(
        found,
        [one(512, 0xfeb0_0000, 5), one(4096, 0x1000_0000, 17)]
    );
}

fn device(words: &[(usize, u32)]) -> (Registers, Registers) {
    let memory = Box::leak(Box::new([0; 128]));
    let registers = Registers::model(memory);
    for (at, value) in words {
        registers.write(*at, *value);
    }
    (registers, registers.part(0x100, 0x100).unwrap())
}

const SAYS: (usize, u32) = (0, u32::from_le_bytes(*b"virt"));

#[test]
fn what_is_no_device_is_none() {
    let find = |words: &[(usize, u32)]| {
        Transport::behind(device(words).0, 5).map(|found| found.map(|(_, kind)| kind))
    };
    assert_eq!(find(&[]), Err(DeviceError::Fit));
    assert_eq!(find(&[SAYS, (4, 2)]), Ok(None));
    assert_eq!(find(&[SAYS, (4, 1), (8, 3)]), Err(DeviceError::Fit));
    assert_eq!(find(&[SAYS, (4, 2), (8, 1 << 16)]), Err(DeviceError::Fit));
    assert_eq!(find(&[SAYS, (4, 2), (8, 3)]), Ok(Some(3)));
    let short = device(&[SAYS, (4, 2), (8, 3)]).0.part(0, 0x80).unwrap();
    assert!(matches!(Transport::behind(short, 5), Err(DeviceError::Fit)));
}

#[test]
fn a_queue_is_given_as_the_standard_wants() {
    let (registers, config) = device(&[SAYS, (4, 2), (8, 4), (0x34, 8)]);
    let (transport, _) = Transport::behind(registers, 5).unwrap().unwrap();
    config.write(4, 99u32);
    assert_eq!(transport.config(4), 99);
    let ring = Virtqueue::new(8).unwrap();
    let bell = transport.set_queue(3, &ring, NO_VECTOR).unwrap();
    let word = |at| registers.read::<u32>(at);
    assert_eq!((word(0x30), word(0x38), word(0x44)), (3, 8, 1));
    let long = |at| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    assert_eq!(
        [long(0x80), long(0x90), long(0xa0)],
        [ring.descriptors(), ring.available(), ring.used()]
    );
    bell.ring();
    assert_eq!(word(0x50), 3);
    // It has that queue already; and one that is too large.
    assert!(transport.set_queue(3, &ring, NO_VECTOR).is_err());
    registers.write(0x44, 0u32);
    registers.write(0x34, 4u32);
    assert!(transport.set_queue(3, &ring, NO_VECTOR).is_err());
}

#[test]
fn a_device_that_answers_all_ones_is_gone() {
    let (registers, _) = device(&[SAYS, (4, 2), (8, 4)]);
    let (transport, _) = Transport::behind(registers, 5).unwrap().unwrap();
    // Its registers are memory here: what is read is what was written, so it has reset itself at once.
    assert!(transport.negotiate(0).is_err());
    let gone = Transport {
        bus: Bus::Mmio(mmio::Block::model(Registers::NONE)),
        config: Registers::NONE,
    };
    assert_eq!(gone.negotiate(u64::MAX), Err(DeviceError::Gone));
    gone.stop();
    assert_eq!((gone.config(0), gone.config_byte(3)), (u32::MAX, 0xff));
}
