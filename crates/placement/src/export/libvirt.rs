//! libvirt's domain XML (`formatdomain`): a virtual CPU for each worker.

use super::{Export, list};
use crate::Memory;

pub(super) fn text(export: &Export) -> String {
    let all = export.plan.cpus();
    // Work of the emulator on a virtual CPU's own CPU would stall the guest.
    let emulator = if export.reserved.is_empty() { &all } else { export.reserved };
    let mut text = comment(&format!("{}: virtual CPU N is worker N", export.title()));
    if export.reserved.is_empty() {
        text.push_str(&comment(
            "the emulator shares the CPUs of the workers; a reserve would keep some for it",
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

/// The guest's memory. A domain has one policy for all of it unless it has NUMA cells of its own.
fn memory(export: &Export) -> String {
    let nodes = export.memory.nodes(export.plan);
    let mode = match export.memory {
        Memory::Default => return String::new(),
        Memory::Local => return comment("local is what a domain without numatune has"),
        Memory::Interleave(_) => "interleave",
        Memory::Bind(_) => "strict",
    };
    if nodes.is_empty() {
        return comment("the machine shows no memory nodes");
    }
    format!("<numatune>\n  <memory mode='{mode}' nodeset='{}'/>\n</numatune>\n", list(&nodes))
}

/// Two hyphens side by side may not be in a comment.
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
