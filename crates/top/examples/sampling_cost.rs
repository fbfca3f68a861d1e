//! Measures the CPU time of samples and of `manycore top` beside that of `htop`, `btop`, `btm` (bottom), `below` and `top`, as
//! far as they are installed, all at 1 Hz in the same seconds, by the number of threads, nearly all of which sleep.
//!
//! `cargo run --release -p manycore-top --example sampling_cost [THREADS...]`. `MANYCORE` is the path of
//! `manycore` if it is not in `PATH`: that of a release build.
//!
//! Each row is a sampler: with the default, and with few files kept open. A figure is the mean of the seconds, with the smallest
//! and largest. A peer's update takes so long with many threads that less than one of them is in a second: the largest
//! figure is near to that of one update.
#![allow(clippy::unwrap_used, reason = "an example may stop anywhere")]

use manycore_linux::{child, clock, process_memory, tasks};
use manycore_top::{Picture, Sample, Sampler, SamplerOptions};
use manycore_topology::{Machine, SysTree, read};
use std::{
    collections::BTreeSet,
    env, fs,
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Seconds of a round, rounds, and seconds before the first one.
const SECONDS: usize = 6;
const ROUNDS: usize = 3;
const WARMUP: usize = 3;

/// A command that ends with this process or before, as its standard input is closed.
struct Started(Child);

impl Started {
    fn new(program: &str, arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("TERM", "xterm").env("HTOPRC", "/dev/null").spawn().ok().map(Self)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts threads that sleep, and some that wake up a hundred times a second; ends when its input is closed.
fn sleep(threads: usize, active: usize) {
    for index in 0..threads.saturating_sub(1) {
        let body = move || loop {
            thread::sleep(Duration::from_millis(if index < active { 10 } else { 1_000_000 }));
        };
        thread::Builder::new().stack_size(16 << 10).spawn(body).unwrap();
    }
    let _ = std::io::stdin().read(&mut [0]);
}

struct Row {
    name: &'static str,
    sampler: Sampler,
    samples: [Sample; 2],
    ms: Vec<f64>,
}

impl Row {
    fn new(name: &'static str, options: SamplerOptions) -> Self {
        let sampler = Sampler::new(Path::new("/"), options).unwrap();
        Self { name, sampler, samples: Default::default(), ms: Vec::new() }
    }

    /// Takes a sample and a picture; returns the number of tasks.
    fn step(&mut self, machine: &Machine) -> usize {
        let before = clock::thread_cpu();
        self.samples.swap(0, 1);
        self.sampler.sample(&mut self.samples[1]).unwrap();
        let picture = Picture::new(machine, &self.samples[0], &self.samples[1]);
        self.ms.push(clock::thread_cpu().saturating_sub(before).as_secs_f64() * 1e3);
        picture.map_or(0, |picture| picture.tasks.len())
    }
}

/// Returns the mean and a text with it. A peer's update may fall outside of a second, and the next one into it.
fn summary(values: &[f64]) -> (f64, String) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (low, high) =
        values.iter().fold((f64::MAX, 0.0_f64), |(low, high), &one| (low.min(one), high.max(one)));
    (mean, format!("{mean:7.2} ms ({low:.2} to {high:.2})"))
}

/// Returns the program that a shell below `script` has become.
fn below(pid: u32, name: &str) -> Option<u32> {
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        let all = tasks::with_descendants(&[pid]);
        if let Some(found) = all.into_iter().find(|&pid| tasks::name(pid).as_deref() == Some(name)) {
            return Some(found);
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Another program that shows tasks once a second.
struct Peer {
    name: &'static str,
    _started: Option<Started>,
    pid: Option<u32>,
    clock_ns: Option<u64>,
    ms: Vec<f64>,
}

impl Peer {
    fn new(name: &'static str, started: Option<Started>, pid: Option<u32>) -> Self {
        Self { name, _started: started, pid, clock_ns: None, ms: Vec::new() }
    }

    /// Starts a program in a terminal of its own. A program that is not installed has no figures.
    fn in_terminal(name: &'static str, process: &str, command: &str) -> Self {
        let line = format!("stty rows 50 cols 150; exec {command}");
        let started = Started::new("script", &["-qc", &line, "/dev/null"]);
        let pid = started.as_ref().and_then(|one| below(one.0.id(), process));
        Self::new(name, started, pid)
    }

    /// Notes the CPU time since the last call.
    fn step(&mut self) {
        let now = self.pid.and_then(clock::process_cpu_ns);
        self.ms.extend(self.clock_ns.zip(now).map(|(old, now)| (now - old) as f64 / 1e6));
        self.clock_ns = now;
    }
}

/// Starts the programs beside which samples are measured. `settings` is an empty directory.
fn peers(settings: &Path) -> Vec<Peer> {
    fs::create_dir(settings.join("btop")).unwrap();
    fs::write(settings.join("btop/btop.conf"), "update_ms=1000\n").unwrap();
    fs::write(settings.join("bottom.toml"), "").unwrap();
    let settings = settings.display();
    let top = Started::new("top", &["-H", "-b", "-d", "1"]);
    let top_pid = top.as_ref().map(|top| top.0.id());
    let bottom = format!("btm --config_location {settings}/bottom.toml --rate 1000");
    let manycore = env::var("MANYCORE").unwrap_or_else(|_| "manycore".to_owned());
    vec![
        Peer::in_terminal("manycore top", "manycore", &format!("{manycore} top")),
        Peer::in_terminal("htop", "htop", "htop -d 10"),
        // These two show processes only, without their threads.
        Peer::in_terminal("btop", "btop", &format!("env XDG_CONFIG_HOME={settings} btop --utf-force")),
        Peer::in_terminal("btm", "btm", &bottom),
        Peer::in_terminal("btm --get_threads", "btm", &format!("{bottom} --get_threads")),
        Peer::in_terminal("below", "below", "below live --interval-s 1"),
        Peer::new("top -H -b", top, top_pid),
    ]
}

/// Starts the threads, and waits until they are there.
fn start_threads(processes: usize, threads: usize, active: usize) -> Vec<Started> {
    let own = env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let of = |index: usize| if index == 0 { active.to_string() } else { "0".to_owned() };
    let start = |index| Started::new(own, &["--sleep", &threads.to_string(), &of(index)]).unwrap();
    let started = (0..processes).map(start).collect();
    while tasks::all().iter().map(|&pid| tasks::threads(pid).len()).sum::<usize>() < processes * threads {
        thread::sleep(Duration::from_millis(100));
    }
    started
}

fn measure(machine: &Machine, processes: usize, threads: usize, active: usize) {
    let _sleepers = start_threads(processes, threads, active);
    let settings = tempfile::tempdir().unwrap();
    let mut peers = peers(settings.path());
    let default = SamplerOptions::default();
    let few = SamplerOptions { most_open: 32, ..default };
    let mut rows = [Row::new("default", default), Row::new("32 open files", few)];
    let mut tasks = 0;
    for second in 0..=WARMUP + SECONDS * ROUNDS {
        let began = Instant::now();
        peers.iter_mut().for_each(Peer::step);
        if second == WARMUP {
            for peer in &mut peers {
                peer.ms.clear();
            }
            for row in &mut rows {
                row.ms.clear();
            }
        }
        for row in &mut rows {
            tasks = row.step(machine);
        }
        thread::sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
    }
    println!("{processes} processes with {threads} threads, {active} of them active; {tasks} tasks in all");
    report(&peers, &rows);
    println!("  resident, both samplers and their samples: {:.1} MiB", resident_mib(std::process::id()));
}

/// Returns the resident memory of a process in MiB.
fn resident_mib(pid: u32) -> f64 {
    process_memory::read(&BTreeSet::from([pid])).rss_bytes as f64 / f64::from(1 << 20)
}

fn report(peers: &[Peer], rows: &[Row]) {
    for peer in peers {
        let memory = peer.pid.map_or(0.0, resident_mib);
        let text = format!("{}, {memory:.1} MiB resident", summary(&peer.ms).1);
        println!("  {:24} {}", peer.name, if peer.ms.is_empty() { "not installed" } else { &text });
    }
    let own = peers.iter().take(1).filter(|own| !own.ms.is_empty()).map(|own| (own.name, &own.ms));
    for (name, ms) in rows.iter().map(|row| (row.name, &row.ms)).chain(own) {
        println!("  {name:24} {}", summary(ms).1);
        for peer in peers.iter().filter(|peer| peer.name != name && !peer.ms.is_empty()) {
            let (middle, low, high) = ratios(ms, &peer.ms);
            println!("    {middle:.3} of {} ({low:.3} to {high:.3} in {ROUNDS} rounds)", peer.name);
        }
    }
}

/// Returns the ratio of the sums, and the smallest and largest ratio of a round.
fn ratios(own: &[f64], peer: &[f64]) -> (f64, f64, f64) {
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    let rounds = own.chunks(SECONDS).zip(peer.chunks(SECONDS)).take(ROUNDS);
    let (low, high) = rounds
        .map(|(own, peer)| sum(own) / sum(peer))
        .fold((f64::MAX, 0.0_f64), |all, one| (all.0.min(one), all.1.max(one)));
    (sum(own) / sum(peer), low, high)
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [first, threads, active] = &arguments[..]
        && first == "--sleep"
    {
        return sleep(threads.parse().unwrap(), active.parse().unwrap());
    }
    child::allow_many_files();
    let machine = read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
    let counts: Vec<usize> = arguments.iter().map(|count| count.parse().unwrap()).collect();
    for count in if counts.is_empty() { vec![1000, 10_000] } else { counts } {
        measure(&machine, 1, count, 10);
        measure(&machine, count.div_ceil(100), 100, 10);
    }
}
