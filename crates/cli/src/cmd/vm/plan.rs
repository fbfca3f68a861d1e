//! `manycore vm plan`.

use super::remedy::with_option;
use crate::{
    cli::{Format, VmDialect, VmPlan as Args},
    failure::{Failure, Outcome},
    load, output, source,
};
use manycore_vm::{
    Error,
    domain::{LibvirtDialect, PlanRequest, TuneRequest},
    planning::{self, PlanTarget},
    text,
};
use std::path::Path;

/// Plans the domain and prints the change, or writes the whole XML. Writes nothing if any part of the request
/// is refused.
///
/// # Errors
/// [`Failure::Input`] if the XML or the machine cannot be read or the machine cannot meet the request; the
/// errors of writing if an output cannot be written.
pub fn run(args: &Args) -> Outcome {
    let name = args.domain.display();
    let to_stdout = args.xml.as_deref() == Some(Path::new("-"));
    if to_stdout && args.format == Format::Json {
        return Err(Failure::input(
            "--xml - and --format json both write to standard output: give --xml a file",
        ));
    }
    if matches!(args.format, Format::Csv | Format::Markdown) {
        return Err(Failure::input(
            "vm plan writes a change for patch(1), or JSON: use --format text or --format json",
        ));
    }
    let xml = load::domain(&args.domain)?;
    let machine = source::machine(&args.source)?;
    let root = args.source.machine.is_none().then_some(args.source.root.as_path());
    let target = PlanTarget { machine: &machine, root, is_this_machine: args.source.is_this() };
    let plan = planning::plan(&xml, target, request(args)).map_err(|error| match error {
        Error::Plan(error) => {
            Failure::input(format!("{name} cannot be planned: {}", with_option(&error, error.remedy())))
        }
        error => error.into(),
    })?;
    let notes: Vec<String> = plan.notes.iter().map(|note| with_option(note, note.remedy)).collect();
    for note in &notes {
        output::note(&format!("manycore: {note}"));
    }
    match &args.xml {
        Some(_) if to_stdout => return output::print(&plan.xml),
        Some(path) => output::write_file(path, plan.xml.as_bytes())?,
        None => {}
    }
    match (args.format, &args.xml) {
        (Format::Json, _) => output::print(&output::json(&plan.printed(&machine, &notes))?),
        (_, None) => output::print(&text::change(&name.to_string(), &xml, &plan)),
        (_, Some(path)) => {
            output::note(&format!("manycore: apply it with virsh define {}", path.display()));
            output::print(&text::summary(&plan))
        }
    }
}

fn request(args: &Args) -> PlanRequest {
    PlanRequest {
        reserve: args.reserve.clone(),
        overcommit: args.overcommit,
        dialect: match args.dialect {
            VmDialect::Upstream => LibvirtDialect::Upstream,
            VmDialect::OpenEuler => LibvirtDialect::OpenEuler,
        },
        qemu: args.qemu,
        libvirt: args.libvirt,
        host_passthrough: args.host_passthrough,
        tune: TuneRequest {
            bandwidth: args.bandwidth,
            min_bandwidth: args.min_bandwidth,
            hardlimit: args.hardlimit,
            priority: args.priority,
            cache: args.cache.clone(),
        },
        ..PlanRequest::new(args.place.clone())
    }
}
