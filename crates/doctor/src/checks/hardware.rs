//! Hardware, as far as the kernel provides it.

use super::{Maker, not_here, root_command};
use crate::{Check, Facts, Fix, State, Topic, facts::KvmAccess};

const MAKER: Maker = Maker(Topic::Hardware);

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    vec![
        numa(facts),
        frequency(facts),
        counters(facts),
        memory_sampling(facts),
        huge_pages(facts),
        kvm(facts),
    ]
}

fn numa(facts: &Facts) -> Check {
    let hardware = &facts.hardware;
    let used_by = ["topo", "bench", "plan", "run", "tune", "vm"];
    if hardware.nodes > 1 {
        let balancing = match hardware.numa_balancing {
            Some(true) => ", the kernel moves memory (numa_balancing)",
            _ => "",
        };
        return MAKER.available("NUMA", &used_by, format!("{} nodes{balancing}", hardware.nodes));
    }
    MAKER.available("NUMA", &used_by, "1 node").lacking(
        State::Absent,
        "nothing to place: near=nodeN, spread@node and memory policies change nothing here",
        not_here(facts, "with one memory node", "it has one memory node"),
    )
}

fn frequency(facts: &Facts) -> Check {
    let hardware = &facts.hardware;
    let used_by = ["eval", "bench", "compare", "scale", "tune"];
    let turbo = match hardware.turbo {
        Some(true) => ", turbo on",
        Some(false) => ", turbo off",
        None => "",
    };
    if hardware.governors.is_empty() {
        return MAKER.available("CPU frequency", &used_by, "no cpufreq").lacking(
            State::Absent,
            "records have no clock frequencies: a CPU that slows down is not told from other causes",
            not_here(
                facts,
                "does not see the clock of its CPUs",
                "needs a driver for cpufreq (intel_pstate, amd_pstate, acpi-cpufreq, cppc_cpufreq)",
            ),
        );
    }
    MAKER.available("CPU frequency", &used_by, format!("governor {}{turbo}", hardware.governors.join(", ")))
}

fn counters(facts: &Facts) -> Check {
    let used_by = ["top"];
    let found = facts.hardware.pmus.join(", ");
    if !found.is_empty() {
        return MAKER.available("hardware counters", &used_by, found);
    }
    MAKER.available("hardware counters", &used_by, "no unit of the CPU cores").lacking(
        State::Absent,
        "top has no columns for instructions per cycle and cache misses",
        not_here(
            facts,
            "without performance counters; its host can provide them (KVM: <pmu state='on'/>)",
            "needs a kernel with CONFIG_HW_PERF_EVENTS for these CPUs",
        ),
    )
}

fn memory_sampling(facts: &Facts) -> Check {
    if let Some(first) = facts.features.memory_events.first() {
        return MAKER.available("memory sampling", &["falseshare"], first);
    }
    MAKER.available("memory sampling", &["falseshare"], "no event with addresses").lacking(
        State::Absent,
        "falseshare --engine sampling is refused: programs are observed in an emulator, some dozens of times slower",
        not_here(
            facts,
            "without PEBS or IBS",
            "needs mem-loads events (Intel) or ibs_op (AMD); Arm's SPE is not supported",
        ),
    )
}

fn huge_pages(facts: &Facts) -> Check {
    let hardware = &facts.hardware;
    let used_by = ["eval", "bench", "vm"];
    let reserved: Vec<String> = hardware
        .huge_pages
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kib, count)| format!("{count} of {} MiB reserved", kib >> 10))
        .collect();
    let transparent = hardware.transparent_huge_pages.as_deref().unwrap_or("not supported");
    let found = [vec![format!("transparent: {transparent}")], reserved]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ");
    let check = MAKER.available("huge pages", &used_by, found);
    match transparent {
        "always" | "madvise" => check,
        "never" => check.lacking(
            State::Partial,
            "matrix and stream loads use small pages: address translation slows them down",
            root_command(facts, "sh -c 'echo madvise >/sys/kernel/mm/transparent_hugepage/enabled'"),
        ),
        _ => check.lacking(
            State::Absent,
            "matrix and stream loads use small pages: address translation slows them down",
            Fix::Advice("needs a kernel with CONFIG_TRANSPARENT_HUGEPAGE".to_owned()),
        ),
    }
}

fn kvm(facts: &Facts) -> Check {
    let check = |found| MAKER.available("KVM", &["vm"], found);
    let cost = "virtual machines planned by vm can only be emulated here, slowly; planning itself works";
    match facts.hardware.kvm {
        KvmAccess::Usable => check("/dev/kvm"),
        KvmAccess::NotPermitted => check("/dev/kvm is not permitted").lacking(
            State::Missing,
            cost,
            Fix::Command("sudo usermod -aG kvm $USER".to_owned()),
        ),
        KvmAccess::Missing => check("no /dev/kvm").lacking(
            State::Absent,
            cost,
            not_here(
                facts,
                "without nested virtualisation; its host can allow it",
                "enable virtualisation in the firmware and load the module (modprobe kvm_intel or kvm_amd)",
            ),
        ),
    }
}
