//! A machine's files in one text file, which can be read and compared line by line.
//!
//! ```text
//! # manycore/capture/1
//! etc/os-release :
//!     NAME="Debian GNU/Linux"
//!     VERSION_ID="12"
//! sys/bus/pci/devices/0000:00:02.0/driver -> ../../../bus/pci/drivers/virtio-pci
//! sys/devices/system/cpu/cpu2/
//! sys/devices/system/cpu/online = 0-1
//! ```
//!
//! A file with one line is written after ` = `. A file with several lines is written after ` :`, with every
//! line indented by one tab. The target of a symbolic link is written after ` -> `. A folder without other
//! entries ends in `/`. Paths have no leading slash; white space, `%` and control characters in them are
//! written as `%20`. A file that is no text has the hexadecimal digits of its bytes. Empty lines and lines that
//! begin with `#` are skipped.

use std::{collections::BTreeMap, fmt};

/// First line of every capture that this version writes.
pub const CAPTURE_SCHEMA: &str = "# manycore/capture/1";

/// The entry at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A regular file, without trailing white space.
    File(String),
    /// A symbolic link and its target.
    Link(String),
    /// A folder that exists, whatever entries are known in it.
    Folder,
}

/// Files, links and folders by path, without a leading slash. Paths of folders end in a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    entries: BTreeMap<String, Entry>,
}

/// Reason why a text is not a capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
#[non_exhaustive]
pub struct CaptureError {
    /// Line number, from 1.
    pub line: usize,
    /// What was found and what was expected.
    pub problem: String,
}

impl Capture {
    /// Adds a file. Trailing white space and NUL bytes, which have no meaning in sysfs, are dropped.
    pub fn add_file(&mut self, path: &str, text: &str) {
        let text = text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0');
        self.entries.insert(path.to_owned(), Entry::File(text.to_owned()));
    }

    /// Adds a symbolic link.
    pub fn add_link(&mut self, path: &str, target: &str) {
        self.entries.insert(path.to_owned(), Entry::Link(target.to_owned()));
    }

    /// Adds a folder.
    pub fn add_folder(&mut self, path: &str) {
        self.entries.insert(format!("{path}/"), Entry::Folder);
    }

    /// Removes the entries at and below `path`.
    pub fn remove(&mut self, path: &str) {
        let below = format!("{path}/");
        self.entries.retain(|key, _| key != path && !key.starts_with(&below));
    }

    /// Returns all entries, ordered by path.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Returns the text of a file.
    pub fn file(&self, path: &str) -> Option<&str> {
        match self.entries.get(path)? {
            Entry::File(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the target of a symbolic link.
    pub fn link(&self, path: &str) -> Option<&str> {
        match self.entries.get(path)? {
            Entry::Link(target) => Some(target),
            _ => None,
        }
    }

    /// Returns whether a folder exists.
    pub fn has_folder(&self, folder: &str) -> bool {
        let prefix = format!("{folder}/");
        self.entries.range(prefix.clone()..).next().is_some_and(|(key, _)| key.starts_with(&prefix))
    }

    /// Returns the names in a folder (in the root if empty), ascending. Skips deeper entries, so it costs
    /// one look-up per name.
    pub fn list(&self, folder: &str) -> Vec<String> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut names: Vec<String> = Vec::new();
        let mut from = prefix.clone();
        while let Some((key, _)) = self.entries.range(from.clone()..).next() {
            let Some(rest) = key.strip_prefix(&prefix) else { break };
            let name = rest.split('/').next().unwrap_or(rest);
            if !name.is_empty() && names.last().is_none_or(|last| last != name) {
                names.push(name.to_owned());
            }
            // '0' follows '/': this is the first key that is neither this name nor below it. A key that
            // ends here may still be followed by names that sort before its '/'.
            from = if rest.len() == name.len() || name.is_empty() {
                format!("{key}\0")
            } else {
                format!("{prefix}{name}0")
            };
        }
        names.dedup();
        names
    }

    /// Parses a capture.
    ///
    /// # Errors
    /// The first line is not [`CAPTURE_SCHEMA`], or a line is none of the four kinds.
    pub fn parse(text: &str) -> Result<Self, CaptureError> {
        let mut lines = text.split('\n').enumerate().map(|(index, line)| (index + 1, line)).peekable();
        let first = lines.next().map_or("", |(_, line)| line.trim_end());
        if first != CAPTURE_SCHEMA {
            let problem = match first.strip_prefix("# manycore/capture/") {
                Some(version) => {
                    format!("capture version {version} is newer than this program, which reads 1")
                }
                None => format!("expected '{CAPTURE_SCHEMA}', the first line of a capture"),
            };
            return Err(CaptureError { line: 1, problem });
        }
        let mut capture = Self::default();
        while let Some((number, line)) = lines.next() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fault = |problem: String| CaptureError { line: number, problem };
            let (path, entry) = match line.split_once(' ') {
                Some((path, "=")) => (path, Entry::File(String::new())),
                Some((path, ":")) => {
                    let mut block = Vec::new();
                    while let Some((_, body)) = lines.next_if(|(_, line)| line.starts_with('\t')) {
                        block.push(&body[1..]);
                    }
                    (path, Entry::File(block.join("\n")))
                }
                Some((path, rest)) => match (rest.strip_prefix("= "), rest.strip_prefix("-> ")) {
                    (Some(value), _) => (path, Entry::File(value.to_owned())),
                    (_, Some(target)) => (path, Entry::Link(target.to_owned())),
                    _ => {
                        return Err(fault(format!(
                            "expected ' = ', ' -> ' or ' :' after the path, found '{}'",
                            shorten(line)
                        )));
                    }
                },
                None if line.ends_with('/') => (line, Entry::Folder),
                None => return Err(fault(format!("expected 'path = value', found '{}'", shorten(line)))),
            };
            let path = unescape(path).ok_or_else(|| fault(format!("'{}' is not a path", shorten(path))))?;
            capture.entries.insert(path, entry);
        }
        Ok(capture)
    }
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{CAPTURE_SCHEMA}")?;
        let mut entries = self.entries.iter().peekable();
        while let Some((path, entry)) = entries.next() {
            let written = escape(path);
            match entry {
                // A folder is implied by its entries, or by a link to it.
                Entry::Folder if self.entries.contains_key(path.trim_end_matches('/')) => {}
                Entry::Folder if entries.peek().is_some_and(|(next, _)| next.starts_with(path.as_str())) => {}
                Entry::Folder => writeln!(f, "{written}")?,
                Entry::Link(target) => writeln!(f, "{written} -> {target}")?,
                Entry::File(text) if text.is_empty() => writeln!(f, "{written} =")?,
                Entry::File(text) if !text.contains('\n') => writeln!(f, "{written} = {text}")?,
                Entry::File(text) => {
                    writeln!(f, "{written} :")?;
                    for line in text.split('\n') {
                        writeln!(f, "\t{line}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Shortens and escapes a line for an error message.
fn shorten(line: &str) -> String {
    line.chars().take(60).flat_map(char::escape_debug).collect()
}

fn escape(path: &str) -> String {
    let mut written = String::with_capacity(path.len());
    for c in path.chars() {
        let first = written.is_empty() && c == '#';
        if c.is_ascii_whitespace() || c.is_ascii_control() || c == '%' || first {
            written.extend(['%', hex(c as u32 >> 4), hex(c as u32 & 15)]);
        } else {
            written.push(c);
        }
    }
    written
}

fn hex(digit: u32) -> char {
    char::from_digit(digit, 16).unwrap_or('0')
}

fn unescape(written: &str) -> Option<String> {
    let mut parts = written.split('%');
    let mut path = parts.next()?.to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        path.push(char::from(u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii)?));
        path.push_str(rest);
    }
    Some(path).filter(|path| !path.is_empty() && !path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_of_entry_comes_back() {
        let mut capture = Capture::default();
        capture.add_file("sys/online", "0-1\n");
        capture.add_file("sys/empty", "\n");
        capture.add_file("etc/os-release", "A=1\n\nB= 2\n");
        capture.add_link("sys/odd name%/driver", "../../drivers/x y");
        capture.add_folder("sys/cpu2");
        let text = capture.to_string();
        assert_eq!(
            text,
            "# manycore/capture/1\netc/os-release :\n\tA=1\n\t\n\tB= 2\nsys/cpu2/\nsys/empty =\n\
             sys/odd%20name%25/driver -> ../../drivers/x y\nsys/online = 0-1\n"
        );
        assert_eq!(Capture::parse(&text).unwrap(), capture);
    }

    #[test]
    fn folders_list_their_names_once() {
        let mut capture = Capture::default();
        for path in ["a/cpu1/x", "a/cpu1/y", "a/cpu1-b", "a/cpu10/x", "a/cpu1", "a/cpu2", "b/c"] {
            capture.add_file(path, "");
        }
        capture.add_folder("a/cpu3");
        assert_eq!(capture.list("a").into_iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
        assert_eq!(capture.list("a/cpu1"), ["x", "y"]);
        assert!(capture.list("a/cpu3").is_empty());
        assert!(capture.list("none").is_empty());
    }

    #[test]
    fn bad_captures_name_the_line() {
        for (text, message) in [
            ("", "line 1: expected '# manycore/capture/1', the first line of a capture"),
            ("# manycore/capture/2\n", "line 1: capture version 2 is newer than this program, which reads 1"),
            ("# manycore/capture/1\n\nfoo\n", "line 3: expected 'path = value', found 'foo'"),
            (
                "# manycore/capture/1\na b\n",
                "line 2: expected ' = ', ' -> ' or ' :' after the path, found 'a b'",
            ),
            ("# manycore/capture/1\n/etc/x = 1\n", "line 2: '/etc/x' is not a path"),
            ("# manycore/capture/1\na%zz = 1\n", "line 2: 'a%zz' is not a path"),
        ] {
            assert_eq!(Capture::parse(text).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(body in "(\\PC|\n|\t| ){0,200}") {
            if let Ok(capture) = Capture::parse(&format!("{CAPTURE_SCHEMA}\n{body}")) {
                let _ = capture.list("a");
                prop_assert!(Capture::parse(&capture.to_string()).is_ok());
            }
        }

        #[test]
        fn capture_and_parse_are_inverse(path in "[a-z% \t:=#>-][a-z/% \t:=#>-]{0,19}[a-z%:]", text in "(\\PC|\n|\t|\r| ){0,80}") {
            let mut capture = Capture::default();
            capture.add_file(&path, &text);
            prop_assert_eq!(Capture::parse(&capture.to_string()).unwrap(), capture);
        }
    }
}
