//! Layouts of addresses in cache lines.

use serde::{Deserialize, Serialize};

/// Longest line that can be followed, in bytes.
const MAX_LINE_BYTES: u32 = 128;

/// Alignment of data by allocators and linkers, in bytes; latent findings shift lines by multiples of it.
const DATA_ALIGNMENT: u32 = 16;

/// Number of shifts that are tried for latent findings.
const MAX_SHIFTS: usize = 6;

/// How addresses are divided into cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineLayout {
    /// Size of a line in bytes, a power of two.
    pub line_bytes: u32,
    /// Offset in bytes of the start of a line from a multiple of the line size. A shift other than 0 answers
    /// what would happen if the program's data were laid out at other addresses.
    pub shift_bytes: u32,
}

impl LineLayout {
    /// Returns the layouts to follow on a machine with lines of `line_bytes` bytes: its own, and with `latent`
    /// those of longer lines and of data at other addresses.
    pub fn to_follow(line_bytes: u32, latent: bool) -> Vec<Self> {
        let mut layouts = vec![Self { line_bytes, shift_bytes: 0 }];
        if latent {
            let doubled = Some(2 * line_bytes).filter(|bytes| *bytes <= MAX_LINE_BYTES);
            layouts.extend(doubled.map(|line_bytes| Self { line_bytes, shift_bytes: 0 }));
            let shifts = (DATA_ALIGNMENT..line_bytes).step_by(DATA_ALIGNMENT as usize);
            layouts.extend(shifts.map(|shift_bytes| Self { line_bytes, shift_bytes }).take(MAX_SHIFTS));
        }
        layouts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latent_findings_need_longer_lines_and_other_addresses() {
        let layouts = |line_bytes, latent| {
            let all = LineLayout::to_follow(line_bytes, latent);
            all.iter().map(|layout| (layout.line_bytes, layout.shift_bytes)).collect::<Vec<_>>()
        };
        assert_eq!(layouts(64, false), [(64, 0)]);
        assert_eq!(layouts(64, true), [(64, 0), (128, 0), (64, 16), (64, 32), (64, 48)]);
        let of_longest = layouts(128, true);
        assert_eq!((of_longest.len(), of_longest.last()), (7, Some(&(128, 96))));
        assert_eq!(layouts(32, true), [(32, 0), (64, 0), (32, 16)]);
    }
}
