//! Tests of plans in the syntax of other programs.

use super::{machines::*, *};
use proptest::{prelude::*, sample::select};

/// Exports a plan for a program.
fn export(machine: &Machine, format: ExportFormat, place: &str, workers: usize, memory: &str) -> String {
    let (policy, memory): (Policy, MemoryPlacement) = (place.parse().unwrap(), memory.parse().unwrap());
    let plan = plan(machine, place, workers);
    let reserved = CpuSet::new();
    Export { plan: &plan, machine, policy: &policy, memory: &memory, reserved: &reserved }.text(format)
}

/// Returns the lines that are not comments.
fn bare(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn exports_use_other_programs_syntax() {
    let plan = plan(&two_packages(), "spread", 4);
    assert_eq!(plan.taskset(), "taskset -c 0-1,8-9");
    for (memory, words) in [
        ("default", ""),
        ("local", " --localalloc"),
        ("interleave", " --interleave=0-1"),
        ("interleave=1", " --interleave=1"),
        ("bind", " --membind=0-1"),
        ("bind=0", " --membind=0"),
    ] {
        let memory: MemoryPlacement = memory.parse().unwrap();
        assert_eq!(plan.numactl(&memory), format!("numactl --physcpubind=0-1,8-9{words}"));
    }
    let mut nodeless = plan;
    nodeless.workers.iter_mut().for_each(|worker| worker.memory_nodes.clear());
    assert!(nodeless.numactl(&MemoryPlacement::Bind(Vec::new())).ends_with("--membind=all"));
}

#[test]
fn each_worker_has_a_line_and_equal_workers_share_one() {
    let machine = two_packages();
    let taskset = |place| export(&machine, ExportFormat::Taskset, place, 3, "default");
    assert_eq!(taskset("spread"), "taskset -c 0\ntaskset -c 8\ntaskset -c 1\n");
    assert_eq!(taskset("free"), "taskset -c 0-15\n");
    let numactl = export(&machine, ExportFormat::Numactl, "spread", 2, "bind");
    assert_eq!(numactl, "numactl --physcpubind=0 --membind=0\nnumactl --physcpubind=8 --membind=1\n");
    let numactl = export(&machine, ExportFormat::Numactl, "spread", 2, "interleave");
    assert_eq!(
        bare(&numactl)[1],
        "numactl --physcpubind=8 --interleave=0-1",
        "over the memory of all workers"
    );
    let docker = export(&machine, ExportFormat::Docker, "spread@package", 2, "bind");
    assert_eq!(docker, "--cpuset-cpus=0-7 --cpuset-mems=0\n--cpuset-cpus=8-15 --cpuset-mems=1\n");
}

#[test]
fn unsupported_features_become_comments() {
    let machine = two_packages();
    for (format, memory, comment) in [
        (ExportFormat::Taskset, "bind", "# taskset cannot set a memory policy (bind); numactl can"),
        (
            ExportFormat::Docker,
            "interleave=1",
            "# docker cannot interleave memory: put 'numactl --interleave=1'",
        ),
        (ExportFormat::Podman, "interleave", "# podman cannot interleave memory"),
        (ExportFormat::OpenMp, "bind=1", "# numactl --membind=1 PROGRAM"),
        (ExportFormat::Slurm, "interleave", "# srun cannot interleave memory"),
        (ExportFormat::Kubernetes, "bind", "# bind: memoryManagerPolicy: Static"),
        (ExportFormat::Kubernetes, "default", "Kubernetes cannot name CPUs"),
        (ExportFormat::Systemd, "default", "#   NAME@1.service: CPUAffinity=8 AllowedCPUs=8"),
    ] {
        let text = export(&machine, format, "spread", 2, memory);
        assert!(text.contains(comment), "{text}");
    }
    for format in [ExportFormat::Taskset, ExportFormat::Numactl, ExportFormat::Docker, ExportFormat::Podman] {
        assert!(
            !export(&machine, format, "spread", 2, "default").contains('#'),
            "output for command substitution"
        );
    }
}

#[test]
fn slurm_has_a_map_for_single_cpus_and_masks_for_more() {
    let machine = two_packages();
    let bind = |place, workers, memory| {
        let text = export(&machine, ExportFormat::Slurm, place, workers, memory);
        let words = bare(&text)[0].split_once("--cpu-bind=").unwrap().1;
        words.to_owned()
    };
    assert_eq!(bind("spread", 3, "default"), "map_cpu:0,8,1");
    assert_eq!(bind("spread@package", 3, "bind"), "mask_cpu:0xff,0xff00,0xff --mem-bind=map_mem:0,1,0");
    assert_eq!(bind("free", 40, "bind"), "mask_cpu:0xffff*40 --mem-bind=mask_mem:0x3*40");
    assert_eq!(bind("close+nosmt", 1, "local"), "map_cpu:0 --hint=nomultithread --mem-bind=local");
    let text = export(&machine, ExportFormat::Slurm, "close", 17, "default");
    assert!(text.contains("--ntasks=17 --overcommit"), "{text}");
}

#[test]
fn openmp_places_are_intervals() {
    let machine = sparse();
    let places = |place, workers| {
        let text = export(&machine, ExportFormat::OpenMp, place, workers, "default");
        bare(&text)[1].to_owned()
    };
    assert_eq!(places("close", 6), "export OMP_PLACES='{2},{8},{10},{100},{102},{2}'");
    assert_eq!(places("free", 6), "export OMP_PLACES='{2,8,10,100,102}'");
    let text = export(&two_packages(), ExportFormat::OpenMp, "spread@package", 2, "default");
    assert!(text.contains("'{0:8},{8:8}'"), "{text}");
}

#[test]
fn unused_cpus_are_in_no_plan() {
    let mut machine = two_packages();
    machine.isolated = cpus("3,4");
    machine.allowed.cpus = cpus("0-11");
    machine.offline = cpus("16-17");
    let (policy, reserve): (Policy, Reserve) = ("cpus=3,0".parse().unwrap(), "2".parse().unwrap());
    let unused = UnusedCpus::new(&policy, &machine, &reserve);
    let texts = [&unused.reserved, &unused.isolated, &unused.denied, &unused.offline];
    assert_eq!(texts.map(ToString::to_string), ["1-2", "4", "12-15", "16-17"]);
    assert_eq!(policy.capacity(&machine, &reserve), Ok(2));
    let close: Policy = "close".parse().unwrap();
    assert_eq!(close.capacity(&machine, &reserve), Ok(8));
}

proptest! {
    #[test]
    fn every_format_expresses_every_plan(
        place in select(vec!["free", "close", "spread", "spread@core", "spread@package+nosmt", "cpus=10,2"]),
        memory in select(vec!["default", "local", "interleave", "bind", "bind=0"]),
        workers in 1..30usize,
        nodes in any::<bool>(),
    ) {
        let mut machine = two_packages();
        if !nodes {
            machine.nodes.clear();
        }
        for format in ExportFormat::ALL {
            let text = export(&machine, format, place, workers, memory);
            prop_assert!(text.ends_with('\n') && !text.contains("= ") && !text.contains("=\"\""), "{}", text);
            // Lists of nodes or CPUs are not empty, except where systemd's empty assignment clears one.
            let cut = text.lines().find(|line| line.ends_with('=') && !line.starts_with("CPU") && !line.starts_with("Allowed"));
            prop_assert_eq!(cut, None);
        }
    }
}
