//! The layers of the workspace: which crate may use which, checked against `cargo metadata`.
//!
//! Use goes downwards only. Within a layer it is allowed only where [`ARROWS`] lists it; ARCHITECTURE.md has the reasons.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::{collections::BTreeMap, process::Command};

/// Crates by layer, the lowest first. Names are without the prefix `manycore-`.
const LAYERS: [(&str, &[&str]); 5] = [
    ("foundations", &["text", "stats", "topology", "linux", "render", "percpu", "bpf"]),
    (
        "engines",
        &[
            "placement",
            "control",
            "workload",
            "experiment",
            "analysis",
            "report",
            "topo",
            "erlang",
            "sharing",
            "load",
            "remote",
            "http",
        ],
    ),
    (
        "features",
        &[
            "evaluate",
            "study",
            "audit",
            "irq",
            "qos",
            "vm",
            "falseshare",
            "spawn",
            "guard",
            "density",
            "fleet",
            "doctor",
            "sched",
            "top",
        ],
    ),
    ("programs", &["guard-daemon"]),
    ("binary", &["cli"]),
];

/// Uses within a layer.
const ARROWS: [(&str, &str); 12] = [
    ("stats", "text"),
    ("topology", "text"),
    ("linux", "text"),
    ("linux", "topology"),
    ("render", "text"),
    ("render", "stats"),
    ("control", "placement"),
    ("topo", "placement"),
    ("experiment", "workload"),
    ("analysis", "experiment"),
    ("report", "experiment"),
    ("report", "analysis"),
];

/// Uses by tests only, and the crate that only tests use.
const TESTKIT: &str = "testkit";

/// Returns the dependencies of each crate of the workspace on other crates of it, those of tests left out.
fn uses() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &serde_json::Value| -> Option<String> {
        let name = name.as_str()?;
        if name == "manycore" {
            Some("cli".to_owned())
        } else {
            name.strip_prefix("manycore-").map(str::to_owned)
        }
    };
    let of = |package: &serde_json::Value| -> Vec<String> {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|one| one["kind"].as_str() != Some("dev")).filter_map(|one| short(&one["name"])).collect()
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.filter_map(|package| Some((short(&package["name"])?, of(package)))).collect()
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, crates)| crates.contains(&name))
}

#[test]
fn crates_use_only_what_is_below_them() {
    let uses = uses();
    assert!(uses.len() > 20, "cargo metadata lists {} crates", uses.len());
    let mut wrong = Vec::new();
    for (user, used) in uses.iter().filter(|(user, _)| *user != TESTKIT) {
        let Some(upper) = layer(user) else {
            wrong.push(format!("{user} is in no layer: add it to LAYERS and to ARCHITECTURE.md"));
            continue;
        };
        for used in used {
            let allowed = match layer(used) {
                Some(lower) if lower == upper => ARROWS.contains(&(user, used)),
                Some(lower) => lower < upper,
                None => false,
            };
            if !allowed {
                wrong.push(format!("{user} may not use {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_arrow_is_used() {
    let uses = uses();
    for (user, used) in ARROWS {
        assert!(uses[user].iter().any(|one| one == used), "{user} does not use {used}: remove the arrow");
    }
}
