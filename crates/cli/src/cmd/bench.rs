//! `manycore bench`: measures one load.

use super::eval;
use crate::{cli, failure::Outcome, loads::LoadList, output, source};
use manycore_evaluate::{LoadOptions, StreamOptions, bench::Bench};
use manycore_linux::clock;
use manycore_render::terminal::Terminal;

/// The name that lists the loads.
const LIST: &str = "list";

/// Measures the load, saves the record, writes the report and prints it. Without a name, lists the loads.
pub fn run(args: &cli::Bench, terminal: Terminal) -> Outcome {
    let Some(name) = args.name.as_deref().filter(|name| *name != LIST) else {
        let list = LoadList::all();
        return output::result(args.results.format, terminal, &list, || list.document());
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
    eval::measure(machine, options, &[section], &args.results, terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_no_load() {
        assert!(!manycore_evaluate::bench::all().any(|section| section.name == LIST));
    }
}
