//! The sequence on AArch64. The thread pointer is `tpidr_el0`.

use crate::area::Cells;
use std::arch::asm;

/// Whether there is a sequence for this architecture.
pub(crate) const PRESENT: bool = true;

/// Returns the address of this thread's area, at `offset` from the thread pointer.
#[inline]
fn area(offset: isize) -> usize {
    let thread: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) thread, options(nomem, nostack, preserves_flags)) };
    thread.wrapping_add_signed(offset)
}

/// Returns `cpu_id` of this thread's area, at `offset` from the thread pointer. At offset 0 there is no area,
/// and the result is arbitrary.
#[inline]
pub(crate) fn cpu_id(offset: isize) -> u32 {
    let cpu;
    // SAFETY: the load is within the thread's area, or (offset 0) within the 16 bytes that the ABI of
    // thread-local storage reserves at the thread pointer.
    unsafe {
        asm!(
            "ldr {cpu:w}, [{area}, 4]",
            area = in(reg) area(offset),
            cpu = lateout(reg) cpu,
            options(nostack, readonly, preserves_flags),
        );
    }
    cpu
}

/// Adds `n` in the row of `cpu` if the thread stays on that CPU until the add is complete, or else to the
/// shard. Returns the new value of the cell that was changed.
///
/// # Safety
/// The thread is registered with an area at `cells.offset`, `cpu` has a row, and the area of `cells` is
/// allocated.
#[inline]
pub(crate) unsafe fn add(cells: &Cells, cpu: u32, n: i64) -> i64 {
    let new;
    // SAFETY: between labels 24 and 25, the kernel lets only one thread of this CPU at a time reach the
    // store, so the store loses no add. It stores 8 aligned bytes, which other threads see like a relaxed
    // store. On the other path, the add is atomic. The stack is not used; the flags are declared as
    // clobbered.
    unsafe {
        asm!(
            "adrp {new}, 37f",
            "add {new}, {new}, :lo12:37f",
            "str {new}, [{area}, 8]",
            "24:",
            "ldr {new:w}, [{area}, 4]",
            "cmp {new:w}, {cell:w}",
            "b.ne 26f",
            "madd {cell}, {cell}, {stride}, {first}",
            "ldr {new}, [{cell}]",
            "add {new}, {new}, {n}",
            "str {new}, [{cell}]",
            "25:",
            // version and flags, start, length, abort handler
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "37:",
            ".long 0, 0",
            ".quad 24b, 25b - 24b, 26f",
            ".popsection",
            ".subsection 1",
            // The signature is an instruction: brk #0x45e0.
            ".inst 0xd428bc00",
            "26:",
            // `Cells::shard` is the first field.
            "ldr {cell}, [{cells}]",
            "27:",
            "ldxr {new}, [{cell}]",
            "add {new}, {new}, {n}",
            "stxr {spare:w}, {new}, [{cell}]",
            "cbnz {spare:w}, 27b",
            "b 25b",
            ".previous",
            new = out(reg) new,
            spare = out(reg) _,
            cell = inout(reg) u64::from(cpu) => _,
            stride = in(reg) cells.stride,
            first = in(reg) cells.first,
            area = in(reg) area(cells.offset),
            n = in(reg) n,
            cells = in(reg) cells as *const Cells,
            options(nostack),
        );
    }
    new
}
