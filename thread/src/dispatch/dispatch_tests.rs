//! Dispatchers run natively: `sysretq` becomes `ret`, the table's routines and the slow entry are small
//! routines that identify themselves.

use super::*;
use crate::tte::detached;
use codegen::host::Low;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;

static TEST: Class = Class::new("test.dispatch");
const SLOW: u64 = 0x510_0000;
const YIELDED: u64 = 0x71e1d;
const BIG: u64 = i32::MAX as u64;

struct Known;

impl Leaves for Known {
    const LEAVES: &'static [(u32, Leaf)] = &[
        (nr::GETPID as u32, Leaf::Value),
        (nr::SCHED_YIELD as u32, Leaf::Yield),
        (nr::GETPPID as u32, Leaf::Word),
        (nr::GETUID as u32, Leaf::Value),
        (nr::GETTID as u32, Leaf::Value),
        (nr::CLOSE as u32, Leaf::Routine),
        (nr::FSTAT as u32, Leaf::Slot),
    ];
    const END: u32 = 500;

    fn of_slot() -> usize {
        static LOOK: OnceLock<Routine<Jump>> = OnceLock::new();
        let look = || routine(|d| dynasm!(d ; .arch x64 ; add rax, 7 ; ret));
        LOOK.get_or_init(look).entry()
    }
}

static PLAN: DispatchPlan = DispatchPlan::of::<Known>();

#[repr(align(64))]
#[expect(dead_code, reason = "memory to stand on")]
struct Stack([u64; 512]);

/// Jumps to routines: a table's words hold addresses in the top or, here, the bottom two gigabytes.
type Jumps = [[u8; 12]; 12];

fn jump(to: usize) -> [u8; 12] {
    let mut code = *b"\x48\xb8........\xff\xe0";
    code[2..10].copy_from_slice(&to.to_le_bytes());
    code
}

/// A thread with a stack, its dispatcher, and a way in.
struct Thread {
    enter: Routine<extern "C" fn(u64, u64) -> u64>,
    read_again: Routine<extern "C" fn(u64, u64) -> u64>,
    _tte: Low<Tte>,
    _stack: Low<Stack>,
    _tables: Low<[[usize; 4]; 3]>,
    _jumps: Low<Jumps>,
    _slots: Low<[usize; SLOTS]>,
    _word: Low<u32>,
    _code: Vec<Routine<Jump>>,
    _dispatcher: Dispatcher,
}

fn routine(emit: impl FnOnce(&mut Draft)) -> Routine<Jump> {
    let mut d = Draft::new(&TEST, "routine");
    emit(&mut d);
    // SAFETY: the code that the tests emit keeps the dispatcher's conventions.
    unsafe { Routine::from(d.seal().unwrap()) }
}

impl Thread {
    fn new(with_kpt: bool) -> Thread {
        Thread::of(with_kpt, &PLAN)
    }

    fn of(with_kpt: bool, plan: &'static DispatchPlan) -> Thread {
        Thread::with(with_kpt, plan, None)
    }

    fn with(with_kpt: bool, plan: &'static DispatchPlan, own: Option<OwnCalls>) -> Thread {
        codegen::host::link();
        let stack = Low::new(Stack([0; 512]));
        let base = stack.address() + 4096 - 64;
        let tte = detached();
        tte.stack_top.store(base as usize, Relaxed);
        let user_rsp = base + StackBase::USER_RSP as i32;
        let mut code = Vec::new();
        // The slow exit: back to the caller's stack with its name and rax.
        code.push(routine(|d| {
            dynasm!(d ; .arch x64 ; mov eax, eax ; add rax, SLOW as i32 ; mov rsp, [user_rsp] ; ret)
        }));
        let slow = code[0].entry();
        // `sched_yield` leaves on the stack on which it came.
        code.push(routine(
            |d| dynasm!(d ; .arch x64 ; mov eax, YIELDED as i32 ; ret),
        ));
        tte.yielding.store(code[1].entry(), Relaxed);
        let jumps = core::array::from_fn(|i| {
            let name = 1000 * (i as i32 / 4 + 1) + i as i32 % 4;
            code.push(routine(|d| dynasm!(d ; .arch x64 ; mov eax, name ; ret)));
            jump(code[code.len() - 1].entry())
        });
        let jumps = Low::<Jumps>::new(jumps).into_code();
        // The upper half of a word does not matter here.
        let entry = |i: usize| jumps.address() as usize + 12 * i;
        let word = |call: usize, fd: usize| entry(4 * call + fd) | ((call + fd + 1) << 32);
        let tables = [0, 1, 2].map(|call| [0, 1, 2, 3].map(|fd| word(call, fd)));
        let tables = Low::new(tables);
        let word = Low::new(4321u32);
        let values = [
            77,
            word.address() as usize,
            BIG as usize,
            78,
            code[13].entry(),
        ];
        let slots = Low::new(core::array::from_fn::<usize, SLOTS, _>(|fd| 1000 + fd));
        let row = |i: usize| tables.address() as usize + 32 * i;
        let kpt = Kpt {
            read: row(0),
            write: row(1),
            lseek: row(2),
            n: 4,
            slots: slots.address() as usize,
        };
        let spec = Spec {
            kpt: if with_kpt { kpt } else { Kpt::NONE },
            plan,
            values: &values,
            own,
        };
        let sealed = instantiate(&tte, &spec, slow).unwrap();
        // SAFETY: entered as a dispatcher is, below.
        let main = unsafe { Routine::from(sealed) };
        let dispatcher = match own {
            None => Dispatcher(main),
            Some(own) => front(&tte, own, main).unwrap(),
        };
        let mut d = Draft::new(&TEST, "again");
        // As `waiting` does: on the kernel stack, user's stack pointer noted, another number in rax.
        dynasm!(d ; .arch x64
            ; mov rdi, rsi
            ; mov [user_rsp], rsp
            ; mov rsp, base
            ; mov eax, 5
        );
        d.jmp_abs(dispatcher.read_again());
        // SAFETY: as for `enter` below.
        let read_again = unsafe { Routine::from(d.seal().unwrap()) };
        let mut d = Draft::new(&TEST, "enter");
        // As the processor enters: number in rax, first argument in rdi.
        dynasm!(d ; .arch x64 ; mov rax, rdi ; mov rdi, rsi);
        d.jmp_abs(dispatcher.entry());
        Thread {
            // SAFETY: the dispatcher returns to its caller and preserves what a call must.
            enter: unsafe { Routine::from(d.seal().unwrap()) },
            read_again,
            _tte: tte,
            _stack: stack,
            _tables: tables,
            _jumps: jumps,
            _slots: slots,
            _word: word,
            _code: code,
            _dispatcher: dispatcher,
        }
    }

    fn call(&self, number: usize, fd: u64) -> u64 {
        self.enter.function()(number as u64, fd)
    }
}

#[test]
fn descriptor_calls_go_to_the_descriptors_routine() {
    let thread = Thread::new(true);
    for fd in 0..4 {
        assert_eq!(thread.call(nr::READ, fd), 1000 + fd);
        assert_eq!(thread.call(nr::WRITE, fd), 2000 + fd);
        assert_eq!(thread.call(nr::LSEEK, fd), 3000 + fd);
    }
    // Only the low half counts, as in Linux.
    assert_eq!(thread.call(nr::READ, 0x1_0000_0002), 1002);
    for fd in [4, 5, i32::MAX as u64] {
        assert_eq!(thread.call(nr::READ, fd), SLOW + nr::READ as u64);
        assert_eq!(thread.call(nr::WRITE, fd), SLOW + nr::WRITE as u64);
        assert_eq!(thread.call(nr::LSEEK, fd), SLOW + nr::LSEEK as u64);
    }
    for fd in [1 << 31, u32::MAX as u64, u64::MAX] {
        for number in [nr::READ, nr::WRITE, nr::LSEEK] {
            assert_eq!(thread.call(number, fd), Errno::EBADF.to_rax());
        }
    }
}

#[test]
fn a_look_at_a_descriptor_gets_what_is_in_its_slot() {
    let thread = Thread::new(true);
    for fd in [0, 1, 2, SLOTS as u64 - 1] {
        assert_eq!(thread.call(nr::FSTAT, fd), 1007 + fd);
    }
    assert_eq!(thread.call(nr::FSTAT, 0x1_0000_0002), 1009);
    for fd in [SLOTS as u64, i32::MAX as u64, u64::MAX] {
        assert_eq!(thread.call(nr::FSTAT, fd), SLOW + nr::FSTAT as u64);
    }
    assert_eq!(Thread::new(false).call(nr::FSTAT, 0), 7);
}

#[test]
fn leaves_answer_and_everything_else_is_slow() {
    let thread = Thread::new(true);
    let leaves = [
        (nr::GETPID, 77),
        (nr::GETPPID, 4321),
        (nr::GETUID, BIG),
        (nr::GETTID, 78),
        (nr::CLOSE, 3003),
        (nr::FSTAT, 1007),
    ];
    for (number, answer) in leaves {
        assert_eq!(thread.call(number, 0), answer);
    }
    let fast = [nr::READ, nr::WRITE, nr::LSEEK, nr::SCHED_YIELD];
    for number in (0..600).chain([i32::MAX as usize, u32::MAX as usize]) {
        let answer = if number < Known::END as usize {
            SLOW + number as u64
        } else {
            Errno::ENOSYS.to_rax()
        };
        if !fast.contains(&number) && !leaves.iter().any(|l| l.0 == number) {
            assert_eq!(thread.call(number, 0), answer, "{number}");
        }
    }
}

#[test]
fn own_calls_come_first_and_change_no_other() {
    let numbers: [u32; MAX_OWN] = core::array::from_fn(|i| 2000 + i as u32);
    let emit = |d: &mut Draft, number: u32| {
        dynasm!(d ; .arch x64 ; lea rax, [rdi + 10 * number as i32]);
        way_out(d);
    };
    for count in [1, 2, 3, MAX_OWN] {
        let own = OwnCalls {
            numbers: &numbers[..count],
            emit: &emit,
        };
        let thread = Thread::with(true, &PLAN, Some(own));
        for &number in &numbers[..count] {
            assert_eq!(
                thread.call(number as usize, 3),
                u64::from(10 * number) + 3,
                "{number}"
            );
        }
        for number in [1999, 2000 + count, u32::MAX as usize] {
            assert_eq!(thread.call(number, 3), Errno::ENOSYS.to_rax());
        }
        assert_eq!(thread.call(nr::READ, 2), 1002);
        assert_eq!(thread.call(nr::WRITE, 9), SLOW + nr::WRITE as u64);
        assert_eq!(thread.call(nr::GETPID, 0), 77);
        assert_eq!(thread.call(nr::SCHED_YIELD, 0), YIELDED);
        assert_eq!(thread.read_again.function()(0, 2), 1002);
    }
}

#[test]
fn a_read_can_be_made_again() {
    let thread = Thread::new(true);
    assert_eq!(thread.read_again.function()(0, 2), 1002);
    assert_eq!(thread.read_again.function()(0, 9), SLOW + nr::READ as u64);
    assert_eq!(Thread::new(false).read_again.function()(0, 2), SLOW);
}

#[test]
fn yields_are_the_switch_codes() {
    let thread = Thread::new(true);
    assert_eq!(thread.call(nr::SCHED_YIELD, 0), YIELDED);
}

#[test]
fn without_descriptors_all_go_the_slow_way() {
    let thread = Thread::new(false);
    for number in [nr::READ, nr::WRITE, nr::LSEEK] {
        assert_eq!(thread.call(number, 0), SLOW + number as u64);
    }
    assert_eq!(thread.call(nr::GETPID, 0), 77);
}

#[test]
fn one_that_answers_nothing_refuses_nothing_either() {
    static SILENT: DispatchPlan = DispatchPlan::of::<NoLeaves>();
    let thread = Thread::of(false, &SILENT);
    let numbers = [nr::READ, nr::WRITE, nr::LSEEK, nr::GETPID, 1000];
    for number in numbers.into_iter().chain([u32::MAX as usize]) {
        for fd in [0, u32::MAX as u64] {
            assert_eq!(thread.call(number, fd), SLOW + number as u64);
        }
    }
}
