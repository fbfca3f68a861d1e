//! Plans the workers of a program on this machine: `place POLICY WORKERS`, for example `place spread@llc 8`.

use manycore_placement::{Export, ExportFormat, MemoryPlacement, Policy, Reserve};
use manycore_topology::{CpuSet, SysTree, read};
use std::{env, error::Error, process::ExitCode};

fn main() -> ExitCode {
    match place() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("place: {error}");
            ExitCode::from(2)
        }
    }
}

fn place() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let policy: Policy = args.next().as_deref().unwrap_or("spread").parse()?;
    let machine = read(&SysTree::open("/".as_ref())?)?;
    let workers = match args.next() {
        Some(count) => count.parse()?,
        None => policy.capacity(&machine, &Reserve::Nothing)?,
    };
    let plan = policy.plan(&machine, workers, &Reserve::Nothing)?;
    for (number, worker) in plan.workers.iter().enumerate() {
        println!("worker {number}: {}", worker.why);
    }
    let (memory, reserved) = (MemoryPlacement::Default, CpuSet::new());
    let export =
        Export { plan: &plan, machine: &machine, policy: &policy, memory: &memory, reserved: &reserved };
    print!("{}", export.text(ExportFormat::Taskset));
    Ok(())
}
