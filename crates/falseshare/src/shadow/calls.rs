//! How the library in the emulated program tells the plugin something: a system call that does not exist, which
//! the plugin sees as any other, and which the kernel refuses.

/// Its number.
pub const TELL: i64 = 28_003;
/// First argument: a block was allocated; then its address, its bytes, where its callers are, how many.
pub const TELL_ALLOCATED: u64 = 1;
/// First argument: a block was freed; then its address.
pub const TELL_FREED: u64 = 2;
/// First argument: where the thread keeps which call of a lock's function it is in; then the first address of the
/// library that has these functions, and that behind its last.
pub const TELL_CALLS: u64 = 3;
/// In an address of code, which has fewer bits: it is the call of a function that takes or gives back a lock, and stands
/// for what that does.
pub const OF_LOCK: u64 = 1 << 47;
