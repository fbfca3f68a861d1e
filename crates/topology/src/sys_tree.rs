//! The source of the kernel's files: a root folder, or a capture in one text file.

use crate::{
    CpuSet, Error,
    capture::{CAPTURE_SCHEMA, Capture},
};
use rustix::{
    fs::{
        CWD, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2, readlinkat,
    },
    io::{Errno, read},
};
use std::{
    cell::RefCell,
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// Maximum size of a file in bytes. The files of sysfs and procfs that are read have some kilobytes.
const MAX_FILE_BYTES: usize = 1 << 20;
/// Maximum size of a capture in bytes. All files of 4,096 CPUs take about ten megabytes.
const MAX_CAPTURE_BYTES: u64 = 256 << 20;

/// A tree of sysfs and procfs files. A file that is missing, unreadable or removed meanwhile reads as
/// `None`.
#[derive(Debug)]
pub struct SysTree {
    source: Source,
    name: String,
    record: Option<RefCell<Capture>>,
}

#[derive(Debug)]
enum Source {
    Folder { path: PathBuf, handle: OwnedFd, confined: bool },
    Capture(Capture),
}

impl SysTree {
    /// Opens the tree below a folder, or in a capture file.
    ///
    /// # Errors
    /// The folder or file does not exist, or the file is not a capture.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let unreadable = |error: io::Error| Error::Unreadable { path: name.clone(), error };
        if path.is_file() {
            let size = std::fs::metadata(path).map_err(unreadable)?.len();
            if size > MAX_CAPTURE_BYTES {
                return Err(unreadable(io::Error::from(io::ErrorKind::FileTooLarge)));
            }
            let text = std::fs::read(path).map_err(unreadable)?;
            return Self::parse(&name, &String::from_utf8_lossy(&text));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = open(path, flags, Mode::empty()).map_err(|errno| unreadable(errno.into()))?;
        let confined = path.canonicalize().map_err(unreadable)? != Path::new("/");
        Ok(Self { source: Source::Folder { path: path.to_owned(), handle, confined }, name, record: None })
    }

    /// Parses the text of a capture; `name` is used in messages.
    ///
    /// # Errors
    /// The text is not a capture.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let capture =
            Capture::parse(text).map_err(|error| Error::NotACapture { path: name.to_owned(), error })?;
        Ok(Self { source: Source::Capture(capture), name: name.to_owned(), record: None })
    }

    /// Returns the tree of a capture in memory.
    pub fn from_capture(capture: Capture) -> Self {
        Self { source: Source::Capture(capture), name: CAPTURE_SCHEMA[2..].to_owned(), record: None }
    }

    /// Records from now on everything that is read, for [`SysTree::recording`].
    pub fn with_recording(self) -> Self {
        Self { record: Some(RefCell::default()), ..self }
    }

    /// Returns everything that was read since [`SysTree::with_recording`].
    pub fn recording(&self) -> Option<Capture> {
        self.record.as_ref().map(|record| record.borrow().clone())
    }

    /// Returns the root folder or the capture file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text of a file, without trailing white space and NUL bytes. Invalid UTF-8 is replaced.
    pub fn read(&self, path: &str) -> Option<String> {
        self.read_part(path, MAX_FILE_BYTES, str::to_owned)
    }

    /// Returns the result of `keep` for the first `most` bytes of a file. The recording contains no more
    /// than that: a capture has no use for changing counters, nor for 256 copies of the same CPU flags.
    pub fn read_part(&self, path: &str, most: usize, keep: impl Fn(&str) -> String) -> Option<String> {
        let text = match &self.source {
            Source::Folder { .. } => String::from_utf8_lossy(&self.bytes(path, most)?).into_owned(),
            Source::Capture(capture) => capture.file(path)?.to_owned(),
        };
        let kept = keep(text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0'));
        self.note(|record| record.add_file(path, &kept));
        Some(kept)
    }

    /// Reads a file that contains one number.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.trim().parse().ok()
    }

    /// Reads a file in the kernel's list format.
    ///
    /// # Errors
    /// The file exists but is not a CPU list.
    pub fn cpu_list(&self, path: &str) -> Result<Option<CpuSet>, Error> {
        self.parsed(path, str::parse)
    }

    /// Reads a file in the kernel's mask format.
    ///
    /// # Errors
    /// The file exists but is not a CPU mask.
    pub fn cpu_mask(&self, path: &str) -> Result<Option<CpuSet>, Error> {
        self.parsed(path, CpuSet::from_mask)
    }

    fn parsed<E: ToString>(
        &self,
        path: &str,
        parse: impl Fn(&str) -> Result<CpuSet, E>,
    ) -> Result<Option<CpuSet>, Error> {
        let Some(text) = self.read(path) else { return Ok(None) };
        parse(&text).map(Some).map_err(|error| self.malformed(path, &error.to_string()))
    }

    /// Returns an error that names a file of this tree.
    pub fn malformed(&self, path: &str, problem: &str) -> Error {
        let file = match &self.source {
            Source::Folder { path: root, .. } => root.join(path).display().to_string(),
            Source::Capture(_) => format!("{}: {path}", self.name),
        };
        Error::Malformed { file, problem: problem.chars().take(200).collect() }
    }

    /// Returns the names in a folder, ascending; in the root if `path` is empty.
    pub fn list(&self, path: &str) -> Vec<String> {
        let names = self.names(path);
        let inside = |name: &String| format!("{path}/{name}").trim_start_matches('/').to_owned();
        self.note(|record| names.iter().for_each(|name| record.add_folder(&inside(name))));
        names
    }

    /// Returns the names of the folders in a folder, ascending. A link to a folder is none.
    pub fn folders(&self, path: &str) -> Vec<String> {
        let inside = |name: &str| format!("{path}/{name}");
        let names = match &self.source {
            Source::Capture(capture) => {
                capture.list(path).into_iter().filter(|name| capture.has_folder(&inside(name))).collect()
            }
            Source::Folder { .. } => self.folders_in(path).unwrap_or_default(),
        };
        self.note(|record| names.iter().for_each(|name| record.add_folder(&inside(name))));
        names
    }

    /// Returns the numbers of the entries `prefixN` of a folder, ascending.
    pub fn numbered_entries(&self, path: &str, prefix: &str) -> CpuSet {
        let number = |name: &String| {
            let digits = name.strip_prefix(prefix)?;
            let plain =
                digits == "0" || !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u32>().ok().filter(|&number| plain && number < u32::MAX)
        };
        let numbers: CpuSet = self.names(path).iter().filter_map(number).collect();
        self.note(|record| {
            numbers.iter().for_each(|number| record.add_folder(&format!("{path}/{prefix}{number}")));
        });
        numbers
    }

    /// Returns whether a folder exists.
    pub fn is_folder(&self, path: &str) -> bool {
        let there = match &self.source {
            Source::Capture(capture) => capture.has_folder(path),
            Source::Folder { .. } => self.handle(path, OFlags::PATH | OFlags::DIRECTORY).is_some(),
        };
        if there {
            self.note(|record| record.add_folder(path));
        }
        there
    }

    /// Returns whether this is the running system, whose files change, and not a copy.
    pub fn is_live(&self) -> bool {
        matches!(self.source, Source::Folder { confined: false, .. })
    }

    /// Returns whether a file's mode has no write permission. A capture has no modes.
    pub fn is_read_only(&self, path: &str) -> bool {
        let mode = || fstat(self.handle(path, OFlags::PATH)?).ok().map(|about| about.st_mode);
        mode().is_some_and(|mode| mode & 0o222 == 0)
    }

    /// Returns the target of a symbolic link.
    pub fn link(&self, path: &str) -> Option<String> {
        let target = match &self.source {
            Source::Capture(capture) => capture.link(path)?.to_owned(),
            Source::Folder { .. } => {
                let link = self.handle(path, OFlags::PATH | OFlags::NOFOLLOW)?;
                readlinkat(&link, "", Vec::new()).ok()?.into_string().ok()?
            }
        };
        self.note(|record| record.add_link(path, &target));
        Some(target)
    }

    /// Opens a file for random access, such as a program. A capture has none, and the file is not recorded.
    pub fn file(&self, path: &str) -> Option<File> {
        self.handle(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map(File::from)
    }

    /// Returns the result of `keep` for the first `most` bytes of a file that is no text. The recording contains no more than
    /// that, as hexadecimal digits.
    pub(crate) fn binary(&self, path: &str, most: u64, keep: impl Fn(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
        let bytes = match &self.source {
            Source::Folder { .. } => self.binary_in_folder(path, most)?,
            Source::Capture(capture) => from_digits(capture.file(path)?)?,
        };
        let kept = keep(&bytes);
        self.note(|record| record.add_file(path, &digits(&kept)));
        Some(kept)
    }

    fn binary_in_folder(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        let file = self.file(path)?;
        // A pipe or a device in a copied tree may never end.
        let is_regular = file.metadata().ok()?.is_file();
        let mut bytes = Vec::new();
        is_regular.then(|| file.take(most).read_to_end(&mut bytes))?.ok()?;
        Some(bytes)
    }

    fn names(&self, path: &str) -> Vec<String> {
        match &self.source {
            Source::Capture(capture) => capture.list(path),
            Source::Folder { .. } => self.folder_names(path).unwrap_or_default(),
        }
    }

    fn folder_names(&self, path: &str) -> Option<Vec<String>> {
        let path = if path.is_empty() { "." } else { path };
        let folder = Dir::new(self.handle(path, OFlags::RDONLY | OFlags::DIRECTORY)?).ok()?;
        let mut names: Vec<String> = folder
            .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != "..")
            .collect();
        names.sort_unstable();
        Some(names)
    }

    fn folders_in(&self, path: &str) -> Option<Vec<String>> {
        let folder = self.handle(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        // Each folder in it is a link to it (`..`), except on file systems that count no links and say 1.
        if fstat(&folder).ok()?.st_nlink == 2 {
            return Some(Vec::new());
        }
        let name = |entry: io::Result<DirEntry>| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str().ok().filter(|&name| name != "." && name != "..")?;
            let is_folder = match entry.file_type() {
                FileType::Unknown => self.is_folder(&format!("{path}/{name}")),
                kind => kind == FileType::Directory,
            };
            is_folder.then(|| name.to_owned())
        };
        let mut names: Vec<String> =
            Dir::new(folder).ok()?.filter_map(|entry| name(entry.map_err(io::Error::from))).collect();
        names.sort_unstable();
        Some(names)
    }

    fn note(&self, write: impl FnOnce(&mut Capture)) {
        if let Some(record) = &self.record {
            write(&mut record.borrow_mut());
        }
    }

    fn bytes(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        // A pipe or a device in a copied tree must not block, so only regular files are read, without
        // blocking.
        let file = self.handle(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let about = fstat(&file).ok()?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return None;
        }
        // Files of sysfs, which report a size of one page, and plain copies return their whole contents at
        // once. Files of procfs report no size and may return parts.
        let gives_all_at_once = about.st_size > 0;
        let mut bytes = vec![0; 4096.min(most)];
        let mut filled = 0;
        loop {
            match read(&file, &mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            }
            if filled == most || filled < bytes.len() && gives_all_at_once {
                break;
            }
            if filled == bytes.len() {
                bytes.resize((filled * 4).min(most), 0);
            }
        }
        bytes.truncate(filled);
        Some(bytes)
    }

    /// Opens a file below the root. In a copy of another machine a link such as `/etc/os-release` or
    /// `../../..` refers to that machine, so the kernel resolves it inside the root (`openat2`, since Linux
    /// 5.6).
    fn handle(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        let Source::Folder { path: root, handle, confined } = &self.source else { return None };
        let flags = flags | OFlags::CLOEXEC;
        if !confined {
            return openat(handle, path, flags, Mode::empty()).ok();
        }
        match openat2(handle, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // An older kernel, or a container's seccomp filter that blocks the call.
            Err(Errno::NOSYS | Errno::PERM) => open_confined(root, path, flags),
            result => result.ok(),
        }
    }
}

/// Returns the hexadecimal digits of some bytes, those of 32 bytes on each line.
fn digits(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| bytes.iter().fold(String::new(), |line, byte| format!("{line}{byte:02x}"));
    bytes.chunks(32).map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the bytes that [`digits`] has written; `None` for other texts.
fn from_digits(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| Some(char::from(byte).to_digit(16)? as u8))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Parses `  24731708 kB` into bytes.
pub fn kilobytes(text: &str) -> Option<u64> {
    text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Opens a file below `root` unless links lead out of it.
fn open_confined(root: &Path, path: &str, flags: OFlags) -> Option<OwnedFd> {
    let root = root.canonicalize().ok()?;
    let wanted = root.join(path);
    let place = match (wanted.parent(), wanted.file_name()) {
        (Some(folder), Some(name)) if flags.contains(OFlags::NOFOLLOW) => {
            folder.canonicalize().ok()?.join(name)
        }
        _ => wanted.canonicalize().ok()?,
    };
    if !place.starts_with(&root) {
        return None;
    }
    openat(CWD, &place, flags, Mode::empty()).ok()
}

#[cfg(test)]
mod tests;
