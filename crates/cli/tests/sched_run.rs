//! Tests of `sched run`, mostly `--with affinity`, with the real binary on real processes. Each core is a unit, because
//! every machine with two cores has two of them.

use crate::common;
use crate::common::place::{KillOnDrop, TestHome, is_on, soon};
use manycore_linux::{affinity, tasks};
use manycore_topology::{CpuSet, SysTree};
use rustix::process::Signal;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

const RUN: [&str; 7] = ["sched", "run", "--with", "affinity", "--level", "core", "--interval=100ms"];

/// A shell that spins.
const SPIN: &str = "while :; do :; done";

/// Returns the CPUs that the tests may use, if they are in at least two cores.
fn two_cores() -> Option<CpuSet> {
    let cpus = common::allowed();
    let machine = manycore_topology::read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
    let usable = cpus.difference(&machine.isolated);
    let cores = machine.cores.iter().filter(|core| core.cpus.intersects(&usable)).count();
    if cores < 2 {
        println!("SKIPPED: needs two cores");
        return None;
    }
    Some(cpus)
}

fn shell(script: &str) -> KillOnDrop {
    KillOnDrop(Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap())
}

/// Starts `sched run` for a process, with the policy that confines every busy thread.
fn pack(home: &TestHome, pid: u32, options: &[&str]) -> KillOnDrop {
    let pid = pid.to_string();
    let arguments = [&RUN[..], &["--policy", "pack", "--pid", &pid], options].concat();
    KillOnDrop(home.command(&arguments).spawn().unwrap())
}

fn is_confined(pid: u32, cpus: &CpuSet) -> bool {
    affinity::of_thread(pid).is_ok_and(|now| now.len() < cpus.len())
}

/// Starts a command whose standard error goes to the file `said`.
fn start_saying(home: &TestHome, arguments: &[&str]) -> KillOnDrop {
    let file = fs::File::create(home.path("said")).unwrap();
    KillOnDrop(home.command(arguments).stderr(file).spawn().unwrap())
}

fn said(home: &TestHome) -> String {
    fs::read_to_string(home.path("said")).unwrap()
}

fn ended(child: &mut Child) -> (Option<i32>, String) {
    let status = child.wait().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    (status.code(), said)
}

#[test]
fn a_busy_process_is_confined_and_gets_its_cpus_back_on_a_signal() {
    let Some(cpus) = two_cores() else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (home, busy) = (TestHome::new(), shell(SPIN));
        let mut run = pack(&home, busy.pid(), &["--verbose"]);
        soon("the affinity", || is_confined(busy.pid(), &cpus));
        let listed = home.run(&["undo", "--list"]);
        let listed = common::text(&listed.stdout);
        assert!(listed.contains("running: sched run --with affinity --policy pack --pid"), "{listed}");
        run.signal(signal);
        let (code, said) = ended(&mut run.0);
        assert_eq!(code, Some(0), "{said}");
        assert!(is_on(busy.pid(), &cpus) && home.is_clean(), "{said}");
        for words in
            ["1 busy thread in 1 of ", " is held on CPU", "affinities of 1 thread changed", "per second"]
        {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}

#[test]
fn a_killed_run_leaves_nothing() {
    let Some(cpus) = two_cores() else { return };
    let (home, busy) = (TestHome::new(), shell(SPIN));
    for _ in 0..5 {
        let mut run = pack(&home, busy.pid(), &[]);
        soon("the affinity", || is_confined(busy.pid(), &cpus));
        run.signal(Signal::KILL);
        run.0.wait().unwrap();
        soon("the cleanup process", || is_on(busy.pid(), &cpus) && home.is_clean());
    }
}

#[test]
fn undo_restores_what_a_run_left_that_was_killed_with_its_cleanup_process() {
    let Some(cpus) = two_cores() else { return };
    let (home, busy) = (TestHome::new(), shell(SPIN));
    let mut run = pack(&home, busy.pid(), &[]);
    soon("the affinity", || is_confined(busy.pid(), &cpus));
    for pid in tasks::with_descendants(&[run.pid()]).into_iter().filter(|pid| *pid != run.pid()) {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    assert!(is_confined(busy.pid(), &cpus));
    let undone = common::text(&home.run(&["undo"]).stdout);
    assert!(undone.contains("1 task: CPUs restored"), "{undone}");
    assert!(is_on(busy.pid(), &cpus) && home.is_clean());
}

#[test]
fn children_of_a_confined_thread_are_not_confined() {
    let Some(cpus) = two_cores() else { return };
    let home = TestHome::new();
    let busy = shell("while :; do sleep 1000 & i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; done");
    let mut run = pack(&home, busy.pid(), &[]);
    soon("the affinity", || is_confined(busy.pid(), &cpus));
    let before = tasks::children(busy.pid()).len();
    soon("later children with all CPUs", || {
        let children = tasks::children(busy.pid());
        children.len() > before + 2 && children.iter().take(before + 2).all(|pid| is_on(*pid, &cpus))
    });
    busy.signal(Signal::STOP);
    run.signal(Signal::TERM);
    assert_eq!(ended(&mut run.0).0, Some(0));
    for pid in tasks::with_descendants(&[busy.pid()]) {
        assert!(is_on(pid, &cpus), "{pid}");
    }
}

#[test]
fn an_affinity_of_its_own_is_left_alone_and_said() {
    let Some(cpus) = two_cores() else { return };
    let (home, busy) = (TestHome::new(), shell(SPIN));
    let pid = busy.pid().to_string();
    let mut run = start_saying(&home, &[&RUN[..], &["--policy", "pack", "--pid", &pid]].concat());
    soon("the affinity", || is_confined(busy.pid(), &cpus));
    let given = affinity::of_thread(busy.pid()).unwrap();
    let other = CpuSet::single(cpus.difference(&given).first().unwrap());
    affinity::restrict(busy.pid(), &other).unwrap();
    soon("the report", || said(&home).contains("left alone"));
    run.signal(Signal::TERM);
    assert_eq!(run.0.wait().unwrap().code(), Some(0));
    let said = said(&home);
    assert!(said.contains(&format!("sh (pid {pid}) was given CPUs {other} by itself")), "{said}");
    assert!(said.contains("by another program: left unchanged"), "{said}");
    assert!(is_on(busy.pid(), &other) && home.is_clean());
}

#[test]
fn it_ends_with_the_last_process_and_works_by_name() {
    if two_cores().is_none() {
        return;
    }
    let home = TestHome::new();
    let name = format!("mc{}", std::process::id());
    // A copy could be open for writing in a child of another test.
    std::os::unix::fs::symlink("/bin/sleep", home.path(&name)).unwrap();
    let start = || KillOnDrop(Command::new(home.path(&name)).arg("1000").spawn().unwrap());
    let sleepers = [start(), start()];
    soon("the names", || sleepers.iter().all(|one| tasks::name(one.pid()).as_deref() == Some(&name)));
    let arguments = [&RUN[..], &["--name", &name]].concat();
    let mut run = start_saying(&home, &arguments);
    soon("the start", || said(&home).contains("until all processes have ended"));
    drop(sleepers);
    assert_eq!(run.0.wait().unwrap().code(), Some(0));
    assert!(said(&home).contains("affinities of 0 threads changed") && home.is_clean());
    assert!(home.stderr_of(2, &arguments).contains(&format!("no process is named \"{name}\"")));
}

#[test]
fn a_command_keeps_its_exit_status_and_gets_signals() {
    if two_cores().is_none() {
        return;
    }
    let home = TestHome::new();
    let of = |script: &str| [&RUN[..], &["--quiet", "--", "sh", "-c", script]].concat().join("\x1f");
    let words = |line: String| -> Vec<String> { line.split('\x1f').map(str::to_owned).collect() };
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        let arguments = words(of(script));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(home.stderr_of(code, &arguments), "", "{script}");
    }
    let arguments = words(of("trap 'exit 9' TERM; echo ready; while :; do :; done"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut run = KillOnDrop(home.command(&arguments).spawn().unwrap());
    assert_eq!(run.line(), "ready");
    run.signal(Signal::TERM);
    assert_eq!(run.0.wait().unwrap().code(), Some(9));
    assert!(home.is_clean());
    let missing = [&RUN[..], &["--", "/no/such/program"]].concat();
    assert!(home.stderr_of(3, &missing).contains("there is no such program") && home.is_clean());
}

#[test]
fn wrong_requests_change_nothing_and_say_what_to_do() {
    let home = TestHome::new();
    let with = |more: &[&'static str]| [&RUN[..], more].concat();
    assert!(home.stderr_of(2, &with(&[])).contains("give --pid, --name, --cgroup, or a command after --"));
    let auto = with(&["--policy", "auto", "--", "true"]);
    assert!(home.stderr_of(2, &auto).contains("give spread or pack"));
    assert!(home.stderr_of(2, &with(&["--cgroup", "/a=b"])).contains("write spread, pack or auto"));
    assert!(home.stderr_of(2, &with(&["--name", ""])).contains("--name"));
    if two_cores().is_some() {
        assert!(home.stderr_of(2, &with(&["--pid", "4194304"])).contains("there is no process 4194304"));
        assert!(home.stderr_of(2, &with(&["--cgroup", "/none/such"])).contains("control group"));
    }
    assert!(home.is_clean());
}

#[test]
fn without_sched_ext_it_names_affinities() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        return eprintln!("SKIPPED: this kernel has sched_ext");
    }
    let home = TestHome::new();
    let error = home.stderr_of(3, &["sched", "run"]);
    assert!(error.contains("sched_ext") || error.contains("clang"), "{error}");
    assert!(error.contains("--with affinity") && home.is_clean(), "{error}");
}

#[test]
fn a_process_of_another_user_is_refused() {
    if two_cores().is_none() {
        return;
    }
    let home = TestHome::new();
    let journals = home.path("own");
    fs::create_dir(&journals).unwrap();
    if std::os::unix::fs::chown(&journals, Some(65534), Some(65534)).is_err() {
        return println!("SKIPPED: needs root");
    }
    fs::set_permissions(home.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let foreign = shell("sleep 1000");
    let mut user = common::unprivileged();
    user.args(RUN).args(["--pid", &foreign.pid().to_string()]).env("MANYCORE_STATE", &journals);
    let run = user.output().unwrap();
    let said = common::text(&run.stderr);
    if said.contains("Permission denied") && said.contains("setpriv") {
        return println!("SKIPPED: another user cannot run what was built here");
    }
    assert_eq!(run.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("(pid {}) may not be changed", foreign.pid())), "{said}");
    assert!(said.contains("Operation not permitted") && said.contains("run manycore as root"), "{said}");
    assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);
}
