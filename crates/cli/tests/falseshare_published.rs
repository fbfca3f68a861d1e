//! Test of `manycore falseshare` on a published library that had false sharing until a later version padded it.

use crate::common::sharing::{assert_clean, can_emulate, findings_of, only, source};
use std::process::Command;

/// dashmap 5 stores its shards, which contain their locks, next to each other; version 6 pads them
/// (<https://docs.rs/dashmap/6.1.0/src/dashmap/lib.rs.html#91>).
#[test]
fn shards_of_dashmap_5_share_lines_and_those_of_6_do_not() {
    if !can_emulate() {
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("published");
    let manifest = source("published/Cargo.toml");
    let build = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--manifest-path", manifest.to_str().unwrap()])
        .args(["--target-dir", folder.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&build.stderr);
    if !build.status.success() && (said.contains("failed to download") || said.contains("failed to get")) {
        return eprintln!("SKIPPED: the registry cannot be reached: {said}");
    }
    assert!(build.status.success(), "{said}");
    let program = folder.join("debug/published");
    let (code, findings) = findings_of(&[], &program, "5");
    assert_eq!(code, Some(1), "{findings:#}");
    let finding = only(&findings, "false_sharing");
    let sites = finding["sites"].as_array().unwrap();
    let in_lock = |site: &serde_json::Value| {
        site["frame"]["file"].as_str().is_some_and(|file| file.ends_with("dashmap-5.5.3/src/lock.rs"))
    };
    assert!(sites.iter().any(in_lock), "{finding:#}");
    assert_eq!(finding["data"]["kind"], "heap");
    assert_clean(&program, "6");
}
