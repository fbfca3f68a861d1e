//! `manycore bench`: measures one load.

use super::eval;
use crate::{cli, failure::Outcome, output, source};
use manycore_evaluate::{LOADS, LoadOptions, SECTIONS, Section, StreamOptions, bench::Bench};
use manycore_linux::clock;

/// The name that lists the loads.
const LIST: &str = "list";

/// Measures the load, saves the record, writes the report and prints it. Without a name, lists the loads.
pub fn run(args: &cli::Bench) -> Outcome {
    let Some(name) = args.name.as_deref().filter(|name| *name != LIST) else {
        return output::print(&list());
    };
    let request = Bench {
        name: name.to_owned(),
        cpus: args.cpus.clone(),
        seconds: args.budget.duration(),
        profile: eval::choose(&args.budget),
        loads: LoadOptions {
            workers: args.workers.iter().map(|&count| count as usize).collect(),
            unixbench: args.unixbench,
            unixbench_dir: args.unixbench_dir.clone(),
            stream: StreamOptions {
                kernels: args.kernel.clone(),
                array: args.array,
                nodes: args.nodes.clone(),
            },
        },
        seed: args.seed.unwrap_or_else(clock::now_ns),
    };
    // A wrong name or option is reported before the machine is read.
    request.check()?;
    let (section, options, machine) = request.prepare(source::live()?)?;
    eval::measure(machine, options, &[section], &args.results)
}

/// Returns the list of the loads, one per line.
fn list() -> String {
    let line = |section: &Section| format!("  {:<11} {}\n", section.name, section.title);
    let lines = |sections: &[Section]| sections.iter().map(line).collect::<String>();
    format!("Loads:\n{}Sections of eval:\n{}", lines(&LOADS), lines(&SECTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_no_load_and_fits_a_terminal() {
        assert!(!manycore_evaluate::bench::all().any(|section| section.name == LIST));
        assert!(list().lines().all(|line| line.chars().count() <= 100));
    }
}
