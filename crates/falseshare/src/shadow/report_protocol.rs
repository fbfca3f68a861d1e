//! Protocol between the library in the emulated program and the plugin. Messages are system calls with a
//! number that does not exist: the plugin sees them like any other, and the kernel rejects them.

/// The system call number.
pub const REPORT: i64 = 28_003;
/// First argument: a block was allocated. Then its address, its size in bytes, the address of its callers,
/// and their number.
pub const REPORT_ALLOCATED: u64 = 1;
/// First argument: a block was freed. Then its address.
pub const REPORT_FREED: u64 = 2;
/// First argument: the address of the word in which the thread keeps the lock function call that it is in.
/// Then the start and end (exclusive) of the library that contains the lock functions.
pub const REPORT_LOCK_CALLS: u64 = 3;
/// Flag in a code address, which has fewer bits: the address is that of a call of a lock function, and stands
/// for all accesses of that function.
pub const OF_LOCK: u64 = 1 << 47;
