//! Memory for this library itself, so that the program's heap is laid out as it would be without us. It is needed
//! when programs are started and is never given back; where one starts thousands, that is some megabytes.

use manycore_shadow::{lock::Lock, sys::Memory};
use std::{
    alloc::{GlobalAlloc, Layout},
    mem, ptr,
};

/// Bytes that are mapped at a time.
const CHUNK: usize = 256 << 10;

/// Gives pieces of chunks, one behind the other.
struct Own(Lock<Rest>);

struct Rest {
    next: usize,
    end: usize,
}

#[global_allocator]
static OWN: Own = Own(Lock::new(Rest { next: 0, end: 0 }));

// SAFETY: each piece is given once and is inside a chunk.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut rest = self.0.lock();
        let mut start = rest.next.next_multiple_of(layout.align());
        if start + layout.size() > rest.end {
            let bytes = CHUNK.max(layout.size() + layout.align());
            let Ok(memory) = Memory::inherited(bytes) else { return ptr::null_mut() };
            start = (memory.base() as usize).next_multiple_of(layout.align());
            rest.end = memory.base() as usize + bytes;
            mem::forget(memory);
        }
        rest.next = start + layout.size();
        start as *mut u8
    }

    unsafe fn dealloc(&self, _block: *mut u8, _layout: Layout) {}
}
