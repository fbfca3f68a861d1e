//! Tasks of tokio, threads and processes: this program itself, started anew with a hidden verb.

use crate::runtimes::Program;
use manycore_experiment::spawning::Runtime;
use std::process::Command;

pub(super) struct Own(pub(super) Runtime);

impl Program for Own {
    fn command(&self, _: u64) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(["light", self.0.name()]);
        command
    }

    fn option(&self, schedulers: usize) -> String {
        match self.0 {
            Runtime::Tokio => format!("TOKIO_WORKER_THREADS={schedulers}"),
            _ => String::new(),
        }
    }

    fn pilot(&self) -> u64 {
        match self.0 {
            Runtime::Processes => 200,
            Runtime::Threads => 1000,
            // Of some 700 bytes each: fewer would drown in what a control group is charged with at once.
            _ => 50_000,
        }
    }
}
