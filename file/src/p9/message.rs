//! Messages of 9P2000.L: how numbers and strings lie in them, and what an answer must look like.
//!
//! *Interface*: a [`Writer`] fills a question, [`open`] looks at an answer and gives a [`Reader`] of what it
//! says, or the error that it is.
//!
//! A file server may answer anything. A [`Reader`] never reads beyond the answer, and what is not there, or
//! not as it must be, is EIO. The asker judges the meaning of a number.
//! Source: 9P2000.L as QEMU's `docs/` and diod's `protocol.md` describe it; Plan 9's manual, section 5.

use abi::errno::{Errno, Result};

/// Bytes before what a message says: its length (32 bits), its kind (8), its tag (16).
pub const HEAD: usize = 7;

/// The kind of an answer that is an error.
const ERROR: u8 = 7;

/// Kinds of questions; the kind of the answer is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageType {
    Statfs = 8,
    Open = 12,
    Create = 14,
    Symlink = 16,
    Mknod = 18,
    Readlink = 22,
    Getattr = 24,
    Setattr = 26,
    Readdir = 40,
    Fsync = 50,
    Link = 70,
    Mkdir = 72,
    Renameat = 74,
    Unlinkat = 76,
    Version = 100,
    Attach = 104,
    Walk = 110,
    Read = 116,
    Write = 118,
    Clunk = 120,
}

/// A question on its way into `bytes`.
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
    /// Something did not fit.
    full: bool,
}

impl<'a> Writer<'a> {
    /// A question of `kind` that says nothing yet.
    pub fn new(bytes: &'a mut [u8], kind: MessageType, tag: u16) -> Writer<'a> {
        let mut writer = Writer {
            bytes,
            at: 0,
            full: false,
        };
        writer.u32(0);
        writer.u8(kind as u8);
        writer.u16(tag);
        writer
    }

    fn bytes(&mut self, from: &[u8]) {
        match self.room().get_mut(..from.len()) {
            Some(to) => {
                to.copy_from_slice(from);
                self.at += from.len();
            }
            None => self.full = true,
        }
    }

    /// A number of 8 bits.
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// One of 16.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// One of 32.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// One of 64.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// A string: its length, then its bytes.
    pub fn string(&mut self, text: &[u8]) {
        match u16::try_from(text.len()) {
            Ok(len) => {
                self.u16(len);
                self.bytes(text);
            }
            Err(_) => self.full = true,
        }
    }

    /// The free room behind the written bytes.
    pub fn room(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.at..).unwrap_or_default()
    }

    /// Counts `count` bytes of [`Writer::room`] as written, and puts their number in the place of the 32 bits
    /// before them.
    pub fn filled(&mut self, count: usize) {
        let number = (count as u32).to_le_bytes();
        let place = self.at.checked_sub(number.len());
        let fits = count <= self.room().len();
        match place.and_then(|at| self.bytes.get_mut(at..self.at)) {
            Some(place) if fits => {
                place.copy_from_slice(&number);
                self.at += count;
            }
            _ => self.full = true,
        }
    }

    /// Writes the length into the head. How many bytes the question has. ENAMETOOLONG: it does not fit.
    pub fn finish(self) -> Result<usize> {
        let length = (self.at as u32).to_le_bytes();
        match self.bytes.get_mut(..length.len()) {
            Some(place) if !self.full => place.copy_from_slice(&length),
            _ => return Err(Errno::ENAMETOOLONG),
        }
        Ok(self.at)
    }
}

/// The contents of the answer `bytes` to a question of `kind` with this tag. EIO for nonsense, else the error
/// that the server answered.
pub fn open(bytes: &[u8], kind: MessageType, tag: u16) -> Result<Reader<'_>> {
    let mut reader = Reader(bytes);
    let length = reader.u32()? as usize;
    let (answer, its_tag) = (reader.u8()?, reader.u16()?);
    let content = length.checked_sub(HEAD).and_then(|len| reader.0.get(..len));
    let mut reader = Reader(content.ok_or(Errno::EIO)?);
    match answer {
        _ if its_tag != tag => Err(Errno::EIO),
        ERROR => Err(error(reader.u32()?)),
        answer if answer == kind as u8 + 1 => Ok(reader),
        _ => Err(Errno::EIO),
    }
}

/// The error that a server calls `number`. A number that programs do not know is EIO.
fn error(number: u32) -> Errno {
    /// Of Linux's numbers the last.
    const LAST: u32 = 133;
    match number {
        1..=LAST => Errno(number as i32),
        _ => Errno::EIO,
    }
}

/// The rest of an answer.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Of what an answer holds.
    pub fn of(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// The next `count` bytes. EIO.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Errno::EIO)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes(N)?;
        bytes.try_into().map_err(|_| Errno::EIO)
    }

    /// A number of 8 bits. EIO.
    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// One of 16. EIO.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// One of 32. EIO.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// One of 64. EIO.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A string. EIO.
    pub fn string(&mut self) -> Result<&'a [u8]> {
        let len = self.u16()?;
        self.bytes(len.into())
    }

    /// As many bytes as a number before them says. EIO.
    pub fn data(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()?;
        self.bytes(len as usize)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
