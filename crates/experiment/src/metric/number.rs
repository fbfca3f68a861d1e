//! Parses numbers as programs print them: `12,345.6`, `1.23k`, `45.6MB`, `789.00us`, `1e6`.

/// A number and the kind of quantity given by its suffix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantity {
    /// Plain value, milliseconds, bytes or percent.
    pub value: f64,
    /// The kind of quantity.
    pub kind: QuantityKind,
}

/// Kind of a quantity, known from its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuantityKind {
    /// No suffix, or `k`, `M`, `G`, `T`.
    Plain,
    /// `ns`, `us`, `ms`, `s`, `m` (minutes), `h`: in milliseconds.
    Time,
    /// `B`, `KB`, `KiB` and so on: in bytes.
    Bytes,
    /// `%`.
    Percent,
}

impl QuantityKind {
    /// Returns the unit of [`Quantity::value`].
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Time => "ms",
            Self::Bytes => "B",
            Self::Percent => "%",
        }
    }
}

/// Returns the number of milliseconds in a unit of time.
pub(super) fn milliseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" | "nsec" | "nsecs" => 1e-6,
        "us" | "µs" | "μs" | "usec" | "usecs" => 1e-3,
        "ms" | "msec" | "msecs" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e3,
        "m" | "min" | "minutes" => 6e4,
        "h" | "hours" => 3.6e6,
        _ => return None,
    })
}

/// Parses a finite number without a suffix. Commas may separate thousands.
pub(super) fn plain(text: &str) -> Option<f64> {
    quantity(text)
        .filter(|quantity| quantity.kind == QuantityKind::Plain && !text.ends_with(char::is_alphabetic))?;
    quantity(text).map(|quantity| quantity.value)
}

/// Parses a finite number with or without a suffix. `k`, `M`, `G` and `T` are powers of 1000, also before a
/// `B`. `Ki`, `Mi` and so on are powers of 1024. A rate (`MB/s`) is read like its count.
pub(super) fn quantity(text: &str) -> Option<Quantity> {
    let text = text.trim();
    let end = numeral(text);
    let number = parse(&text[..end])?;
    let suffix = text[end..].trim_start();
    let suffix = suffix.strip_suffix("/sec").or_else(|| suffix.strip_suffix("/s")).unwrap_or(suffix);
    let (kind, scale) = match suffix {
        "" => (QuantityKind::Plain, 1.0),
        "%" => (QuantityKind::Percent, 1.0),
        other => match milliseconds(other) {
            Some(scale) => (QuantityKind::Time, scale),
            None => counted(other)?,
        },
    };
    let value = number * scale;
    value.is_finite().then_some(Quantity { value, kind })
}

fn counted(suffix: &str) -> Option<(QuantityKind, f64)> {
    let (kind, prefix) = match suffix.strip_suffix('B') {
        Some(prefix) => (QuantityKind::Bytes, prefix),
        None => (QuantityKind::Plain, suffix),
    };
    let (base, prefix) = match prefix.strip_suffix('i') {
        Some(prefix) => (1024.0_f64, prefix),
        None => (1000.0, prefix),
    };
    let power = match prefix {
        "" if base == 1000.0 && kind == QuantityKind::Bytes => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    Some((kind, base.powi(power)))
}

/// Returns the length of the number at the start of `text`.
fn numeral(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = |at: usize| usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
    let start = sign(0);
    let end = start
        + bytes[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b','))
            .count();
    if !matches!(bytes.get(end), Some(b'e' | b'E')) {
        return end;
    }
    let exponent = end + 1 + sign(end + 1);
    match digits(exponent.min(bytes.len())) {
        0 => end,
        count => exponent + count,
    }
}

fn parse(numeral: &str) -> Option<f64> {
    let whole = numeral.trim_start_matches(['+', '-']);
    let whole = &whole[..whole.find(['.', 'e', 'E']).unwrap_or(whole.len())];
    let mut groups = whole.split(',');
    let first = groups.next()?.len();
    let thousands =
        !whole.contains(',') || ((1..=3).contains(&first) && groups.all(|group| group.len() == 3));
    let number: f64 =
        thousands.then(|| numeral.replacen(',', "", whole.matches(',').count()))?.parse().ok()?;
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_as_programs_print_them() {
        let cases = [
            ("123", 123.0, QuantityKind::Plain),
            (" -1.5e3 ", -1500.0, QuantityKind::Plain),
            ("12,345,678.5", 12_345_678.5, QuantityKind::Plain),
            ("44.57k", 44_570.0, QuantityKind::Plain),
            ("2 M", 2e6, QuantityKind::Plain),
            ("45.6MB", 45.6e6, QuantityKind::Bytes),
            ("2KiB", 2048.0, QuantityKind::Bytes),
            ("5B", 5.0, QuantityKind::Bytes),
            ("182.55GB/s", 182.55e9, QuantityKind::Bytes),
            ("250.00us", 0.25, QuantityKind::Time),
            ("1.13ms", 1.13, QuantityKind::Time),
            ("0.5 s", 500.0, QuantityKind::Time),
            ("1.50m", 90_000.0, QuantityKind::Time),
            ("86.19%", 86.19, QuantityKind::Percent),
        ];
        for (text, value, kind) in cases {
            let read = quantity(text).unwrap_or_else(|| panic!("{text} is not a number"));
            assert!((read.value - value).abs() <= value.abs() * 1e-12, "{text}: {read:?}");
            assert_eq!(read.kind, kind, "{text}");
        }
    }

    #[test]
    fn texts_without_a_finite_number_are_refused() {
        for text in
            ["", "-", ".", "nan", "-nan%", "inf", "1e999", "1,5", "1,2345", "1.2.3", "12 apples", "5i"]
        {
            assert_eq!(quantity(text), None, "{text}");
        }
        assert_eq!(plain("5ms"), None);
        assert_eq!(plain("5k"), None);
        assert_eq!(plain("1,234"), Some(1234.0));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_finite_number_or_none(text in "[-+]?[0-9.,]{0,8}([eE][-+]?[0-9]{0,4})?\\PC{0,4}") {
            if let Some(read) = quantity(&text) {
                prop_assert!(read.value.is_finite());
            }
        }

        #[test]
        fn a_number_is_read_back(value in -1e15_f64..1e15) {
            prop_assert_eq!(plain(&value.to_string()), Some(value));
            prop_assert_eq!(plain(&format!("{value:e}")), Some(value));
        }
    }
}
