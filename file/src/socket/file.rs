//! A socket as an open file.
//!
//! *Interface*: [`Open`] is the [`File`] of a socket's description. The routines of a connected stream are
//! those of the pipes that it reads from and writes to.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::string::String;
use alloc::sync::Arc;
use quaject::pipe::{self, Patience, PipeCore};
use quaject::{DescFn, RoutineError, Sharing};

use super::message::{Sending, discard};
use super::{Socket, SocketType};
use crate::fs::file::fasync::{Fasync, FasyncKind};
use crate::fs::file::{
    CallAdapter, DescRoutines, File, OpenFile, RoutineEnv, SMALL_WEIGHT, SocketName, SpliceKind,
};
use crate::fs::{Attr, SetAttr};
use crate::gauge::{Gauge, Gauges};
use crate::io::IoBuf;
use crate::poll::{PollTable, READS, WRITES};
use crate::routine_env;
use vm::fallible::try_text;

/// A socket that is open.
pub(super) struct Open(pub(super) Arc<Socket>);

impl Open {
    /// Whether its routines are those of pipes.
    fn is_piped(&self) -> bool {
        let socket = &self.0;
        socket.inbox.queue().is_some()
            && socket.link().is_some()
            && !socket.family.is_connecting(socket)
    }
}

impl File for Open {
    fn weight(&self, _of: &OpenFile) -> usize {
        let queue = self.0.inbox.queue().map_or(0, |queue| queue.size());
        SMALL_WEIGHT + queue + self.0.outbox.used()
    }

    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        if buf.remaining() == 0 {
            return Ok(0);
        }
        let received = self.0.receive(buf, 0, of.nonblocking())?;
        let count = received.count;
        discard(received);
        Ok(count)
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let sending = Sending {
            nonblocking: of.nonblocking(),
            ..Sending::default()
        };
        let stage = self.stage();
        let result = self.0.send(buf, sending);
        if self.stage() != stage {
            // The next call has its routines made.
            of.forget_entries();
        }
        result
    }

    fn splices(&self, _of: &OpenFile) -> SpliceKind {
        SpliceKind::Waits
    }

    fn gauges(&self, _of: &OpenFile) -> Gauges {
        let gauge = |queue: &Arc<PipeCore>| -> Arc<dyn Gauge> { queue.clone() };
        let outgoing = self.0.link().and_then(|link| link.outgoing.queue());
        Gauges {
            input: self.0.inbox.queue().map(gauge),
            output: outgoing.map(gauge),
        }
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn tells(&self) -> FasyncKind {
        FasyncKind::Socket
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        let socket = &self.0;
        if let Some(table) = table {
            // The next readable data wakes its own list.
            let room = WRITES | POLLWRBAND;
            table.watch_for(room | POLLERR | POLLHUP, &socket.changes);
            socket.inbox.expect_data(table);
            match socket.link().and_then(|link| link.outgoing.queue()) {
                Some(queue) => queue.expect_space(|list| table.watch_for(room, list)),
                None => table.watch_for(room, &socket.outbox.space),
            }
            if let Some(list) = socket.target_has_read() {
                table.watch_for(room, list);
            }
        }
        let mut found = 0;
        if socket.has_error() {
            found |= POLLERR;
        }
        if socket.family.is_connecting(socket) {
            return found & (events | POLLERR);
        }
        let (no_read, no_write) = (socket.reads_no_more(), socket.writes_no_more());
        if no_read {
            found |= POLLRDHUP | READS;
        }
        if no_read && no_write {
            found |= POLLHUP;
        }
        let listens = socket.backlog().filter(|backlog| !backlog.is_closed());
        if socket.inbox.has_data() || listens.is_some_and(|backlog| backlog.has_some()) {
            found |= READS;
        }
        if listens.is_none() {
            if socket.kind.connects() && socket.link().is_none() {
                found |= POLLHUP;
            }
            let full = socket.kind == SocketType::Datagram && socket.is_target_full();
            if socket.is_writable() && !full {
                found |= WRITES | socket.family.band();
            }
        }
        found & (events | POLLHUP | POLLERR)
    }

    fn flags_changed(&self, of: &OpenFile) {
        let plainly = self.0.options.sleeps_plainly();
        self.0.inbox.set_patient(!of.nonblocking() && plainly);
    }

    fn code_comes_late(&self) -> bool {
        true
    }

    fn stage(&self) -> u8 {
        let socket = &self.0;
        if socket.kind == SocketType::Datagram {
            let queue = socket.inbox.queue().is_some();
            let named = socket.named_lane().is_some();
            return u8::from(queue) | u8::from(socket.lane().is_some()) << 1 | u8::from(named) << 2;
        }
        u8::from(self.is_piped())
    }

    fn ioctl(&self, of: &OpenFile, cmd: u32, arg: usize) -> Result<usize> {
        let socket = &self.0;
        match cmd {
            FIOSETOWN | SIOCSPGRP => {
                let who: i32 = vm::user::get(arg)?;
                return of.make_fasync()?.set_owner(who).map(|()| 0);
            }
            FIOGETOWN | SIOCGPGRP => {
                let who = of.fasync().map_or(0, Fasync::owner_number);
                return vm::user::put(arg, &who).map(|()| 0);
            }
            _ => {}
        }
        let number = match cmd {
            FIONREAD if socket.backlog().is_some() => return Err(Errno::EINVAL),
            FIONREAD => socket.unread(),
            TIOCOUTQ => socket.unsent(),
            _ => return self.0.family.control(socket, cmd, arg),
        };
        vm::user::put(arg, &(number as i32))?;
        Ok(0)
    }

    fn stat(&self, _of: &OpenFile) -> Attr {
        self.0.attr()
    }

    fn set_attr(&self, _of: &OpenFile, set: &SetAttr) -> Result<()> {
        self.0.inode.set(self.0.made(), set)
    }

    fn magic(&self) -> i64 {
        SOCKFS_MAGIC
    }

    fn close(&self, _of: &OpenFile) {
        self.0.close();
    }

    fn synthesize(&self, of: &OpenFile, sharing: Sharing) -> Result<DescRoutines> {
        Ok(DescRoutines {
            lseek: Some(routine_env::constants()?.no_seek.clone()),
            ..self.synthesize_against(of, sharing, routine_env::get()?)?
        })
    }

    fn synthesize_against(
        &self,
        _of: &OpenFile,
        sharing: Sharing,
        env: &RoutineEnv,
    ) -> Result<DescRoutines> {
        let mut routines = DescRoutines::default();
        let plug =
            |routine: core::result::Result<codegen::Routine<DescFn>, RoutineError>| match routine {
                Ok(routine) => Ok(Some(routine)),
                Err(RoutineError::OutOfReach) => Ok(None),
                Err(_) => Err(Errno::ENOMEM),
            };
        let socket = &self.0;
        let outgoing = socket.link().and_then(|link| link.outgoing.queue());
        if let (Some(incoming), Some(outgoing), true) =
            (socket.inbox.queue(), outgoing, self.is_piped())
        {
            routines.read = plug(pipe::reader(incoming, env, sharing, Patience::Patient))?;
            routines.write = plug(pipe::writer(outgoing, env, sharing))?;
        }
        if socket.kind == SocketType::Datagram {
            if let Some(queue) = socket.inbox.queue() {
                routines.read = plug(pipe::receiver(queue, env, sharing, Patience::Patient))?;
            }
            if let Some(lane) = socket.lane() {
                routines.write = plug(pipe::sender(lane, env))?;
            }
        }
        Ok(routines)
    }

    fn synthesize_named(
        &self,
        _of: &OpenFile,
        sharing: Sharing,
        around: &CallAdapter,
        writes: bool,
    ) -> Result<Option<SocketName>> {
        let socket = &self.0;
        if socket.kind != SocketType::Datagram {
            return Ok(None);
        }
        if writes {
            let Some((address, lane)) = socket.named_lane() else {
                return Ok(None);
            };
            let routine = routine_env::made(pipe::sender(lane, around.env()))?;
            return Ok(routine.map(|routine| SocketName::To {
                word: address.word,
                length: address.length,
                routine,
            }));
        }
        let name = socket.family.heard(socket).0;
        let name = name.and_then(|name| <[u8; pipe::NAME]>::try_from(name.bytes()).ok());
        let (Some(queue), Some(name), Some(env)) = (socket.inbox.queue(), name, around.named())
        else {
            return Ok(None);
        };
        let routine = routine_env::made(pipe::receiver_from(queue, env, sharing, name))?;
        Ok(routine.map(SocketName::From))
    }

    fn label(&self, _of: &OpenFile) -> Result<String> {
        try_text(format_args!("socket:[{}]", self.0.ino))
    }
}
