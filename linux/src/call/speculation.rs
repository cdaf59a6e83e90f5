//! `prctl(PR_GET_SPECULATION_CTRL)` and `PR_SET_SPECULATION_CTRL`: a thread asks for less speculation.
//!
//! *Interface.* [`get`], [`set`]. Switch code of the thread's own does the work (`thread::speculation`).
//!
//! Source: Linux, Documentation/userspace-api/spec_ctrl.rst; arch/x86/kernel/cpu/bugs.c.

use abi::errno::{Errno, Result};
use machine::mitigate::{Bug, plan};
use thread::current;
use thread::speculation::SpeculationControl;

const STORE_BYPASS: usize = 0;
const INDIRECT_BRANCH: usize = 1;
const L1D_FLUSH: usize = 2;

const NOT_AFFECTED: usize = 0;
const PRCTL: usize = 1;
const ENABLE: usize = 2;
const DISABLE: usize = 4;
const FORCE_DISABLE: usize = 8;
const DISABLE_NOEXEC: usize = 16;

fn unused(rest: [usize; 2]) -> Result<()> {
    match rest {
        [0, 0] => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// How it stands with `which`. ENODEV, EINVAL.
pub fn get(which: usize, more: [usize; 3]) -> Result<usize> {
    if more != [0; 3] {
        return Err(Errno::EINVAL);
    }
    let plan = plan();
    let (bug, can) = match which {
        STORE_BYPASS => (Bug::SpecStoreBypass, plan.measures.ssbd_asked()),
        INDIRECT_BRANCH => (Bug::SpectreV2, plan.measures.stibp_asked()),
        // Nobody flushes the first cache.
        L1D_FLUSH => return Ok(FORCE_DISABLE),
        _ => return Err(Errno::ENODEV),
    };
    let asked = current().asked();
    Ok(match which {
        _ if !can && !plan.bugs.contains(bug) => NOT_AFFECTED,
        _ if !can => ENABLE,
        INDIRECT_BRANCH if plan.measures.ibpb_always() && plan.measures.stibp_always() => DISABLE,
        STORE_BYPASS if asked.contains(SpeculationControl::STORES_FOR_EVER) => {
            PRCTL | FORCE_DISABLE
        }
        STORE_BYPASS if asked.contains(SpeculationControl::STORES_UNTIL_EXEC) => {
            PRCTL | DISABLE_NOEXEC
        }
        STORE_BYPASS if asked.contains(SpeculationControl::STORES) => PRCTL | DISABLE,
        INDIRECT_BRANCH if asked.contains(SpeculationControl::BRANCHES_FOR_EVER) => {
            PRCTL | FORCE_DISABLE
        }
        INDIRECT_BRANCH if asked.contains(SpeculationControl::BRANCHES) => PRCTL | DISABLE,
        _ => PRCTL | ENABLE,
    })
}

/// Asks for `how` with `which`. ENODEV, EINVAL, ENXIO, ERANGE, EPERM, ENOMEM.
pub fn set(which: usize, how: usize, rest: [usize; 2]) -> Result<usize> {
    unused(rest)?;
    let done = plan().measures;
    let asked = current().asked();
    let wanted = match which {
        STORE_BYPASS if !done.ssbd_asked() => return Err(Errno::ENXIO),
        STORE_BYPASS => stores(asked, how)?,
        INDIRECT_BRANCH => match how {
            ENABLE | DISABLE | FORCE_DISABLE if !done.stibp_asked() => match how {
                ENABLE => return Ok(0),
                _ => return Err(Errno::EPERM),
            },
            // Always on, for everybody.
            ENABLE if done.ibpb_always() && done.stibp_always() => return Err(Errno::EPERM),
            ENABLE if asked.contains(SpeculationControl::BRANCHES_FOR_EVER) => {
                return Err(Errno::EPERM);
            }
            ENABLE => asked.without(SpeculationControl::BRANCHES),
            DISABLE => asked.with(SpeculationControl::BRANCHES),
            FORCE_DISABLE => asked.with(SpeculationControl::BRANCHES_FOR_EVER),
            _ => return Err(Errno::ERANGE),
        },
        L1D_FLUSH => return Err(Errno::EPERM),
        _ => return Err(Errno::ENODEV),
    };
    current().ask(wanted).map_err(|_| Errno::ENOMEM)?;
    Ok(0)
}

fn stores(asked: SpeculationControl, how: usize) -> Result<SpeculationControl> {
    let none = asked.without(SpeculationControl::STORES_UNTIL_EXEC);
    let for_ever = asked.contains(SpeculationControl::STORES_FOR_EVER);
    match how {
        ENABLE | DISABLE_NOEXEC if for_ever => Err(Errno::EPERM),
        ENABLE => Ok(none),
        DISABLE if for_ever => Ok(asked),
        DISABLE => Ok(none.with(SpeculationControl::STORES)),
        DISABLE_NOEXEC => Ok(none.with(SpeculationControl::STORES_UNTIL_EXEC)),
        FORCE_DISABLE => Ok(none.with(SpeculationControl::STORES_FOR_EVER)),
        _ => Err(Errno::ERANGE),
    }
}
