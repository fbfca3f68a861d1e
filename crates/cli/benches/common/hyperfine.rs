//! What hyperfine reports about two commands.

use std::process::{Command, Stdio};

/// Returns mean and standard deviation of the times of each command, as hyperfine reports them. `None` if it is not
/// installed.
pub fn times(a: &str, b: &str, runs: usize) -> Option<[(f64, f64); 2]> {
    let folder = tempfile::tempdir().ok()?;
    let file = folder.path().join("out.json");
    let runs = runs.max(2).to_string();
    let status = Command::new("hyperfine")
        .args(["-N", "--style", "none", "--warmup", "1", "--runs", &runs, "--export-json"])
        .arg(&file)
        .args([a, b])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return None;
    }
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let of = |index: usize| {
        let result = &value["results"][index];
        Some((result["mean"].as_f64()?, result["stddev"].as_f64()?))
    };
    Some([of(0)?, of(1)?])
}

/// Returns whether the two bars of one standard deviation do not overlap.
pub fn apart([a, b]: [(f64, f64); 2]) -> bool {
    (a.0 - b.0).abs() > a.1 + b.1
}

/// Returns the full width of hyperfine's interval of the ratio, as a share of the ratio.
pub fn width([a, b]: [(f64, f64); 2]) -> f64 {
    2.0 * ((a.1 / a.0).powi(2) + (b.1 / b.0).powi(2)).sqrt()
}
