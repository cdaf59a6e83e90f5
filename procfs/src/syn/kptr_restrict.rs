//! Kernel addresses (Linux: `kptr_restrict`): who has `CAP_SYSLOG` sees them; for others zeros stand in
//! their place.
//!
//! *Interface.* [`KptrRestrict::now`] is what the caller may see; who looks a text up decides by that what
//! the text shows, whoever reads it then. [`KptrRestrict::address`] is an address to print,
//! [`KptrRestrict::listing`] prints a listing.

use core::fmt::{self, Write};

use account::Capability;
use file::fs::pseudofs::TextOut;
use process::Process;

/// Numbers from here on may be addresses, or say how far addresses lie apart.
const SUSPECT: u64 = 1 << 20;
/// Columns of a listing's line before the instruction: its offset and its bytes.
const OFFSET: usize = 7;
const BYTES: usize = 24;

/// Whether addresses are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KptrRestrict(bool);

impl KptrRestrict {
    /// For the calling process.
    pub fn now() -> KptrRestrict {
        KptrRestrict(
            !Process::current()
                .cred
                .with(|cred| cred.has(Capability::Syslog)),
        )
    }

    /// `address`, or 0.
    pub fn address(self, address: usize) -> usize {
        if self.0 { 0 } else { address }
    }

    /// Prints to `out` what `list` lists: as it is, or without the bytes and the large numbers.
    pub fn listing<R>(self, out: &mut TextOut, list: impl FnOnce(&mut dyn Write) -> R) -> R {
        if !self.0 {
            return list(out);
        }
        let mut lines = Lines {
            out,
            line: Line::default(),
        };
        let listed = list(&mut lines);
        lines.end();
        listed
    }
}

/// As much of a line as is kept; no line of a listing is longer.
const LONGEST: usize = 256;

struct Line {
    text: [u8; LONGEST],
    used: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            text: [0; LONGEST],
            used: 0,
        }
    }
}

struct Lines<'a> {
    out: &'a mut TextOut,
    line: Line,
}

impl Lines<'_> {
    fn end(&mut self) {
        let text = self.line.text.get(..self.line.used).unwrap_or_default();
        hide_addresses(text, |piece| self.out.push_bytes(piece));
        self.line.used = 0;
    }
}

impl Write for Lines<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.end();
                self.out.push('\n');
            } else if let Some(place) = self.line.text.get_mut(self.line.used) {
                *place = byte;
                self.line.used += 1;
            }
        }
        Ok(())
    }
}

/// Calls `push` with the pieces of `line`, without its bytes if it is one of instructions, and with 0 for
/// every number that may be an address.
fn hide_addresses(line: &[u8], mut push: impl FnMut(&[u8])) {
    let mut rest = line;
    if let Some((offset, behind)) = line.split_at_checked(OFFSET)
        && offset.ends_with(b"  ")
        && offset.trim_ascii().iter().all(u8::is_ascii_hexdigit)
        && let Some((_bytes, instruction)) = behind.split_at_checked(BYTES - 2)
    {
        push(offset);
        rest = instruction.trim_ascii_start();
    }
    while let Some(at) = rest.windows(2).position(|two| two == b"0x") {
        let (before, number) = rest.split_at(at + 2);
        let length = number.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let (digits, behind) = number.split_at(length);
        push(before);
        push(if is_suspect(digits) { b"0" } else { digits });
        rest = behind;
    }
    push(rest);
}

fn is_suspect(digits: &[u8]) -> bool {
    let text = core::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(text, 16).is_ok_and(|number| number >= SUSPECT)
}

#[cfg(test)]
mod tests {
    use super::hide_addresses;
    use std::string::String;

    fn through(line: &str) -> String {
        let mut text = std::vec::Vec::new();
        hide_addresses(line.as_bytes(), |piece| text.extend_from_slice(piece));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn bytes_and_large_numbers_go() {
        let line = "   1f  488b0425a0c3f981      mov rax, qword [0xffffffff81f9c3a0]";
        assert_eq!(through(line), "   1f  mov rax, qword [0x0]");
        let line = "    7  4881fa00000100        cmp rdx, 0x10000";
        assert_eq!(through(line), "    7  cmp rdx, 0x10000");
        let line = "    0  e9db020000            jmp $+0x2db  ; 0xffffffffc0001234";
        assert_eq!(through(line), "    0  jmp $+0x2db  ; 0x0");
        assert_eq!(
            through("    0  90                    mov eax, [-0x7e063c60]"),
            "    0  mov eax, [-0x0]"
        );
    }

    #[test]
    fn of_a_heading_only_large_numbers_go() {
        let line = "file write write owner 7 at 0xffffffffc0001234, 120 bytes";
        assert_eq!(through(line), "file write write owner 7 at 0x0, 120 bytes");
        assert_eq!(through(""), "");
        assert_eq!(through("short"), "short");
    }
}
