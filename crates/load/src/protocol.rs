//! Replies as bytes: where they end, and whether they are errors.

/// Longest line of a redis reply, and head of an HTTP reply, in bytes.
const LONGEST_LINE: usize = 64 << 10;
/// Deepest nesting of arrays in a redis reply.
const DEEPEST: usize = 8;
/// Most bytes of a reply.
const MOST_BYTES: usize = 64 << 20;
/// Fields of the head of an HTTP reply.
const FIELDS: usize = 100;

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Protocol {
    Redis,
    Http,
}

/// A complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Its length in bytes.
    pub(crate) length: usize,
    /// Whether the server could not serve the request.
    pub(crate) is_error: bool,
    /// Whether the server closes the connection after it.
    pub(crate) closes: bool,
}

/// The bytes are no reply of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Protocol {
    /// Finds the reply at the begin of `bytes`; `None` if it is not complete. `at_end`: the server has closed the connection, so
    /// that nothing follows.
    pub(crate) fn reply(self, bytes: &[u8], at_end: bool) -> Result<Option<Reply>, Malformed> {
        let reply = match self {
            Self::Redis => {
                let length = redis(bytes, DEEPEST)?;
                length.map(|length| Reply { length, is_error: bytes[0] == b'-', closes: false })
            }
            Self::Http => http(bytes, at_end)?,
        };
        match reply {
            None if bytes.len() > MOST_BYTES => Err(Malformed),
            reply => Ok(reply),
        }
    }
}

/// Returns the length of the redis reply at the begin of `bytes`.
fn redis(bytes: &[u8], depth: usize) -> Result<Option<usize>, Malformed> {
    let Some(&kind) = bytes.first() else { return Ok(None) };
    let Some((line, mut length)) = line(&bytes[1..])? else { return Ok(None) };
    length += 1;
    let number = || std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok()).ok_or(Malformed);
    match kind {
        b'+' | b'-' | b':' => Ok(Some(length)),
        b'$' => {
            let size = number()?;
            // -1 stands for nothing.
            let Ok(size) = usize::try_from(size) else { return Ok(Some(length)) };
            let end = length.checked_add(size).and_then(|end| end.checked_add(2)).ok_or(Malformed)?;
            Ok((bytes.len() >= end).then_some(end))
        }
        b'*' if depth > 0 => {
            for _ in 0..number()? {
                match redis(&bytes[length..], depth - 1)? {
                    Some(more) => length += more,
                    None => return Ok(None),
                }
            }
            Ok(Some(length))
        }
        _ => Err(Malformed),
    }
}

/// Returns the line at the begin of `bytes` without its end, and its length with the end.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let end = bytes.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n');
    match end {
        Some(end) if end > 0 && bytes[end - 1] == b'\r' => Ok(Some((&bytes[..end - 1], end + 1))),
        Some(_) => Err(Malformed),
        None if bytes.len() >= LONGEST_LINE => Err(Malformed),
        None => Ok(None),
    }
}

/// Finds the HTTP reply at the begin of `bytes`, with the interim replies before it (RFC 9110, section 15.2).
fn http(bytes: &[u8], at_end: bool) -> Result<Option<Reply>, Malformed> {
    let mut interim = 0;
    loop {
        let Some((head, reply)) = http_reply(&bytes[interim..], at_end)? else { return Ok(None) };
        let Some(reply) = reply else {
            interim += head;
            continue;
        };
        return Ok(Some(Reply { length: interim + reply.length, ..reply }));
    }
}

/// Returns the length of the head at the begin of `bytes`, and the reply; no reply if it is an interim one. `None` if it is not
/// complete.
fn http_reply(bytes: &[u8], at_end: bool) -> Result<Option<(usize, Option<Reply>)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let begin = match head.parse(bytes).map_err(|_| Malformed)? {
        httparse::Status::Complete(begin) => begin,
        httparse::Status::Partial if bytes.len() >= LONGEST_LINE => return Err(Malformed),
        httparse::Status::Partial => return Ok(None),
    };
    let value = |name: &str| {
        let field = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| std::str::from_utf8(field.value).unwrap_or("").trim())
    };
    let code = head.code.ok_or(Malformed)?;
    match code {
        // The connection would speak another protocol from here on, which was not requested.
        101 => return Err(Malformed),
        100..200 => return Ok(Some((begin, None))),
        _ => {}
    }
    let is =
        |value: Option<&str>, wanted: &str| value.is_some_and(|value| value.eq_ignore_ascii_case(wanted));
    let codings = value("transfer-encoding");
    let last_coding = codings.and_then(|codings| codings.rsplit(',').next()).map(str::trim);
    let mut ends_with_connection = false;
    let length = if code == 204 || code == 304 {
        Some(begin)
    } else if is(last_coding, "chunked") {
        chunks(&bytes[begin..])?.map(|length| begin + length)
    } else if let Some(size) = value("content-length").filter(|_| codings.is_none()) {
        let size: usize = size.parse().map_err(|_| Malformed)?;
        let end = begin.checked_add(size).ok_or(Malformed)?;
        (bytes.len() >= end).then_some(end)
    } else {
        ends_with_connection = true;
        at_end.then_some(bytes.len())
    };
    // Servers of HTTP/1.0 close unless they say otherwise.
    let field = value("connection");
    let closes =
        ends_with_connection || is(field, "close") || (head.version == Some(0) && !is(field, "keep-alive"));
    Ok(length.map(|length| (begin, Some(Reply { length, is_error: code >= 400, closes }))))
}

/// Returns the length of a body in chunks.
fn chunks(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    loop {
        let (begin, size) = match httparse::parse_chunk_size(&bytes[at..]).map_err(|_| Malformed)? {
            httparse::Status::Complete((begin, size)) => {
                (begin, usize::try_from(size).map_err(|_| Malformed)?)
            }
            httparse::Status::Partial => return Ok(None),
        };
        if size == 0 {
            return trailer(bytes, at + begin);
        }
        at = at.checked_add(begin).and_then(|at| at.checked_add(size)?.checked_add(2)).ok_or(Malformed)?;
        if at > bytes.len() {
            return Ok(None);
        }
    }
}

/// Returns the end of the fields behind the last chunk, which end with an empty line.
fn trailer(bytes: &[u8], mut at: usize) -> Result<Option<usize>, Malformed> {
    loop {
        let Some((field, length)) = line(&bytes[at..])? else { return Ok(None) };
        at += length;
        if field.is_empty() {
            return Ok(Some(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reply(length: usize, is_error: bool, closes: bool) -> Reply {
        Reply { length, is_error, closes }
    }

    const REDIS: [(&str, bool); 8] = [
        ("+PONG\r\n", false),
        ("-ERR unknown command\r\n", true),
        (":1000\r\n", false),
        ("$-1\r\n", false),
        ("$0\r\n\r\n", false),
        ("$5\r\na\r\nbc\r\n", false),
        ("*2\r\n$1\r\na\r\n*1\r\n:7\r\n", false),
        ("*-1\r\n", false),
    ];

    const HTTP: [(&str, bool, bool); 9] = [
        (
            "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            false,
            false,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nzz\r\n0\r\n\r\n", false, false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false, true),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", false, false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, false),
        ("HTTP/1.1 204 No Content\r\n\r\n", false, false),
        ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nConnection: Close\r\n\r\n", true, true),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n",
            false,
            false,
        ),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nEnd: 1\r\n\r\n", false, false),
    ];

    /// Checks that a reply is found in each text with more behind it, and in no part of it.
    fn found(protocol: Protocol, text: &str, wanted: Reply) {
        let more = format!("{text}{text}");
        for at_end in [false, true] {
            assert_eq!(protocol.reply(more.as_bytes(), at_end), Ok(Some(wanted)), "{text:?}");
            for end in 0..text.len() {
                assert_eq!(protocol.reply(&text.as_bytes()[..end], at_end), Ok(None), "{:?}", &text[..end]);
            }
        }
    }

    #[test]
    fn replies_are_found_when_they_are_complete() {
        for (text, is_error) in REDIS {
            found(Protocol::Redis, text, reply(text.len(), is_error, false));
        }
        for (text, is_error, closes) in HTTP {
            found(Protocol::Http, text, reply(text.len(), is_error, closes));
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for text in
            ["hello\r\n", "$x\r\n", "+no carriage return\n", "*1\r\n?\r\n", "$99999999999999999999\r\n"]
        {
            assert_eq!(Protocol::Redis.reply(text.as_bytes(), false), Err(Malformed), "{text:?}");
        }
        let nested = "*1\r\n".repeat(20) + ":1\r\n";
        assert_eq!(Protocol::Redis.reply(nested.as_bytes(), false), Err(Malformed));
        let endless = "+".to_owned() + &"x".repeat(LONGEST_LINE + 1);
        assert_eq!(Protocol::Redis.reply(endless.as_bytes(), false), Err(Malformed));
        for text in [
            "+PONG\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            for at_end in [false, true] {
                assert_eq!(Protocol::Http.reply(text.as_bytes(), at_end), Err(Malformed), "{text:?}");
            }
        }
        let mut endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        endless.resize(MOST_BYTES + 1, b'x');
        assert_eq!(Protocol::Http.reply(&endless, false), Err(Malformed));
    }

    /// Regression test: such a reply was no valid one.
    #[test]
    fn a_reply_without_a_length_ends_with_the_connection() {
        for (text, is_error) in [
            ("HTTP/1.0 200 OK\r\nServer: php\r\n\r\nhello", false),
            ("HTTP/1.1 500 Oops\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nzz", false),
        ] {
            assert_eq!(Protocol::Http.reply(text.as_bytes(), false), Ok(None), "{text:?}");
            let whole = Protocol::Http.reply(text.as_bytes(), true);
            assert_eq!(whole, Ok(Some(reply(text.len(), is_error, true))), "{text:?}");
        }
        assert_eq!(Protocol::Http.reply(b"", true), Ok(None));
    }

    proptest! {
        /// No bytes of a server make it panic, or find a reply beyond what there is.
        #[test]
        fn any_bytes_are_taken(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            redis: bool,
            at_end: bool,
        ) {
            let protocol = if redis { Protocol::Redis } else { Protocol::Http };
            if let Ok(Some(reply)) = protocol.reply(&bytes, at_end) {
                prop_assert!(reply.length <= bytes.len());
            }
        }

        /// The same for bytes that look like replies.
        #[test]
        fn damaged_replies_are_taken(which in 0usize..17, at in 0usize..80, byte: u8, at_end: bool) {
            let (protocol, text) = match which {
                0..8 => (Protocol::Redis, REDIS[which].0),
                _ => (Protocol::Http, HTTP[which - 8].0),
            };
            let mut bytes = text.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(Some(reply)) = protocol.reply(&bytes, at_end) {
                prop_assert!(reply.length <= bytes.len());
            }
        }
    }
}
