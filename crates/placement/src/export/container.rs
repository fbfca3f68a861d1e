//! Exports for `docker run` and `podman run`: the cpuset of a container.
//!
//! `--cpuset-mems` is as strict as `bind`, so it is written for `bind` only. Under the other policies
//! memory comes from the nearest node, and from the next one when that is full.

use super::{Export, comments, list};
use crate::MemoryPlacement;

pub(super) fn text(export: &Export, program: &str) -> String {
    let interleave =
        export.memory_by_numactl().filter(|_| matches!(export.memory, MemoryPlacement::Interleave(_)));
    let comment = interleave.map(|words| {
        comments(&[
            format!("{program} cannot interleave memory: put '{words}' before the command"),
            "in the container, and give it --cap-add=SYS_NICE, which set_mempolicy(2) needs there."
                .to_owned(),
        ])
    });
    let options = export.lines(|worker| {
        let nodes = export.nodes(worker);
        let memory =
            if export.binds(&nodes) { format!(" --cpuset-mems={}", list(&nodes)) } else { String::new() };
        format!("--cpuset-cpus={}{memory}", worker.cpus)
    });
    comment.unwrap_or_default() + &options
}
