//! Devices that interrupt CPUs on which pinned threads work.

use super::{
    BUSY, Device, Finding, Severity, Subject,
    facts::{Facts, Process, Thread},
    words,
};
use crate::{CpuId, CpuSet};

/// A handler and the soft interrupts after it take some ten microseconds with what they evict from caches: from
/// a hundred a second on, that is a thousandth of the CPU, and what a latency is measured by.
const MOST_PER_SECOND: f64 = 100.0;
/// How many devices are named.
const NAMED: usize = 4;

/// A finding for each CPU.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let pinned: CpuSet = facts
        .processes
        .iter()
        .flat_map(|process| &process.threads)
        .filter_map(|thread| thread.only_cpu(&facts.online))
        .collect();
    let free = facts.online.difference(&pinned).difference(&facts.isolated);
    pinned.iter().filter_map(|cpu| on_cpu(facts, cpu, &free)).collect()
}

fn on_cpu(facts: &Facts, cpu: CpuId, free: &CpuSet) -> Option<Finding> {
    let mut devices: Vec<Device> = facts
        .interrupts
        .iter()
        .filter_map(|irq| {
            let per_second = *irq.per_second.get(&cpu)?;
            Some(Device { irq: irq.number, name: irq.name.clone(), per_second })
        })
        .collect();
    devices.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    let per_second: f64 = devices.iter().map(|device| device.per_second).sum();
    if per_second <= MOST_PER_SECOND {
        return None;
    }
    let (process, thread, busy_cpus) = worker(facts, cpu)?;
    let holder = process.holder(1);
    devices.truncate(NAMED);
    let worst = devices.first()?;
    let place = if free.is_empty() { "LIST".to_owned() } else { free.brief() };
    let named = devices.iter().map(|device| {
        format!("irq {} ({}) came {:.0} times a second", device.irq, device.name, device.per_second)
    });
    Some(Finding {
        severity: Severity::Harm,
        headline: format!(
            "{:.0} interrupts a second hit CPU {cpu}, where {} works pinned",
            per_second,
            words::process(&holder)
        ),
        evidence: [format!("thread {} ({}) used {busy_cpus:.2} of CPU {cpu}", thread.tid, thread.name)]
            .into_iter()
            .chain(named)
            .collect(),
        cure: format!("manycore irq place --device {} --cpus {place}", device_of(&worst.name)),
        subject: Subject::Interrupts {
            process: holder,
            tid: thread.tid,
            cpu,
            busy_cpus,
            per_second,
            devices,
        },
    })
}

/// The busiest thread that is pinned to the CPU.
fn worker(facts: &Facts, cpu: CpuId) -> Option<(&Process, &Thread, f64)> {
    let pinned = facts.processes.iter().flat_map(|process| process.threads.iter().map(move |t| (process, t)));
    pinned
        .filter(|(_, thread)| thread.only_cpu(&facts.online) == Some(cpu))
        .filter_map(|(process, thread)| {
            Some((process, thread, thread.busy_cpus.filter(|&busy| busy >= BUSY)?))
        })
        .max_by(|a, b| a.2.total_cmp(&b.2))
}

/// The device of a handler's name: `eth0` of `eth0-TxRx-3`, `nvme0` of `nvme0q4`, `virtio3` of `virtio3-input.0`.
fn device_of(name: &str) -> &str {
    let device = name.split(['-', ',', ' ', '@', ':', '.']).next().unwrap_or(name);
    let queue = device.strip_prefix("nvme").and_then(|rest| rest.find('q'));
    queue.map_or(device, |at| &device[.."nvme".len() + at])
}
