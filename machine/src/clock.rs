//! Time: nanoseconds since boot from the TSC, and the date from the battery clock.
//!
//! *Interface*: [`now_ns`], [`at_ns`], [`tsc`], [`tsc_khz`], [`wall_at_boot`]; [`emit_ns`] for generated
//! code; [`real_ns`] is the time of day, [`set_real_ns`] sets it, [`steer`] sets its rate. The TSC is
//! measured once against channel 2 of the PIT. Under `-icount` both count guest instructions, so time there
//! is instructions.

use codegen::{Draft, dynasm};
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use sync::{Once, SeqlockRing};

static BASE: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds in 2^32 TSC ticks.
static SCALE: AtomicU64 = AtomicU64::new(1 << 32);
static KHZ: AtomicU64 = AtomicU64::new(1_000_000);
static WALL: AtomicU64 = AtomicU64::new(0);
/// The nanoseconds added to the time of day since.
static ADJUSTED: AtomicI64 = AtomicI64::new(0);

/// The time stamp counter.
#[inline(always)]
pub fn tsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds since the entry of the kernel. Never goes back on one CPU, nor for a thread that goes to
/// another (`tsc_sync.rs`).
pub fn now_ns() -> u64 {
    at_ns(tsc())
}

/// The time of [`now_ns`] when the time stamp counter was at `stamp`.
#[inline(always)]
pub fn at_ns(stamp: u64) -> u64 {
    span_ns(stamp.saturating_sub(BASE.load(Ordering::Relaxed)))
}

/// A span of `ticks` of the time stamp counter in nanoseconds.
#[inline(always)]
pub fn span_ns(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(SCALE.load(Ordering::Relaxed))) >> 32) as u64
}

/// Emits: rax, a time stamp, becomes the time of [`now_ns`]. Changes rdx and flags.
pub fn emit_ns(d: &mut Draft) {
    dynasm!(d ; .arch x64
        ; sub rax, [BASE.as_ptr() as usize as i32]
        ; mul QWORD [SCALE.as_ptr() as usize as i32]
        ; shrd rax, rdx, 32
    );
}

/// TSC ticks in a millisecond.
pub fn tsc_khz() -> u64 {
    KHZ.load(Ordering::Relaxed)
}

/// Seconds since 1970 (UTC) at the moment when [`now_ns`] was 0; 0 when the machine has no clock.
pub fn wall_at_boot() -> u64 {
    WALL.load(Ordering::Relaxed)
}

/// Nanoseconds since 1970.
#[inline]
pub fn real_ns() -> u64 {
    let now = now_ns();
    let adjusted = ADJUSTED.load(Ordering::Relaxed);
    let ahead = match COURSES.get() {
        Some(courses) => adjusted.saturating_add(led(courses, now)),
        None => adjusted,
    };
    // Five hundred years fit.
    let unadjusted = wall_at_boot().wrapping_mul(1_000_000_000).wrapping_add(now);
    unadjusted.saturating_add_signed(ahead)
}

/// The courses that the clock of the day has taken: from when on, nanoseconds since boot; how far the former
/// courses had brought it ahead, nanoseconds; and the nanoseconds that it gains in a second.
static COURSES: Once<SeqlockRing<3>> = Once::new();

/// How far `courses` have brought the clock of the day at `now`.
#[inline(never)]
fn led(courses: &SeqlockRing<3>, now: u64) -> i64 {
    // Another look when so many courses came meanwhile that the latest was overwritten.
    loop {
        let Some(last) = courses.numbers().last() else {
            return 0;
        };
        if let Some([since, ahead, gain]) = courses.get(last) {
            let passed = i128::from(now) - i128::from(since);
            let gained = passed * i128::from(gain.cast_signed()) / 1_000_000_000;
            return ahead.cast_signed().saturating_add(gained as i64);
        }
    }
}

/// Whether [`steer`] has room for courses.
pub fn is_steered() -> bool {
    COURSES.get().is_some()
}

/// Gives [`steer`] that room, several places, so that readers find the latest course while others come. Once.
pub fn begin_steering(courses: SeqlockRing<3>) {
    let _first = COURSES.set(courses);
}

/// From now on the clock of the day gains `gain_ns` in each second of the machine's clock. One party at a
/// time. Without room for courses the clock goes on as before.
pub fn steer(gain_ns: i64) {
    if let Some(courses) = COURSES.get() {
        let now = now_ns();
        courses.put(&[
            now,
            led(courses, now).cast_unsigned(),
            gain_ns.cast_unsigned(),
        ]);
    }
}

/// Sets the time of day. The caller notifies the waiters for a time of this clock.
pub fn set_real_ns(ns: u64) {
    let by = ns.wrapping_sub(real_ns()) as i64;
    ADJUSTED.fetch_add(by, Ordering::SeqCst);
}

/// Waits for `us` microseconds. For boot only.
#[cfg(target_os = "none")]
pub(crate) fn delay_us(us: u64) {
    let end = now_ns() + us * 1000;
    while now_ns() < end {
        // Bound: boot only: the delay asked for.
        core::hint::spin_loop();
    }
}

/// Remembers when the kernel began. The first thing the entry does.
#[cfg(target_os = "none")]
pub(crate) fn start() {
    BASE.store(tsc(), Ordering::Relaxed);
}

/// Measures the TSC and the APIC timer against the PIT, and reads the date.
#[cfg(target_os = "none")]
pub(crate) fn calibrate() {
    if let Some(window) = pit::measure() {
        let scale = (u128::from(window.ns) << 32) / u128::from(window.tsc.max(1));
        SCALE.store(scale as u64, Ordering::Relaxed);
        KHZ.store(window.tsc * 1_000_000 / window.ns, Ordering::Relaxed);
        crate::apic::calibrated(window.apic, window.ns);
    }
    let now = crate::rtc::read().unwrap_or(0);
    WALL.store(
        now.saturating_sub(now_ns() / 1_000_000_000),
        Ordering::Relaxed,
    );
}

/// Channel 2 of the 8254 interval timer.
#[cfg(target_os = "none")]
mod pit {
    use crate::port::{inb, outb};

    const HZ: u64 = 1_193_182;
    const COUNTER: u16 = 0x42;
    const COMMAND: u16 = 0x43;
    const GATE: u16 = 0x61;
    /// Ticks of the window: about 5 ms.
    const WINDOW: u16 = 6000;
    /// TSC ticks after which a count that has not got there never will: far more than 5 ms at any rate.
    const TSC_LIMIT: u64 = 1_000_000_000;

    pub struct Window {
        pub ns: u64,
        pub tsc: u64,
        pub apic: u32,
    }

    fn count() -> u16 {
        // SAFETY: channel 2 is ours; latch, then low and high byte.
        unsafe {
            outb(COMMAND, 0x80);
            let low = inb(COUNTER);
            u16::from_le_bytes([low, inb(COUNTER)])
        }
    }

    struct Sample {
        count: u16,
        tsc: u64,
        apic: u32,
    }

    /// The count with the TSC and the APIC timer of the same instant: the tightest of a few readings, so that
    /// whatever interrupts us (a hypervisor) falls out.
    fn sample() -> Sample {
        let one = || {
            let before = super::tsc();
            let count = count();
            let apic = crate::apic::measured();
            let after = super::tsc();
            let tsc = before + (after - before) / 2;
            (after - before, Sample { count, tsc, apic })
        };
        let mut best = one();
        for _ in 0..20 {
            let next = one();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }

    /// Set in the gate's port once the count has come to its end, from which on it begins again from the top.
    const ENDED: u8 = 1 << 5;
    /// Windows that may be missed, because a hypervisor had other work for so long that the count came to its
    /// end.
    const MISSED: usize = 100;

    /// `None` when there is no PIT (the count stands still), or every window was missed.
    pub fn measure() -> Option<Window> {
        for _ in 0..MISSED {
            start();
            // A machine without the port reads ones there, and has to be believed.
            let tells = !has_ended();
            let window = try_measure()?;
            if !(tells && has_ended()) {
                return Some(window);
            }
        }
        None
    }

    fn has_ended() -> bool {
        // SAFETY: reads a state; nothing changes.
        unsafe { inb(GATE) & ENDED != 0 }
    }

    /// The count begins at the top.
    fn start() {
        // SAFETY: gate on, speaker off; channel 2, both bytes, mode 0, from the top.
        unsafe {
            outb(GATE, inb(GATE) & !2 | 1);
            outb(COMMAND, 0xb0);
            outb(COUNTER, 0xff);
            outb(COUNTER, 0xff);
        }
    }

    fn try_measure() -> Option<Window> {
        crate::apic::start_measuring();
        let from = sample();
        let last = from.count.checked_sub(WINDOW)?;
        let limit = super::tsc().saturating_add(TSC_LIMIT);
        while count() > last {
            if super::tsc() > limit {
                return None;
            }
        }
        let to = sample();
        Some(Window {
            ns: u64::from(from.count.wrapping_sub(to.count)) * 1_000_000_000 / HZ,
            tsc: to.tsc - from.tsc,
            apic: to.apic.wrapping_sub(from.apic),
        })
    }
}
