//! What can go wrong before the server answers.

use std::{io, net::SocketAddr, path::PathBuf};

/// Why a server was not started or a token was not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that other hosts can reach, without a token.
    #[error("other hosts can reach {0}: a token is needed there, or use 127.0.0.1")]
    NeedsToken(SocketAddr),
    /// A token that is too short, too long, or has other characters.
    #[error("a token has 16 to 256 letters, digits or -._~, for example the output of openssl rand -hex 16")]
    InvalidToken,
    /// A token that other users can read.
    #[error("other users can read the token in {}: chmod 600 it", .0.display())]
    ExposedToken(PathBuf),
    /// A file of a token that cannot be read.
    #[error("cannot read the token in {}: {}", .0.display(), .1)]
    UnreadableToken(PathBuf, #[source] io::Error),
    /// The thread or its asynchronous runtime cannot be created.
    #[error("cannot start the server: {0}")]
    Start(#[from] io::Error),
}
