use super::*;
use crate::{
    cleanup::Program,
    journal::{self, Change, Journal},
};
use manycore_linux::tasks;
use manycore_topology::SysTree;
use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use tempfile::TempDir;

/// An invented machine whose `sched_ext` is a few files, and programs that write them as the kernel would.
struct Machine {
    root: TempDir,
    journals: TempDir,
}

/// Loads the scheduler `$1`, and removes it when it gets SIGTERM.
const LOADER: &str = r#"
cd "$STATE"
echo enabling >state
echo $(($(cat enable_seq) + 1)) >enable_seq
echo "$1" >root/ops
trap 'echo disabled >state; rm root/ops; exit 0' TERM
echo enabled >state
echo "loaded $1" >&2
while :; do sleep 0.01; done
"#;

impl Machine {
    fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap(), journals: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.state().join("root")).unwrap();
        machine.write("state", "disabled");
        machine.write("enable_seq", "0");
        machine
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("sys/kernel/sched_ext")
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.state().join(file), text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.state().join(file)).unwrap().trim().to_owned()
    }

    /// A scheduler whose program is a shell script with the argument `name`.
    fn scheduler(&self, script: &str, name: &str) -> Scheduler {
        let script = format!("STATE='{}'\n{script}", self.state().display());
        let command = ["sh", "-c", &script, "loader", name].map(str::to_owned).to_vec();
        Scheduler {
            label: format!("program {name}"),
            loader: Some(SchedulerLoader { command, env: Vec::new(), name_prefix: None }),
        }
    }

    fn begin(&self, schedulers: &[Scheduler]) -> Result<SchedulerSwitch, SchedulerError> {
        self.begin_with(schedulers, || false)
    }

    fn begin_with(
        &self,
        schedulers: &[Scheduler],
        gives_up: fn() -> bool,
    ) -> Result<SchedulerSwitch, SchedulerError> {
        // The cleanup process of these tests does nothing.
        let program = Program { path: "cat".into(), arguments: Vec::new() };
        let tree = SysTree::open(self.root.path()).unwrap();
        let about = ("compare", "schedulers");
        SchedulerSwitch::begin(schedulers, tree, self.journals.path(), about, &program, gives_up)
    }

    fn journals(&self) -> Vec<journal::Pending> {
        journal::pending(self.journals.path()).unwrap().0
    }
}

/// Returns whether schedulers can be loaded by this process; reports it if not.
fn may_load() -> bool {
    let may = manycore_linux::sched_ext::may_load();
    if !may {
        println!("SKIPPED: loading schedulers needs CAP_BPF");
    }
    may
}

#[test]
fn schedulers_are_switched_and_the_kernel_has_the_machine_at_the_end() {
    if !may_load() {
        return;
    }
    let machine = Machine::new();
    let (a, b) = (machine.scheduler(LOADER, "one"), machine.scheduler(LOADER, "two"));
    let mut switch = machine.begin(&[a.clone(), b.clone(), Scheduler::kernel()]).unwrap();
    assert_eq!(switch.apply(&Scheduler::kernel()).unwrap(), None, "it is in force already");
    for scheduler in [&a, &b, &a] {
        assert!(switch.apply(scheduler).unwrap().is_some());
        assert_eq!(switch.apply(scheduler).unwrap(), None, "it stays loaded");
        switch.check_program().unwrap();
        switch.check().unwrap();
        assert_eq!(
            (machine.read("state"), machine.read("root/ops")),
            ("enabled".to_owned(), scheduler.label["program ".len()..].to_owned())
        );
    }
    let names: Vec<(&str, &str)> =
        switch.names().iter().map(|(label, name)| (label.as_str(), name.as_str())).collect();
    assert_eq!(names, [("program one", "one"), ("program two", "two")]);
    assert!(switch.apply(&Scheduler::kernel()).unwrap().is_some());
    switch.check().unwrap();
    assert_eq!((machine.read("state").as_str(), machine.read("enable_seq").as_str()), ("disabled", "3"));
    switch.apply(&b).unwrap();
    // Each scheduler once, and each start.
    let changes = machine.journals().pop().unwrap().changes;
    let labels: Vec<&str> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Scheduler { label, .. } => Some(label.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(labels, ["program one", "program two"]);
    let starts = changes.iter().filter(|change| matches!(change, Change::SchedulerProcess { .. }));
    assert_eq!(starts.count(), 4);
    assert_eq!(switch.restore(), Vec::<String>::new());
    assert_eq!(machine.read("state"), "disabled");
    assert!(machine.journals().is_empty());
}

#[test]
fn a_machine_that_cannot_load_schedulers_or_has_one_is_refused() {
    let machine = Machine::new();
    let other = machine.scheduler(LOADER, "one");
    machine.write("state", "enabled");
    machine.write("root/ops", "lavd\u{1b}[2J");
    let error = machine.begin(&[Scheduler::kernel()]).unwrap_err();
    assert!(error.to_string().contains("scheduler 'lavd\u{fffd}[2J' is loaded already"), "{error}");
    fs::remove_dir_all(machine.state()).unwrap();
    let error = machine.begin(&[Scheduler::kernel(), other]).unwrap_err();
    assert!(matches!(error, SchedulerError::Absent { .. }), "{error}");
    assert!(!error.is_request() && !error.is_of_measurement());
    // Without sched_ext, the kernel's own scheduler is the only one.
    let mut switch = machine.begin(&[Scheduler::kernel()]).unwrap();
    switch.apply(&Scheduler::kernel()).unwrap();
    switch.check().unwrap();
}

#[test]
fn programs_that_fail_at_the_start_are_reported_with_their_last_lines() {
    if !may_load() {
        return;
    }
    let machine = Machine::new();
    let failing = machine.scheduler("seq 9 >&2; echo 'no \u{1b}BTF' >&2; exit 7", "x");
    let prefixed = Scheduler {
        loader: failing.loader.clone().map(|_| SchedulerLoader {
            name_prefix: Some("manycore".to_owned()),
            ..machine.scheduler(LOADER, "two").loader.unwrap()
        }),
        label: "cluster:spread".to_owned(),
    };
    let missing = Scheduler {
        label: "scx_none".to_owned(),
        loader: Some(SchedulerLoader {
            command: vec!["/no/scx_none".to_owned()],
            env: Vec::new(),
            name_prefix: None,
        }),
    };
    let mut switch = machine.begin(&[failing.clone(), prefixed.clone(), missing.clone()]).unwrap();
    let error = switch.apply(&failing).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("(exit status: 7): 6 | 7 | 8 | 9 | no \u{fffd}BTF"), "{said}");
    assert!(error.is_of_measurement());
    let error = switch.apply(&prefixed).unwrap_err();
    assert!(error.to_string().contains("loaded the scheduler 'two'; one named 'manycore...'"), "{error}");
    assert_eq!(machine.read("state"), "disabled", "what was loaded is removed");
    let error = switch.apply(&missing).unwrap_err();
    assert!(error.is_request() && error.to_string().contains("no program '/no/scx_none'"), "{error}");
    switch.check().unwrap();
}

#[test]
fn a_scheduler_that_is_thrown_out_spoils_the_run() {
    if !may_load() {
        return;
    }
    let machine = Machine::new();
    let one = machine.scheduler(LOADER, "one");
    let quits = machine.scheduler(
        "cd \"$STATE\"; echo quits >root/ops; echo 99 >enable_seq; echo enabled >state
        until [ -e quit ]; do sleep 0.01; done; echo disabled >state; echo 'runnable task stall' >&2; exit 3",
        "quits",
    );
    let mut switch = machine.begin(&[one.clone(), quits.clone()]).unwrap();
    for (file, text, found) in [
        ("state", "disabled", "the kernel removed 'one' (state disabled)"),
        ("root/ops", "other", "'other' is loaded instead of 'one'"),
        ("enable_seq", "77", "loaded again meanwhile"),
    ] {
        switch.apply(&one).unwrap();
        switch.check().unwrap();
        machine.write(file, text);
        switch.check_program().unwrap();
        let error = switch.check().unwrap_err();
        assert!(matches!(error, SchedulerError::ThrownOut { .. }) && error.is_of_measurement());
        assert!(error.to_string().contains(found) && error.to_string().contains("loaded one"), "{error}");
        switch.apply(&Scheduler::kernel()).unwrap();
    }
    switch.apply(&quits).unwrap();
    machine.write("quit", "");
    let error = loop {
        match switch.check() {
            Ok(()) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("runnable task stall"), "{error}");
    assert!(switch.check_program().is_err());
    // Another program's scheduler during a run of the kernel's own.
    switch.apply(&Scheduler::kernel()).unwrap();
    switch.check().unwrap();
    machine.write("enable_seq", "100");
    assert!(matches!(switch.check().unwrap_err(), SchedulerError::Foreign { .. }));
    machine.write("root/ops", "lavd");
    machine.write("state", "enabled");
    assert!(switch.check().unwrap_err().to_string().contains("'lavd'"));
    assert!(matches!(switch.apply(&one).unwrap_err(), SchedulerError::Loaded { .. }));
}

static GIVE_UP: AtomicBool = AtomicBool::new(false);

#[test]
fn waiting_for_a_scheduler_ends_with_a_signal() {
    if !may_load() {
        return;
    }
    let machine = Machine::new();
    let never = machine.scheduler("while :; do sleep 0.01; done", "never");
    let mut switch = machine.begin_with(std::slice::from_ref(&never), || GIVE_UP.load(Relaxed)).unwrap();
    let setter = std::thread::spawn(|| GIVE_UP.store(true, Relaxed));
    assert!(matches!(switch.apply(&never).unwrap_err(), SchedulerError::Interrupted));
    setter.join().unwrap();
    assert_eq!(switch.restore(), Vec::<String>::new());
}

#[test]
fn undo_ends_what_a_killed_run_left() {
    let journals = tempfile::tempdir().unwrap();
    let mark = format!("{MARK}=test-{}", std::process::id());
    let journal = Journal::begin(journals.path(), "compare", "schedulers", false).unwrap();
    let (label, command) = ("x".to_owned(), vec!["x".to_owned()]);
    journal.record(&Change::Scheduler { label, command, mark: mark.clone() }).unwrap();
    let (name, value) = mark.split_once('=').unwrap();
    let mut program = std::process::Command::new("sleep").arg("1000").env(name, value).spawn().unwrap();
    while !tasks::has_environment(program.id(), &mark) {
        std::thread::yield_now();
    }
    drop(journal);
    let pending = journal::pending(journals.path()).unwrap().0.pop().unwrap();
    assert!(journal::report::pending_words(&[pending])[0].details[0].contains("1 scheduler"));
    let pending = journal::pending(journals.path()).unwrap().0.pop().unwrap();
    let result = pending.undo().unwrap();
    assert_eq!((result.schedulers, result.failed), (1, Vec::new()));
    assert!(!program.wait().unwrap().success());
    assert!(journal::pending(journals.path()).unwrap().0.is_empty());
}

#[test]
fn another_run_that_switches_schedulers_is_not_disturbed() {
    let machine = Machine::new();
    let other = Journal::begin(machine.journals.path(), "tune", "schedulers", false).unwrap();
    let change =
        Change::Scheduler { label: "x".to_owned(), command: vec!["x".to_owned()], mark: "X=1".to_owned() };
    other.record(&change).unwrap();
    let error = machine.begin(&[Scheduler::kernel()]).unwrap_err();
    assert!(matches!(error, SchedulerError::InUse { .. }), "{error}");
    other.discard();
    machine.begin(&[Scheduler::kernel()]).unwrap();
}
