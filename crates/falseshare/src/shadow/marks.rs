//! Bytes of a line, a bit for each.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A bit for each byte of a line.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mask([AtomicU64; 2]);

/// Bytes of a line, by value.
pub type Bits = [u64; 2];

/// What a thread touched, and what of it it wrote.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Marks {
    /// Bytes read or written.
    pub touched: Mask,
    /// Bytes written.
    pub written: Mask,
}

impl Mask {
    /// The bytes.
    #[inline]
    pub fn bits(&self) -> Bits {
        [self.0[0].load(Relaxed), self.0[1].load(Relaxed)]
    }

    /// Makes it these bytes.
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

    /// Removes and returns all bytes.
    pub fn take(&self) -> Bits {
        let take = |word: &AtomicU64| if word.load(Relaxed) == 0 { 0 } else { word.swap(0, Relaxed) };
        [take(&self.0[0]), take(&self.0[1])]
    }
}

impl Marks {
    /// Adds bytes to both.
    pub fn add(&self, touched: Bits, written: Bits) {
        self.touched.add(touched);
        self.written.add(written);
    }

    /// Makes both these bytes.
    pub fn set(&self, touched: Bits, written: Bits) {
        self.touched.set(touched);
        self.written.set(written);
    }

    /// Removes bytes from both.
    pub fn remove(&self, bits: Bits) {
        self.touched.remove(bits);
        self.written.remove(bits);
    }
}

/// Whether they have a byte in common.
pub fn meet(one: Bits, other: Bits) -> bool {
    one[0] & other[0] != 0 || one[1] & other[1] != 0
}

/// The bits of `bytes` bytes from `offset` on.
#[inline]
pub fn bits(offset: u32, bytes: u32) -> Bits {
    let all = if bytes >= 128 { u128::MAX } else { (1 << bytes) - 1 };
    let placed = all << offset.min(127);
    [placed as u64, (placed >> 64) as u64]
}
