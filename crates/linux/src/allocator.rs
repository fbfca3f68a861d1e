//! The C library's allocator: the memory that it has obtained from the kernel, and how much of it stays.
#![allow(unsafe_code, reason = "mallinfo2(3), mallopt(3), malloc_trim(3)")]

/// Returns the bytes that the allocator of this process has obtained from the kernel: blocks in use and the
/// gaps between them (`arena` and `hblkhd` of `mallinfo2(3)`, glibc 2.33). Blocks alone would be too few:
/// aligned blocks leave gaps that fit no other block. `None` with other C libraries.
#[cfg(target_env = "gnu")]
pub fn obtained_bytes() -> Option<u64> {
    // SAFETY: it fills a structure of numbers and has no other effect.
    let info = unsafe { libc::mallinfo2() };
    Some((info.arena + info.hblkhd) as u64)
}

/// Returns the bytes that the allocator of this process has obtained from the kernel: unknown with this C
/// library.
#[cfg(not(target_env = "gnu"))]
pub fn obtained_bytes() -> Option<u64> {
    None
}

/// Makes all threads allocate from one heap (`M_ARENA_MAX` of `mallopt(3)`), for a program whose threads
/// allocate little. Threads that already run keep theirs. Does nothing with other C libraries.
pub fn use_one_heap() {
    // SAFETY: the call takes numbers and sets a parameter of the allocator.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Makes blocks from 128 KiB on mappings of their own, which the kernel gets back when they are freed, for a program that
/// allocates large blocks again and again (`M_MMAP_THRESHOLD` of `mallopt(3)`). Without it, glibc takes such blocks from the
/// heap after the first one was freed, and smaller ones between them keep it large. Does nothing with other C libraries.
pub fn map_large_blocks() {
    // SAFETY: the call takes numbers and sets a parameter of the allocator.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

/// Returns free memory of the heap to the kernel (`malloc_trim(3)`). Does nothing with other C libraries.
pub fn return_free_memory() {
    // SAFETY: the call releases only pages that no block uses.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn allocated_bytes_are_counted() {
        let Some(before) = obtained_bytes() else { return eprintln!("SKIPPED: no mallinfo2 here") };
        let block = black_box(vec![1u8; 300 << 20]);
        assert!(obtained_bytes() >= Some(before + (200 << 20)));
        drop(block);
    }

    #[test]
    fn gaps_between_aligned_blocks_count() {
        #[repr(align(128))]
        struct Aligned([u8; 512]);
        let Some(before) = obtained_bytes() else { return eprintln!("SKIPPED: no mallinfo2 here") };
        let kept: Vec<Box<Aligned>> = (0..100_000).map(|_| Box::new(black_box(Aligned([1; 512])))).collect();
        let each = (obtained_bytes().unwrap() - before) / kept.len() as u64;
        // 512 bytes, its header and a pointer to it, rounded up to the next address for such a block: 640 and
        // 8.
        assert!(each > 600 && kept[0].0[0] == 1, "{each}");
    }
}
