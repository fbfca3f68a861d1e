//! Whether this kernel accepts the scheduler for machines of several sizes. Needs root, and a kernel with `sched_ext`.
//!
//!     cargo run -p manycore --example accepted

use manycore_sched::engine;
use manycore_topology::{SysTree, synthetic::MachineSpec};
use std::{process::ExitCode, time::Instant};

fn main() -> ExitCode {
    for packages in [1, 32, 256] {
        let spec = MachineSpec { packages, clusters: 4, cores: 4, ..MachineSpec::default() };
        let begun = Instant::now();
        let accepted = manycore_topology::read(&SysTree::from_capture(spec.capture()))
            .map_err(Into::into)
            .and_then(|machine| engine::check(&machine));
        match accepted {
            Ok(()) => println!("{} CPUs: accepted in {:.1} s", packages * 16, begun.elapsed().as_secs_f64()),
            Err(error) => {
                eprintln!("{} CPUs: {error}", packages * 16);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
