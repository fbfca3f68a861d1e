//! Heads of the file and of its chunks as bytes.

/// The first bytes of a recording.
pub(super) const MAGIC: &[u8; 8] = b"MCTOPREC";
/// Bytes of the head of a chunk.
pub(super) const CHUNK_HEAD: usize = 40;
/// Longest head of a file, and longest chunk.
pub(super) const LONGEST_HEAD: usize = 16 << 20;
pub(super) const LONGEST_CHUNK: usize = 64 << 20;

/// The head of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkHead {
    /// Whether it is the end of a finished recording, and no chunk follows.
    pub is_end: bool,
    /// Whether it can be decoded without the chunk before.
    pub stands_alone: bool,
    /// Number of its samples; at the end, of all.
    pub samples: u32,
    /// Length of its samples in bytes.
    pub length: u32,
    /// When its first and last sample were taken, in milliseconds since 1970.
    pub unix_ms: [u64; 2],
    /// CRC-32 of its samples.
    pub crc: u32,
}

impl ChunkHead {
    pub fn to_bytes(self) -> [u8; CHUNK_HEAD] {
        let mut bytes = [0; CHUNK_HEAD];
        bytes[..4].copy_from_slice(if self.is_end { b"END." } else { b"CHNK" });
        bytes[4..8].copy_from_slice(&u32::from(self.stands_alone).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.samples.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.unix_ms[0].to_le_bytes());
        bytes[24..32].copy_from_slice(&self.unix_ms[1].to_le_bytes());
        bytes[32..36].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns the head; `None` if it is damaged.
    pub fn from_bytes(bytes: &[u8; CHUNK_HEAD]) -> Option<Self> {
        let four = |at: usize| bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        let eight = |at: usize| bytes[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
        let is_end = &bytes[..4] == b"END.";
        let is_known = is_end || &bytes[..4] == b"CHNK";
        (is_known && crc32fast::hash(&bytes[..36]) == four(36)).then(|| Self {
            is_end,
            stands_alone: four(4) == 1,
            samples: four(8),
            length: four(12),
            unix_ms: [eight(16), eight(24)],
            crc: four(32),
        })
    }
}
