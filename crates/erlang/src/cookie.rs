//! Checks the cookie file of an Erlang node. The guard does this in a helper process that runs as the user of
//! the node, without root privileges ([`manycore_linux::helper_process`]).

use crate::error::{Error, Result};
use manycore_linux::trusted_file;
use std::{io::Read, path::Path};

/// Longest cookie: the length of an atom.
pub(crate) const MAX_COOKIE: usize = 255;

/// Whether these bytes may be a cookie.
pub(crate) fn is_cookie(bytes: &[u8]) -> bool {
    (1..=MAX_COOKIE).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

/// Checks that a home directory has a cookie of this user.
///
/// # Errors
/// [`Error::UntrustedCookie`] if there is no cookie, or if the file is not a short regular file of this user.
pub fn check_cookie(home: &Path) -> Result {
    let path = home.join(".erlang.cookie");
    check(&path).map_err(|why| Error::UntrustedCookie(format!("{}: {why}", path.display())))
}

fn check(path: &Path) -> Result<(), String> {
    let file = trusted_file::open_own(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let most = MAX_COOKIE as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if is_cookie(bytes.trim_ascii()) {
        Ok(())
    } else {
        Err(format!("not a cookie: 1 to {MAX_COOKIE} printable characters are expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn cookie_must_be_a_short_regular_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".erlang.cookie");
        let put = |what: &dyn Fn()| {
            let _ = fs::remove_file(&path);
            what();
            check(&path)
        };
        assert_eq!(put(&|| fs::write(&path, "ABC\n").unwrap()), Ok(()));
        assert!(put(&|| symlink("/dev/zero", &path).unwrap()).unwrap_err().contains("link"));
        assert!(put(&|| fs::write(&path, "A".repeat(256)).unwrap()).unwrap_err().contains("not a cookie"));
        assert!(put(&|| fs::write(&path, "A B").unwrap()).unwrap_err().contains("not a cookie"));
        assert!(put(&|| fs::create_dir(&path).unwrap()).unwrap_err().contains("not a regular file"));
        fs::remove_dir(&path).unwrap();
        let fifo = || assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(put(&fifo).unwrap_err().contains("not a regular file"));
    }
}
