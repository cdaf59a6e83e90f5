//! Probe: measurements and statistics of one routine.
//!
//! *Interface* (table 4.3): callentry `probe` is [`probe`], which takes the procedure to measure and returns
//! the routine to install instead; callentry `show` is [`Probe::show`]. The measured routine keeps its
//! contract: only rax and the flags change beyond what it does itself. Calls that leave a descriptor routine
//! by the slow exit are counted, but take no time here.
//!
//! Source: dissertation, table 4.3.
//!
//! *Unsafe*: words in a near block; safety contract of the wrapper.

use crate::kit::class::Ref;
use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{RoutineError, near};
use codegen::{Class, Draft, Routine, dynasm};
use core::sync::atomic::{AtomicU64, Ordering};

#[repr(C)]
struct Words {
    calls: AtomicU64,
    ended: AtomicU64,
    cycles: AtomicU64,
}

/// One probe.
pub struct Probe {
    block: NearBlock,
    several_cpus: bool,
}

/// The measurements of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Calls begun.
    pub calls: u64,
    /// Calls that returned.
    pub ended: u64,
    /// Cycles of the time-stamp counter that these took, the probe's own among them.
    pub cycles: u64,
}

crate::quaject! {
    /// Measurements and statistics
    class Probe = "Probe", spec bool, error RoutineError {
        callentry { PROBE = "probe", SHOW = "show" }
    }
    make |several_cpus, _| {
        let block = NearBlock::new(size_of::<Words>()).ok_or(RoutineError::OutOfMemory)?;
        Ok(Probe { block, several_cpus })
    };
}

static CODE: Class = Class::new("probe");

impl Probe {
    fn words(&self) -> &Words {
        // SAFETY: the block holds the words, zeroed.
        unsafe { self.block.at().cast::<Words>().as_ref() }
    }

    /// Callentry `show`.
    pub fn show(&self) -> Shown {
        let words = self.words();
        Shown {
            calls: words.calls.load(Ordering::Relaxed),
            ended: words.ended.load(Ordering::Relaxed),
            cycles: words.cycles.load(Ordering::Relaxed),
        }
    }
}

/// Callentry `probe`: the same routine with a probe around it, to plug where `routine` is plugged now.
///
/// # Errors
/// [`RoutineError`].
///
/// # Safety
/// `F` takes nothing on the stack and nothing in rax, and returns in rax. The result is unplugged before
/// `probe` and `routine` go, or keeps them.
pub unsafe fn probe<F>(
    probe: &Ref<Probe>,
    routine: &Routine<F>,
) -> Result<Routine<F>, RoutineError> {
    let base = near(probe.block.at().as_ptr())? as i32;
    let word = |offset: usize| base + offset as i32;
    let [calls, ended, cycles] = [
        word(core::mem::offset_of!(Words, calls)),
        word(core::mem::offset_of!(Words, ended)),
        word(core::mem::offset_of!(Words, cycles)),
    ];
    let mut draft = Draft::new(&CODE, routine.info().class);
    let d = &mut draft;
    let lock = |d: &mut Draft| {
        if probe.several_cpus {
            d.push(0xf0);
        }
    };
    lock(d);
    dynasm!(d ; .arch x64
        ; inc QWORD [calls]
        ; push rax
        ; push rdx
        ; rdtsc
        ; shl rdx, 32
        ; or rax, rdx
        ; mov [rsp + 8], rax
        ; pop rdx
    );
    d.call_abs(routine.entry());
    // On the stack: the time at the beginning.
    dynasm!(d ; .arch x64
        ; push rdx
        ; push rax
        ; rdtsc
        ; shl rdx, 32
        ; or rax, rdx
        ; sub rax, [rsp + 16]
    );
    lock(d);
    dynasm!(d ; .arch x64 ; add [cycles], rax);
    lock(d);
    dynasm!(d ; .arch x64
        ; inc QWORD [ended]
        ; pop rax
        ; pop rdx
        ; lea rsp, [rsp + 8]
        ; ret
    );
    // SAFETY: the caller's promise; what the code changes beyond the routine it saves.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::constant::Constants;
    use crate::catalogue::testing::{Ended, call, env};
    use crate::kit::class::create;
    use crate::kit::routine_env::UserAccess;

    #[test]
    fn a_probed_routine_does_what_it_did_and_is_counted() {
        let env = env(1, UserAccess::Host);
        let routines = Constants::new(&env).unwrap();
        let quaject = create::<Probe>(false).unwrap();
        // SAFETY: descriptor routines are such, and everything lives to the end of the test.
        let probed = unsafe { probe(&quaject, &routines.swallow).unwrap() };
        for count in 0..100 {
            assert_eq!(call(&probed, [1, 2, count]), Ended::With(count as isize));
        }
        let shown = quaject.show();
        assert_eq!((shown.calls, shown.ended), (100, 100));
        assert!(shown.cycles > 0);
    }
}
