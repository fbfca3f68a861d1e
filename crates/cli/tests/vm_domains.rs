//! Plans the domains of libvirt's own tests. What was valid by libvirt's schema must stay valid, and planning
//! again must change nothing.
//!
//! `lab/domains fetch` stores the domains, and the schema of the same version, where this test looks for
//! them. It takes every eighth domain, or all with `LAB_DOMAINS=all`.

use manycore_topology::{Machine, SysTree, synthetic::MachineSpec};
use manycore_vm::domain::{self, PlanRequest, Version};
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Accepted reasons to refuse a domain. Any other reason is a fault: of the plan, or of this list.
const REASONS: [&str; 15] = [
    "expected a QEMU domain: kvm, qemu, hvf or tcg",
    "KVM runs only guests of the host's architecture",
    "cannot have a CPU each",
    "of the guest's memory from node",
    "too little for",
    "such sets must be equal or disjoint",
    "by this plan the guest has",
    "pages of one size, and by this plan",
    "of memory only beside",
    "the domain has no <memory> element, which is required",
    "<numatune> binds",
    "without a gap, as libvirt requires",
    "the devices need more than the 255 PCI buses",
    "expected 1 to 4096 virtual CPUs",
    "expected a list such as",
];

/// A domain that is valid by libvirt's schema.
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

/// Returns for each of these files in `folder` whether it is valid by the schema.
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

/// Returns all domains, or why there are none.
fn inputs(folder: &Path) -> Result<Vec<Input>, String> {
    if Command::new("xmllint").arg("--version").output().is_err() {
        return Err("xmllint is not installed".to_owned());
    }
    let tests = folder.join("tests");
    let mut files = Vec::new();
    let groups = fs::read_dir(&tests)
        .map_err(|_| format!("{} does not exist: run lab/domains fetch", tests.display()))?;
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

/// Returns a machine of this architecture.
fn machine(spec: &MachineSpec, arch: &str) -> Machine {
    let mut machine = manycore_topology::read(&SysTree::from_capture(spec.capture())).unwrap();
    machine.system.architecture = Some(arch.to_owned());
    machine
}

fn request(policy: &str, host_passthrough: bool) -> PlanRequest {
    PlanRequest {
        qemu: Some(Version(10, 0, 0)),
        libvirt: Some(Version(11, 3, 0)),
        host_passthrough,
        ..PlanRequest::new(policy.parse().unwrap())
    }
}

/// Returns a reason without the numbers and names of its domain.
fn reason(said: &str) -> String {
    let found = REASONS.iter().find(|reason| said.contains(*reason));
    found.map_or_else(|| format!("UNKNOWN: {said}"), |reason| (*reason).to_owned())
}

/// Plans a planned domain again. Returns what is wrong with the result.
fn fault_of_second_plan(xml: &str, machine: &Machine, request: &PlanRequest) -> Option<String> {
    match domain::plan(xml, machine, request) {
        Ok(again) if again.xml == xml => None,
        Ok(_) => Some("planning again changes it".to_owned()),
        Err(refused) => Some(format!("planning again fails: {refused}")),
    }
}

/// Plans all inputs in one way. Returns the numbers of planned and refused domains, and adds faults to
/// `wrong`.
fn plan_all(
    inputs: &[Input],
    (spec, policy, passthrough): (&MachineSpec, &str, bool),
    wrong: &mut Vec<String>,
) -> String {
    let request = request(policy, passthrough);
    let mut machines: BTreeMap<&str, Machine> = BTreeMap::new();
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let folder = tempfile::tempdir().unwrap();
    let mut planned: Vec<(String, &Input)> = Vec::new();
    for input in inputs {
        let machine = machines.entry(&input.arch).or_insert_with(|| machine(spec, &input.arch));
        let first = match domain::plan(&input.text, machine, &request) {
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
        if let Some(fault) = fault_of_second_plan(&first.xml, machine, &request) {
            wrong.push(format!("{} ({policy}): {fault}", input.name));
        }
        let name = format!("{}.xml", planned.len());
        fs::write(folder.path().join(&name), &first.xml).unwrap();
        planned.push((name, input));
    }
    let names: Vec<String> = planned.iter().map(|(name, _)| name.clone()).collect();
    let schemas = self::folder().join("schemas");
    for ((_, input), valid) in planned.iter().zip(valid(&schemas, folder.path(), &names)) {
        if !valid {
            wrong.push(format!("{} ({policy}): the plan is not valid by the schema", input.name));
        }
    }
    let refused: usize = refusals.values().sum();
    assert_eq!(planned.len() + refused, inputs.len());
    let reasons: Vec<String> =
        refusals.iter().map(|(reason, count)| format!("    {count:5} {reason}\n")).collect();
    format!(
        "{policy}, {} nodes{}: {} planned, {refused} refused\n{}",
        spec.packages * spec.nodes,
        if passthrough { ", host-passthrough" } else { "" },
        planned.len(),
        reasons.concat()
    )
}

#[test]
fn libvirt_test_domains_stay_valid_and_idempotent() {
    let inputs = match inputs(&folder()) {
        Ok(inputs) => inputs,
        Err(why) => return eprintln!("SKIPPED: domains of libvirt's own tests: {why}"),
    };
    assert!(inputs.len() > 1000, "{} domains are too few for libvirt's own tests", inputs.len());
    let step = if env::var_os("LAB_DOMAINS").is_some_and(|which| which == "all") { 1 } else { 8 };
    let inputs: Vec<Input> = inputs.into_iter().step_by(step).collect();
    let large = MachineSpec {
        packages: 2,
        nodes: 2,
        cores: 32,
        threads: 2,
        memory_gib: 1 << 20,
        ..MachineSpec::default()
    };
    let small = MachineSpec { packages: 2, cores: 8, threads: 1, memory_gib: 64, ..MachineSpec::default() };
    let single = MachineSpec { cores: 32, threads: 2, memory_gib: 1 << 20, ..MachineSpec::default() };
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
