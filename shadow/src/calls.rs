//! How the library in the emulated program tells the plugin something: a system call that does not exist, which
//! the plugin sees as any other, and which the kernel refuses.

/// Its number.
pub const TELL: i64 = 28_003;
/// First argument: a block was allocated; then its address, its bytes, where its callers are, how many.
pub const TELL_ALLOCATED: u64 = 1;
/// First argument: a block was freed; then its address.
pub const TELL_FREED: u64 = 2;
