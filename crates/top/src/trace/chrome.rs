//! The Chrome trace event format, which <https://ui.perfetto.dev> opens.
//!
//! Each unit of the machine is a process with a track for each CPU, and each watched thread has a track of its states. Times
//! are in microseconds since the begin of the recording.

use super::{CpuSlice, Mark, MarkKind, ThreadSlice, ThreadState, Timeline, TracedTask, unit::TraceUnits};
use manycore_topology::{CpuId, Machine};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Ids of the units and CPUs in the file: above all of processes and threads (`PID_MAX_LIMIT`, 2^22).
const UNITS: u64 = 1_000_000_000;
const CPUS: u64 = 1_100_000_000;

/// Writes a timeline as a trace.
///
/// # Errors
/// Those of `to`.
pub fn write(timeline: &Timeline, machine: &Machine, to: &mut impl Write) -> io::Result<()> {
    let mut events = Events { to, is_first: true, begin: timeline.span.0, units: TraceUnits::new(machine) };
    events.to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    events.name_units(timeline)?;
    events.name_threads(timeline)?;
    for slice in &timeline.cpus {
        events.cpu(slice)?;
    }
    for slice in &timeline.threads {
        events.thread(slice)?;
    }
    for mark in &timeline.marks {
        events.mark(mark)?;
    }
    to.write_all(b"\n]}\n")
}

struct Events<'a, W> {
    to: &'a mut W,
    is_first: bool,
    begin: u64,
    units: TraceUnits,
}

impl<W: Write> Events<'_, W> {
    fn add(&mut self, event: &Value) -> io::Result<()> {
        self.to.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        serde_json::to_writer(&mut *self.to, event).map_err(io::Error::from)
    }

    /// Names a process or a thread of the file, and sets its place among the others.
    fn label(&mut self, what: &str, pid: u64, tid: u64, name: &str, place: u64) -> io::Result<()> {
        let event = |kind: &str, args: Value| json!({ "ph": "M", "pid": pid, "tid": tid, "name": format!("{what}_{kind}"), "args": args });
        self.add(&event("name", json!({ "name": name })))?;
        self.add(&event("sort_index", json!({ "sort_index": place })))
    }

    /// Returns the process of a CPU in the file. A CPU that the machine does not have online is in one of its own.
    fn unit_of(&self, cpu: CpuId) -> u64 {
        UNITS + self.units.of(cpu).unwrap_or(self.units.names().len()) as u64
    }

    fn name_units(&mut self, timeline: &Timeline) -> io::Result<()> {
        let mut cpus: Vec<CpuId> = timeline.cpus.iter().map(|slice| slice.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let mut units: Vec<u64> = cpus.iter().map(|&cpu| self.unit_of(cpu)).collect();
        units.sort_unstable();
        units.dedup();
        for unit in units {
            let place = unit - UNITS;
            let known = self.units.names().get(place as usize);
            let name = known.cloned().unwrap_or_else(|| "other CPUs".to_owned());
            self.label("process", unit, 0, &name, place)?;
        }
        for cpu in cpus {
            let place = u64::from(cpu);
            self.label("thread", self.unit_of(cpu), CPUS + place, &format!("CPU {cpu}"), place)?;
        }
        Ok(())
    }

    /// Names processes by their first thread, or by any other one if that one was not seen.
    fn name_threads(&mut self, timeline: &Timeline) -> io::Result<()> {
        let mut threads: BTreeMap<(u32, u32), TracedTask> = BTreeMap::new();
        for slice in &timeline.threads {
            threads.insert((slice.task.pid, slice.task.tid), slice.task);
        }
        let mut named = None;
        for (&(pid, tid), task) in &threads {
            let process = threads.get(&(pid, pid)).unwrap_or(task);
            // Behind the units.
            let place = UNITS + u64::from(pid);
            if named.replace(pid) != Some(pid) {
                self.label("process", pid.into(), 0, &process.name.printable(), place)?;
            }
            self.label("thread", pid.into(), tid.into(), &task.name.printable(), tid.into())?;
        }
        Ok(())
    }

    fn micros(&self, ns: u64) -> f64 {
        ns.saturating_sub(self.begin) as f64 / 1000.0
    }

    fn slice(
        &mut self,
        ids: (u64, u64),
        span: (u64, u64),
        name: &str,
        kind: &str,
        args: &Value,
    ) -> io::Result<()> {
        let (begin, length) = (self.micros(span.0), span.1.saturating_sub(span.0) as f64 / 1000.0);
        self.add(&json!({
            "ph": "X", "pid": ids.0, "tid": ids.1, "ts": begin, "dur": length, "name": name, "cat": kind, "args": args,
        }))
    }

    fn cpu(&mut self, slice: &CpuSlice) -> io::Result<()> {
        let task = slice.task;
        let kind = if slice.is_watched { "watched" } else { "other" };
        let args = json!({ "process": task.pid, "thread": task.tid, "watched": slice.is_watched });
        let ids = (self.unit_of(slice.cpu), CPUS + u64::from(slice.cpu));
        self.slice(ids, slice.span, &task.name.printable(), kind, &args)
    }

    fn thread(&mut self, slice: &ThreadSlice) -> io::Result<()> {
        let (name, args) = match slice.state {
            ThreadState::Running(cpu) => ("running", json!({ "cpu": cpu, "where": self.place(cpu) })),
            ThreadState::WaitingAfterWakeup(cpu) => {
                ("waiting for a CPU", json!({ "cpu": cpu, "after": "wake-up", "where": self.place(cpu) }))
            }
            ThreadState::WaitingDisplaced(cpu) => {
                ("waiting for a CPU", json!({ "cpu": cpu, "after": "displaced", "where": self.place(cpu) }))
            }
            ThreadState::Off(why) => ("sleeping", json!({ "reason": why.word() })),
        };
        self.slice((slice.task.pid.into(), slice.task.tid.into()), slice.span, name, "state", &args)
    }

    fn place(&self, cpu: CpuId) -> Option<&String> {
        self.units.names().get(self.units.of(cpu)?)
    }

    fn mark(&mut self, mark: &Mark) -> io::Result<()> {
        let (name, args) = match mark.kind {
            MarkKind::Wakeup { waker, cpu } => {
                let by = if waker.tid == 0 { "an idle CPU".to_owned() } else { waker.name.printable() };
                ("woken", json!({ "cpu": cpu, "by": by, "by_thread": waker.tid }))
            }
            MarkKind::Migration { from, to } => {
                let distance = self.units.distance(from, to);
                let distance = distance.and_then(|distance| self.units.distances().name(distance));
                ("migrated", json!({ "from": from, "to": to, "distance": distance }))
            }
        };
        let at = self.micros(mark.at_ns);
        self.add(&json!({
            "ph": "i", "s": "t", "pid": mark.task.pid, "tid": mark.task.tid, "ts": at, "name": name, "cat": "event",
            "args": args,
        }))
    }
}

#[cfg(test)]
mod tests;
