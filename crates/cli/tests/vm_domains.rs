//! The domains of libvirt's own tests, planned: what its grammar takes it still takes, and planned again nothing changes.
//!
//! `lab/domains fetch` leaves them, and the grammar of the same version, where they are looked for here.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use manycore_topology::Machine;
use manycore_topology::{Tree, synthetic::Spec};
use manycore_vm::domain::{self, Dialect, Room, Tune, Version, Wish};
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Reasons to refuse a domain. Any other is a fault: of the plan, or of this list.
const REASONS: [&str; 15] = [
    "only kvm, qemu, hvf and tcg domains of QEMU are planned",
    "KVM runs guests of the host's own architecture",
    "cannot have one each",
    "of the guest's memory belong to node",
    "too little for",
    "such sets must be equal or have none in common",
    "by this plan the guest has",
    "pages of one size, and by this plan",
    "of memory only beside",
    "the domain has no <memory>, which every domain needs",
    "<numatune> binds",
    "without a gap, as libvirt takes them",
    "the devices need more PCI buses",
    "expected 1 to 4096 virtual CPUs",
    "expected a list such as",
];

/// A domain that libvirt's grammar takes.
struct Input {
    name: String,
    text: String,
    arch: String,
}

fn folder() -> PathBuf {
    let cache = env::var_os("LAB_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/manycore-lab");
    cache.unwrap_or_else(home).join("libvirt")
}

/// Which of these files in `folder` the grammar takes.
fn valid(schemas: &Path, folder: &Path, files: &[String]) -> Vec<bool> {
    let grammar = schemas.join("domain.rng");
    let said = Command::new("xmllint")
        .args(["--noout", "--relaxng"])
        .arg(grammar)
        .args(files)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stderr);
    let valid: std::collections::BTreeSet<&str> =
        said.lines().filter_map(|line| line.strip_suffix(" validates")).collect();
    files.iter().map(|file| valid.contains(file.as_str())).collect()
}

/// All of them, or why there are none.
fn inputs(folder: &Path) -> Result<Vec<Input>, String> {
    if Command::new("xmllint").arg("--version").output().is_err() {
        return Err("xmllint is not installed".to_owned());
    }
    let tests = folder.join("tests");
    let mut files = Vec::new();
    let groups =
        fs::read_dir(&tests).map_err(|_| format!("{} is not there: lab/domains fetch", tests.display()))?;
    for group in groups {
        for file in fs::read_dir(group.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            if path.extension().is_some_and(|kind| kind == "xml") && text.contains("<domain ") {
                files.push((path.strip_prefix(&tests).unwrap().display().to_string(), text));
            }
        }
    }
    files.sort();
    let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let valid = valid(&folder.join("schemas"), &tests, &names);
    let taken = files.into_iter().zip(valid).filter(|(_, valid)| *valid);
    Ok(taken
        .map(|((name, text), _)| {
            let arch = domain::architecture(&text).ok().flatten().unwrap_or_else(|| "x86_64".to_owned());
            Input { name, text, arch }
        })
        .collect())
}

/// A machine of this architecture.
fn machine(spec: &Spec, arch: &str) -> Machine {
    let mut machine = manycore_topology::read(&Tree::from_capture(spec.capture())).unwrap();
    machine.system.architecture = Some(arch.to_owned());
    machine
}

fn wish(policy: &str, host_passthrough: bool) -> Wish {
    Wish {
        policy: policy.parse().unwrap(),
        reserve: "0".parse().unwrap(),
        overcommit: false,
        dialect: Dialect::Upstream,
        qemu: Some(Version(10, 0, 0)),
        libvirt: Some(Version(11, 3, 0)),
        steps: None,
        host_passthrough,
        tune: Tune::default(),
        room: Room::default(),
    }
}

/// A reason without the numbers and names of its domain.
fn reason(said: &str) -> String {
    let found = REASONS.iter().find(|reason| said.contains(*reason));
    found.map_or_else(|| format!("UNKNOWN: {said}"), |reason| (*reason).to_owned())
}

/// Plans all inputs in one way, and says how many were planned and refused, and what was wrong.
fn plan_all(
    inputs: &[Input],
    (spec, policy, passthrough): (&Spec, &str, bool),
    wrong: &mut Vec<String>,
) -> String {
    let wish = wish(policy, passthrough);
    let mut machines: BTreeMap<&str, Machine> = BTreeMap::new();
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let folder = tempfile::tempdir().unwrap();
    let mut planned: Vec<(String, &Input)> = Vec::new();
    for input in inputs {
        let machine = machines.entry(&input.arch).or_insert_with(|| machine(spec, &input.arch));
        let first = match domain::plan(&input.text, machine, &wish) {
            Ok(first) => first,
            Err(refused) => {
                let said = refused.to_string();
                let reason = reason(&said);
                if reason.starts_with("UNKNOWN") {
                    wrong.push(format!("{} ({policy}): {said}", input.name));
                }
                *refusals.entry(reason).or_default() += 1;
                continue;
            }
        };
        match domain::plan(&first.xml, machine, &wish) {
            Ok(again) if again.xml == first.xml => {}
            Ok(_) => wrong.push(format!("{} ({policy}): planned again, it is another", input.name)),
            Err(refused) => wrong.push(format!("{} ({policy}): planned again: {refused}", input.name)),
        }
        let name = format!("{}.xml", planned.len());
        fs::write(folder.path().join(&name), &first.xml).unwrap();
        planned.push((name, input));
    }
    let names: Vec<String> = planned.iter().map(|(name, _)| name.clone()).collect();
    let schemas = crate::folder().join("schemas");
    for ((_, input), valid) in planned.iter().zip(valid(&schemas, folder.path(), &names)) {
        if !valid {
            wrong.push(format!("{} ({policy}): the grammar does not take what was planned", input.name));
        }
    }
    let refused: usize = refusals.values().sum();
    assert_eq!(planned.len() + refused, inputs.len());
    let mut reasons = String::new();
    for (reason, count) in &refusals {
        reasons += &format!("    {count:5} {reason}\n");
    }
    format!(
        "{policy}, {} nodes{}: {} planned, {refused} refused\n{reasons}",
        spec.packages * spec.nodes,
        if passthrough { ", host-passthrough" } else { "" },
        planned.len()
    )
}

#[test]
fn domains_of_libvirts_own_tests_stay_valid_and_planned_again_they_are_the_same() {
    let inputs = match inputs(&folder()) {
        Ok(inputs) => inputs,
        Err(why) => return eprintln!("SKIPPED: domains of libvirt's own tests: {why}"),
    };
    assert!(inputs.len() > 1000, "{} domains are not libvirt's own", inputs.len());
    let large = Spec { packages: 2, nodes: 2, cores: 32, threads: 2, memory_gib: 1 << 20, ..Spec::default() };
    let small = Spec { packages: 2, cores: 8, threads: 1, memory_gib: 64, ..Spec::default() };
    let single = Spec { cores: 32, threads: 2, memory_gib: 1 << 20, ..Spec::default() };
    let mut wrong = Vec::new();
    for way in [
        (&large, "close", false),
        (&large, "spread", false),
        (&large, "spread@node", true),
        (&large, "free", false),
        (&small, "spread", true),
        (&single, "close", false),
    ] {
        eprint!("{}", plan_all(&inputs, way, &mut wrong));
    }
    eprintln!("{} valid inputs, {} faults", inputs.len(), wrong.len());
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}
