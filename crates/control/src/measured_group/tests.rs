use super::*;
use crate::{
    cleanup::{self, Leftover},
    journal::{self, UndoResult},
};
use manycore_topology::capture::Capture;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

fn tree(files: &[(&str, &str)]) -> SysTree {
    let mut capture = Capture::default();
    for (path, text) in files {
        capture.add_file(path, text);
    }
    SysTree::from_capture(capture)
}

fn planned(tree: &SysTree, limits: &GroupLimits) -> Vec<String> {
    let parts = plan(tree, "x", limits).unwrap();
    parts.iter().map(|part| format!("{} {}", part.folder.display(), part.controllers.join(","))).collect()
}

#[test]
fn a_group_of_version_1_is_one_in_each_hierarchy_that_is_needed() {
    let tree = tree(&[
        ("proc/self/cgroup", "4:freezer:/\n3:cpuset:/\n2:memory:/a\n1:cpu,cpuacct:/\n0::/"),
        (
            "proc/self/mountinfo",
            "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n2 0 0:2 / /cg/memory rw - cgroup cgroup rw,memory\n\
             3 0 0:3 / /cg/freezer rw - cgroup cgroup rw,freezer\n4 0 0:4 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n\
             5 0 0:5 / /cg/unified rw - cgroup2 cgroup2 rw",
        ),
    ]);
    assert_eq!(planned(&tree, &GroupLimits::default()), ["/cg/freezer/x freezer"]);
    let all = GroupLimits { cpus: Some(0.5), memory: Some(1), places: "0".parse().unwrap(), weight: None };
    assert_eq!(
        planned(&tree, &all),
        ["/cg/cpu/x cpu", "/cg/memory/a/x memory", "/cg/freezer/x freezer", "/cg/cpuset/x cpuset"]
    );
}

#[test]
fn a_group_of_version_2_is_a_single_one() {
    let files = [
        ("proc/self/cgroup", "0::/job"),
        ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 cgroup2 rw"),
        ("cg/cgroup.controllers", "cpuset cpu memory"),
    ];
    let limits = GroupLimits { cpus: Some(0.5), memory: Some(1), ..GroupLimits::default() };
    assert_eq!(planned(&tree(&files), &limits), ["/cg/x cpu,memory"]);
    assert_eq!(planned(&tree(&files), &GroupLimits::default()), ["/cg/job/x "]);
    let error = plan(&tree(&files[..2]), "x", &limits).unwrap_err().to_string();
    assert!(error.contains("cpu and memory controller"), "{error}");
    let error = plan(&tree(&[]), "x", &GroupLimits::default()).unwrap_err();
    assert!(matches!(error, GroupError::NotMounted));
}

#[test]
fn a_frozen_group_is_recognised_in_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let says = |text: &str| {
        let path = folder.path().join("state");
        fs::write(&path, text).unwrap();
        is_frozen(&path)
    };
    assert!(says("FROZEN\n") && says("populated 1\nfrozen 1\n"));
    assert!(!says("FREEZING\n") && !says("THAWED\n") && !says("populated 1\nfrozen 0\n"));
}

/// A service whose real part has left its process group, its session and its parent.
struct Daemon {
    shell: Child,
    hidden: u32,
}

impl Daemon {
    fn start(group: &MeasuredGroup) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "(setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000"]);
        command.stdout(Stdio::piped());
        group.hold(&mut command).unwrap();
        let mut shell = child::spawn(&mut command).unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { shell, hidden: line.trim().parse().unwrap() }
    }

    fn is_alive(&self) -> bool {
        manycore_linux::tasks::is_alive(self.hidden)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        child::kill(&mut self.shell);
    }
}

/// Begins a journal and creates a group; absent where that is impossible.
fn group(folder: &Path, limits: &GroupLimits) -> Option<(Journal, MeasuredGroup)> {
    let journal = Journal::begin(folder, "test", "an instance", false).unwrap();
    let name = format!("{}-{}", journal.id(), folder.file_name().unwrap().display());
    match MeasuredGroup::create(&journal, &mut |_| Ok(()), &name, limits) {
        Ok(group) => Some((journal, group)),
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

#[test]
fn limits_are_in_force_and_a_hidden_process_is_frozen_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let limits = GroupLimits {
        cpus: Some(0.25),
        memory: Some(64 << 20),
        weight: Some(50),
        places: "0".parse().unwrap(),
    };
    let Some((journal, group)) = group(folder.path(), &limits) else { return };
    let read = |file: &str| {
        let paths = group.folders().into_iter().map(|folder| folder.join(file)).find(|path| path.exists());
        paths.map(|path| fs::read_to_string(path).unwrap().trim().to_owned())
    };
    let quota = read("cpu.max").or(read("cpu.cfs_quota_us")).unwrap();
    assert_eq!(quota.split(' ').next(), Some("25000"));
    let memory = read("memory.max").or(read("memory.limit_in_bytes")).unwrap();
    assert_eq!(memory.parse::<u64>().unwrap(), 64 << 20);

    let daemon = Daemon::start(&group);
    assert!(group.members().contains(&daemon.hidden) && group.members().contains(&daemon.shell.id()));
    assert!(group.memory().is_some_and(|bytes| bytes > 0));
    if let Some((freezer, state)) = group.freezer() {
        group.freeze().unwrap();
        assert!(is_frozen(&state), "{}", freezer.file.display());
        group.thaw().unwrap();
        assert!(!is_frozen(&state));
        group.freeze().unwrap();
    }
    group.remove().unwrap();
    assert!(!daemon.is_alive() && group.folders().into_iter().all(|folder| !folder.exists()));
    assert_eq!(journal.undo().unwrap(), UndoResult::default());
}

/// Also where the controllers are in hierarchies of version 1, as on the machine of the tests.
#[test]
fn a_group_of_version_2_is_frozen_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::begin(folder.path(), "test", "an instance", false).unwrap();
    let tree = SysTree::open(Path::new("/")).unwrap();
    let Some(own) = cgroup::own_unified(&tree) else {
        return eprintln!("SKIPPED: no hierarchy of version 2");
    };
    let part = GroupPart {
        folder: Path::new("/").join(own.path).join(format!("{PREFIX}{}-v2", journal.id())),
        flavour: HierarchyKind::Unified,
        controllers: Vec::new(),
    };
    if let Err(error) = part.create(&journal, &GroupLimits::default()) {
        return eprintln!("SKIPPED: no group can be created here: {error}");
    }
    let group = MeasuredGroup { parts: vec![part] };
    let daemon = Daemon::start(&group);
    assert!(group.members().contains(&daemon.hidden));
    let (freezer, events) = group.freezer().unwrap();
    assert!(freezer.file.ends_with("cgroup.freeze"));
    group.freeze().unwrap();
    assert!(is_frozen(&events));
    let restored = journal.undo().unwrap();
    assert_eq!((restored.failed, restored.control_groups), (vec![], 1));
    assert!(!daemon.is_alive());
}

/// Without a freezer, all members are stopped by a signal.
#[test]
fn hidden_processes_are_stopped_by_a_signal_where_there_is_no_freezer() {
    let folder = tempfile::tempdir().unwrap();
    let Some((journal, group)) = group(folder.path(), &GroupLimits::default()) else { return };
    let daemon = Daemon::start(&group);
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.hidden)).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('T')
    };
    group.signal_all(Signal::STOP);
    while !state() {
        thread::yield_now();
    }
    group.signal_all(Signal::CONT);
    while state() {
        thread::yield_now();
    }
    drop(journal.undo().unwrap());
    assert!(!daemon.is_alive());
}

/// The owner is killed while an instance is paused, and its cleanup process too: `undo` ends all that it has started.
#[test]
fn undo_kills_the_processes_of_a_frozen_group_with_a_group_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let limits = GroupLimits { cpus: Some(0.5), ..GroupLimits::default() };
    let Some((journal, group)) = group(folder.path(), &limits) else { return };
    let mut daemon = Daemon::start(&group);
    // A service that manages groups of its own.
    let below = group.folders()[0].join("below");
    fs::create_dir(&below).unwrap();
    group.freeze().unwrap();
    drop(journal);
    let pending = &journal::pending(folder.path()).unwrap().0[0];
    let words = journal::report::pending_words(std::slice::from_ref(pending))[0].details[0].clone();
    let parts = group.folders().len();
    assert!(words.contains("of an instance") || words.contains("of instances"), "{words}");
    let restored = loop {
        // A child that another test starts holds the lock until it executes its program.
        if let Some(restored) = pending.undo() {
            break restored;
        }
    };
    assert_eq!((restored.failed, restored.control_groups), (vec![], parts));
    assert!(restored.processes_killed >= 2);
    assert!(!daemon.is_alive() && group.folders().into_iter().all(|folder| !folder.exists()));
    daemon.shell.wait().unwrap();
}

#[test]
fn the_cleanup_process_ends_a_group_that_is_frozen_in_another_hierarchy() {
    let folder = tempfile::tempdir().unwrap();
    let limits = GroupLimits { cpus: Some(0.5), ..GroupLimits::default() };
    let Some((journal, group)) = group(folder.path(), &limits) else { return };
    let daemon = Daemon::start(&group);
    group.freeze().unwrap();
    let leftovers: Vec<Leftover> =
        group.folders().into_iter().map(|folder| Leftover::Group(folder.to_owned())).collect();
    cleanup::run(cleanup::announcement(&leftovers).as_slice(), &|_| {});
    assert!(!daemon.is_alive() && group.folders().into_iter().all(|folder| !folder.exists()));
    assert_eq!(journal.undo().unwrap(), UndoResult::default());
}

#[test]
fn a_group_with_more_processes_than_are_waited_for_at_a_time_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let Some((journal, group)) = group(folder.path(), &GroupLimits::default()) else { return };
    let mut command = Command::new("sh");
    command.args(["-c", "for i in $(seq 300); do sleep 1000 & done; echo all; wait"]).stdout(Stdio::piped());
    group.hold(&mut command).unwrap();
    let mut shell = child::spawn(&mut command).unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let members = group.members();
    assert!(members.len() > 300);
    group.remove().unwrap();
    assert!(!members.into_iter().any(manycore_linux::tasks::is_alive));
    shell.wait().unwrap();
    assert_eq!(journal.undo().unwrap(), UndoResult::default());
}

/// Regression test: two programs with the same process id, as in two process namespaces, ended each other's instances.
#[test]
fn a_group_of_the_same_name_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some((journal, group)) = group(folder.path(), &GroupLimits::default()) else { return };
    let daemon = Daemon::start(&group);
    let other = tempfile::tempdir().unwrap();
    let others = Journal::begin(other.path(), "test", "an instance", false).unwrap();
    let name =
        group.folders()[0].file_name().unwrap().to_str().unwrap().strip_prefix(PREFIX).unwrap().to_owned();
    let mut announced = 0;
    let mut announce = |_: &Path| {
        announced += 1;
        Ok(())
    };
    let error = MeasuredGroup::create(&others, &mut announce, &name, &GroupLimits::default()).unwrap_err();
    let GroupError::Create { error, .. } = error else { panic!("{error}") };
    assert_eq!((error.kind(), announced), (io::ErrorKind::AlreadyExists, 0));
    assert_eq!(others.undo().unwrap(), UndoResult::default());
    assert!(daemon.is_alive());
    assert!(journal.undo().unwrap().failed.is_empty() && !daemon.is_alive());
}

#[test]
fn groups_of_other_programs_are_not_ended_by_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    let journal = Journal::begin(folder.path(), "test", "", false).unwrap();
    journal.record(&Change::MeasuredGroup { path: other.clone() }).unwrap();
    assert_eq!(journal.undo().unwrap(), UndoResult::default());
    assert!(other.is_dir());
}
