//! The machine as a whole: `uname`, `sysinfo`, `reboot`, futex operations, random.

/// `struct utsname`; NUL-terminated fields.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Utsname {
    pub sysname: [u8; 65],
    pub nodename: [u8; 65],
    pub release: [u8; 65],
    pub version: [u8; 65],
    pub machine: [u8; 65],
    pub domainname: [u8; 65],
}

plain! {
    /// `struct sysinfo`; `unit` is the size of one unit of the memory figures, in bytes.
    pub struct Sysinfo {
        pub uptime: i64,
        pub loads: [u64; 3],
        pub totalram: u64,
        pub freeram: u64,
        pub sharedram: u64,
        pub bufferram: u64,
        pub totalswap: u64,
        pub freeswap: u64,
        pub procs: u16,
        pub pad0: u16,
        pub pad1: u32,
        pub totalhigh: u64,
        pub freehigh: u64,
        pub unit: u32,
        pub pad2: u32,
    }
}

constants! { u32:
    FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_REQUEUE = 3, FUTEX_CMP_REQUEUE = 4, FUTEX_WAKE_OP = 5,
    FUTEX_LOCK_PI = 6, FUTEX_UNLOCK_PI = 7, FUTEX_TRYLOCK_PI = 8,
    FUTEX_WAIT_BITSET = 9, FUTEX_WAKE_BITSET = 10, FUTEX_WAIT_REQUEUE_PI = 11, FUTEX_CMP_REQUEUE_PI = 12, FUTEX_LOCK_PI2 = 13,
    FUTEX_32 = 2,
    FUTEX_PRIVATE_FLAG = 128, FUTEX_CLOCK_REALTIME = 256, FUTEX_CMD_MASK = !(128 | 256),
    FUTEX_BITSET_MATCH_ANY = u32::MAX,
    FUTEX_WAITERS = 0x8000_0000, FUTEX_OWNER_DIED = 0x4000_0000, FUTEX_TID_MASK = 0x3fff_ffff,

    GRND_NONBLOCK = 1, GRND_RANDOM = 2, GRND_INSECURE = 4,
    RNDGETENTCNT = 0x8004_5200, RNDADDTOENTCNT = 0x4004_5201, RNDADDENTROPY = 0x4008_5203, RNDZAPENTCNT = 0x5204,
    RNDCLEARPOOL = 0x5206, RNDRESEEDCRNG = 0x5207,

    REBOOT_MAGIC1 = 0xfee1_dead, REBOOT_MAGIC2 = 672_274_793,
    REBOOT_CMD_RESTART = 0x0123_4567, REBOOT_CMD_HALT = 0xcdef_0123, REBOOT_CMD_POWER_OFF = 0x4321_fedc,
    REBOOT_CMD_CAD_ON = 0x89ab_cdef, REBOOT_CMD_CAD_OFF = 0,
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_linux() {
        assert_eq!(core::mem::size_of::<super::Utsname>(), 390);
        assert_eq!(core::mem::size_of::<super::Sysinfo>(), 112);
    }
}
