//! Tests of `run` with processes that leave their parents: daemons, zombies, and processes that were not
//! observed.

use crate::common::place::{KillOnDrop, TestHome, is_on, last, soon, two_cpus};
use manycore_linux::{affinity, tasks};
use manycore_topology::CpuSet;
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, process::Command};

/// Python code that starts a textbook daemon, with an empty environment. The daemon writes its id to the
/// file `daemon`, then executes `arguments`.
const DAEMON: &str = "
import os
def daemon(arguments):
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open('/dev/null', os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    with open('daemon.part', 'w') as file:
        file.write(str(os.getpid()))
    os.rename('daemon.part', 'daemon')
    os.execve(arguments[0], arguments, {})
";

fn has_python() -> bool {
    let has = Command::new("python3").arg("-V").output().is_ok();
    if !has {
        eprintln!("SKIPPED: needs python3");
    }
    has
}

/// Returns the id of the daemon once it runs this program.
fn daemon(home: &TestHome, name: &str) -> u32 {
    let read = || fs::read_to_string(home.path("daemon")).ok()?.parse::<u32>().ok();
    soon("a daemon", || read().is_some_and(|pid| tasks::name(pid).as_deref() == Some(name)));
    read().unwrap()
}

fn end(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
}

/// Returns a command that runs this Python program on the last CPU under `run`.
fn python(home: &TestHome, cpus: &CpuSet, options: &[&str], program: &str) -> Command {
    let place = format!("cpus={}", last(cpus));
    let program = format!("{DAEMON}{program}");
    let fixed = ["run", "--place", &place, "--workers", "1"];
    home.command(&[&fixed[..], options, &["--", "python3", "-c", &program]].concat())
}

#[test]
fn zombies_are_not_running_tasks() {
    let (Some(cpus), true) = (two_cpus(), has_python()) else { return };
    let home = TestHome::new();
    // The zombies are not reaped and stay until their parent ends.
    let program = "
for i in range(13):
    if os.fork() == 0:
        os._exit(0)
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
";
    let run = python(&home, &cpus, &[], program).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(0), "{said}");
    assert!(!said.contains("keep creating new tasks") && !said.contains("left running"), "{said}");
    assert!(home.is_clean());

    // Zombies of a program that keeps running.
    let program = "
for i in range(13):
    if os.fork() == 0:
        os._exit(0)
print(flush=True)
import time
time.sleep(1000)
";
    let mut run = KillOnDrop(python(&home, &cpus, &[], program).spawn().unwrap());
    run.line();
    let python = tasks::children(run.pid())[0];
    let zombies = || tasks::children(python).into_iter().filter(|pid| !tasks::is_alive(*pid)).count();
    soon("zombies", || zombies() == 13);
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    let undo = home.run(&["undo"]);
    let told = String::from_utf8_lossy(&undo.stdout).into_owned();
    end(python);
    assert_eq!(undo.status.code(), Some(0), "{told}");
    assert!(told.contains("1 task: CPUs restored"), "{told}");
    assert!(home.is_clean());
}

#[test]
fn a_daemon_gets_its_cpus_back() {
    let (Some(cpus), true) = (two_cpus(), has_python()) else { return };
    for options in [&[][..], &["--hold", "affinity"]] {
        for _ in 0..6 {
            let home = TestHome::new();
            // The command ends while its daemon is still being created.
            let program = "daemon(['/bin/sleep', '1000'])";
            let run = python(&home, &cpus, options, program).output().unwrap();
            let sleeper = daemon(&home, "sleep");
            let now = affinity::of_thread(sleeper).unwrap();
            end(sleeper);
            let said = String::from_utf8_lossy(&run.stderr).into_owned();
            assert_eq!((run.status.code(), &now), (Some(0), &cpus), "{options:?}: {said}");
            assert!(said.contains("left running, with their former CPUs: "), "{said}");
            assert!(home.is_clean());
        }
    }
}

#[test]
fn undo_finds_daemon_created_after_sigkill() {
    let (Some(cpus), true) = (two_cpus(), has_python()) else { return };
    for options in [&["--wait"][..], &["--wait", "--hold", "affinity"]] {
        let home = TestHome::new();
        let fifo = home.path("go");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        // The daemon's parents end before any scan finds it.
        let program = "print(flush=True)\nopen('go').read()\ndaemon(['/bin/sleep', '1000'])";
        let mut run = KillOnDrop(python(&home, &cpus, options, program).spawn().unwrap());
        run.line();
        let python = tasks::children(run.pid())[0];
        run.signal(Signal::KILL);
        run.0.wait().unwrap();
        fs::write(&fifo, "").unwrap();
        let sleeper = daemon(&home, "sleep");
        soon("the end of its parent", || !tasks::is_alive(python));
        let had_group =
            fs::read_to_string(format!("/proc/{sleeper}/cgroup")).unwrap().contains("manycore-run");
        let undo = home.run(&["undo"]);
        let told = String::from_utf8_lossy(&undo.stdout).into_owned();
        let is_free = is_on(sleeper, &cpus);
        end(sleeper);
        assert_eq!(undo.status.code(), Some(0), "{told}");
        // The daemon was either found and restored, or named in the output.
        assert_eq!(
            (is_free, told.contains("were not tracked")),
            (had_group, !had_group),
            "{options:?}: {told}"
        );
        assert!(home.is_clean());
    }
}

#[test]
fn cpu_time_of_daemons_counts_and_unobserved_time_prevents_a_verdict() {
    let (Some(cpus), true) = (two_cpus(), has_python()) else { return };
    for options in
        [&["--wait", "--trace", "stay.json"][..], &["--wait", "--trace", "stay.json", "--hold", "affinity"]]
    {
        let home = TestHome::new();
        let burn = "import time\nwhile time.process_time() < 0.5: pass";
        let program = format!("import sys\ndaemon([sys.executable, '-c', {burn:?}])\nos.wait()");
        let run = python(&home, &cpus, options, &program).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(0), "{said}");
        let stay = home.stay();
        let all = stay["cpu_ns"].as_u64().unwrap();
        let of = |task: &serde_json::Value| task["cpu_ns"].as_u64().unwrap();
        let seen: u64 = stay["tasks"].as_array().unwrap().iter().map(of).sum();
        assert!(all > 500_000_000 && seen > 50_000_000, "{all} {seen}: {said}");
    }
    let home = TestHome::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done";
    let said = home.stderr_of(1, &["run", "--check=100%", "--place", "cpus=0", "--", "sh", "-c", script]);
    assert!(said.contains("not shown that the plan held"), "{said}");
}
