//! The sequence on x86-64. The thread pointer is the base of `fs`.
//!
//! The sequence uses three instructions and not one `add` to memory. The new value is needed in a register,
//! and recent cores forward a store to the next load of the same address at no cost only for plain loads and
//! stores. The address is computed within the sequence, because that measured a third faster than before it.
//! Other forms were measured interleaved with this one, and were not faster: `cpu_id` loaded only within the
//! sequence, a shift instead of the multiplication, stride and first row as operands in memory, and a check
//! whether `rseq_cs` is set already. Even without any protection, an add to the row that `cpu_id` names takes
//! four fifths of the time.

use crate::area::Cells;
use std::arch::asm;

/// Whether there is a sequence for this architecture.
pub(crate) const PRESENT: bool = true;

/// Returns `cpu_id` of this thread's area, at `offset` from the thread pointer. At offset 0 there is no area,
/// and the result is arbitrary.
#[inline]
pub(crate) fn cpu_id(offset: isize) -> u32 {
    let cpu;
    // SAFETY: the load is within the thread's area, or (offset 0) within the thread control block, whose
    // first word the ABI of thread-local storage reserves for the thread pointer itself.
    unsafe {
        asm!(
            "mov {cpu:e}, fs:[{area} + 4]",
            area = in(reg) offset,
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
            "lea {new}, [rip + 37f]",
            "mov fs:[{area} + 8], {new}",
            "24:",
            "cmp {cell:e}, fs:[{area} + 4]",
            "jne 26f",
            "imul {cell}, {stride}",
            "add {cell}, {first}",
            "mov {new}, [{cell}]",
            "add {new}, {n}",
            "mov [{cell}], {new}",
            "25:",
            // version and flags, start, length, abort handler
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "37:",
            ".long 0, 0",
            ".quad 24b, 25b - 24b, 26f",
            ".popsection",
            ".subsection 1",
            // An undefined instruction (ud1) whose operand is the signature.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "26:",
            // `Cells::shard` is the first field.
            "mov {cell}, [{cells}]",
            "mov {new}, {n}",
            "lock xadd [{cell}], {new}",
            "add {new}, {n}",
            "jmp 25b",
            ".previous",
            new = out(reg) new,
            cell = inout(reg) u64::from(cpu) => _,
            stride = in(reg) cells.stride,
            first = in(reg) cells.first,
            area = in(reg) cells.offset,
            n = in(reg) n,
            cells = in(reg) cells as *const Cells,
            options(nostack),
        );
    }
    new
}
