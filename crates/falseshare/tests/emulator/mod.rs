//! Compiles C programs, runs them in the emulator and checks what is observed.

mod ends;
mod places;
mod sharing;

use manycore_falseshare::{
    Error,
    emulator::{Request, observe},
    sharing::{LineLayout, Observation, Process, SharedLine},
};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The beginning of all programs: two threads that take turns, so that they interact however few CPUs there are.
const TURNS: &str = r"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
#define ROUNDS 200
static struct { char apart1[256]; pthread_barrier_t barrier; char apart2[256]; } shared;
static void turn(void) { pthread_barrier_wait(&shared.barrier); }
static void both(void *(*work)(void *), void *one, void *other) {
    pthread_t threads[2];
    pthread_barrier_init(&shared.barrier, 0, 2);
    pthread_create(&threads[0], 0, work, one);
    pthread_create(&threads[1], 0, work, other);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
}
static void *add(void *counter) {
    for (int round = 0; round < ROUNDS; round++) {
        turn();
        for (int i = 0; i < 10; i++) ++*(volatile long *)counter;
    }
    return 0;
}
static void *look(void *counter) {
    for (int round = 0; round < ROUNDS; round++) {
        turn();
        for (int i = 0; i < 10; i++) (void)*(volatile long *)counter;
    }
    return 0;
}
";

/// Returns a guard if programs can be observed here, and prints why not otherwise. Tests run one at a time: processes
/// that a program leaves behind become our children and are ended, so no test may have other children meanwhile.
fn emulator_lock() -> Option<MutexGuard<'static, ()>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let probe = run(&["/bin/true"]);
    match probe {
        Err(error @ (Error::NoEmulator(_) | Error::NoPlugins(_) | Error::NoPlugin(_))) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        _ if Command::new("cc").arg("--version").output().is_err() => {
            eprintln!("SKIPPED: there is no C compiler (cc)");
            None
        }
        _ => Some(alone),
    }
}

fn request(command: &[&str]) -> Request {
    Request {
        command: command.iter().map(OsString::from).collect(),
        layouts: vec![LineLayout { line_bytes: 64, shift_bytes: 0 }],
        memory_limit_bytes: 256 << 20,
        timeout: Some(Duration::from_mins(2)),
        cleanup: None,
    }
}

fn run(command: &[&str]) -> Result<Observation, Error> {
    observe(&request(command), &|| false)
}

/// A folder with programs.
struct ProgramFolder(tempfile::TempDir);

impl ProgramFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Compiles a program that begins with [`TURNS`].
    fn program(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (path, code) = (self.path().join(name), self.path().join(format!("{name}.c")));
        fs::write(&code, format!("{TURNS}{source}")).unwrap();
        let status = Command::new("cc")
            .args(["-O1", "-g", "-pthread", "-o"])
            .arg(&path)
            .arg(&code)
            .args(options)
            .status()
            .unwrap();
        assert!(status.success(), "cc {name}");
        path
    }

    /// Compiles and observes a program.
    fn observe(&self, name: &str, source: &str, options: &[&str]) -> Observation {
        let path = self.program(name, source, options);
        run(&[path.to_str().unwrap()]).unwrap()
    }
}

/// Returns the lines of a process with at least half as many transfers as two threads had turns.
fn hot(process: &Process) -> Vec<&SharedLine> {
    process.lines.iter().filter(|line| line.transfers >= 100).collect()
}

/// Returns the hot lines without the barrier's, which is shared on purpose.
fn false_transfers(process: &Process) -> Vec<&SharedLine> {
    hot(process).into_iter().filter(|line| line.false_transfers * 2 > line.transfers).collect()
}

/// Returns the process of a program.
fn process<'a>(observation: &'a Observation, name: &str) -> &'a Process {
    observation
        .processes
        .iter()
        .find(|process| Path::new(&process.program).file_name().is_some_and(|file| file == name))
        .unwrap_or_else(|| panic!("no {name} in {observation:?}"))
}
