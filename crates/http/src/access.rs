//! Who may read.

use crate::Error;
use hyper::{
    HeaderMap, Uri,
    header::{AUTHORIZATION, HOST},
};
use std::{
    fmt,
    fs::File,
    hint::black_box,
    io::{self, Read},
    net::IpAddr,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Lengths of a token in bytes.
const SHORTEST: usize = 16;
const LONGEST: usize = 256;

/// A secret that a client must send. Its text is in no message and no `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Token")
    }
}

impl Token {
    /// Takes a token of 16 to 256 characters that need no escape in an address: letters, digits, `-`, `.`, `_` and `~`.
    ///
    /// # Errors
    /// [`Error::InvalidToken`].
    pub fn new(text: &str) -> Result<Self, Error> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let fits = (SHORTEST..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain);
        if fits { Ok(Self(text.to_owned())) } else { Err(Error::InvalidToken) }
    }

    /// Reads a token from a file that only its owner and group can read. Blanks around the token are ignored.
    ///
    /// # Errors
    /// [`Error::UnreadableToken`], [`Error::ExposedToken`], [`Error::InvalidToken`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let unreadable = |error| Error::UnreadableToken(path.to_owned(), error);
        let file = File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(unreadable(io::Error::other("not a regular file")));
        }
        if about.mode() & 0o006 != 0 {
            return Err(Error::ExposedToken(path.to_owned()));
        }
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).map_err(unreadable)?;
        Self::new(text.trim())
    }

    /// Compares in a time that depends on the length of `sent` only.
    fn is(&self, sent: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differs = sent.iter().enumerate().fold(own.len() ^ sent.len(), |differs, (at, byte)| {
            black_box(differs | usize::from(own[at % own.len()] ^ byte))
        });
        black_box(differs) == 0
    }
}

/// Who may read the site.
#[derive(Clone, Debug, Default)]
pub enum Access {
    /// Every client that can connect to the address.
    Open,
    /// Clients of this host. The server starts only on a loopback address. A request must name this host in `Host`:
    /// otherwise a web page could have the name of its own server changed to this address, and read the site through the
    /// browser of a user (DNS rebinding).
    #[default]
    Local,
    /// Clients that send the token, as `Authorization: Bearer TOKEN` or as `?token=TOKEN`.
    Token(Token),
}

/// What a request lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Token,
    LocalHost,
}

impl Access {
    /// Returns what a request lacks; `None` if it may read.
    pub(crate) fn lack(&self, headers: &HeaderMap, uri: &Uri) -> Option<Lack> {
        match self {
            Self::Open => None,
            Self::Local => {
                let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or(uri.host());
                (!host.is_some_and(is_this_host)).then_some(Lack::LocalHost)
            }
            Self::Token(token) => {
                let header = headers.get(AUTHORIZATION).and_then(|sent| bearer(sent.as_bytes()));
                let query = uri.query().into_iter().flat_map(|query| query.split('&'));
                let query = query.filter_map(|pair| pair.strip_prefix("token=")).map(str::as_bytes).next();
                (!header.or(query).is_some_and(|sent| token.is(sent))).then_some(Lack::Token)
            }
        }
    }
}

/// Returns what follows `Bearer `, the scheme in any case (RFC 9110, 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest.trim_ascii())
}

/// Whether the value of `Host` is an address of the loopback device or `localhost`, with or without port.
fn is_this_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    const SECRET: &str = "0123456789abcdef-._~";

    fn lack(access: &Access, uri: &str, header: Option<(hyper::header::HeaderName, &str)>) -> Option<Lack> {
        let headers = header.map(|(name, value)| (name, value.parse().unwrap())).into_iter().collect();
        access.lack(&headers, &uri.parse().unwrap())
    }

    #[test]
    fn a_token_is_accepted_in_the_header_or_in_the_address() {
        let access = Access::Token(Token::new(SECRET).unwrap());
        let with = |value: &str| lack(&access, "/", Some((AUTHORIZATION, value)));
        assert_eq!(with(&format!("Bearer {SECRET}")), None);
        assert_eq!(with(&format!("bearer  {SECRET}")), None);
        assert_eq!(lack(&access, &format!("/x?a=1&token={SECRET}"), None), None);
        for wrong in ["Bearer", "Bearer ", SECRET, "Basic x", &format!("Bearer {SECRET}0")] {
            assert_eq!(with(wrong), Some(Lack::Token), "{wrong}");
        }
        for wrong in ["/", "/?token=", "/?token=0123456789abcdef-._", "/?xtoken=0123456789abcdef-._~"] {
            assert_eq!(lack(&access, wrong, None), Some(Lack::Token), "{wrong}");
        }
    }

    #[test]
    fn names_of_other_hosts_are_refused_without_a_token() {
        let with = |host: &str| lack(&Access::Local, "/", Some((HOST, host)));
        for own in ["localhost", "LOCALHOST:9", "127.0.0.1", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]"]
        {
            assert_eq!(with(own), None, "{own}");
        }
        for other in
            ["evil.example", "evil.example:80", "10.0.0.1", "localhost.evil.example", "", "[::2]", "["]
        {
            assert_eq!(with(other), Some(Lack::LocalHost), "{other}");
        }
        assert_eq!(lack(&Access::Local, "/", None), Some(Lack::LocalHost));
    }

    #[test]
    fn a_token_is_read_from_a_file_that_others_cannot_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mode = |mode| fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        fs::write(file.path(), format!("  {SECRET}\n")).unwrap();
        mode(0o640);
        assert_eq!(Token::read(file.path()).unwrap(), Token::new(SECRET).unwrap());
        mode(0o644);
        assert!(matches!(Token::read(file.path()), Err(Error::ExposedToken(_))));
        mode(0o600);
        fs::write(file.path(), "short").unwrap();
        assert!(matches!(Token::read(file.path()), Err(Error::InvalidToken)));
        assert!(matches!(Token::read(Path::new("/nonexistent")), Err(Error::UnreadableToken(..))));
        assert!(matches!(Token::read(Path::new("/")), Err(Error::UnreadableToken(..))));
        for wrong in ["", "0123456789abcde", "0123456789abcdef ", "0123456789abcdef&", &"x".repeat(257)] {
            assert!(Token::new(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{:?}", Token::new(SECRET).unwrap()), "Token");
    }

    proptest! {
        #[test]
        fn only_the_same_bytes_are_the_token(sent in prop::collection::vec(any::<u8>(), 0..60), at in 0..20_usize) {
            let token = Token::new(SECRET).unwrap();
            prop_assert_eq!(token.is(&sent), sent == SECRET.as_bytes());
            let mut near = SECRET.as_bytes().to_vec();
            prop_assert!(token.is(&near));
            near[at] ^= 1;
            prop_assert!(!token.is(&near));
        }
    }
}
