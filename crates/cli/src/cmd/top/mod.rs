//! `manycore top`: watches CPUs, caches and tasks.

pub mod around;
mod checks;
mod ending;
mod live;
mod outputs;
mod plain;
mod recording;
mod replayed;
mod screen;
mod shown;
mod work;

pub use recording::report;

use crate::{
    cli::{Format, Top},
    failure::{Failure, Outcome},
    output,
    terminal::stdout_is_screen,
};
use manycore_linux::{allocator, child};
use manycore_render::terminal::Terminal;
use manycore_top::{GroupParts, GuestSearch, Wanted, snapshot::Part};

/// Shows the view on a terminal, otherwise prints intervals, until their number is reached, the command has ended, or a
/// signal arrives.
///
/// # Errors
/// The processes cannot be read; a target does not exist. [`Failure::Status`](crate::failure::Failure::Status) with the exit status of the command if that is not 0.
pub fn run(args: &Top, terminal: Terminal) -> Outcome {
    if args.show.contains(&Part::Latency) && !args.bpf && args.replay.is_none() {
        return Err(Failure::input(
            "--show latency needs programs in the kernel that count latencies: add --bpf, as root",
        ));
    }
    let is_of_named_processes = !args.work.pid.is_empty() || !args.work.command.is_empty();
    if args.replay.is_none() && !is_of_named_processes {
        output::note_hidden();
    }
    child::allow_many_files();
    // The thread that samples hands over pictures: memory that one thread frees is there for the other.
    allocator::use_one_heap();
    allocator::map_large_blocks();
    if args.is_plain() || !stdout_is_screen() {
        return plain::run(args, terminal);
    }
    screen::run(args, terminal)
}

/// What is printed if nothing is chosen.
fn parts(args: &Top) -> Vec<Part> {
    match args.format {
        _ if !args.show.is_empty() => args.show.clone(),
        Some(Format::Csv) => vec![Part::Processes],
        _ => vec![Part::System, Part::Units, Part::Processes, Part::Findings],
    }
}

/// Returns what has to be read for these parts.
fn wanted(parts: &[Part]) -> Wanted {
    let any = |some: &[Part]| parts.iter().any(|part| some.contains(part));
    Wanted {
        interrupts: any(&[Part::Interrupts, Part::Findings]),
        nodes: any(&[Part::Nodes]),
        groups: match () {
            () if any(&[Part::Groups]) => GroupParts::All,
            () if any(&[Part::Findings]) => GroupParts::Throttling,
            () => GroupParts::None,
        },
        guests: if any(&[Part::Guests]) { GuestSearch::Always } else { GuestSearch::Never },
        bandwidth: any(&[Part::Bandwidth]),
        frequency: any(&[Part::Cpus]),
        counters: any(&[Part::Processes, Part::Threads]),
        ..Wanted::default()
    }
}
