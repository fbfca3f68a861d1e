//! Wildcard patterns for names. Matching does not allocate, because the guard matches names before a kill.

use std::fmt;

/// A pattern in which `*` stands for any number of characters and `?` for exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Returns the pattern for this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether the pattern matches the whole of `name`. Bytes are compared; matching is case-sensitive.
    pub fn matches(&self, name: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut at, mut in_name) = (0, 0);
        // Position of the last star, and the length of the name up to the end of what it matches.
        let mut star: Option<(usize, usize)> = None;
        while in_name < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, in_name));
                    at += 1;
                }
                Some(&byte) if byte == b'?' || byte == name[in_name] => {
                    at += 1;
                    in_name += 1;
                }
                _ => match star {
                    Some((place, taken)) => {
                        star = Some((place, taken + 1));
                        at = place + 1;
                        in_name = taken + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|&byte| byte == b'*')
    }

    /// Whether the pattern matches the path of a control group or of one of its ancestors: `/a.slice` covers
    /// `/a.slice/b.service`.
    pub fn covers(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let ends = path.bytes().enumerate().skip(1).filter(|&(_, byte)| byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| self.matches(&path.as_bytes()[..end]))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).matches(name.as_bytes())
    }

    #[test]
    fn star_and_question_mark_are_wildcards() {
        assert!(matches("sshd", "sshd") && !matches("sshd", "sshd2") && !matches("sshd", "ssh"));
        assert!(
            matches("postgres*", "postgres") && matches("*gres", "postgres") && matches("p*g*s", "postgres")
        );
        assert!(matches("beam?smp", "beam.smp") && !matches("beam?smp", "beamsmp"));
        assert!(
            matches("*", "")
                && matches("**", "x")
                && !matches("?", "")
                && !matches("", "x")
                && matches("", "")
        );
        assert!(matches("*ab", "aab") && matches("a*b*c", "aXbXbc") && !matches("a*b*c", "aXbXb"));
    }

    #[test]
    fn pattern_covers_groups_below() {
        let covers = |pattern: &str, path: &str| Pattern::new(pattern).covers(path);
        assert!(covers("/a.slice", "/a.slice") && covers("/a.slice", "/a.slice/b.service"));
        assert!(!covers("/a.slice", "/a.slices") && !covers("/a.slice", "/") && !covers("/b", "/a/b"));
        assert!(covers("/user.slice/*/db", "/user.slice/u/v/db/x") && covers("*", "/"));
    }

    proptest! {
        #[test]
        fn name_matches_itself_and_with_any_part_replaced(name in "[a-z]{1,12}", from in 0usize..12, to in 0usize..12) {
            let (from, to) = (from.min(name.len()), to.min(name.len()));
            let (from, to) = (from.min(to), from.max(to));
            prop_assert!(matches(&name, &name));
            let cut = format!("{}*{}", &name[..from], &name[to..]);
            prop_assert!(matches(&cut, &name));
        }
    }
}
