//! The columns of a chunk: values of one kind stand beside each other, so that they compress well.
//!
//! A value is one symbol of its column, and for values from 16 up also some bits that a compressor could not shorten. Symbols below 16 are the value itself. Above, a symbol is the value's length in bits and
//! the two bits below the highest; the bits below these are stored as they are.

use super::{Malformed, zstd};

/// Values below this are their own symbol.
const OWN: u64 = 16;
/// Its length in bits, less one.
const OWN_BITS: u32 = 4;
/// Most columns of a chunk.
const MOST_COLUMNS: usize = 1024;

/// Values of a chunk that is being written. Only the order within a column counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    columns: Vec<Column>,
}

#[derive(Clone, Debug, Default)]
struct Column {
    symbols: Vec<u8>,
    bits: Bits,
}

/// Bits, the first one lowest.
#[derive(Clone, Debug, Default)]
struct Bits {
    bytes: Vec<u8>,
    /// Bits that are not in `bytes` yet: fewer than 8.
    pending: u64,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u64, count: u32) {
        // In two halves, so that the pending bits and the new ones fit.
        if count > 32 {
            self.put(value & 0xffff_ffff, 32);
            return self.put(value >> 32, count - 32);
        }
        self.pending |= value << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }
}

impl Columns {
    fn column(&mut self, column: usize) -> &mut Column {
        if self.columns.len() <= column {
            self.columns.resize_with(column + 1, Column::default);
        }
        &mut self.columns[column]
    }

    /// Appends a value to a column.
    pub fn put(&mut self, column: usize, value: u64) {
        let column = self.column(column);
        if value < OWN {
            return column.symbols.push(value as u8);
        }
        let below = value.ilog2() - 2;
        let symbol = OWN + u64::from(value.ilog2() - OWN_BITS) * 4 + (value >> below & 3);
        column.symbols.push(symbol as u8);
        column.bits.put(value & ((1 << below) - 1), below);
    }

    /// Appends a value that is near to zero.
    pub fn put_signed(&mut self, column: usize, value: i64) {
        self.put(column, (value << 1 ^ value >> 63) as u64);
    }

    /// Appends bytes as they are.
    pub fn put_bytes(&mut self, column: usize, bytes: &[u8]) {
        self.column(column).symbols.extend_from_slice(bytes);
    }

    /// Returns the number of bytes before compression.
    pub fn len(&self) -> usize {
        self.columns.iter().map(|column| column.symbols.len() + column.bits.bytes.len()).sum()
    }

    /// Returns the lengths of all columns, their symbols, and their bits.
    fn parts(&self) -> (Vec<u8>, Vec<&[u8]>, Vec<u8>) {
        let mut lengths = Vec::new();
        put_length(&mut lengths, self.columns.len());
        let mut bits = Vec::new();
        for column in &self.columns {
            let before = bits.len();
            bits.extend_from_slice(&column.bits.bytes);
            bits.extend((column.bits.count > 0).then_some(column.bits.pending as u8));
            put_length(&mut lengths, column.symbols.len());
            put_length(&mut lengths, bits.len() - before);
        }
        (lengths, self.columns.iter().map(|column| &column.symbols[..]).collect(), bits)
    }

    /// Returns the values as they are now, to be read.
    pub fn reader(&self) -> Result<ColumnReader, Malformed> {
        let (lengths, symbols, bits) = self.parts();
        ColumnReader::new([lengths, symbols.concat(), bits].concat())
    }

    /// Compresses the values and forgets them.
    pub fn pack(&mut self) -> Vec<u8> {
        let (lengths, symbols, bits) = self.parts();
        let parts: Vec<&[u8]> = [&lengths[..]].into_iter().chain(symbols).chain([&bits[..]]).collect();
        let packed = zstd::compress(&parts);
        *self = Self::default();
        packed
    }
}

fn put_length(into: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Values of a chunk that is being read.
#[derive(Debug, Default)]
pub(super) struct ColumnReader {
    bytes: Vec<u8>,
    columns: Vec<Unread>,
}

/// What has not been read of a column.
#[derive(Clone, Copy, Debug)]
struct Unread {
    /// Places of its symbols.
    symbols: (usize, usize),
    /// Places of its bits, in bits.
    bits: (usize, usize),
}

impl ColumnReader {
    /// Decompresses a chunk.
    pub fn unpack(packed: &[u8]) -> Result<Self, Malformed> {
        Self::new(zstd::decompress(packed)?)
    }

    fn new(bytes: Vec<u8>) -> Result<Self, Malformed> {
        let mut at = 0;
        let count = get_length(&bytes, &mut at)?;
        if count > MOST_COLUMNS {
            return Err(Malformed("it has too many columns"));
        }
        let lengths: Vec<usize> =
            (0..2 * count).map(|_| get_length(&bytes, &mut at)).collect::<Result<_, _>>()?;
        // Lengths have at most 35 bits each, so that their sum cannot overflow.
        let mut bits = at + lengths.iter().step_by(2).sum::<usize>();
        let mut columns = Vec::with_capacity(count);
        for pair in lengths.chunks_exact(2) {
            columns.push(Unread { symbols: (at, at + pair[0]), bits: (bits * 8, (bits + pair[1]) * 8) });
            (at, bits) = (at + pair[0], bits + pair[1]);
        }
        if bits > bytes.len() {
            return Err(Malformed("its columns are longer than the chunk"));
        }
        Ok(Self { bytes, columns })
    }

    /// Returns whether there is such a column.
    pub fn has(&self, column: usize) -> bool {
        column < self.columns.len()
    }

    fn unread(&mut self, column: usize, symbols: usize) -> Result<&mut Unread, Malformed> {
        let unread = self.columns.get_mut(column).filter(|one| one.symbols.1 - one.symbols.0 >= symbols);
        unread.ok_or(Malformed("a column is shorter than its values"))
    }

    fn symbol(&mut self, column: usize) -> Result<u64, Malformed> {
        let unread = self.unread(column, 1)?;
        unread.symbols.0 += 1;
        let at = unread.symbols.0 - 1;
        Ok(u64::from(self.bytes[at]))
    }

    fn bits(&mut self, column: usize, mut count: u32) -> Result<u64, Malformed> {
        let unread = &mut self.columns[column].bits;
        if unread.1 - unread.0 < count as usize {
            return Err(Malformed("a column has fewer bits than its values"));
        }
        let (mut value, mut have) = (0, 0);
        while count > 0 {
            let byte = u64::from(self.bytes[unread.0 / 8]);
            let skip = (unread.0 % 8) as u32;
            let part = count.min(8 - skip);
            value |= (byte >> skip & ((1 << part) - 1)) << have;
            (unread.0, have, count) = (unread.0 + part as usize, have + part, count - part);
        }
        Ok(value)
    }

    /// Reads the next value of a column.
    pub fn get(&mut self, column: usize) -> Result<u64, Malformed> {
        let symbol = self.symbol(column)?;
        if symbol < OWN {
            return Ok(symbol);
        }
        // At most 63, as a symbol is a byte.
        let below = (symbol - OWN) as u32 / 4 + OWN_BITS - 2;
        Ok((4 | symbol & 3) << below | self.bits(column, below)?)
    }

    /// Reads the next value of a column that has both signs.
    pub fn get_signed(&mut self, column: usize) -> Result<i64, Malformed> {
        let value = self.get(column)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads bytes.
    pub fn get_bytes(&mut self, column: usize, count: usize) -> Result<&[u8], Malformed> {
        let unread = self.unread(column, count)?;
        unread.symbols.0 += count;
        let end = unread.symbols.0;
        Ok(&self.bytes[end - count..end])
    }
}

fn get_length(bytes: &[u8], at: &mut usize) -> Result<usize, Malformed> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at).ok_or(Malformed("it ends in its first values"))?;
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Malformed("a length has too many digits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values of all sizes.
    fn value() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0_u32..64).prop_map(|(value, shift)| value >> shift)
    }

    proptest! {
        #[test]
        fn values_are_read_as_they_were_written(values in prop::collection::vec((0_usize..9, value()), 0..400)) {
            let mut columns = Columns::default();
            for &(column, value) in &values {
                columns.put(column, value);
                columns.put_signed(column, value as i64);
            }
            columns.put_bytes(9, b"text");
            let now = columns.reader().unwrap();
            for mut reader in [now, ColumnReader::unpack(&columns.pack()).unwrap()] {
                for &(column, value) in &values {
                    prop_assert_eq!(reader.get(column), Ok(value));
                    prop_assert_eq!(reader.get_signed(column), Ok(value as i64));
                }
                prop_assert_eq!(reader.get_bytes(9, 4), Ok(&b"text"[..]));
                prop_assert!(reader.get(9).is_err() && reader.get(77).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let packed = zstd::compress(&[&bytes]);
            for bytes in [&packed, &bytes] {
                if let Ok(mut reader) = ColumnReader::unpack(bytes) {
                    while reader.get(0).is_ok() {}
                    let _ = reader.get_bytes(1, 7);
                }
            }
        }
    }
}
