//! Shells that use CPU time when they are asked to, and what the kernel says of them.

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// A shell that counts to `steps` at each line that it reads, and then answers.
pub struct Counting {
    pub child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// Voluntary switches when it was asked last.
    voluntary: u64,
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
        Self { child, to, from, voluntary: 0 }
    }

    pub fn pin(&self, cpu: u32) {
        let mut set = CpuSet::new();
        set.set(cpu as usize);
        sched_setaffinity(Pid::from_raw(self.child.id() as i32), &set).unwrap();
    }

    pub fn begin(&mut self) {
        self.voluntary = self.voluntary_switches();
        self.to.write_all(b"\n").unwrap();
    }

    /// Waits until it has counted and is off its CPU again.
    pub fn end(&mut self) {
        self.from.read_line(&mut String::new()).unwrap();
        self.await_off('S', self.voluntary);
    }

    /// Waits until it has a state in which it does not run, and has switched voluntarily since it had `before` switches.
    /// The state alone is set earlier: a task that is displaced at that moment has the state and waits for its CPU.
    pub fn await_off(&self, state: char, before: u64) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !(self.has_state(state) && self.voluntary_switches() > before) {
            assert!(Instant::now() < deadline, "it does not become {state}");
            std::thread::yield_now();
        }
    }

    /// Waits until it runs or waits for a CPU.
    pub fn await_runnable(&self) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !self.has_state('R') {
            assert!(Instant::now() < deadline, "it does not run");
            std::thread::yield_now();
        }
    }

    fn has_state(&self, state: char) -> bool {
        self.file("stat").rsplit_once(") ").unwrap().1.starts_with(state)
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }

    /// Returns its time on CPUs and its waits for one, in nanoseconds.
    pub fn schedstat(&self) -> [u64; 2] {
        let text = self.file("schedstat");
        let mut words = text.split_ascii_whitespace();
        std::array::from_fn(|_| words.next().unwrap().parse().unwrap())
    }

    pub fn switches(&self) -> u64 {
        self.switches_of("").into_iter().sum()
    }

    pub fn voluntary_switches(&self) -> u64 {
        self.switches_of("voluntary")[0]
    }

    /// Returns the switches of the kinds whose names begin so; all kinds: voluntary ones first.
    fn switches_of(&self, kind: &str) -> Vec<u64> {
        let text = self.file("status");
        let lines = text.lines().filter(|line| line.starts_with(kind));
        let counts = lines.filter_map(|line| line.split_once("_ctxt_switches:"));
        counts.map(|(_, count)| count.trim().parse().unwrap()).collect()
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

/// What the kernel counts of two shells.
#[derive(Clone, Copy)]
pub struct KernelCounts {
    pub run_ns: u64,
    pub wait_ns: u64,
    pub switches: u64,
}

impl KernelCounts {
    pub fn of(two: &[Counting; 2]) -> Self {
        let sums = two.each_ref().map(Counting::schedstat);
        let [run_ns, wait_ns] = [0, 1].map(|field| sums.iter().map(|one| one[field]).sum());
        Self { run_ns, wait_ns, switches: two.iter().map(Counting::switches).sum() }
    }

    pub fn since(self, before: Self) -> Self {
        Self {
            run_ns: self.run_ns - before.run_ns,
            wait_ns: self.wait_ns - before.wait_ns,
            switches: self.switches - before.switches,
        }
    }

    /// Whether they waited for each other: the second one did not get its line when the first one had nearly finished.
    pub fn shows_waits(self) -> bool {
        self.wait_ns > 10_000_000 && self.switches > 4
    }
}

/// Whether a check succeeds within a minute.
pub fn soon(mut check: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if check() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
    }
}
