//! tokio tasks, threads and processes: this program itself, started again with a hidden subcommand.

use crate::runtimes::RuntimeProgram;
use manycore_experiment::spawning::Runtime;
use std::process::Command;

pub(super) struct Builtin(pub(super) Runtime);

impl RuntimeProgram for Builtin {
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
}
