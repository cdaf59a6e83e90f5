//! The native calls: what one thread does to another, in whatever address space, and what programs do with
//! quajects (`user/sdk/synthesis.h` is this file for C).
//!
//! *Interface*: [`CALL`] is the one system call number; the operation stands in rdi, the thread's handle in
//! rsi, further arguments in rdx, r10, r8; names end with a NUL. The result is in rax: 0 or what the
//! operation gives, or a negative error number as Linux's calls have it.
//!
//! A thread is named by its handle, a number that no other thread ever has; 0 is the caller. ESRCH: no such
//! thread (any more). EPERM: the caller may not (it may do to its own process's threads whatever it likes,
//! and to others what `kill` may; to threads of the kernel only as user 0, and then only stop and let go on).
//!
//! Source: dissertation, sections 3.3.4 and 4.3.2.

/// The system call number; Linux's end far below.
pub const CALL: usize = 0x5359;

/// `(tid)` The handle of the thread that Linux's calls know as `tid`; 0: the caller's own.
pub const HANDLE: usize = 0;
/// `(entry, stack, argument, tls, flags)` Makes a thread in the caller's process that calls `entry(argument)`
/// on the stack that ends at `stack` and ends when it returns. Gives its handle.
pub const CREATE: usize = 1;
/// `(thread)` Ends one thread; with the last one its process ends, killed.
pub const DESTROY: usize = 2;
/// `(thread)` The thread runs nothing more but its interrupt procedures until it is resumed. Of the caller
/// itself: until a resume, which may have come before.
pub const SUSPEND: usize = 3;
/// `(thread)` Continues execution from the suspended or the stopped state. If it is in neither, its next
/// suspension of itself ends at once.
pub const RESUME: usize = 4;
/// `(thread)` The thread runs nothing more, procedures neither, until it is resumed.
pub const STOP: usize = 5;
/// `(thread)` A stopped thread executes one instruction and stops again. EBUSY: it has not stopped, or a step
/// is under way.
pub const STEP: usize = 6;
/// `(thread, procedure)` The thread calls the procedure as if an interrupt had happened: wherever it is in
/// user mode, with all registers kept for it, and goes on there when the procedure returns. EAGAIN: too many
/// are pending.
pub const INTERRUPT: usize = 7;
/// `(thread, number)` [`INTERRUPT`] with the procedure that the thread's signal table has for `number`.
/// EINVAL: none.
pub const SIGNAL: usize = 8;
/// `(thread, number, procedure)` Sets that entry, 0 to 31; procedure 0 clears it.
pub const SETSIGNAL: usize = 9;
/// `(0, event)` Waits until event 0 to 63 has occurred for the caller. One that occurred before counts.
pub const WAIT: usize = 10;
/// `(thread, event)` Tells the thread that the event has occurred.
pub const NOTIFY: usize = 11;
/// `(thread)` The thread's state: a sum of the `STATE_…` constants.
pub const STATE: usize = 12;

/// `(class, number)` Makes a quaject of the class with this name, as the number says (docs/native.md). Gives
/// a descriptor that closes at `exec`. ENOENT: no such class. EINVAL: no such number.
pub const MAKE: usize = 13;
/// `(thread, event)` Makes a quaject of class `Notice`: its callentries tell the thread that the event has
/// occurred. Gives a descriptor.
pub const NOTICE: usize = 14;
/// `(from, port, to, callentry)` Links a callout or callback of one quaject to a callentry of another: two
/// descriptors and two names. ENOENT: no such name. EPROTOTYPE: of different signatures. ELOOP: a circle.
/// EMLINK: too long a chain.
pub const LINK: usize = 15;
/// `(from, port)` Gives the callout or callback its default action back.
pub const UNLINK: usize = 16;
/// `(quaject, name)` The number of a callentry.
pub const ENTRY: usize = 17;
/// `(quaject, number, argument)` Calls the callentry of that number. Gives its result. EAGAIN: it could not
/// be done now.
pub const INVOKE: usize = 18;
/// `(file, way, filter)` Puts a filter in front of those that the bytes of an open file pass, on their way
/// in, [`WAY_IN`], or out, [`WAY_OUT`].
pub const INSERT: usize = 19;
/// `(file, way, filter)` Takes it out again; filter -1: all of them.
pub const REMOVE: usize = 20;
/// `(number, port, filter)` Puts a filter between a port of any quaject, by its number, and its target:
/// `CAP_SYS_ADMIN`.
pub const BETWEEN: usize = 21;
/// `(number, port, filter)` Takes it out again.
pub const APART: usize = 22;
/// `(file, operation, memory, size)` Writes the code of a procedure that calls an operation of the open file
/// or quaject: [`STUB_ENTRY`] and a callentry's number, or a call of Linux's. Gives its length.
pub const STUB: usize = 23;

/// `(strips, deadline, procedure)` The caller has so many strips of work to do until this time of the
/// monotonic clock, nanoseconds. It calls the procedure, once, as by [`INTERRUPT`], when its measured rate
/// says that it will be late. Strips 0: it has nothing to do any more. EINVAL: the deadline has passed.
pub const JOB: usize = 24;
/// `()` The caller has done a strip of its job. Gives the part of the CPU that it needs until the deadline,
/// in thousandths of the part that it has: above 1000 it will be late; 0: it is done. EINVAL: it has no job.
pub const STRIP: usize = 25;

/// `(file, operation)` Gives the operation, as [`STUB`] names it, a call number of the program's own, from
/// [`CACHED`] on: whatever thread of the program makes that call finds the procedure resolved. The arguments
/// stand where those of the call itself do; descriptor and callentry are the kernel's part. An operation that
/// has a number keeps it. ENOSPC: [`CACHED_MOST`] have one.
pub const CACHE: usize = 26;
/// `(number)` Takes the number back. EINVAL: no operation has it.
pub const UNCACHE: usize = 27;

/// `(thread, number)` Makes a quaject of class `Thread`: its callentries are the operations on that thread,
/// with the caller's rights at each call. `signal` and `setsignal` are about the entry of this number in the
/// signal table, `wait` and `notify` about the event of this number. Gives a descriptor. EINVAL: no event has
/// this number.
pub const THREAD: usize = 28;

/// Bytes come out of the file.
pub const WAY_IN: usize = 0;
/// Bytes go into the file.
pub const WAY_OUT: usize = 1;
/// Added to the number of a callentry, for [`STUB`].
pub const STUB_ENTRY: usize = 0x10000;
/// Added to an operation, for [`STUB`]: the procedure makes the call by a number of the program's own
/// ([`CACHE`]).
pub const STUB_CACHED: usize = 0x20000;
/// The first number that [`CACHE`] gives.
pub const CACHED: usize = 0x5400;
/// Numbers that it has for a program.
pub const CACHED_MOST: usize = 16;
/// Bytes that a name may have.
pub const NAME: usize = 31;

/// Of [`CREATE`]'s flags: the thread begins suspended.
pub const CREATE_SUSPENDED: usize = 1;

/// Is to be suspended, or is.
pub const STATE_SUSPENDED: u32 = 1;
/// Is to stop, or has.
pub const STATE_STOP: u32 = 2;
/// Waits to be resumed: runs no instruction in user mode.
pub const STATE_HALTED: u32 = 4;
/// Sleeps, in a call or halted.
pub const STATE_ASLEEP: u32 = 8;
/// Runs in the kernel alone.
pub const STATE_KERNEL: u32 = 16;

/// Signal table entries of a thread.
pub const SIGNALS: usize = 32;
/// Events of a thread.
pub const EVENTS: usize = 64;
