//! The hidden verb that checks the cookie file of an Erlang node. The guard runs it as the user of the node,
//! without root privileges ([`manycore_guard::deputy`]).

use crate::{
    cli::Cookie,
    failure::{Failure, Outcome},
};
use manycore_guard::beam::{MOST_COOKIE, is_cookie};
use manycore_linux::trusted_file;
use std::{io::Read, path::Path};

/// Checks the cookie.
///
/// # Errors
/// [`Failure::Missing`] if there is no cookie, or if the file is not a short regular file of this user.
pub fn run(args: &Cookie) -> Outcome {
    let path = args.home.join(".erlang.cookie");
    check(&path).map_err(|why| Failure::missing(format!("{}: {why}", path.display())))
}

fn check(path: &Path) -> Result<(), String> {
    let file = trusted_file::open_own(path).map_err(|why| why.to_string())?;
    let mut bytes = Vec::new();
    let most = MOST_COOKIE as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if is_cookie(bytes.trim_ascii()) {
        Ok(())
    } else {
        Err(format!("it is not a cookie: 1 to {MOST_COOKIE} printable characters are expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn a_cookie_that_is_a_link_a_fifo_or_endless_is_refused() {
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
