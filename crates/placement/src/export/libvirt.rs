//! Exports for libvirt's domain XML (`formatdomain`): one virtual CPU per worker.

use super::{Export, list};
use crate::MemoryPlacement;

pub(super) fn text(export: &Export) -> String {
    let all = export.plan.cpus();
    // Emulator threads on the host CPU of a virtual CPU would stall the guest.
    let emulator = if export.reserved.is_empty() { &all } else { export.reserved };
    let mut text = comment(&format!("{}: virtual CPU N is worker N", export.title()));
    if export.reserved.is_empty() {
        text.push_str(&comment(
            "the emulator shares the CPUs of the workers; plan with --reserve to give it CPUs of its own",
        ));
    }
    let count = export.plan.workers.len();
    text.push_str(&format!("<vcpu placement='static' cpuset='{all}'>{count}</vcpu>\n<cputune>\n"));
    for (at, worker) in export.plan.workers.iter().enumerate() {
        text.push_str(&format!("  <vcpupin vcpu='{at}' cpuset='{}'/>\n", worker.cpus));
    }
    text.push_str(&format!("  <emulatorpin cpuset='{emulator}'/>\n</cputune>\n"));
    text + &memory(export)
}

/// Returns the memory policy. A domain has one policy for all of its memory unless it has its own NUMA
/// cells.
fn memory(export: &Export) -> String {
    let nodes = export.memory.nodes(export.plan);
    let mode = match export.memory {
        MemoryPlacement::Default => return String::new(),
        MemoryPlacement::Local => return comment("local is the default of a domain without numatune"),
        MemoryPlacement::Interleave(_) => "interleave",
        MemoryPlacement::Bind(_) => "strict",
    };
    if nodes.is_empty() {
        return comment("the machine reports no memory nodes");
    }
    format!("<numatune>\n  <memory mode='{mode}' nodeset='{}'/>\n</numatune>\n", list(&nodes))
}

/// Formats an XML comment, which must not contain two adjacent hyphens.
fn comment(text: &str) -> String {
    let mut spaced = String::new();
    for letter in text.chars() {
        if letter == '-' && spaced.ends_with('-') {
            spaced.push(' ');
        }
        spaced.push(letter);
    }
    format!("<!-- {spaced} -->\n")
}
