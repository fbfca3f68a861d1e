//! `manycore vm plan`.

use crate::{
    cli::{Format, VmDialect, VmPlan as Args},
    failure::{Failure, Outcome},
    load, output, source,
};
use manycore_linux::resctrl::dialect::ValueRange;
use manycore_linux::resctrl::{self, Files};
use manycore_topology::Machine;
use manycore_topology::SysTree;
use manycore_vm::domain::{self, Dialect, Planned, Room, Steps, Tune, Version, Wish};
use manycore_vm::libvirt;
use manycore_vm::text;
use serde_json::json;
use std::path::Path;

/// Plans the domain and prints the change, or writes the whole XML. Writes nothing if any part of the request
/// is refused.
///
/// # Errors
/// [`Failure::Input`] if the XML or the machine cannot be read or the machine cannot meet the request; the
/// errors of writing if an output cannot be written.
pub fn run(args: &Args) -> Outcome {
    let name = args.domain.display();
    let to_stdout = args.out.as_deref() == Some(Path::new("-"));
    if to_stdout && args.format == Format::Json {
        return Err(Failure::input(
            "--out - and --format json both write to standard output: give --out a file",
        ));
    }
    let xml = load::domain(&args.domain)?;
    let machine = source::machine(&args.source)?;
    let arch = domain::architecture(&xml)
        .map_err(|error| Failure::input(format!("{name} cannot be planned: {error}")))?;
    let wish = wish(args, arch.as_deref(), &machine)?;
    let planned = domain::plan(&xml, &machine, &wish)
        .map_err(|refused| Failure::input(format!("{name} cannot be planned: {refused}")))?;
    for note in &planned.notes {
        output::note(&format!("manycore: {note}"));
    }
    match &args.out {
        Some(_) if to_stdout => return output::print(&planned.xml),
        Some(path) => output::write_file(path, planned.xml.as_bytes())?,
        None => {}
    }
    match (args.format, &args.out) {
        (Format::Json, _) => output::print(&json(&planned, &machine)?),
        (Format::Text, None) => output::print(&text::change(&name.to_string(), &xml, &planned)),
        (Format::Text, Some(path)) => {
            output::note(&format!("manycore: apply it with virsh define {}", path.display()));
            output::print(&text::summary(&planned))
        }
    }
}

fn wish(args: &Args, arch: Option<&str>, machine: &Machine) -> Outcome<Wish> {
    Ok(Wish {
        policy: args.policy.clone(),
        reserve: args.reserve.clone(),
        overcommit: args.overcommit,
        dialect: match args.dialect {
            VmDialect::Upstream => Dialect::Upstream,
            VmDialect::OpenEuler => Dialect::OpenEuler,
        },
        qemu: args.qemu.or_else(|| installed(arch, machine)),
        libvirt: args.libvirt.or_else(libvirt::libvirt_version),
        steps: if args.source.is_this() { steps() } else { None },
        host_passthrough: args.host_passthrough,
        tune: Tune {
            bandwidth: args.bandwidth,
            min_bandwidth: args.min_bandwidth,
            hardlimit: args.hardlimit,
            priority: args.priority,
            cache: args.cache.clone(),
        },
        room: room(args)?,
    })
}

/// Returns the memory that is available now. It is unknown for a saved machine.
fn room(args: &Args) -> Outcome<Room> {
    match args.source.machine {
        Some(_) => Ok(Room::default()),
        None => Ok(libvirt::room(&SysTree::open(&args.source.root).map_err(Failure::input)?)),
    }
}

fn installed(arch: Option<&str>, machine: &Machine) -> Option<Version> {
    let arch = arch.or(machine.system.architecture.as_deref())?;
    // The architecture becomes part of a program's name.
    let is_plain = arch.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain { libvirt::qemu_version(arch) } else { None }
}

/// Returns the unit in which the mounted resctrl of this system takes bandwidth limits.
fn steps() -> Option<Steps> {
    let tree = SysTree::open(Path::new("/")).ok()?;
    let files = Files::open(&tree, &resctrl::find(&tree, None).ok()?).ok()?;
    match files.capabilities().control("MB")?.bounds {
        _ if files.capabilities().megabytes => Some(Steps::Megabytes),
        ValueRange::Number { minimum, step, .. } => Some(Steps::Percent { least: minimum, step }),
        ValueRange::Mask { .. } => None,
    }
}

/// Returns the JSON of the guest, with fields that `vm check` does not need.
fn json(planned: &Planned, machine: &Machine) -> Outcome<String> {
    let mut value = serde_json::to_value(&planned.guest).map_err(Failure::missing)?;
    value["machine"] = machine.fingerprint().into();
    value["host_nodes"] = json!(planned.host_nodes);
    value["notes"] = json!(planned.notes);
    Ok(format!("{value:#}\n"))
}
