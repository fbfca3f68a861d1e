//! Parses `/proc/PID/stat` and `/proc/PID/status` without allocating.

/// `PF_KTHREAD` (`include/linux/sched.h`) in the flags of `stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// The name of a process as the kernel stores it (`comm`): up to 15 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessName([u8; 16]);

impl ProcessName {
    /// Returns a name with the first 15 bytes of `text`.
    pub fn new(text: &[u8]) -> Self {
        let mut name = Self::default();
        let count = text.len().min(15);
        name.0[..count].copy_from_slice(&text[..count]);
        name
    }

    /// Returns the name without unused bytes.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

/// A line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its name.
    pub name: ProcessName,
    /// Its parent.
    pub parent: u32,
    /// Its session.
    pub session: u32,
    /// Whether the session has a controlling terminal.
    pub has_terminal: bool,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
    /// Whether it is a zombie.
    pub has_ended: bool,
    /// Number of its threads.
    pub threads: u64,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Resident set in KiB.
    pub resident_kib: u32,
    /// The thread whose files report the memory of the process; not always the first.
    pub reporting_thread: u32,
}

/// Fields of `/proc/PID/status`, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The process that the thread belongs to; 0 if it is not reported.
    pub process: u32,
    /// Real user id.
    pub user: u32,
    /// Whether it is in a process namespace below that of the reader, as in a container.
    pub is_contained: bool,
    /// Its own pages and swap.
    pub kib: u32,
    /// Shared memory and files in memory that it has mapped.
    pub shmem_kib: u32,
}

pub(super) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

pub(super) fn parse_stat(text: &[u8], page_kib: u64) -> Option<ProcessStat> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    // A name may contain brackets and blanks.
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let mut stat =
        ProcessStat { name: ProcessName::new(text.get(open + 1..close)?), ..ProcessStat::default() };
    let words = text[close + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (field, word) in (3..).zip(words) {
        match field {
            3 => stat.has_ended = matches!(word, b"Z" | b"X" | b"x"),
            4 => stat.parent = number(word)? as u32,
            6 => stat.session = number(word)? as u32,
            7 => stat.has_terminal = number(word)? != 0,
            9 => stat.is_kernel = number(word)? & PF_KTHREAD != 0,
            20 => stat.threads = number(word)?,
            22 => stat.start = number(word)?,
            24 => {
                stat.resident_kib = u32::try_from(number(word)?.saturating_mul(page_kib)).unwrap_or(u32::MAX);
                return Some(stat);
            }
            _ => {}
        }
    }
    None
}

pub(super) fn parse_status(text: &[u8]) -> Option<ProcessStatus> {
    let mut status = ProcessStatus::default();
    let mut found = false;
    for line in text.split(|&byte| byte == b'\n') {
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(0);
        let value = || {
            let mut words = line[colon + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.next().and_then(number).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
        };
        match &line[..colon] {
            b"Tgid" => status.process = value()?,
            b"Uid" => {
                status.user = value()?;
                found = true;
            }
            // There is one id for each process namespace, from that of `/proc` down to its own.
            b"NSpid" => status.is_contained = line[colon + 1..].trim_ascii().contains(&b'\t'),
            b"RssAnon" | b"VmSwap" => status.kib = status.kib.saturating_add(value()?),
            b"RssShmem" => status.shmem_kib = value()?,
            _ => {}
        }
    }
    found.then_some(status)
}
