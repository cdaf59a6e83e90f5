//! Time: `timespec` and its kin, clocks, timers.

plain! {
    /// `struct timespec`: seconds and nanoseconds.
    pub struct Timespec {
        pub sec: i64,
        pub nsec: i64,
    }
    /// `struct timeval`: seconds and microseconds.
    pub struct Timeval {
        pub sec: i64,
        pub usec: i64,
    }
    /// `struct itimerval`.
    pub struct Itimerval {
        pub interval: Timeval,
        pub value: Timeval,
    }
    /// `struct itimerspec`.
    pub struct Itimerspec {
        pub interval: Timespec,
        pub value: Timespec,
    }
    /// `struct tms`, in clock ticks of 10 ms.
    pub struct Tms {
        pub utime: i64,
        pub stime: i64,
        pub cutime: i64,
        pub cstime: i64,
    }
    /// `struct __kernel_timex`.
    pub struct Timex {
        pub modes: u32,
        pub pad0: u32,
        pub offset: i64,
        pub freq: i64,
        pub maxerror: i64,
        pub esterror: i64,
        pub status: i32,
        pub pad1: i32,
        pub constant: i64,
        pub precision: i64,
        pub tolerance: i64,
        pub sec: i64,
        pub usec: i64,
        pub tick: i64,
        pub ppsfreq: i64,
        pub jitter: i64,
        pub shift: i32,
        pub pad2: i32,
        pub stabil: i64,
        pub jitcnt: i64,
        pub calcnt: i64,
        pub errcnt: i64,
        pub stbcnt: i64,
        pub tai: i32,
        pub pad3: [i32; 11],
    }
    /// `struct timezone`.
    pub struct Timezone {
        pub minuteswest: i32,
        pub dsttime: i32,
    }
    /// `struct sigevent`, the parts that timers use.
    pub struct Sigevent {
        pub value: u64,
        pub signo: i32,
        pub notify: i32,
        pub tid: i32,
        pub rest: [i32; 11],
    }
}

/// Nanoseconds in a second.
pub const NSEC_PER_SEC: u64 = 1_000_000_000;
/// The last moment of every clock, nanoseconds: any two times have a sum.
pub const NS_MAX: u64 = i64::MAX as u64;
/// Seconds from which on a time is [`NS_MAX`].
const SEC_MAX: i64 = (NS_MAX / NSEC_PER_SEC) as i64;

impl Timespec {
    /// From nanoseconds.
    pub const fn from_ns(ns: u64) -> Timespec {
        Timespec {
            sec: (ns / NSEC_PER_SEC) as i64,
            nsec: (ns % NSEC_PER_SEC) as i64,
        }
    }

    /// To nanoseconds, at most [`NS_MAX`]; `None` when negative or not normalized.
    pub fn to_ns(self) -> Option<u64> {
        // Without their sign, negative numbers are too large.
        if self.nsec as u64 >= NSEC_PER_SEC {
            return None;
        }
        if self.sec as u64 >= SEC_MAX as u64 {
            return self.far();
        }
        Some(self.sec as u64 * NSEC_PER_SEC + self.nsec as u64)
    }

    /// The same where the seconds are too many, or negative. A call, so that the usual case is two branches.
    #[cold]
    #[inline(never)]
    fn far(self) -> Option<u64> {
        (self.sec >= 0).then_some(NS_MAX)
    }
}

impl Timeval {
    /// From nanoseconds, rounding down.
    pub const fn from_ns(ns: u64) -> Timeval {
        Timeval {
            sec: (ns / NSEC_PER_SEC) as i64,
            usec: (ns % NSEC_PER_SEC / 1000) as i64,
        }
    }

    /// To nanoseconds, at most [`NS_MAX`]; `None` when negative or not normalized.
    pub fn to_ns(self) -> Option<u64> {
        if !(0..1_000_000).contains(&self.usec) {
            return None;
        }
        Timespec {
            sec: self.sec,
            nsec: self.usec * 1000,
        }
        .to_ns()
    }
}

plain! {
    /// `struct rtc_time`: a date of the battery clock.
    pub struct RtcTime {
        pub sec: i32,
        pub min: i32,
        pub hour: i32,
        /// Of the month, from 1 on.
        pub mday: i32,
        /// From 0 on.
        pub mon: i32,
        /// Since 1900.
        pub year: i32,
        pub wday: i32,
        pub yday: i32,
        pub isdst: i32,
    }
    /// `struct rtc_wkalrm`: its alarm.
    pub struct RtcWkalrm {
        pub enabled: u8,
        pub pending: u8,
        pub pad: [u8; 2],
        pub time: RtcTime,
    }
}

constants! { u32:
    RTC_AIE_ON = 0x7001, RTC_AIE_OFF = 0x7002, RTC_UIE_ON = 0x7003, RTC_UIE_OFF = 0x7004, RTC_PIE_ON = 0x7005,
    RTC_PIE_OFF = 0x7006, RTC_ALM_SET = 0x4024_7007, RTC_ALM_READ = 0x8024_7008, RTC_RD_TIME = 0x8024_7009,
    RTC_SET_TIME = 0x4024_700a, RTC_IRQP_READ = 0x8008_700b, RTC_IRQP_SET = 0x4008_700c,
    RTC_WKALM_SET = 0x4028_700f, RTC_WKALM_RD = 0x8028_7010,
    RTC_IRQF = 0x80, RTC_PF = 0x40, RTC_AF = 0x20, RTC_UF = 0x10,
}

constants! { i32:
    CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 1, CLOCK_PROCESS_CPUTIME_ID = 2, CLOCK_THREAD_CPUTIME_ID = 3,
    CLOCK_MONOTONIC_RAW = 4, CLOCK_REALTIME_COARSE = 5, CLOCK_MONOTONIC_COARSE = 6, CLOCK_BOOTTIME = 7,
    CLOCK_REALTIME_ALARM = 8, CLOCK_BOOTTIME_ALARM = 9, CLOCK_TAI = 11,
    TIMER_ABSTIME = 1,
    ITIMER_REAL = 0, ITIMER_VIRTUAL = 1, ITIMER_PROF = 2,
    SIGEV_SIGNAL = 0, SIGEV_NONE = 1, SIGEV_THREAD = 2, SIGEV_THREAD_ID = 4,
}

/// Clock ticks in a second, as `times` and `AT_CLKTCK` count.
pub const CLK_TCK: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions() {
        assert_eq!(
            Timespec::from_ns(1_500_000_000).to_ns(),
            Some(1_500_000_000)
        );
        assert_eq!(
            Timespec {
                sec: 1,
                nsec: 1_000_000_000
            }
            .to_ns(),
            None
        );
        assert_eq!(Timespec { sec: -1, nsec: 0 }.to_ns(), None);
        assert_eq!(
            Timespec {
                sec: i64::MAX,
                nsec: 0
            }
            .to_ns(),
            Some(NS_MAX)
        );
        assert_eq!(Timeval { sec: 2, usec: 5 }.to_ns(), Some(2_000_005_000));
        assert_eq!(core::mem::size_of::<Sigevent>(), 64);
    }
}

impl Timex {
    /// All zeros.
    pub const NONE: Timex = Timex {
        modes: 0,
        pad0: 0,
        offset: 0,
        freq: 0,
        maxerror: 0,
        esterror: 0,
        status: 0,
        pad1: 0,
        constant: 0,
        precision: 0,
        tolerance: 0,
        sec: 0,
        usec: 0,
        tick: 0,
        ppsfreq: 0,
        jitter: 0,
        shift: 0,
        pad2: 0,
        stabil: 0,
        jitcnt: 0,
        calcnt: 0,
        errcnt: 0,
        stbcnt: 0,
        tai: 0,
        pad3: [0; 11],
    };
}

constants! { u32:
    ADJ_OFFSET = 1, ADJ_FREQUENCY = 2, ADJ_MAXERROR = 4, ADJ_ESTERROR = 8, ADJ_STATUS = 0x10,
    ADJ_TIMECONST = 0x20, ADJ_TAI = 0x80, ADJ_SETOFFSET = 0x100, ADJ_MICRO = 0x1000,
    ADJ_NANO = 0x2000, ADJ_TICK = 0x4000, ADJ_SINGLESHOT = 0x8000, ADJ_READ = 0x2000,
}

constants! { i32:
    STA_FLL = 8, STA_INS = 0x10, STA_DEL = 0x20, STA_UNSYNC = 0x40, STA_FREQHOLD = 0x80,
    STA_PLL = 1, STA_NANO = 0x2000, STA_MODE = 0x4000,
}
