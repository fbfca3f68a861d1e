//! Tests that see no processes of other tests.

use std::{
    env, io,
    process::{Command, Stdio},
};

/// Set for a test in a namespace of its own.
const INSIDE: &str = "MANYCORE_TEST_NAMESPACE";

/// Runs the calling test again in a namespace of processes of its own, in which `/proc` has only its processes. Returns
/// whether that was done: then the test has passed and ends. Otherwise it is in its namespace, or none can be created (only
/// root can).
///
/// `module` is the `module_path!()` of the test, and `name` that of its function.
///
/// # Errors
/// The test failed there; its output is printed.
pub fn ran_alone(module: &str, name: &str) -> io::Result<bool> {
    const NEW: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    if env::var_os(INSIDE).is_some() {
        return Ok(false);
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(NEW).stdin(Stdio::null());
        command
    };
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        return Ok(false);
    }
    let test = module.split_once("::").map_or_else(|| name.to_owned(), |(_, path)| format!("{path}::{name}"));
    let mut command = unshare();
    // The shell is the first process: it takes over processes without a parent, and the test does not.
    command.args(["sh", "-c", "\"$0\" \"$@\"; exit $?"]).arg(env::current_exe()?);
    let run = command.args([&test, "--exact", "--nocapture"]).env(INSIDE, "1").output()?;
    let said = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    println!("{said}");
    // A name that no test has would pass as well.
    if run.status.success() && said.contains("1 passed") {
        return Ok(true);
    }
    Err(io::Error::other(format!("{test} failed in a namespace of its own: {}", run.status)))
}
