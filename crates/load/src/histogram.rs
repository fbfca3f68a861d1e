//! Histograms as text: `HdrHistogram`'s V2 format in base64, as in the logs of load generators.

use crate::LoadResult;
use base64::{Engine, prelude::BASE64_STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer as _, V2Serializer},
};
use serde::{Deserialize, Deserializer as From, Serializer as To, de, ser};

pub(crate) fn serialize<S: To>(histogram: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(histogram, &mut bytes).map_err(ser::Error::custom)?;
    to.serialize_str(&BASE64_STANDARD.encode(bytes))
}

/// Bytes of the header: cookie, length of the rest, offset, digits, lowest and highest value, ratio.
const HEADER: usize = 40;
/// Those of the length.
const LENGTH: std::ops::Range<usize> = 4..8;

pub(crate) fn deserialize<'a, D: From<'a>>(from: D) -> Result<Histogram<u64>, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = BASE64_STANDARD.decode(text).map_err(de::Error::custom)?;
    let wrong = || {
        de::Error::custom("it is no histogram in HdrHistogram's V2 format with the bounds of this program")
    };
    if !is_like_ours(&bytes) {
        return Err(wrong());
    }
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| wrong())
}

/// Whether a histogram has the header of an empty one of this program and the length that it names: the memory for others
/// is not limited.
fn is_like_ours(bytes: &[u8]) -> bool {
    let mut ours = Vec::new();
    if bytes.len() < HEADER
        || V2Serializer::new().serialize(&LoadResult::empty_histogram(), &mut ours).is_err()
    {
        return false;
    }
    let (header, rest) = bytes.split_at(HEADER);
    let is_named = header[LENGTH] == (rest.len() as u32).to_be_bytes();
    let same = |range: std::ops::Range<usize>| header[range.clone()] == ours[range];
    is_named && same(0..LENGTH.start) && same(LENGTH.end..HEADER)
}
