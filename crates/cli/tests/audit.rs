//! Tests of `manycore audit` on processes that the tests pin.

use crate::common::{
    audit::{Running, asleep, audit, kinds, kinds_of_its_own, only_own_processes, two_cpus},
    manycore,
    memory_group::kill_members,
    study::{has, unique, until},
    unprivileged,
};
use manycore_audit::{
    AUDIT_SCHEMA, Audit, AuditFacts, Examined, Interrupt, Process, Thread, Unexamined, UnexaminedKind, find,
    find_pinned, text,
};
use manycore_render::document::Extent;
use manycore_topology::{CpuId, CpuSet, SysTree, cgroup};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[test]
fn two_processes_on_one_cpu_are_found_and_named() {
    only_own_processes!("two_processes_on_one_cpu_are_found_and_named");
    let Some([cpu, other]) = two_cpus() else { return };
    let time = unique();
    let both = |second: CpuId| {
        Running::shell(&format!("taskset -c {cpu} sleep {time} & taskset -c {second} sleep {time} & wait"))
    };
    let same = both(cpu);
    let pids = asleep(&time, 2);
    let (code, audit_of_same) = audit(same.0.id());
    assert_eq!((code, kinds(&audit_of_same)), (Some(1), vec!["overlapping_pins"]));
    let finding = &audit_of_same["findings"][0];
    let named: Vec<u64> =
        (0..2).map(|at| finding["claims"][at]["processes"][0]["pid"].as_u64().unwrap()).collect();
    assert_eq!(named, pids.iter().map(|&pid| u64::from(pid)).collect::<Vec<_>>());
    assert_eq!(finding["cpus"], cpu.to_string());
    let fix = finding["fix"].as_str().unwrap();
    assert!(fix.contains("manycore pin --pid ") || fix.contains("taskset -acp "), "{fix}");
    drop(same);
    let apart = both(other);
    asleep(&time, 2);
    let (code, audit_of_apart) = audit(apart.0.id());
    assert_eq!((code, kinds(&audit_of_apart)), (Some(0), vec![]), "{audit_of_apart:#}");
}

#[test]
fn processes_started_by_a_pinned_shell_belong_to_its_tenant() {
    only_own_processes!("processes_started_by_a_pinned_shell_belong_to_its_tenant");
    let Some([cpu, _]) = two_cpus() else { return };
    let time = unique();
    let shell =
        Running::shell(&format!("taskset -c {cpu} sh -c 'sleep {time} & sleep {time} & wait' & wait"));
    asleep(&time, 2);
    let (code, audit) = audit(shell.0.id());
    assert_eq!((code, kinds(&audit)), (Some(0), vec![]), "{audit:#}");
    assert_eq!(audit["examined"]["processes"], 4);
}

#[test]
fn pid_limits_what_is_examined_and_keeps_findings_with_other_processes() {
    only_own_processes!("pid_limits_what_is_examined_and_keeps_findings_with_other_processes");
    let Some([cpu, _]) = two_cpus() else { return };
    let time = unique();
    let script = format!("exec taskset -c {cpu} sleep {time}");
    let (one, two) = (Running::shell(&script), Running::shell(&script));
    asleep(&time, 2);
    let audit = |pids: &[&str]| -> Value {
        let run =
            manycore().args(["audit", "--budget", "100ms", "--format", "json"]).args(pids).output().unwrap();
        assert_eq!(run.status.code(), Some(1));
        serde_json::from_slice(&run.stdout).unwrap()
    };
    let [one, two] = [one, two].map(|process| (process.0.id().to_string(), process));
    let seen = audit(&["--pid", &one.0]);
    assert_eq!(
        (&seen["examined"]["processes"], &seen["examined"]["threads"], kinds(&seen)),
        (&1.into(), &1.into(), vec!["overlapping_pins"])
    );
    assert!(seen["findings"][0]["headline"].as_str().unwrap().contains(&format!("pid {}", two.0)));
    assert_eq!(audit(&["--pid", &one.0, "--pid", &two.0])["examined"]["processes"], 2);
    // A process that is not pinned has no part in it.
    let free = Running::start(Command::new("sleep").arg(unique()));
    let run = manycore().args(["audit", "--budget", "100ms", "--pid", &free.0.id().to_string()]).output();
    assert_eq!(run.unwrap().status.code(), Some(0));
}

#[test]
fn a_missing_process_is_reported() {
    for wrong in [["--pid", "4194304999"], ["--budget", "1ms"]] {
        let run = manycore().arg("audit").args(wrong).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{wrong:?}");
    }
    let run = manycore().args(["audit", "--pid", "redis-server"]).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.contains("not a name: --pid $(pgrep -d, -x redis-server)"), "{said}");
    let run = manycore().args(["audit", "--pid", "4194304"]).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.code() == Some(2) && said.contains("no process 4194304"), "{said}");
}

#[test]
fn an_audit_without_findings_reports_that() {
    let free = Running::start(Command::new("sleep").arg(unique()));
    let run =
        manycore().args(["audit", "--budget", "100ms", "--pid", &free.0.id().to_string()]).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(text.starts_with("nothing found; examined 1 process with 1 thread for "), "{text}");
    assert!(run.status.success() && run.stderr.is_empty());
}

/// A control group below that of the test, which is removed with all its processes.
struct Group(PathBuf);

impl Group {
    /// Creates a group of this name with `files` written; reports why if there is none.
    fn new(controller: &str, name: &str, files: &[(&str, &str)]) -> Option<Self> {
        let tree = SysTree::open(Path::new("/")).unwrap();
        let above = cgroup::folders(&tree, controller);
        let made = above.iter().rev().find_map(|folder| {
            let group =
                Self(Path::new("/").join(&folder.path).join(format!("{name}-{}", std::process::id())));
            fs::create_dir(&group.0).ok()?;
            let written = files.iter().filter(|(file, text)| fs::write(group.0.join(file), text).is_ok());
            (written.count() == files.len()).then_some(group)
        });
        if made.is_none() {
            eprintln!("SKIPPED: no control group with a {controller} controller can be made below {above:?}");
        }
        made
    }

    /// Creates a group with a quota of one CPU, in version 1 or 2.
    fn with_a_cpu_of_time(name: &str) -> Option<Self> {
        Self::new("cpu", name, &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "100000")])
            .or_else(|| Self::new("cpu", name, &[("cpu.max", "100000 100000")]))
    }

    /// Starts a command in it.
    fn start(&self, words: &[&str], environment: &[(&str, &str)]) -> Running {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).args(words).env_remove("OMP_NUM_THREADS");
        Running::start(command.envs(environment.iter().copied()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        until("an empty control group", || {
            kill_members(&self.0);
            fs::remove_dir(&self.0).is_ok() || !self.0.exists()
        });
    }
}

/// Returns how many threads of a process have used at least one tick of CPU time.
fn threads_that_ran(pid: u32) -> usize {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let ran = |path: PathBuf| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        rest.split_whitespace().nth(11).is_some_and(|ticks| ticks != "0")
    };
    tasks.filter(|task| task.as_ref().is_ok_and(|task| ran(task.path()))).count()
}

/// Builds a program that keeps all its OpenMP threads busy.
fn busy_openmp(folder: &Path) -> Option<PathBuf> {
    let (source, program) = (folder.join("busy.c"), folder.join("busy"));
    let text = "int main(void) {\n#pragma omp parallel\n    for (;;) __asm__ volatile(\"\");\n}\n";
    fs::write(&source, text).unwrap();
    let built = Command::new("cc").arg("-fopenmp").arg(&source).arg("-o").arg(&program).output();
    if !built.is_ok_and(|built| built.status.success()) {
        eprintln!("SKIPPED: cc -fopenmp does not work");
        return None;
    }
    Some(program)
}

#[test]
fn openmp_threads_beyond_the_quota_are_found_unless_the_option_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = busy_openmp(folder.path()) else { return };
    let Some(group) = Group::with_a_cpu_of_time("manycore-audit-omp") else { return };
    let program = program.display().to_string();
    let many = group.start(&[&program], &[("OMP_NUM_THREADS", "4")]);
    until("four busy threads", || threads_that_ran(many.0.id()) == 4);
    let (code, found) = audit(many.0.id());
    assert_eq!((code, kinds_of_its_own(&found)), (Some(1), vec!["too_many_threads"]), "{found:#}");
    let findings = found["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["kind"] == "too_many_threads").unwrap();
    assert_eq!((&finding["runtime"], &finding["allowed_cpus"]), (&"OpenMP".into(), &1.0.into()));
    assert_eq!(
        (&finding["process"]["threads"], &finding["set_by"]),
        (&4.into(), &"OMP_NUM_THREADS=4".into())
    );
    assert_eq!(
        (&finding["severity"], &finding["fix"]),
        (&"problem".into(), &"lower it: OMP_NUM_THREADS=1".into())
    );
    drop(many);
    let fitting = group.start(&[&program], &[("OMP_NUM_THREADS", "1")]);
    until("a busy thread", || threads_that_ran(fitting.0.id()) == 1);
    let (_, found) = audit(fitting.0.id());
    assert_eq!(kinds_of_its_own(&found), [""; 0], "{found:#}");
}

#[test]
fn erlang_with_more_schedulers_than_its_quota_is_found() {
    if !has("erl") {
        return;
    }
    let Some(group) = Group::with_a_cpu_of_time("manycore-audit-erl") else { return };
    let audit_with = |option: &str| {
        let node = group.start(&["erl", "+S", option, "-noshell", "-eval", "timer:sleep(infinity)"], &[]);
        let wanted: usize = option.split(':').next().unwrap().parse().unwrap();
        let schedulers = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", node.0.id())).unwrap();
            let name = |path: PathBuf| fs::read_to_string(path.join("comm")).unwrap_or_default();
            let names = tasks.map(|task| name(task.unwrap().path()));
            names.filter(|name| name.contains("_scheduler") || name.starts_with("erts_sched_")).count()
        };
        until("all schedulers", || schedulers() == wanted);
        audit(node.0.id())
    };
    let (code, found) = audit_with("8:8");
    assert_eq!((code, kinds_of_its_own(&found)), (Some(1), vec!["too_many_threads"]), "{found:#}");
    let findings = found["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["kind"] == "too_many_threads").unwrap();
    assert_eq!((&finding["set_by"], &finding["fix"]), (&"+S 8:8".into(), &"lower it: +S 1:1".into()));
    let (_, found) = audit_with("8:1");
    assert_eq!(kinds_of_its_own(&found), [""; 0], "{found:#}");
}

#[test]
fn containers_with_the_same_cpu_are_found() {
    only_own_processes!("containers_with_the_same_cpu_are_found");
    let Some([cpu, _]) = two_cpus() else { return };
    let cpu = cpu.to_string();
    let files = [("cpuset.cpus", cpu.as_str()), ("cpuset.mems", "0")];
    let Some(one) = Group::new("cpuset", "docker-one", &files) else { return };
    let Some(two) = Group::new("cpuset", "docker-two", &files) else { return };
    let (time, folders) = (unique(), [&one.0, &two.0].map(|folder| folder.display().to_string()));
    let start = |folder: &String| format!("sh -c 'echo $$ > {folder}/cgroup.procs && exec sleep {time}' & ");
    let shell = Running::shell(&format!("{}{}wait", start(&folders[0]), start(&folders[1])));
    asleep(&time, 2);
    let (code, found) = audit(shell.0.id());
    assert_eq!((code, kinds(&found)), (Some(1), vec!["overlapping_pins"]), "{found:#}");
    let group = |at: usize| found["findings"][0]["claims"][at]["group"].as_str().unwrap().to_owned();
    assert!(group(0).contains("docker-one") && group(1).contains("docker-two"), "{found:#}");
}

#[test]
fn without_privileges_unexamined_items_are_reported() {
    if !unprivileged().arg("--version").output().is_ok_and(|run| run.status.success()) {
        eprintln!("SKIPPED: setpriv does not work, or another user cannot run what was built here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = busy_openmp(folder.path()) else { return };
    let Some(group) = Group::with_a_cpu_of_time("manycore-audit-rights") else { return };
    let many = group.start(&[&program.display().to_string()], &[("OMP_NUM_THREADS", "4")]);
    until("four busy threads", || threads_that_ran(many.0.id()) == 4);
    let run = unprivileged()
        .args(["audit", "--budget", "100ms", "--format", "json", "--pid", &many.0.id().to_string()])
        .output()
        .unwrap();
    let seen: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(kinds_of_its_own(&seen), [""; 0], "{seen:#}");
    let expected = serde_json::json!([{"what": "environment", "count": 1}, {"what": "program", "count": 1}]);
    assert_eq!((&seen["unexamined"], &seen["examined"]["threads"]), (&expected, &4.into()));
}

/// Returns the facts of a machine on which two programs are pinned to the same CPU.
fn overlapping_programs() -> AuditFacts {
    let thread = |tid, name: &str, cpus: &str, busy| Thread {
        tid,
        name: name.to_owned(),
        cpus: cpus.parse().unwrap(),
        busy_cpus: Some(busy),
        cpu_seconds: Some(100.0 * busy),
        ..Thread::default()
    };
    let process = |pid, name: &str, threads: Vec<Thread>| Process {
        pid,
        parent: 1,
        name: name.to_owned(),
        busy_cpus: Some(threads.iter().filter_map(|thread| thread.busy_cpus).sum()),
        threads,
        ..Process::default()
    };
    AuditFacts {
        online: "0-7".parse().unwrap(),
        offline: "8-9".parse().unwrap(),
        isolated: CpuSet::single(7),
        processes: vec![
            process(
                214,
                "redis-server",
                vec![thread(214, "redis-server", "3", 0.62), thread(215, "bio\u{1b}[31m", "2", 0.0)],
            ),
            process(981, "nginx", vec![thread(981, "nginx", "3", 0.31)]),
            process(1200, "batch", vec![thread(1200, "batch", "5-9", 0.0)]),
        ],
        interrupts: vec![Interrupt {
            number: 41,
            name: "eth0-TxRx-3".to_owned(),
            per_second: BTreeMap::from([(3, 8214.0)]),
            device: Some("eth0".to_owned()),
            managed: false,
        }],
        ..AuditFacts::default()
    }
}

#[test]
fn findings_read_well() {
    let audit = Audit {
        schema: AUDIT_SCHEMA.to_owned(),
        findings: find(&overlapping_programs()),
        pinned: find_pinned(&overlapping_programs(), &[]),
        examined: Examined { processes: 213, threads: 1904, seconds: 1.0 },
        unexamined: vec![
            Unexamined { what: UnexaminedKind::Environment, count: 2 },
            Unexamined { what: UnexaminedKind::Ended, count: 1 },
        ],
    };
    let text = text::render(&audit, Extent::Full).to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 100) && !text.contains('\u{1b}'), "{text}");
    insta::assert_snapshot!("audit", text);
}
