//! Runs `manycore vm`.

use super::{manycore, text};

/// The result of a run.
pub struct VmResult {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs `manycore vm ARGUMENTS`.
pub fn vm(args: &[&str]) -> VmResult {
    let output = manycore().arg("vm").args(args).output().unwrap();
    VmResult { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
}
