//! Writes the sysfs and procfs files of a synthetic machine: `build-machine CPUS FOLDER`.

use manycore_topology::synthetic::{MachineSpec, Numbering, extras::write_to};
use std::{env, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (Some(cpus), Some(folder)) = (args.next().and_then(|cpus| cpus.parse::<u32>().ok()), args.next())
    else {
        eprintln!("usage: build-machine CPUS FOLDER    (CPUS: a multiple of 64)");
        return ExitCode::from(2);
    };
    let spec = MachineSpec {
        packages: 2,
        nodes: 2,
        caches: (cpus / 64).max(1),
        cores: 8,
        threads: 2,
        numbering: Numbering::Halves,
        ..MachineSpec::default()
    };
    match write_to(&spec.capture(), &PathBuf::from(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("build-machine: {error}");
            ExitCode::from(3)
        }
    }
}
