//! The environment of a descriptor routine: what it knows of the kernel around it.
//!
//! *Interface*: [`RoutineEnv`] holds the constants of every descriptor routine: the slow exit, the callback
//! stubs, and the machine's invariants (whether there is more than one CPU, whether user accesses need
//! `stac`). Made once at boot, when the number of CPUs is known. [`DescFn`] is the contract
//! (`docs/architecture.md`, "Contract of a descriptor routine").
//!
//! Source: dissertation, sections 3.2.1 (factoring invariants) and 4.1.3 (callbacks); quasi-invariants after
//! Pu et al. 1995.
//!
//! *Unsafe*: a monitor by its address; safety contract of stubs.

use crate::kit::callback::{self, CallbackFn};
use crate::kit::emit;
use crate::kit::variant::Variant;
use codegen::{Class, Draft, Hole, OutOfCode, Routine};
use sync::WaitList;
use sync::monitor::RawMonitor;

/// A descriptor routine: file descriptor, buffer or offset, count or whence, as the user passed them; the
/// result or a negative errno. Besides this it keeps every register but rax, and may leave through the slow
/// exit instead of returning, so it is not called from Rust.
pub type DescFn = extern "sysv64" fn(fd: usize, a: usize, b: usize) -> isize;

/// How a descriptor routine reaches user memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAccess {
    /// Between `stac` and `clac`: a kernel on a CPU with SMAP.
    Kernel,
    /// Plainly: a kernel on a CPU without SMAP, and tests on the host.
    Host,
}

/// How far the object behind a routine is shared: the quasi-invariant that the routine assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// One thread of one process reaches this end of it. `fork`, `dup`, `clone` and passing are the guards.
    Exclusive,
    /// Anyone may; the routine takes the monitor's word or leaves by the slow exit.
    Shared,
}

/// The other procedures that routines call, with the address of the object's word: Rust functions of the
/// quajects with such routines.
#[derive(Clone, Copy, Debug)]
pub struct Callbacks {
    /// An empty pipe has data.
    pub data_came: extern "sysv64" fn(usize),
    /// A full pipe has room.
    pub space_came: extern "sysv64" fn(usize),
    /// A counter is above zero.
    pub some_came: extern "sysv64" fn(usize),
    /// A counter may be added to.
    pub room_came: extern "sysv64" fn(usize),
}

/// The constants of descriptor routines.
#[derive(Debug)]
pub struct RoutineEnv {
    slow: usize,
    several_cpus: bool,
    conv: UserAccess,
    pub(crate) data_came: Routine<CallbackFn>,
    pub(crate) space_came: Routine<CallbackFn>,
    pub(crate) some_came: Routine<CallbackFn>,
    pub(crate) room_came: Routine<CallbackFn>,
    pub(crate) wake_next: Routine<CallbackFn>,
    /// For a wait list.
    pub(crate) wake_all: Routine<CallbackFn>,
    /// `nothing there` of a routine that does not wait.
    pub(crate) impatient_read: Routine<DescFn>,
    waiting: Option<usize>,
}

impl RoutineEnv {
    /// `slow`: the slow exit, with rax = call number and all user registers as at entry. `cpus`: CPUs that
    /// may run routines, from now on for ever. `callbacks`: those of the catalogue.
    ///
    /// # Errors
    /// [`OutOfCode`] when the callback stubs find no room.
    pub fn new(
        slow: usize,
        cpus: usize,
        conv: UserAccess,
        callbacks: &Callbacks,
    ) -> Result<RoutineEnv, OutOfCode> {
        Ok(RoutineEnv {
            slow,
            several_cpus: cpus > 1,
            conv,
            data_came: callback::synthesize("pipe data came", callbacks.data_came)?,
            space_came: callback::synthesize("pipe space came", callbacks.space_came)?,
            some_came: callback::synthesize("counter some came", callbacks.some_came)?,
            room_came: callback::synthesize("counter room came", callbacks.room_came)?,
            wake_next: callback::synthesize("monitor wake next", wake_next)?,
            wake_all: callback::synthesize("list wake all", wake_all)?,
            impatient_read: impatient(slow)?,
            waiting: None,
        })
    }

    /// The same with another slow exit, for routines that are called by others: they wait for nothing.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub(crate) fn leaving_to(&self, slow: usize) -> Result<RoutineEnv, OutOfCode> {
        Ok(RoutineEnv {
            slow,
            several_cpus: self.several_cpus,
            conv: self.conv,
            data_came: self.data_came.clone(),
            space_came: self.space_came.clone(),
            some_came: self.some_came.clone(),
            room_came: self.room_came.clone(),
            wake_next: self.wake_next.clone(),
            wake_all: self.wake_all.clone(),
            impatient_read: impatient(slow)?,
            waiting: None,
        })
    }

    /// With the code that lets a thread sleep which `other` has.
    pub(crate) fn waiting_as(self, other: &RoutineEnv) -> RoutineEnv {
        RoutineEnv {
            waiting: other.waiting,
            ..self
        }
    }

    /// With code that lets a thread sleep straight out of a routine: entered by a jump at any depth of the
    /// kernel stack, rax = address of the object's [`Sleep`](crate::Sleep), all else as at the routine's
    /// entry. It calls that, and makes the `read` again or leaves it to the slow exit. Without it routines
    /// leave by the slow exit instead of waiting.
    pub fn waiting(self, entry: usize) -> RoutineEnv {
        RoutineEnv {
            waiting: Some(entry),
            ..self
        }
    }

    /// The target of a patient reading routine that finds nothing, with the address of a
    /// [`Sleep`](crate::Sleep) in rax.
    pub(crate) fn wait_for_data(&self) -> usize {
        self.waiting.unwrap_or(self.impatient_read.entry())
    }

    /// The slow exit.
    pub fn slow(&self) -> usize {
        self.slow
    }

    /// Whether routines may run on several CPUs at once.
    pub fn several_cpus(&self) -> bool {
        self.several_cpus
    }

    /// How user memory is reached.
    pub fn conv(&self) -> UserAccess {
        self.conv
    }

    pub(crate) fn variant(&self, sharing: Sharing) -> Variant {
        Variant {
            several_cpus: self.several_cpus,
            shared: sharing == Sharing::Shared,
            guarded_user: self.conv == UserAccess::Kernel,
        }
    }
}

static IMPATIENT: Class = Class::new("impatient read");

fn impatient(slow: usize) -> Result<Routine<DescFn>, OutOfCode> {
    let mut draft = Draft::new(&IMPATIENT, "nothing there");
    emit::leave_slowly(&mut draft, abi::nr::READ, Hole::value(slow as i64));
    // SAFETY: takes the slow exit, as a descriptor routine may.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

extern "sysv64" fn wake_next(monitor: usize) {
    // SAFETY: routines pass the address of the monitor that they were generated for, and it outlives them.
    unsafe { &*(monitor as *const RawMonitor) }.wake_next();
}

extern "sysv64" fn wake_all(list: usize) {
    // SAFETY: routines pass the address of the list that they were generated for, and it outlives them.
    unsafe { &*(list as *const WaitList) }.wake_all();
}

/// A template for each variant, from a generator that gets the variant's index.
macro_rules! templates {
    ($class:expr, $generator:ident) => {
        [
            codegen::Template::of_variant($class, $generator, 0),
            codegen::Template::of_variant($class, $generator, 1),
            codegen::Template::of_variant($class, $generator, 2),
            codegen::Template::of_variant($class, $generator, 3),
            codegen::Template::of_variant($class, $generator, 4),
            codegen::Template::of_variant($class, $generator, 5),
            codegen::Template::of_variant($class, $generator, 6),
            codegen::Template::of_variant($class, $generator, 7),
        ]
    };
}
pub(crate) use templates;

/// Why a routine could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineError {
    /// No room in the code space.
    OutOfCode,
    /// No room in the heap.
    OutOfMemory,
    /// Data that the routine names lies where no sign-extended 32-bit address reaches it.
    OutOfReach,
    /// The description asks for something that there is not.
    BadSpec,
    /// The link would lead back to where it begins.
    Cycle,
    /// The link would make too long a chain.
    TooLong,
    /// By the link an interrupt handler would come to where it may have to wait.
    Waits,
}

impl From<OutOfCode> for RoutineError {
    fn from(_: OutOfCode) -> RoutineError {
        RoutineError::OutOfCode
    }
}

/// The address of `word` as a value for a 32-bit field.
pub(crate) fn near<T: ?Sized>(word: *const T) -> Result<i64, RoutineError> {
    let address = word.expose_provenance() as i64;
    i32::try_from(address)
        .map(i64::from)
        .map_err(|_| RoutineError::OutOfReach)
}
