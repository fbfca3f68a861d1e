//! What monitors tell, and the rates that follow from it.

use serde::Serialize;

/// What one file of `mon_data` said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Bytes that moved since the mount, or that a cache holds.
    Bytes(u64),
    /// The rate of this moment, as openEuler tells it in `mon_MB_NN`.
    MegabytesPerSecond(u64),
    /// The hardware had nothing to say, for one because the monitor is new: no figure, and not 0.
    Unavailable,
    /// No counter is assigned to the group (`mbm_assign_mode`, AMD's ABMC and Arm's MPAM).
    Unassigned,
    /// The hardware says that there is no such event or monitor.
    Error,
}

impl Reading {
    /// Reads a file's text. `is_rate` where the file tells the rate of now and not bytes.
    pub fn parse(text: &str, is_rate: bool) -> Self {
        match text.trim() {
            "Unavailable" => Self::Unavailable,
            "Unassigned" => Self::Unassigned,
            number => match number.parse() {
                Ok(number) if is_rate => Self::MegabytesPerSecond(number),
                Ok(number) => Self::Bytes(number),
                Err(_) => Self::Error,
            },
        }
    }

    /// Bytes, where it is that.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// What the monitors of one domain of a group said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Monitor {
    /// What is monitored: `L3`, `MB`.
    pub resource: String,
    /// Number of the cache or node.
    pub domain: u32,
    /// Bytes of the cache that the group's data take (`llc_occupancy`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<Reading>,
    /// To and from memory, or its rate (`mbm_total_bytes`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Reading>,
    /// To and from the memory of the node itself (`mbm_local_bytes`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<Reading>,
}

/// Bytes a second, from two readings `seconds` apart; a reading that is a rate is taken as it is. Absent where either
/// is no figure, where the counter went back (the group was made anew), or no time has passed.
pub fn rate(before: Option<Reading>, after: Reading, seconds: f64) -> Option<f64> {
    match (before, after) {
        (_, Reading::MegabytesPerSecond(now)) => Some(now as f64 * 1e6),
        (Some(Reading::Bytes(before)), Reading::Bytes(after)) if seconds > 0.0 => {
            Some(after.checked_sub(before)? as f64 / seconds)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_figure_is_not_0() {
        for (text, reading) in [
            ("0\n", Reading::Bytes(0)),
            ("Unavailable\n", Reading::Unavailable),
            ("Unassigned", Reading::Unassigned),
            ("Error", Reading::Error),
            ("", Reading::Error),
            ("-1", Reading::Error),
        ] {
            assert_eq!(Reading::parse(text, false), reading);
        }
        assert_eq!(Reading::parse("120", true), Reading::MegabytesPerSecond(120));
    }

    #[test]
    fn counters_that_went_back_make_no_rate() {
        assert_eq!(rate(Some(Reading::Bytes(10)), Reading::Bytes(9), 1.0), None);
        assert_eq!(rate(Some(Reading::Bytes(9)), Reading::Bytes(10), 0.0), None);
        assert_eq!(rate(None, Reading::MegabytesPerSecond(3), 1.0), Some(3e6));
    }
}
