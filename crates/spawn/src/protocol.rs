//! The messages between this program and a runtime: lines of tab-separated words on the runtime's standard input and
//! output.
//!
//! ```text
//! runtime:  ready   unit=process  version=...  schedulers=2  binding=unbound  places=262144  taken=43
//! manycore: start   N  STEP                 STEP: report progress every STEP light processes; 0 for never
//! runtime:  alive   N
//! runtime:  started alive=N  seconds=0.31  refused=why
//! manycore: look
//! runtime:  look    own=BYTES               memory in use by the runtime's own account
//! manycore: spin    MILLISECONDS  INTERVAL
//! runtime:  spinning                        all light processes have been started to compute
//! runtime:  spun    queued=9,8,7  schedulers=0.99,0.98
//! manycore: io      MILLISECONDS  BYTES  FOLDER
//! runtime:  working
//! runtime:  done    seconds=..  operations=..  failed=..  why=..  latency=INDEX:COUNT,...
//! manycore: end
//! runtime:  gone
//! ```
//!
//! Unknown values are left out. A runtime exits as soon as its input ends, so that it cannot outlive this program.

use std::{collections::BTreeMap, str::FromStr};

/// A message of a runtime: one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The first word: the type of the message.
    pub kind: String,
    /// Further words without a name.
    plain: Vec<String>,
    /// Further words of the form `name=value`.
    named: BTreeMap<String, String>,
}

impl Message {
    /// Parses a line.
    pub fn parse(text: &str) -> Self {
        let mut words = text.trim_end_matches(['\n', '\r']).split('\t');
        let mut message = Self { kind: words.next().unwrap_or_default().to_owned(), ..Self::default() };
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => drop(message.named.insert(name.to_owned(), value.to_owned())),
                None => message.plain.push(word.to_owned()),
            }
        }
        message
    }

    /// Returns the value with that name. An empty value counts as absent.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the number with that name.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// Returns the first word without a name, as a number.
    pub fn first(&self) -> Option<u64> {
        self.plain.first()?.parse().ok()
    }

    /// Returns the comma-separated numbers with that name, up to the first word that is not a number.
    pub fn numbers<T: FromStr>(&self, name: &str) -> Vec<T> {
        let words = self.text(name).unwrap_or_default().split(',');
        words.map_while(|word| word.parse().ok()).collect()
    }

    /// Returns the pairs `INDEX:COUNT` with that name.
    pub fn pairs(&self, name: &str) -> Vec<(u32, u64)> {
        let words = self.text(name).unwrap_or_default().split(',');
        let pair = |word: &str| {
            let (index, count) = word.split_once(':')?;
            Some((index.parse().ok()?, count.parse().ok()?))
        };
        words.map_while(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed() {
        let message =
            Message::parse("ready\tunit=process\tversion=Erlang/OTP 25 (ERTS 13.1.5)\tschedulers=2\n");
        assert_eq!((message.kind.as_str(), message.text("unit")), ("ready", Some("process")));
        assert_eq!(message.text("version"), Some("Erlang/OTP 25 (ERTS 13.1.5)"));
        assert_eq!(message.number::<usize>("schedulers"), Some(2));
        assert_eq!((message.text("binding"), message.first()), (None, None));
        assert_eq!(Message::parse("alive\t4096").first(), Some(4096));
        let message = Message::parse("done\tlatency=1:2,3:4\tqueued=\twhy=");
        assert_eq!(message.pairs("latency"), [(1, 2), (3, 4)]);
        assert_eq!((message.numbers::<u64>("queued"), message.text("why")), (vec![], None));
    }
}
