//! Virtual machines, and the threads of their virtual CPUs.

use super::percent;
use crate::{
    picture::{Picture, TaskUse},
    view::table::{Column, Sheet, SheetCell},
};
use manycore_topology::CpuSet;

/// Returns the table of virtual CPUs, with a row for each machine before them.
pub fn guests(picture: &Picture) -> Sheet {
    let columns = vec![
        Column::text("VIRTUAL MACHINE", 18, 30, 0),
        Column::id("VCPU", 6, 0),
        Column::id("TID", 7, 4),
        Column::figure("CPU%", 7, 0),
        Column::figure("WAIT%", 7, 0),
        Column::id("CPU", 5, 1),
        Column::text("ALLOWED", 9, 24, 2),
    ];
    let mut rows = Vec::new();
    for guest in &picture.guests {
        let of = |tid: &u32| {
            let at =
                picture.tasks.binary_search_by_key(&(guest.pid, *tid), |task| (task.id.pid, task.id.tid));
            at.ok().map(|at| &picture.tasks[at])
        };
        let vcpus: Vec<(u32, Option<&TaskUse>)> =
            guest.vcpus.iter().map(|(vcpu, tid)| (*vcpu, of(tid))).collect();
        rows.push(summary(&guest.name, guest.pid, &vcpus));
        rows.extend(vcpus.iter().map(|(vcpu, task)| vcpu_row(&guest.name, *vcpu, *task)));
    }
    Sheet { columns, rows }
}

fn summary(name: &str, pid: u32, vcpus: &[(u32, Option<&TaskUse>)]) -> Vec<SheetCell> {
    let tasks = || vcpus.iter().filter_map(|(_, task)| *task);
    let run = tasks().map(|task| task.run).sum::<f64>();
    let waits: Vec<f64> = tasks().filter_map(|task| task.wait).collect();
    let wait = (!waits.is_empty()).then(|| waits.iter().sum::<f64>());
    let allowed = CpuSet::union_of(tasks().filter_map(|task| task.allowed.as_deref()));
    let count = vcpus.len().max(1) as f64;
    vec![
        SheetCell::text(name),
        SheetCell::figure(Some(-1.0), |_| format!("all {}", vcpus.len())),
        SheetCell::figure(Some(f64::from(pid)), |pid| format!("{pid:.0}")),
        SheetCell::figure(Some(run), percent).hot(count),
        SheetCell::figure(wait, percent).hot(count / 2.0),
        SheetCell::figure(None, |_| String::new()),
        SheetCell::text(if allowed.is_empty() { "-".to_owned() } else { allowed.within(24) }),
    ]
}

fn vcpu_row(name: &str, vcpu: u32, task: Option<&TaskUse>) -> Vec<SheetCell> {
    let whole = |value: f64| format!("{value:.0}");
    vec![
        SheetCell::text(format!("  {name}")),
        SheetCell::figure(Some(f64::from(vcpu)), whole),
        SheetCell::figure(task.map(|task| f64::from(task.id.tid)), whole),
        SheetCell::figure(task.map(|task| task.run), percent).hot(1.0),
        SheetCell::figure(task.and_then(|task| task.wait), percent).hot(0.5),
        SheetCell::figure(task.map(|task| f64::from(task.cpu)), whole),
        SheetCell::text(
            task.and_then(|task| task.allowed.as_ref()).map_or("-".to_owned(), |set| set.within(24)),
        ),
    ]
}
