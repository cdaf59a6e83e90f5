//! Quajects for those who have names only: programs, and the writers of `/syn/filters`.
//!
//! *Interface*: [`make`] makes one by the name of its class and a number; [`Made::call`] calls a callentry by
//! its number in the class, [`Made::called`] does so for a program, and [`Made::descriptor_routine`]
//! generates code that does. [`Made`] is linked by name ([`crate::by_name`]). The maker's payment for it is
//! kept as long as it is reached by the handle, or by a link that was made through the handle.
//!
//! Any number of threads may call what is made here at once.
//!
//! Source: dissertation, section 4.1.2 (the creator).
//!
//! *Unsafe*: safety contract of a descriptor's routine, which passes the quaject that it was made for.

use crate::catalogue::filter::checksum::Checksum;
use crate::catalogue::filter::newline::{Ends, Newline};
use crate::catalogue::filter::rate::{Limit, Rate};
use crate::catalogue::filter::tap::Tap;
use crate::catalogue::filter::upper::Upper;
use crate::catalogue::filter::{self, Filter, Treatment};
use crate::catalogue::gauge::{self, Gauge};
use crate::catalogue::notice::{self, Notice};
use crate::catalogue::pump::{self, Pump};
use crate::catalogue::queue::{self, ByteQueue, Parties, Spec};
use crate::catalogue::serializer::{self, Serializer};
use crate::kit::by_name::{Kept, Quaject, link_by_name};
use crate::kit::class::{Body, Header, OutOfMemory, Ref, create};
use crate::kit::interfacer::Target;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{DescFn, RoutineError};
use abi::errno::Errno;
use alloc::boxed::Box;
use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Routine, dynasm};
use core::any::Any;
use sync::WaitList;

/// Why nothing comes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unable {
    /// The class has no such callentry, or none that is called from outside.
    NoSuchCallentry,
    /// The byte is not taken, or there is none.
    NotNow,
    /// The callentry's own reason.
    Refused(Errno),
}

impl From<Unable> for Errno {
    fn from(unable: Unable) -> Errno {
        match unable {
            Unable::NoSuchCallentry => Errno::ENOENT,
            Unable::NotNow => Errno::EAGAIN,
            Unable::Refused(error) => error,
        }
    }
}

/// Whether something can be put into a quaject now, and whether there is something to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// `put` would be done.
    pub put: bool,
    /// `get` would be.
    pub get: bool,
}

/// Woken when a callentry of any of them was called for a program: what one call puts may come out elsewhere.
pub static CALLED: WaitList = WaitList::new();

/// A quaject that is called by number.
pub trait Callable: Quaject {
    /// Calls the callentry of this number in its class.
    ///
    /// # Errors
    /// [`Unable`].
    fn call(&self, number: usize, argument: u64) -> Result<u64, Unable>;
    /// Code that calls this callentry, which does not wait and is done in bounded time, as
    /// [`Made::descriptor_routine`] says; None for any other.
    fn by_descriptor(&self, _number: usize) -> Option<Result<Routine<DescFn>, RoutineError>> {
        None
    }
    /// The entries of its generated callentries.
    fn code(&self) -> [usize; 2] {
        [0, 0]
    }
    /// Whether a port of another may be linked to the callentry of this number, as far as the running thread
    /// is concerned.
    ///
    /// # Errors
    /// Why it may not.
    fn may_be_linked(&self, _number: usize) -> Result<(), Errno> {
        Ok(())
    }
    /// The calls that it can take now.
    fn ready(&self) -> Ready {
        Ready {
            put: true,
            get: true,
        }
    }
}

/// A quaject that was made by name.
pub struct Made {
    quaject: Box<dyn Callable>,
    paid: Arc<dyn Any + Send + Sync>,
}

/// A box of it. The caller has seen to it that there is memory.
fn boxed<B: Body>(quaject: Ref<B>) -> Box<dyn Callable>
where
    Ref<B>: Callable,
{
    Box::new(quaject)
}

/// Makes a quaject of the class called `class`, as its number says; `paid` is kept with it. The classes, and
/// their numbers: `Upper`, `Tap`, `Gauge`, `Checksum`, `Monitor` and `Pump` have none; `Newline`: the byte
/// that becomes the other end of a line; `Rate`: bytes in a second; `Queue`: bytes that it holds, a power of
/// two.
///
/// # Errors
/// ENOENT: no such class. EINVAL: no such number. ENOMEM.
pub fn make(
    class: &str,
    number: u64,
    several_cpus: bool,
    paid: Arc<dyn Any + Send + Sync>,
) -> Result<Made, Errno> {
    let why = |unmade| match unmade {
        RoutineError::BadSpec => Errno::EINVAL,
        _ => Errno::ENOMEM,
    };
    let no_number = match number {
        0 => Ok(()),
        _ => Err(Errno::EINVAL),
    };
    let quaject = match class {
        "Upper" => create::<Upper>(no_number?).map(boxed),
        "Tap" => create::<Tap>(no_number?).map(boxed),
        "Checksum" => create::<Checksum>(no_number?).map(boxed),
        "Gauge" => no_number.map(|()| create::<Gauge>(several_cpus).map(boxed))?,
        "Monitor" => create::<Serializer>(no_number?).map(boxed),
        "Pump" => create::<Pump>(no_number?).map(boxed),
        "Newline" => match number {
            13 => create::<Newline>(Ends::Feed).map(boxed),
            10 => create::<Newline>(Ends::Return).map(boxed),
            _ => return Err(Errno::EINVAL),
        },
        "Rate" => create::<Rate>(Limit {
            per_second: u32::try_from(number).map_err(|_| Errno::EINVAL)?,
            several_cpus,
        })
        .map(boxed),
        "Queue" => create::<ByteQueue>(Spec {
            producers: Parties::Many,
            consumers: Parties::Many,
            size: usize::try_from(number).map_err(|_| Errno::EINVAL)?,
            several_cpus,
            strings: false,
        })
        .map(boxed),
        _ => return Err(Errno::ENOENT),
    };
    let quaject = quaject.map_err(why)?;
    Ok(Made { quaject, paid })
}

/// As [`make`], of class `Notice`.
///
/// # Errors
/// ENOMEM.
pub fn make_notice(notice: Notice, paid: Arc<dyn Any + Send + Sync>) -> Result<Made, Errno> {
    let made = create::<Notice>(notice).map_err(|OutOfMemory| Errno::ENOMEM)?;
    let quaject = boxed(made);
    Ok(Made { quaject, paid })
}

impl Made {
    /// For another room's quaject, which is made by name; `paid` is kept with it.
    pub fn of(quaject: impl Callable + 'static, paid: Arc<dyn Any + Send + Sync>) -> Made {
        let quaject = Box::new(quaject);
        Made { quaject, paid }
    }

    /// [`Callable::may_be_linked`].
    ///
    /// # Errors
    /// As there.
    pub fn may_be_linked(&self, number: usize) -> Result<(), Errno> {
        self.quaject.may_be_linked(number)
    }

    /// Calls the callentry of this number in its class.
    ///
    /// # Errors
    /// [`Unable`].
    pub fn call(&self, number: usize, argument: u64) -> Result<u64, Unable> {
        self.quaject.call(number, argument)
    }

    /// The same for a program, whose threads may wait for what comes of it. The largest results would be
    /// error numbers.
    ///
    /// # Errors
    /// [`Unable`].
    pub fn called(&self, number: usize, argument: usize) -> Result<usize, Unable> {
        called(&*self.quaject, number, argument)
    }

    /// Code that does what [`Made::called`] does, with interrupts off: the argument in r10, the result or a
    /// negative error number in rax, every other register preserved. For as long as this exists. None for a
    /// callentry that there is not, or whose work may wait or take long.
    pub fn descriptor_routine(
        &self,
        number: usize,
    ) -> Option<Result<Routine<DescFn>, RoutineError>> {
        self.quaject.by_descriptor(number)
    }

    /// The entries of its generated callentries at this instant, to look at; 0 for none.
    pub fn code(&self) -> [usize; 2] {
        self.quaject.code()
    }

    /// The calls that it can take now.
    pub fn ready(&self) -> Ready {
        self.quaject.ready()
    }
}

impl Quaject for Made {
    fn header(&self) -> &'static Header {
        self.quaject.header()
    }
    fn target(&self, number: usize) -> Option<Target> {
        let target = self.quaject.target(number)?;
        let _paid = self.paid.clone();
        Some(Arc::new(Kept { target, _paid }))
    }
}

/// The count of the filter with this header; None for a filter that does not count.
pub fn value(header: &'static Header) -> Option<u64> {
    let tap = Ref::<Tap>::known(header).map(|tap| tap.value());
    let sum = || Ref::<Checksum>::known(header).map(|sum| sum.value());
    let rate = || Ref::<Rate>::known(header).map(|rate| rate.value());
    tap.or_else(sum).or_else(rate)
}

/// As [`make`] a `Tap`, with a `Gauge` that counts linked to it.
///
/// # Errors
/// ENOMEM.
pub fn make_counter(several_cpus: bool, paid: Arc<dyn Any + Send + Sync>) -> Result<Made, Errno> {
    let tap = make("Tap", 0, several_cpus, paid.clone())?;
    let gauge = make("Gauge", 0, several_cpus, paid)?;
    link_by_name(&tap, "each", &gauge, "count")?;
    Ok(tap)
}

fn called(quaject: &dyn Callable, number: usize, argument: usize) -> Result<usize, Unable> {
    let result = quaject.call(number, argument as u64);
    CALLED.wake_all();
    Ok(result? as usize & isize::MAX as usize)
}

static CALLING: Class = Class::new("callentry");

/// A routine around [`Callable::call`] of `quaject`, which stays as long as it.
///
/// # Errors
/// [`RoutineError`].
// A draft is large, and so has a frame of its own.
#[inline(never)]
pub fn around<C: Callable>(quaject: &C, number: usize) -> Result<Routine<DescFn>, RoutineError> {
    let mut draft = Draft::new(&CALLING, "of a quaject");
    let d = &mut draft;
    let saved = Regs::SYSV - Regs::of(&[Reg::Rax]);
    let depth = -8 * saved.len() as i32;
    let quaject = core::ptr::from_ref(quaject).expose_provenance();
    dynasm!(d ; .arch x64 ; push rbp ; mov rbp, rsp);
    saved.save(d);
    dynasm!(d
        ; .arch x64
        ; and rsp, -16
        ; mov rdi, QWORD quaject as i64
        ; mov esi, number as i32
        ; mov rdx, r10
    );
    d.call_abs(call_one::<C> as *const () as usize);
    dynasm!(d ; .arch x64 ; lea rsp, [rbp + depth]);
    saved.restore(d);
    dynasm!(d ; .arch x64 ; pop rbp ; ret);
    // SAFETY: it saves the registers that a System V function may change, aligns the stack, and returns; the
    // quaject stays as long as the routine by this function's promise.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

extern "sysv64" fn call_one<C: Callable>(
    quaject: *const C,
    number: usize,
    argument: usize,
) -> isize {
    // SAFETY: the routine passes the quaject that it was made for, which stays as long as it.
    match called(unsafe { &*quaject }, number, argument) {
        Ok(result) => result as isize,
        Err(error) => Errno::from(error).to_rax() as isize,
    }
}

/// A byte that was taken, or not.
fn taken(is: bool) -> Result<u64, Unable> {
    is.then_some(1).ok_or(Unable::NotNow)
}

impl<T: Treatment> Callable for Ref<Filter<T>>
where
    Filter<T>: Body,
{
    fn call(&self, number: usize, argument: u64) -> Result<u64, Unable> {
        match number {
            filter::PASS => Ok(u64::from(self.pass(argument as u8))),
            filter::PUT => taken(self.put(argument as u8)),
            filter::VALUE => Ok(self.value()),
            _ => Err(Unable::NoSuchCallentry),
        }
    }
    fn by_descriptor(&self, number: usize) -> Option<Result<Routine<DescFn>, RoutineError>> {
        // A `put` may lead to a monitor, where it waits.
        [filter::PASS, filter::VALUE]
            .contains(&number)
            .then(|| around(self, number))
    }
    fn code(&self) -> [usize; 2] {
        self.routines().map(|routine| routine.entry())
    }
}

impl Callable for Ref<Gauge> {
    fn call(&self, number: usize, _: u64) -> Result<u64, Unable> {
        match number {
            gauge::COUNT => {
                self.count();
                Ok(0)
            }
            gauge::READ => Ok(self.read()),
            gauge::TAKE => Ok(self.take()),
            _ => Err(Unable::NoSuchCallentry),
        }
    }
    fn by_descriptor(&self, number: usize) -> Option<Result<Routine<DescFn>, RoutineError>> {
        // Nothing can come of it elsewhere, so nobody is woken.
        self.descriptor_routine(number)
    }
}

impl Callable for Ref<ByteQueue> {
    fn call(&self, number: usize, argument: u64) -> Result<u64, Unable> {
        match number {
            queue::Q_PUT => taken(self.put(argument as u8) > 0),
            queue::Q_GET => self.get().map(u64::from).ok_or(Unable::NotNow),
            _ => Err(Unable::NoSuchCallentry),
        }
    }
    fn by_descriptor(&self, number: usize) -> Option<Result<Routine<DescFn>, RoutineError>> {
        [queue::Q_PUT, queue::Q_GET]
            .contains(&number)
            .then(|| around(self, number))
    }
    fn code(&self) -> [usize; 2] {
        let (put, get) = self.routines();
        [put.entry(), get.entry()]
    }
    fn ready(&self) -> Ready {
        Ready {
            put: self.room() > 0,
            get: !self.is_empty(),
        }
    }
}

impl Callable for Ref<Serializer> {
    fn call(&self, number: usize, argument: u64) -> Result<u64, Unable> {
        match number {
            serializer::ENTER => taken(self.enter(usize::from(argument as u8)) != 0),
            _ => Err(Unable::NoSuchCallentry),
        }
    }
}

/// Bytes that one call of a pump copies at most: it goes on in the kernel until then.
const AT_ONCE: u64 = 1 << 16;

impl Callable for Ref<Pump> {
    fn call(&self, number: usize, argument: u64) -> Result<u64, Unable> {
        match number {
            pump::RUN => Ok(self.run(argument.min(AT_ONCE) as usize) as u64),
            _ => Err(Unable::NoSuchCallentry),
        }
    }
    fn code(&self) -> [usize; 2] {
        [self.routine().entry(), 0]
    }
}

impl Callable for Ref<Notice> {
    fn call(&self, number: usize, _: u64) -> Result<u64, Unable> {
        match number {
            notice::TELL | notice::GIVE_UP => {
                self.tell();
                Ok(0)
            }
            _ => Err(Unable::NoSuchCallentry),
        }
    }
    fn by_descriptor(&self, number: usize) -> Option<Result<Routine<DescFn>, RoutineError>> {
        [notice::TELL, notice::GIVE_UP]
            .contains(&number)
            .then(|| around(self, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::by_name::{Refused, insert, remove};
    use core::sync::atomic::{AtomicU32, Ordering};

    fn made(class: &str, number: u64) -> Made {
        make(class, number, true, Arc::new(())).unwrap()
    }

    #[test]
    fn what_is_made_by_name_is_linked_and_called() {
        codegen::host::link();
        let (queue, pump, to) = (made("Queue", 64), made("Pump", 0), made("Queue", 4));
        link_by_name(&pump, "input", &queue, "Q_get").unwrap();
        link_by_name(&pump, "output", &to, "Q_put").unwrap();
        let upper = made("Upper", 0);
        insert(&pump, "output", &upper).unwrap();
        for byte in b"abc" {
            assert_eq!(queue.call(queue::Q_PUT, u64::from(*byte)), Ok(1));
        }
        assert_eq!(pump.call(pump::RUN, 2), Ok(2));
        remove(&pump, "output", upper.header().number()).unwrap();
        assert_eq!(pump.call(pump::RUN, 9), Ok(1));
        let got: Vec<u8> = core::iter::from_fn(|| to.call(queue::Q_GET, 0).ok())
            .map(|byte| byte as u8)
            .collect();
        assert_eq!(got, b"ABc");
        assert_eq!(to.call(queue::Q_GET, 0), Err(Unable::NotNow));
        assert_eq!(to.call(9, 0), Err(Unable::NoSuchCallentry));
        assert_eq!(
            link_by_name(&to, "Q_full", &queue, "Q_put"),
            Err(Refused::WrongSignature)
        );
    }

    #[test]
    fn what_is_not_there_is_not_made() {
        codegen::host::link();
        let paid = || Arc::new(()) as Arc<dyn Any + Send + Sync>;
        let error = |class, number| make(class, number, true, paid()).err();
        assert_eq!(error("Thread", 0), Some(Errno::ENOENT));
        assert_eq!(error("", 0), Some(Errno::ENOENT));
        for (class, number) in [
            ("Upper", 1),
            ("Gauge", 1),
            ("Queue", 0),
            ("Queue", 3),
            ("Queue", 1 << 17),
            ("Queue", u64::MAX),
            ("Rate", 0),
            ("Rate", 1 << 32),
            ("Newline", 9),
        ] {
            assert_eq!(
                error(class, number),
                Some(Errno::EINVAL),
                "{class} {number}"
            );
        }
    }

    /// Calls a descriptor's routine as a dispatcher does.
    fn called_by_code(made: &Made, number: usize, argument: u64) -> i64 {
        static CALL: Class = Class::new("test.call");
        let routine = made.descriptor_routine(number).unwrap().unwrap();
        let mut draft = Draft::new(&CALL, "call");
        let d = &mut draft;
        dynasm!(d ; .arch x64 ; sub rsp, 8 ; mov r10, rdi);
        d.call_abs(routine.entry());
        dynasm!(d ; .arch x64 ; add rsp, 8 ; ret);
        // SAFETY: the routine preserves every register but rax.
        let call: Routine<extern "sysv64" fn(u64) -> i64> =
            unsafe { Routine::from(draft.seal().unwrap()) };
        call.function()(argument)
    }

    #[test]
    fn routines_of_callentries_do_what_calls_do() {
        codegen::host::link();
        let gauge = made("Gauge", 0);
        for number in [gauge::COUNT, gauge::COUNT] {
            assert_eq!(called_by_code(&gauge, number, 9), 0);
        }
        assert_eq!(called_by_code(&gauge, gauge::READ, 9), 2);
        assert_eq!(gauge.call(gauge::READ, 0), Ok(2));
        assert_eq!(called_by_code(&gauge, gauge::TAKE, 9), 2);
        assert_eq!(called_by_code(&gauge, gauge::TAKE, 9), 0);
        assert!(gauge.descriptor_routine(gauge::TAKE + 1).is_none());
        let (queue, upper) = (made("Queue", 2), made("Upper", 0));
        for byte in [7, 8] {
            assert_eq!(called_by_code(&queue, queue::Q_PUT, byte), 1);
        }
        let not_now = Errno::EAGAIN.to_rax() as i64;
        assert_eq!(called_by_code(&queue, queue::Q_PUT, 9), not_now);
        for byte in [7, 8] {
            assert_eq!(called_by_code(&queue, queue::Q_GET, 0), byte);
        }
        assert_eq!(called_by_code(&queue, queue::Q_GET, 0), not_now);
        assert!(queue.descriptor_routine(queue::Q_GET + 1).is_none());
        let raised = called_by_code(&upper, filter::PASS, u64::from(b'u'));
        assert_eq!(raised, i64::from(b'U'));
        // The work of these may wait, or take long.
        let monitor = made("Monitor", 0);
        let long = [
            (&upper, filter::PUT),
            (&made("Pump", 0), pump::RUN),
            (&monitor, serializer::ENTER),
        ];
        for (made, number) in long {
            assert!(made.descriptor_routine(number).is_none());
        }
    }

    static TOLD: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn a_full_queue_tells_and_returns() {
        codegen::host::link();
        let how: notice::TellFn = |thread, event| {
            TOLD.fetch_add(thread as u32 * 10 + event, Ordering::Relaxed);
        };
        let notice = |event| {
            let notice = Notice {
                how,
                thread: 3,
                event,
            };
            make_notice(notice, Arc::new(())).unwrap()
        };
        let (queue, full, room) = (made("Queue", 2), notice(1), notice(2));
        link_by_name(&queue, "Q_full", &full, "give_up").unwrap();
        link_by_name(&queue, "Q_full-1", &room, "tell").unwrap();
        assert_eq!(queue.call(queue::Q_PUT, 1), Ok(1));
        assert_eq!(queue.call(queue::Q_PUT, 2), Ok(1));
        assert_eq!(TOLD.load(Ordering::Relaxed), 0);
        assert_eq!(queue.call(queue::Q_PUT, 3), Err(Unable::NotNow));
        assert_eq!(TOLD.swap(0, Ordering::Relaxed), 31);
        assert_eq!(queue.call(queue::Q_GET, 0), Ok(1));
        assert_eq!(TOLD.swap(0, Ordering::Relaxed), 32);
    }

    #[test]
    fn what_was_paid_is_kept_by_links_too() {
        codegen::host::link();
        let paid: Arc<dyn Any + Send + Sync> = Arc::new(());
        let upper = make("Upper", 0, false, paid.clone()).unwrap();
        let tap = made("Tap", 0);
        insert(&tap, "next", &upper).unwrap();
        let number = upper.header().number();
        drop(upper);
        assert!(Arc::strong_count(&paid) > 1);
        remove(&tap, "next", number).unwrap();
        // Another test may hold the filter for a moment, while it looks at all quajects, or free the routine.
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while Arc::strong_count(&paid) > 1 && std::time::Instant::now() < limit {
            sync::epoch::synchronize();
            std::thread::yield_now();
        }
        assert_eq!(Arc::strong_count(&paid), 1);
        assert_eq!(remove(&tap, "next", number), Err(Refused::NotThere));
    }
}
