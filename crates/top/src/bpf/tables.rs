//! What the programs look up: `struct tables` of `bpf/latency.bpf.c`.

use super::words::reason;
use manycore_bpf::map::MappedArray;

/// Numbers of microseconds whose class is in the table.
const CLASSES: usize = 4096;
/// States of a task; further bits do not occur when it leaves its CPU.
const STATES: usize = 1 << 16;

/// Bits of a task's state (include/linux/sched.h); 0 is runnable.
const UNINTERRUPTIBLE: usize = 0x0002;
const STOPPED: usize = 0x0004;
const TRACED: usize = 0x0008;
const NOLOAD: usize = 0x0400;
const FROZEN: usize = 0x8000;

/// Fills the tables.
pub fn fill(tables: &MappedArray) {
    let classes = (0..CLASSES).map(class_of);
    let bytes: Vec<u8> = classes.chain((0..STATES).map(|state| reason_of(state) as u8)).collect();
    for (at, word) in bytes.as_chunks().0.iter().enumerate() {
        tables.set_word(0, at, u64::from_ne_bytes(*word));
    }
}

/// Returns the class of a time in whole microseconds: the number of its bits.
fn class_of(us: usize) -> u8 {
    (usize::BITS - us.leading_zeros()) as u8
}

/// Returns why a task is off its CPU that has left it in a state.
fn reason_of(state: usize) -> usize {
    match state {
        0 => reason::DISPLACED,
        _ if state & (STOPPED | TRACED | FROZEN) != 0 => reason::STOPPED,
        // Kernel threads without work are uninterruptible, but do not count as load.
        _ if state & (UNINTERRUPTIBLE | NOLOAD) == UNINTERRUPTIBLE => reason::DISK,
        _ => reason::SLEEP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_begin_at_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8, 2047, 2048, 4095].map(class_of), [0, 1, 2, 2, 3, 3, 4, 11, 12, 12]);
    }

    #[test]
    fn reasons_follow_from_the_states_of_the_kernel() {
        let of = |states: &[usize]| states.iter().map(|&state| reason_of(state)).collect::<Vec<_>>();
        assert_eq!(of(&[0]), [reason::DISPLACED]);
        // TASK_INTERRUPTIBLE, with TASK_FREEZABLE, TASK_PARKED, TASK_IDLE, TASK_DEAD.
        assert_eq!(of(&[0x1, 0x2001, 0x40, 0x402, 0x80]), [reason::SLEEP; 5]);
        // TASK_UNINTERRUPTIBLE, TASK_KILLABLE, with TASK_FREEZABLE.
        assert_eq!(of(&[0x2, 0x102, 0x2002]), [reason::DISK; 3]);
        // TASK_STOPPED, TASK_TRACED, TASK_FROZEN.
        assert_eq!(of(&[0x104, 0x8, 0x108, 0x8000]), [reason::STOPPED; 4]);
    }
}
