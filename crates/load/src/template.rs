//! Requests as bytes.

use crate::{Error, Result, protocol::Protocol};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// What stands for a random number in a request.
const PLACEHOLDER: &str = "{random}";
/// Digits of a random number, so that all requests are of the same length.
const DIGITS: usize = 12;

/// A request in which `{random}` stands for a random number of 12 digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// What is before, between and behind the random numbers.
    parts: Vec<Vec<u8>>,
    numbers: u64,
    pub(crate) protocol: Protocol,
}

impl Template {
    /// Returns a redis command, given by its words. Random numbers are below `numbers`.
    ///
    /// # Errors
    /// [`Error::Request`] if there are no words, or `numbers` is 0.
    pub fn redis(words: &[&str], numbers: u64) -> Result<Self> {
        if words.is_empty() {
            return Err(Error::Request("the redis command is empty".to_owned()));
        }
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            let length = word.replace(PLACEHOLDER, &"0".repeat(DIGITS)).len();
            text.push_str(&format!("${length}\r\n{word}\r\n"));
        }
        Self::new(&text, numbers, Protocol::Redis)
    }

    /// Returns a GET request of HTTP/1.1 for a path, which begins with `/`, of a host.
    ///
    /// # Errors
    /// [`Error::Request`] if the path does not begin with `/`, it or the host has spaces or control characters, or
    /// `numbers` is 0.
    pub fn http(host: &str, path: &str, numbers: u64) -> Result<Self> {
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !path.starts_with('/') || !is_word(path) || !is_word(host) {
            return Err(Error::Request(format!(
                "{path:?} on {host:?} cannot be requested by HTTP: a path begins with /, and neither has spaces"
            )));
        }
        let text =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: manycore\r\nAccept: */*\r\n\r\n");
        Self::new(&text, numbers, Protocol::Http)
    }

    fn new(text: &str, numbers: u64, protocol: Protocol) -> Result<Self> {
        if numbers == 0 {
            return Err(Error::Request("there are no random numbers below 0".to_owned()));
        }
        let parts = text.split(PLACEHOLDER).map(|part| part.as_bytes().to_vec()).collect();
        Ok(Self { parts, numbers, protocol })
    }

    /// Adds a request with random numbers from `random`.
    pub(crate) fn write(&self, mut random: impl FnMut(u64) -> u64, to: &mut Vec<u8>) {
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                let number = random(self.numbers) % 10u64.pow(DIGITS as u32);
                // Writing to a vector cannot fail.
                let _written = write!(to, "{number:0DIGITS$}");
            }
            to.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &Template, number: u64) -> String {
        let mut bytes = Vec::new();
        template.write(|below| number.min(below - 1), &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_redis_command_has_the_lengths_of_its_words() {
        let template = Template::redis(&["SET", "key:{random}", "x{random}{random}"], 1000).unwrap();
        let number = "000000000042";
        let wanted = format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{number}\r\n$25\r\nx{number}{number}\r\n");
        assert_eq!(text(&template, 42), wanted);
        assert!(text(&template, 5000).contains("key:000000000999"));
    }

    #[test]
    fn an_http_request_has_a_host_and_ends_with_an_empty_line() {
        let template = Template::http("example.org", "/item/{random}", 10).unwrap();
        let said = text(&template, 7);
        assert!(said.starts_with("GET /item/000000000007 HTTP/1.1\r\nHost: example.org\r\n"), "{said}");
        assert!(said.ends_with("\r\n\r\n"));
    }

    #[test]
    fn invalid_requests_are_refused() {
        assert!(Template::redis(&[], 1).is_err() && Template::redis(&["PING"], 0).is_err());
        for (host, path) in
            [("h", "no-slash"), ("h", "/a b"), ("h\r\nX: y", "/"), ("h", "/\u{e9}"), ("", "/")]
        {
            assert!(Template::http(host, path, 1).is_err(), "{host} {path}");
        }
    }
}
