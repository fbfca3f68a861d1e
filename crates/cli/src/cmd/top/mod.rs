//! `manycore top`: watches CPUs, caches and tasks.

pub mod around;
mod checks;
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
    cli::{Format, Top, TopPart},
    failure::Outcome,
};
use manycore_linux::{allocator, child};
use manycore_render::terminal::Terminal;
use manycore_top::{GroupParts, Wanted};
use std::io::{IsTerminal, stdout};

/// Shows the view on a terminal, otherwise prints intervals, until their number is reached, the command has ended, or a
/// signal arrives.
///
/// # Errors
/// The processes cannot be read; a target does not exist. [`Failure::Status`](crate::failure::Failure::Status) with the exit status of the command if that is not 0.
pub fn run(args: &Top, terminal: Terminal) -> Outcome {
    child::allow_many_files();
    // The thread that samples hands over pictures: memory that one thread frees is there for the other.
    allocator::use_one_heap();
    allocator::map_large_blocks();
    if args.is_plain() || !stdout().is_terminal() {
        return plain::run(args, terminal);
    }
    screen::run(args, terminal)
}

/// What is printed if nothing is chosen.
fn parts(args: &Top) -> Vec<TopPart> {
    match args.format {
        _ if !args.show.is_empty() => args.show.clone(),
        Some(Format::Csv) => vec![TopPart::Processes],
        _ => vec![TopPart::System, TopPart::Units, TopPart::Processes, TopPart::Findings],
    }
}

/// Returns what has to be read for these parts.
fn wanted(parts: &[TopPart]) -> Wanted {
    let any = |some: &[TopPart]| parts.iter().any(|part| some.contains(part));
    Wanted {
        interrupts: any(&[TopPart::Interrupts, TopPart::Findings]),
        nodes: any(&[TopPart::Nodes]),
        groups: match () {
            () if any(&[TopPart::Groups]) => GroupParts::All,
            () if any(&[TopPart::Findings]) => GroupParts::Throttling,
            () => GroupParts::None,
        },
        frequency: any(&[TopPart::Cpus]),
        counters: any(&[TopPart::Processes, TopPart::Threads]),
        ..Wanted::default()
    }
}
