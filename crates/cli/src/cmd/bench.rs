//! `manycore bench`: measures one load.

use super::eval;
use crate::{cli, failure::Outcome, output, source};
use manycore_evaluate::{LOADS, LoadOptions, SECTIONS, Section, StreamOptions, bench::Bench};
use manycore_linux::clock;
use manycore_render::{document::Document, terminal::Terminal};

/// The name that lists the loads.
const LIST: &str = "list";

/// Measures the load, saves the record, writes the report and prints it. Without a name, lists the loads.
pub fn run(args: &cli::Bench, terminal: Terminal) -> Outcome {
    let Some(name) = args.name.as_deref().filter(|name| *name != LIST) else {
        return output::document(&list(), args.results.format, terminal);
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

/// Returns the list of the loads and of the sections of `eval`.
fn list() -> Document {
    let mut document = Document::new();
    for (title, sections) in [("Loads", &LOADS[..]), ("Sections of eval", &SECTIONS[..])] {
        document.strong(title);
        for Section { name, title, .. } in sections {
            document.field(format!("  {name}"), *title);
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_no_load_and_fits_a_terminal() {
        assert!(!manycore_evaluate::bench::all().any(|section| section.name == LIST));
        let text = list().text(Terminal::new(60, false));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }
}
