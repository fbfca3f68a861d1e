//! What is said between us and a runtime: lines of words, with tabs between them, on its standard input and output.
//!
//! ```text
//! it: ready   unit=process  version=...  schedulers=2  binding=unbound  places=262144  taken=43
//! us: start   N  STEP                       STEP: how often to tell how many there are; 0 for never
//! it: alive   N
//! it: started alive=N  seconds=0.31  refused=why
//! us: look
//! it: look    own=BYTES                     what it says that it uses
//! us: spin    MILLISECONDS  INTERVAL
//! it: spinning                              all have been told to
//! it: spun    queued=9,8,7  schedulers=0.99,0.98
//! us: io      MILLISECONDS  BYTES  FOLDER
//! it: working
//! it: done    seconds=..  operations=..  failed=..  why=..  latency=INDEX:COUNT,...
//! us: end
//! it: gone
//! ```
//!
//! What is not known is left out. At the end of its input a runtime ends at once, so that it cannot outlive us.

use std::{collections::BTreeMap, str::FromStr};

/// A line of a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its first word.
    pub what: String,
    /// Words after it without a name.
    plain: Vec<String>,
    /// Words with a name.
    named: BTreeMap<String, String>,
}

impl Line {
    /// Takes a line apart.
    pub fn parse(text: &str) -> Self {
        let mut words = text.trim_end_matches(['\n', '\r']).split('\t');
        let mut line = Self { what: words.next().unwrap_or_default().to_owned(), ..Self::default() };
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => drop(line.named.insert(name.to_owned(), value.to_owned())),
                None => line.plain.push(word.to_owned()),
            }
        }
        line
    }

    /// The value of a name; absent where it is empty, too.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The number of a name.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// The first number without a name.
    pub fn first(&self) -> Option<u64> {
        self.plain.first()?.parse().ok()
    }

    /// Numbers of a name with commas between them; what is none ends them.
    pub fn numbers<T: FromStr>(&self, name: &str) -> Vec<T> {
        let words = self.text(name).unwrap_or_default().split(',');
        words.map_while(|word| word.parse().ok()).collect()
    }

    /// Pairs `INDEX:COUNT` of a name.
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
    fn lines_are_taken_apart() {
        let line = Line::parse("ready\tunit=process\tversion=Erlang/OTP 25 (ERTS 13.1.5)\tschedulers=2\n");
        assert_eq!((line.what.as_str(), line.text("unit")), ("ready", Some("process")));
        assert_eq!(line.text("version"), Some("Erlang/OTP 25 (ERTS 13.1.5)"));
        assert_eq!(line.number::<usize>("schedulers"), Some(2));
        assert_eq!((line.text("binding"), line.first()), (None, None));
        assert_eq!(Line::parse("alive\t4096").first(), Some(4096));
        let line = Line::parse("done\tlatency=1:2,3:4\tqueued=\twhy=");
        assert_eq!(line.pairs("latency"), [(1, 2), (3, 4)]);
        assert_eq!((line.numbers::<u64>("queued"), line.text("why")), (vec![], None));
    }
}
