//! A byte queue between one thread and one interrupt handler.
//!
//! *Interface*: [`Ring::push`], [`Ring::pop`], never waiting; [`Ring::addresses`] for the handler's generated half.
//! One producer and one consumer at a time; the owner serializes threads with a monitor. Wait-free.
//! Head and tail count bytes for ever and are taken modulo the size; the producer publishes the tail after
//! the byte (release), the consumer the head after it has read (release).
//!
//! Source: Massalin and Pu 1989, figure 1 (SP-SC queue).

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

/// A queue of `N` bytes, a power of two.
#[repr(C)]
pub struct Ring<const N: usize> {
    head: AtomicU32,
    tail: AtomicU32,
    bytes: UnsafeCell<[u8; N]>,
}

/// Where a ring's parts are, for generated code.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Of the consumer's count.
    pub head: i32,
    /// Of the producer's count.
    pub tail: i32,
    /// Of the first byte.
    pub bytes: i32,
    /// Size in bytes.
    pub size: i32,
}

// SAFETY: the two parties touch disjoint bytes, handed over through head and tail.
unsafe impl<const N: usize> Sync for Ring<N> {}

impl<const N: usize> Ring<N> {
    pub const fn new() -> Self {
        assert!(N.is_power_of_two());
        Ring {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            bytes: UnsafeCell::new([0; N]),
        }
    }

    pub fn len(&self) -> usize {
        let tail = self.tail.load(Ordering::Acquire);
        tail.wrapping_sub(self.head.load(Ordering::Acquire)) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Producer: puts as many of `bytes` as fit.
    pub fn push(&self, bytes: &[u8]) -> usize {
        let tail = self.tail.load(Ordering::Relaxed);
        let count = bytes.len().min(N - self.len());
        for (i, &byte) in bytes[..count].iter().enumerate() {
            let place = tail.wrapping_add(i as u32) as usize & (N - 1);
            // SAFETY: the place is free, and the consumer does not read it before the tail is published.
            unsafe { self.bytes.get().cast::<u8>().add(place).write(byte) };
        }
        self.tail
            .store(tail.wrapping_add(count as u32), Ordering::Release);
        count
    }

    /// Consumer: takes as many bytes as there are, up to the buffer's length.
    pub fn pop(&self, buffer: &mut [u8]) -> usize {
        let head = self.head.load(Ordering::Relaxed);
        let count = buffer.len().min(self.len());
        for (i, byte) in buffer[..count].iter_mut().enumerate() {
            let place = head.wrapping_add(i as u32) as usize & (N - 1);
            // SAFETY: the place was published by the producer, who does not write it before the head moves.
            *byte = unsafe { self.bytes.get().cast::<u8>().add(place).read() };
        }
        self.head
            .store(head.wrapping_add(count as u32), Ordering::Release);
        count
    }

    /// The parts' addresses, which must be in the top or bottom two gigabytes.
    pub fn addresses(&'static self) -> Addresses {
        Addresses {
            head: super::synth::address(&self.head),
            tail: super::synth::address(&self.tail),
            bytes: self.bytes.get() as usize as i32,
            size: N as i32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_across_the_wrap() {
        let ring = Ring::<8>::new();
        let mut out = [0; 8];
        assert_eq!(ring.push(b"abcdef"), 6);
        assert_eq!(ring.pop(&mut out[..4]), 4);
        assert_eq!(ring.push(b"ghijklmn"), 6);
        assert_eq!(ring.push(b"x"), 0);
        assert_eq!(ring.pop(&mut out), 8);
        assert_eq!(&out, b"efghijkl");
        assert!(ring.is_empty());
    }
}
