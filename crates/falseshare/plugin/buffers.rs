//! Memory of the program that its system calls read and write.
//!
//! The kernel accesses it on the CPU of the calling thread, so it counts as that thread's access. The table
//! contains the calls that move data or return the time. Data that other calls write (a status, a name) is
//! small and seldom on shared lines.

use crate::{
    process,
    shadow::{AccessKind, ProcessTracker, sys},
};
use std::ffi::c_uint;

/// How to find a call's buffer. Arguments are given by index.
#[derive(Clone, Copy)]
enum BufferLocation {
    /// At the address in this argument, with the length in the next argument.
    Bytes(usize),
    /// In the vector of buffers (`struct iovec`) at the address in this argument, with their number in the
    /// next argument.
    Vector(usize),
    /// In the message header (`struct msghdr`) at the address in this argument.
    Message(usize),
    /// This number of bytes at the address in this argument, whatever the call returns.
    Record(usize, u64),
    /// At the address in this argument: as many records of this size in bytes as the call returns.
    Records(usize, u64),
}

use BufferLocation::{Bytes, Message, Record, Records, Vector};

/// A call: its number on x86-64, its number on AArch64, and its buffer.
type Call = (i64, i64, BufferLocation);

/// The number of a call that an architecture does not have.
const NONE: i64 = -1;

/// Size in bytes of `struct epoll_event`, which is packed on x86-64.
const EPOLL_EVENT: u64 = if cfg!(target_arch = "x86_64") { 12 } else { 16 };

/// Calls whose buffer the kernel fills.
const FILLED: [Call; 22] = [
    (0, 63, Bytes(1)),                    // read
    (17, 67, Bytes(1)),                   // pread64
    (19, 65, Vector(1)),                  // readv
    (295, 69, Vector(1)),                 // preadv
    (327, 286, Vector(1)),                // preadv2
    (45, 207, Bytes(1)),                  // recvfrom, recv
    (47, 212, Message(1)),                // recvmsg
    (318, 278, Bytes(0)),                 // getrandom
    (217, 61, Bytes(1)),                  // getdents64
    (79, 17, Bytes(0)),                   // getcwd
    (89, NONE, Bytes(1)),                 // readlink
    (267, 78, Bytes(2)),                  // readlinkat
    (228, 113, Record(1, 16)),            // clock_gettime
    (96, 169, Record(0, 16)),             // gettimeofday
    (5, 80, Record(1, 128)),              // fstat
    (262, 79, Record(2, 128)),            // newfstatat
    (332, 291, Record(4, 256)),           // statx
    (22, NONE, Record(0, 8)),             // pipe
    (293, 59, Record(0, 8)),              // pipe2
    (232, NONE, Records(1, EPOLL_EVENT)), // epoll_wait
    (281, 22, Records(1, EPOLL_EVENT)),   // epoll_pwait
    (441, 441, Records(1, EPOLL_EVENT)),  // epoll_pwait2
];

/// Calls whose buffer the kernel reads.
const READ: [Call; 7] = [
    (1, 64, Bytes(1)),     // write
    (18, 68, Bytes(1)),    // pwrite64
    (20, 66, Vector(1)),   // writev
    (296, 70, Vector(1)),  // pwritev
    (328, 287, Vector(1)), // pwritev2
    (44, 206, Bytes(1)),   // sendto, send
    (46, 211, Message(1)), // sendmsg
];

/// Maximum number of buffers in a vector (`UIO_MAXIOV`).
const MAX_BUFFERS: u64 = 1024;

/// Records what the kernel read and wrote for system call `number`, which the instruction at `code` made with
/// these arguments and which returned `result`.
pub fn record_buffers(
    tracker: &ProcessTracker,
    vcpu: c_uint,
    code: u64,
    number: i64,
    arguments: [u64; 6],
    result: u64,
) {
    let is_it = |call: &&Call| number == if cfg!(target_arch = "x86_64") { call.0 } else { call.1 };
    let (call, kind) = match (FILLED.iter().find(is_it), READ.iter().find(is_it)) {
        (Some(call), _) => (call, AccessKind::Write),
        (None, Some(call)) => (call, AccessKind::Read),
        (None, None) => return,
    };
    let Some(thread) = process::thread_of(vcpu) else { return };
    let touch = |start: u64, bytes: u64| {
        let (mut at, mut left) = (start, bytes);
        while left > 0 && at != 0 {
            let piece = left.min(1 << 30);
            tracker.access(thread, code, at, piece as u32, kind);
            (at, left) = (at.saturating_add(piece), left - piece);
        }
    };
    let argument = |index: usize| arguments.get(index).copied().unwrap_or_default();
    match call.2 {
        // A message may be longer than the buffer (`MSG_TRUNC`).
        Bytes(at) => touch(argument(at), result.min(argument(at + 1))),
        Vector(at) => vector(argument(at), argument(at + 1), result, touch),
        Message(at) => {
            // Offsets of `msg_iov` and `msg_iovlen` on both architectures.
            if let (Some(list), Some(count)) = (word(argument(at), 16), word(argument(at), 24)) {
                vector(list, count, result, touch);
            }
        }
        Record(at, bytes) => touch(argument(at), bytes),
        Records(at, bytes) => touch(argument(at), result.saturating_mul(bytes)),
    }
}

/// Records the first `bytes` bytes of the buffers in the vector at `list`.
fn vector(list: u64, count: u64, bytes: u64, touch: impl Fn(u64, u64)) {
    let mut left = bytes;
    for index in 0..count.min(MAX_BUFFERS) {
        let Some((start, length)) = word(list, 16 * index).zip(word(list, 16 * index + 8)) else { return };
        touch(start, length.min(left));
        left -= length.min(left);
        if left == 0 {
            return;
        }
    }
}

/// Returns the word at `start + offset`; `None` if it cannot be read.
fn word(start: u64, offset: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let whole = sys::peek(start.checked_add(offset)?, &mut bytes) == bytes.len();
    whole.then(|| u64::from_le_bytes(bytes))
}
