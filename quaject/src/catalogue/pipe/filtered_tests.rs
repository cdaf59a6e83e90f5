//! A pipe's routines with filters behind them against the pipe's twins and the filters' plain twins, while
//! filters are inserted and removed.

use super::rig::{Load, Pair};
use super::{PipeCore, Sharing};
use crate::catalogue::composed::Composed;
use crate::catalogue::filter::tests::Both;
use crate::catalogue::filtered::{Filtered, Landed, MOST};
use crate::catalogue::stream::{Course, Stream};
use crate::catalogue::testing::{Ended, Random, call, called_within, leaked, listing};
use crate::kit::class::{Ref, create};
use crate::kit::named::{insert, remove};
use crate::kit::seam::{Conv, DescFn, Seam};
use abi::nr;
use alloc::sync::Arc;
use codegen::{Draft, Routine, dynasm};

const ME: usize = 0x1234;
const RING: usize = 4096;

fn identity(d: &mut Draft) {
    dynasm!(d ; .arch x64 ; mov eax, ME as i32);
}

/// One way: the composed routine, and the filters with their twins.
struct OneWay {
    course: Course,
    composed: Arc<Composed>,
    chain: Vec<Both>,
}

impl OneWay {
    fn new(
        course: Course,
        stream: &Ref<Stream>,
        inner: &Routine<DescFn>,
        core: &PipeCore,
        seam: &'static Seam,
    ) -> Self {
        let (number, landed) = match course {
            Course::Incoming => (nr::READ, Landed::There),
            Course::Outgoing => (nr::WRITE, Landed::in_pipe(core).unwrap()),
        };
        let composed = Composed::new("test", number, seam).unwrap();
        let recipe = Filtered {
            stream: stream.clone(),
            course,
            inner: inner.clone(),
            landed,
            identity,
            seam,
        };
        composed.follow(Some(Arc::new(recipe))).unwrap();
        let chain = Vec::new();
        OneWay {
            course,
            composed,
            chain,
        }
    }

    fn change(&mut self, stream: &Ref<Stream>, random: &mut Random) {
        let name = self.course.name();
        if self.chain.len() < 6 && random.below(2) == 0 {
            let new = Both::any(random);
            insert(stream, name, new.quaject()).unwrap();
            self.chain.insert(0, new);
        } else if !self.chain.is_empty() {
            let gone = self
                .chain
                .remove(random.below(self.chain.len() as u64) as usize);
            remove(stream, name, gone.quaject().header().number()).unwrap();
            gone.check();
        }
    }

    fn pass(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.chain.iter_mut().fold(*byte, |byte, f| f.twin(byte));
        }
    }

    /// Whether all calls are to be made plainly: for a filter that may have them wait, or one that is called.
    fn is_plain(&self, stream: &Ref<Stream>) -> bool {
        let waits = self.chain.iter().any(|f| matches!(f, Both::Rate(..)));
        let run = listing(&stream.routine(self.course));
        waits || run.contains("call")
    }
}

#[test]
fn bytes_that_pass_behind_the_routine_are_those_of_the_twins() {
    for (sharing, seed) in [(Sharing::Exclusive, 3), (Sharing::Shared, 4)] {
        let seam = leaked(1, Conv::Host);
        let mut pair = Pair::new::<RING>(Load::Bytes, called_within(seam), sharing);
        let stream = create::<Stream>(()).unwrap();
        stream.act_for(ME);
        let mut random = Random::new(seed);
        let new =
            |course, inner: &Routine<DescFn>| OneWay::new(course, &stream, inner, pair.made, seam);
        let mut incoming = new(Course::Incoming, &pair.read);
        let mut outgoing = new(Course::Outgoing, &pair.write);
        let mut passed = 0;
        for _ in 0..3000 {
            match random.below(12) {
                0 => incoming.change(&stream, &mut random),
                1 => outgoing.change(&stream, &mut random),
                _ => {}
            }
            let count = random.below(MOST as u64 + 1) as usize;
            let at = random.below(64) as usize;
            let address = pair.user.at(at);
            if random.below(2) == 0 {
                let mut bytes = random.bytes(count);
                pair.user.bytes()[at..at + count].copy_from_slice(&bytes);
                let fits = count <= pair.made.free();
                let ended = call(outgoing.composed.routine(), [7, address, count as u64]);
                if outgoing.is_plain(&stream) || !fits {
                    assert_eq!(ended, Ended::Slowly(nr::WRITE));
                    continue;
                }
                assert_eq!(ended, Ended::With(count as isize));
                assert_eq!(
                    &pair.user.bytes()[at..at + count],
                    bytes,
                    "the program's own"
                );
                outgoing.pass(&mut bytes);
                assert_eq!(pair.twin.write(sharing, &bytes), Some(count));
            } else {
                let ended = call(incoming.composed.routine(), [7, address, count as u64]);
                if incoming.is_plain(&stream)
                    || pair.made.available() == 0 && pair.twin.available() == 0
                {
                    assert_eq!(ended, Ended::Slowly(nr::READ));
                    continue;
                }
                let mut bytes = vec![0; count];
                let got = pair.twin.read(sharing, &mut bytes).unwrap();
                assert_eq!(ended, Ended::With(got as isize));
                incoming.pass(&mut bytes[..got]);
                assert_eq!(&pair.user.bytes()[at..at + got], &bytes[..got]);
                passed += got;
            }
            pair.agree();
            let both = incoming.chain.iter().chain(&outgoing.chain);
            both.for_each(Both::check);
        }
        assert!(passed > 10_000, "{passed}");
    }
}

#[test]
fn calls_that_are_not_meant_leave_and_no_byte_has_passed() {
    let seam = leaked(1, Conv::Host);
    let mut pair = Pair::new::<RING>(Load::Bytes, called_within(seam), Sharing::Exclusive);
    let stream = create::<Stream>(()).unwrap();
    stream.act_for(ME);
    let write = OneWay::new(Course::Outgoing, &stream, &pair.write, pair.made, seam);
    let read = OneWay::new(Course::Incoming, &stream, &pair.read, pair.made, seam);
    let plain = |of: &OneWay| {
        let text = listing(&of.composed.plugged().unwrap());
        !text.contains("push")
    };
    assert!(plain(&write) && plain(&read), "the file's own");
    let filter = create::<crate::catalogue::filter::checksum::Checksum>(()).unwrap();
    insert(&stream, "outgoing", &filter).unwrap();
    assert!(!plain(&write) && plain(&read), "one way alone");
    let user = pair.user.at(0);
    let slowly = |address, count| {
        let ended = call(write.composed.routine(), [7, address, count]);
        assert_eq!(ended, Ended::Slowly(nr::WRITE), "{address:#x}, {count}");
        assert_eq!(filter.value(), 1);
        assert_eq!(pair.made.available(), 0);
    };
    slowly(user, MOST as u64 + 1);
    slowly(user, u64::MAX);
    slowly(1 << 63, 8);
    slowly(pair.user.at(pair.room - 4), 8);
    stream.act_for(ME + 1);
    slowly(user, 8);
    stream.act_for(0);
    slowly(user, 8);
    stream.act_for(ME);
    let ended = call(write.composed.routine(), [7, user, 8]);
    assert_eq!(ended, Ended::With(8));
    assert_ne!(filter.value(), 1);
    assert_eq!(call(read.composed.routine(), [7, user, 8]), Ended::With(8));
    pair.user.bytes().fill(0);
}
