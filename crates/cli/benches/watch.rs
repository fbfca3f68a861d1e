//! CPU time of watching: `qos watch` over 128 groups with two domains, and `vm top` over 100 imitations of
//! QEMU with four virtual CPUs and six other threads each, and a resctrl group for each of them.
//!
//! The groups are directories on a memory file system that imitate resctrl, so the kernel's cost of reading
//! real monitors is not included. Start and first reading are subtracted: each figure is the difference
//! between a long and a short run.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
    tasks,
};
use manycore_stats::quantile;
use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

const GROUPS: usize = 128;
const DOMAINS: usize = 100;
const VCPUS: usize = 4;
const OTHERS: usize = 6;
/// Number of readings of a long run, at one per second.
const READINGS: u32 = 16;
/// Number of pairs of runs, unless the environment variable `RUNS` is set.
const RUNS: usize = 3;
/// Maximum CPU time of watching, in percent of one CPU.
const MAX_CPU_PERCENT: [f64; 2] = [0.5, 1.0];

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "-name") {
        return imitate();
    }
    let runs = std::env::var("RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    make_groups(folder.path(), (1..GROUPS).map(|group| format!("qemu-{group}-domain{group}")));
    let root = folder.path().to_str().expect("a path");
    let watch = cost(runs, &["qos", "watch", "--resctrl", root]);
    tell(&format!("qos watch over {GROUPS} groups"), &watch, MAX_CPU_PERCENT[0]);
    let mut imitations: Vec<Child> = (0..DOMAINS).map(start).collect();
    let is_ready = |child: &Child| tasks::threads(child.id()).len() == 1 + VCPUS + OTHERS;
    while !imitations.iter().all(is_ready) {
        thread::sleep(Duration::from_millis(10));
    }
    let own = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    make_groups(own.path(), (0..DOMAINS).map(|domain| format!("qemu-{}-domain{domain}", domain + 1)));
    let top = cost(runs, &["vm", "top", "--resctrl", own.path().to_str().expect("a path")]);
    for child in &mut imitations {
        let _ = child.kill();
        let _ = child.wait();
    }
    tell(&format!("vm top over {DOMAINS} domains of {VCPUS} virtual CPUs"), &top, MAX_CPU_PERCENT[1]);
}

fn tell(what: &str, costs: &[f64], most: f64) {
    let at = |share| quantile(costs, share).expect("some runs");
    println!(
        "{what}, each second: {:.3} % of one CPU ({:.3} to {:.3}, {} runs; at most {most} %)",
        at(0.5),
        at(0.0),
        at(1.0),
        costs.len()
    );
    assert!(at(0.5) < most, "{what} may cost {most} % of one CPU");
}

/// Returns the CPU time of a reading in percent of a second, in ascending order.
fn cost(runs: usize, words: &[&str]) -> Vec<f64> {
    let seconds = |looks: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manycore"));
        command.args(words).args(["--interval", "1s", "--format", "json", "--count", &looks.to_string()]);
        let mut jobs = [Job::start(&mut command, &StartPlacement::default(), false).expect("it starts")];
        while !job::wait(&mut jobs, Duration::from_secs(1), &mut |_| {}).expect("it is waited for") {}
        let ended = jobs[0].ended().expect("it has ended");
        assert!(ended.status.success(), "{}", jobs[0].last_stderr_line());
        ended.cpu.as_secs_f64()
    };
    let mut costs: Vec<f64> =
        (0..runs).map(|_| (seconds(READINGS) - seconds(1)) / f64::from(READINGS - 1) * 100.0).collect();
    costs.sort_by(f64::total_cmp);
    costs
}

fn make_groups(root: &Path, names: impl Iterator<Item = String>) {
    let make = |path: &Path| {
        for domain in 0..2 {
            let monitors = path.join(format!("mon_data/mon_L3_{domain:02}"));
            fs::create_dir_all(&monitors).expect("a folder");
            for file in ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"] {
                fs::write(monitors.join(file), "123456789012\n").expect("a file");
            }
        }
        fs::create_dir_all(path.join("mon_groups")).expect("a folder");
        fs::write(path.join("tasks"), "").expect("a file");
    };
    make(root);
    names.for_each(|name| make(&root.join(name)));
    fs::create_dir(root.join("info")).expect("a folder");
    fs::write(root.join("schemata"), "MB:0=100;1=100\n").expect("a file");
}

/// Starts a process whose command line and threads have the names of a domain.
fn start(number: usize) -> Child {
    let program = std::env::current_exe().expect("this program");
    let name = format!("guest=domain{number},debug-threads=on");
    // The directory of libvirt's files for a domain with this number.
    let folder = format!("/var/lib/libvirt/qemu/domain-{}-domain{number}/", number + 1);
    Command::new(program)
        .arg0("/usr/bin/qemu-system-x86_64")
        .args([
            "-name",
            &name,
            "-uuid",
            &format!("4dea22b3-1d52-d8f3-2516-{number:012}"),
            "-pidfile",
            &folder,
            "-S",
        ])
        .stdin(Stdio::null())
        .spawn()
        .expect("an imitation starts")
}

/// Starts threads that sleep until the end.
fn imitate() {
    let names = (0..VCPUS)
        .map(|vcpu| format!("CPU {vcpu}/KVM"))
        .chain((0..OTHERS).map(|other| format!("worker {other}")));
    let barrier = Arc::new(Barrier::new(VCPUS + OTHERS + 2));
    for name in names {
        let barrier = Arc::clone(&barrier);
        thread::Builder::new().name(name).spawn(move || barrier.wait()).expect("a thread");
    }
    barrier.wait();
}
