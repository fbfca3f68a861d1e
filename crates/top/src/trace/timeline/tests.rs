use super::*;
use crate::{sample::TaskName, trace::TraceEvent};

fn task(pid: u32, tid: u32) -> TracedTask {
    TracedTask { pid, tid, name: TaskName::new(format!("t{tid}").as_bytes()) }
}

fn idle() -> TracedTask {
    task(0, 0)
}

fn switch(at_ns: u64, cpu: CpuId, from: TracedTask, why: Departure, to: TracedTask) -> TraceEvent {
    TraceEvent { at_ns, cpu, kind: EventKind::Switch { from, why, to } }
}

fn timeline(events: Vec<TraceEvent>) -> Timeline {
    let recording = Recording {
        span: (0, 1000),
        events: events.into_iter().collect(),
        watched: Some(BTreeSet::from([10])),
        ..Recording::default()
    };
    Timeline::new(&recording)
}

fn states(timeline: &Timeline, tid: u32) -> Vec<((u64, u64), ThreadState, bool)> {
    let of = timeline.threads.iter().filter(|slice| slice.task.tid == tid);
    of.map(|slice| (slice.span, slice.state, slice.is_whole)).collect()
}

#[test]
fn two_threads_of_one_cpu_run_and_wait_in_turn() {
    use ThreadState::{Off, Running, WaitingDisplaced};
    let [a, b] = [task(10, 11), task(10, 12)];
    let found = timeline(vec![
        switch(100, 0, idle(), Departure::Displaced, a),
        switch(200, 0, a, Departure::Displaced, b),
        switch(300, 0, b, Departure::Displaced, a),
        switch(350, 0, a, Departure::Sleep, b),
        switch(400, 0, b, Departure::Ended, idle()),
    ]);
    let expected = [
        ((100, 200), Running(0), true),
        ((200, 300), WaitingDisplaced(0), true),
        ((300, 350), Running(0), true),
        ((350, 1000), Off(Departure::Sleep), false),
    ];
    assert_eq!(states(&found, 11), expected);
    let expected = [
        ((200, 300), Running(0), true),
        ((300, 350), WaitingDisplaced(0), true),
        ((350, 400), Running(0), true),
    ];
    assert_eq!(states(&found, 12), expected);
    let cpu: Vec<_> = found.cpus.iter().map(|slice| (slice.span, slice.task.tid)).collect();
    assert_eq!(cpu, [((100, 200), 11), ((200, 300), 12), ((300, 350), 11), ((350, 400), 12)]);
}

#[test]
fn a_wait_begins_at_the_wakeup_and_goes_on_over_a_migration() {
    let [a, other] = [task(10, 11), task(20, 20)];
    let wakeup = TraceEvent { at_ns: 300, cpu: 0, kind: EventKind::Wakeup { task: a, waker: other } };
    let migration = TraceEvent { at_ns: 350, cpu: 0, kind: EventKind::Migration { task: a, to: 4 } };
    // Events need not be in order.
    let found = timeline(vec![
        switch(500, 4, idle(), Departure::Displaced, a),
        migration,
        switch(200, 0, a, Departure::Disk, other),
        wakeup,
    ]);
    let expected = [
        ((0, 200), ThreadState::Running(0), false),
        ((200, 300), ThreadState::Off(Departure::Disk), true),
        ((300, 500), ThreadState::WaitingAfterWakeup(4), true),
        ((500, 1000), ThreadState::Running(4), false),
    ];
    assert_eq!(states(&found, 11), expected);
    let kinds: Vec<_> = found.marks.iter().map(|mark| mark.kind).collect();
    assert_eq!(kinds, [MarkKind::Wakeup { waker: other, cpu: 0 }, MarkKind::Migration { from: 0, to: 4 }]);
    // What else ran is on its CPU, but not among the threads.
    assert!(found.cpus.contains(&CpuSlice { cpu: 0, span: (200, 1000), task: other, is_watched: false }));
    assert_eq!(states(&found, 20), []);
}

#[test]
fn a_wakeup_of_a_running_task_is_no_wait_and_a_lost_switch_no_slice() {
    let [a, b] = [task(10, 11), task(10, 12)];
    let found = timeline(vec![
        switch(100, 0, idle(), Departure::Displaced, a),
        TraceEvent { at_ns: 150, cpu: 0, kind: EventKind::Wakeup { task: a, waker: b } },
        // The switch from a to b was lost.
        switch(300, 0, b, Departure::Ended, idle()),
    ]);
    assert_eq!(states(&found, 11), [((100, 1000), ThreadState::Running(0), false)]);
    assert_eq!(found.cpus, []);
}
