//! Properties of a node that explain differences or that should not differ: hardware, kernel, settings.

use crate::figures::{NodeRecord, shown};
use manycore_experiment::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Property: CPU model name.
pub const CPU_MODEL: &str = "CPU model";
/// Property: number of online CPUs.
pub const CPUS: &str = "CPUs";
/// Property: memory, where sizes that hardly differ count as one.
pub const MEMORY: &str = "memory";
/// Property: kernel release.
pub const KERNEL: &str = "kernel";
/// Property: microcode revision.
pub const MICROCODE: &str = "microcode";

/// Property: vendor, version and date of the BIOS.
pub const BIOS: &str = "BIOS";
/// Property: how slots are populated with memory modules.
pub const MODULES: &str = "memory modules";

/// The properties by which nodes are of one kind, unless others are named.
pub const DEFAULT_KEYS: [&str; 5] = [CPU_MODEL, CPUS, MEMORY, KERNEL, MICROCODE];

/// Property: sizes of memory of the NUMA nodes, which show how it is populated.
const NODE_MEMORY: &str = "memory per NUMA node";
/// Property: how the CPU flags differ from those of most nodes of the kind.
const FLAGS: &str = "CPU flags";

/// What is said of CPU flags that do not differ from those of most nodes.
pub const USUAL_FLAGS: &str = "the usual ones";

/// Maximum number of kernel settings that are kept.
const MAX_SETTINGS: usize = 64;

/// Maximum number of NUMA nodes whose memory is shown.
const MAX_NUMA_NODES: usize = 64;

/// Maximum number of CPU flags, and of their characters in total.
const MAX_FLAGS: usize = 1024;

/// Sizes that follow each other in order within this share are one: kernels reserve some MB, a module is more.
const SAME_SIZE: f64 = 0.02;

/// Sizes and flags as a record has them. They become properties when those of all nodes are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeFacts {
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Memory of each NUMA node in bytes.
    pub node_memory: Vec<u64>,
    /// CPU flags, sorted, separated by blanks.
    pub flags: String,
}

impl SizeFacts {
    pub(crate) fn of_record(record: &Record) -> Self {
        let system = &record.machine.system;
        let known = system.cpu_flags.iter().take(MAX_FLAGS).map(|flag| shown(flag).replace(' ', "_"));
        let flags: BTreeSet<String> = known.collect();
        let nodes = record.machine.nodes.iter().take(MAX_NUMA_NODES);
        Self {
            memory: system.memory_bytes,
            node_memory: nodes.filter_map(|node| node.memory_bytes).collect(),
            flags: flags.into_iter().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Returns the names of the properties that any record can show, those of kernel settings excepted.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    of_machine(&Record::default()).into_iter().map(|(name, _)| name).chain([MEMORY, NODE_MEMORY])
}

/// Returns the properties that one record alone shows. Values are printable.
pub(crate) fn of_record(record: &Record) -> BTreeMap<String, String> {
    let settings = record.conditions.settings.iter().take(MAX_SETTINGS);
    let mut all: BTreeMap<String, String> =
        settings.map(|(name, value)| (shown(name), shown(value))).collect();
    let known = of_machine(record).into_iter();
    all.extend(known.filter_map(|(name, value)| Some((name.to_owned(), shown(&value?)))));
    all
}

/// Returns the properties of the machine and of the measurement.
fn of_machine(record: &Record) -> [(&'static str, Option<String>); 22] {
    let (machine, conditions) = (&record.machine, &record.conditions);
    let system = &machine.system;
    let text = |value: &Option<String>| value.clone();
    let some_cpus = |cpus: &manycore_topology::CpuSet| (!cpus.is_empty()).then(|| cpus.to_string());
    let governors = (!conditions.governors.is_empty()).then(|| conditions.governors.join(", "));
    let on_off = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    let quota = machine.allowed.quota_cpus.filter(|quota| quota.is_finite());
    [
        (CPU_MODEL, text(&system.cpu_model)),
        ("CPU id", text(&system.cpu_id)),
        (CPUS, Some(machine.online.len().to_string())),
        ("usable CPUs", Some(machine.usable().len().to_string())),
        ("offline CPUs", some_cpus(&machine.offline)),
        ("isolated CPUs", some_cpus(&machine.isolated)),
        ("packages", Some(machine.packages.len().to_string())),
        ("NUMA nodes", Some(machine.nodes.len().to_string())),
        ("SMT", Some(on_off(machine.has_smt()))),
        (KERNEL, text(&system.kernel)),
        (MICROCODE, text(&conditions.microcode)),
        ("os", text(&system.os)),
        ("hardware", text(&system.hardware)),
        (BIOS, text(&system.bios)),
        (MODULES, text(&system.memory_modules)),
        ("hypervisor", text(&system.hypervisor)),
        ("governor", governors),
        ("turbo", conditions.turbo.map(on_off)),
        ("clock source", text(&conditions.clock_source)),
        ("quota", quota.map(|quota| format!("{quota:.2} CPUs"))),
        ("manycore", Some(record.version.clone())),
        ("budget", Some(record.profile.clone())),
    ]
}

/// Adds the sizes of memory to the properties of all nodes.
pub(crate) fn add_sizes(nodes: &mut [NodeRecord]) {
    let all = |of: fn(&SizeFacts) -> &[u64]| SizeNames::of(nodes.iter().flat_map(|node| of(&node.sizes)));
    let memory = all(|sizes| sizes.memory.as_slice());
    let parts = all(|sizes| &sizes.node_memory);
    for node in nodes {
        if let Some(bytes) = node.sizes.memory {
            node.properties.insert(MEMORY.to_owned(), memory.name(bytes));
        }
        if node.sizes.node_memory.len() > 1 {
            let names: Vec<String> = node.sizes.node_memory.iter().map(|&bytes| parts.name(bytes)).collect();
            node.properties.insert(NODE_MEMORY.to_owned(), repeated(&names));
        }
    }
}

/// Joins names: `4 x 94 GiB`, `3 x 94 GiB + 63 GiB`.
fn repeated(names: &[String]) -> String {
    let runs = names.chunk_by(|a, b| a == b).map(|run| match run {
        [one] => one.clone(),
        more => format!("{} x {}", more.len(), more[0]),
    });
    shown(&runs.collect::<Vec<_>>().join(" + "))
}

/// One name for sizes that are nearly the same.
struct SizeNames {
    /// The smallest size of each group and the name of the group, ascending.
    groups: Vec<(u64, String)>,
}

impl SizeNames {
    fn of<'a>(sizes: impl Iterator<Item = &'a u64>) -> Self {
        let mut sorted: Vec<u64> = sizes.copied().collect();
        sorted.sort_unstable();
        let is_same = |a: &u64, b: &u64| *b as f64 <= *a as f64 * (1.0 + SAME_SIZE);
        let name = |group: &[u64]| (group[0], manycore_text::units::bytes(rounded(group[group.len() / 2])));
        Self { groups: sorted.chunk_by(is_same).map(name).collect() }
    }

    fn name(&self, bytes: u64) -> String {
        let after = self.groups.partition_point(|(start, _)| *start <= bytes);
        self.groups[after.saturating_sub(1)..].first().map_or_else(String::new, |(_, name)| name.clone())
    }
}

/// Rounds to whole GiB where there are many.
fn rounded(bytes: u64) -> u64 {
    const GIB: u64 = 1 << 30;
    if bytes >= 8 * GIB { (bytes + GIB / 2) / GIB * GIB } else { bytes }
}

/// Adds to the nodes of a kind how their CPU flags differ from those that are most frequent.
pub(crate) fn add_flags(nodes: &mut [NodeRecord], members: &[usize]) {
    let flags: Vec<String> =
        members.iter().map(|&member| std::mem::take(&mut nodes[member].sizes.flags)).collect();
    if flags.iter().all(String::is_empty) {
        return;
    }
    for (&member, difference) in members.iter().zip(flag_differences(&flags)) {
        nodes[member].properties.insert(FLAGS.to_owned(), difference);
    }
}

/// Returns how each of several texts with CPU flags, separated by blanks, differs from the most frequent one:
/// `without avx512f, with sgx`, or [`USUAL_FLAGS`].
pub fn flag_differences(texts: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    let usual = counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(flags, _)| flags);
    texts.iter().map(|flags| flag_difference(usual, flags)).collect()
}

fn flag_difference(usual: &str, flags: &str) -> String {
    let [a, b] = [usual, flags].map(|flags| flags.split_whitespace().collect::<BTreeSet<_>>());
    let words = |prefix: &str, mut names: Vec<&str>| {
        let more = names.len().saturating_sub(8);
        names.truncate(8);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{prefix} {}{rest}", names.join(" ")))
    };
    let parts = [
        words("without", a.difference(&b).copied().collect()),
        words("with", b.difference(&a).copied().collect()),
    ];
    let found: Vec<String> = parts.into_iter().flatten().collect();
    if found.is_empty() { USUAL_FLAGS.to_owned() } else { shown(&found.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn with_memory(sizes: &[u64]) -> Vec<NodeRecord> {
        let node = |&memory: &u64| NodeRecord {
            sizes: SizeFacts { memory: Some(memory), ..SizeFacts::default() },
            ..NodeRecord::default()
        };
        sizes.iter().map(node).collect()
    }

    #[test]
    fn a_few_megabytes_do_not_matter_and_a_module_does() {
        let mut nodes = with_memory(&[755 * GIB, 755 * GIB + (3 << 20), 724 * GIB, 754 * GIB + (900 << 20)]);
        add_sizes(&mut nodes);
        let names: Vec<&str> = nodes.iter().map(|node| node.properties[MEMORY].as_str()).collect();
        assert_eq!(names, ["755 GiB", "755 GiB", "724 GiB", "755 GiB"]);
    }

    #[test]
    fn the_population_is_shown() {
        let mut nodes = with_memory(&[4 * 94 * GIB]);
        nodes[0].sizes.node_memory = vec![94 * GIB, 94 * GIB, 94 * GIB, 63 * GIB];
        add_sizes(&mut nodes);
        assert_eq!(nodes[0].properties[NODE_MEMORY], "3 x 94 GiB + 63 GiB");
    }

    #[test]
    fn flags_are_shown_as_differences() {
        let mut nodes = with_memory(&[1, 1, 1]);
        for (node, flags) in nodes.iter_mut().zip(["avx2 avx512f fma", "avx2 avx512f fma", "avx2 fma sgx"]) {
            node.sizes.flags = flags.to_owned();
        }
        add_flags(&mut nodes, &[0, 1, 2]);
        assert_eq!(nodes[0].properties[FLAGS], "the usual ones");
        assert_eq!(nodes[2].properties[FLAGS], "without avx512f, with sgx");
    }
}
