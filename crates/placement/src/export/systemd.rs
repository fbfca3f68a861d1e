//! `systemd.exec(5)` and `systemd.resource-control(5)`: a drop-in for a service.
//!
//! A unit has one place for all its processes. So the drop-in is for the service that holds all workers, and the
//! places of single workers follow as comments, for a unit of each.

use super::{Export, comments, list};
use crate::{Memory, PlannedWorker};

pub(super) fn text(export: &Export) -> String {
    let all = export.plan.together().workers.remove(0);
    let mut text = comments(&[
        format!("{}: the service that holds all of them.", export.title()),
        "Put it into /etc/systemd/system/NAME.service.d/placement.conf, then: systemctl daemon-reload."
            .to_owned(),
    ]);
    text.push_str("[Service]\n");
    text.push_str(&comments(&[
        "Set in each process that the service starts; a program may change its own.".to_owned(),
        "The empty assignment forgets what the unit says itself: lists would be joined.".to_owned(),
    ]));
    text.push_str(&format!("CPUAffinity=\nCPUAffinity={}\n{}", all.cpus, memory(export, &all)));
    text.push_str(&comments(&["The same as a limit that no program can widen (cgroup v2).".to_owned()]));
    text.push_str(&format!("AllowedCPUs=\nAllowedCPUs={}\n", all.cpus));
    let nodes = export.nodes(&all);
    if export.binds(&nodes) {
        text.push_str(&format!("AllowedMemoryNodes=\nAllowedMemoryNodes={}\n", list(&nodes)));
    }
    if !export.is_one_place() {
        text.push_str(&single(export));
    }
    text
}

/// NUMA settings; nothing for what is inherited.
fn memory(export: &Export, worker: &PlannedWorker) -> String {
    let nodes = export.nodes(worker);
    let policy = match export.memory {
        Memory::Default => return String::new(),
        Memory::Local => return "NUMAPolicy=local\n".to_owned(),
        Memory::Interleave(_) => "interleave",
        Memory::Bind(_) => "bind",
    };
    let nodes = if nodes.is_empty() { "all".to_owned() } else { list(&nodes) };
    format!("NUMAPolicy={policy}\nNUMAMask={nodes}\n")
}

/// The place of each worker, for drop-ins of its own.
fn single(export: &Export) -> String {
    let mut lines = vec![
        "Within these CPUs the scheduler chooses: systemd has no words for single threads.".to_owned(),
        "With a unit for each worker (NAME@0.service, ...), in NAME@N.service.d/placement.conf instead:"
            .to_owned(),
    ];
    lines.extend(export.plan.workers.iter().enumerate().map(|(at, worker)| {
        let nodes = export.nodes(worker);
        let memory = if export.binds(&nodes) {
            format!(" AllowedMemoryNodes={}", list(&nodes))
        } else {
            String::new()
        };
        format!("  NAME@{at}.service: CPUAffinity={0} AllowedCPUs={0}{memory}", worker.cpus)
    }));
    comments(&lines)
}
