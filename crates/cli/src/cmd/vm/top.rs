//! `manycore vm top`.

use crate::{
    cli::{Format, VmOrder, VmTop},
    failure::{Failure, Outcome},
    live::{History, IntervalTimer, Screen},
    output,
};
use manycore_render::terminal::Terminal;
use manycore_topology::SysTree;
use manycore_vm::{
    monitor::{Monitor, MonitorOptions, SortKey, open_resctrl},
    usage_text,
};
use std::path::Path;

/// Prints what domains use, once per interval.
///
/// # Errors
/// [`Failure::Input`] if the root directory does not exist; [`Failure::Missing`] if the directory given with
/// `--resctrl` is not a resctrl.
pub fn run(args: &VmTop, terminal: Terminal) -> Outcome {
    let tree = SysTree::open(&args.root).map_err(Failure::input)?;
    if args.root == Path::new("/") {
        output::note_hidden();
    }
    let resctrl = open_resctrl(&tree, args.resctrl.as_deref())?;
    let mut history = History::open(args.history.as_deref())?;
    let mut timer = IntervalTimer::new(args.interval, args.count)?;
    let mut screen = if args.format == Format::Text { Screen::of_terminal(terminal) } else { None };
    let options =
        MonitorOptions { vcpus: args.vcpus, memory_by_node: args.numa, sort_key: sort_key(args.sort) };
    let mut monitor = Monitor::new(&tree, resctrl.as_ref(), options);
    while timer.wait()? {
        let snapshot = monitor.read();
        history.append(&snapshot, args.format)?;
        match (&mut screen, args.format) {
            (_, Format::Json) => {}
            (Some(screen), _) => screen.show(&usage_text::table(&snapshot))?,
            (None, format) => {
                output::result(format, terminal, &snapshot, || usage_text::table(&snapshot))?;
                output::print("\n")?;
            }
        }
    }
    Ok(())
}

fn sort_key(order: VmOrder) -> SortKey {
    match order {
        VmOrder::Cpu => SortKey::Cpu,
        VmOrder::Guest => SortKey::Guest,
        VmOrder::Sys => SortKey::System,
        VmOrder::Wait => SortKey::Wait,
        VmOrder::Switch => SortKey::Switches,
        VmOrder::Memory => SortKey::Memory,
        VmOrder::Bandwidth => SortKey::Bandwidth,
        VmOrder::Name => SortKey::Name,
        VmOrder::Pid => SortKey::Pid,
    }
}
