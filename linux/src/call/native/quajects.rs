//! The native calls on quajects: descriptors of them, their links, their callentries, and filters.
//!
//! *Interface*: [`operate`] answers the operations that [`answers`] names, but for [`native::NOTICE`], whose
//! thread the caller looks up, and which [`notice`] makes, as [`of_thread`] does [`native::THREAD`];
//! [`invoke_frameless`] the calls of callentries. A
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
use account::caller;
use alloc::string::String;
use alloc::sync::Arc;
use file::filters::Direction;
use file::fs::pseudofs::{TextOut, TextPiece};
use file::io::IoBuf;
use file::poll::{self, PollTable};
use file::{DescRoutine, File, OpenFile, Operation, routine_env};
use machine::irqs_off::IrqsOff;
use process::Process;
use process::cached_operations::CachedOperation;
use process::dispatch::cached;
use process::user_quajects::{any, made, paid};
use procfs::syn::kptr_restrict::KptrRestrict;
use procfs::syn::{code, kernel_state};
use quaject::by_name::{self, Quaject};
use quaject::class::Kind;
use quaject::maker::{self, Made};
use quaject::notice::Notice;
use thread::frameless::call_handler;
use thread::thread_quaject::ThreadQuaject;
use vm::fallible::{try_arc, try_text};
use vm::user;

use super::Args;

/// Whether [`operate`] is to answer this.
pub fn answers(operation: usize) -> bool {
    (native::MAKE..=native::STUB).contains(&operation)
        || (native::CACHE..=native::UNCACHE).contains(&operation)
}

/// Answers one operation.
pub fn operate(operation: usize, a: &Args) -> Result<usize> {
    match operation {
        native::MAKE => {
            let made = made(&caller::cred(), &name(a.word(1))?, a.arg[2] as u64)?;
            install(made)
        }
        native::LINK => {
            let (from, to) = (quaject(a.int(1))?, quaject(a.int(3))?);
            let (port, callentry) = (name(a.word(2))?, name(a.word(4))?);
            may_be_linked(made_of(&to)?, &callentry)?;
            by_name::link_by_name(made_of(&from)?, &port, made_of(&to)?, &callentry)?;
            Ok(0)
        }
        native::UNLINK => {
            let from = quaject(a.int(1))?;
            by_name::unlink_by_name(made_of(&from)?, &name(a.word(2))?)?;
            Ok(0)
        }
        native::ENTRY => entry(made_of(&*quaject(a.int(1))?)?, &name(a.word(2))?),
        native::INVOKE => invoke(a.int(1), a.word(2), a.word(3)),
        native::INSERT => {
            let (of, course) = (open_file(a.int(1))?, course(a.word(2))?);
            let filter = quaject(a.int(3))?;
            of.insert_filter(&caller::cred(), course, made_of(&filter)?)?;
            Ok(0)
        }
        native::REMOVE => {
            let (of, course) = (open_file(a.int(1))?, course(a.word(2))?);
            let which = match a.int(3) {
                -1 => None,
                fd => Some(made_of(&*quaject(fd)?)?.header().number()),
            };
            of.remove_filter(&caller::cred(), course, which)?;
            Ok(0)
        }
        native::BETWEEN | native::APART => {
            let (from, port, filter) = (
                any(&caller::cred(), a.word(1))?,
                name(a.word(2))?,
                quaject(a.int(3))?,
            );
            let filter = made_of(&filter)?;
            if operation == native::BETWEEN {
                by_name::insert(&from, &port, filter)?;
            } else {
                by_name::remove(&from, &port, filter.header().number())?;
            }
            Ok(0)
        }
        native::STUB => stub(a),
        native::CACHE => cache(a.int(1), a.word(2)),
        native::UNCACHE => {
            cached::uncache(&Process::current(), a.word(1))?;
            Ok(0)
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// Calls the callentry of this number of a quaject. EBADF, EINVAL, ENOENT, EAGAIN.
fn invoke(fd: i32, number: usize, argument: usize) -> Result<usize> {
    let of = quaject(fd)?;
    let made = made_of(&of)?;
    if let Some(operation) = Operation::OWN.get(number) {
        of.used_plainly(*operation);
    }
    Ok(made.called(number, argument)?)
}

/// The same, without a trap frame.
pub extern "sysv64" fn invoke_frameless(
    _operation: usize,
    fd: usize,
    number: usize,
    argument: usize,
    _: usize,
    _: usize,
    mut off: IrqsOff,
) -> isize {
    call_handler(&mut off, || invoke(fd as i32, number, argument))
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
    install(maker::make_notice(notice, paid(&caller::cred(), 0)?)?)
}

/// Makes one whose callentries are the operations on a thread. ENOMEM, EMFILE.
pub fn of_thread(steered: ThreadQuaject) -> Result<usize> {
    install(thread::thread_quaject::make(
        steered,
        paid(&caller::cred(), 0)?,
    )?)
}

/// Whether the caller may link another's port to this callentry. A name of none is refused where links are
/// made.
fn may_be_linked(to: &Made, callentry: &str) -> Result<()> {
    match entry(to, callentry) {
        Ok(number) => to.may_be_linked(number),
        Err(_) => Ok(()),
    }
}

/// A name of the user's. ENOENT: none has this.
fn name(at: usize) -> Result<String> {
    let bytes = user::cstr(at, native::NAME + 1).map_err(|error| match error {
        Errno::ENAMETOOLONG => Errno::ENOENT,
        error => error,
    })?;
    String::from_utf8(bytes).map_err(|_| Errno::ENOENT)
}

fn course(way: usize) -> Result<Direction> {
    match way {
        native::WAY_IN => Ok(Direction::Incoming),
        native::WAY_OUT => Ok(Direction::Outgoing),
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

    /// The call by `number`, and the return.
    fn end(&mut self, number: usize) {
        self.load(MOV_EAX, number);
        self.add(&SYSCALL_RET);
    }

    fn written(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

const MOV_EAX: u8 = 0xb8;
const MOV_EDX: u8 = 0xba;
const MOV_ESI: u8 = 0xbe;
const MOV_EDI: u8 = 0xbf;
const MOV_R10_RDI: [u8; 3] = [0x49, 0x89, 0xfa];
const SYSCALL_RET: [u8; 3] = [0x0f, 0x05, 0xc3];

/// The arguments behind the descriptor that an operation of `fd` has, if that is a call of Linux's; None for
/// a callentry of a quaject, whose number the operation holds. EBADF, EINVAL, ENOENT.
fn operated(fd: i32, operation: usize) -> Result<Option<u8>> {
    if let Some(number) = operation.checked_sub(native::STUB_ENTRY) {
        let of = quaject(fd)?;
        let port = made_of(&of)?.header().class().ports.get(number);
        let is_callentry = port.is_some_and(|port| port.kind == Kind::Callentry);
        return is_callentry.then_some(None).ok_or(Errno::ENOENT);
    }
    let _open = open_file(fd)?;
    let known = ARGUMENTS.iter().find(|(number, _)| *number == operation);
    known.map(|known| Some(known.1)).ok_or(Errno::EINVAL)
}

/// Gives an operation a call number of the program's own. EBADF, EINVAL, ENOENT, ENOSPC, ENOMEM.
fn cache(fd: i32, operation: usize) -> Result<usize> {
    operated(fd, operation)?;
    let of = CachedOperation {
        fd: fd as u32,
        operation: operation as u32,
    };
    cached::cache(&Process::current(), of)
}

/// Writes a user-level stub procedure (figure 3.8) to the user's memory: the procedure with the arguments of
/// the operation. EBADF, EINVAL, ENOENT, ERANGE: longer than the memory, EFAULT; and the errors of [`cache`].
fn stub(a: &Args) -> Result<usize> {
    let (fd, operation) = (a.int(1), a.word(2) & !native::STUB_CACHED);
    let by_own_number = a.word(2) & native::STUB_CACHED != 0;
    let arguments = operated(fd, operation)?;
    let mut code = Stub {
        bytes: [0; 48],
        length: 0,
    };
    match arguments {
        Some(count) => {
            let first = MOVES.len().saturating_sub(usize::from(count));
            let moves = MOVES.iter().skip(first);
            moves.for_each(|code_of| code.add(code_of));
        }
        None => code.add(&MOV_R10_RDI),
    }
    let number = match arguments {
        // Its place is known now, and its length; the number comes once there is room for it.
        _ if by_own_number => native::CACHED,
        Some(_) => {
            code.load(MOV_EDI, fd as usize);
            operation
        }
        None => {
            code.load(MOV_EDX, operation.saturating_sub(native::STUB_ENTRY));
            code.load(MOV_ESI, fd as usize);
            code.load(MOV_EDI, native::INVOKE);
            native::CALL
        }
    };
    let before = code.length;
    code.end(number);
    if code.length > a.word(4) {
        return Err(Errno::ERANGE);
    }
    // A program without this memory gets no number.
    user::copy_out(a.word(3), code.written())?;
    if by_own_number {
        code.length = before;
        code.end(cache(fd, operation)?);
        user::copy_out(a.word(3), code.written())?;
    }
    Ok(code.length)
}

/// A quaject as an open file.
struct Handle(Made);

impl Handle {
    fn text(&self, kptr: KptrRestrict, out: &mut TextOut) {
        let header = self.0.header();
        kernel_state::heading(header.class(), out);
        kernel_state::member(kptr, header.class(), header, out);
        for entry in self.0.code().into_iter().filter(|entry| *entry != 0) {
            // Routines may be replaced meanwhile: one that is gone is not shown.
            let _shown = code::listed(kptr, entry, out);
        }
    }
}

impl File for Handle {
    /// The text, from the offset on.
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|from| self.read_at(of, from, buf))
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let kptr = KptrRestrict::now();
        let mut piece = TextPiece::new(0, PAGE)?;
        piece.record(1, |out| self.text(kptr, out));
        let (text, _) = piece.finish()?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        buf.put(text.get(from..).unwrap_or_default())
    }

    fn has_places(&self, _of: &OpenFile) -> bool {
        true
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
            table.watch(&maker::CALLED);
        }
        let ready = self.0.ready();
        events & poll::events(ready.get, ready.put)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn synthesize_callentry(&self, number: usize) -> Result<Option<DescRoutine>> {
        match self.0.descriptor_routine(number) {
            Some(routine) => routine_env::made(routine),
            None => Ok(None),
        }
    }

    fn label(&self, _of: &OpenFile) -> Result<String> {
        let header = self.0.header();
        try_text(format_args!(
            "anon_inode:[{}:{}]",
            header.class().name,
            header.number()
        ))
    }
}
