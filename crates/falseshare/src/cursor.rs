//! Reads the fields of binary records, one after the other, in this machine's byte order.

/// The bytes that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Reads a number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    /// Reads a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// Reads a signed number of four bytes, such as a process id.
    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    /// Reads a number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Reads a text up to its terminating zero byte, and skips that byte.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(text)
    }

    /// Skips `count` bytes.
    pub fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order_up_to_the_end() {
        let bytes =
            [&7_u16.to_ne_bytes()[..], &8_u32.to_ne_bytes(), &(-9_i32).to_ne_bytes(), b"ab\0", b"x"].concat();
        let mut cursor = Cursor::new(&bytes);
        assert_eq!((cursor.u16(), cursor.u32(), cursor.i32()), (Some(7), Some(8), Some(-9)));
        assert_eq!((cursor.text(), cursor.text(), cursor.u64()), (Some(&b"ab"[..]), None, None));
        assert_eq!((cursor.skip(2), cursor.skip(1), cursor.u16()), (None, Some(()), None));
    }
}
