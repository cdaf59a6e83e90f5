//! AF_UNIX: sockets named by paths, and by abstract names.
//!
//! *Interface*: [`LOCAL`] is the family. A path's socket is known by its inode, an abstract name by its bytes
//! and the kind of socket.
//!
//! Monitors: with a table of names held nothing is allocated or dropped: the end of a description takes it.
#![expect(
    clippy::disallowed_methods,
    reason = "room is made by `try_reserve` before, and names are short"
)]

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use smallvec::SmallVec;
use sync::Monitor;

use super::{Address, Family, NeedsName, Socket, SocketState, SocketType};
use crate::fs::context::{self, FsContext};
use crate::fs::lockfree_walk::{self, PaddedPath};
use crate::fs::walk::{LastComponent, WalkContext, walk};
use crate::fs::{FileKind, Inode, VfsPath, perm};
use account::{Cred, caller};
use vm::fallible::roomy;
use vm::fallible::try_arc;

/// The family.
pub struct Local;

/// The one there is.
pub static LOCAL: Local = Local;

/// Bytes of an address before the name.
const HEAD: usize = 2;
/// Bytes of the largest one.
const MOST: usize = HEAD + 108;

/// The key of a name.
#[derive(Clone, PartialEq, Eq)]
enum Key {
    /// File system and inode.
    Path(u64, u64),
    /// An abstract name, its leading NUL byte included.
    Abstract(i32, SmallVec<[u8; 16]>),
}

/// The data of a bound socket.
struct Bound {
    key: Key,
    /// Its inode, which no other file reuses as long as it is held.
    _place: Option<VfsPath>,
}

/// The names of a bucket.
struct Names(Vec<(Key, Weak<Socket>)>);

const BUCKETS: usize = 64;
static NAMES: [Monitor<Names>; BUCKETS] = [const { Monitor::new(Names(Vec::new())) }; BUCKETS];

/// Counts up for names that the system chooses.
static CHOSEN: AtomicU32 = AtomicU32::new(0);
/// How many there are.
const CHOICES: u32 = 1 << 20;

fn bucket(key: &Key) -> &'static Monitor<Names> {
    let hash = match key {
        Key::Path(dev, ino) => dev.wrapping_mul(31).wrapping_add(*ino) as usize,
        Key::Abstract(kind, name) => name.iter().fold(*kind as usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(usize::from(*byte))
        }),
    };
    NAMES
        .get(hash % BUCKETS)
        .unwrap_or_else(|| NAMES.first().unwrap_or(&SPARE))
}

/// Of no bucket.
static SPARE: Monitor<Names> = Monitor::new(Names(Vec::new()));

/// The socket with this name.
fn holder(key: &Key) -> Option<Arc<Socket>> {
    // Bound: one in 64 of the names.
    let held = bucket(key).lock();
    held.0
        .iter()
        .find(|(other, _)| other == key)
        .and_then(|(_, socket)| socket.upgrade())
}

/// The name in `address`: its path, or an abstract one with its leading NUL byte. EINVAL.
fn name_of(address: &[u8]) -> Result<&[u8]> {
    let (head, name) = address.split_at_checked(HEAD).ok_or(Errno::EINVAL)?;
    let family = u16::from_ne_bytes([head[0], head[1]]);
    if name.is_empty() || address.len() > MOST || i32::from(family) != AF_UNIX {
        return Err(Errno::EINVAL);
    }
    match name.first() {
        Some(0) => Ok(name),
        _ => Ok(name.split(|byte| *byte == 0).next().unwrap_or(name)),
    }
}

fn address(name: &[u8], ended: bool) -> Address {
    let mut bytes = SmallVec::<[u8; SOCKADDR_MAX]>::new();
    bytes.extend_from_slice(&(AF_UNIX as u16).to_ne_bytes());
    bytes.extend_from_slice(name);
    if ended {
        bytes.push(0);
    }
    Address::new(&bytes)
}

/// Gives `socket`, whose turn the caller has and which has no name, this one. EADDRINUSE, ENOMEM.
fn enter(socket: &Arc<Socket>, key: Key, place: Option<VfsPath>, name: Address) -> Result<()> {
    let own = try_arc(Bound {
        key: key.clone(),
        _place: place,
    })?;
    let entry = (key, Arc::downgrade(socket));
    let mut names = roomy(bucket(&entry.0), |names| &mut names.0, 1)?;
    let taken = names.0.iter().any(|(other, _)| *other == entry.0);
    if taken {
        drop(names);
        return Err(Errno::EADDRINUSE);
    }
    names.0.push(entry);
    drop(names);
    // The turn is the caller's.
    let _none = socket.own.set(own);
    let _none = socket.name.set(name);
    Ok(())
}

/// Makes the file of a socket of `mode` at `path`. EADDRINUSE, and the errors of a walk.
fn make(path: &[u8], mode: u32) -> Result<VfsPath> {
    let (fs, cred) = (context::own()?, caller::cred());
    let view = WalkContext::new(fs.root(), &cred, fs.umask());
    let target = walk(&view, fs.cwd(), path, false)?;
    if target.place.is_some() || target.last != LastComponent::Name {
        return Err(Errno::EADDRINUSE);
    }
    if target.slash {
        return Err(Errno::ENOENT);
    }
    let dir = &target.dir.inode;
    dir.permits(&cred, perm::WRITE | perm::EXEC)?;
    target.dir.mount.writable()?;
    let made = dir.create(&target.name, mode, view.umask, 0, &cred);
    match made {
        Ok(inode) => Ok(target.dir.with_inode(inode)),
        Err(Errno::EEXIST) => Err(Errno::EADDRINUSE),
        Err(error) => Err(error),
    }
}

/// The inode that `path` leads to, from entry to entry, if it does.
fn short_way(fs: &FsContext, path: &[u8], cred: &Cred) -> Option<Arc<dyn Inode>> {
    // With zeros behind the longest.
    let mut bytes = [0; MOST + size_of::<u64>()];
    bytes.get_mut(..path.len())?.copy_from_slice(path);
    lockfree_walk::inode(fs, PaddedPath::with_zeros(&bytes)?, cred, true)
}

/// An unused name. ENOSPC, ENOMEM.
fn choose(socket: &Arc<Socket>) -> Result<()> {
    for _ in 0..CHOICES {
        let number = CHOSEN.fetch_add(1, Ordering::Relaxed) % CHOICES;
        let mut name = SmallVec::<[u8; 16]>::from_slice(&[0]);
        for digit in (0..5).rev() {
            let nibble = (number >> (4 * digit) & 0xf) as u8;
            name.push(if nibble < 10 {
                b'0' + nibble
            } else {
                b'a' + nibble - 10
            });
        }
        let called = address(&name, false);
        let key = Key::Abstract(socket.kind.number(), name);
        match enter(socket, key, None, called) {
            Err(Errno::EADDRINUSE) => {}
            other => return other,
        }
    }
    Err(Errno::ENOSPC)
}

impl Family for Local {
    fn number(&self) -> i32 {
        AF_UNIX
    }

    fn kind(&self, kind: i32, protocol: i32) -> Result<(SocketType, i32)> {
        if protocol != 0 && protocol != AF_UNIX {
            return Err(Errno::EPROTONOSUPPORT);
        }
        let kind = match kind {
            SOCK_STREAM => SocketType::Stream,
            SOCK_DGRAM | SOCK_RAW => SocketType::Datagram,
            SOCK_SEQPACKET => SocketType::Packets,
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        };
        Ok((kind, protocol))
    }

    fn makes_pairs(&self) -> bool {
        true
    }

    fn bind(&self, socket: &Arc<Socket>, bytes: &[u8]) -> Result<()> {
        if bytes == (AF_UNIX as u16).to_ne_bytes() {
            // Bound: making one file; only calls that bind or connect the same socket.
            let _turn = socket.turn.lock();
            return match socket.name.get() {
                Some(_) => Ok(()),
                None => choose(socket),
            };
        }
        let name = name_of(bytes)?;
        let _turn = socket.turn.lock();
        if name.first() == Some(&0) {
            if socket.name.get().is_some() {
                return Err(Errno::EINVAL);
            }
            let key = Key::Abstract(socket.kind.number(), SmallVec::from_slice(name));
            return enter(socket, key, None, address(name, false));
        }
        if socket.name.get().is_some() {
            return Err(Errno::EINVAL);
        }
        let place = make(name, socket.attr().mode)?;
        let (dev, ino) = place.inode.id();
        enter(
            socket,
            Key::Path(dev, ino),
            Some(place),
            address(name, true),
        )
    }

    fn name(&self, socket: &Arc<Socket>, want: NeedsName) -> Result<()> {
        match want {
            NeedsName::Listen => Err(Errno::EINVAL),
            NeedsName::Reach if !socket.options.pass_credentials() => Ok(()),
            NeedsName::Reach => {
                let _turn = socket.turn.lock();
                match socket.name.get() {
                    Some(_) => Ok(()),
                    None => choose(socket),
                }
            }
        }
    }

    fn find(&self, from: &Arc<Socket>, address: &[u8]) -> Result<Arc<Socket>> {
        let name = name_of(address)?;
        if name.first() == Some(&0) {
            let key = Key::Abstract(from.kind.number(), SmallVec::from_slice(name));
            return holder(&key).ok_or(Errno::ECONNREFUSED);
        }
        let (fs, cred) = (context::own()?, caller::cred());
        let inode = match short_way(&fs, name, &cred) {
            Some(inode) => inode,
            None => {
                let view = WalkContext::new(fs.root(), &cred, fs.umask());
                walk(&view, fs.cwd(), name, true)?.existing()?.inode
            }
        };
        inode.permits(&cred, perm::WRITE)?;
        if inode.kind() != FileKind::Socket {
            return Err(Errno::ECONNREFUSED);
        }
        let (dev, ino) = inode.id();
        let found = holder(&Key::Path(dev, ino)).ok_or(Errno::ECONNREFUSED)?;
        if found.kind == from.kind {
            Ok(found)
        } else {
            Err(Errno::EPROTOTYPE)
        }
    }

    fn unbind(&self, socket: &Socket) {
        let own = socket.own.get();
        let Some(bound) = own.and_then(|own| own.downcast_ref::<Bound>()) else {
            return;
        };
        // Bound: one in 64 of the names.
        let mut names = bucket(&bound.key).lock();
        let at = names.0.iter().position(|(key, _)| *key == bound.key);
        let gone = at.map(|at| names.0.swap_remove(at));
        drop(names);
        drop(gone);
    }

    fn nameless(&self) -> Address {
        address(&[], false)
    }

    fn standing(&self, socket: &Socket) -> SocketState {
        const UNCONNECTED: u8 = 1;
        const CONNECTING: u8 = 2;
        const CONNECTED: u8 = 3;
        let (receive_queue, send_queue) = socket.queues();
        let connected = socket.peer().is_some() && socket.kind.connects();
        SocketState {
            state: match connected {
                true if socket.is_waiting() => CONNECTING,
                true => CONNECTED,
                false => UNCONNECTED,
            },
            receive_queue,
            send_queue,
        }
    }
}
