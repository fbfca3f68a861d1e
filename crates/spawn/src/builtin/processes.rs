//! Processes of the operating system. Each is a fork of this process without an exec: the smallest possible
//! process.
//!
//! All of them wait for the end of a pipe, which wakes all at once, and then read their order from a file.
//! They answer through another pipe. The kernel does not interleave writes of up to 4096 bytes (`PIPE_BUF`),
//! so answers are written in such pieces.

use crate::builtin::{
    LightProcesses,
    work::{self, FileStats, Files, WorkResult},
};
use manycore_linux::child;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    process::{Pid, WaitOptions, waitpid},
};
use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write},
    os::unix::fs::FileExt,
    thread,
    time::Duration,
};

/// Maximum length of a line that is written to a pipe in one piece (`PIPE_BUF`, pipe(7)), less space for the rest of
/// the line.
const MAX_ANSWER_BYTES: usize = 3800;

/// The children with what they share: pipes that are closed in turn, the file with the order, and a pipe for
/// answers.
pub(super) struct Processes {
    children: Vec<Pid>,
    /// Pipes that children read from. A child leaves a stage when the last writer of its pipe has closed it.
    begin: (PipeReader, Option<PipeWriter>),
    end: (PipeReader, Option<PipeWriter>),
    /// File with the order. Empty if there is nothing to do.
    order: File,
    answers: (BufReader<PipeReader>, PipeWriter),
}

/// The order for the children; stored as one line of a file.
#[derive(Clone)]
struct WorkOrder {
    /// When to stop, on the monotonic clock that all processes share, in nanoseconds.
    until_ns: u64,
    files: Option<Files>,
}

impl Processes {
    pub(super) fn new() -> io::Result<Self> {
        let open = |(reader, writer): (PipeReader, PipeWriter)| (reader, Some(writer));
        let (reader, writer) = io::pipe()?;
        Ok(Self {
            children: Vec::new(),
            begin: open(io::pipe()?),
            end: open(io::pipe()?),
            order: memfd_create(c"order", MemfdFlags::CLOEXEC)?.into(),
            answers: (BufReader::new(reader), writer),
        })
    }

    /// Reads the answer of each child.
    fn read_answers(&mut self, done: &mut WorkResult) {
        let mut left = self.children.len();
        let mut line = String::new();
        while left > 0 {
            line.clear();
            match self.answers.0.read_line(&mut line) {
                Ok(1..) => left -= usize::from(parse_answer(line.trim_end(), done)),
                // Unreachable: this process holds a writer itself.
                _ => return,
            }
        }
    }
}

impl WorkOrder {
    fn line(&self) -> String {
        let files = self.files.as_ref();
        let bytes = files.map_or(0, |files| files.bytes);
        let folder = files.map_or_else(String::new, |files| files.folder.display().to_string());
        format!("{}\t{bytes}\t{folder}\t", self.until_ns)
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split('\t');
        let until_ns = words.next()?.parse().ok()?;
        let bytes = words.next()?.parse().ok()?;
        let folder = words.next()?;
        let files = (!folder.is_empty()).then(|| Files { folder: folder.into(), bytes });
        Some(Self { until_ns, files })
    }
}

fn now_ns() -> u64 {
    manycore_linux::clock::now_ns()
}

/// Parses a line of a child: pieces of `INDEX:COUNT,`, then `. FAILED WHY`. Returns whether it is that
/// child's last line.
fn parse_answer(line: &str, done: &mut WorkResult) -> bool {
    if let Some(last) = line.strip_prefix('.') {
        let (failed, why) = last.trim_start().split_once(' ').unwrap_or((last.trim(), ""));
        done.add(&[], failed.parse().unwrap_or(0), why);
        return true;
    }
    let pair = |word: &str| {
        let (index, count) = word.split_once(':')?;
        Some((index.parse().ok()?, count.parse().ok()?))
    };
    done.add(&line.split(',').filter_map(pair).collect::<Vec<_>>(), 0, "");
    false
}

/// Main function of a child; returns its exit status.
fn run_child(
    number: u64,
    begin: &mut PipeReader,
    end: &mut PipeReader,
    order: &File,
    answers: &mut PipeWriter,
) -> i32 {
    if answers.write_all(b".\n").is_err() {
        return 1;
    }
    // No data is ever written to these pipes: reads end when the writers are closed.
    let _ = begin.read(&mut [0]);
    if let Some(order) = read_all(order).as_deref().and_then(WorkOrder::read) {
        write_answer(&work_on(number, &order), answers);
    }
    let _ = end.read(&mut [0]);
    0
}

/// Returns the text of a file without moving its position, which all processes share.
fn read_all(file: &File) -> Option<String> {
    let mut bytes = vec![0; file.metadata().ok()?.len() as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    String::from_utf8(bytes).ok()
}

fn work_on(number: u64, order: &WorkOrder) -> WorkResult {
    let stats = FileStats::new();
    let mut data = Vec::new();
    let mut x = number as u32;
    while now_ns() < order.until_ns {
        match &order.files {
            Some(files) => {
                if !files.round(number, &mut data, &stats) {
                    thread::sleep(work::PAUSE);
                }
            }
            None => x = work::compute_piece(x),
        }
    }
    stats.done()
}

fn write_answer(done: &WorkResult, answers: &mut PipeWriter) {
    let mut line = String::new();
    for (index, count) in &done.times {
        let _ = write!(line, "{index}:{count},");
        if line.len() > MAX_ANSWER_BYTES {
            line.push('\n');
            let _ = answers.write_all(line.as_bytes());
            line.clear();
        }
    }
    if !line.is_empty() {
        let _ = answers.write_all((line + "\n").as_bytes());
    }
    let why: String = done.why.chars().take(200).collect();
    let _ = answers.write_all(format!(". {} {why}\n", done.failed).as_bytes());
}

impl LightProcesses for Processes {
    fn description(&self) -> String {
        "unit=process\tversion=forks of this program".to_owned()
    }

    fn start(&mut self, count: u64, report: &mut dyn FnMut(u64)) -> Result<(), (u64, String)> {
        let mut refused = None;
        let mut unacknowledged = 0;
        for number in 0..count {
            report(number);
            let (begin, end, order) = (&mut self.begin, &mut self.end, &self.order);
            let answers = &mut self.answers.1;
            let forked = child::fork(move || {
                // Close the child's copies of the writers; otherwise no pipe would ever end.
                begin.1 = None;
                end.1 = None;
                run_child(number, &mut begin.0, &mut end.0, order, answers)
            });
            match forked {
                Ok(pid) => self.children.push(pid),
                Err(error) => {
                    refused = Some(error.to_string());
                    break;
                }
            }
            // The children must not fill the pipe, which holds 65,536 bytes, while this process does not read
            // it.
            unacknowledged += 1;
            if unacknowledged == 1000 {
                self.wait_for_children(unacknowledged);
                unacknowledged = 0;
            }
        }
        self.wait_for_children(unacknowledged);
        refused.map_or(Ok(()), |why| Err((self.children.len() as u64, why)))
    }

    fn work(&mut self, files: Option<Files>, time: Duration, begun: &mut dyn FnMut()) -> WorkResult {
        let until_ns = now_ns() + time.as_nanos() as u64;
        let _ = self.order.write_all(WorkOrder { until_ns, files }.line().as_bytes());
        // Must come before the children start: they would occupy all CPUs.
        begun();
        self.begin.1 = None;
        let mut done = WorkResult::default();
        self.read_answers(&mut done);
        done
    }

    fn end(&mut self) {
        self.begin.1 = None;
        self.end.1 = None;
        for child in self.children.drain(..) {
            while matches!(waitpid(Some(child), WaitOptions::empty()), Err(Errno::INTR)) {}
        }
    }
}

impl Processes {
    /// Waits until `count` more children have reported that they are alive.
    fn wait_for_children(&mut self, count: usize) {
        let mut line = String::new();
        for _ in 0..count {
            line.clear();
            let _ = self.answers.0.read_line(&mut line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_were_written() {
        let files = Files { folder: "/a b/ü".into(), bytes: 4096 };
        let read = WorkOrder::read(&WorkOrder { until_ns: 77, files: Some(files) }.line()).unwrap();
        let files = read.files.unwrap();
        assert_eq!((read.until_ns, files.bytes, files.folder.to_str()), (77, 4096, Some("/a b/ü")));
        assert!(WorkOrder::read(&WorkOrder { until_ns: 1, files: None }.line()).unwrap().files.is_none());
    }

    #[test]
    fn answers_are_added_up() {
        let mut done = WorkResult::default();
        assert!(!parse_answer("7:2,9:1,", &mut done));
        assert!(!parse_answer("7:1,8:4,", &mut done));
        assert!(parse_answer(". 3 too many open files", &mut done) && parse_answer(".", &mut done));
        assert_eq!(done.times, [(7, 3), (8, 4), (9, 1)]);
        assert_eq!((done.failed, done.why.as_str()), (3, "too many open files"));
    }
}
