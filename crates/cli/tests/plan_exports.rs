//! Tests of each output format of `manycore plan --as` against the program that reads it.

use crate::common::{manycore, sh, slurm::Cluster, text, write};
use manycore_placement::PlacementPlan;
use manycore_topology::{CpuSet, synthetic::MachineSpec};
use std::{collections::BTreeMap, fs, process::Command};
use tempfile::TempDir;

/// The file in which the kernel reports the CPUs that a task may use.
const STATUS: &str = "/proc/self/status";

fn stdout(args: &[&str]) -> String {
    let assert = manycore().arg("plan").args(args).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/machines/{name}.machine", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the CPUs of each worker of a plan for this machine.
fn planned(args: &[&str]) -> Vec<CpuSet> {
    let plan: PlacementPlan = serde_json::from_str(&stdout(&[args, &["--format", "json"]].concat())).unwrap();
    plan.workers.into_iter().map(|worker| worker.cpus).collect()
}

/// Returns `Cpus_allowed_list` of a status file.
fn allowed(status: &str) -> CpuSet {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_else(|| panic!("no list in {status:?}")).parse().unwrap()
}

/// Returns whether a program is installed; if not, prints that the test is skipped.
fn has(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap().status.success();
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// Plans for this machine: equal workers, one CPU per worker, more workers than CPUs.
const PLANS: [&[&str]; 4] = [
    &["--place", "free", "--workers", "2"],
    &["--place", "close"],
    &["--place", "spread", "--workers", "1"],
    &["--place", "close", "--workers", "5"],
];

/// Runs `cat` with each line as its prefix and compares the CPUs that it may use.
fn words_place_a_command(format: &[&str]) {
    for plan in PLANS {
        let mut expected = planned(plan);
        if expected.windows(2).all(|pair| pair[0] == pair[1]) {
            expected.truncate(1);
        }
        let words = stdout(&[plan, format].concat());
        let lines: Vec<&str> = words.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{words}");
        for (line, cpus) in lines.iter().zip(expected) {
            let output = sh(&format!("{line} cat {STATUS}"));
            assert!(output.status.success(), "{line}: {}", text(&output.stderr));
            assert_eq!(allowed(&text(&output.stdout)), cpus, "{line}");
        }
    }
}

#[test]
fn taskset_places_a_command() {
    if has("taskset") {
        words_place_a_command(&["--as", "taskset"]);
        let together = stdout(&["--as", "taskset", "--together", "--place", "close"]);
        let output = sh(&format!("{} cat {STATUS}", together.trim()));
        assert_eq!(allowed(&text(&output.stdout)), CpuSet::union_of(&planned(&["--place", "close"])));
    }
}

#[test]
fn numactl_places_a_command_and_its_memory() {
    if !has("numactl") {
        return;
    }
    if !sh("numactl --membind=0 true").status.success() {
        eprintln!("SKIPPED: numactl may not set a memory policy here");
        return;
    }
    for (memory, policy) in
        [("default", "default"), ("local", "local"), ("bind", "bind"), ("interleave", "interleave")]
    {
        words_place_a_command(&["--as", "numactl", "--memory", memory]);
        let words = stdout(&["--as", "numactl", "--memory", memory, "--place", "free"]);
        let shown = text(&sh(&format!("{} numactl --show", words.trim())).stdout);
        // Older versions call the local policy preferred.
        let known = [format!("policy: {policy}\n"), "policy: preferred\n".to_owned()];
        let known = if memory == "local" { &known[..] } else { &known[..1] };
        assert!(known.iter().any(|known| shown.contains(known)), "{words}{shown}");
    }
}

/// Returns the complaints of `systemd-analyze verify` about a unit with this drop-in.
fn complaints(drop_in: &str) -> String {
    let folder = TempDir::new().unwrap();
    let unit = write(folder.path(), "placed.service", b"[Service]\nExecStart=/bin/true\n");
    fs::create_dir(folder.path().join("placed.service.d")).unwrap();
    write(&folder.path().join("placed.service.d"), "placement.conf", drop_in.as_bytes());
    let output = Command::new("systemd-analyze").arg("verify").arg(unit).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    // Other units of this machine that the unit depends on may have problems of their own.
    said.lines().filter(|line| line.contains("placement.conf")).collect::<Vec<_>>().join("\n")
}

#[test]
fn systemd_takes_the_drop_in() {
    if !has("systemd-analyze") {
        return;
    }
    for broken in ["CPUAffinity=0-x", "NUMAPolicy=bound", "NUMAMask=zz", "AllowedCPUs=q", "AllowedMemory=0"] {
        assert!(
            complaints(&format!("[Service]\n{broken}\n")).contains("placement.conf"),
            "{broken} is not noticed"
        );
    }
    for memory in ["default", "local", "interleave", "bind", "bind=0"] {
        for machine in ["guest-2cpu", "clusters-128cpu", "server-64cpu"] {
            let args =
                ["--as", "systemd", "--root", &fixture(machine), "--place", "spread", "--memory", memory];
            let drop_in = stdout(&args);
            assert_eq!(complaints(&drop_in), "", "{drop_in}");
        }
    }
}

#[test]
fn podman_takes_the_options() {
    if !has("podman") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir_all(folder.path().join("rootfs/bin")).unwrap();
    let podman = format!("podman --root {} --runroot {} --storage-driver vfs", at("root"), at("run"));
    let create =
        |options: &str| sh(&format!("{podman} create {options} --rootfs {} /bin/true", at("rootfs")));
    let plain = create("");
    if !plain.status.success() {
        eprintln!("SKIPPED: podman cannot make a container here: {}", text(&plain.stderr).trim());
        return;
    }
    if create("--cpuset-cpus=0-x").status.success() {
        assert!(!rustix::process::geteuid().is_root(), "podman checks the options");
        return eprintln!("SKIPPED: podman ignores the options of an unprivileged user here");
    }
    for format in ["podman", "docker"] {
        for (memory, nodes) in [("default", ""), ("bind", "0")] {
            let options = stdout(&["--as", format, "--memory", memory, "--together"]);
            let made = create(options.trim());
            assert!(made.status.success(), "{options}{}", text(&made.stderr));
            let form = "{{.HostConfig.CpusetCpus}} {{.HostConfig.CpusetMems}}";
            let seen = sh(&format!("{podman} inspect --format '{form}' {}", text(&made.stdout).trim()));
            let cpus = CpuSet::union_of(&planned(&[]));
            assert_eq!(text(&seen.stdout).trim(), format!("{cpus} {nodes}").trim(), "{}", text(&seen.stderr));
        }
    }
}

/// Prints the number of each thread and the CPUs that it may use.
const OPENMP: &str = r#"
#include <omp.h>
#include <stdio.h>
int main(void) {
#pragma omp parallel
#pragma omp critical
    {
        char line[512], cpus[512];
        FILE *status = fopen("/proc/thread-self/status", "r");
        while (status && fgets(line, sizeof line, status))
            if (sscanf(line, "Cpus_allowed_list: %511s", cpus) == 1)
                printf("%d %s\n", omp_get_thread_num(), cpus);
        fclose(status);
    }
}
"#;

/// Parses lines such as `3 0-1` into the CPUs by number of thread or task.
fn numbered(lines: &str) -> BTreeMap<usize, CpuSet> {
    let pair = |line: &str| {
        let (number, cpus) = line.split_once(' ').unwrap_or_else(|| panic!("{lines}"));
        (number.parse().unwrap(), cpus.parse().unwrap())
    };
    lines.lines().map(pair).collect()
}

#[test]
fn openmp_puts_each_thread_on_its_place() {
    if !has("gcc") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let source = write(folder.path(), "place.c", OPENMP.as_bytes());
    let program = folder.path().join("place");
    let built = Command::new("gcc").arg("-fopenmp").arg(&source).arg("-o").arg(&program).output().unwrap();
    if !built.status.success() {
        eprintln!("SKIPPED: gcc has no OpenMP here: {}", text(&built.stderr).trim());
        return;
    }
    for plan in PLANS {
        let environment = stdout(&[plan, &["--as", "openmp"]].concat());
        let script = format!("{environment}export OMP_DISPLAY_AFFINITY=true\n{}", program.display());
        let output = sh(&script);
        assert!(output.status.success(), "{}", text(&output.stderr));
        // With OMP_DISPLAY_AFFINITY the runtime also prints its own view.
        let lines = text(&output.stdout);
        let seen: Vec<&str> = lines.lines().filter(|line| !line.starts_with("level")).collect();
        let expected: BTreeMap<usize, CpuSet> = planned(plan).into_iter().enumerate().collect();
        assert_eq!(numbered(&seen.join("\n")), expected, "{environment}{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("Invalid"), "{}", text(&output.stderr));
    }
}

/// Checks the kubelet's configuration and the pod, and prints what they request.
const KUBERNETES_CHECK: &str = "
import sys, yaml
kubelet, pod = yaml.safe_load_all(sys.stdin.read())
assert kubelet['kind'] == 'KubeletConfiguration' and pod['kind'] == 'Pod', (kubelet, pod)
assert all(value == 'true' for value in kubelet.get('cpuManagerPolicyOptions', {}).values()), kubelet
total = 0
for container in pod['spec']['containers']:
    resources = container['resources']
    assert resources['requests'] == resources['limits'] and str(int(resources['limits']['cpu'])) == resources['limits']['cpu']
    total += int(resources['limits']['cpu'])
print(len(pod['spec']['containers']), total, kubelet['cpuManagerPolicy'], kubelet.get('topologyManagerPolicy'),
    kubelet.get('reservedSystemCPUs'), *sorted(kubelet.get('cpuManagerPolicyOptions', {})),
    *[f'{key}={value}' for key, value in kubelet.get('topologyManagerPolicyOptions', {}).items()])
";

#[test]
fn yaml_has_what_the_static_policy_needs() {
    if !sh("python3 -c 'import yaml'").status.success() {
        eprintln!("SKIPPED: python3 has no yaml");
        return;
    }
    let folder = TempDir::new().unwrap();
    let check = write(folder.path(), "check.py", KUBERNETES_CHECK.as_bytes());
    // With more than 8 nodes, the kubelet does not start without the option.
    let saved = |name: &str, packages| {
        let spec = MachineSpec { packages, nodes: 2, cores: 2, threads: 1, ..MachineSpec::default() };
        write(folder.path(), name, spec.capture().to_string().as_bytes()).display().to_string()
    };
    let (eight, ten) = (saved("8.machine", 4), saved("10.machine", 5));
    let most = "max-allowable-numa-nodes=10";
    for (machine, args, expected) in [
        (&*eight, "--workers 2 --place close --reserve 1", "1 2 static single-numa-node 0"),
        (&*ten, "--workers 2 --place close --reserve 1", &*format!("1 2 static single-numa-node 0 {most}")),
        (&*ten, "--workers 20 --place spread", "1 20 static none None distribute-cpus-across-numa"),
        ("guest-2cpu", "--place close", "1 2 static single-numa-node None"),
        ("guest-2cpu", "--place free", "1 2 none None None"),
        ("guest-2cpu", "--workers 5", "1 2 none None None"),
        ("hybrid-16cpu", "--workers 4 --reserve 2", "1 4 static single-numa-node 12,14 full-pcpus-only"),
        (
            "hybrid-16cpu",
            "--workers 5 --place spread",
            "1 5 static single-numa-node None distribute-cpus-across-cores",
        ),
        (
            "hybrid-16cpu",
            "--workers 3 --place close+nosmt",
            "1 6 static single-numa-node None full-pcpus-only",
        ),
        ("clusters-128cpu", "--workers 8 --place spread", "1 8 static none None distribute-cpus-across-numa"),
        (
            "clusters-128cpu",
            "--workers 4 --place spread@package",
            "4 128 static restricted None align-by-socket",
        ),
        (
            "clusters-128cpu",
            "--workers 8 --place spread@node --reserve cpus=0",
            "8 126 static single-numa-node 0",
        ),
        (
            "clusters-128cpu",
            "--workers 4 --place spread@llc",
            "4 128 static single-numa-node None prefer-align-cpus-by-uncorecache",
        ),
        ("clusters-128cpu", "--workers 64 --place close", "1 64 static restricted None"),
    ] {
        let root = if machine.starts_with('/') { machine.to_owned() } else { fixture(machine) };
        let args = ["--as", "kubernetes", "--root", &root].into_iter().chain(args.split(' '));
        let yaml = stdout(&args.collect::<Vec<_>>());
        let file = write(folder.path(), "out.yaml", yaml.as_bytes());
        let seen = sh(&format!("python3 {} < {}", check.display(), file.display()));
        assert_eq!(text(&seen.stdout).trim(), expected, "{yaml}{}", text(&seen.stderr));
    }
}

#[test]
fn slurm_gives_each_task_its_cpus() {
    if !["slurmctld", "slurmd", "srun", "salloc"].into_iter().all(has) {
        return;
    }
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => {
            eprintln!("SKIPPED: Slurm does not come up here: {why}");
            return;
        }
    };
    let task = "bash -c 'echo $SLURM_PROCID $(grep Cpus_allowed_list /proc/self/status | cut -f2)'";
    for plan in PLANS {
        for more in ["default", "local", "bind"] {
            let line = stdout(&[plan, &["--as", "slurm", "--memory", more]].concat());
            let words = line.lines().find(|line| !line.starts_with('#')).unwrap();
            let output = cluster.run(&format!("{words} {task}"));
            let expected: BTreeMap<usize, CpuSet> = planned(plan).into_iter().enumerate().collect();
            assert!(output.status.success(), "{words}: {}", text(&output.stderr));
            assert_eq!(numbered(&text(&output.stdout)), expected, "{words}");
        }
    }
    let wrong =
        cluster.run(&format!("salloc --nodes=1 --exclusive srun --ntasks=1 --cpu-bind=map_cpu:9999 {task}"));
    assert!(!wrong.status.success(), "Slurm checks the map");
}
