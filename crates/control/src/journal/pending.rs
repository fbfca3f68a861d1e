//! Journals whose changes may still be in force.

use super::{
    change::{Change, Header, JOURNAL_SCHEMA},
    directory::{self, EXTENSION, boot_id, check_owner},
};
use manycore_linux::tasks;
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// A journal with its contents.
#[derive(Debug)]
pub struct Pending {
    /// The file.
    pub path: PathBuf,
    /// The command that made the changes.
    pub header: Header,
    /// The changes, oldest first.
    pub changes: Vec<Change>,
    /// Number of lines that cannot be read.
    pub unreadable_lines: usize,
    /// Whether its owner still runs, and will undo the changes itself.
    pub owner_is_running: bool,
}

/// Returns all journals in `folder`, newest first, and the errors of files that are not journals. A missing
/// directory has none.
///
/// # Errors
/// The directory cannot be read, or belongs to another user.
pub fn pending(folder: &Path) -> io::Result<(Vec<Pending>, Vec<String>)> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        entries => entries?,
    };
    check_owner(&fs::metadata(folder)?)?;
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for path in entries.flatten().map(|entry| entry.path()) {
        let about = fs::symlink_metadata(&path);
        if path.extension().is_none_or(|extension| extension != EXTENSION)
            || !about.is_ok_and(|about| about.is_file())
        {
            continue;
        }
        match Pending::read(&path) {
            Ok(pending) => found.push(pending),
            // Its owner has ended meanwhile and has undone everything.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => problems.push(format!("{}: {error}", path.display())),
        }
    }
    found.sort_by_key(|pending| std::cmp::Reverse(pending.header.began_ns));
    Ok((found, problems))
}

/// Maximum time from the creation of a process to the start of its program. On a machine that is short of CPU time, or a
/// virtual one that was stopped meanwhile, some seconds are possible.
const MAX_START: Duration = Duration::from_secs(30);

impl Pending {
    /// Reads a journal. An incomplete last line was written by a process that was killed before it made the
    /// change, and is ignored.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        check_owner(&file.metadata()?)?;
        // A shared lock is refused while the owner holds its lock; ours is released when the function
        // returns.
        let owner_is_running = flock(&file, FlockOperation::NonBlockingLockShared).is_err();
        let text = fs::read_to_string(path)?;
        let mut lines = text.split_inclusive('\n');
        let header: Header = match lines.next() {
            Some(line) => serde_json::from_str(line)?,
            None => return Err(io::Error::other("it is empty")),
        };
        if header.schema != JOURNAL_SCHEMA {
            let message = format!("schema {:?}, expected {JOURNAL_SCHEMA:?}", header.schema);
            return Err(io::Error::other(message));
        }
        let whole = lines.filter(|line| line.ends_with('\n'));
        let (changes, unreadable_lines): (Vec<_>, Vec<_>) =
            whole.map(serde_json::from_str).partition(Result::is_ok);
        let (changes, unreadable_lines) = (changes.into_iter().flatten().collect(), unreadable_lines.len());
        Ok(Self { path: path.to_owned(), header, changes, unreadable_lines, owner_is_running })
    }

    /// Appends a line, even if its owner is still writing.
    pub(super) fn append(&self, change: &Change) -> io::Result<()> {
        let mut line = serde_json::to_vec(change)?;
        line.push(b'\n');
        File::options().append(true).open(&self.path)?.write_all(&line)
    }

    /// Atomically replaces the journal by one with only these changes, which stay until they are undone.
    pub(super) fn keep_only(&self, changes: &[Change]) -> io::Result<()> {
        let header = Header { persistent: true, ..self.header.clone() };
        let mut lines = vec![serde_json::to_string(&header)?];
        for change in changes {
            lines.push(serde_json::to_string(change)?);
        }
        let hidden = self.path.with_extension("rest");
        let _ = fs::remove_file(&hidden);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&hidden)?;
        file.write_all((lines.join("\n") + "\n").as_bytes())?;
        fs::rename(&hidden, &self.path)
    }

    /// Prevents any other undo, until the returned file is dropped.
    ///
    /// If the owner was killed between fork and exec of a child, the child also holds the lock until exec,
    /// and can be recognised by its environment only after that. So the lock is awaited for a limited time.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if all changes were undone since it was read,
    /// [`io::ErrorKind::WouldBlock`] if its owner still runs or another undo is in progress.
    pub(super) fn lock(&self) -> io::Result<File> {
        let file = File::open(&self.path)?;
        let deadline = Instant::now() + MAX_START;
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if self.owner_may_run() || Instant::now() > deadline {
                return Err(error.into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        if file.metadata()?.nlink() == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(file)
    }

    /// Whether the process that created it still runs, as far as is known.
    fn owner_may_run(&self) -> bool {
        self.header.owner.is_none_or(|owner| tasks::is_same_process(owner.pid, owner.start))
    }

    /// Returns the newer journals in the same directory.
    pub(super) fn newer(&self) -> Vec<Self> {
        let (all, _) = pending(self.path.parent().unwrap_or(Path::new("."))).unwrap_or_default();
        all.into_iter().filter(|other| other.header.began_ns > self.header.began_ns).collect()
    }

    /// Returns its name, as `undo` takes it.
    pub fn id(&self) -> String {
        directory::id(&self.path)
    }

    /// Whether its ids belong to another process namespace, and so mean nothing in this one.
    pub fn is_from_other_namespace(&self) -> bool {
        self.header.pid_namespace != directory::namespace()
    }

    /// Whether the machine was rebooted since, so that none of its changes is in force.
    pub fn is_from_earlier_boot(&self) -> bool {
        self.header.boot_id != boot_id()
    }
}
