//! A file server in memory for tests, which notes what it is asked and answers as it is told to.
//!
//! *Interface*: [`Server`], which is a [`Transport`]; a test sees and changes its [`World`].

use super::message::MessageType as Asked;
use super::session::set;
use super::transport::{Long, ReadReply, Transport, Use, WriteRequest};
use super::*;
use abi::linux::S_IFDIR;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::vec;
use std::vec::Vec as List;

/// The longest message of the link.
pub(super) const MOST: u32 = 16 << 10;
/// Bytes of a message beside its data.
pub(super) const BESIDE: u32 = 24;
pub(super) const ROOT: u64 = 1;

#[derive(Clone, Default)]
pub(super) struct Entry {
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) names: u64,
    pub(super) mtime: (u64, u64),
    pub(super) data: List<u8>,
}

/// The files of the server, and its behaviour.
pub(super) struct World {
    pub(super) entries: BTreeMap<u64, Entry>,
    pub(super) names: BTreeMap<(u64, List<u8>), u64>,
    pub(super) fids: BTreeMap<u32, u64>,
    pub(super) asked: List<List<u8>>,
    pub(super) clock: u64,
    /// The length of messages that it agrees to.
    pub(super) agrees: u32,
    /// Bytes that it says a message moves; how many it writes of one at most.
    pub(super) unit: u32,
    pub(super) writes: usize,
    /// Answers an error to questions of this kind, after so many.
    pub(super) refuses: Option<(u8, usize, u32)>,
    /// There is no place for what nobody waits for.
    pub(super) is_full: bool,
}

pub(super) struct Server(Mutex<World>);

/// Reads a question.
struct Question<'a>(&'a [u8]);

impl<'a> Question<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }

    fn string(&mut self) -> &'a [u8] {
        let len = self.u16();
        self.bytes(len.into())
    }
}

pub(super) fn qid(number: u64) -> List<u8> {
    let mut bytes = vec![0; 5];
    bytes.extend(number.to_le_bytes());
    bytes
}

pub(super) fn string(text: &[u8]) -> List<u8> {
    let mut bytes = List::from((text.len() as u16).to_le_bytes());
    bytes.extend(text);
    bytes
}

impl World {
    fn new() -> World {
        let root = Entry {
            mode: S_IFDIR | 0o755,
            names: 2,
            ..Entry::default()
        };
        World {
            entries: BTreeMap::from([(ROOT, root)]),
            names: BTreeMap::new(),
            fids: BTreeMap::new(),
            asked: List::new(),
            clock: 100,
            agrees: MOST,
            unit: 0,
            writes: usize::MAX,
            refuses: None,
            is_full: false,
        }
    }

    /// Makes a file of these bytes in the root directory; its number.
    pub(super) fn make(&mut self, name: &[u8], mode: u32, data: &[u8]) -> u64 {
        let number = self.entries.keys().last().unwrap() + 1;
        let entry = Entry {
            mode,
            names: 1,
            data: data.to_vec(),
            ..Entry::default()
        };
        self.entries.insert(number, entry);
        self.names.insert((ROOT, name.to_vec()), number);
        number
    }

    fn answer(&mut self, question: &[u8]) -> List<u8> {
        self.asked.push(question.to_vec());
        let kind = question[4];
        let result = match &mut self.refuses {
            Some((refused, 0, error)) if *refused == kind => Err(*error),
            refuses => {
                if let Some((refused, left, _)) = refuses
                    && *refused == kind
                {
                    *left -= 1;
                }
                self.does(kind, Question(&question[7..]))
            }
        };
        let (kind, content) = match result {
            Ok(content) => (kind + 1, content),
            Err(error) => (7, List::from(error.to_le_bytes())),
        };
        let mut bytes = List::from((content.len() as u32 + 7).to_le_bytes());
        bytes.extend([kind, question[5], question[6]]);
        bytes.extend(content);
        bytes
    }

    fn child(&self, dir: u64, name: &[u8]) -> core::result::Result<u64, u32> {
        self.names.get(&(dir, name.to_vec())).copied().ok_or(2)
    }

    fn does(&mut self, kind: u8, mut q: Question<'_>) -> core::result::Result<List<u8>, u32> {
        if kind == 100 {
            let mut answer = List::from(self.agrees.to_le_bytes());
            answer.extend(string(b"9P2000.L"));
            return Ok(answer);
        }
        let fid = q.u32();
        if kind == 104 {
            self.fids.insert(fid, ROOT);
            return Ok(qid(ROOT));
        }
        let number = *self.fids.get(&fid).expect("a fid that there is");
        self.clock += 1;
        let mut answer = List::new();
        match kind {
            8 => {
                answer.extend([0; 4]);
                answer.extend(512u32.to_le_bytes());
                for word in [10u64, 20, 30, 40, 50] {
                    answer.extend(word.to_le_bytes());
                }
            }
            12 => {
                answer = qid(number);
                answer.extend(self.unit.to_le_bytes());
            }
            14 => {
                let name = q.string().to_vec();
                let (_, mode, gid) = (q.u32(), q.u32(), q.u32());
                let new = self.make(&name, mode, b"");
                self.entries.get_mut(&new).unwrap().owner.1 = gid;
                self.fids.insert(fid, new);
                answer = qid(new);
                answer.extend(self.unit.to_le_bytes());
            }
            18 | 72 => {
                let name = q.string().to_vec();
                let mode = q.u32();
                let mode = if kind == 72 { mode | S_IFDIR } else { mode };
                answer = qid(self.make(&name, mode, b""));
            }
            22 => answer = string(&self.entries[&number].data),
            24 => {
                let entry = &self.entries[&number];
                answer.extend(0x7ffu64.to_le_bytes());
                answer.extend(qid(number));
                for word in [entry.mode, entry.owner.0, entry.owner.1] {
                    answer.extend(word.to_le_bytes());
                }
                let size = entry.data.len() as u64;
                for word in [entry.names, 0, size, 4096, 1, 1, 0] {
                    answer.extend(word.to_le_bytes());
                }
                answer.extend(entry.mtime.0.to_le_bytes());
                answer.extend(entry.mtime.1.to_le_bytes());
                answer.extend([0; 48]);
            }
            26 => {
                let (valid, mode, uid, gid) = (q.u32(), q.u32(), q.u32(), q.u32());
                let size = q.u64();
                let (_, mtime) = ((q.u64(), q.u64()), (q.u64(), q.u64()));
                let clock = self.clock;
                let entry = self.entries.get_mut(&number).unwrap();
                if valid & set::MODE != 0 {
                    entry.mode = mode;
                }
                if valid & set::UID != 0 {
                    entry.owner.0 = uid;
                }
                if valid & set::GID != 0 {
                    entry.owner.1 = gid;
                }
                if valid & set::SIZE != 0 {
                    entry.data.resize(size as usize, 0);
                    entry.mtime = (clock, 0);
                }
                if valid & set::MTIME != 0 {
                    entry.mtime = mtime;
                }
            }
            40 => {
                let (from, mut entries) = (q.u64(), List::new());
                let names = self.names.iter().filter(|((dir, _), _)| *dir == number);
                for (at, ((_, name), number)) in names.enumerate().skip(from as usize) {
                    entries.extend(qid(*number));
                    entries.extend((at as u64 + 1).to_le_bytes());
                    entries.push(8);
                    entries.extend(string(name));
                }
                answer = List::from((entries.len() as u32).to_le_bytes());
                answer.extend(entries);
            }
            50 => {}
            70 => {
                let file = self.fids[&q.u32()];
                self.names.insert((number, q.string().to_vec()), file);
                self.entries.get_mut(&file).unwrap().names += 1;
            }
            74 => {
                let name = q.string().to_vec();
                let to = self.fids[&q.u32()];
                let moved = self.child(number, &name)?;
                self.names.remove(&(number, name));
                self.names.insert((to, q.string().to_vec()), moved);
            }
            76 => {
                let name = q.string().to_vec();
                self.child(number, &name)?;
                self.names.remove(&(number, name));
            }
            110 => {
                let new = q.u32();
                let names = q.u16();
                let found = match names {
                    0 => number,
                    _ => self.child(number, q.string())?,
                };
                self.fids.insert(new, found);
                answer = List::from(names.to_le_bytes());
                if names > 0 {
                    answer.extend(qid(found));
                }
            }
            116 => {
                let (offset, count) = (q.u64() as usize, q.u32() as usize);
                let data = &self.entries[&number].data;
                let rest = data.get(offset..).unwrap_or_default();
                let rest = &rest[..rest.len().min(count)];
                answer = List::from((rest.len() as u32).to_le_bytes());
                answer.extend(rest);
            }
            118 => {
                let (offset, count) = (q.u64() as usize, q.u32() as usize);
                let count = count.min(self.writes);
                let bytes = q.bytes(count);
                let clock = self.clock;
                let entry = self.entries.get_mut(&number).unwrap();
                if entry.data.len() < offset + count {
                    entry.data.resize(offset + count, 0);
                }
                entry.data[offset..offset + count].copy_from_slice(bytes);
                entry.mtime = (clock, 0);
                answer = List::from((count as u32).to_le_bytes());
            }
            120 => {
                self.fids.remove(&fid);
            }
            _ => return Err(95),
        }
        Ok(answer)
    }
}

impl Server {
    pub(super) fn new() -> Arc<Server> {
        Arc::new(Server(Mutex::new(World::new())))
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(super) fn data(&self, number: u64) -> List<u8> {
        self.world().entries[&number].data.clone()
    }

    /// The last question of this kind, behind its head.
    pub(super) fn last(&self, kind: Asked) -> List<u8> {
        let world = self.world();
        let of_kind = |question: &&List<u8>| question[4] == kind as u8;
        world.asked.iter().rev().find(of_kind).unwrap()[7..].to_vec()
    }
}

impl Transport for Server {
    fn longest(&self) -> u32 {
        MOST
    }

    fn exchange(&self, _: Use, _: Long, ask: WriteRequest<'_>, heed: ReadReply<'_>) -> Result<()> {
        let mut question = vec![0; MOST as usize];
        let len = ask(&mut question, 3)?;
        let answer = self.world().answer(&question[..len]);
        heed(&answer, 3)
    }

    fn tell(&self, ask: WriteRequest<'_>) -> bool {
        if self.world().is_full {
            return false;
        }
        let mut question = vec![0; MOST as usize];
        let len = ask(&mut question, 4).unwrap();
        self.world().answer(&question[..len]);
        true
    }
}
