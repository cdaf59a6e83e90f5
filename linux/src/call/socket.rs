//! Sockets: making, naming and connecting them, and moving messages.
//!
//! *Interface*: [`CALLS`]. [`file::socket`] does their work.

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::sync::Arc;
use vm::user;

use super::{Args, Handler};
use file::fdtable::FdTable;
use file::filters::Direction;
use file::io::IoBuf;
use file::socket::message::{self, Sending};
use file::socket::{self, Address, Socket};
use file::{OpenFile, Operation};
use process::Process;
use thread::deadline::Deadline;
use vm::fallible::try_filled;

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::SOCKET, make),
    (nr::SOCKETPAIR, pair),
    (nr::BIND, bind),
    (nr::LISTEN, |a| {
        on(a, |socket, a| socket.listen(a.int(1)).map(|()| 0))
    }),
    (nr::ACCEPT, |a| accept(a, 0)),
    (nr::ACCEPT4, |a| accept(a, a.uint(3))),
    (nr::CONNECT, connect),
    (nr::GETSOCKNAME, |a| {
        on(a, |socket, a| put(&socket.own_name(), a.word(1), a.word(2)))
    }),
    (nr::GETPEERNAME, |a| {
        on(a, |socket, a| {
            let name = socket.family.peer_name(socket)?;
            put(&name, a.word(1), a.word(2))
        })
    }),
    (nr::SHUTDOWN, |a| {
        on(a, |socket, a| socket.shutdown(a.int(1)).map(|()| 0))
    }),
    (nr::SENDTO, sendto),
    (nr::RECVFROM, recvfrom),
    (nr::SENDMSG, sendmsg),
    (nr::RECVMSG, |a| {
        let of = moving(a)?;
        let flags = a.uint(2);
        refuse_compat(flags)?;
        message::receive(&of, a.word(1), flags)
    }),
    (nr::SENDMMSG, sendmmsg),
    (nr::RECVMMSG, recvmmsg),
    (nr::SETSOCKOPT, setsockopt),
    (nr::GETSOCKOPT, getsockopt),
];

/// The most bytes that an option has.
const OPTION: usize = 4096;

fn files() -> Arc<FdTable> {
    Process::current().files.get()
}

fn open_file(a: &Args) -> Result<Arc<OpenFile>> {
    let of = files().get(a.int(0))?;
    if of.flags() & O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    Ok(of)
}

/// Calls `act` with the socket that the first argument names. EBADF, ENOTSOCK.
fn on(a: &mut Args, act: impl FnOnce(&Arc<Socket>, &mut Args) -> Result<usize>) -> Result<usize> {
    let of = open_file(a)?;
    act(Socket::of(&of)?, a)
}

fn put(name: &Address, at: usize, length: usize) -> Result<usize> {
    name.put(at, length).map(|()| 0)
}

/// The kind and the flags in the second argument of `socket`. EINVAL.
fn kind_and_flags(kind: i32) -> Result<(i32, u32)> {
    let flags = (kind & !SOCK_TYPE_MASK) as u32;
    if flags & !(SOCK_CLOEXEC | SOCK_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok((kind & SOCK_TYPE_MASK, flags))
}

fn install(socket: &Arc<Socket>, flags: u32) -> Result<i32> {
    let of = socket.description(flags & SOCK_NONBLOCK)?;
    files().install_cold(of, flags & SOCK_CLOEXEC != 0)
}

fn make(a: &mut Args) -> Result<usize> {
    let (kind, flags) = kind_and_flags(a.int(1))?;
    let socket = socket::open(a.int(0), kind, a.int(2))?;
    Ok(install(&socket, flags)? as usize)
}

fn pair(a: &mut Args) -> Result<usize> {
    let (kind, flags) = kind_and_flags(a.int(1))?;
    let [one, other] = socket::pair(a.int(0), kind, a.int(2))?;
    let files = files();
    let first = install(&one, flags)?;
    let installed = install(&other, flags).and_then(|second| {
        user::put(a.word(3), &[first, second]).inspect_err(|_| {
            let _closed = files.close(second);
        })
    });
    if let Err(error) = installed {
        let _closed = files.close(first);
        return Err(error);
    }
    Ok(0)
}

fn bind(a: &mut Args) -> Result<usize> {
    on(a, |socket, a| {
        let address = Address::get(a.word(1), a.int(2))?;
        socket.bind(address.bytes()).map(|()| 0)
    })
}

fn connect(a: &mut Args) -> Result<usize> {
    let of = open_file(a)?;
    let socket = Socket::of(&of)?;
    let address = Address::get(a.word(1), a.int(2))?;
    let stage = of.file().stage();
    let result = socket.connect(address.bytes(), of.nonblocking());
    if result == Err(Errno::EINPROGRESS) {
        of.note_short_transfer();
    }
    // One that does not wait may have got its other end all the same.
    // One that has no routines gets them by the first call that would have a use for them.
    if of.file().stage() != stage && of.has_entries() {
        files().plug_again(a.int(0), &of);
    }
    result.map(|()| 0)
}

fn accept(a: &mut Args, flags: u32) -> Result<usize> {
    if flags & !(SOCK_CLOEXEC | SOCK_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let of = open_file(a)?;
    let listener = Socket::of(&of)?;
    let socket = listener.accept(of.nonblocking())?;
    let new = match socket.description(flags & SOCK_NONBLOCK) {
        Ok(new) => new,
        Err(error) => {
            socket.close();
            return Err(error);
        }
    };
    if a.word(1) != 0 {
        let name = socket.family.peer_name(&socket);
        let name = name.unwrap_or_else(|_| socket.family.nameless());
        name.put(a.word(1), a.word(2))?;
    }
    Ok(files().install_cold(new, flags & SOCK_CLOEXEC != 0)? as usize)
}

fn refuse_compat(flags: u32) -> Result<()> {
    match flags & MSG_CMSG_COMPAT {
        0 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// The open file of a call that moves bytes. EBADF; EOPNOTSUPP: they pass filters.
fn moving(a: &Args) -> Result<Arc<OpenFile>> {
    files().opened_plainly(a.int(0))
}

/// As `act` does it, which [`moving`] has refused with `error`, if that was for filters: with the buffer
/// through them.
#[cold]
fn filtered(
    a: &mut Args,
    error: Errno,
    course: Direction,
    act: fn(&mut Args, &Arc<OpenFile>, IoBuf) -> Result<usize>,
) -> Result<usize> {
    if error != Errno::EOPNOTSUPP {
        return Err(error);
    }
    let of = open_file(a)?;
    if a.uint(3) & MSG_PEEK != 0 {
        return Err(error);
    }
    let buf = IoBuf::user(a.word(1), a.word(2))?;
    match of.passage(course)? {
        Some(passage) => act(a, &of, buf.through(passage)),
        None => act(a, &of, buf),
    }
}

fn sendto(a: &mut Args) -> Result<usize> {
    let buf = IoBuf::user(a.word(1), a.word(2))?;
    match moving(a) {
        Ok(of) => send(a, &of, buf),
        Err(error) => filtered(a, error, Direction::Outgoing, send),
    }
}

#[inline(always)]
fn send(a: &mut Args, of: &Arc<OpenFile>, mut buf: IoBuf) -> Result<usize> {
    let flags = a.uint(3);
    let to = match a.word(4) {
        0 => None,
        at => Some(Address::get(at, a.int(5))?).filter(|to| !to.bytes().is_empty()),
    };
    let sending = Sending {
        flags,
        nonblocking: of.nonblocking() || flags & MSG_DONTWAIT != 0,
        to,
        ..Sending::default()
    };
    let stage = of.file().stage();
    let sent = Socket::of(of)?.send(&mut buf, sending);
    if buf.remaining() > 0 {
        of.note_short_transfer();
    }
    if of.file().stage() != stage {
        // The next call has its routines made.
        of.forget_entries();
    }
    if sent.is_ok() && flags & !(MSG_NOSIGNAL | MSG_DONTWAIT) == 0 {
        of.used_plainly(Operation::Send);
    }
    sent
}

fn recvfrom(a: &mut Args) -> Result<usize> {
    let buf = IoBuf::user(a.word(1), a.word(2))?;
    match moving(a) {
        Ok(of) => receive(a, &of, buf),
        Err(error) => filtered(a, error, Direction::Incoming, receive),
    }
}

#[inline(always)]
fn receive(a: &mut Args, of: &Arc<OpenFile>, mut buf: IoBuf) -> Result<usize> {
    let flags = a.uint(3);
    let nonblocking = of.nonblocking() || flags & MSG_DONTWAIT != 0;
    let stage = of.file().stage();
    let received = Socket::of(of)?.receive(&mut buf, flags, nonblocking);
    if of.file().stage() != stage {
        // A sender has got a way here meanwhile: the next call has its routines made.
        of.forget_entries();
    }
    let mut received = received?;
    let (count, from) = (received.count, received.from.take());
    message::discard(received);
    if a.word(4) != 0 {
        from.unwrap_or_default().put(a.word(4), a.word(5))?;
    }
    if flags == 0 {
        of.used_plainly(Operation::Receive);
    }
    Ok(count)
}

fn sendmsg(a: &mut Args) -> Result<usize> {
    let of = moving(a)?;
    let flags = a.uint(2);
    refuse_compat(flags)?;
    let header = user::get(a.word(1))?;
    message::send(&of, &header, flags)
}

fn sendmmsg(a: &mut Args) -> Result<usize> {
    let flags = a.uint(3);
    refuse_compat(flags)?;
    let of = moving(a)?;
    Socket::of(&of)?;
    let count = (a.uint(2) as usize).min(UIO_MAXIOV);
    for done in 0..count {
        let at = a.word(1).saturating_add(done * size_of::<Mmsghdr>());
        let sent = user::get(at).and_then(|header| message::send(&of, &header, flags));
        let told = sent
            .and_then(|sent| user::put(at + core::mem::offset_of!(Mmsghdr, len), &(sent as u32)));
        match told {
            Ok(()) => {}
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        }
    }
    Ok(count)
}

fn recvmmsg(a: &mut Args) -> Result<usize> {
    let mut flags = a.uint(3);
    refuse_compat(flags)?;
    let deadline = match a.word(4) {
        0 => Deadline::never(),
        at => Deadline::after(user::get(at)?)?,
    };
    let of = moving(a)?;
    let socket = Socket::of(&of)?;
    socket.take_error()?;
    let count = (a.uint(2) as usize).min(UIO_MAXIOV);
    for done in 0..count {
        let at = a.word(1).saturating_add(done * size_of::<Mmsghdr>());
        let received = message::receive(&of, at, flags & !MSG_WAITFORONE);
        let told = received.and_then(|received| {
            let length = received as u32;
            user::put(at + core::mem::offset_of!(Mmsghdr, len), &length)
        });
        match told {
            Ok(()) => {}
            Err(error) if done == 0 => return Err(error),
            Err(Errno::EAGAIN) => return Ok(done),
            Err(error) if error.is_restart() => return Ok(done),
            Err(error) => {
                // For the next call.
                socket.set_error(error);
                return Ok(done);
            }
        }
        if flags & MSG_WAITFORONE != 0 {
            flags |= MSG_DONTWAIT;
        }
        if a.word(4) != 0 && deadline.has_passed() {
            return Ok(done + 1);
        }
    }
    Ok(count)
}

fn setsockopt(a: &mut Args) -> Result<usize> {
    let of = open_file(a)?;
    let socket = Socket::of(&of)?;
    let length = usize::try_from(a.int(4)).map_err(|_| Errno::EINVAL)?;
    let mut bytes = try_filled(0, length.min(OPTION))?;
    user::copy_in(&mut bytes, a.word(3))?;
    socket.set_option(a.int(1), a.int(2), &bytes)?;
    if matches!(a.int(2), SO_RCVTIMEO | SO_RCVLOWAT) {
        of.file().flags_changed(&of);
    }
    Ok(0)
}

fn getsockopt(a: &mut Args) -> Result<usize> {
    let of = open_file(a)?;
    let socket = Socket::of(&of)?;
    let room: i32 = user::get(a.word(4))?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    let value = socket.option(a.int(1), a.int(2), room)?;
    let length = value.len().min(room);
    user::copy_out(a.word(3), &value[..length])?;
    user::put(a.word(4), &(length as i32))?;
    Ok(0)
}
