//! The initial stack of a program: argument and environment strings, their addresses, the auxiliary vector.
//!
//! *Interface*: [`ArgStrings`], [`image`]. Pure: it makes the bytes, the caller puts them in place.
//!
//! Source: System V ABI, AMD64 supplement, section 3.4.1 (initial stack).

use abi::errno::{Errno, Result};
use alloc::vec::Vec;
use core::ops::Range;

use crate::process::AUX;
use vm::fallible::{try_extend, try_push, try_reserve};

/// The most bytes of argument and environment strings together, their addresses included.
pub const TOTAL_MAX: usize = 2 << 20;
/// The longest single string.
pub const STRING_MAX: usize = 128 << 10;

/// A list of strings, each ended by a NUL byte.
#[derive(Clone, Default, Debug)]
pub struct ArgStrings {
    /// The strings, one behind the other.
    pub bytes: Vec<u8>,
    /// How many there are.
    pub count: usize,
}

impl ArgStrings {
    /// Adds one. E2BIG, ENOMEM.
    pub fn push(&mut self, string: &[u8]) -> Result<()> {
        if self.bytes.len() + string.len() + 9 * (self.count + 1) > TOTAL_MAX {
            return Err(Errno::E2BIG);
        }
        try_reserve(&mut self.bytes, string.len() + 1)?;
        try_extend(&mut self.bytes, string)?;
        try_push(&mut self.bytes, 0)?;
        self.count += 1;
        Ok(())
    }

    /// The strings, without their NULs.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|&byte| byte == 0).take(self.count)
    }

    fn room(&self) -> usize {
        self.bytes.len() + 8 * (self.count + 1)
    }
}

/// Addresses that the auxiliary vector names but only the stack's layout fixes.
pub struct AuxAddresses {
    /// The 16 random bytes.
    pub random: u64,
    /// The path that was executed.
    pub execfn: u64,
    /// The name of the platform.
    pub platform: u64,
}

/// A stack's content.
pub struct StackImage {
    /// The bytes from the stack pointer on.
    pub bytes: Vec<u8>,
    /// The stack pointer.
    pub sp: usize,
    /// Address of the argument strings.
    pub arguments: Range<usize>,
    /// Address of the environment strings.
    pub environment: Range<usize>,
    /// Address of the auxiliary vector.
    pub aux: Range<usize>,
}

/// The content of the stack that ends at `top`. E2BIG, ENOMEM.
#[expect(clippy::disallowed_methods, reason = "room for all is made")]
pub fn image(
    top: usize,
    argv: &ArgStrings,
    envp: &ArgStrings,
    execfn: &[u8],
    random: [u8; 16],
    aux: impl FnOnce(AuxAddresses) -> [(u64, u64); AUX],
) -> Result<StackImage> {
    const PLATFORM: &[u8] = b"x86_64\0";
    if argv.room() + envp.room() > TOTAL_MAX {
        return Err(Errno::E2BIG);
    }
    // From the top down: a zero word, the path, the strings, the platform, the random bytes; then the
    // vectors.
    let path_at = top - 8 - (execfn.len() + 1);
    let env_at = path_at - envp.bytes.len();
    let arg_at = env_at - argv.bytes.len();
    let platform_at = arg_at - PLATFORM.len();
    let random_at = (platform_at - random.len()) & !15;
    let aux = aux(AuxAddresses {
        random: random_at as u64,
        execfn: path_at as u64,
        platform: platform_at as u64,
    });

    let mut words = Vec::new();
    try_reserve(&mut words, 3 + argv.count + envp.count + 2 * AUX)?;
    words.push(argv.count as u64);
    for (strings, at) in [(argv, arg_at), (envp, env_at)] {
        let mut at = at as u64;
        for string in strings.iter() {
            words.push(at);
            at += string.len() as u64 + 1;
        }
        words.push(0);
    }
    for (key, value) in aux {
        words.extend([key, value]);
    }
    let sp = (random_at - 8 * words.len()) & !15;

    let aux_at = sp + 8 * (words.len() - 2 * AUX);
    let mut bytes = Vec::new();
    try_reserve(&mut bytes, top - sp)?;
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(random_at - sp, 0);
    bytes.extend(random);
    bytes.resize(platform_at - sp, 0);
    bytes.extend_from_slice(PLATFORM);
    bytes.extend_from_slice(&argv.bytes);
    bytes.extend_from_slice(&envp.bytes);
    bytes.extend_from_slice(execfn);
    bytes.resize(top - sp, 0);
    Ok(StackImage {
        bytes,
        sp,
        arguments: arg_at..arg_at + argv.bytes.len(),
        environment: env_at..env_at + envp.bytes.len(),
        aux: aux_at..aux_at + 16 * AUX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> ArgStrings {
        let mut strings = ArgStrings::default();
        list.iter()
            .for_each(|s| strings.push(s.as_bytes()).unwrap());
        strings
    }

    #[test]
    fn the_vectors_point_at_the_strings() {
        let top = 0x7fff_0000;
        let (argv, envp) = (strings(&["sh", "-c", ""]), strings(&["A=1", "HOME=/"]));
        let made = image(top, &argv, &envp, b"/bin/sh", [7; 16], |placed| {
            let mut aux = [(0, 0); AUX];
            aux[..2].copy_from_slice(&[(25, placed.random), (31, placed.execfn)]);
            aux
        })
        .unwrap();
        let (bytes, sp) = (made.bytes, made.sp);
        assert_eq!(sp % 16, 0);
        assert_eq!(bytes.len(), top - sp);
        let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
        let text = |at: u64| {
            let from = &bytes[at as usize - sp..];
            &from[..from.iter().position(|&b| b == 0).unwrap()]
        };
        assert_eq!(word(0), 3);
        assert_eq!(
            [text(word(1)), text(word(2)), text(word(3))],
            [&b"sh"[..], b"-c", b""]
        );
        assert_eq!(word(4), 0);
        assert_eq!([text(word(5)), text(word(6))], [&b"A=1"[..], b"HOME=/"]);
        assert_eq!(word(7), 0);
        assert_eq!(word(8), 25);
        let random = word(9) as usize - sp;
        assert_eq!(bytes[random..random + 16], [7; 16]);
        assert_eq!((word(10), text(word(11))), (31, &b"/bin/sh"[..]));
        assert_eq!((word(12), word(13)), (0, 0));
        let at = |range: Range<usize>| &bytes[range.start - sp..range.end - sp];
        assert_eq!(at(made.arguments), b"sh\0-c\0\0");
        assert_eq!(at(made.environment), b"A=1\0HOME=/\0");
    }

    #[test]
    fn too_much_is_refused() {
        let mut strings = ArgStrings::default();
        let part = alloc::vec![b'x'; 100_000];
        let mut pushed = 0;
        while strings.push(&part).is_ok() {
            pushed += 1;
        }
        assert_eq!(pushed, TOTAL_MAX / 100_010);
        assert_eq!(strings.push(&part), Err(Errno::E2BIG));
    }
}
