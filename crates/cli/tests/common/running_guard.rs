//! A running `manycore guard` and the lines that it prints.

use crate::common::schema;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// A guard with its own directory for sockets and journals. Its lines are parsed from JSON.
pub struct Guard {
    child: Child,
    lines: Receiver<serde_json::Value>,
    seen: Vec<serde_json::Value>,
    /// Its directory.
    pub state: tempfile::TempDir,
}

impl Guard {
    pub fn start(args: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_manycore"));
        command.args(["guard", "--format", "json"]).args(args).env("MANYCORE_STATE", state.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = child.stdout.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        // It prints what it protects once everything is open.
        let mut first = String::new();
        let mut error = BufReader::new(child.stderr.take().unwrap());
        while !first.contains("manycore guard ") {
            first.clear();
            assert!(error.read_line(&mut first).unwrap() > 0, "the guard has exited");
        }
        thread::spawn(move || {
            error.lines().map_while(Result::ok).for_each(|line| eprintln!("guard: {line}"));
        });
        Self { child, lines, seen: Vec::new(), state }
    }

    /// Returns the next line of this kind.
    pub fn wait(&mut self, event: &str) -> serde_json::Value {
        let end = Instant::now() + Duration::from_mins(1);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line =
                self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no {event} after {:#?}", self.seen));
            self.seen.push(line.clone());
            if line["event"] == event {
                return line;
            }
        }
    }

    pub fn wait_for_note(&mut self, words: &str) {
        while !self.wait("note")["note"].as_str().unwrap().contains(words) {}
    }

    pub fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    pub fn end(mut self) -> (ExitStatus, Vec<serde_json::Value>) {
        self.signal("-TERM");
        let status = self.child.wait().unwrap();
        let rest: Vec<_> = self.lines.iter().collect();
        let mut all = std::mem::take(&mut self.seen);
        all.extend(rest);
        for event in &all {
            schema::assert_valid("guard-event", event);
        }
        assert!(!self.state.path().join("guard.sock").exists(), "the socket is left");
        (status, all)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
