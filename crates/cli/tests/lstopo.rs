//! Tests of `manycore topo` against hwloc's `lstopo`, on this machine and on synthetic ones. Both read the
//! same files, so packages, cores, caches and nodes must be the same sets of CPUs.

use manycore_topology::synthetic::{MachineSpec, Numbering, extras::write_to};
use manycore_topology::{CpuSet, Machine, machine::CacheKind};
use std::{collections::BTreeSet, path::Path, process::Command};

type Sets = BTreeSet<(String, CpuSet)>;

/// Returns the objects of `lstopo` by hwloc's names; prints a note and returns `None` if hwloc is not
/// installed.
fn lstopo(root: &Path) -> Option<Sets> {
    let mut command = Command::new("lstopo");
    command.args(["--of", "xml", "--disallowed", "--filter", "all:all"]);
    command.env("HWLOC_COMPONENTS", "linux,stop");
    if root != Path::new("/") {
        command.env("HWLOC_FSROOT", root).env("HWLOC_THISSYSTEM", "0");
    }
    let Ok(output) = command.output() else {
        println!("SKIPPED: lstopo is not installed (package hwloc)");
        return None;
    };
    Some(String::from_utf8_lossy(&output.stdout).lines().filter_map(object).collect())
}

/// Parses an object such as `<object type="L3Cache" os_index="0" cpuset="0x0000000f" ...>`.
fn object(line: &str) -> Option<(String, CpuSet)> {
    let attribute = |name: &str| Some(line.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0);
    let name = match attribute("type")? {
        "NUMANode" => format!("node {}", attribute("os_index")?),
        kind @ ("Package" | "Core" | "L1Cache" | "L2Cache" | "L3Cache") => kind.to_owned(),
        _ => return None,
    };
    // hwloc leaves out words that are zero: "0x000000ff,,0x0".
    let mask: Vec<&str> = attribute("cpuset")?
        .split(',')
        .map(|word| word.trim_start_matches("0x"))
        .map(|word| if word.is_empty() { "0" } else { word })
        .collect();
    Some((name, CpuSet::from_mask(&mask.join(",")).unwrap()))
}

fn ours(machine: &Machine) -> Sets {
    let groups = [("Package", &machine.packages), ("Core", &machine.cores)];
    let groups = groups
        .into_iter()
        .flat_map(|(name, groups)| groups.iter().map(move |group| (name.to_owned(), group.cpus.clone())));
    let caches = machine.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let caches = caches.map(|cache| (format!("L{}Cache", cache.level), cache.cpus.clone()));
    let nodes = machine.nodes.iter().map(|node| (format!("node {}", node.id), node.cpus.clone()));
    groups.chain(caches).chain(nodes).collect()
}

fn agree(root: &Path) {
    let mut command = assert_cmd::Command::cargo_bin("manycore").unwrap();
    let output = command.args(["topo", "--format", "json", "--root"]).arg(root).assert().success();
    let machine: Machine = serde_json::from_slice(&output.get_output().stdout).unwrap();
    if let Some(theirs) = lstopo(root) {
        assert_eq!(ours(&machine), theirs);
    }
}

#[test]
fn on_this_machine() {
    agree(Path::new("/"));
}

#[test]
fn on_built_machines() {
    let plain = MachineSpec { packages: 2, nodes: 2, cores: 4, threads: 2, ..MachineSpec::default() };
    for spec in [
        MachineSpec { numbering: Numbering::Halves, offline: "3,9".parse().unwrap(), ..plain.clone() },
        MachineSpec { stride: 7, clusters: 2, ..plain.clone() },
        MachineSpec { caches: 4, memory_only_gib: vec![64, 128], ..plain.clone() },
        MachineSpec { efficiency_cores: 6, ..plain },
    ] {
        let root = tempfile::tempdir().unwrap();
        write_to(&spec.capture(), root.path()).unwrap();
        agree(root.path());
    }
}
