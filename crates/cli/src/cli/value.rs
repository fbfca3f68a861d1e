//! Parsers of option values that several subcommands share: durations, sizes, counts, shares, switches.

use manycore_study::life::IgnoredFailures;
use std::time::Duration;

/// Largest accepted count; no machine has enough memory for more.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// Error text that describes the syntax of a count.
const COUNT_SYNTAX: &str =
    "expected a whole number of light processes such as 1e5, 100000, 100_000, 100k or 1M";

/// Parses a share: `1%`, `0.5 %` or `0.01`. It must lie strictly between 0 and 1.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, scale) =
        text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |number| (number.trim(), 100.0));
    let share = number.parse::<f64>().map_err(|_| "expected a share such as 1% or 0.01".to_owned())? / scale;
    if share > 0.0 && share < 1.0 {
        Ok(share)
    } else {
        Err("expected a share above 0 % and below 100 %".to_owned())
    }
}

/// Parses a duration: `10` or `0.5` (seconds), `10s`, `5m` or `1h 30m`. It must be longer than zero and at most 366
/// days.
pub fn duration(text: &str) -> Result<Duration, String> {
    const MAX_DURATION: Duration = Duration::from_hours(366 * 24);
    let syntax = |cause: String| format!("{cause}; expected a duration such as 10, 10s or 5m");
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| syntax(error.to_string()))?,
        Err(_) => humantime::parse_duration(text).map_err(|error| syntax(error.to_string()))?,
    };
    match duration {
        Duration::ZERO => Err("expected a duration longer than zero".to_owned()),
        duration if duration > MAX_DURATION => Err("expected a duration of at most 366 days".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses exit codes that count as runs: `all`, or codes from 1 to 255.
pub fn ignored_failures(text: &str) -> Result<IgnoredFailures, String> {
    if text == "all" {
        return Ok(IgnoredFailures::All);
    }
    let code = |code: &str| code.trim().parse::<i32>().ok().filter(|code| (1..=255).contains(code));
    let codes = text.split(',').map(code).collect::<Option<_>>();
    codes
        .map(IgnoredFailures::Codes)
        .ok_or_else(|| "expected exit codes from 1 to 255, such as 1,3".to_owned())
}

/// Parses an interval of at least 100 ms: long enough that one clock tick of 10 ms, the resolution of CPU
/// time, or one interrupt does not dominate a rate.
pub fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < Duration::from_millis(100) {
        return Err(
            "the shortest interval is 100ms, because CPU time is counted in ticks of 10 ms".to_owned()
        );
    }
    Ok(interval)
}

/// Parses a percentage such as `90%` into a share from 0 to 1.
pub fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "expected a percentage from 0% to 100%, such as 90%".to_owned())
}

/// Parses the id of a process. A name may be that of several processes, so it is not looked up.
pub fn process_id(text: &str) -> Result<u32, String> {
    let is_plain = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    match text.parse::<i32>() {
        Ok(pid) if pid > 0 => Ok(pid.unsigned_abs()),
        Ok(_) => Err("a process id is a number above zero".to_owned()),
        Err(_) if is_plain(text) => {
            Err(format!("expected the number of a process, not a name: --pid $(pgrep -d, -x {text})"))
        }
        Err(_) => Err(format!("expected the number of a process, from 1 to {}", i32::MAX)),
    }
}

/// Parses a whole percentage from `LEAST` to 100, such as `40%` or `40`, as libvirt has them.
pub fn whole_percent<const LEAST: u8>(text: &str) -> Result<u8, String> {
    let wrong = || format!("expected a whole percentage from {LEAST}% to 100%, such as 40%");
    let percent: u8 = text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| wrong())?;
    if (LEAST..=100).contains(&percent) { Ok(percent) } else { Err(wrong()) }
}

/// Parses a size such as `512M`, `2G` or a number of bytes, and returns bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("expected a size such as 512M or 2G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a size such as 512M or 2G".to_owned())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(|| "size out of range".to_owned())
}

/// Parses `1e5`, `100000`, `100_000`, `100k`, `1M` or `1.5e6`: digits, a decimal point and a power of ten
/// that make a whole number. Uses integer arithmetic, so that no count is rounded.
pub fn count(text: &str) -> Result<u64, String> {
    let wrong = || COUNT_SYNTAX.to_owned();
    let plain = text.replace('_', "");
    let (number, power) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (&plain[..at], 3),
        Some((at, 'm' | 'M')) => (&plain[..at], 6),
        _ => match plain.split_once(['e', 'E']) {
            Some((number, power)) => (number, power.parse::<u32>().map_err(|_| wrong())?),
            None => (plain.as_str(), 0),
        },
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    if whole.is_empty() || digits.len() > 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let power = power.checked_sub(part.trim_end_matches('0').len() as u32).ok_or_else(wrong)?;
    let digits = &digits[..digits.len() - (part.len() - part.trim_end_matches('0').len())];
    let number = digits.parse::<u128>().map_err(|_| wrong())?;
    let count = 10u128.checked_pow(power).and_then(|scale| number.checked_mul(scale)).unwrap_or(u128::MAX);
    match u64::try_from(count) {
        Ok(0) => Err("0 leaves nothing to measure: give 1 or more".to_owned()),
        Ok(count) if count <= MAX_COUNT => Ok(count),
        _ => Err(format!("{MAX_COUNT} is the most that this accepts: no machine has memory for more")),
    }
}

/// Parses a switch: `on` or `off`, or `1` or `0` as the kernel's files have it.
pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "1" => Ok(true),
        "off" | "0" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_exactly() {
        for (text, value) in [
            ("1e5", 100_000),
            ("1E5", 100_000),
            ("100000", 100_000),
            ("100_000", 100_000),
            ("100k", 100_000),
            ("1M", 1_000_000),
            ("1.5M", 1_500_000),
            ("1.5e6", 1_500_000),
            ("2.50e1", 25),
            ("1.0", 1),
            ("7", 7),
            ("1e12", MAX_COUNT),
        ] {
            assert_eq!(count(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn a_name_is_not_a_process_id_and_the_command_that_finds_it_is_printed() {
        assert_eq!(process_id("812"), Ok(812));
        let refused = |text: &str| process_id(text).unwrap_err();
        assert!(refused("redis-server").ends_with("--pid $(pgrep -d, -x redis-server)"));
        assert_eq!(refused("0"), "a process id is a number above zero");
        // Nothing that a shell would run is printed as a command.
        for text in ["$(reboot)", "a;b", "-x", "1x", "99999999999", ""] {
            assert!(refused(text).starts_with("expected the number of a process, from 1"), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_counts() {
        for text in [
            "", "-1", "-1e5", "1.5", "1.25e1", "NaN", "nan", "inf", "1e", "e5", ".5e1", "k", "1e-1", "0x10",
            "1 000", "1e5e5",
        ] {
            assert_eq!(count(text), Err(COUNT_SYNTAX.to_owned()), "{text}");
        }
        assert!(count("0").is_err_and(|why| why.contains("nothing")));
        assert!(count("0e5").is_err_and(|why| why.contains("nothing")));
        for text in ["1e13", "1e400", "1000000000001", "99999999999999999999"] {
            assert!(count(text).is_err_and(|why| why.contains("is the most")), "{text}");
        }
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in
            [("1", 1), ("4k", 4096), ("512M", 512 << 20), ("2GiB", 2 << 30), ("1GB", 1 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "0", "M", "1X", "-1", "99999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_seconds_or_have_units_and_have_limits() {
        for (text, milliseconds) in [
            ("1m 30s", 90_000),
            ("90", 90_000),
            ("90s", 90_000),
            ("0.5", 500),
            ("5m", 300_000),
            ("250ms", 250),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for wrong in ["", "0", "0s", "367d", "-1s", "-1", "1e9", "nan", "inf", "10 apples", "ten", "1e400"] {
            assert!(duration(wrong).is_err_and(|why| why.contains("expected a duration")), "{wrong}");
        }
        assert!(interval("99ms").is_err() && interval("100ms").is_ok());
    }

    #[test]
    fn shares_are_percentages_or_fractions() {
        assert_eq!((share("1%"), share("0.5 %"), share("0.01")), (Ok(0.01), Ok(0.005), Ok(0.01)));
        assert!(["0", "100%", "1", "x"].iter().all(|wrong| share(wrong).is_err()));
        assert_eq!((percentage("90%"), percentage("100%")), (Ok(0.9), Ok(1.0)));
        assert!(["90", "101%"].iter().all(|wrong| percentage(wrong).is_err()));
        assert_eq!((whole_percent::<1>("40%"), whole_percent::<0>("0")), (Ok(40), Ok(0)));
        assert!(["0", "101", "40.5%", "-1", "", "%"].iter().all(|wrong| whole_percent::<1>(wrong).is_err()));
    }
}
