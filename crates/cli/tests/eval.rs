//! `manycore eval` as a whole, with real workers, signals and disks.

use assert_cmd::cargo::cargo_bin;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// The shortest section with worker processes.
const PROCESSES: [&str; 3] = ["eval", "--only", "affinity"];

fn manycore() -> Command {
    let mut command = Command::new(cargo_bin("manycore"));
    command.stdin(Stdio::null());
    command
}

fn record(folder: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(folder.join("record.json")).unwrap()).unwrap()
}

/// Starts a run and returns it once it measures.
fn start(folder: &Path) -> Child {
    let mut child = manycore()
        .args(PROCESSES)
        .arg("--out")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("measuring: "), "{line}");
    child
}

/// Returns the process ids of the workers of `parent`, once there are some that have used CPU time.
fn workers(parent: u32) -> Vec<i32> {
    let mine = || -> Vec<i32> {
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| {
                let pid: i32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
                let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
                let at_work = fields[11].parse::<u64>().ok()? > 0;
                (fields[1].parse() == Ok(parent) && at_work).then_some(pid)
            })
            .collect()
    };
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let found = mine();
        if !found.is_empty() || Instant::now() > deadline {
            return found;
        }
        std::thread::yield_now();
    }
}

fn signal(pid: i32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_saves_a_record_that_report_reads_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("made/by/the/run");
    let run = manycore()
        .args(["eval", "--only", "affinity,noise", "--seed", "7", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    assert!(words(&run).contains("The report is "), "{}", words(&run));
    let record = record(&out);
    assert_eq!((&record["seed"], &record["interrupted"]), (&7.into(), &false.into()));
    let ids: Vec<&str> =
        record["experiments"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["noise", "affinity"]);
    for file in ["report.html", "noise.csv", "affinity.csv"] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let again = manycore().arg("report").arg(out.join("record.json")).output().unwrap();
    assert_eq!(again.status.code(), Some(0));
    assert_eq!(
        String::from_utf8_lossy(&again.stdout).lines().count(),
        String::from_utf8_lossy(&run.stdout).lines().count()
    );
}

#[test]
fn a_second_run_leaves_no_tables_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["noise.csv", "mine.csv"] {
        fs::write(folder.path().join(name), "threads\n").unwrap();
    }
    let measure = || {
        let mut run = manycore();
        run.args(PROCESSES).args(["--quiet", "--force", "--out"]).arg(folder.path());
        let run = run.output().unwrap();
        assert_eq!((run.status.code(), words(&run)), (Some(0), String::new()));
        assert!(String::from_utf8_lossy(&run.stdout).contains("PINNING PROCESSES"));
        let there = |name: &str| folder.path().join(name).exists();
        ["affinity.csv", "mine.csv", "noise.csv"].map(there)
    };
    assert_eq!(
        measure(),
        [true, true, true],
        "without a record, no file is known to come from an earlier run"
    );
    assert_eq!(measure(), [true, true, false]);
}

#[test]
fn an_unreadable_machine_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let hidden = "mount -t tmpfs none /sys/devices/system/cpu || exit 77; exec \"$0\" eval --out \"$1\"";
    let run = Command::new("unshare")
        .args(["--mount", "sh", "-c", hidden])
        .arg(cargo_bin("manycore"))
        .arg(&out)
        .output();
    let Some(run) = run.ok().filter(|run| !matches!(run.status.code(), Some(1 | 77))) else {
        eprintln!("SKIPPED: hiding the CPUs requires permission to mount");
        return;
    };
    assert_eq!(run.status.code(), Some(2), "{}", words(&run));
    assert!(words(&run).contains("has no CPUs"), "{}", words(&run));
    assert!(!out.exists());
}

#[test]
fn a_closed_progress_pipe_does_not_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path());
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(record(folder.path())["interrupted"], false);
}

#[test]
fn a_pinned_process_never_runs_on_another_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let run = manycore()
        .args(PROCESSES)
        .args(["--quiet", "--format", "json", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!((run.status.code(), words(&run)), (Some(0), String::new()));
    let judged: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let affinity = &judged["affinity"];
    assert_eq!(affinity["off_cpu_checks"], 0);
    // How many there are depends on the CPU time that this machine leaves to the workers.
    assert!(affinity["cpu_checks"].as_u64().unwrap() >= 10_000, "{}", affinity["cpu_checks"]);
}

#[test]
fn a_worker_killed_in_the_middle_ends_its_section_and_the_rest_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let child = start(folder.path());
    signal(workers(child.id())[0], "KILL");
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(4), "{}", words(&run));
    assert!(words(&run).contains("signal: 9 (SIGKILL)"), "{}", words(&run));
    let record = record(folder.path());
    assert!(record["not_measured"][0]["why"].as_str().unwrap().contains("SIGKILL"));
    assert_eq!(record["interrupted"], false);
}

#[test]
fn ctrl_c_saves_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let child = start(folder.path());
    let pid = child.id() as i32;
    let workers = workers(child.id());
    signal(pid, "INT");
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130), "{}", words(&run));
    assert!(words(&run).contains("interrupted; the results so far are in"), "{}", words(&run));
    assert_eq!(record(folder.path())["interrupted"], true);
    assert!(workers.iter().all(|worker| !Path::new(&format!("/proc/{worker}")).exists()));
    let report = manycore().arg("report").arg(folder.path().join("record.json")).output().unwrap();
    assert_eq!(report.status.code(), Some(0));
}

#[test]
fn workers_do_not_outlive_a_killed_coordinator() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path());
    let workers = workers(child.id());
    assert!(!workers.is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let alive = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z ") && stat.contains("manycore"))
    };
    let deadline = Instant::now() + Duration::from_mins(1);
    while workers.iter().any(alive) {
        assert!(Instant::now() < deadline, "workers are still running");
        std::thread::yield_now();
    }
}

#[test]
fn an_impossible_output_folder_is_rejected_before_measuring() {
    let run = manycore().args(["eval", "--out", "/dev/null/folder"]).output().unwrap();
    assert_eq!(run.status.code(), Some(3));
    assert!(
        words(&run).starts_with("manycore: cannot create the directory /dev/null/folder"),
        "{}",
        words(&run)
    );
    assert!(run.stdout.is_empty());
}

#[test]
fn a_full_disk_costs_the_files_but_not_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8k", "none"])
        .arg(folder.path())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        eprintln!("SKIPPED: a small file system requires permission to mount");
        return;
    }
    let run = manycore().args(PROCESSES).arg("--out").arg(folder.path()).output().unwrap();
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    Command::new("umount").arg(folder.path()).status().unwrap();
    assert_eq!(run.status.code(), Some(3), "{}", words(&run));
    assert!(words(&run).contains("No space left on device"), "{}", words(&run));
    assert!(left.is_empty(), "{left:?}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("PINNING PROCESSES"));
}

#[test]
fn an_ordinary_user_can_measure() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: not root, so every other test here already covers it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("manycore");
    // A copy that this process makes could be open for writing in a child of another test.
    assert!(Command::new("cp").arg(cargo_bin("manycore")).arg(&program).status().unwrap().success());
    for (path, mode) in [(folder.path(), 0o777), (program.as_path(), 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = Command::new(&program);
    command.args(PROCESSES).args(["--out", "out"]).current_dir(folder.path()).uid(65534).gid(65534);
    let run = command.output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    assert_eq!(record(&folder.path().join("out"))["not_measured"], serde_json::json!([]));
}

#[test]
fn absurd_command_lines_are_refused() {
    for arguments in [
        &["eval", "--only", "nothing"][..],
        &["eval", "--seed", "-1"],
        &["eval", "--seed", "99999999999999999999999"],
        &["eval", "--quick", "--full"],
        &["worker", "prime", "0"],
        &["worker", "nothing", "0"],
    ] {
        let run = manycore().args(arguments).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{arguments:?}: {}", words(&run));
        assert!(run.stdout.is_empty());
    }
}

/// Regression: a budget for sections that take no time here divided by zero, and the program panicked.
#[test]
fn a_budget_for_what_one_cpu_cannot_measure_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let first = manycore_linux::affinity::allowed().unwrap().first().unwrap().to_string();
    let program = cargo_bin("manycore");
    let mut taskset = Command::new("taskset");
    taskset
        .args(["-c", &first])
        .arg(program)
        .args(["eval", "--only", "latency", "--budget", "3s", "--quiet"]);
    let run = taskset.arg("--out").arg(folder.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let missing = &record(folder.path())["not_measured"];
    assert!(missing.to_string().contains("needs two CPUs"), "{missing}");
}
