//! `manycore topo`: shows, draws and saves the machine's topology.

use crate::{cli::Topo, failure::Outcome, output, source};
use manycore_render::terminal::Terminal;
use manycore_topo::{svg, text};

/// Writes the requested files, then prints the machine.
///
/// # Errors
/// The source does not describe a machine, or an output cannot be written.
pub fn run(args: &Topo, terminal: Terminal) -> Outcome {
    let machine = if let Some(path) = &args.save {
        let (machine, files) = source::machine_and_files(&args.source)?;
        output::write_file(path, files.to_string().as_bytes())?;
        machine
    } else {
        source::machine(&args.source)?
    };
    if let Some(path) = &args.svg {
        output::write_file(path, svg::render(&machine, None).as_bytes())?;
    }
    output::result(args.format, terminal, &machine, || text::render(&machine))
}
