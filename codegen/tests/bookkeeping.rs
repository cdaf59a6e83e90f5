//! Everything but running the code, over ordinary memory: what Miri can look at.

use codegen::{
    BLOCK, Class, CodeSpace, Draft, Hole, Opened, OutOfCode, PAGE, Sealed, Template, dynasm,
};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGES: usize = 80;
const THREADS: u64 = 3;
const MANY: u64 = if cfg!(miri) { 25 } else { 3000 };

/// Ordinary memory, where exec address and alias are the same.
struct Heap(usize);

static COMMITTED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the memory is static and this space's alone; nothing is ever run, so the grace period is empty.
unsafe impl CodeSpace for Heap {
    fn window(&self) -> Range<usize> {
        self.0..self.0 + PAGES * PAGE
    }
    fn commit(&self, _exec: usize) -> bool {
        COMMITTED.fetch_add(1, Ordering::Relaxed);
        true
    }
    fn decommit(&self, _exec: usize) -> bool {
        COMMITTED.fetch_sub(1, Ordering::Relaxed);
        true
    }
    unsafe fn open(&self, exec: usize, _len: usize) -> Opened {
        Opened {
            at: std::ptr::with_exposed_provenance_mut(exec),
            keys: [0; 2],
        }
    }
    unsafe fn close(&self, _opened: Opened) {}
    fn serialize(&self) {}
    fn retire(&self, f: fn(usize), arg: usize) {
        f(arg);
    }
}

static CLASS: Class = Class::new("bookkeeping");

fn link() {
    #[repr(align(4096))]
    struct Memory(UnsafeCell<[u8; PAGES * PAGE]>);
    // SAFETY: only the code space touches it, through addresses, and hands out each byte once.
    unsafe impl Sync for Memory {}
    static MEMORY: Memory = Memory(UnsafeCell::new([0; PAGES * PAGE]));
    static SPACE: OnceLock<Heap> = OnceLock::new();
    codegen::link(SPACE.get_or_init(|| Heap(MEMORY.0.get().expose_provenance())));
}

fn constant(d: &mut Draft, [value, target]: &[Hole; 2]) {
    let fix = d.label();
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov rax, [rdi]);
    d.fault_end(fix);
    dynasm!(d ; .arch x64 ; mov eax, value.imm32() ; ret ; =>fix ; jmp extern *target);
}
static CONSTANT: Template<2> = Template::new(&CLASS, constant);

fn value_of(sealed: &Sealed) -> u64 {
    let bytes = sealed.bytes();
    assert_eq!(bytes[3], 0xb8);
    u64::from(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]))
}

#[test]
fn from_many_threads() {
    link();
    let mut d = Draft::new(&CLASS, "base");
    dynasm!(d ; .arch x64 ; ret);
    let target = d.seal().expect("room");
    let base = target.entry() as i64;
    std::thread::scope(|s| {
        for t in 0..THREADS {
            s.spawn(move || {
                let mut live = Vec::new();
                for n in 0..MANY {
                    let value = t * MANY + n;
                    let values = [value as i64, base];
                    let sealed = match n % 2 {
                        0 => CONSTANT.instantiate(("c", value), t, &values),
                        _ => CONSTANT.generate(("c", value), t, &values),
                    }
                    .expect("room");
                    assert_eq!(sealed.entry() % BLOCK, 0);
                    assert_eq!(
                        codegen::image_at(sealed.entry() + 3)
                            .expect("known")
                            .name
                            .number,
                        value
                    );
                    assert_eq!(codegen::fixup(sealed.entry()), Some(sealed.entry() + 9));
                    live.push((value, sealed));
                    if n % 5 == 4 {
                        codegen::for_each(|image| assert_eq!(image.class, "bookkeeping"));
                        let (value, sealed) = live.swap_remove(n as usize % live.len());
                        assert_eq!(value_of(&sealed), value);
                        drop(sealed);
                        codegen::trim();
                    }
                    if live.len() > 30 {
                        live.drain(..25)
                            .for_each(|(value, sealed)| assert_eq!(value_of(&sealed), value));
                    }
                }
                live.iter()
                    .for_each(|(value, sealed)| assert_eq!(value_of(sealed), *value));
            });
        }
    });
    drop(target);
    // An image of several pages, and one that is too large.
    let large = |n: usize| {
        let mut d = Draft::new(&CLASS, "large");
        let end = d.label();
        dynasm!(d ; .arch x64 ; jmp =>end);
        (0..n / PAGE).for_each(|_| d.extend(&[0x90; PAGE]));
        d.fault_begin();
        dynasm!(d ; .arch x64 ; nop);
        d.fault_end(end);
        dynasm!(d ; .arch x64 ; =>end ; ret);
        d.seal()
    };
    let sealed = large(2 * PAGE).expect("room");
    assert_eq!(
        codegen::fixup(sealed.entry() + 5 + 2 * PAGE),
        Some(sealed.entry() + 6 + 2 * PAGE)
    );
    assert_eq!(
        codegen::image_at(sealed.entry() + PAGE + 7)
            .expect("known")
            .entry,
        sealed.entry()
    );
    drop(sealed);
    assert_eq!(large(65 * PAGE).err(), Some(OutOfCode));
    assert_eq!(
        (
            codegen::stats().images,
            codegen::stats().bytes,
            CLASS.live()
        ),
        (0, 0, 0)
    );
    codegen::trim();
    assert_eq!(
        (
            codegen::stats().committed,
            COMMITTED.load(Ordering::Relaxed)
        ),
        (0, 0)
    );
}
