//! Virtual machines, and the threads of their virtual CPUs.

use super::percent;
use crate::{
    picture::{GuestUse, Picture, TaskUse},
    view::table::{Column, Sheet, SheetCell},
};

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
    for one in picture.guest_uses() {
        rows.push(summary(&one));
        rows.extend(one.vcpus.iter().map(|(vcpu, task)| vcpu_row(&one.guest.name, *vcpu, *task)));
    }
    Sheet { columns, rows }
}

fn summary(one: &GuestUse<'_>) -> Vec<SheetCell> {
    let (allowed, count) = (one.allowed(), one.vcpus.len());
    let most = count.max(1) as f64;
    vec![
        SheetCell::text(&*one.guest.name),
        SheetCell::figure(Some(-1.0), |_| format!("all {count}")),
        SheetCell::figure(Some(f64::from(one.guest.pid)), |pid| format!("{pid:.0}")),
        SheetCell::figure(Some(one.run()), percent).hot(most),
        SheetCell::figure(one.wait(), percent).hot(most / 2.0),
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
