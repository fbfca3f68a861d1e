//! Readings of monitors, and the rates computed from them.

use serde::Serialize;

/// The contents of one file of `mon_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Bytes transferred since the mount, or bytes that a cache holds.
    Bytes(u64),
    /// The current rate, as openEuler reports it in `mon_MB_NN`.
    MegabytesPerSecond(u64),
    /// The hardware has no reading, for example because the monitor is new. This is not the same as 0.
    Unavailable,
    /// No counter is assigned to the group (`mbm_assign_mode`, AMD's ABMC and Arm's MPAM).
    Unassigned,
    /// The hardware reports that there is no such event or monitor.
    Error,
}

impl Reading {
    /// Parses the text of a file. `is_rate`: the file holds the current rate, not bytes.
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

    /// Returns the bytes, if it is a number of bytes.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The readings of one domain of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorReading {
    /// The monitored resource: `L3`, `MB`.
    pub resource: String,
    /// Number of the cache or NUMA node.
    pub domain: u32,
    /// Bytes of the cache that hold data of the group (`llc_occupancy`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<Reading>,
    /// Bytes to and from memory, or the rate (`mbm_total_bytes`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Reading>,
    /// Bytes to and from the memory of the local NUMA node (`mbm_local_bytes`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<Reading>,
}

/// Returns bytes per second, from two readings `seconds` apart; a reading that is a rate is returned as it
/// is. Absent if either reading is not a number, if the counter decreased (the group was created again), or
/// if no time has passed.
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
    fn a_monitor_state_is_not_a_figure() {
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
    fn a_decreasing_counter_has_no_rate() {
        assert_eq!(rate(Some(Reading::Bytes(10)), Reading::Bytes(9), 1.0), None);
        assert_eq!(rate(Some(Reading::Bytes(9)), Reading::Bytes(10), 0.0), None);
        assert_eq!(rate(None, Reading::MegabytesPerSecond(3), 1.0), Some(3e6));
    }
}
