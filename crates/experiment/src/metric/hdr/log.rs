//! Logs of encoded histograms, as the log writers of `HdrHistogram` for Java, C, Rust and Python write them.
//!
//! A line is `[Tag=NAME,]START,LENGTH,MAX,HISTOGRAM` for one interval. The histogram is in base64, in the second version
//! of the encoding, compressed or not. `MAX` is the largest value in the unit of the log: programs record nanoseconds or
//! microseconds, and most write milliseconds there. All values are scaled by that factor, a power of ten.

use super::figures;
use crate::metric::{
    figures::{Figures, quote},
    number,
    requests::PrintedTimes,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::ZlibDecoder;
use hdrhistogram::{Histogram, serialization::Deserializer};
use std::{collections::BTreeMap, io::Read};

/// Largest size of a histogram after decompression, in bytes. One of five digits over the range of 64 bits has half of
/// that with a count of one byte in each place.
const MAX_HISTOGRAM: u64 = 16 << 20;

/// Largest number of values: more than any run sends. Sums of more overflow.
const MAX_VALUES: u64 = 1 << 53;

/// Largest number of intervals: a day has 86,400 seconds.
const MAX_INTERVALS: usize = 100_000;

/// Bytes of the header of a histogram, and the place of the length of what follows it.
const HEADER: usize = 40;
const LENGTH: std::ops::Range<usize> = 4..8;

/// The end of a sentence about more values.
const TOO_MANY: &str = "has more than 2^53 values";

/// What values without a tag are called beside those with one.
const NO_TAG: &str = "no tag";

/// First bytes of a compressed histogram of version 2.
const COMPRESSED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();

/// The histograms of a log.
pub(super) struct HistogramLog {
    /// By tag; the empty tag stands for lines without one.
    by_tag: BTreeMap<String, Histogram<u64>>,
    all: Histogram<u64>,
    /// Recorded values for one in the unit of the log.
    divisor: f64,
}

/// Reads a log. `None` where no line has a histogram.
///
/// # Errors
/// A histogram cannot be read, there are too many, or all are empty.
pub(super) fn read(text: &str) -> Result<Option<HistogramLog>, String> {
    if !text.lines().any(|line| Interval::parse(line).is_some()) {
        return Ok(None);
    }
    let mut by_tag: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    // The interval with the largest value has the most digits of it.
    let mut largest = (0, 0.0);
    let mut count = 0;
    for line in text.lines() {
        let Some(interval) = Interval::parse(line) else {
            if is_damaged(line) {
                return Err(format!("the log has a damaged line: {}", quote(line)));
            }
            continue;
        };
        count += 1;
        if count > MAX_INTERVALS {
            return Err(format!("the log has more than {MAX_INTERVALS} histograms"));
        }
        let histogram = decode(interval.encoded)
            .map_err(|why| format!("the histogram {} {why}", quote(interval.encoded)))?;
        largest = std::cmp::max_by_key(largest, (histogram.max(), interval.max), |one| one.0);
        match by_tag.get_mut(interval.tag) {
            Some(sum) => add(sum, &histogram)?,
            None => drop(by_tag.insert(interval.tag.to_owned(), growing(histogram))),
        }
    }
    let mut sums = by_tag.values();
    let Some(mut all) = sums.next().cloned() else { return Ok(None) };
    sums.try_for_each(|sum| add(&mut all, sum))?;
    if all.is_empty() {
        return Err("all histograms of the log are empty".to_owned());
    }
    let divisor = 10_f64.powf((largest.0 as f64 / largest.1).log10().round());
    let divisor = if divisor.is_finite() && divisor >= 1.0 { divisor } else { 1.0 };
    Ok(Some(HistogramLog { by_tag, all, divisor }))
}

impl HistogramLog {
    /// Returns the figures of all tags together.
    pub(super) fn figures(&self) -> Figures {
        let at = |share| Some(self.scaled(self.all.value_at_quantile(share)));
        let mean = self.all.mean() / self.divisor;
        figures(self.all.len() as f64, at, Some(mean), self.scaled(self.all.max()))
    }

    /// Returns the distribution of all values and, where there are several tags, of each one that has values.
    pub(super) fn requests(&self) -> Vec<PrintedTimes> {
        let times = |tag: &str, histogram: &Histogram<u64>| {
            let mut count = 0.0;
            let points = histogram.iter_recorded().map(|step| {
                count += step.count_since_last_iteration() as f64;
                (self.scaled(step.value_iterated_to()), count)
            });
            let points = points.collect();
            PrintedTimes { name: tag.to_owned(), count, points }
        };
        let filled = self.by_tag.iter().filter(|(_, histogram)| !histogram.is_empty());
        let tags = filled.map(|(tag, histogram)| (if tag.is_empty() { NO_TAG } else { tag }, histogram));
        let mut all: Vec<PrintedTimes> = tags.map(|(tag, histogram)| times(tag, histogram)).collect();
        match all.as_mut_slice() {
            [one] if one.name == NO_TAG => one.name.clear(),
            [_] => {}
            _ => all.insert(0, times("", &self.all)),
        }
        all
    }

    fn scaled(&self, value: u64) -> f64 {
        value as f64 / self.divisor
    }
}

/// One line.
struct Interval<'a> {
    tag: &'a str,
    max: f64,
    encoded: &'a str,
}

impl<'a> Interval<'a> {
    /// Returns `None` for comments, the titles of columns, and a line that was cut.
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let (tag, rest) = match line.strip_prefix("Tag=") {
            Some(tagged) => tagged.split_once(',')?,
            None => ("", line),
        };
        let mut parts = rest.splitn(4, ',');
        let mut next = || parts.next().and_then(number::plain);
        let (_start, _length, max) = (next()?, next()?, next()?);
        let encoded = parts.next()?.trim();
        (!encoded.is_empty()).then_some(Self { tag, max, encoded })
    }
}

/// Returns whether a line that is none of an interval was meant as one: it begins like one, or has a histogram.
fn is_damaged(line: &str) -> bool {
    let line = line.trim();
    let begins = line.starts_with("Tag=") || line.starts_with(|sign: char| sign.is_ascii_digit());
    !line.starts_with('#') && (begins && line.contains(',') || line.contains("HISTFA"))
}

/// Returns the histogram of a text, or what is wrong with it, as the end of a sentence.
fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|why| format!("is not base64: {why}"))?;
    let plain = if bytes.starts_with(&COMPRESSED) {
        let mut plain = Vec::new();
        let packed = bytes.get(LENGTH.end..).unwrap_or_default();
        let read = ZlibDecoder::new(packed).take(MAX_HISTOGRAM + 1).read_to_end(&mut plain);
        read.map_err(|why| format!("cannot be decompressed: {why}"))?;
        plain
    } else {
        bytes
    };
    if plain.len() as u64 > MAX_HISTOGRAM {
        return Err(format!("has more than {} MiB", MAX_HISTOGRAM >> 20));
    }
    // The reader would make room for any length that the header claims.
    let claimed = plain.get(LENGTH).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
    if plain.len() < HEADER || claimed as usize > plain.len() - HEADER {
        return Err(format!("ends after {} bytes, and its header claims {claimed} more", plain.len()));
    }
    let histogram = Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|why| {
        format!("is no histogram of whole numbers in version 2 of the encoding: {}", text_of(&why))
    })?;
    if histogram.len() > MAX_VALUES { Err(TOO_MANY.to_owned()) } else { Ok(histogram) }
}

fn text_of(why: &hdrhistogram::serialization::DeserializeError) -> String {
    why.to_string().trim_start_matches("The ").to_owned()
}

fn add(sum: &mut Histogram<u64>, more: &Histogram<u64>) -> Result<(), String> {
    sum.add(more).map_err(|why| format!("the histograms of the log cannot be added: {why}"))?;
    if sum.len() > MAX_VALUES { Err(format!("the log {TOO_MANY}")) } else { Ok(()) }
}

/// Makes room for the larger values of other histograms.
fn growing(mut histogram: Histogram<u64>) -> Histogram<u64> {
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests;
