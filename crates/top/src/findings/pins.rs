//! Pins that are broken.

use super::{FindingKind, Seen};
use crate::{
    picture::{Picture, TaskUse},
    plans::Plan,
};
use manycore_text::units::counted;
use manycore_topology::CpuSet;

/// Most threads that one command moves back.
const MOST_MOVED: usize = 8;

pub(super) fn broken(picture: &Picture) -> Vec<Seen> {
    picture.tasks.chunk_by(|a, b| a.id.pid == b.id.pid).filter_map(of_process).collect()
}

fn of_process(tasks: &[TaskUse]) -> Option<Seen> {
    let broken: Vec<(&TaskUse, &CpuSet)> = tasks
        .iter()
        .filter_map(|task| match &task.plan {
            Some(Plan::Broken(given)) => Some((task, &**given)),
            _ => None,
        })
        .collect();
    let (one, given) = broken.first()?;
    let pid = one.id.pid;
    let first = tasks.iter().find(|task| task.id.tid == pid).unwrap_or(one);
    let which = match (tasks.len(), broken.len()) {
        (1, _) => "it".to_owned(),
        (_, 1) => format!("thread {}", one.id.tid),
        (all, some) => format!("{some} of {}, such as {},", counted(all, "thread"), one.id.tid),
    };
    let how = match &one.allowed {
        Some(allowed) if **allowed != **given => format!("may use {}", cpus(allowed)),
        _ => format!("is on CPU {}", one.cpu),
    };
    Some(Seen {
        kind: FindingKind::BrokenPin,
        subject: pid.to_string(),
        text: format!(
            "the pin of {} (process {pid}) is broken: {which} {how}, but was given {}",
            first.name.printable(),
            cpus(given)
        ),
        fix: Some(command(pid, tasks, &broken)),
    })
}

fn cpus(set: &CpuSet) -> String {
    format!("{} {}", if set.len() == 1 { "CPU" } else { "CPUs" }, set.brief())
}

/// Returns the command that gives threads the CPUs of the journal again. `pin` would begin another journal.
fn command(pid: u32, tasks: &[TaskUse], broken: &[(&TaskUse, &CpuSet)]) -> String {
    let given = broken[0].1;
    if tasks.len() > 1 && broken.len() == tasks.len() && broken.iter().all(|(_, other)| *other == given) {
        return format!("taskset -acp {given} {pid}");
    }
    let each = broken.iter().take(MOST_MOVED);
    let each: Vec<String> =
        each.map(|(task, given)| format!("taskset -cp {given} {}", task.id.tid)).collect();
    each.join(" && ")
}
