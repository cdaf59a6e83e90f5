//! Archives one after another, and what is cut off or wrong.

use super::archive::{add, end};
use super::*;

#[test]
fn archives_follow_one_another() {
    let mut a = Vec::new();
    add(&mut a, 1, 0o040755, 2, "dir", b"");
    add(&mut a, 2, 0o100644, 1, "dir/f", b"hello");
    end(&mut a);
    add(&mut a, 3, 0o120777, 1, "l", b"dir/f");
    end(&mut a);
    let found: Vec<_> = entries(&a).map(|e| e.unwrap()).collect();
    let names: Vec<_> = found.iter().map(|e| (e.name, e.archive)).collect();
    assert_eq!(names, [(&b"dir"[..], 0), (b"dir/f", 0), (b"l", 1)]);
    assert_eq!(found[1].data, b"hello");
    assert_eq!((found[1].mtime, found[1].rdev), (77, (1, 3)));
}

#[test]
fn truncated_anywhere_never_panics() {
    let mut a = Vec::new();
    add(&mut a, 1, 0o100644, 1, "name", b"some data");
    end(&mut a);
    for len in 0..a.len() {
        let all: Vec<_> = entries(&a[..len]).collect();
        assert!(all.len() <= 2);
    }
    let mut b = a.clone();
    b[6 + 8 * 6] = b'f';
    assert_eq!(entries(&b).next(), Some(Err(Corrupt(0))));
    assert_eq!(entries(b"garbage").next(), Some(Err(Corrupt(0))));
}
