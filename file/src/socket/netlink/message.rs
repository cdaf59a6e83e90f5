//! Messages of netlink: a head, a fixed part, and attributes.
//!
//! *Interface*: [`Message`] writes several, one behind the other; [`head`] reads that of what a program
//! sends; [`error`] is the answer that has a number alone; [`attributes`] reads.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::vec::Vec;
use bytemuck::{Pod, bytes_of};

use vm::fallible::try_extend;

pub use abi::linux::Nlmsghdr as Header;

/// Messages that are being written.
#[derive(Default)]
pub struct Message {
    bytes: Vec<u8>,
    /// The start of the current message.
    start: usize,
    /// Memory was out.
    short: bool,
}

/// The head at the start of `bytes`, if a whole message is there.
pub fn head(bytes: &[u8]) -> Option<Header> {
    let head = bytes.get(..size_of::<Header>())?;
    let header: Header = bytemuck::pod_read_unaligned(head);
    let length = header.length as usize;
    (size_of::<Header>()..=bytes.len())
        .contains(&length)
        .then_some(header)
}

impl Message {
    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that were written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes. ENOMEM.
    pub fn bytes(&self) -> Result<&[u8]> {
        match self.short {
            true => Err(Errno::ENOMEM),
            false => Ok(&self.bytes),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        let filled = bytes.len().next_multiple_of(4) - bytes.len();
        for part in [bytes, [0; 3].get(..filled).unwrap_or_default()] {
            self.short |= try_extend(&mut self.bytes, part).is_err();
        }
        // The length of the message, without what fills up the end.
        let length = self.bytes.len() - self.start;
        if let Some(at) = self.bytes.get_mut(self.start..self.start + 4) {
            at.copy_from_slice(&(length as u32).to_ne_bytes());
        }
    }

    /// Begins one of type `kind` with a fixed part.
    pub fn begin<T: Pod>(&mut self, kind: u16, flags: u16, sequence: u32, port: u32, fixed: &T) {
        self.start = self.bytes.len();
        let header = Header {
            length: 0,
            kind,
            flags,
            sequence,
            port,
        };
        self.put(bytes_of(&header));
        self.put(bytes_of(fixed));
    }

    /// Adds an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let head = [(4 + value.len()) as u16, kind];
        self.put(bytes_of(&head));
        self.put(value);
    }

    /// Adds an attribute that is a number.
    pub fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }
}

/// The answer `number` (0 for success) to the message `whole` with head `header`; it includes the request
/// after a failure, unless `short` is requested.
pub fn error(number: Errno, header: &Header, whole: &[u8], port: u32, short: bool) -> Message {
    let mut message = Message::default();
    let cut = short || number.0 == 0;
    let flags = if cut { NLM_F_CAPPED } else { 0 };
    message.begin(NLMSG_ERROR, flags, header.sequence, port, &(-number.0));
    message.put(bytes_of(header));
    if !cut {
        message.put(whole.get(size_of::<Header>()..).unwrap_or_default());
    }
    message
}

/// The attributes in `bytes`: type and value of each.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let (head, _) = rest.split_at_checked(4)?;
        let [a, b, c, d] = *head.first_chunk()?;
        let (length, kind) = (
            usize::from(u16::from_ne_bytes([a, b])),
            u16::from_ne_bytes([c, d]),
        );
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & NLA_TYPE_MASK, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut message = Message::default();
        message.begin(7, 0, 1, 2, &5_u32);
        message.attribute(3, b"lo\0");
        message.number(4, 65536);
        let bytes = message.bytes().unwrap();
        let header = head(bytes).unwrap();
        assert_eq!(header.length as usize, bytes.len());
        assert_eq!((header.kind, header.sequence, header.port), (7, 1, 2));
        let mut list = attributes(&bytes[size_of::<Header>() + 4..]);
        assert_eq!(list.next(), Some((3, b"lo\0".as_slice())));
        assert_eq!(list.next(), Some((4, 65536_u32.to_ne_bytes().as_slice())));
        assert_eq!(list.next(), None);
    }

    #[test]
    fn each_of_several_has_its_own_length() {
        let mut messages = Message::default();
        messages.begin(7, 0, 1, 2, &5_u32);
        messages.attribute(3, b"lo\0");
        messages.begin(8, 0, 1, 2, &[6_u32; 2]);
        messages.number(4, 9);
        let bytes = messages.bytes().unwrap();
        let first = head(bytes).unwrap();
        assert_eq!((first.kind, first.length), (7, 16 + 4 + 8));
        let second = head(&bytes[first.length as usize..]).unwrap();
        assert_eq!((second.kind, second.length), (8, 16 + 8 + 8));
        assert_eq!(bytes.len(), (first.length + second.length) as usize);
    }

    #[test]
    fn an_error_says_what_it_is_about() {
        let mut question = Message::default();
        question.begin(7, 0, 11, 0, &5_u32);
        let whole = question.bytes().unwrap();
        let header = head(whole).unwrap();
        for (number, short, length, flags) in [
            (Errno(0), false, 16 + 4 + 16, NLM_F_CAPPED),
            (Errno::EINVAL, true, 16 + 4 + 16, NLM_F_CAPPED),
            (Errno::EINVAL, false, 16 + 4 + 16 + 4, 0),
        ] {
            let answer = error(number, &header, whole, 9, short);
            let bytes = answer.bytes().unwrap();
            let its = head(bytes).unwrap();
            let told = (its.kind, its.length, its.flags, its.sequence, its.port);
            assert_eq!(told, (NLMSG_ERROR, length, flags, 11, 9));
            assert_eq!(bytes[16..20], (-number.0).to_ne_bytes());
            assert_eq!(bytes[20..], whole[..bytes.len() - 20]);
        }
    }

    #[test]
    fn a_head_that_says_too_much_or_too_little_is_none() {
        for length in [0_u32, 15, 21, u32::MAX] {
            let mut bytes = [0; 20];
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(head(&bytes).is_none());
        }
        assert_eq!(attributes(&[3, 0, 0, 0]).next(), None);
        assert_eq!(attributes(&[9, 0, 0, 0, 1]).next(), None);
    }
}
