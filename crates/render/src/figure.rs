//! Formats figures for tables.

use manycore_stats::Estimate;

/// Text for a missing figure.
pub const ABSENT: &str = "-";

/// Formats a number with about four significant digits and commas between thousands: `15,316`, `3.377`.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => ABSENT.to_owned(),
        size if size >= 1e15 => format!("{value:.3e}"),
        size if size >= 1000.0 => grouped(value),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.001 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// Formats a rate with a decimal prefix: `88.49 M`.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{} G", number(value / 1e9)),
        size if size >= 1e6 => format!("{} M", number(value / 1e6)),
        size if size >= 1e3 => format!("{} k", number(value / 1e3)),
        _ => number(value),
    }
}

/// Returns the unit in which times are shown, the smallest of which is so many seconds, and how many of it are a second:
/// `s`, `ms`, `µs` or `ns`. Figures have digits that mean something then, and no exponents.
pub fn unit_of_time(smallest_seconds: f64) -> (&'static str, f64) {
    match smallest_seconds {
        size if size <= 0.0 || size >= 0.1 || !size.is_finite() => ("s", 1.0),
        size if size >= 1e-4 => ("ms", 1e3),
        size if size >= 1e-7 => ("\u{b5}s", 1e6),
        _ => ("ns", 1e9),
    }
}

/// Formats a whole number with commas between thousands.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a factor: `2.19x`.
pub fn times(value: f64) -> String {
    if value.is_finite() { format!("{}x", factor(value)) } else { ABSENT.to_owned() }
}

/// Formats a factor without its sign: two decimals below 100, one from 100 on, and more below 0.1.
pub fn factor(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 || !size.is_finite() => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Formats a share as a percentage: `98.4 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{} %", percent_number(share)) } else { ABSENT.to_owned() }
}

/// Formats a share in hundredths, without the percent sign.
pub fn percent_number(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size >= 1e6 => format!("{percent:.1e}"),
        size if size >= 0.995 => format!("{percent:.1}"),
        size if size > 0.0 && size < 0.005 => "0.00".to_owned(),
        0.0 => "0".to_owned(),
        _ => format!("{percent:.2}"),
    }
}

/// Formats the 95 % interval, each end with `show`: `2.15 to 2.22`.
pub fn interval(estimate: &Estimate, show: fn(f64) -> String) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{} to {}", show(low), show(high)),
        None => "too few".to_owned(),
    }
}

/// Formats an optional figure.
pub fn optional(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), show)
}

/// Formats the median with its interval in brackets: `2.19x (2.15 to 2.22)`.
pub fn with_interval(estimate: &Estimate, median: fn(f64) -> String, end: fn(f64) -> String) -> String {
    format!("{} ({})", median(estimate.median), interval(estimate, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        for (value, text) in [
            (15_315.93, "15,316"),
            (455_189.0, "455,189"),
            (-1234.0, "-1,234"),
            (300.25, "300.2"),
            (0.26, "0.260"),
            (0.0, "0.000"),
            (1e-7, "1.00e-7"),
            (f64::NAN, ABSENT),
            (f64::INFINITY, ABSENT),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(grouped(999.6), "1,000");
    }

    /// Regression test: one row had 0.001 and 8.49e-4 seconds.
    #[test]
    fn short_times_have_a_smaller_unit() {
        let unit = |seconds: f64| unit_of_time(seconds).0;
        assert_eq!([12.0, 0.1, 0.06, 8.49e-4].map(unit), ["s", "s", "ms", "ms"]);
        assert_eq!([9e-5, 1e-7, 2e-9].map(unit), ["\u{b5}s", "\u{b5}s", "ns"]);
        assert_eq!([0.0, f64::NAN, f64::INFINITY].map(unit), ["s"; 3]);
        assert_eq!(number(8.49e-4 * unit_of_time(8.49e-4).1), "0.849");
    }

    #[test]
    fn rates_are_short() {
        let rates = [12.0, 88_494.0, 88_494_342.0, 2.5e9, f64::NAN].map(short);
        assert_eq!(rates, ["12.00", "88.49 k", "88.49 M", "2.500 G", ABSENT]);
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent(0.984), "98.4 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.00001), "0.00 %");
        assert_eq!(percent(0.004), "0.40 %");
        assert_eq!(percent(f64::NAN), ABSENT);
    }
}
