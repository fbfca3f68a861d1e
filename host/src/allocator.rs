//! What the C library's allocator has given out.
#![allow(unsafe_code, reason = "mallinfo2(3)")]

/// Bytes of this process that are in use by blocks of the allocator, with its own words beside them (`uordblks` and
/// `hblkhd` of `mallinfo2(3)`, glibc 2.33). Absent with other C libraries.
#[cfg(target_env = "gnu")]
pub fn in_use() -> Option<u64> {
    // SAFETY: it fills a structure of numbers and has no other effect.
    let info = unsafe { libc::mallinfo2() };
    Some((info.uordblks + info.hblkhd) as u64)
}

/// Bytes of this process that are in use by blocks of the allocator: unknown with this C library.
#[cfg(not(target_env = "gnu"))]
pub fn in_use() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn what_is_allocated_is_in_use() {
        let Some(before) = in_use() else { return eprintln!("SKIPPED: no mallinfo2 here") };
        let block = black_box(vec![1u8; 300 << 20]);
        assert!(in_use() >= Some(before + (200 << 20)));
        drop(block);
    }
}
