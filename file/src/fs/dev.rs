//! The drivers of device numbers, and the memory devices.
//!
//! *Interface.* A driver [`register`]s an opener for its numbers at boot; opening a device node anywhere
//! calls it. [`init`] registers `null`, `zero`, `full`, `random`, `urandom` and `kmsg`
//! (major 1; [`crate::fs::kmsg`]); [`NODES`]
//! are the names in `/dev`.

use abi::errno::{Errno, Result};
use abi::linux::{
    RNDADDENTROPY, RNDADDTOENTCNT, RNDCLEARPOOL, RNDGETENTCNT, RNDRESEEDCRNG, RNDZAPENTCNT,
};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use sync::Monitor;
use vm::user;

use super::inode::OpenRequest;
use crate::fs::file::{DescRoutines, File, OpenFile, Sharing};
use crate::fs::kmsg::{self, LOG};
use crate::io::IoBuf;
use crate::routine_env;
use account::Capability;
use account::caller;

/// Opens a device: makes a file behaviour and returns `how.finish(file)`.
pub type Opener = fn(rdev: u64, how: OpenRequest) -> Result<Arc<OpenFile>>;

/// By major and first minor number: the last minor number, and the opener.
static CHAR: Monitor<BTreeMap<(u32, u32), (u32, Opener)>> = Monitor::new(BTreeMap::new());

/// Gives the character devices `major`:`minors` the behaviour of `opener`.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel's own devices, at boot"
)]
pub fn register(major: u32, minors: core::ops::RangeInclusive<u32>, opener: Opener) {
    let (first, last) = minors.into_inner();
    // Bound: a tree look-up.
    CHAR.lock().insert((major, first), (last, opener));
}

/// Opens the character device `rdev`; `ENXIO` for an unknown number.
pub fn open(rdev: u64, how: OpenRequest) -> Result<Arc<OpenFile>> {
    let (major, minor) = (abi::linux::major(rdev), abi::linux::minor(rdev));
    let found = CHAR
        .lock()
        .range((major, 0)..=(major, minor))
        .next_back()
        .map(|(_, found)| *found);
    let (_, opener) = found
        .filter(|(last, _)| minor <= *last)
        .ok_or(Errno::ENXIO)?;
    opener(rdev, how)
}

/// Major number of the sound devices that Linux does not have.
pub const SOUND: u32 = 240;
/// Major number of those that it has.
pub const OSS: u32 = 14;
/// Major number of the battery clock, of those that Linux hands out at boot.
pub const RTC: u32 = 253;

/// Name, permission bits, major and minor number of the nodes that `/dev` starts with.
pub const NODES: [(&str, u32, u32, u32); 16] = [
    ("null", 0o666, 1, 3),
    ("zero", 0o666, 1, 5),
    ("full", 0o666, 1, 7),
    ("random", 0o666, 1, 8),
    ("urandom", 0o666, 1, 9),
    ("kmsg", 0o644, 1, 11),
    ("tty", 0o666, 5, 0),
    ("ptmx", 0o666, 5, 2),
    ("console", 0o600, 5, 1),
    ("speaker", 0o666, SOUND, 0),
    ("mic", 0o660, SOUND, 1),
    ("cd", 0o444, SOUND, 2),
    ("mixer", 0o660, OSS, 0),
    ("dsp", 0o660, OSS, 3),
    ("audio", 0o660, OSS, 4),
    ("rtc0", 0o600, RTC, 0),
];

/// Symbolic links that `/dev` starts with.
pub const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("rtc", "rtc0"),
];

/// Registers the devices of memory.
pub fn init() {
    let all = [
        (3, Memory::Null),
        (5, Memory::Zero),
        (7, Memory::Full),
        (8, Memory::Random),
        (9, Memory::Random),
    ];
    for (minor, _) in all {
        register(1, minor..=minor, |rdev, how| {
            let memory = match abi::linux::minor(rdev) {
                3 => Memory::Null,
                5 => Memory::Zero,
                7 => Memory::Full,
                _ => Memory::Random,
            };
            Ok(how.finish(Arc::new(memory)))
        });
    }
    register(1, LOG..=LOG, |_, how| kmsg::open(how));
}

/// The devices of major number 1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Swallows everything, yields nothing.
    Null,
    /// Swallows everything, yields zeros.
    Zero,
    /// Has no room, yields zeros.
    Full,
    /// Yields random bytes.
    Random,
}

impl File for Memory {
    fn is_always_ready(&self) -> bool {
        true
    }

    fn read(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        match self {
            Memory::Null => Ok(0),
            Memory::Zero | Memory::Full => buf.put_zeros(buf.remaining()),
            Memory::Random => put_random(buf),
        }
    }

    fn write(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        match self {
            Memory::Full => Err(Errno::ENOSPC),
            _ => Ok(buf.remaining()),
        }
    }

    fn read_at(&self, of: &OpenFile, _offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.read(of, buf)
    }

    fn write_at(&self, of: &OpenFile, _offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.write(of, buf)
    }

    fn lseek(&self, _of: &OpenFile, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }

    fn ioctl(&self, _of: &OpenFile, command: u32, arg: usize) -> Result<usize> {
        match self {
            Memory::Random => control_random(command, arg),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn synthesize(&self, _of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        let made = routine_env::constants()?;
        let (read, write) = match self {
            Memory::Null => (Some(&made.nothing), Some(&made.swallow)),
            Memory::Zero => (Some(&made.zeros), Some(&made.swallow)),
            Memory::Full => (Some(&made.zeros), Some(&made.no_space)),
            Memory::Random => (None, Some(&made.swallow)),
        };
        Ok(DescRoutines {
            read: read.cloned(),
            write: write.cloned(),
            lseek: Some(made.nothing.clone()),
        })
    }

    fn maps_as_fresh(&self) -> bool {
        *self == Memory::Zero
    }

    fn reusable(&self) -> bool {
        true
    }
}

/// The reported entropy of the random devices, which never run short.
pub const ENTROPY_BITS: i32 = 256;

/// Operations on the random devices. Added entropy is accepted without effect. EPERM, EFAULT, EINVAL.
fn control_random(command: u32, arg: usize) -> Result<usize> {
    match command {
        RNDGETENTCNT => return user::put(arg, &ENTROPY_BITS).map(|()| 0),
        RNDADDTOENTCNT | RNDADDENTROPY | RNDZAPENTCNT | RNDCLEARPOOL | RNDRESEEDCRNG => {
            caller::cred().need(Capability::SysAdmin)?;
        }
        _ => return Err(Errno::EINVAL),
    }
    if matches!(command, RNDADDTOENTCNT | RNDADDENTROPY) {
        let bits: i32 = user::get(arg)?;
        if bits < 0 {
            return Err(Errno::EINVAL);
        }
    }
    if command == RNDADDENTROPY {
        let count: i32 = user::get(arg.wrapping_add(size_of::<i32>()))?;
        let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        let mut given = IoBuf::user(arg.wrapping_add(2 * size_of::<i32>()), count)?;
        while given.remaining() > 0 {
            given.take(&mut [0; 256])?;
        }
    }
    Ok(0)
}

fn put_random(buf: &mut IoBuf) -> Result<usize> {
    let mut total = 0;
    while buf.remaining() > 0 {
        let mut bytes = [0; 256];
        machine::random::fill(&mut bytes);
        match buf.put(&bytes) {
            Ok(n) => total += n,
            Err(_) if total > 0 => break,
            Err(e) => return Err(e),
        }
    }
    Ok(total)
}
