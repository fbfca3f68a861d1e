//! Where the text of a metric is: standard output, standard error, or a file that the run writes.

use crate::metric::{RunOutput, figures::quote};
use rustix::fs::{Mode, OFlags};
use std::{
    borrow::Cow,
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Maximum size of a file with figures, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// File times come from a kernel clock that lags behind by up to a tick.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Minimum age of a file at the start of a run: a file that the run writes is then newer than the one before.
const MIN_AGE: Duration = Duration::from_millis(20);

/// Where the text is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum TextSource {
    #[default]
    Stdout,
    Stderr,
    File(PathBuf),
}

impl TextSource {
    /// Splits the right side of a metric: `stderr:REST`, `file:PATH:REST`, or a rest that reads standard output.
    pub(super) fn split(place: &str) -> Result<(Self, &str), String> {
        if let Some(rest) = place.strip_prefix("stderr:") {
            return Ok((Self::Stderr, rest));
        }
        let Some(named) = place.strip_prefix("file:") else { return Ok((Self::Stdout, place)) };
        match named.split_once(':') {
            Some((path, rest)) if !path.is_empty() => Ok((Self::File(path.into()), rest)),
            _ => Err(format!(
                "{} names no file: write file:PATH:REGEX or file:PATH:json:KEY; PATH has no colon",
                quote(place)
            )),
        }
    }

    /// Returns its name in messages.
    pub(super) fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Stdout => "standard output".into(),
            Self::Stderr => "standard error".into(),
            Self::File(path) => path.display().to_string().into(),
        }
    }

    /// Returns the text of one run.
    pub(super) fn text<'a>(&self, output: &RunOutput<'a>) -> Result<Cow<'a, str>, String> {
        match self {
            Self::Stdout => Ok(output.stdout.into()),
            Self::Stderr => Ok(output.stderr.into()),
            Self::File(path) => read_file(path, output.since).map(Cow::Owned),
        }
    }
}

/// Waits until a file that exists is so old that a run that starts now writes a newer one. Returns at once where there
/// is none.
pub(super) fn wait_until_old(path: &Path) {
    let age = fs::metadata(path).ok().and_then(|file| SystemTime::now().duration_since(changed(&file)?).ok());
    if let Some(left) = age.and_then(|age| MIN_AGE.checked_sub(age)) {
        std::thread::sleep(left);
    }
}

/// Reads a file that a run has written since its start.
fn read_file(path: &Path, since: SystemTime) -> Result<String, String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("cannot read {shown} after the run: {error}");
    // Opening a named pipe must not wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file =
        File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|error| cannot(error.into()))?);
    let found = file.metadata().map_err(cannot)?;
    if !found.is_file() {
        return Err(format!(
            "{shown} is not a regular file: figures are read from a file that each run writes"
        ));
    }
    if changed(&found).is_none_or(|changed| changed + TICK < since) {
        return Err(format!(
            "{shown} is older than the run, which did not write it: its figures belong to an earlier run"
        ));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!(
            "{shown} is larger than {} MiB, the limit for files with metrics",
            MAX_FILE >> 20
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns when the file was last written or renamed. A program can set the time of modification to any value, but not
/// this one.
fn changed(file: &fs::Metadata) -> Option<SystemTime> {
    let since_epoch = Duration::new(file.ctime().try_into().ok()?, file.ctime_nsec().try_into().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(place: &str) -> (TextSource, &str) {
        TextSource::split(place).unwrap()
    }

    #[test]
    fn a_source_stands_before_the_expression() {
        assert_eq!(split("p99 (.*)"), (TextSource::Stdout, "p99 (.*)"));
        assert_eq!(split("stderr:json:a.b"), (TextSource::Stderr, "json:a.b"));
        assert_eq!(split("file:out/x.log:a: (.*)"), (TextSource::File("out/x.log".into()), "a: (.*)"));
        for wrong in ["file:", "file:x", "file::json:a"] {
            assert!(TextSource::split(wrong).unwrap_err().contains("file:PATH:REGEX"), "{wrong}");
        }
    }

    #[test]
    fn only_a_file_that_the_run_wrote_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        fs::write(&path, "rate 7").unwrap();
        wait_until_old(&path);
        let start = SystemTime::now();
        let stale = read_file(&path, start).unwrap_err();
        assert!(stale.contains("belong to an earlier run"), "{stale}");
        fs::write(&path, "rate 8").unwrap();
        assert_eq!(read_file(&path, start).unwrap(), "rate 8");
    }

    /// A copy that keeps the time of its original is a new file.
    #[test]
    fn a_time_that_the_program_sets_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        let start = SystemTime::now();
        fs::write(&path, "rate 8").unwrap();
        File::options().append(true).open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(read_file(&path, start).unwrap(), "rate 8");
    }

    #[test]
    fn what_is_no_regular_file_and_what_is_too_long_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |name: &str| read_file(&folder.path().join(name), SystemTime::UNIX_EPOCH).unwrap_err();
        assert!(refused("none").contains("cannot read"), "{}", refused("none"));
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        fs::create_dir(folder.path().join("directory")).unwrap();
        for name in ["pipe", "directory"] {
            assert!(refused(name).contains("not a regular file"), "{}", refused(name));
        }
        File::create(folder.path().join("long")).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert!(refused("long").contains("larger than 64 MiB"));
    }
}
