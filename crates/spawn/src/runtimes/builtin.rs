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

    fn pilot_count(&self) -> u64 {
        match self.0 {
            Runtime::Processes => 200,
            Runtime::Threads => 1000,
            // A tokio task takes about 700 bytes: fewer of them would be lost in the granularity of a control
            // group's charge.
            _ => 50_000,
        }
    }
}
