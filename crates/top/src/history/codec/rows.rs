//! The rows of CPUs, tasks, processes and the system.

use super::{
    MOST_CPUS, Malformed, RUN_UNIT_NS,
    table::{
        Entry,
        Kind::{self, Counter, Level, Plain},
    },
    texts::Texts,
};
use crate::sample::{CpuTimes, ProcessSample, Sample, SystemCounters, TaskId, TaskSample};
use manycore_topology::CpuId;

pub(super) const SYSTEM: [Kind; 8] = [Counter, Counter, Counter, Counter, Level, Level, Level, Level];

/// The moment and the system are one row. The clock that can be set is written as its distance from the other one.
pub(super) fn system_entry(sample: &Sample) -> Entry<8> {
    let at_us = sample.at_ns / 1000;
    let system = &sample.system;
    let values = [
        Some(at_us),
        Some(sample.unix_ms.wrapping_sub(at_us / 1000)),
        system.switches,
        system.created,
        system.runnable,
        system.blocked,
        system.memory_kib,
        system.available_kib,
    ];
    Entry::new([0; 3], values)
}

pub(super) fn read_system(entry: &Entry<8>, into: &mut Sample) {
    let [at_us, distance, ..] = entry.values;
    into.at_ns = at_us.saturating_mul(1000);
    into.unix_ms = distance.wrapping_add(at_us / 1000);
    into.system = SystemCounters {
        switches: entry.value(2),
        created: entry.value(3),
        runnable: entry.value(4),
        blocked: entry.value(5),
        memory_kib: entry.value(6),
        available_kib: entry.value(7),
    };
}

fn cpu_number(value: u64) -> Result<CpuId, Malformed> {
    let number = CpuId::try_from(value).ok().filter(|&cpu| (cpu as usize) < MOST_CPUS);
    number.ok_or(Malformed("the number of a CPU is too large"))
}

pub(super) const CPU: [Kind; 10] =
    [Counter, Counter, Counter, Counter, Counter, Counter, Counter, Counter, Level, Level];

/// The sum of all times takes the place of idle time: it grows at one rate on all CPUs.
pub(super) fn cpu_entry(times: &CpuTimes) -> Entry<10> {
    let CpuTimes { user, nice, system, idle, iowait, irq, softirq, steal, .. } = *times;
    let sum = [nice, system, idle, iowait, irq, softirq, steal].iter().fold(user, |a, b| a.wrapping_add(*b));
    // Shifted, so that temperatures below zero are not huge.
    let heat = times.millidegrees.map(|heat| u64::from(heat.cast_unsigned() ^ 1 << 31));
    let ticks = [user, system, sum, softirq, iowait, nice, irq, steal].map(Some);
    let mut values = [None; 10];
    values[..8].copy_from_slice(&ticks);
    (values[8], values[9]) = (times.khz, heat);
    Entry::new([times.cpu.into(), 0, 0], values)
}

pub(super) fn cpu_times(entry: &Entry<10>) -> Result<CpuTimes, Malformed> {
    let [user, system, sum, softirq, iowait, nice, irq, steal, ..] = entry.values;
    let others = [user, system, softirq, iowait, nice, irq, steal];
    let heat = entry.value(9).map(|_| entry.must::<u32>(9)).transpose()?;
    Ok(CpuTimes {
        cpu: cpu_number(entry.key[0])?,
        user,
        nice,
        system,
        idle: others.iter().fold(sum, |left, other| left.wrapping_sub(*other)),
        iowait,
        irq,
        softirq,
        steal,
        khz: entry.value(8),
        millidegrees: heat.map(|heat| (heat ^ 1 << 31).cast_signed()),
    })
}

pub(super) const PROCESS: [Kind; 2] = [Level, Level];

/// Largest error of the CPU time of a process in units of its tasks. Clocks of tasks and processes are not read at one
/// moment, so that the difference of a process that runs is never the same.
const TOLERANCE: u64 = 2;

/// CPU times of the tasks of each process, ascending.
pub(super) fn run_of_processes<'a>(tasks: impl Iterator<Item = &'a Entry<17>>) -> Vec<(u64, u64)> {
    sums(tasks.map(|task| (task.key[0], task.values[0])))
}

/// Returns the sum of the values of each process. Those of a process follow each other.
pub(super) fn sums(values: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut sums: Vec<(u64, u64)> = Vec::new();
    for (pid, value) in values {
        match sums.last_mut().filter(|last| last.0 == pid) {
            Some(last) => last.1 = last.1.wrapping_add(value),
            None => sums.push((pid, value)),
        }
    }
    sums
}

/// Returns the sum of the CPU times of tasks, as their rows have them.
pub(super) fn run_of(tasks: &[TaskSample]) -> u64 {
    tasks.iter().fold(0, |sum: u64, task| sum.wrapping_add(task.run_ns / RUN_UNIT_NS))
}

/// Returns the sum of a process.
fn sum_of(pid: u64, sums: &[(u64, u64)]) -> u64 {
    sums.binary_search_by_key(&pid, |sum| sum.0).map_or(0, |at| sums[at].1)
}

/// The CPU time is written as its difference from that of the tasks, which is that of the threads that have ended.
/// `before` returns the row of the last sample.
pub(super) fn process_entry<'a>(
    process: &ProcessSample,
    runs: &[(u64, u64)],
    before: impl Fn([u64; 3]) -> Option<&'a Entry<2>>,
) -> Entry<2> {
    let key = [process.pid.into(), process.start, 0];
    let old = || before(key)?.value(0);
    let rest = process.cpu_ns.map(|ns| {
        let new = (ns / RUN_UNIT_NS).wrapping_sub(sum_of(key[0], runs));
        let is_near = |old: &u64| (new.wrapping_sub(*old) as i64).unsigned_abs() <= TOLERANCE;
        old().filter(is_near).unwrap_or(new)
    });
    Entry::new(key, [rest, Some(process.threads.into())])
}

pub(super) fn process(entry: &Entry<2>, runs: &[(u64, u64)]) -> Result<ProcessSample, Malformed> {
    let units = entry.value(0).map(|rest| rest.wrapping_add(sum_of(entry.key[0], runs)));
    Ok(ProcessSample {
        pid: entry.key(0)?,
        start: entry.key[1],
        cpu_ns: units.map(|units| units.saturating_mul(RUN_UNIT_NS)),
        threads: entry.must(1)?,
    })
}

/// Values that change most often are first.
pub(super) const TASK: [Kind; 17] = [
    Counter, Counter, Level, Counter, Counter, Plain, Plain, Level, Counter, Counter, Counter, Counter,
    Level, Level, Level, Level, Level,
];

pub(super) fn task_key(task: &TaskSample) -> [u64; 3] {
    [task.id.pid.into(), task.id.tid.into(), task.id.start]
}

pub(super) fn task_entry(task: &TaskSample, texts: &mut Texts) -> Entry<17> {
    let migrations = |at: usize| task.migrations.as_ref().map(|all| all[at]);
    // A task that is put on a CPU leaves it by a switch.
    let switches = task.voluntary.zip(task.involuntary).map_or(0, |(a, b)| a.wrapping_add(b));
    let slices = task.slices.map(|slices| slices.wrapping_sub(switches));
    let values = [
        Some(task.run_ns / RUN_UNIT_NS),
        task.wait_ns.map(|ns| ns / RUN_UNIT_NS),
        slices,
        task.voluntary,
        task.involuntary,
        Some(task.cpu.into()),
        Some(u64::from(u32::from(task.state))),
        Some(task.resident_kib),
        migrations(0),
        migrations(1),
        migrations(2),
        migrations(3),
        Some(texts.number(task.name.as_bytes())),
        Some(task.parent.into()),
        Some(task.is_kernel.into()),
        task.allowed.as_ref().map(|set| texts.number_of_set(set)),
        task.uid.map(u64::from),
    ];
    Entry::new(task_key(task), values)
}

pub(super) fn task(entry: &Entry<17>, texts: &mut Texts) -> Result<TaskSample, Malformed> {
    let letter = u8::try_from(entry.values[6]).ok().filter(u8::is_ascii_graphic);
    let migrations: Option<[u64; 4]> =
        (8..12).filter_map(|at| entry.value(at)).collect::<Vec<u64>>().try_into().ok();
    let switches = entry.value(3).zip(entry.value(4)).map_or(0, |(a, b)| a.wrapping_add(b));
    Ok(TaskSample {
        id: TaskId { pid: entry.key(0)?, tid: entry.key(1)?, start: entry.key[2] },
        name: texts.name(entry.values[12])?,
        parent: entry.must(13)?,
        is_kernel: entry.values[14] != 0,
        uid: entry.value(16).map(|_| entry.must(16)).transpose()?,
        state: letter.map_or('?', char::from),
        cpu: cpu_number(entry.values[5])?,
        run_ns: entry.values[0].saturating_mul(RUN_UNIT_NS),
        wait_ns: entry.value(1).map(|units| units.saturating_mul(RUN_UNIT_NS)),
        slices: entry.value(2).map(|slices| slices.wrapping_add(switches)),
        voluntary: entry.value(3),
        involuntary: entry.value(4),
        allowed: entry.value(15).map(|number| texts.set(number)).transpose()?,
        migrations: migrations.map(Box::new),
        resident_kib: entry.values[7],
    })
}
