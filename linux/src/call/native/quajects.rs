//! The native calls on quajects: descriptors of them, their links, their callentries, and filters.
//!
//! *Interface*: [`operate`] answers the operations from [`native::MAKE`] on but [`native::NOTICE`], whose
//! thread the caller looks up, and which [`notice`] makes; [`invoke_outright`] the calls of callentries. A
//! handle is a descriptor whose description is a [`Handle`]: it can be closed, inherited, passed and polled,
//! and read as a text: its class, its links, its code.
//!
//! Rights: who has the descriptors may do all this with the quajects; a filter is put into a file that the
//! caller has open (docs/security.md).
//! Source: dissertation, sections 3.3.4, 4.1.2 to 4.1.4.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::O_RDWR;
use abi::{native, nr};
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::ops::Range;
use file::filters::Course;
use file::fs::text::{Out, Piece};
use file::io::IoBuf;
use file::poll::{self, PollTable};
use file::{File, OpenFile};
use process::Process;
use process::made::{any, made, paid};
use quaject::class::Kind;
use quaject::maker::{self, Made};
use quaject::named::{self, Quaject};
use quaject::notice::Notice;
use sync::WaitList;
use texts::syn::veil::Veil;
use texts::syn::{code, state};
use thread::outright::generally;
use vm::fallible::{try_arc, try_text};
use vm::user;

use super::Args;

/// The operations.
pub const OPERATIONS: Range<usize> = native::MAKE..native::STUB + 1;

/// Answers one operation.
pub fn operate(operation: usize, a: &Args) -> Result<usize> {
    match operation {
        native::MAKE => {
            let made = made(&name(a.word(1))?, a.arg[2] as u64)?;
            install(made)
        }
        native::LINK => {
            let (from, to) = (quaject(a.int(1))?, quaject(a.int(3))?);
            let (port, callentry) = (name(a.word(2))?, name(a.word(4))?);
            named::link_by_name(made_of(&from)?, &port, made_of(&to)?, &callentry)?;
            Ok(0)
        }
        native::UNLINK => {
            let from = quaject(a.int(1))?;
            named::unlink_by_name(made_of(&from)?, &name(a.word(2))?)?;
            Ok(0)
        }
        native::ENTRY => entry(made_of(&*quaject(a.int(1))?)?, &name(a.word(2))?),
        native::INVOKE => invoke(a.int(1), a.word(2), a.arg[3] as u64),
        native::INSERT => {
            let (of, course) = (open_file(a.int(1))?, course(a.word(2))?);
            let filter = quaject(a.int(3))?;
            of.insert_filter(course, made_of(&filter)?)?;
            Ok(0)
        }
        native::REMOVE => {
            let (of, course) = (open_file(a.int(1))?, course(a.word(2))?);
            let which = match a.int(3) {
                -1 => None,
                fd => Some(made_of(&*quaject(fd)?)?.header().number()),
            };
            of.remove_filter(course, which)?;
            Ok(0)
        }
        native::BETWEEN | native::APART => {
            let (from, port, filter) = (any(a.word(1))?, name(a.word(2))?, quaject(a.int(3))?);
            let filter = made_of(&filter)?;
            if operation == native::BETWEEN {
                named::insert(&from, &port, filter)?;
            } else {
                named::remove(&from, &port, filter.header().number())?;
            }
            Ok(0)
        }
        native::STUB => stub(a),
        _ => Err(Errno::ENOSYS),
    }
}

/// Calls the callentry of this number of a quaject. EBADF, EINVAL, ENOENT, EAGAIN.
fn invoke(fd: i32, number: usize, argument: u64) -> Result<usize> {
    let of = quaject(fd)?;
    let result = made_of(&of)?.call(number, argument);
    CALLED.wake_all();
    // The largest results would be error numbers.
    Ok(result? as usize & isize::MAX as usize)
}

/// The same, without a trap frame.
pub extern "sysv64" fn invoke_outright(
    _operation: usize,
    fd: usize,
    number: usize,
    argument: usize,
    _: usize,
    _: usize,
) -> isize {
    generally(|| invoke(fd as i32, number, argument as u64))
}

/// Makes a quaject that tells the thread with this handle of an event. ENOMEM, EMFILE.
pub fn notice(thread: u64, event: u32) -> Result<usize> {
    let notice = Notice {
        how: |thread, event| {
            if let Some(thread) = thread::by_handle(thread) {
                thread.notify(event);
            }
        },
        thread,
        event,
    };
    install(maker::make_notice(notice, paid(0)?)?)
}

/// A name of the user's. ENOENT: none has this.
fn name(at: usize) -> Result<String> {
    let bytes = user::cstr(at, native::NAME + 1).map_err(|error| match error {
        Errno::ENAMETOOLONG => Errno::ENOENT,
        error => error,
    })?;
    String::from_utf8(bytes).map_err(|_| Errno::ENOENT)
}

fn course(way: usize) -> Result<Course> {
    match way {
        native::WAY_IN => Ok(Course::Incoming),
        native::WAY_OUT => Ok(Course::Outgoing),
        _ => Err(Errno::EINVAL),
    }
}

fn open_file(fd: i32) -> Result<Arc<OpenFile>> {
    Process::current().files.get().opened(fd)
}

/// The description of a quaject. EBADF; EINVAL: it is one of something else.
fn quaject(fd: i32) -> Result<Arc<OpenFile>> {
    let of = open_file(fd)?;
    made_of(&of)?;
    Ok(of)
}

fn made_of(of: &OpenFile) -> Result<&Made> {
    let handle = of.file_as::<Handle>().ok_or(Errno::EINVAL)?;
    Ok(&handle.0)
}

fn install(made: Made) -> Result<usize> {
    let of = OpenFile::new(try_arc(Handle(made))?, O_RDWR);
    let fd = Process::current().files.get().install_cold(of, true)?;
    Ok(fd as usize)
}

/// The number of the callentry called `name`. ENOENT.
fn entry(quaject: &Made, name: &str) -> Result<usize> {
    let mut ports = quaject.header().class().ports.iter();
    ports
        .position(|port| port.kind == Kind::Callentry && port.name == name)
        .ok_or(Errno::ENOENT)
}

/// An operation that a stub may call: its number, and how many arguments it has behind the descriptor.
const ARGUMENTS: [(usize, u8); 16] = [
    (nr::READ, 2),
    (nr::WRITE, 2),
    (nr::CLOSE, 0),
    (nr::FSTAT, 1),
    (nr::LSEEK, 2),
    (nr::IOCTL, 2),
    (nr::PREAD64, 3),
    (nr::PWRITE64, 3),
    (nr::READV, 2),
    (nr::WRITEV, 2),
    (nr::SENDTO, 5),
    (nr::RECVFROM, 5),
    (nr::FCNTL, 2),
    (nr::FSYNC, 0),
    (nr::FTRUNCATE, 1),
    (nr::FADVISE64, 3),
];

/// Instructions that move the arguments of a procedure one place on, last to first: r9 from r8, r8 from rcx,
/// r10 from rdx, rdx from rsi, rsi from rdi.
const MOVES: [[u8; 3]; 5] = [
    [0x4d, 0x89, 0xc1],
    [0x49, 0x89, 0xc8],
    [0x49, 0x89, 0xd2],
    [0x48, 0x89, 0xf2],
    [0x48, 0x89, 0xfe],
];

/// The code of a stub.
struct Stub {
    bytes: [u8; 48],
    length: usize,
}

impl Stub {
    fn add(&mut self, code: &[u8]) {
        let end = self.length.saturating_add(code.len());
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(code);
            self.length = end;
        }
    }

    /// `mov` of a 32-bit constant, which clears the upper half.
    fn load(&mut self, opcode: u8, value: usize) {
        self.add(&[opcode]);
        self.add(&(value as u32).to_le_bytes());
    }
}

const MOV_EAX: u8 = 0xb8;
const MOV_EDX: u8 = 0xba;
const MOV_ESI: u8 = 0xbe;
const MOV_EDI: u8 = 0xbf;
const MOV_R10_RDI: [u8; 3] = [0x49, 0x89, 0xfa];
const SYSCALL_RET: [u8; 3] = [0x0f, 0x05, 0xc3];

/// Writes a user-level stub procedure (figure 3.8) to the user's memory: the procedure with the arguments of
/// the operation. EBADF, EINVAL, ENOENT, ERANGE: longer than the memory, EFAULT.
fn stub(a: &Args) -> Result<usize> {
    let (fd, operation) = (a.int(1), a.word(2));
    let mut code = Stub {
        bytes: [0; 48],
        length: 0,
    };
    if let Some(number) = operation.checked_sub(native::STUB_ENTRY) {
        let of = quaject(fd)?;
        let port = made_of(&of)?.header().class().ports.get(number);
        if port.is_none_or(|port| port.kind != Kind::Callentry) {
            return Err(Errno::ENOENT);
        }
        code.add(&MOV_R10_RDI);
        code.load(MOV_EDX, number);
        code.load(MOV_ESI, fd as usize);
        code.load(MOV_EDI, native::INVOKE);
        code.load(MOV_EAX, native::CALL);
    } else {
        let _open = open_file(fd)?;
        let known = ARGUMENTS.iter().find(|(number, _)| *number == operation);
        let &(number, count) = known.ok_or(Errno::EINVAL)?;
        let moves = MOVES
            .iter()
            .skip(MOVES.len().saturating_sub(usize::from(count)));
        moves.for_each(|code_of| code.add(code_of));
        code.load(MOV_EDI, fd as usize);
        code.load(MOV_EAX, number);
    }
    code.add(&SYSCALL_RET);
    let bytes = code.bytes.get(..code.length).unwrap_or_default();
    if bytes.len() > a.word(4) {
        return Err(Errno::ERANGE);
    }
    user::copy_out(a.word(3), bytes)?;
    Ok(bytes.len())
}

/// A quaject as an open file.
struct Handle(Made);

/// Woken when a callentry of any of them was called: what one call puts may come out elsewhere.
static CALLED: WaitList = WaitList::new();

impl Handle {
    fn text(&self, veil: Veil, out: &mut Out) {
        let header = self.0.header();
        state::heading(header.class(), out);
        state::member(veil, header.class(), header, out);
        for entry in self.0.code().into_iter().filter(|entry| *entry != 0) {
            // Routines may be replaced meanwhile: one that is gone is not shown.
            let _shown = code::listed(veil, entry, out);
        }
    }
}

impl File for Handle {
    /// The text, from the offset on.
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|from| self.read_at(of, from, buf))
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let veil = Veil::now();
        let mut piece = Piece::new(0, PAGE)?;
        piece.record(1, |out| self.text(veil, out));
        let (text, _) = piece.finish()?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        buf.put(text.get(from..).unwrap_or_default())
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.sought(offset, whence, || None)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            table.watch(&CALLED);
        }
        let ready = self.0.ready();
        events & poll::events(ready.get, ready.put)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn label(&self, _of: &OpenFile) -> Result<String> {
        let header = self.0.header();
        try_text(format_args!(
            "anon_inode:[{}:{}]",
            header.class().name,
            header.number()
        ))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
