//! Shells that use CPU time when they are asked to, and what the kernel says of them.

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A shell that counts to `steps` at each line that it reads, and then answers.
pub struct Counting {
    pub child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Counting {
    pub fn start(steps: u32) -> Self {
        let script =
            format!("while read line; do i=0; while [ $i -lt {steps} ]; do i=$((i+1)); done; echo; done");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from }
    }

    pub fn pin(&self, cpu: u32) {
        let mut set = CpuSet::new();
        set.set(cpu as usize);
        sched_setaffinity(Pid::from_raw(self.child.id() as i32), &set).unwrap();
    }

    pub fn begin(&mut self) {
        self.to.write_all(b"\n").unwrap();
    }

    /// Waits until it has counted and sleeps again.
    pub fn end(&mut self) {
        self.from.read_line(&mut String::new()).unwrap();
        self.await_state('S');
    }

    pub fn await_state(&self, state: char) {
        while !self.file("stat").rsplit_once(") ").unwrap().1.starts_with(state) {
            std::thread::yield_now();
        }
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }

    pub fn run_delay(&self) -> u64 {
        self.file("schedstat").split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub fn switches(&self) -> u64 {
        let text = self.file("status");
        let counts = text.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
        counts.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
    }

    pub fn migrations(&self) -> Option<u64> {
        let text = self.file("sched");
        text.lines().find(|line| line.contains("nr_migrations"))?.rsplit_once(':')?.1.trim().parse().ok()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
