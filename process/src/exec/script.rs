//! The first line of a script: `#! interpreter [argument]`.
//!
//! *Interface*: [`parse`].

/// The longest first line that counts, in bytes.
pub const LINE_MAX: usize = 256;

/// The interpreter's path and its one argument, if `head` starts a script. `None`: it does not, or names no
/// interpreter.
pub fn parse(head: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let line = head.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(LINE_MAX - 2)];
    // Without a newline the path may be cut off: only a complete path counts.
    let end = line.iter().position(|&b| b == b'\n' || b == 0);
    let line = match end {
        Some(end) => &line[..end],
        None if head.len() < LINE_MAX => line,
        None => &line[..line.iter().rposition(|&b| blank(b))?],
    };
    let line = line.trim_ascii();
    let split = line.iter().position(|&b| blank(b));
    let (path, argument) = match split {
        Some(at) => (&line[..at], Some(line[at..].trim_ascii())),
        None => (line, None),
    };
    if path.is_empty() {
        None
    } else {
        Some((path, argument.filter(|a| !a.is_empty())))
    }
}

fn blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(parse(b"#!/bin/sh\necho"), Some((&b"/bin/sh"[..], None)));
        assert_eq!(
            parse(b"#! /bin/awk -f  x \n"),
            Some((&b"/bin/awk"[..], Some(&b"-f  x"[..])))
        );
        assert_eq!(parse(b"#!/bin/sh"), Some((&b"/bin/sh"[..], None)));
        assert_eq!(parse(b"#!\n/bin/sh"), None);
        assert_eq!(parse(b"#"), None);
        assert_eq!(parse(b"\x7fELF"), None);
    }

    #[test]
    fn a_path_cut_off_is_none() {
        let mut long = b"#!/".to_vec();
        long.resize(400, b'a');
        assert_eq!(parse(&long), None);
        long[200] = b' ';
        assert_eq!(parse(&long).map(|(path, _)| path.len()), Some(198));
    }
}
