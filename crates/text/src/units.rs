//! Formats figures for people.

/// Formats a count with a noun whose plural takes an s: `1 task`, `3 tasks`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Formats bytes with a binary unit and no unnecessary digits: `48 KiB`, `1.5 MiB`, `300 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = (0..UNITS.len() - 1).take_while(|&step| count >> (10 * step) >= 1024).count();
    let scaled = count as f64 / (1u64 << (10 * step)) as f64;
    let digits = usize::from(scaled < 100.0 && (scaled * 10.0).round() % 10.0 != 0.0);
    format!("{scaled:.digits$} {}", UNITS[step])
}

/// Formats bytes per second with a decimal unit, as bandwidth limits are specified: `0 B/s`, `12.5 MB/s`,
/// `1.84 GB/s`.
pub fn rate(bytes_per_second: f64) -> String {
    const UNITS: [&str; 5] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
    let step = (0..UNITS.len() - 1)
        .take_while(|&step| bytes_per_second >= 999.5 * 1000f64.powi(step as i32))
        .count();
    let scaled = bytes_per_second / 1000f64.powi(step as i32);
    let digits = match scaled {
        _ if step == 0 => 0,
        small if small < 9.995 => 2,
        middle if middle < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$} {}", UNITS[step])
}

/// Formats bytes with a decimal unit, as used for the total memory of many small objects: `299 MB`,
/// `2.67 GB`.
pub fn decimal(bytes: f64) -> String {
    rate(bytes).trim_end_matches("/s").to_owned()
}

/// Formats a whole number with at most three digits, rounded down, in the notation in which counts are
/// specified: `1e8`, `7.86e6`, `31,245`.
pub fn count(count: u64) -> String {
    const EXACT: u64 = 100_000;
    let power = count.checked_ilog10().unwrap_or(0);
    let mantissa = count / 10u64.pow(power.saturating_sub(2));
    if count < EXACT {
        return match count {
            0..1000 => count.to_string(),
            _ => format!("{},{:03}", count / 1000, count % 1000),
        };
    }
    let digits = format!("{}.{:02}", mantissa / 100, mantissa % 100);
    format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a frequency in kHz as `2.60 GHz`.
pub fn gigahertz(khz: u64) -> String {
    format!("{:.2} GHz", khz as f64 / 1e6)
}

/// Formats a share as a percentage with significant digits only: `0.04 %`, `3.1 %`, `42 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size >= 9.95 => format!("{percent:.0} %"),
        size if size >= 0.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.2} %"),
    }
}

/// Formats a ratio with three decimals, or with three digits where it is far from 1: `1.031`, `12.3`,
/// `0.00417`.
pub fn decimals(ratio: f64) -> String {
    match ratio.abs() {
        size if size >= 100.0 => format!("{ratio:.0}"),
        size if size >= 10.0 => format!("{ratio:.1}"),
        size if size >= 0.1 || size == 0.0 || !size.is_finite() => format!("{ratio:.3}"),
        size if size >= 0.001 => format!("{ratio:.5}"),
        _ => format!("{ratio:.2e}"),
    }
}

/// Formats the expected length of a run: `40 s`, `12 min`, `8 h`, `3 days`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{:.0} s", short.max(1.0)),
        minutes if minutes < 7200.0 => format!("{:.0} min", minutes / 60.0),
        hours if hours < 172_800.0 => format!("{:.0} h", hours / 3600.0),
        days => format!("{:.0} days", days / 86_400.0),
    }
}

/// Formats a 95 % interval, each end with `show`: `95 %: 1.95 to 1.99`.
pub fn interval(ends: Option<(f64, f64)>, show: impl Fn(f64) -> String) -> String {
    match ends {
        Some((low, high)) => format!("95 %: {} to {}", show(low), show(high)),
        None => "too few samples for an interval".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_well() {
        for (count, text) in [
            (0.0, "0 B/s"),
            (999.4, "999 B/s"),
            (999.6, "1.00 kB/s"),
            (12_500_000.0, "12.5 MB/s"),
            (999_700_000.0, "1.00 GB/s"),
            (184e9, "184 GB/s"),
        ] {
            assert_eq!(rate(count), text);
        }
    }

    #[test]
    fn counts_never_say_more_than_there_are() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_024, "1,024"),
            (32_767, "32,767"),
            (100_000, "1e5"),
            (7_869_999, "7.86e6"),
            (55_000_000, "5.5e7"),
            (100_000_000, "1e8"),
            (u64::MAX, "1.84e19"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!(decimal(267.03e9), "267 GB");
    }

    #[test]
    fn bytes_read_well() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (49152, "48 KiB"),
            (1_572_864, "1.5 MiB"),
            (314_572_800, "300 MiB"),
            (25_282_281_472, "23.5 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
