//! The firmware's ACPI tables: processors, interrupt controllers, PCI's configuration space, how
//! to power off.
//!
//! *Interface*: `read`, once, on the temporary page tables (which map 4 GiB). The tables are found and
//! checked by the `acpi` crate; without tables the PC's classic addresses and one processor are assumed.

use core::ptr::NonNull;

use acpi::fadt::Fadt;
use acpi::madt::{Madt, MadtEntry};
use acpi::mcfg::Mcfg;
use acpi::{AcpiHandler, AcpiTables, PhysicalMapping};

use crate::cpu::MAX_CPUS;
use crate::paging::phys_to_virt;
use crate::{ioapic, log, pci, power};

/// The facts of the tables that boot needs.
pub(crate) struct Platform {
    apic_ids: [u32; MAX_CPUS],
    cpus: usize,
    /// Physical address of the local APICs' registers.
    pub local_apic: usize,
    io_apics: [usize; ioapic::MAX],
    io_apic_count: usize,
}

impl Platform {
    /// APIC identifiers; the boot CPU first.
    pub(crate) fn cpus(&self) -> &[u32] {
        &self.apic_ids[..self.cpus]
    }

    /// Physical addresses of the I/O APICs' registers, as `ioapic` numbers them.
    pub(crate) fn io_apics(&self) -> &[usize] {
        &self.io_apics[..self.io_apic_count]
    }

    fn add_io_apic(&mut self, address: usize, first_gsi: u32) {
        if let Some(i) = ioapic::add(first_gsi) {
            self.io_apics[i] = address;
            self.io_apic_count = i + 1;
        }
    }
}

/// All of low memory is mapped already.
#[derive(Clone)]
struct DirectMap;

impl AcpiHandler for DirectMap {
    unsafe fn map_physical_region<T>(&self, at: usize, size: usize) -> PhysicalMapping<Self, T> {
        let virt = NonNull::new(phys_to_virt(at) as *mut T).expect("the direct map is not at zero");
        // SAFETY: the temporary tables map 4 GiB; firmware tables lie below that.
        unsafe { PhysicalMapping::new(at, virt, size, size, DirectMap) }
    }

    fn unmap_physical_region<T>(_region: &PhysicalMapping<Self, T>) {}
}

/// Reads the tables behind the root pointer `rsdp`; 0: looks for it where a BIOS puts it.
pub(crate) fn read(rsdp: usize) -> Platform {
    let boot_id = core::arch::x86_64::__cpuid(1).ebx >> 24;
    let mut platform = Platform {
        apic_ids: [boot_id; MAX_CPUS],
        cpus: 1,
        local_apic: 0xfee0_0000,
        io_apics: [0; ioapic::MAX],
        io_apic_count: 0,
    };
    // SAFETY: the loader or the BIOS search gives a real root pointer, and the crate checks it.
    let found = unsafe {
        match rsdp {
            0 => AcpiTables::search_for_rsdp_bios(DirectMap),
            at => AcpiTables::from_rsdp(DirectMap, at),
        }
    };
    match found {
        Ok(tables) => {
            match tables.find_table::<Madt>() {
                Ok(madt) => read_madt(&mut platform, &madt, boot_id),
                Err(error) => log!("acpi: no interrupt controllers named: {error:?}"),
            }
            read_power(&tables);
            read_config_space(&tables);
        }
        Err(error) => log!("acpi: no tables: {error:?}"),
    }
    if platform.io_apic_count == 0 {
        platform.add_io_apic(0xfec0_0000, 0);
    }
    platform
}

fn read_madt(platform: &mut Platform, madt: &PhysicalMapping<DirectMap, Madt>, boot_id: u32) {
    const ENABLED: u32 = 1;
    platform.local_apic = madt.get().local_apic_address as usize;
    for entry in madt.get().entries() {
        match entry {
            MadtEntry::LocalApic(cpu) if cpu.flags & ENABLED != 0 => {
                let id = u32::from(cpu.apic_id);
                if id != boot_id && platform.cpus < MAX_CPUS {
                    platform.apic_ids[platform.cpus] = id;
                    platform.cpus += 1;
                }
            }
            MadtEntry::IoApic(io) => {
                platform.add_io_apic(io.io_apic_address as usize, io.global_system_interrupt_base);
            }
            MadtEntry::InterruptSourceOverride(source) => {
                ioapic::override_isa(source.irq, source.global_system_interrupt, source.flags);
            }
            MadtEntry::LocalApicAddressOverride(address) => {
                platform.local_apic = address.local_apic_address as usize;
            }
            _ => {}
        }
    }
}

/// The first segment's; a machine without PCI Express names none.
fn read_config_space(tables: &AcpiTables<DirectMap>) {
    let Ok(mcfg) = tables.find_table::<Mcfg>() else {
        return;
    };
    if mcfg.region_length() < size_of::<Mcfg>() {
        return;
    }
    let table = mcfg.get();
    let first = table.entries().iter();
    if let Some(entry) = first.copied().find(|entry| entry.pci_segment_group == 0) {
        pci::set_config_space(pci::ConfigSpace {
            physical: entry.base_address,
            first_bus: entry.bus_number_start,
            last_bus: entry.bus_number_end,
        });
    }
}

fn read_power(tables: &AcpiTables<DirectMap>) {
    /// Offset and length of SLEEP_CONTROL_REG's address in the FADT (ACPI 6.5, table 5.9).
    const SLEEP_CONTROL: usize = 248;
    const REDUCED_HARDWARE: u32 = 1 << 20;

    let Ok(fadt) = tables.find_table::<Fadt>() else {
        return;
    };
    let state = tables.dsdt().ok().and_then(|dsdt| {
        // SAFETY: the crate has checked the table's length and sum; the direct map covers it.
        let code = unsafe {
            core::slice::from_raw_parts(
                phys_to_virt(dsdt.address) as *const u8,
                dsdt.length as usize,
            )
        };
        sleep_type(code)
    });
    let state = state.unwrap_or(0);
    let bytes = fadt.virtual_start().cast::<u8>();
    // SAFETY: `flags` at offset 112 is part of every FADT since ACPI 1.0.
    let flags = unsafe { bytes.add(112).cast::<u32>().read_unaligned() };
    if flags & REDUCED_HARDWARE != 0 && fadt.region_length() >= SLEEP_CONTROL + 8 {
        // SAFETY: the table is long enough, as just seen.
        let register = unsafe { bytes.add(SLEEP_CONTROL).cast::<u64>().read_unaligned() };
        power::set_sleep_register(register as usize, state);
    } else if let Ok(control) = fadt.pm1a_control_block() {
        power::set_pm1a(control.address as u16, state);
    }
}

/// The first number of the package `\_S5_` in the DSDT's code: what to write to sleep for good. AML in
/// full needs an interpreter and a heap; this name has had the same few encodings for as long as it exists.
fn sleep_type(code: &[u8]) -> Option<u8> {
    const PACKAGE: u8 = 0x12;
    const BYTE_PREFIX: u8 = 0x0a;
    let at = code.windows(5).position(|w| w == b"_S5_\x12")? + 4;
    debug_assert!(code[at] == PACKAGE);
    let length_bytes = usize::from(*code.get(at + 1)? >> 6) + 1;
    let value = at + 1 + length_bytes + 1;
    match *code.get(value)? {
        BYTE_PREFIX => code.get(value + 1).copied(),
        0 => Some(0),
        1 => Some(1),
        _ => None,
    }
}
