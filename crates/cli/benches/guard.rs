//! Measures the CPU time and memory of the idle guard beside 2,000 processes, as `manycore guard` and as
//! `manycore-guard`, and of earlyoom in the same minute if it is installed. Also measures the time from crossing
//! a limit to the end of a memory hog, in a control group under contention for page cache.
//!
//! The memory hog logs when it had how much memory. Its last line shows how long it ran. The result is thus
//! measured by the memory hog, not reported by the guard.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_linux::clock::{now_ns, process_cpu_ns};
use manycore_stats::quantile;
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Number of sleeping processes.
const SLEEPERS: usize = 2_000;
/// Seconds over which CPU time is measured at once, unless `SECONDS` says otherwise.
const SECONDS: u64 = 60;
/// Number of such measurements, unless `WINDOWS` says otherwise.
const WINDOWS: usize = 1;
/// Number of memory hogs, unless `RUNS` says otherwise.
const RUNS: usize = 20;
/// Limit of the group in MiB.
const LIMIT: u64 = 256;
/// SIGTERM is sent below this share of the limit, in percent: the default.
const TERM_PERCENT: u64 = 10;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("sleep") => loop {
            thread::park();
        },
        Some("eat") => eat(&words[2]),
        _ => {}
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let windows = number("WINDOWS").unwrap_or(WINDOWS as u64) as usize;
    measure_idle(number("SECONDS").unwrap_or(SECONDS), windows);
    measure_reaction(number("RUNS").unwrap_or(RUNS as u64) as usize);
}

fn this() -> PathBuf {
    std::env::current_exe().expect("this program")
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn measure_idle(seconds: u64, windows: usize) {
    let mut sleepers: Vec<Child> =
        (0..SLEEPERS).map(|_| Command::new(this()).arg("sleep").spawn().expect("a process")).collect();
    let state = tempfile::tempdir().expect("a folder");
    let mut all = vec![("manycore guard", guard(state.path(), &[]))];
    let own = tempfile::tempdir().expect("a folder");
    match small_guard().map(|program| start(Command::new(program), own.path())) {
        Some(child) => all.push(("manycore-guard", child)),
        None => {
            println!(
                "SKIPPED: manycore-guard: build it with cargo build --profile small, or set GUARD to it"
            );
        }
    }
    let earlyoom =
        Command::new("earlyoom").args(["-r", "0"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match earlyoom {
        Ok(child) => all.push(("earlyoom", child)),
        Err(error) => println!("SKIPPED: comparison with earlyoom: {error}"),
    }
    // By then all processes are known.
    thread::sleep(Duration::from_secs(20));
    let cpu = |child: &Child| process_cpu_ns(child.id()).expect("it runs");
    let mut shares: Vec<Vec<f64>> = vec![Vec::new(); all.len()];
    for _ in 0..windows {
        let before: Vec<u64> = all.iter().map(|(_, child)| cpu(child)).collect();
        thread::sleep(Duration::from_secs(seconds));
        for ((shares, (_, child)), before) in shares.iter_mut().zip(&all).zip(before) {
            shares.push((cpu(child) - before) as f64 / (seconds as f64 * 1e9) * 100.0);
        }
    }
    for ((name, child), shares) in all.iter().zip(shares) {
        let at = |share| quantile(&shares, share).unwrap_or(f64::NAN);
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("?").trim();
        println!(
            "{name} at rest beside {SLEEPERS} processes: {:.4} % of one CPU ({:.4} to {:.4}, {windows} times \
             {seconds} s), {resident} resident",
            at(0.5),
            at(0.0),
            at(1.0),
        );
    }
    for (_, child) in &mut all {
        end(child);
    }
    sleepers.iter_mut().for_each(end);
}

fn guard(state: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manycore"));
    command.arg("guard").args(words);
    start(command, state)
}

fn start(mut command: Command, state: &Path) -> Child {
    command.env("MANYCORE_STATE", state);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the guard starts")
}

/// Returns the program that holds nothing but the guard: `GUARD`, or the one in the same target directory.
fn small_guard() -> Option<PathBuf> {
    let usual =
        || Some(Path::new(env!("CARGO_BIN_EXE_manycore")).ancestors().nth(2)?.join("small/manycore-guard"));
    let program = std::env::var_os("GUARD").map(PathBuf::from).or_else(usual)?;
    program.is_file().then_some(program)
}

/// A control group with a limit, in which two processes read a file that is larger than it, so that they
/// compete for every page.
struct ContendedGroup {
    group: PathBuf,
    name: String,
    folder: tempfile::TempDir,
    readers: Vec<Child>,
}

impl ContendedGroup {
    fn open() -> std::io::Result<Self> {
        let mount = Path::new("/sys/fs/cgroup/memory");
        let (mount, limit) = if mount.exists() {
            (mount, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let name = format!("manycore-bench-{}", std::process::id());
        let group = mount.join(&name);
        fs::create_dir(&group)?;
        let mut arena = Self { group, name, folder: tempfile::tempdir()?, readers: Vec::new() };
        fs::write(arena.group.join(limit), (LIMIT << 20).to_string())?;
        let big = arena.folder.path().join("big");
        File::create(&big)?.set_len((2 * LIMIT) << 20)?;
        let read = format!("while :; do cat {} >/dev/null; done", big.display());
        arena.readers = (0..2).map(|_| enter(&arena.group, "sh", &["-c", &read])).collect();
        Ok(arena)
    }

    /// Returns when a memory hog had how much, in nanoseconds and MiB, until its end.
    fn eat(&self) -> Vec<(u64, u64)> {
        let log = Path::new("/dev/shm").join(&self.name);
        let words = ["eat", log.to_str().expect("a path")];
        let mut eater = enter(&self.group, this().to_str().expect("a path"), &words);
        eater.wait().expect("it ends");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(&log);
        let point = |line: &str| {
            let (at, mib) = line.split_once(' ')?;
            Some((at.parse().ok()?, mib.parse().ok()?))
        };
        text.lines().filter_map(point).collect()
    }
}

impl Drop for ContendedGroup {
    fn drop(&mut self) {
        self.readers.iter_mut().for_each(end);
        while fs::remove_dir(&self.group).is_err() {
            for pid in fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = Command::new("kill").args(["-KILL", pid]).status();
            }
            thread::yield_now();
        }
    }
}

fn measure_reaction(runs: usize) {
    let arena = match ContendedGroup::open() {
        Ok(arena) => arena,
        Err(error) => {
            return println!(
                "SKIPPED: time from a limit to the signal: no control group can be created: {error}"
            );
        }
    };
    let path = format!("/{}", arena.name);
    let events = arena.folder.path().join("events");
    let words = ["--cgroup", &path, "--events", events.to_str().expect("a path")];
    let mut guard = guard(arena.folder.path(), &words);
    thread::sleep(Duration::from_secs(2));
    let (mut after, mut left) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let points = arena.eat();
        let Some(&(last, most)) = points.last() else { continue };
        let level = LIMIT * (100 - TERM_PERCENT) / 100;
        left.push(LIMIT as f64 - most as f64);
        let crossed = points.iter().find(|(_, mib)| *mib >= level);
        after.push(crossed.map_or(0.0, |&(at, _)| (last - at) as f64 / 1e6));
        thread::sleep(Duration::from_millis(500));
    }
    end(&mut guard);
    let lines = fs::read_to_string(&events).unwrap_or_default();
    let signals: Vec<f64> = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["event"] == "kill" || line["event"] == "term")
        .filter_map(|line| line["after_ms"].as_f64())
        .collect();
    print_quantiles("from the reading to the signal (reported by the guard), ms", &signals);
    print_quantiles(
        "time beyond the first limit (measured by the memory hog; 0: limit not reached), ms",
        &after,
    );
    print_quantiles("memory left at its end, MiB", &left);
}

fn print_quantiles(what: &str, values: &[f64]) {
    let at = |share| quantile(values, share).unwrap_or(f64::NAN);
    println!(
        "{what}: median {:.1}, 90 % {:.1}, most {:.1} ({} values)",
        at(0.5),
        at(0.9),
        at(1.0),
        values.len()
    );
}

/// Starts a program in a control group.
fn enter(group: &Path, program: &str, words: &[&str]) -> Child {
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.display());
    Command::new("sh")
        .args(["-c", &enter, program])
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .expect("a process")
}

/// Allocates memory as fast as possible, and logs each MiB.
fn eat(log: &str) -> ! {
    let mut log = File::create(log).expect("a log");
    let mut held = Vec::new();
    for mib in 1u64.. {
        held.push(vec![1u8; 1 << 20]);
        let _ = writeln!(log, "{} {mib}", now_ns());
    }
    unreachable!("{}", held.len())
}
