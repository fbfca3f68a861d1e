//! Processes of the operating system, each a fork of this one without a program of its own: the least that a process
//! can be.
//!
//! They hear and answer through pipes. All wait to read from one, and an order is written once for each of them: the kernel
//! keeps apart what is written in pieces of 4096 bytes at most (`PIPE_BUF`), and so orders and answers are.

use super::{
    Crowd,
    work::{self, Done, Files, Tally},
};
use manycore_host::child;
use rustix::{
    io::Errno,
    process::{Pid, WaitOptions, waitpid},
};
use std::{
    fmt::Write as _,
    io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write},
    thread,
    time::Duration,
};

/// Longest line that is written to a pipe in one piece (`PIPE_BUF`, pipe(7)), with room for its other words.
const PIECE: usize = 3800;

/// Pipes that all have: one for each order, which are closed in turn, and one for answers.
pub(super) struct Processes {
    children: Vec<Pid>,
    /// What children read; a child leaves one stage when its pipe's last writer has gone.
    begin: (PipeReader, Option<PipeWriter>),
    end: (PipeReader, Option<PipeWriter>),
    answers: (BufReader<PipeReader>, PipeWriter),
}

/// What is to be done, as a line in the pipe that begins work.
#[derive(Clone)]
struct Order {
    /// When to stop, on the clock that all processes share, in nanoseconds.
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
            answers: (BufReader::new(reader), writer),
        })
    }

    /// Writes the order once for each child, all in lines of the same length, and then closes the pipe.
    fn order(&mut self, order: &Order) {
        let line = order.line();
        if let Some(mut pipe) = self.begin.1.take() {
            for _ in &self.children {
                // The pipe is full when children are slow; whoever reads makes room.
                let _ = pipe.write_all(&line);
            }
        }
    }

    /// Reads an answer of each child.
    fn answers(&mut self, done: &mut Done) {
        let mut left = self.children.len();
        let mut line = String::new();
        while left > 0 {
            line.clear();
            match self.answers.0.read_line(&mut line) {
                Ok(1..) => left -= usize::from(take(line.trim_end(), done)),
                // Cannot be: we hold a writer ourselves.
                _ => return,
            }
        }
    }

    fn work(&mut self, time: Duration, files: Option<Files>, begun: &mut dyn FnMut()) -> Done {
        let until_ns = now_ns() + time.as_nanos() as u64;
        self.order(&Order { until_ns, files });
        begun();
        let mut done = Done::default();
        self.answers(&mut done);
        done
    }
}

/// Length of an order, which many children read from one pipe: all the same.
const ORDER: usize = 4096;

impl Order {
    fn line(&self) -> Vec<u8> {
        let files = self.files.as_ref();
        let bytes = files.map_or(0, |files| files.bytes);
        let folder = files.map_or_else(String::new, |files| files.folder.display().to_string());
        let mut line = format!("{}\t{bytes}\t{folder}\t", self.until_ns).into_bytes();
        line.resize(ORDER, b' ');
        line
    }

    fn read(line: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(line);
        let mut words = text.split('\t');
        let until_ns = words.next()?.parse().ok()?;
        let bytes = words.next()?.parse().ok()?;
        let folder = words.next()?;
        let files = (!folder.is_empty()).then(|| Files { folder: folder.into(), bytes });
        Some(Self { until_ns, files })
    }
}

fn now_ns() -> u64 {
    manycore_host::clock::now_ns()
}

/// What a child says: pieces of `INDEX:COUNT,`, then `. FAILED WHY`. Returns whether it is the last of that child.
fn take(line: &str, done: &mut Done) -> bool {
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

/// The life of a child; returns its exit status.
fn live(number: u64, begin: &mut PipeReader, end: &mut PipeReader, answers: &mut PipeWriter) -> i32 {
    if answers.write_all(b".\n").is_err() {
        return 1;
    }
    let mut order = vec![0; ORDER];
    if begin.read_exact(&mut order).is_ok()
        && let Some(order) = Order::read(&order)
    {
        answer(&work_on(number, &order), answers);
    }
    // Nothing is ever written: it ends when the writer does.
    let _ = end.read(&mut [0]);
    0
}

fn work_on(number: u64, order: &Order) -> Done {
    let tally = Tally::new();
    let mut data = Vec::new();
    let mut x = number as u32;
    while now_ns() < order.until_ns {
        match &order.files {
            Some(files) => {
                if !files.round(number, &mut data, &tally) {
                    thread::sleep(work::PAUSE);
                }
            }
            None => x = work::burn(x),
        }
    }
    tally.done()
}

fn answer(done: &Done, answers: &mut PipeWriter) {
    let mut line = String::new();
    for (index, count) in &done.times {
        let _ = write!(line, "{index}:{count},");
        if line.len() > PIECE {
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

impl Crowd for Processes {
    fn hello(&self) -> String {
        "unit=process\tversion=forks of this program".to_owned()
    }

    fn start(&mut self, count: u64, tell: &mut dyn FnMut(u64)) -> Result<(), (u64, String)> {
        let mut refused = None;
        let mut unheard = 0;
        for number in 0..count {
            tell(number);
            let (begin, end) = (&mut self.begin, &mut self.end);
            let answers = &mut self.answers.1;
            let forked = child::fork(move || {
                // Those of the parent, without which no pipe would ever end.
                begin.1 = None;
                end.1 = None;
                live(number, &mut begin.0, &mut end.0, answers)
            });
            match forked {
                Ok(pid) => self.children.push(pid),
                Err(error) => {
                    refused = Some(error.to_string());
                    break;
                }
            }
            // They must not fill the pipe while nobody reads it: it holds 65,536 bytes.
            unheard += 1;
            if unheard == 1000 {
                self.hear(unheard);
                unheard = 0;
            }
        }
        self.hear(unheard);
        refused.map_or(Ok(()), |why| Err((self.children.len() as u64, why)))
    }

    fn spin(&mut self, time: Duration, begun: &mut dyn FnMut()) {
        self.work(time, None, begun);
    }

    fn files(&mut self, time: Duration, files: Files, begun: &mut dyn FnMut()) -> Done {
        self.work(time, Some(files), begun)
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
    /// Waits until `count` more children have said that they live.
    fn hear(&mut self, count: usize) {
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
        let read = Order::read(&Order { until_ns: 77, files: Some(files) }.line()).unwrap();
        let files = read.files.unwrap();
        assert_eq!((read.until_ns, files.bytes, files.folder.to_str()), (77, 4096, Some("/a b/ü")));
        assert!(Order::read(&Order { until_ns: 1, files: None }.line()).unwrap().files.is_none());
    }

    #[test]
    fn answers_are_added_up() {
        let mut done = Done::default();
        assert!(!take("7:2,9:1,", &mut done));
        assert!(!take("7:1,8:4,", &mut done));
        assert!(take(". 3 too many open files", &mut done) && take(".", &mut done));
        assert_eq!(done.times, [(7, 3), (8, 4), (9, 1)]);
        assert_eq!((done.failed, done.why.as_str()), (3, "too many open files"));
    }
}
