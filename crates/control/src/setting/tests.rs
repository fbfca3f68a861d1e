use super::*;
use crate::{
    cleanup::Program,
    journal::{self, Change, Journal},
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";

/// Files of an invented machine, and a directory for journals.
struct Machine {
    root: TempDir,
    journals: TempDir,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { root, journals: tempfile::tempdir().unwrap() }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.path().join(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.root.path().join(path), text).unwrap();
    }

    fn files(&self, variants: &[&[&str]]) -> Result<SettingFiles, SettingError> {
        let variants: Vec<Vec<Setting>> = variants.iter().map(|texts| settings(texts)).collect();
        SettingFiles::read(self.root.path(), variants.iter().map(Vec::as_slice))
    }

    fn switch(&self, variants: &[&[&str]]) -> Result<SettingSwitch, SettingError> {
        // The cleanup process of these tests does nothing.
        let program = Program { path: "cat".into(), arguments: Vec::new() };
        let files = self.files(variants)?;
        SettingSwitch::begin(files, self.journals.path(), ("compare", "settings"), &program)
    }

    fn journals(&self) -> usize {
        journal::pending(self.journals.path()).unwrap().0.len()
    }
}

fn settings(texts: &[&str]) -> Vec<Setting> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn settings_are_written_as_they_are_read() {
    for (typed, shown) in [
        ("thp=never", "thp=never"),
        ("set:thp=never", "thp=never"),
        ("set:kernel.numa_balancing=0", "kernel.numa_balancing=0"),
        ("set:/sys/block/sda/queue/scheduler=none", "/sys/block/sda/queue/scheduler=none"),
        ("set:net.ipv4.tcp_rmem=4096 131072 6291456", "net.ipv4.tcp_rmem=4096 131072 6291456"),
        ("set:kernel.x=a=b", "kernel.x=a=b"),
        ("aslr=1", "aslr=1"),
    ] {
        assert_eq!(typed.parse::<Setting>().unwrap().to_string(), shown);
        assert!(Setting::is_meant(typed));
    }
    for (typed, why) in [
        ("thp", "it has no value"),
        ("set:kernel.x", "it has no value"),
        ("thp=", "its value is empty"),
        ("set:kernel.x=a\nb", "not one line"),
        ("nothing=1", "no setting is called 'nothing'; known: thp, numa_balancing, governor"),
        ("set:swappiness=1", "no setting is called 'swappiness'"),
        ("turbo=1", "turbo cannot be '1'; its values: on, off"),
        ("smt=forceoff", "its values: on, off"),
        ("set:/etc/passwd=x", "not below /sys, /proc/sys or /proc/irq"),
    ] {
        let error = typed.parse::<Setting>().unwrap_err();
        assert!(error.to_string().contains(why) && error.is_request(), "{typed}: {error}");
    }
    assert!(!Setting::is_meant("place=close") && !Setting::is_meant("thp"));
}

#[test]
fn known_names_stand_for_files_and_values() {
    let machine = Machine::new(&[
        (THP, "always [madvise] never\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "performance powersave\n"),
        ("sys/devices/system/cpu/cpufreq/policy10/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "powersave\n"),
        ("proc/sys/kernel/randomize_va_space", "2\n"),
    ]);
    let files = machine.files(&[&["turbo=off", "governor=performance"], &["aslr=off", "thp=never"]]).unwrap();
    assert_eq!(
        files.describe(&settings(&["turbo=off", "governor=performance"])),
        "turbo=off, governor=performance, aslr=on, thp=madvise"
    );
    assert_eq!(
        files.describe(&settings(&["aslr=off", "thp=never"])),
        "turbo=on, governor=powersave and performance, aslr=off, thp=never"
    );
    let paths: Vec<String> = files
        .files()
        .iter()
        .map(|file| file.path.iter().nth_back(1).unwrap().to_string_lossy().into())
        .collect();
    assert_eq!(paths[..4], ["intel_pstate", "policy0", "policy2", "policy10"]);
    let all = |name| -> Vec<String> {
        Setting::all_of(machine.root.path(), name).unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(all("thp"), ["thp=always", "thp=madvise", "thp=never"]);
    assert_eq!(all("governor"), ["governor=performance", "governor=powersave"]);
    assert_eq!(all("turbo"), ["turbo=on", "turbo=off"]);
    let error = machine.files(&[&["smt=off"]]).unwrap_err();
    assert!(error.to_string().contains("no setting smt (/sys/devices/system/cpu/smt/control)"), "{error}");
    assert!(!error.is_request());
}

#[test]
fn wrong_values_and_files_are_refused_before_anything_is_written() {
    let machine = Machine::new(&[
        (THP, "always [madvise] never\n"),
        ("proc/sys/vm/swappiness", "60\n"),
        ("proc/sys/vm/empty", "\n"),
        ("sys/fs/several", "a 1\nb 2\n"),
    ]);
    for (settings, why) in [
        (&["thp=sometimes"][..], "cannot be 'sometimes'; its values: always, madvise, never"),
        (&["set:vm.swapiness=1"], "this machine has no "),
        (&["set:vm.empty=1"], "nothing could be restored"),
        (&["set:/sys/fs/several=1"], "it has several lines"),
        (&["set:vm.swappiness=1", "set:/proc/sys/vm/swappiness=2"], "swappiness twice: '1' and '2'"),
        (&["set:/sys/fs=1"], "it is not a file"),
    ] {
        let error = machine.files(&[settings]).unwrap_err().to_string();
        assert!(error.contains(why), "{settings:?}: {error}");
    }
    assert_eq!(machine.read("proc/sys/vm/swappiness"), "60\n");
}

#[test]
fn settings_that_take_cpus_offline_exclude_files_of_cpus() {
    let machine = Machine::new(&[
        ("sys/devices/system/cpu/smt/control", "on\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
    ]);
    assert!(machine.files(&[&["smt=off"]]).unwrap().cpus_file().is_some());
    let error = machine.files(&[&["smt=off"], &["governor=powersave"]]).unwrap_err();
    assert!(matches!(error, SettingError::TakesCpus { .. }), "{error}");
}

/// Regression tests: these ended as errors in the middle of a measurement, and left CPUs or interrupts changed.
#[test]
fn settings_that_take_cpus_offline_exclude_interrupts_and_each_other() {
    let machine = Machine::new(&[
        ("sys/devices/system/cpu/smt/control", "on\n"),
        ("sys/devices/system/cpu/present", "0-3\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/cpu3/online", "1\n"),
        ("proc/irq/9/smp_affinity_list", "0-3\n"),
    ]);
    let cpu = "set:/sys/devices/system/cpu/cpu3/online=0";
    let refused = |variants: &[&[&str]]| machine.files(variants).unwrap_err().to_string();
    let said = refused(&[&["set:/proc/irq/9/smp_affinity_list=3"], &[cpu]]);
    assert!(said.contains("smp_affinity_list, which the kernel changes then"), "{said}");
    let said = refused(&[&["smt=off"], &[cpu]]);
    assert!(said.contains("cpu3/online, which changes the same CPUs"), "{said}");
    machine.write("sys/devices/system/cpu/online", "0-1,3\n");
    let said = refused(&[&["smt=off"]]);
    assert!(said.contains("CPUs 2 are offline, and restoring SMT would bring them online"), "{said}");
    machine.files(&[&[cpu]]).unwrap();
}

/// The kernel gives an interrupt other CPUs when all of its own go offline, and not back.
#[test]
fn interrupts_get_their_cpus_back_with_the_cpus() {
    const IRQ: &str = "proc/irq/9/smp_affinity_list";
    let machine = Machine::new(&[("sys/devices/system/cpu/cpu3/online", "1\n"), (IRQ, "3\n")]);
    let offline: &[&str] = &["set:/sys/devices/system/cpu/cpu3/online=0"];
    let mut switch = machine.switch(&[offline]).unwrap();
    switch.apply(&settings(offline)).unwrap();
    machine.write(IRQ, "0-2\n");
    switch.apply(&[]).unwrap();
    assert_eq!(machine.read(IRQ).trim(), "3");
    assert_eq!(switch.restore(), Vec::<String>::new());
}

/// A mask can name online CPUs only, and the file of the mask comes first in the alphabet.
#[test]
fn cpus_are_restored_before_interrupts() {
    let machine = Machine::new(&[]);
    let journal = Journal::begin(machine.journals.path(), "compare", "", false).unwrap();
    let files = ["proc/irq/9/smp_affinity_list", "sys/devices/system/cpu/cpu3/online"];
    for (file, old, new) in [(files[0], "3", "0-2"), (files[1], "1", "0")] {
        let path = machine.root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, new).unwrap();
        journal.record(&Change::Setting { path, old: old.to_owned(), new: new.to_owned() }).unwrap();
    }
    drop(journal);
    let modified = |file: &str| fs::metadata(machine.root.path().join(file)).unwrap().modified().unwrap();
    assert_eq!(journal::pending(machine.journals.path()).unwrap().0[0].undo().unwrap().settings, 2);
    assert_eq!(files.map(|file| machine.read(file)), ["3", "1"]);
    assert!(modified(files[1]) <= modified(files[0]));
}

#[test]
fn settings_are_switched_and_restored() {
    let machine = Machine::new(&[("proc/sys/vm/swappiness", "60\n"), ("proc/sys/kernel/x", "1 2\n")]);
    let variants: [&[&str]; 3] =
        [&["set:vm.swappiness=10"], &["set:vm.swappiness=20", "set:kernel.x=3 4"], &[]];
    let mut switch = machine.switch(&variants).unwrap();
    for (variant, swappiness, x) in [(0, "10", "1 2"), (1, "20", "3 4"), (2, "60", "1 2"), (1, "20", "3 4")] {
        switch.apply(&settings(variants[variant])).unwrap();
        switch.check().unwrap();
        assert_eq!(machine.read("proc/sys/vm/swappiness").trim(), swappiness, "{variant}");
        assert_eq!(machine.read("proc/sys/kernel/x").trim(), x, "{variant}");
    }
    assert_eq!(machine.journals(), 1);
    assert_eq!(switch.restore(), Vec::<String>::new());
    drop(switch);
    assert_eq!(machine.read("proc/sys/vm/swappiness").trim(), "60");
    assert_eq!(machine.read("proc/sys/kernel/x").trim(), "1 2");
    assert_eq!(machine.journals(), 0);
}

/// A journal has each value once, however often settings are switched, and any of them is restored.
#[test]
fn a_killed_run_is_undone_whatever_value_was_in_force() {
    let machine = Machine::new(&[("proc/sys/vm/swappiness", "60\n")]);
    let variants: [&[&str]; 2] = [&["set:vm.swappiness=10"], &["set:vm.swappiness=20"]];
    for last in variants {
        let mut switch = machine.switch(&variants).unwrap();
        for variant in [variants[0], variants[1], last] {
            switch.apply(&settings(variant)).unwrap();
        }
        // The journal of a killed process has no lock.
        drop(switch.journal.take());
        let pending = journal::pending(machine.journals.path()).unwrap().0;
        assert_eq!(pending[0].changes.len(), 2);
        assert_eq!(pending[0].undo().unwrap().settings, 1);
        assert_eq!(machine.read("proc/sys/vm/swappiness"), "60");
    }
}

#[test]
fn a_value_of_another_process_is_reported_and_left() {
    let machine = Machine::new(&[("proc/sys/vm/swappiness", "60\n")]);
    let mut switch = machine.switch(&[&["set:vm.swappiness=10"]]).unwrap();
    switch.apply(&settings(&["set:vm.swappiness=10"])).unwrap();
    machine.write("proc/sys/vm/swappiness", "77\n");
    let error = switch.check().unwrap_err();
    assert!(
        error.to_string().contains("swappiness during the measurement: it was to be '10' and is '77'"),
        "{error}"
    );
    assert!(error.is_of_measurement());
    let said = switch.restore();
    assert!(said[0].contains("swappiness was changed to 77 by another program: left unchanged"), "{said:?}");
    assert_eq!(machine.read("proc/sys/vm/swappiness"), "77\n");
}

#[test]
fn files_that_list_their_choices_are_undone_by_the_word_in_brackets() {
    let machine = Machine::new(&[(THP, "always [madvise] never\n")]);
    let journal = Journal::begin(machine.journals.path(), "compare", "", false).unwrap();
    let path: PathBuf = machine.root.path().join(THP);
    journal.record(&Change::Setting { path, old: "madvise".into(), new: "never".into() }).unwrap();
    // Never written.
    drop(journal);
    let undo = || {
        journal::pending(machine.journals.path()).unwrap().0.first().map(|pending| pending.undo().unwrap())
    };
    let journal = fs::read_dir(machine.journals.path()).unwrap().next().unwrap().unwrap().path();
    let text = fs::read(&journal).unwrap();
    for (now, restored, others) in [
        ("always [madvise] never\n", 0, 0),
        ("always madvise [never]\n", 1, 0),
        ("[always] madvise never\n", 0, 1),
    ] {
        fs::write(&journal, &text).unwrap();
        machine.write(THP, now);
        let result = undo().unwrap();
        assert_eq!((result.settings, result.changed_by_others.len()), (restored, others), "{now}");
    }
}

#[test]
fn two_runs_do_not_switch_the_same_file() {
    let machine = Machine::new(&[("proc/sys/vm/swappiness", "60\n"), ("proc/sys/vm/other", "1\n")]);
    let mut first = machine.switch(&[&["set:vm.swappiness=10"]]).unwrap();
    first.apply(&settings(&["set:vm.swappiness=10"])).unwrap();
    let error = machine.switch(&[&["set:vm.swappiness=20"]]).unwrap_err();
    assert!(matches!(error, SettingError::InUse { .. }), "{error}");
    machine.switch(&[&["set:vm.other=2"]]).unwrap();
    assert_eq!(machine.journals(), 1);
}

#[test]
fn a_value_that_is_not_taken_is_named() {
    let machine = Machine::new(&[("proc/sys/vm/x", "1\n")]);
    let mut switch = machine.switch(&[&["set:vm.x=2"]]).unwrap();
    fs::remove_file(machine.root.path().join("proc/sys/vm/x")).unwrap();
    let error = switch.apply(&settings(&["set:vm.x=2"])).unwrap_err();
    assert!(matches!(error, SettingError::Refused { .. }), "{error}");
    // A file that vanished has nothing to restore.
    assert_eq!(switch.restore(), Vec::<String>::new());
}

#[test]
fn features_of_the_scheduler_are_switched_one_by_one() {
    const FEATURES: &str = "sys/kernel/debug/sched/features";
    let machine = Machine::new(&[(FEATURES, "PLACE_LAG NO_PREEMPT_SHORT TTWU_QUEUE \n")]);
    let (one, two) = (["sched_features=NO_PLACE_LAG"], ["sched_features=NO_TTWU_QUEUE,PREEMPT_SHORT"]);
    let files = machine.files(&[&one, &two]).unwrap();
    assert_eq!(files.describe(&settings(&one)), "sched_features=NO_PLACE_LAG,TTWU_QUEUE,NO_PREEMPT_SHORT");
    assert_eq!(files.describe(&settings(&two)), "sched_features=PLACE_LAG,NO_TTWU_QUEUE,PREEMPT_SHORT");
    let file = machine.root.path().join(FEATURES).canonicalize().unwrap();
    let tee = |word: &str| format!("echo {word} | sudo tee {}", file.display());
    assert_eq!(files.shell_commands(&settings(&two)), [tee("NO_TTWU_QUEUE"), tee("PREEMPT_SHORT")]);
    let all = Setting::all_of(machine.root.path(), "sched_features").unwrap();
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(
        all,
        ["NO_PLACE_LAG", "PREEMPT_SHORT", "NO_TTWU_QUEUE"].map(|word| format!("sched_features={word}"))
    );
    let error = machine.files(&[&["set:/sys/kernel/debug/sched/features=NO_LAG"]]).unwrap_err();
    assert!(error.to_string().contains("its values: NO_PLACE_LAG, PREEMPT_SHORT"), "{error}");
    let error = machine.files(&[&["sched_features=PLACE_LAG,NO_PLACE_LAG"]]).unwrap_err();
    assert!(error.to_string().contains("twice: 'PLACE_LAG' and 'NO_PLACE_LAG'"), "{error}");

    // The kernel's file takes a word and shows all of them; this one has only the last word that was written.
    let mut switch = machine.switch(&[&one]).unwrap();
    switch.apply(&settings(&one)).unwrap();
    assert_eq!(machine.read(FEATURES), "NO_PLACE_LAG");
    switch.check().unwrap();
    machine.write(FEATURES, "PREEMPT_SHORT NO_PLACE_LAG NO_TTWU_QUEUE\n");
    switch.check().unwrap();
    assert_eq!(switch.restore(), Vec::<String>::new());
    assert_eq!(machine.read(FEATURES), "PLACE_LAG");
}

#[test]
fn the_cpus_of_an_interrupt_are_the_setting_that_its_file_is() {
    let setting = Setting::cpus_of_interrupt(24, &"0-3,8".parse().unwrap());
    assert_eq!(setting, "set:/proc/irq/24/smp_affinity_list=0-3,8".parse().unwrap());
}
