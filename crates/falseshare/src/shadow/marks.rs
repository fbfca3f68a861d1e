//! Bit masks with one bit for each byte of a line.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An atomic mask with a bit for each byte of a line.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mask([AtomicU64; 2]);

/// A mask by value.
pub type Bits = [u64; 2];

/// The bytes that a thread accessed, and those among them that it wrote.
#[derive(Debug, Default)]
#[repr(C)]
pub struct AccessMasks {
    /// Bytes read or written.
    pub touched: Mask,
    /// Bytes written.
    pub written: Mask,
}

impl Mask {
    /// Returns the mask.
    #[inline]
    pub fn bits(&self) -> Bits {
        [self.0[0].load(Relaxed), self.0[1].load(Relaxed)]
    }

    /// Replaces the mask.
    pub fn set(&self, bits: Bits) {
        self.0[0].store(bits[0], Relaxed);
        self.0[1].store(bits[1], Relaxed);
    }

    /// Adds bytes.
    pub fn add(&self, bits: Bits) {
        for (word, bits) in self.0.iter().zip(bits) {
            if bits & !word.load(Relaxed) != 0 {
                word.fetch_or(bits, Relaxed);
            }
        }
    }

    /// Removes bytes.
    pub fn remove(&self, bits: Bits) {
        for (word, bits) in self.0.iter().zip(bits) {
            if bits & word.load(Relaxed) != 0 {
                word.fetch_and(!bits, Relaxed);
            }
        }
    }

    /// Clears the mask and returns its former value.
    pub fn take(&self) -> Bits {
        let take = |word: &AtomicU64| if word.load(Relaxed) == 0 { 0 } else { word.swap(0, Relaxed) };
        [take(&self.0[0]), take(&self.0[1])]
    }
}

impl AccessMasks {
    /// Adds bytes to both masks.
    pub fn add(&self, touched: Bits, written: Bits) {
        self.touched.add(touched);
        self.written.add(written);
    }

    /// Replaces both masks.
    pub fn set(&self, touched: Bits, written: Bits) {
        self.touched.set(touched);
        self.written.set(written);
    }

    /// Removes bytes from both masks.
    pub fn remove(&self, bits: Bits) {
        self.touched.remove(bits);
        self.written.remove(bits);
    }
}

/// Returns whether two masks have a byte in common.
pub fn overlap(one: Bits, other: Bits) -> bool {
    one[0] & other[0] != 0 || one[1] & other[1] != 0
}

/// Returns the mask of `bytes` bytes, starting at `offset`.
#[inline]
pub fn bits(offset: u32, bytes: u32) -> Bits {
    let all = if bytes >= 128 { u128::MAX } else { (1 << bytes) - 1 };
    let placed = all << offset.min(127);
    [placed as u64, (placed >> 64) as u64]
}
