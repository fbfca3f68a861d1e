//! From a reading to the signal the guard allocates nothing. Every call of the allocator in its thread is
//! counted.

use crate::common::memory_group::{AllocationPattern, Group};
use manycore_guard::{
    event::{EventDetail, MonitorEvent, SlowPathMessage},
    groups::Groups,
    monitor::{Monitor, MonitorConfig, QUEUE, WatchPlan},
    rules::Rules,
};
use manycore_linux::wake_channel::{Sender, WakeUp, channel};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    fs,
    io::{BufRead, BufReader},
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

struct CountingAllocator;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls are passed on unchanged to the system's allocator. The counter is a plain cell of the
// thread that needs no allocation and no destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller fulfils the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Finds the control groups of processes, as the slow path does. Returns all other events.
fn identify(
    events: &Receiver<MonitorEvent>,
    messages: &Sender<SlowPathMessage>,
    groups: &mut Groups,
    rules: &Rules,
) -> Vec<MonitorEvent> {
    let mut others = Vec::new();
    for event in events.try_iter() {
        match event.what {
            EventDetail::Identify { pid, start } => {
                if let Some(found) = groups.identify(pid, start, rules) {
                    assert!(messages.try_send(found.message(pid, start)));
                }
            }
            _ => others.push(event),
        }
    }
    others
}

/// A monitor of one group, and what its slow path has.
struct Watch {
    monitor: Monitor,
    events: Receiver<MonitorEvent>,
    messages: Sender<SlowPathMessage>,
    groups: Groups,
    rules: Rules,
}

impl Watch {
    fn of(group: &Group) -> Self {
        // The level alone leads to a signal: about 28 MiB are left when 170 of 200 are taken.
        let limits =
            "term_below = \"100M\"\nkill_below = \"80M\"\nterm_before = \"0s\"\nkill_before = \"0s\"";
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("[[cgroup]]\npath = {:?}\n{limits}\n", group.path)).unwrap();
        let rules = Rules::load(Some(file.path()), &[]).unwrap();
        let (plan, _) = WatchPlan::open(&rules).unwrap();
        let wake_up = WakeUp::new().unwrap();
        let (events_in, events) = channel(QUEUE, &WakeUp::new().unwrap());
        let (messages, messages_out) = channel(QUEUE, &wake_up);
        let config = MonitorConfig {
            plan: Box::new(plan),
            is_dry: false,
            has_metrics: false,
            events: events_in,
            messages: messages_out,
            wake_up,
            manager: None,
        };
        Self {
            monitor: Monitor::new(config).unwrap(),
            events,
            messages,
            groups: Groups::new().unwrap(),
            rules,
        }
    }

    /// Runs one tick. Returns its events and the number of calls of the allocator.
    fn tick(&mut self) -> (Vec<MonitorEvent>, u64) {
        self.monitor.receive_messages();
        let before = CALLS.get();
        self.monitor.tick();
        let calls = CALLS.get() - before;
        (identify(&self.events, &self.messages, &mut self.groups, &self.rules), calls)
    }
}

#[test]
fn nothing_is_allocated_between_a_reading_and_the_signal() {
    let Some(group) = Group::new("path", 200) else { return };
    let mut watch = Watch::of(&group);
    watch.tick();
    // It takes most of the memory at once.
    let mut hog = group.eat(AllocationPattern::at_once(170));
    let mut line = String::new();
    BufReader::new(hog.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "1\n");
    let (mut calls, mut told) = (0, Vec::new());
    let end = Instant::now() + Duration::from_mins(1);
    while !told.iter().any(|event: &MonitorEvent| matches!(event.what, EventDetail::Exited { .. })) {
        let (events, new) = watch.tick();
        calls += new;
        told.extend(events);
        assert!(Instant::now() < end, "{told:#?}");
        // A zombie has exited.
        let _ = hog.try_wait();
    }
    let is_kill = |event: &MonitorEvent| matches!(event.what, EventDetail::Sent(sent) if sent.is_kill && sent.count == 1);
    assert!(told.iter().any(is_kill), "{told:?}");
    assert_eq!(calls, 0, "calls of the allocator");
    hog.wait().unwrap();
}
