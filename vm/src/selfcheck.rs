//! Checks that need the machine: the vm's parts against the real tables, faults and processors.
//!
//! *Interface*: [`run`], at boot after `init`, before the rooms above link their trap callouts: it links its
//! own, to resolve the page faults that it takes. It ends with a leak check, and asserts, so a failure is a
//! panic with its report.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "at boot, before there are users"
)]

use crate::space::{Access, AddressSpace, Backing, Placement, Role};
use crate::table::{KERNEL_DATA, KERNEL_TEXT, Prot, no_execute};
use crate::wx_audit::WxAudit;
use crate::{frame, heap, mmio, stack, tlb, user};
use abi::errno::Errno;
use abi::layout::{CODE, PAGE, STACK_SIZE, STACK_SLOT};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, Ordering};
use machine::log;
use machine::trap::{self, Callouts, TrapFrame, exception};

/// The space whose faults are to be resolved.
static CURRENT: AtomicPtr<AddressSpace> = AtomicPtr::new(core::ptr::null_mut());

/// The checks' own callouts: faults at user addresses go to the current space.
static CALLOUTS: Callouts = Callouts {
    exception: |frame| {
        if frame.vector != exception::PAGE_FAULT || !resolve(frame) {
            machine::panic_report::fatal_exception(frame);
        }
    },
    fault: |frame, _| machine::panic_report::fatal_exception(frame),
    syscall: |_| {},
    return_to_user: |_| {},
    irq_exit: |_| {},
};

fn resolve(frame: &mut TrapFrame) -> bool {
    const WRITE: u64 = 2;
    let access = match frame.error & WRITE {
        0 => Access::Read,
        _ => Access::Write,
    };
    let space = CURRENT.load(Ordering::Acquire);
    // SAFETY: `enter` stores it for as long as the space lives.
    if !space.is_null() && unsafe { (*space).fault(trap::fault_address(), access).is_ok() } {
        return true;
    }
    let fixup = machine::user::fixup(frame.rip as usize);
    if let Some(to) = fixup {
        frame.rip = to as u64;
    }
    fixup.is_some()
}

/// Memory that is taken and not given back.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    frames: usize,
    heap: usize,
    code: usize,
}

fn held() -> Held {
    codegen::trim();
    heap::trim();
    let frames = frame::stats();
    Held {
        frames: frames.total - frames.free - stack::stats().cached_frames(),
        heap: heap::stats().used,
        code: crate::code::committed(),
    }
}

/// Runs all checks.
pub fn run() {
    trap::link(&CALLOUTS);
    // Tables that serve stacks and code stay for good: let them come first.
    stack::free(stack::alloc().expect("a stack"));
    code();
    let before = held();
    for (name, check) in [
        ("heap", heap_objects as fn()),
        ("stacks", stacks),
        ("code", code),
        ("rights", rights),
        ("gates", gates),
        ("user access", user_access),
        ("fork", fork),
        ("hunger", hunger),
    ] {
        check();
        log!("vm: {name} ok");
    }
    assert_eq!(held(), before, "leak");
}

/// A space in force until dropped.
struct Entered(Arc<AddressSpace>);

fn enter(space: Arc<AddressSpace>) -> Entered {
    CURRENT.store(Arc::as_ptr(&space).cast_mut(), Ordering::Release);
    // SAFETY: the space lives until `Entered` is dropped.
    unsafe { tlb::load(space.root()) };
    Entered(space)
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.store(core::ptr::null_mut(), Ordering::Release);
        // SAFETY: the kernel's own tables.
        unsafe { tlb::load(machine::paging::kernel_root() as u64) };
    }
}

fn heap_objects() {
    let mut objects: Vec<Box<[u8]>> = Vec::new();
    for size in 1..600 {
        objects.push(alloc::vec![size as u8; size * 7].into_boxed_slice());
    }
    for (i, object) in objects.iter().enumerate() {
        let address = object.as_ptr() as usize;
        assert!((abi::layout::WINDOW..CODE).contains(&address));
        assert!(object.iter().all(|byte| *byte == (i + 1) as u8));
    }
}

fn stacks() {
    let stacks: Vec<_> = (0..10).map(|_| stack::alloc().expect("a stack")).collect();
    for stack in &stacks {
        assert!(stack.top.is_multiple_of(STACK_SLOT) && stack.top - stack.base == STACK_SIZE);
        // SAFETY: the stack is ours.
        unsafe { (stack.base as *mut u8).write_bytes(0x5a, STACK_SIZE) };
        assert!(
            crate::kernel::tables()
                .leaf(stack.base - PAGE)
                .is_none_or(|word| { word.load(Ordering::Relaxed) == 0 })
        );
    }
    stacks.into_iter().for_each(stack::free);
    assert!(mmio::map(0xfee0_0000, PAGE).is_some());
}

fn code() {
    use codegen::CodeSpace;
    let space = &crate::code::SPACE;
    // The far end, which no other code uses so early.
    let exec = CODE + abi::layout::CODE_LEN - PAGE;
    for value in [7u32, 8] {
        assert!(space.commit(exec));
        let [a, b, c, d] = value.to_le_bytes();
        // mov eax, value; ret
        let code = [0xb8, a, b, c, d, 0xc3];
        // SAFETY: our own page, opened just to write it.
        let at = unsafe {
            let opened = space.open(exec, code.len());
            opened.at.cast::<[u8; 6]>().write(code);
            space.close(opened);
            opened.at as usize
        };
        let tables = crate::kernel::tables();
        let word = tables.leaf(at).expect("its table stays");
        assert_eq!(word.load(Ordering::Relaxed), 0, "the alias is gone");
        space.serialize();
        // SAFETY: the bytes just written follow the C calling convention.
        let routine: extern "C" fn() -> u32 = unsafe { core::mem::transmute(exec) };
        assert_eq!(routine(), value);
        assert!(space.decommit(exec));
    }
}

/// A program's own root has the gates of the kernel, and one page more is found. Where tables are isolated.
fn gates() {
    if machine::paging::gate_entry().is_none() {
        return;
    }
    let space = AddressSpace::new().expect("room");
    let faults = || {
        let mut line = log::LogLine::new();
        let mut survey = WxAudit::kernel(&mut line).expect("room to tell");
        survey.space(&space, &mut line).expect("room to tell");
        assert_eq!(
            survey.gates == machine::entry_mitigations::gate_pages().count(),
            survey.faults == 0
        );
        survey.faults
    };
    assert_eq!(faults(), 0);
    // Beside the gates, in the table that all second roots share.
    let last = machine::entry_mitigations::gate_pages()
        .map(|page| page.address)
        .max();
    let word = space
        .gate_word(last.expect("there are gates") + PAGE)
        .expect("the table");
    let data = frame::alloc().expect("a frame");
    word.store(
        data.address() | KERNEL_DATA | no_execute(),
        Ordering::Relaxed,
    );
    assert_eq!(faults(), 1, "a page of the kernel, left mapped");
    word.store(0, Ordering::Relaxed);
    frame::release(data);
    // The kernel's own half.
    let (index, entry) = *crate::kernel::entries().first().expect("the map of memory");
    space.plant_top(index, entry);
    assert!(faults() > 0, "all memory, left mapped");
    space.plant_top(index, 0);
    assert_eq!(faults(), 0);
}

/// The map of all memory among a program's pages is found.
fn program_half() {
    /// An entry of a program's half that nothing is below.
    const UNUSED: usize = 100;
    let space = AddressSpace::new().expect("room");
    let faults = || {
        let mut line = log::LogLine::new();
        let mut survey = WxAudit::kernel(&mut line).expect("room to tell");
        survey.space(&space, &mut line).expect("room to tell");
        survey.faults
    };
    assert_eq!(faults(), 0);
    let (_, entry) = *crate::kernel::entries().first().expect("the map of memory");
    space.plant_first(UNUSED, entry);
    assert!(faults() > 0, "pages of the kernel in a program's half");
    space.plant_first(UNUSED, 0);
    assert_eq!(faults(), 0);
}

/// Nothing is wrong with the kernel's tables, and what is made wrong is found.
fn rights() {
    let faults = || {
        let mut line = log::LogLine::new();
        let survey = WxAudit::kernel(&mut line).expect("room to tell");
        assert!(!survey.short && survey.executable > 0);
        survey.faults
    };
    assert_eq!(faults(), 0);
    // A page whose tables are there, and nobody's.
    let at = mmio::map(0xfee0_0000, PAGE).expect("room") as usize;
    let tables = crate::kernel::tables();
    let word = tables.leaf(at).expect("just made");
    let was = word.load(Ordering::Relaxed);
    let text = rights as fn() as usize;
    let image = crate::kernel::tables()
        .mapping(text)
        .expect("the kernel's text");
    let exec = CODE + abi::layout::CODE_LEN - PAGE;
    assert!(codegen::CodeSpace::commit(&crate::code::SPACE, exec));
    let code = crate::kernel::tables().mapping(exec).expect("just made");
    let frame = frame::alloc().expect("a frame");
    let data = KERNEL_DATA | no_execute();
    for (entry, what) in [
        (image.physical | data, "text, writable"),
        (code.physical | data, "generated code, writable"),
        (frame.address() | KERNEL_DATA, "writable and executable"),
        // Data is writable in two maps of memory.
        (frame.address() | KERNEL_TEXT, "data, executable"),
    ] {
        word.store(entry, Ordering::Relaxed);
        assert!(faults() >= 1, "{what}");
    }
    word.store(was, Ordering::Relaxed);
    tlb::forget_kernel();
    assert!(codegen::CodeSpace::decommit(&crate::code::SPACE, exec));
    frame::release(frame);
    assert_eq!(faults(), 0);
    program_half();
    let guards = machine::paging::guards();
    let found = machine::features::get();
    assert!(guards.write_protect && guards.no_execute == found.nx());
    assert!(guards.smep == found.smep() && guards.smap == found.smap());
    assert!(guards.umip == found.umip());
}

fn user_access() {
    let space = enter(AddressSpace::new().expect("a space"));
    let at = 0x40_0000;
    let place = Placement::Fixed(at);
    space
        .0
        .map(place, 3 * PAGE, Prot::RW, Backing::Anonymous)
        .expect("room");
    assert_eq!(user::get::<u64>(at + 8), Ok(0));
    // Across a page boundary, neither page present.
    assert_eq!(
        user::put(at + 2 * PAGE - 4, &0x1122_3344_5566_7788u64),
        Ok(())
    );
    assert_eq!(user::get::<u32>(at + 2 * PAGE), Ok(0x1122_3344));
    assert_eq!(user::copy_out(at + PAGE + 1, b"name\0"), Ok(()));
    assert_eq!(user::cstr(at + PAGE + 1, 100).as_deref(), Ok(&b"name"[..]));
    assert_eq!(user::cstr(at + PAGE + 1, 3), Err(Errno::ENAMETOOLONG));
    assert_eq!(user::get::<u64>(at + 3 * PAGE - 4), Err(Errno::EFAULT));
    assert_eq!(user::get::<u8>(at - 1), Err(Errno::EFAULT));
    assert_eq!(user::get::<u8>(abi::layout::WINDOW), Err(Errno::EFAULT));
    assert_eq!(user::get::<u8>(usize::MAX), Err(Errno::EFAULT));
    space.0.protect(at, PAGE, Prot::READ).expect("mapped");
    assert_eq!(user::put(at, &1u8), Err(Errno::EFAULT));
    assert_eq!(user::get::<u8>(at), Ok(0));
    space.0.unmap(at, PAGE).expect("mapped");
    assert_eq!(user::get::<u8>(at), Err(Errno::EFAULT));
    assert_eq!(space.0.resident(), 2);
    // Stale translations: the page goes and comes back as another.
    user::put(at + PAGE, &1u8).expect("mapped");
    space.0.discard(at + PAGE, PAGE).expect("mapped");
    assert_eq!(user::get::<u8>(at + PAGE), Ok(0));
}

fn fork() {
    let at = 0x7000_0000;
    let parent = enter(AddressSpace::new().expect("a space"));
    parent
        .0
        .map(
            Placement::Fixed(at),
            600 * PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .expect("room");
    for page in 0..600 {
        user::put(at + page * PAGE, &page).expect("mapped");
    }
    let child = parent.0.fork().expect("memory");
    user::put(at, &1000usize).expect("mapped");
    {
        let child = enter(child);
        assert_eq!(user::get::<usize>(at), Ok(0));
        for page in 0..600 {
            assert_eq!(user::get::<usize>(at + page * PAGE), Ok(page));
        }
        user::put(at + PAGE, &2000usize).expect("mapped");
        drop(child);
    }
    CURRENT.store(Arc::as_ptr(&parent.0).cast_mut(), Ordering::Release);
    // SAFETY: the parent lives.
    unsafe { tlb::load(parent.0.root()) };
    assert_eq!(user::get::<usize>(at), Ok(1000));
    assert_eq!(user::get::<usize>(at + PAGE), Ok(1));
    let mut heaps = 0;
    parent
        .0
        .for_each_area(|area| heaps += usize::from(area.role == Role::Heap));
    assert_eq!(heaps, 0);
}

/// A program that eats everything gets an error, and the kernel can still allocate.
fn hunger() {
    let space = enter(AddressSpace::new().expect("a space"));
    let pages = frame::stats().free;
    let at = space
        .0
        .map(
            Placement::Anywhere,
            pages * PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .expect("room");
    let mut page = at;
    while user::put(page, &1u8).is_ok() {
        page += PAGE;
    }
    assert!(page > at && page < at + pages * PAGE);
    assert!(AddressSpace::new().is_err() && !frame::admits(1));
    drop(Box::new([0u8; 3000]));
}
