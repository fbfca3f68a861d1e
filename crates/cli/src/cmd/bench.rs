//! `manycore bench`: measures one load.

use super::eval;
use crate::{
    cli::Bench,
    failure::{Failure, Outcome},
    output, source,
};
use manycore_evaluate::{self, Asked, LOADS, SECTIONS, Section, StreamWish, Wish, profile};
use manycore_linux::clock;
use manycore_stats::verdict::EQUIVALENCE_MARGIN;
use manycore_text::names::similar;
use manycore_topology::{CpuSet, Machine};

/// The name that lists the loads.
const LIST: &str = "list";

/// Measures the load, saves the record, writes the report and prints it. Without a name, lists the loads.
pub fn run(args: &Bench) -> Outcome {
    let Some(name) = args.name.as_deref().filter(|name| *name != LIST) else {
        return output::print(&list());
    };
    let section = find(name)?;
    check(args, &section)?;
    let machine = restricted(source::live()?, args.cpus.as_ref())?;
    let asked = Asked {
        verb: "bench",
        subject: name.to_owned(),
        profile: budget(args, &section, machine.allowed.cpus.len()),
        wish: Wish {
            workers: args.workers.iter().map(|&count| count as usize).collect(),
            unixbench: unixbench(args),
            unixbench_dir: args.unixbench_dir.clone(),
            stream: StreamWish { kernels: args.kernel.clone(), array: args.array, nodes: args.nodes.clone() },
        },
        margin: EQUIVALENCE_MARGIN,
        seed: args.seed.unwrap_or_else(clock::now_ns),
    };
    eval::measure(machine, asked, &[section], &args.results)
}

/// Returns everything that can be measured: the loads, then the sections of `eval`.
fn all() -> impl Iterator<Item = Section> {
    LOADS.into_iter().chain(SECTIONS)
}

fn find(name: &str) -> Outcome<Section> {
    all().find(|section| section.name == name).ok_or_else(|| {
        let near = similar(all().map(|section| section.name), name).join(", ");
        Failure::input(format!(
            "there is no load {name:?}; similar names are: {near} ('manycore bench' lists all)"
        ))
    })
}

/// Returns the list of the loads, one per line.
fn list() -> String {
    let line = |section: &Section| format!("  {:<11} {}\n", section.name, section.title);
    let lines = |sections: &[Section]| sections.iter().map(line).collect::<String>();
    format!("Loads:\n{}Sections of eval:\n{}", lines(&LOADS), lines(&SECTIONS))
}

fn is_load(section: &Section) -> bool {
    LOADS.iter().any(|load| load.name == section.name)
}

/// Rejects options that do not apply to the load.
fn check(args: &Bench, section: &Section) -> Outcome {
    let refuse = |option: &str, whose: &str| {
        Err(Failure::input(format!("{option} applies to {whose}, not to {}", section.name)))
    };
    let stream = section.name == "stream";
    if !args.workers.is_empty() && !is_load(section) && !stream {
        return refuse("--workers", "loads and stream");
    }
    let of_stream = [
        ("--kernel", !args.kernel.is_empty()),
        ("--array", args.array.is_some()),
        ("--nodes", args.nodes.is_some()),
    ];
    if let Some((option, _)) = of_stream.into_iter().find(|&(_, given)| given && !stream) {
        return refuse(option, "stream");
    }
    if args.unixbench && section.name != "pipe" {
        return refuse("--unixbench", "pipe");
    }
    if args.unixbench_dir.is_some() && section.name != "pipe" {
        return refuse("--unixbench-dir", "pipe");
    }
    if unixbench(args) && !args.workers.is_empty() && args.unixbench {
        return Err(Failure::input(
            "--unixbench measures one pair of processes and cannot be combined with --workers",
        ));
    }
    if args.unixbench && args.seconds.is_some() {
        return Err(Failure::input(
            "--unixbench takes ten passes of 10 s and cannot be combined with --seconds",
        ));
    }
    Ok(())
}

fn unixbench(args: &Bench) -> bool {
    let full = args.budget.full && args.name.as_deref() == Some("pipe");
    args.unixbench || full && args.workers.is_empty() && args.seconds.is_none()
}

/// Restricts the machine to `cpus`, as if no other CPUs could be used.
fn restricted(mut machine: Machine, cpus: Option<&CpuSet>) -> Outcome<Machine> {
    if let Some(cpus) = cpus {
        let usable = machine.usable();
        if cpus.is_empty() {
            return Err(Failure::input(format!(
                "--cpus is empty; expected some of {usable}, which may be used here"
            )));
        }
        if !cpus.iter().all(|cpu| usable.contains(cpu)) {
            return Err(Failure::input(format!(
                "--cpus {cpus} has CPUs that may not be used here; expected some of {usable}"
            )));
        }
        machine.allowed.cpus = cpus.clone();
    }
    Ok(machine)
}

/// Returns the profile, scaled so that the section takes the requested time.
fn budget(args: &Bench, section: &Section, cpus: usize) -> profile::Profile {
    let profile = eval::choose(&args.budget).on(cpus);
    if unixbench(args) {
        return profile::Profile { bench: profile::UNIXBENCH_SECONDS, ..profile };
    }
    match args.seconds {
        Some(time) => profile.scaled(time.as_secs_f64() / manycore_evaluate::seconds(&profile, &[*section])),
        None => profile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_means_one_thing() {
        let names: BTreeSet<&str> = all().map(|section| section.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(!names.contains(LIST));
        assert!(list().lines().all(|line| line.chars().count() <= 100));
    }
}
