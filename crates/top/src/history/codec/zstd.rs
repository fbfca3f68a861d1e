//! Compression in the format of Zstandard (RFC 8878).
//!
//! Each column has its own distribution of symbols, so that a long one becomes a frame of its own, with its own code.
//! All in one frame would be 40 % larger.

use super::Malformed;
use ruzstd::{
    decoding::{FrameDecoder, StreamingDecoder},
    encoding::{CompressionLevel, compress_to_vec},
};
use std::io::Read;

/// Most bytes of a chunk after decompression.
pub(super) const MOST_BYTES: usize = 64 << 20;
/// Most bytes of a frame, so that it is one block. It is also the window.
const LONGEST: usize = 128 << 10;
/// From this size in bytes on, a part has a frame of its own. The description of a code takes some 50 bytes.
const LONG: usize = 2048;

/// Compresses the parts, one after the other.
pub(super) fn compress(parts: &[&[u8]]) -> Vec<u8> {
    let (mut packed, mut short) = (Vec::new(), Vec::new());
    for piece in parts.iter().flat_map(|part| part.chunks(LONGEST)) {
        if piece.len() >= LONG {
            put_frame(&mut short, &mut packed);
        }
        short.extend_from_slice(piece);
        if short.len() >= LONG {
            put_frame(&mut short, &mut packed);
        }
    }
    put_frame(&mut short, &mut packed);
    packed
}

/// Moves the bytes to a frame.
fn put_frame(bytes: &mut Vec<u8>, packed: &mut Vec<u8>) {
    if !bytes.is_empty() {
        packed.extend(compress_to_vec(&bytes[..], CompressionLevel::Fastest));
        bytes.clear();
    }
}

/// Decompresses all frames.
pub(super) fn decompress(mut packed: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(LONGEST as u64);
    let mut bytes = Vec::new();
    while !packed.is_empty() {
        let frame = StreamingDecoder::new_with_decoder(&mut packed, &mut decoder);
        let frame = frame.map_err(|_| Malformed("it is not a frame of zstd"))?;
        let read = frame.take((MOST_BYTES + 1 - bytes.len()) as u64).read_to_end(&mut bytes);
        read.map_err(|_| Malformed("it cannot be decompressed"))?;
        if bytes.len() > MOST_BYTES {
            return Err(Malformed("it is too large after decompression"));
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(parts: &[&[u8]]) {
        assert_eq!(decompress(&compress(parts)).unwrap(), parts.concat());
    }

    #[test]
    fn any_length_and_number_of_symbols_is_kept() {
        is_kept(&[]);
        for length in [0, 1, 2, 40, 1024, 1025, 2047, 2048, 5000, 131_072, 131_073, 400_000] {
            for symbols in [1_u64, 2, 3, 17, 129, 255, 256] {
                let bytes: Vec<u8> = (0..length as u64).map(|at| (at * at % 1009 % symbols) as u8).collect();
                is_kept(&[&bytes]);
                is_kept(&[&bytes, &bytes, b"ab"]);
            }
        }
        // The encoder makes its code by the number of symbols.
        for symbols in 1..=256_u64 {
            let random = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % symbols;
            let bytes: Vec<u8> = (0..3000).map(|at| random(at) as u8).collect();
            is_kept(&[&bytes]);
            let skewed: Vec<u8> = (0..3000).map(|at| (random(at) * random(at + 7) / symbols) as u8).collect();
            is_kept(&[&skewed]);
        }
    }

    #[test]
    fn small_frames_do_not_become_a_large_chunk() {
        let half = compress_to_vec(&vec![7; MOST_BYTES / 2][..], CompressionLevel::Fastest);
        assert!(half.len() < 4096);
        assert_eq!(decompress(&[&half[..], &half].concat()).unwrap().len(), MOST_BYTES);
        let more = compress_to_vec(&[7][..], CompressionLevel::Fastest);
        let found = decompress(&[&half[..], &half, &more].concat());
        assert_eq!(found, Err(Malformed("it is too large after decompression")));
    }
}
