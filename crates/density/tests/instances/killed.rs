//! Programs with instances that are killed: nothing of them is left.

use super::{
    common::{DAEMON, is_alive, journals, service, until},
    container, domain,
};
use manycore_control::{
    cleanup::{self, Program},
    journal::{self, UndoResult},
};
use manycore_density::instances::{Instances, Safeguard, ServiceSpec};
use manycore_linux::{child, tasks};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    env, fs,
    io::{BufRead, BufReader, Lines},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The kind of the instances of [`a_program_with_instances`].
pub const KIND: &str = "MANYCORE_DENSITY_TEST_KIND";

/// Not a test: a program that starts, pauses and resumes instances until it is killed.
#[test]
#[ignore = "other tests start it"]
fn a_program_with_instances() {
    let Ok(kind) = env::var(KIND) else { return };
    let arguments = ["--ignored", "--exact", "instances::killed::a_cleanup_process", "--nocapture"];
    let cleanup = Program { path: "/proc/self/exe".into(), arguments: arguments.map(Into::into).to_vec() };
    let (spec, count) = match kind.as_str() {
        "container" => (container::spec(3), 3),
        "domain" => (domain::spec(&env::var(domain::URI).unwrap()), 1),
        _ => (service(&DAEMON, 3), 3),
    };
    let safeguard = Safeguard { journals: journal::folder(), cleanup };
    let mut instances = Instances::new(ServiceSpec { safeguard: Some(safeguard), ..spec });
    loop {
        instances.set_active(count).unwrap();
        let all: Vec<String> = instances.processes().concat().iter().map(u32::to_string).collect();
        println!("@ {}", all.join(" "));
        instances.set_active(count / 2).unwrap();
        println!("@ paused");
    }
}

/// Not a test: its cleanup process.
#[test]
#[ignore = "a_program_with_instances starts it"]
fn a_cleanup_process() {
    if env::var(KIND).is_ok() {
        cleanup::run(std::io::stdin().lock(), &|_| {});
    }
}

/// That program, with journals in a directory of its own.
pub struct ProgramWithInstances {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl ProgramWithInstances {
    pub fn start(kind: &str, folder: &Path) -> Self {
        Self::start_with(kind, folder, &[])
    }

    pub fn start_with(kind: &str, folder: &Path, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "instances::killed::a_program_with_instances", "--nocapture"]);
        command.env(KIND, kind).env(journal::FOLDER_VARIABLE, folder).stdout(Stdio::piped());
        command.envs(environment.iter().copied());
        let mut program = child::spawn(&mut command).unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap()).lines();
        Self { program, lines }
    }

    /// Waits until its instances have been started and some of them paused. Returns their processes.
    pub fn paused(&mut self) -> Vec<u32> {
        let mut processes = Vec::new();
        loop {
            let line = self.lines.next().unwrap().unwrap();
            match line.split_once("@ ") {
                Some((_, "paused")) => return processes,
                Some((_, list)) => processes = list.split(' ').map(|pid| pid.parse().unwrap()).collect(),
                None => {}
            }
        }
    }

    pub fn cleanup_process(&self) -> u32 {
        let is_cleanup = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().contains("a_cleanup_process")
        };
        tasks::children(self.program.id()).into_iter().find(is_cleanup).unwrap()
    }

    pub fn kill(&mut self) {
        kill(self.program.id());
        self.program.wait().unwrap();
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

/// Undoes the journals of a directory, as `manycore undo` does.
pub fn undo(folder: &Path) -> Vec<UndoResult> {
    let pending = journal::pending(folder).unwrap().0;
    pending.iter().map(|pending| pending.undo().unwrap()).collect()
}

/// Returns the control groups whose names have the journal of a program.
fn groups_of(program: u32) -> Vec<String> {
    let mark = format!("manycore-density-{program}-");
    let (mut found, mut open) = (Vec::new(), vec![Path::new("/sys/fs/cgroup").to_owned()]);
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if path.file_name().to_string_lossy().starts_with(&mark) {
                found.push(path.path().display().to_string());
            }
            open.push(path.path());
        }
    }
    found
}

#[test]
fn the_cleanup_process_ends_the_instances_of_a_killed_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = ProgramWithInstances::start("process", folder.path());
    let processes = program.paused();
    assert!(processes.len() >= 3 && journals(folder.path()) == 1);
    let cleanup = program.cleanup_process();
    program.kill();
    until(|| !is_alive(cleanup));
    assert!(processes.into_iter().all(|pid| !is_alive(pid)));
    assert_eq!((journals(folder.path()), groups_of(program.program.id())), (0, vec![]));
}

#[test]
fn undo_ends_the_instances_of_a_program_that_was_killed_with_its_cleanup_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = ProgramWithInstances::start("process", folder.path());
    let processes = program.paused();
    kill(program.cleanup_process());
    program.kill();
    let groups = groups_of(program.program.id()).len();
    let hidden = processes.iter().copied().find(|&pid| tasks::name(pid).as_deref() == Some("sleep"));
    assert!(groups == 0 || hidden.is_some_and(is_alive), "{processes:?}");
    let restored = &undo(folder.path())[0];
    assert!(restored.failed.is_empty() && restored.processes_killed > 0, "{restored:?}");
    // There is none for each instance if none can be created here.
    assert_eq!(restored.control_groups, groups);
    assert!(processes.into_iter().all(|pid| !is_alive(pid)));
    assert_eq!((journals(folder.path()), groups_of(program.program.id())), (0, vec![]));
}

#[test]
fn nothing_is_left_of_a_program_that_is_killed_at_any_moment() {
    kill_at_any_moment("process", 4, |_| {});
}

/// Kills programs with instances, and checks that nothing is left after `undo`; `check` gets the process id of the program.
/// `MANYCORE_TEST_KILLS=50` kills so often.
pub fn kill_at_any_moment(kind: &str, kills: u32, check: impl Fn(u32)) {
    for _ in 0..env::var("MANYCORE_TEST_KILLS").map_or(kills, |text| text.parse().unwrap()) {
        let folder = tempfile::tempdir().unwrap();
        let mut program = ProgramWithInstances::start(kind, folder.path());
        let mark = format!("{}={}", journal::FOLDER_VARIABLE, folder.path().display());
        // Any moment of the start, of a pause or of the time between.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
        thread::sleep(Duration::from_micros(u64::from(now / 1000 % 1_500_000)));
        program.kill();
        until(|| !tasks::all().into_iter().any(|pid| tasks::has_environment(pid, &mark)));
        let restored = undo(folder.path());
        assert!(restored.iter().all(|restored| restored.failed.is_empty()), "{restored:?}");
        assert_eq!((journals(folder.path()), groups_of(program.program.id())), (0, vec![]));
        check(program.program.id());
    }
}
