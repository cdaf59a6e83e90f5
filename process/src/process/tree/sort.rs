//! Sorting by keys that others may change meanwhile.
//!
//! *Interface*: [`sort`].
//!
//! The library's sorting panics when it finds that the keys have no order. Here such a list is in some order
//! at the end, and whole.
//! Source: heapsort (Williams 1964).

/// Sorts `list` in place by `key`, which may be of something shared. The time is O(n log n) in any case.
pub(crate) fn sort<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    for root in (0..list.len() / 2).rev() {
        sink(list, root, &key);
    }
    for end in (1..list.len()).rev() {
        list.swap(0, end);
        sink(&mut list[..end], 0, &key);
    }
}

/// Moves the entry at `at` down until none below it has a larger key.
fn sink<T, K: Ord>(list: &mut [T], mut at: usize, key: &impl Fn(&T) -> K) {
    loop {
        let mut below = 2 * at + 1;
        if below >= list.len() {
            return;
        }
        if below + 1 < list.len() && key(&list[below]) < key(&list[below + 1]) {
            below += 1;
        }
        if key(&list[at]) >= key(&list[below]) {
            return;
        }
        list.swap(at, below);
        at = below;
    }
}

#[cfg(test)]
mod tests {
    use super::sort;
    use std::cell::Cell;

    #[test]
    fn keys_that_stay_are_in_order() {
        for count in 0..70 {
            let mut list: Vec<u32> = (0..count).map(|n| n * 37 % 11).collect();
            sort(&mut list, |n| *n);
            assert!(list.is_sorted());
            assert_eq!(list.len(), count as usize);
        }
    }

    #[test]
    fn keys_that_change_do_no_harm() {
        for round in 1..500_u64 {
            let last = Cell::new(round);
            let key = |_: &u32| {
                let mut next = last.get();
                next ^= next << 13;
                next ^= next >> 7;
                next ^= next << 17;
                last.set(next);
                next
            };
            let mut list: Vec<u32> = (0..100).collect();
            sort(&mut list, key);
            list.sort_unstable();
            assert!(list.into_iter().eq(0..100));
        }
    }
}
