//! The rate at which a client of another program is to send requests, from its options.

/// Share of the planned rate from which a client counts as having reached it: some of them need a while at the begin.
const REACHED: f64 = 0.9;
/// Connections of memtier in a thread, and its threads, without options.
const MEMTIER: (f64, f64) = (50.0, 4.0);
/// Connections of hey without an option.
const HEY_CONNECTIONS: f64 = 50.0;
/// Threads of wrk2 without an option.
const WRK2_THREADS: f64 = 2.0;

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClientRate {
    /// Requests per second.
    per_second: f64,
    /// Threads that send them; as many as there are CPUs if absent.
    threads: Option<f64>,
}

impl ClientRate {
    /// Returns the rate in the options of the client whose output the reader `name` understands. `None` if it has no fixed rate.
    pub(crate) fn of(name: &str, words: &[String]) -> Option<Self> {
        let option = |names: &[&str]| names.iter().find_map(|name| value(words, name));
        let number = |names: &[&str], usual: f64| option(names).unwrap_or(usual);
        match name {
            "wrk2" => Some(Self {
                per_second: option(&["-R", "--rate"])?,
                threads: Some(number(&["-t", "--threads"], WRK2_THREADS)),
            }),
            "memtier" => {
                let threads = number(&["-t", "--threads"], MEMTIER.1);
                let each = option(&["--rate-limiting"])?;
                let per_second = each * threads * number(&["-c", "--clients"], MEMTIER.0);
                Some(Self { per_second, threads: Some(threads) })
            }
            "oha" => Some(Self { per_second: option(&["-q", "--query-per-second"])?, threads: None }),
            "hey" => {
                Some(Self { per_second: option(&["-q"])? * number(&["-c"], HEY_CONNECTIONS), threads: None })
            }
            _ => None,
        }
        .filter(|rate| rate.per_second > 0.0)
    }

    /// Whether the client has sent fewer requests per second than planned.
    pub(crate) fn is_missed(&self, per_second: f64) -> bool {
        per_second < REACHED * self.per_second
    }

    /// Whether the client could not send more with this CPU time per time, on so many CPUs.
    pub(crate) fn is_busy(&self, used: f64, cpus: usize, limit: f64) -> bool {
        used > limit * self.threads.unwrap_or(f64::INFINITY).min(cpus as f64)
    }
}

/// Returns the number of an option, which may follow it as a word of its own, directly, or behind `=`.
fn value(words: &[String], option: &str) -> Option<f64> {
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix(option) else { continue };
        let is_long = option.starts_with("--");
        match rest.strip_prefix('=') {
            Some(number) if is_long => return parse(number),
            None if rest.is_empty() => return parse(words.next()?),
            // Not a longer option, such as -cpus of hey for -c.
            None if !is_long => {
                if let Some(number) = parse(rest) {
                    return Some(number);
                }
            }
            _ => {}
        }
    }
    None
}

/// Parses a number with a suffix for thousands or millions, as wrk2 takes it.
fn parse(text: &str) -> Option<f64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1e3),
        b'm' | b'M' => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    Some(number.parse::<f64>().ok().filter(|number| number.is_finite())? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(command: &str) -> Option<(f64, Option<f64>)> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        ClientRate::of(&words[0], &words).map(|rate| (rate.per_second, rate.threads))
    }

    #[test]
    fn rates_are_options_of_clients() {
        assert_eq!(rate("wrk2 -t1 -c8 -R500 --latency http://h/"), Some((500.0, Some(1.0))));
        assert_eq!(rate("wrk2 --rate=2k http://h/"), Some((2000.0, Some(2.0))));
        assert_eq!(rate("memtier --rate-limiting=10 -c 4 -t 2"), Some((80.0, Some(2.0))));
        assert_eq!(rate("memtier --rate-limiting 10"), Some((2000.0, Some(4.0))));
        assert_eq!(rate("oha -q 300 http://h/"), Some((300.0, None)));
        assert_eq!(rate("hey -q 3 -c 10 http://h/"), Some((30.0, None)));
        assert_eq!(rate("hey -cpus 2 -q 10 -c 200 http://h/"), Some((2000.0, None)));
        for closed in [
            "wrk2 http://h/",
            "wrk -R500 http://h/",
            "redis-benchmark -c 40",
            "oha -q",
            "wrk2 -Rnan http://h/",
        ] {
            assert_eq!(rate(closed), None, "{closed}");
        }
    }

    #[test]
    fn a_missed_rate_is_that_of_a_busy_client_or_of_the_server() {
        let rate = ClientRate { per_second: 1000.0, threads: Some(2.0) };
        assert!(rate.is_missed(899.0) && !rate.is_missed(901.0));
        assert!(rate.is_busy(1.95, 8, 0.95) && !rate.is_busy(1.8, 8, 0.95));
        assert!(rate.is_busy(0.96, 1, 0.95));
    }
}
