//! Room in a list that a monitor guards, made while the monitor is not held.
//!
//! *Interface*: [`roomy`] takes the monitor when the list has room for more; so the caller's additions need
//! no memory. [`Growing`] are the lists it knows.

use abi::errno::Result;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use sync::{Guard, Monitor};

use super::{try_queue, try_reserve};

/// A list that can move to a larger place.
pub trait Growing: Sized {
    /// An empty one for `count` elements. ENOMEM.
    fn roomy(count: usize) -> Result<Self>;
    /// Elements.
    fn count(&self) -> usize;
    /// Elements that it has room for.
    fn room(&self) -> usize;
    /// Its elements go to `other`, which has room for them.
    fn move_to(&mut self, other: &mut Self);
}

macro_rules! growing {
    ($list:ident, $empty:expr) => {
        impl<T> Growing for $list<T> {
            fn roomy(count: usize) -> Result<Self> {
                $empty(count)
            }

            fn count(&self) -> usize {
                self.len()
            }

            fn room(&self) -> usize {
                self.capacity()
            }

            #[expect(clippy::disallowed_methods, reason = "there is room")]
            fn move_to(&mut self, other: &mut Self) {
                other.append(self);
            }
        }
    };
}

growing!(Vec, try_list);
growing!(VecDeque, try_queue);

fn try_list<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    try_reserve(&mut list, count)?;
    Ok(list)
}

/// Locks `guard`, once its list `of` has room for `more` elements. ENOMEM.
pub fn roomy<'a, T, L: Growing>(
    guard: &'a Monitor<T>,
    of: fn(&mut T) -> &mut L,
    more: usize,
) -> Result<Guard<'a, T>> {
    loop {
        // Bound: what the list's own bound says; when it grows, moving it.
        let mut held = guard.lock();
        let list = of(&mut held);
        let count = list.count();
        if list.room() - count >= more {
            return Ok(held);
        }
        drop(held);
        let mut other = L::roomy((2 * count + more).max(4))?;
        let mut held = guard.lock();
        let list = of(&mut held);
        if list.count() <= other.room() {
            list.move_to(&mut other);
            core::mem::swap(list, &mut other);
        }
        drop(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_while_the_list_grows() {
        let list = Monitor::new(VecDeque::new());
        for number in 0..100 {
            let mut held = roomy(&list, |list| list, 1).unwrap();
            let room = held.capacity();
            held.push_back(number);
            assert_eq!(held.capacity(), room);
        }
        assert!(list.lock().iter().copied().eq(0..100));
    }
}
