//! The receiver of a file's signals ([`file::fasync`], `F_SETOWN`): a thread, a process or a group.
//!
//! *Interface*: [`by_kind`] finds them as `F_SETOWN_EX` names them.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::{Arc, Weak};

use crate::process::{Process, Task, tree};
use file::callout::{FileSignal, FoundReceiver, SignalReceiver};
use vm::fallible::try_arc;

enum Whom {
    Thread(Weak<Task>),
    Process(Weak<Process>),
    Group(i32),
}

/// As `F_SETOWN_EX` has it. ESRCH, EINVAL, ENOMEM.
pub fn by_kind(kind: i32, number: i32) -> Result<FoundReceiver> {
    let process = tree::find(number);
    let task = tree::find_task(number);
    let there = process.is_some() || task.is_some() || tree::members(number) != 0;
    if !matches!(kind, F_OWNER_TID | F_OWNER_PID | F_OWNER_PGRP) {
        return Err(Errno::EINVAL);
    }
    if number == 0 {
        return Ok(None);
    }
    if !there {
        return Err(Errno::ESRCH);
    }
    let whom = match kind {
        F_OWNER_TID => Whom::Thread(task.map(|task| Arc::downgrade(&task)).unwrap_or_default()),
        F_OWNER_PID => Whom::Process(process.as_ref().map(Arc::downgrade).unwrap_or_default()),
        _ => Whom::Group(number),
    };
    Ok(Some(try_arc(whom)?))
}

impl SignalReceiver for Whom {
    fn number(&self) -> (i32, i32) {
        match self {
            Whom::Thread(task) => (F_OWNER_TID, task.upgrade().map_or(0, |task| task.tid)),
            Whom::Process(process) => {
                let there = process.upgrade().filter(|process| !process.is_gone());
                (F_OWNER_PID, there.map_or(0, |process| process.pid))
            }
            Whom::Group(group) => {
                let there = tree::members(*group) != 0;
                (F_OWNER_PGRP, if there { *group } else { 0 })
            }
        }
    }

    fn tell(&self, call: &FileSignal) {
        match self {
            Whom::Thread(task) => {
                if let Some(task) = task.upgrade() {
                    tell(call, &task.process, Some(&task));
                }
            }
            Whom::Process(process) => {
                if let Some(process) = process.upgrade() {
                    tell(call, &process, None);
                }
            }
            Whom::Group(group) => {
                super::each_of_group(*group, |process| tell(call, process, None));
            }
        }
    }
}

/// Sends `process`, or its thread `task`, the signal.
fn tell(call: &FileSignal, process: &Arc<Process>, task: Option<&Arc<Task>>) {
    let to = process.cred.get();
    if !call.may_tell(&to) {
        return;
    }
    if let Some(info) = call.info
        && super::send(process, task, info).is_ok()
    {
        return;
    }
    let plain = Siginfo::sent(SIGIO, SI_KERNEL, 0, 0);
    // A failure here means that the receiver's queue is full.
    let _untold = super::send(process, task, plain);
}
