//! Parses `/proc/PID/stat` and `/proc/PID/status` without allocating.

use crate::decision::process_table::Name;

/// `PF_KTHREAD` (`include/linux/sched.h`) in the flags of `stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: Name,
    pub(super) parent: u32,
    pub(super) session: u32,
    pub(super) has_terminal: bool,
    pub(super) is_kernel: bool,
    pub(super) has_ended: bool,
    pub(super) threads: u64,
    pub(super) start: u64,
    pub(super) resident_kib: u32,
    /// The thread whose files report the memory of the process; not always the first.
    pub(super) reporting_thread: u32,
}

/// Fields of `/proc/PID/status`, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// The process that the thread belongs to; 0 if it is not reported.
    pub(super) process: u32,
    pub(super) user: u32,
    /// See [`ProcessEntry::is_contained`].
    pub(super) is_contained: bool,
    /// Its own pages and swap.
    pub(super) kib: u32,
    pub(super) shmem_kib: u32,
}

pub(super) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

pub(super) fn parse_stat(text: &[u8], page_kib: u64) -> Option<Stat> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    // A name may contain brackets and blanks.
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let mut stat = Stat { name: Name::new(text.get(open + 1..close)?), ..Stat::default() };
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

pub(super) fn parse_status(text: &[u8]) -> Option<Status> {
    let mut status = Status::default();
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
