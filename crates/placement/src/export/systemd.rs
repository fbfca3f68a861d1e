//! Exports for `systemd.exec(5)` and `systemd.resource-control(5)`: a drop-in for a service.
//!
//! A unit has one set of CPUs for all its processes. So the drop-in is for the service that contains all
//! workers, and the CPUs of single workers follow as comments, for one unit per worker.

use super::{Export, comments, list};
use crate::{MemoryPlacement, PlannedWorker};

pub(super) fn text(export: &Export) -> String {
    let all = export.plan.together().workers.remove(0);
    let mut text = comments(&[
        format!("{}: for the service that contains all workers.", export.title()),
        "Save as /etc/systemd/system/NAME.service.d/placement.conf, then: systemctl daemon-reload."
            .to_owned(),
    ]);
    text.push_str("[Service]\n");
    text.push_str(&comments(&[
        "Set for each process that the service starts; a program may change its own affinity.".to_owned(),
        "The empty assignment clears the unit's own setting: otherwise the lists would be merged.".to_owned(),
    ]));
    text.push_str(&format!("CPUAffinity=\nCPUAffinity={}\n{}", all.cpus, memory(export, &all)));
    text.push_str(&comments(
        &["The same CPUs as a limit that no program can exceed (cgroup v2).".to_owned()],
    ));
    text.push_str(&format!("AllowedCPUs=\nAllowedCPUs={}\n", all.cpus));
    let nodes = export.nodes(&all);
    if export.binds(&nodes) {
        text.push_str(&format!("AllowedMemoryNodes=\nAllowedMemoryNodes={}\n", list(&nodes)));
    }
    if !export.all_workers_equal() {
        text.push_str(&single(export));
    }
    text
}

/// Returns the NUMA settings; empty for the inherited policy.
fn memory(export: &Export, worker: &PlannedWorker) -> String {
    let nodes = export.nodes(worker);
    let policy = match export.memory {
        MemoryPlacement::Default => return String::new(),
        MemoryPlacement::Local => return "NUMAPolicy=local\n".to_owned(),
        MemoryPlacement::Interleave(_) => "interleave",
        MemoryPlacement::Bind(_) => "bind",
    };
    let nodes = if nodes.is_empty() { "all".to_owned() } else { list(&nodes) };
    format!("NUMAPolicy={policy}\nNUMAMask={nodes}\n")
}

/// Returns the CPUs of each worker as comments, for one drop-in per worker.
fn single(export: &Export) -> String {
    let mut lines = vec![
        "Within these CPUs the scheduler chooses: systemd cannot place single threads.".to_owned(),
        "With one unit per worker (NAME@0.service, ...), in NAME@N.service.d/placement.conf instead:"
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
