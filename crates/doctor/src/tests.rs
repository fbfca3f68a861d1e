//! Diagnoses of invented machines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop anywhere")]

use crate::{
    Check, Diagnosis, Fix, PackageManager, State, diagnose,
    facts::{
        CgroupVersions, EmulatorFacts, Facts, FeatureFacts, GroupAccess, HardwareFacts, KernelFacts,
        KvmAccess, PressureFacts, ProgramFacts, ResctrlFacts, RightsFacts, RuntimeFacts, SchedulerFacts,
        SystemFacts,
    },
    probe, text,
};
use manycore_render::{document::Extent, terminal::Terminal};
use manycore_topology::{SysTree, capture::Capture};

/// Returns the text on a terminal of 80 columns.
fn shown(diagnosis: &Diagnosis) -> String {
    text::render(diagnosis, Extent::Full).text(Terminal::new(80, false))
}

/// Returns the text without `--verbose`.
fn shown_briefly(diagnosis: &Diagnosis) -> String {
    text::render(diagnosis, Extent::Brief { hint: "--verbose" }).text(Terminal::new(80, false))
}

const ALL_CAPABILITIES: u64 = 0x1ff_ffff_ffff;

fn runtimes(there: bool) -> Vec<RuntimeFacts> {
    let runtimes = [("beam", &["erl", "erlc"][..]), ("go", &["go"]), ("jvm", &["java", "javac"])];
    let facts = |(name, programs): (&str, &[&str])| RuntimeFacts {
        name: name.to_owned(),
        programs: programs.iter().map(|&program| (program.to_owned(), there)).collect(),
    };
    runtimes.map(facts).into()
}

/// A large server without a hypervisor, with everything.
fn server() -> Facts {
    Facts {
        system: SystemFacts {
            version: "0.1.0".to_owned(),
            os: Some("openEuler 24.03 (LTS-SP1)".to_owned()),
            kernel: Some("6.6.0-72.0.0.76.oe2403sp1.x86_64".to_owned()),
            architecture: "x86_64".to_owned(),
            hypervisor: None,
            packages: Some(PackageManager::Dnf),
        },
        rights: RightsFacts {
            is_root: true,
            capabilities: ALL_CAPABILITIES,
            usable_cpus: 320,
            online_cpus: 320,
            quota_cpus: None,
            limit: "nothing".to_owned(),
            cgroups: CgroupVersions { v1: false, v2: true },
            cpuset: GroupAccess::Writable("/sys/fs/cgroup/user.slice".into()),
            resets_affinities: false,
            memory: GroupAccess::Writable("/sys/fs/cgroup/user.slice".into()),
            process_events: true,
            hidepid: None,
            perf_event_paranoid: Some(2),
        },
        kernel: KernelFacts {
            pressure: PressureFacts { cpu: true, memory: true },
            scheduler: SchedulerFacts { run_delay: true, migrations: true },
            resctrl: ResctrlFacts::Mounted("/sys/fs/resctrl".into(), true),
            sched_ext: Some(String::new()),
            btf: true,
        },
        hardware: HardwareFacts {
            nodes: 4,
            numa_balancing: Some(true),
            governors: vec!["performance".to_owned()],
            turbo: Some(true),
            pmus: vec!["cpu".to_owned()],
            transparent_huge_pages: Some("madvise".to_owned()),
            huge_pages: vec![(2048, 512), (1_048_576, 0)],
            kvm: KvmAccess::Usable,
        },
        features: all_features(),
    }
}

fn all_features() -> FeatureFacts {
    let found = |version: &str| ProgramFacts::Found(version.to_owned());
    FeatureFacts {
        emulator: EmulatorFacts::Usable("qemu-x86_64 version 8.2.0".to_owned()),
        memory_events: vec!["cpu/mem-loads,ldlat=30/P".to_owned()],
        virsh: found("9.10.0"),
        qemu_system: found("8.2.0"),
        runtimes: runtimes(true),
        sysbench: found("sysbench 1.0.20"),
        stress_ng: found("stress-ng 0.17.4"),
        numpy: found("1.24.4 with libopenblas.so.0"),
    }
}

/// An ordinary user in a container of a small virtual machine with nothing installed.
fn container() -> Facts {
    Facts {
        system: SystemFacts {
            version: "0.1.0".to_owned(),
            os: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
            kernel: Some("6.1.0-18-amd64".to_owned()),
            architecture: "x86_64".to_owned(),
            hypervisor: Some("KVM".to_owned()),
            packages: Some(PackageManager::Apt),
        },
        rights: RightsFacts {
            usable_cpus: 2,
            online_cpus: 8,
            quota_cpus: Some(1.5),
            limit: "cpu.max of /sys/fs/cgroup".to_owned(),
            cgroups: CgroupVersions { v1: false, v2: true },
            cpuset: GroupAccess::ReadOnly("/sys/fs/cgroup".into()),
            memory: GroupAccess::Unavailable(
                "no parent control group enables the memory controller".to_owned(),
            ),
            perf_event_paranoid: Some(4),
            ..RightsFacts::default()
        },
        kernel: KernelFacts {
            pressure: PressureFacts { cpu: true, memory: false },
            ..KernelFacts::default()
        },
        hardware: HardwareFacts {
            nodes: 1,
            transparent_huge_pages: Some("never".to_owned()),
            ..HardwareFacts::default()
        },
        features: FeatureFacts { runtimes: runtimes(false), ..FeatureFacts::default() },
    }
}

fn check<'a>(diagnosis: &'a Diagnosis, name: &str) -> &'a Check {
    diagnosis.checks.iter().find(|check| check.name == name).unwrap()
}

fn fix(facts: &Facts, name: &str) -> Option<Fix> {
    check(&diagnose(facts), name).fix.clone()
}

fn command(words: &str) -> Fix {
    Fix::Command(words.to_owned())
}

#[test]
fn a_server_with_everything_lacks_nothing() {
    let diagnosis = diagnose(&server());
    assert!(diagnosis.checks.iter().all(|check| check.state == State::Available), "{diagnosis:#?}");
    assert_eq!(diagnosis.install_all, None);
    insta::assert_snapshot!(shown(&diagnosis));
}

#[test]
fn a_container_lacks_much() {
    let diagnosis = diagnose(&container());
    assert_eq!(
        diagnosis.install_all.as_deref(),
        Some(
            "sudo apt-get install default-jdk-headless erlang-base golang-go libvirt-clients libvirt-daemon-system \
             python3-numpy qemu-system-x86 qemu-user stress-ng sysbench"
        )
    );
    insta::assert_snapshot!(shown(&diagnosis));
}

/// A cpuset for a command would cost the affinities of other processes.
#[test]
fn no_cpuset_is_advised_where_the_kernel_resets_affinities() {
    let mut facts = container();
    facts.rights.resets_affinities = true;
    assert_eq!(fix(&facts, "cpusets"), Some(Fix::Advice("use Linux 6.2 or later".to_owned())));
}

#[test]
fn what_matters_most_comes_first_and_fits_on_a_screen() {
    let container = diagnose(&container());
    let text = shown_briefly(&container);
    assert!(text.lines().count() <= 50, "{text}");
    let named = |text: &str| {
        // A name may be on two lines.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        container.checks.iter().filter(|check| text.contains(&check.name)).count()
    };
    assert!(container.checks.iter().all(|check| !check.used_by.is_empty()));
    assert_eq!(named(&text), container.checks.len());
    assert_eq!(named(&shown(&container)), container.checks.len());
    insta::assert_snapshot!(text);
    assert!(shown_briefly(&diagnose(&server())).lines().count() <= 10);
}

#[test]
fn what_is_lost_has_a_cost_and_a_fix_and_only_that() {
    for facts in [server(), container(), Facts::default()] {
        for check in diagnose(&facts).checks {
            let lost = check.state != State::Available;
            assert_eq!((check.cost.is_some(), check.fix.is_some()), (lost, lost), "{check:?}");
            assert!(lost || check.packages.is_empty(), "{check:?}");
        }
    }
}

#[test]
fn a_check_is_one_line_of_80_columns() {
    for facts in [server(), container()] {
        let diagnosis = diagnose(&facts);
        let text = shown(&diagnosis);
        for check in &diagnosis.checks {
            let line =
                text.lines().find(|line| line.contains(&check.found) && line.contains(&check.name)).unwrap();
            assert!(line.len() <= 80, "{line}");
        }
    }
}

#[test]
fn every_fix_is_for_the_package_manager_of_the_machine() {
    let missing = |packages| {
        let mut facts = container();
        facts.system.packages = packages;
        fix(&facts, "Go")
    };
    assert_eq!(missing(Some(PackageManager::Apt)), Some(command("sudo apt-get install golang-go")));
    assert_eq!(missing(Some(PackageManager::Dnf)), Some(command("sudo dnf install golang")));
    let words = "install the packages golang-go (Debian) or golang (Fedora, openEuler)";
    assert_eq!(missing(None), Some(Fix::Advice(words.to_owned())));
    let mut facts = container();
    facts.system.packages = None;
    assert_eq!(diagnose(&facts).install_all, None);
}

#[test]
fn hardware_is_absent_for_different_reasons_in_a_guest_and_on_metal() {
    let said = |facts: &Facts| match fix(facts, "resctrl") {
        Some(Fix::Advice(words)) => words,
        other => panic!("{other:?}"),
    };
    let mut facts = container();
    assert!(said(&facts).starts_with("not on this machine: a virtual machine (KVM) without RDT"));
    facts.system.hypervisor = None;
    assert!(said(&facts).starts_with("not on this machine: it needs Intel RDT"));
}

#[test]
fn resctrl_that_is_only_not_mounted_is_missing_with_the_mount_command() {
    let mut facts = server();
    facts.kernel.resctrl = ResctrlFacts::NotMounted;
    let diagnosis = diagnose(&facts);
    assert_eq!(check(&diagnosis, "resctrl").state, State::Missing);
    assert_eq!(fix(&facts, "resctrl"), Some(command("mount -t resctrl resctrl /sys/fs/resctrl")));
}

#[test]
fn root_without_capabilities_is_partial_and_they_are_named() {
    let mut facts = server();
    // CAP_SYS_NICE and CAP_SYS_ADMIN, as in a container.
    facts.rights.capabilities &= !(1 << 23 | 1 << 21);
    let diagnosis = diagnose(&facts);
    let root = check(&diagnosis, "root");
    assert_eq!(root.state, State::Partial);
    assert!(root.cost.as_ref().unwrap().contains("CAP_SYS_ADMIN, CAP_SYS_NICE"), "{root:?}");
    assert_eq!(root.found, "root without CAP_SYS_ADMIN, CAP_SYS_NICE");
    facts.rights.capabilities = 0;
    let diagnosis = diagnose(&facts);
    assert_eq!(check(&diagnosis, "root").found, "root without CAP_DAC_OVERRIDE and 7 more");
    facts.rights.capabilities = ALL_CAPABILITIES & !(1 << 23 | 1 << 21);
    // The level of paranoia applies without CAP_SYS_ADMIN.
    assert_eq!(fix(&facts, "perf events"), Some(command("sysctl kernel.perf_event_paranoid=1")));
}

#[test]
fn an_emulator_without_plugins_is_replaced_by_one_with_and_a_plugin_that_was_not_built_in_is_built() {
    let mut facts = server();
    facts.features.emulator = EmulatorFacts::WithoutPlugins("/usr/bin/qemu-x86_64".to_owned());
    let Some(Fix::Advice(words)) = fix(&facts, "qemu-user") else { panic!() };
    assert!(words.contains("--target-list=x86_64-linux-user --enable-plugins"), "{words}");
    facts.features.emulator = EmulatorFacts::NotBuiltIn;
    let Some(Fix::Advice(words)) = fix(&facts, "qemu-user") else { panic!() };
    assert!(words.contains("x86_64-unknown-linux-gnu"), "{words}");
}

#[test]
fn hidden_processes_are_a_check_only_where_they_are_hidden() {
    let mut facts = container();
    let is_checked =
        |facts: &Facts| diagnose(facts).checks.iter().any(|check| check.name == "other processes");
    assert!(!is_checked(&facts));
    facts.rights.hidepid = Some("invisible".to_owned());
    let diagnosis = diagnose(&facts);
    let hidden = check(&diagnosis, "other processes");
    assert_eq!(
        (hidden.state, hidden.found.as_str()),
        (State::Partial, "hidden by /proc (hidepid=invisible)")
    );
}

/// Regression test: on Debian 13, whose qemu-user has no plugins, the fix was to install it.
#[test]
fn qemu_user_of_debian_is_not_recommended_where_it_has_no_plugins() {
    let mut facts = container();
    for (os, is_usable) in [
        ("Debian GNU/Linux 12 (bookworm)", true),
        ("Debian GNU/Linux 13 (trixie)", false),
        ("Debian GNU/Linux forky/sid", false),
        ("Ubuntu 24.04.2 LTS", true),
        ("Ubuntu 25.04", false),
        ("Ubuntu 26.04 LTS", false),
        // Not known: the advice names the versions.
        ("Linux Mint 22", false),
    ] {
        facts.system.os = Some(os.to_owned());
        let fix = fix(&facts, "qemu-user");
        assert_eq!(fix == Some(command("sudo apt-get install qemu-user")), is_usable, "{os}: {fix:?}");
        let packages = diagnose(&facts).install_all.unwrap_or_default();
        assert_eq!(packages.contains("qemu-user"), is_usable, "{os}: {packages}");
    }
}

#[test]
fn a_loaded_scheduler_is_named() {
    let tree = |files: &[(&str, &str)]| {
        let mut capture = Capture::default();
        for (path, text) in files {
            capture.add_file(path, text);
        }
        SysTree::from_capture(capture)
    };
    let folder = "sys/kernel/sched_ext";
    let (state, ops) = (format!("{folder}/state"), format!("{folder}/root/ops"));
    assert_eq!(probe::sched_ext(&tree(&[])), None);
    assert_eq!(probe::sched_ext(&tree(&[(&state, "disabled\n")])).as_deref(), Some(""));
    let loaded = tree(&[(&state, "enabled\n"), (&ops, "rusty\n")]);
    assert_eq!(probe::sched_ext(&loaded).as_deref(), Some("rusty"));
    let mut facts = server();
    facts.kernel.sched_ext = Some("rusty".to_owned());
    assert_eq!(check(&diagnose(&facts), "sched_ext").found, "rusty schedules this machine");
}

#[test]
fn files_of_the_kernel_are_parsed() {
    assert_eq!(probe::capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"), ALL_CAPABILITIES);
    assert_eq!(probe::capabilities("CapEff: x"), 0);
    assert_eq!(probe::selected("always [madvise] never").as_deref(), Some("madvise"));
    assert_eq!(probe::selected("always"), None);
    let devices = ["breakpoint", "cpu_atom", "cpu_core", "msr", "armv8_pmuv3_0"].map(str::to_owned);
    assert_eq!(probe::pmus(&devices), ["cpu_atom", "cpu_core", "armv8_pmuv3_0"]);
}
