//! Port input and output.
//!
//! *Interface*: `inb`…`outl`. All unsafe: a port can do anything to the machine.

use core::arch::asm;

macro_rules! port {
    ($in:ident, $out:ident, $type:ty, $reg:tt, $width:literal) => {
        #[doc = concat!("Reads ", $width, " bits from `port`.")]
        ///
        /// # Safety
        /// The caller must own the device behind the port.
        #[inline(always)]
        pub unsafe fn $in(port: u16) -> $type {
            let value: $type;
            // SAFETY: the caller owns the device; the instruction touches no memory.
            unsafe {
                asm!(concat!("in ", $reg, ", dx"), in("dx") port, out($reg) value,
                    options(nomem, nostack, preserves_flags));
            }
            value
        }

        #[doc = concat!("Writes ", $width, " bits to `port`.")]
        ///
        /// # Safety
        /// The caller must own the device behind the port, and know what the write does.
        #[inline(always)]
        pub unsafe fn $out(port: u16, value: $type) {
            // SAFETY: the caller owns the device; memory effects are the device's contract.
            unsafe {
                asm!(concat!("out dx, ", $reg), in("dx") port, in($reg) value,
                    options(nostack, preserves_flags));
            }
        }
    };
}

port!(inb, outb, u8, "al", "8");
port!(inw, outw, u16, "ax", "16");
port!(inl, outl, u32, "eax", "32");
