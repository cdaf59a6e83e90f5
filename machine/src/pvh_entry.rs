//! The first instructions: PVH entry in 32-bit mode, long mode, then Rust.
//!
//! *Interface*: the ELF note `XEN_ELFNOTE_PHYS32_ENTRY`, and the symbol `kernel_main` that the kernel room
//! defines: `extern "C" fn() -> !`, run on the boot CPU's own stack with interrupts off when the machine is
//! as docs/architecture.md describes.

use crate::cpu::StackBase;
use crate::paging::{MachineStack, machine_stack};
use crate::{
    acpi_tables, apic, boot, boot_page_tables, clock, cpu, features, irq, kaslr, log, mitigate,
    power, segments, trap, user,
};
use core::arch::{asm, global_asm};
use core::sync::atomic::Ordering;

// The temporary tables map 4 GiB one to one, again at PHYS_MAP, and the first of them at WINDOW.
global_asm!(
    r#"
    .pushsection .note.Xen, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad pvh_entry - 0xffffffff80000000
    .popsection

    .pushsection .bss.boot, "aw", @nobits
    .balign 32768
    .global boot_stack
    boot_stack: .skip 32768
    .global boot_pml4
    boot_pml4: .skip 4096
    boot_pdpt_low: .skip 4096
    boot_pdpt_high: .skip 4096
    .global boot_pdpt_low
    .global boot_pdpt_map
    boot_pdpt_map: .skip 4096
    .global boot_pdpt_high
    .global boot_pd_window
    boot_pd_window: .skip 4096
    boot_pd: .skip 4 * 4096
    .popsection

    .pushsection .rodata.boot, "a"
    .balign 8
    boot_gdt:
    .quad 0, 0, 0x00af9a000000ffff, 0x00cf92000000ffff
    boot_gdt_pointer:
    .word . - boot_gdt - 1
    .long boot_gdt - 0xffffffff80000000
    .popsection

    .pushsection .text.boot, "ax"
    .code32
    .global pvh_entry
    .type pvh_entry, @function
    pvh_entry:
    cli
    cld
    movl %ebx, %esi

    movl $(boot_pd - 0xffffffff80000000), %edi
    movl $0x83, %eax
    xorl %edx, %edx
    1:
    movl %eax, (%edi)
    movl $0, 4(%edi)
    addl $8, %edi
    addl $0x200000, %eax
    incl %edx
    cmpl $2048, %edx
    jne 1b

    movl $(boot_pdpt_low - 0xffffffff80000000), %edi
    movl $(boot_pd - 0xffffffff80000000 + 3), %eax
    movl %eax, (%edi)
    addl $4096, %eax
    movl %eax, 8(%edi)
    addl $4096, %eax
    movl %eax, 16(%edi)
    addl $4096, %eax
    movl %eax, 24(%edi)
    movl $(boot_pd - 0xffffffff80000000 + 3), %eax
    movl %eax, boot_pdpt_high - 0xffffffff80000000 + 510 * 8

    movl $(boot_pml4 - 0xffffffff80000000), %edi
    movl $(boot_pdpt_low - 0xffffffff80000000 + 3), %eax
    movl %eax, (%edi)
    movl %eax, 256 * 8(%edi)
    movl $(boot_pdpt_high - 0xffffffff80000000 + 3), %eax
    movl %eax, 511 * 8(%edi)

    movl $0x620, %eax
    movl %eax, %cr4
    movl %edi, %cr3
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl $0x80010033, %eax
    movl %eax, %cr0
    lgdt boot_gdt_pointer - 0xffffffff80000000
    ljmp $0x10, $(1f - 0xffffffff80000000)

    .code64
    1:
    movabsq $2f, %rax
    jmp *%rax
    2:
    xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %fs
    movl %eax, %gs
    movl $0x18, %eax
    movl %eax, %ss
    movq $(boot_stack + 32768 - 64), %rsp
    xorl %ebp, %ebp
    movl %esi, %ebx
    movl %esi, %edi
    call {slide}
    addq %rax, %rsp
    leaq 3f(%rip), %rcx
    addq %rax, %rcx
    jmp *%rcx
    3:
    movl %ebx, %edi
    call {begin}
    ud2
    .popsection
    "#,
    begin = sym begin,
    slide = sym kaslr::slide,
    options(att_syntax),
);

/// On the temporary stack and page tables: learns what there is, then moves to the boot CPU's own.
unsafe extern "C" fn begin(start_info: usize) -> ! {
    clock::start();
    StackBase::here().cpu.store(
        core::ptr::from_ref(cpu::cpu(0)).cast_mut(),
        Ordering::Relaxed,
    );
    log::init();
    power::init();
    features::init();
    assert!(features::get().cx16(), "the processor has no cmpxchg16b");
    // SAFETY: nothing has made the image read-only yet, and no other processor runs.
    unsafe { trap::patch_smap_sites() };
    boot::init(start_info);
    boot_page_tables::randomize();
    mitigate::init();
    trap::init();
    if mitigate::measures().mask_user() {
        // SAFETY: as above.
        unsafe { user::mask_sites() };
    }
    let platform = acpi_tables::read(boot::info().rsdp);
    cpu::set_present(platform.cpus());
    let mut frames = boot::early_frames();
    boot_page_tables::build(&mut frames, platform.local_apic, platform.io_apics());
    boot::finish(frames.next);
    // SAFETY: the page tables that map the boot stack have just been loaded; nothing of this frame is needed
    // any more.
    unsafe {
        asm!("mov rsp, {stack}", "xor ebp, ebp", "call {go}", "ud2",
            stack = in(reg) machine_stack(0, MachineStack::Boot), go = sym go, options(noreturn));
    }
}

/// On the boot CPU's own stack.
extern "C" fn go() -> ! {
    unsafe extern "C" {
        safe fn kernel_main() -> !;
    }
    segments::init_gates();
    segments::init_this_cpu();
    cpu::came_up(cpu::cpu(0));
    clock::calibrate();
    irq::init();
    apic::init_this_cpu();
    kernel_main()
}
