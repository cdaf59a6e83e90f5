//! The generated code against a device in Rust that has nothing but the ring.
//!
//! *Unsafe*: a device that has nothing but the ring.

use super::*;
use crate::registers::Registers;
use quaject::interfacer::link;
use quaject::join;
use quaject::queue::{Parties, Q_EMPTY_1, Q_FULL_1};
use std::sync::atomic::AtomicU16;

const SIZE: usize = 256;

mod owner {
    quaject::quaject! {
        /// Submits
        presence Owner = "Owner" { callentry { SUBMIT: quaject::signature::Event = "submit" } }
    }
}

/// Everything at one end, and what a device sees of it.
struct Rig {
    queue: Ref<ByteQueue>,
    flow: Arc<ZeroCopyQueue>,
    ring: Virtqueue,
    notified: NearBlock,
    handler: Routine<extern "sysv64" fn()>,
    seen: u16,
}

fn rig(way: QueueDirection, several_cpus: bool) -> Rig {
    codegen::host::link();
    let (from, to) = match way {
        QueueDirection::In => (Parties::One, Parties::Many),
        QueueDirection::Out => (Parties::Many, Parties::One),
    };
    let queue = join::queue(from, to, SIZE, several_cpus).unwrap();
    let ring = Virtqueue::new(1).unwrap();
    let notified = NearBlock::new(2).unwrap();
    let register = Registers::of_block(&notified);
    let flow =
        Arc::new(ZeroCopyQueue::new(way, &queue, &ring, Doorbell::model(register, 7)).unwrap());
    let owner = owner::Owner::present().unwrap();
    let submit = starter(&flow, owner.header()).unwrap();
    let port = match way {
        QueueDirection::In => Q_FULL_1,
        QueueDirection::Out => Q_EMPTY_1,
    };
    link(&queue, port, submit.entry()).unwrap();
    static CLASS: Class = Class::new("test");
    let mut draft = Draft::new(&CLASS, "handler");
    flow.emit(&mut draft);
    let d = &mut draft;
    dynasm!(d ; .arch x64 ; ret);
    // SAFETY: the rig keeps what it names, and it changes rax, rcx and rdx alone.
    let handler = unsafe { Routine::from(draft.seal().unwrap()) };
    submit.start();
    Rig {
        queue,
        flow,
        ring,
        notified,
        handler,
        seen: 0,
    }
}

impl Rig {
    fn word<T: Copy>(&self, at: i32) -> T {
        // SAFETY: a word of the ring.
        unsafe { core::ptr::with_exposed_provenance::<T>(at as usize).read_volatile() }
    }

    /// The buffer that is in flight: address and length.
    fn buffer(&self) -> Option<(usize, usize)> {
        let words = self.ring.words().unwrap();
        let available: u16 = self.word(words.available);
        assert!(
            available.wrapping_sub(self.seen) <= 1,
            "more than one in flight"
        );
        if available == self.seen {
            return None;
        }
        // SAFETY: the block holds one word.
        let told = unsafe { self.notified.at().cast::<AtomicU16>().as_ref() };
        assert_eq!(told.swap(0, Ordering::Relaxed), 7, "not announced");
        let len: u32 = self.word(words.descriptors + 8);
        Some((self.word(words.descriptors), len as usize))
    }

    /// The device is done with it.
    fn used(&mut self, len: u32) {
        let words = self.ring.words().unwrap();
        self.seen = self.seen.wrapping_add(1);
        // SAFETY: words of the ring.
        unsafe {
            core::ptr::with_exposed_provenance_mut::<u32>(words.records as usize + 4)
                .write_volatile(len);
            core::ptr::with_exposed_provenance_mut::<u16>(words.used as usize)
                .write_volatile(self.seen);
        }
    }

    fn interrupt(&self) {
        self.handler.function()();
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn what_is_put_is_what_the_device_gets() {
    for several in [false, true] {
        let mut rig = rig(QueueDirection::Out, several);
        let mut random = Random(1);
        let (mut put, mut got) = (Vec::<u8>::new(), Vec::new());
        for _ in 0..20_000 {
            match random.below(3) {
                0 => {
                    let bytes: Vec<u8> = (0..random.below(100))
                        .map(|n| (put.len() + n) as u8)
                        .collect();
                    let count = rig.queue.write(&bytes);
                    put.extend(&bytes[..count]);
                }
                1 => rig.interrupt(),
                _ => {
                    let Some((at, len)) = rig.buffer() else {
                        continue;
                    };
                    assert!((1..=SIZE).contains(&len));
                    // SAFETY: the buffer is part of the queue's places.
                    got.extend(unsafe {
                        core::slice::from_raw_parts(
                            core::ptr::with_exposed_provenance::<u8>(at),
                            len,
                        )
                    });
                    rig.used(0);
                    // Not always told at once; another interrupt makes nothing of it twice.
                    (0..random.below(3)).for_each(|_| rig.interrupt());
                    if rig.word::<u16>(rig.ring.words().unwrap().available) == rig.seen {
                        continue;
                    }
                }
            }
            // A buffer is announced once; look again with the mark set.
            // SAFETY: the block holds one word.
            unsafe { rig.notified.at().cast::<AtomicU16>().as_ref() }.store(7, Ordering::Relaxed);
        }
        assert!(got.len() > 100_000);
        assert!(put[..got.len()] == got[..] && put.len() - got.len() <= SIZE);
        assert!(!rig.flow.is_broken());
    }
}

#[test]
fn what_the_device_brings_is_what_is_got_and_no_byte_more() {
    for several in [false, true] {
        let mut rig = rig(QueueDirection::In, several);
        let mut random = Random(2);
        let (mut brought, mut got) = (0usize, 0usize);
        for _ in 0..20_000 {
            match random.below(3) {
                0 => {
                    let mut into = vec![0; random.below(150)];
                    let count = rig.queue.read(&mut into);
                    for byte in &into[..count] {
                        assert_eq!(*byte, got as u8);
                        got += 1;
                    }
                }
                1 => rig.interrupt(),
                _ => {
                    let Some((at, len)) = rig.buffer() else {
                        // Nothing to fill: more than half of the queue waits for its reader, or the handler
                        // has not run.
                        rig.interrupt();
                        let idle = rig.word::<u16>(rig.ring.words().unwrap().available) == rig.seen;
                        assert!(!idle || rig.queue.len() > SIZE / 2);
                        // SAFETY: the block holds one word.
                        unsafe { rig.notified.at().cast::<AtomicU16>().as_ref() }
                            .store(7, Ordering::Relaxed);
                        continue;
                    };
                    let filled = random.below(len + 1);
                    for offset in 0..filled {
                        // SAFETY: the buffer is free places of the queue.
                        unsafe {
                            core::ptr::with_exposed_provenance_mut::<u8>(at + offset)
                                .write(brought as u8)
                        };
                        brought += 1;
                    }
                    rig.used(filled as u32);
                    (0..random.below(3)).for_each(|_| rig.interrupt());
                }
            }
            // SAFETY: the block holds one word.
            unsafe { rig.notified.at().cast::<AtomicU16>().as_ref() }.store(7, Ordering::Relaxed);
        }
        assert!(got > 100_000 && brought - got <= SIZE);
        assert!(!rig.flow.is_broken());
    }
}

#[test]
fn a_device_that_claims_more_than_it_was_given_is_used_no_further() {
    let mut rig = rig(QueueDirection::In, false);
    let (_, len) = rig.buffer().unwrap();
    rig.used(len as u32 + 1);
    rig.interrupt();
    rig.interrupt();
    assert!(rig.flow.is_broken() && rig.queue.is_empty());
    assert!(rig.buffer().is_none());
}
