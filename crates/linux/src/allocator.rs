//! What the C library's allocator has taken from the kernel.
#![allow(unsafe_code, reason = "mallinfo2(3)")]

/// Bytes that the allocator of this process has from the kernel: blocks in use, and the gaps between them (`arena` and
/// `hblkhd` of `mallinfo2(3)`, glibc 2.33). Blocks alone would be too few: of those that are aligned it cuts off pieces
/// that fit nobody else. Absent with other C libraries.
#[cfg(target_env = "gnu")]
pub fn taken() -> Option<u64> {
    // SAFETY: it fills a structure of numbers and has no other effect.
    let info = unsafe { libc::mallinfo2() };
    Some((info.arena + info.hblkhd) as u64)
}

/// Bytes that the allocator of this process has from the kernel: unknown with this C library.
#[cfg(not(target_env = "gnu"))]
pub fn taken() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn what_is_allocated_was_taken() {
        let Some(before) = taken() else { return eprintln!("SKIPPED: no mallinfo2 here") };
        let block = black_box(vec![1u8; 300 << 20]);
        assert!(taken() >= Some(before + (200 << 20)));
        drop(block);
    }
    #[test]
    fn gaps_between_aligned_blocks_count() {
        #[repr(align(128))]
        struct Aligned([u8; 512]);
        let Some(before) = taken() else { return eprintln!("SKIPPED: no mallinfo2 here") };
        let kept: Vec<Box<Aligned>> = (0..100_000).map(|_| Box::new(black_box(Aligned([1; 512])))).collect();
        let each = (taken().unwrap() - before) / kept.len() as u64;
        // 512 bytes, its own words and a pointer to it, rounded up to the next place for such a block: 640 and 8.
        assert!(each > 600 && kept[0].0[0] == 1, "{each}");
    }
}
