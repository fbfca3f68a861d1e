//! Helpers for tests of `compare`, `scale` and `tune`: runs in a directory of their own, and checks of what
//! they leave behind.

use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Maximum waiting time.
const MAX_WAIT: Duration = Duration::from_mins(3);

/// A working directory; results go to `out` in it.
pub struct WorkFolder(pub TempDir);

impl WorkFolder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        let (subcommand, rest) = arguments.split_first().unwrap();
        command.arg(subcommand);
        if *subcommand != "report" {
            command.args(["--out", "out", "--force"]);
        }
        command.args(rest).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs `manycore SUBCOMMAND --out out --force ARGUMENTS` to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// [`WorkFolder::run`] with a default of the budget, which gives way on a machine where runs take longer than planned.
    pub fn run_within(&self, budget: &str, arguments: &[&str]) -> Output {
        self.command(arguments).env("MANYCORE_BUDGET", budget).output().unwrap()
    }

    /// [`WorkFolder::run`] that must end with `code`; returns its standard error.
    pub fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        let said = words(&run);
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(!self.path("out").exists(), "{arguments:?} left a directory without results");
        said
    }

    /// [`WorkFolder::run`] that must succeed; returns its result.
    pub fn evaluated(&self, arguments: &[&str]) -> Value {
        evaluation(&self.run(&in_json(arguments)))
    }

    /// [`WorkFolder::run_within`] that must succeed; returns its result.
    pub fn evaluated_within(&self, budget: &str, arguments: &[&str]) -> Value {
        evaluation(&self.run_within(budget, &in_json(arguments)))
    }

    /// Starts a run.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub fn record(&self) -> Value {
        super::schema::parse("record", fs::read(self.path("out/record.json")).unwrap())
    }

    /// Runs `manycore report` on the record for text, page and tables; returns the text.
    pub fn report(&self) -> String {
        let run = self.run(&["report", "out/record.json", "--html", "page.html", "--csv", "tables"]);
        assert_eq!(run.status.code(), Some(0), "{}", words(&run));
        assert!(fs::read_to_string(self.path("page.html")).unwrap().contains("</html>"));
        assert!(fs::read_to_string(self.path("tables/samples.csv")).unwrap().lines().count() > 1);
        String::from_utf8(run.stdout).unwrap()
    }
}

fn in_json<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&arguments[..1], &["--format", "json"], &arguments[1..]].concat()
}

fn evaluation(run: &Output) -> Value {
    assert_eq!(run.status.code(), Some(0), "{}", words(run));
    super::schema::parse("evaluation", &run.stdout)
}

pub fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a time for `sleep` that no other process has as its argument.
pub fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1000);
    format!("{}.{}", 10_000_000 + u64::from(std::process::id()), NEXT.fetch_add(1, Relaxed))
}

/// Returns running processes with `argument` among their arguments, without shells and programs that will
/// start them.
pub fn running(argument: &str) -> Vec<u32> {
    let has_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let program = words.next().unwrap_or_default();
        !program.ends_with(b"manycore") && words.any(|word| word == argument.as_bytes())
    };
    let all = fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).filter(has_it).collect()
}

/// Waits until `condition` holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + MAX_WAIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {MAX_WAIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a run that must not hang; returns its exit code, its standard error, and the largest
/// resident set size in bytes that was observed.
pub fn end_of(mut child: Child) -> (Option<i32>, String, u64) {
    let (mut largest, pid) = (0, child.id());
    // Its output fits into a pipe, so it does not block.
    until("the end of a run", || {
        largest = largest.max(high_water(pid));
        child.try_wait().unwrap().is_some()
    });
    let run = child.wait_with_output().unwrap();
    (run.status.code(), words(&run), largest)
}

fn high_water(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Whether a program is installed; reports it if not.
pub fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&paths).chain([Path::new("/usr/sbin").to_owned()]);
    let found = there.into_iter().any(|folder| folder.join(program).exists());
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// Returns the findings of a result as one text.
pub fn findings(result: &Value) -> String {
    result["findings"].to_string()
}
