//! Parses files of `/proc` without allocating.

use crate::sample::{CpuTimes, SystemCounters, TaskName};

/// `PF_KTHREAD` (`include/linux/sched.h`) in the flags of `stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// The fields of `/proc/PID/task/TID/stat` that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatLine {
    pub name: TaskName,
    pub state: char,
    pub parent: u32,
    pub is_kernel: bool,
    pub ticks: u64,
    pub start: u64,
    pub resident_pages: u64,
    pub cpu: u32,
}

/// Returns a decimal number.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    let digit = |sum: u64, byte: &u8| {
        let value = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(value)
    };
    if word.is_empty() { None } else { word.iter().try_fold(0, digit) }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Parses a line of `stat`. The name may contain brackets and blanks.
pub(crate) fn stat(text: &[u8]) -> Option<StatLine> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let mut line = StatLine { name: TaskName::new(text.get(open + 1..close)?), ..StatLine::default() };
    for (field, word) in (3..).zip(words(&text[close + 1..])) {
        match field {
            3 => line.state = char::from(*word.first()?),
            4 => line.parent = number(word)? as u32,
            9 => line.is_kernel = number(word)? & PF_KTHREAD != 0,
            14 => line.ticks = number(word)?,
            15 => line.ticks = line.ticks.saturating_add(number(word)?),
            22 => line.start = number(word)?,
            24 => line.resident_pages = number(word)?,
            39 => {
                line.cpu = u32::try_from(number(word)?).ok()?;
                return Some(line);
            }
            _ => {}
        }
    }
    None
}

/// Parses `schedstat`: time on a CPU and time of waiting in nanoseconds, number of time slices.
pub(crate) fn schedstat(text: &[u8]) -> Option<[u64; 3]> {
    let mut numbers = words(text).map(number);
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// The fields of `status` that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatusLines<'a> {
    pub name: Option<TaskName>,
    pub state: Option<char>,
    pub parent: Option<u32>,
    /// The effective user.
    pub uid: Option<u32>,
    /// Resident set of the process in KiB.
    pub resident_kib: Option<u64>,
    pub allowed: Option<&'a [u8]>,
    pub voluntary: Option<u64>,
    pub involuntary: Option<u64>,
}

/// Parses `status`. A name with a line feed cannot imitate a line: the kernel escapes it.
pub(crate) fn status(text: &[u8]) -> StatusLines<'_> {
    let mut found = StatusLines::default();
    for line in text.split(|&byte| byte == b'\n') {
        let Some(end) = line.iter().position(|&byte| byte == b':') else { continue };
        let (field, value) = (&line[..end], line[end + 1..].trim_ascii());
        let small = |word: &[u8]| number(word).and_then(|value| u32::try_from(value).ok());
        match field {
            // One tab follows the colon. A name may begin or end with blanks.
            b"Name" => found.name = line.get(end + 2..).map(unescaped),
            b"State" => found.state = value.first().copied().map(char::from),
            b"PPid" => found.parent = small(value),
            // Real, effective, saved, and that of the file system.
            b"Uid" => found.uid = words(value).nth(1).and_then(small),
            b"VmRSS" => found.resident_kib = words(value).next().and_then(number),
            b"Cpus_allowed_list" => found.allowed = Some(value),
            b"voluntary_ctxt_switches" => found.voluntary = number(value),
            b"nonvoluntary_ctxt_switches" => found.involuntary = number(value),
            _ => {}
        }
    }
    found
}

/// Returns a name in which the kernel has written a line feed and a backslash as two bytes (`proc_task_name` in
/// `fs/proc/array.c`).
fn unescaped(text: &[u8]) -> TaskName {
    // Names of kernel threads may be longer. The rest of them is not used.
    let (mut name, mut length, mut rest) = ([0; 64], 0, text);
    while let [byte, after @ ..] = rest
        && length < name.len()
    {
        (name[length], rest) = match after {
            [b'n', after @ ..] if *byte == b'\\' => (b'\n', after),
            [b'\\', after @ ..] if *byte == b'\\' => (b'\\', after),
            _ => (*byte, after),
        };
        length += 1;
    }
    TaskName::new(&name[..length])
}

/// Parses `/proc/stat`. Fields that an old kernel does not have are 0.
pub(crate) fn system(text: &[u8], cpus: &mut Vec<CpuTimes>) -> SystemCounters {
    cpus.clear();
    let mut counters = SystemCounters::default();
    for line in text.split(|&byte| byte == b'\n') {
        let Some(end) = line.iter().position(|&byte| byte == b' ') else { continue };
        let rest = &line[end..];
        let first = || words(rest).next().and_then(number);
        match &line[..end] {
            b"ctxt" => counters.switches = first(),
            b"processes" => counters.created = first(),
            b"procs_running" => counters.runnable = first(),
            b"procs_blocked" => counters.blocked = first(),
            name => {
                let Some(cpu) = name.strip_prefix(b"cpu").and_then(number) else { continue };
                let mut each = words(rest).map_while(number).chain(std::iter::repeat(0));
                let mut next = || each.next().unwrap_or(0);
                cpus.push(CpuTimes {
                    cpu: cpu as u32,
                    user: next(),
                    nice: next(),
                    system: next(),
                    idle: next(),
                    iowait: next(),
                    irq: next(),
                    softirq: next(),
                    steal: next(),
                    khz: None,
                    millidegrees: None,
                });
            }
        }
    }
    cpus.sort_unstable_by_key(|times| times.cpu);
    cpus.dedup_by_key(|times| times.cpu);
    counters
}

/// Returns `MemTotal` and `MemAvailable` of `/proc/meminfo` in KiB; the second is absent before Linux 3.14.
pub(crate) fn memory(text: &[u8]) -> (Option<u64>, Option<u64>) {
    let mut found = (None, None);
    for line in text.split(|&byte| byte == b'\n') {
        let value = |name: &[u8]| words(line.strip_prefix(name)?).next().and_then(number);
        found = (found.0.or_else(|| value(b"MemTotal:")), found.1.or_else(|| value(b"MemAvailable:")));
        if found.0.is_some() && found.1.is_some() {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stat_is_read_behind_any_name() {
        let text = b"7 (a) R 1 (\x1b[2J\xff) S 3 1 1 0 -1 4194368 0 0 0 0 11 22 0 0 20 0 1 0 500 9 64 1 0 0 0 0 0 0 0 0 0 0 0 0 17 5 0 0";
        let line = stat(text).unwrap();
        assert_eq!((line.state, line.parent, line.ticks, line.start), ('S', 3, 33, 500));
        assert_eq!((line.resident_pages, line.cpu, line.is_kernel), (64, 5, false));
        assert_eq!(line.name.printable(), "a) R 1 (\u{fffd}[2J\u{fffd}");
    }

    #[test]
    fn other_files_are_read() {
        assert_eq!(schedstat(b"15 7 3\n"), Some([15, 7, 3]));
        assert_eq!(schedstat(b"15 7\n"), None);
        let text = b"Name:\t a\\n\\\\n:\nState:\tS (sleeping)\nPPid:\t3\nUid:\t0\t7\t0\t0\nVmRSS:\t   48 kB\nCpus_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t9\n";
        let expected = StatusLines {
            name: Some(TaskName::new(b" a\n\\n:")),
            state: Some('S'),
            parent: Some(3),
            uid: Some(7),
            resident_kib: Some(48),
            allowed: Some(b"0-1"),
            voluntary: Some(4),
            involuntary: Some(9),
        };
        assert_eq!(status(text), expected);
        let mut cpus = Vec::new();
        let text =
            b"cpu  9 9\ncpu1 1 2 3 4 5 6 7 8 9 10\ncpu0 1\nintr 5 5\nctxt 77\nprocesses 5\nprocs_running 2\n";
        let counters = system(text, &mut cpus);
        assert_eq!((counters.switches, counters.created, counters.runnable), (Some(77), Some(5), Some(2)));
        assert_eq!((cpus[0].user, cpus[0].steal, cpus[1].iowait, cpus[1].steal), (1, 0, 5, 8));
        let text = b"MemTotal:       100 kB\nMemFree:  3 kB\nMemAvailable: 70 kB\nBuffers: 1 kB\n";
        assert_eq!((memory(text), memory(&text[..25])), ((Some(100), Some(70)), (Some(100), None)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(text in prop::collection::vec(any::<u8>(), 0..200), plain in "[a-z0-9 :()\n-]{0,200}") {
            for text in [&text[..], plain.as_bytes()] {
                let _ = (stat(text), schedstat(text), status(text), system(text, &mut Vec::new()), memory(text));
            }
        }
    }
}
