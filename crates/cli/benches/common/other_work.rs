//! Work of others beside a measurement.

use std::process::{Child, Command, Stdio};

/// Other work on half of the CPUs: processes that compute and sleep for random times in turns.
pub struct OtherWork(Vec<Child>);

impl OtherWork {
    /// Starts it. It ends when the value is dropped.
    pub fn start() -> Self {
        const SCRIPT: &str = "
import random, time, os
while os.getppid() != 1:
    end = time.monotonic() + random.expovariate(4)
    while time.monotonic() < end: pass
    time.sleep(random.expovariate(4))
";
        let cpus = manycore_linux::affinity::allowed().expect("an affinity").len();
        let start =
            |_| Command::new("python3").args(["-c", SCRIPT]).stdin(Stdio::null()).spawn().expect("python3");
        Self((0..cpus.div_ceil(2)).map(start).collect())
    }
}

impl Drop for OtherWork {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
