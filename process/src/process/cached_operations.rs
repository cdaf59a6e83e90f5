//! Cached operations: operations of descriptors that a program calls by system-call numbers of its own.
//!
//! *Interface*: [`CachedOperations`] is in the [`Program`]'s record: [`of`] finds it, [`change`] puts another
//! in its place. The dispatchers that answer the numbers are in `dispatch/cached.rs`.

use abi::errno::Result;
use abi::native;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use vm::fallible::try_arc;

use super::{Process, Program};

/// A descriptor and one of its operations: the number of one of Linux's calls, or [`native::STUB_ENTRY`] and
/// that of a callentry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedOperation {
    /// The descriptor.
    pub fd: u32,
    /// The operation.
    pub operation: u32,
}

impl CachedOperation {
    /// The number of the callentry that it is.
    pub fn callentry(self) -> Option<usize> {
        (self.operation as usize).checked_sub(native::STUB_ENTRY)
    }
}

/// How many [`CachedOperations`] there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Those of a program, by number; some.
#[derive(PartialEq, Eq)]
pub struct CachedOperations(OperationArray);

pub(crate) type OperationArray = [Option<CachedOperation>; native::CACHED_MOST];

impl CachedOperations {
    fn new(places: OperationArray) -> CachedOperations {
        COUNT.fetch_add(1, Ordering::SeqCst);
        CachedOperations(places)
    }

    /// By number, from [`native::CACHED`] on.
    pub fn places(&self) -> &[Option<CachedOperation>; native::CACHED_MOST] {
        &self.0
    }
}

impl Drop for CachedOperations {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Those of the program of `process`.
pub(crate) fn of(process: &Process) -> Option<Arc<CachedOperations>> {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    // Bound: copying one counted handle, or the program's record with another set of numbers.
    process.program.lock().cached.clone()
}

/// Changes the numbers of the program's by `step`.
pub(crate) fn change<R>(
    process: &Process,
    step: impl FnOnce(&mut OperationArray) -> Result<R>,
) -> Result<R> {
    let mut program = process.program.lock();
    let mut places = program
        .cached
        .as_ref()
        .map_or_else(OperationArray::default, |cached| cached.0);
    let result = step(&mut places)?;
    let mut changed = Program::clone(&program);
    changed.cached = match places.iter().any(Option::is_some) {
        true => Some(try_arc(CachedOperations::new(places))?),
        false => None,
    };
    *program = try_arc(changed)?;
    Ok(result)
}
