//! The structures by which a processor finds its stacks and segments.
//!
//! *Interface*: [`Tss`], and how many words a descriptor table has. `segments.rs` fills and loads them.

/// Words in a descriptor table: null, unused, kernel code and data, user 32-bit code (unused), user data,
/// user code, unused, task state (two words).
pub(crate) const GDT_WORDS: usize = 10;

/// The 64-bit task state segment.
#[repr(C, packed(4))]
#[allow(missing_docs)]
pub struct Tss {
    reserved0: u32,
    pub rsp0: u64,
    pub rsp1: u64,
    pub rsp2: u64,
    reserved1: u64,
    pub ist: [u64; 7],
    reserved2: u64,
    reserved3: u16,
    pub io_map: u16,
}

const _: () = assert!(size_of::<Tss>() == 104);

impl Tss {
    pub(crate) const fn new() -> Self {
        Tss {
            reserved0: 0,
            rsp0: 0,
            rsp1: 0,
            rsp2: 0,
            reserved1: 0,
            ist: [0; 7],
            reserved2: 0,
            reserved3: 0,
            // Beyond the limit: user mode has no port.
            io_map: size_of::<Tss>() as u16,
        }
    }
}
