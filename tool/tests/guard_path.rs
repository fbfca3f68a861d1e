//! From a reading to the signal the guard allocates nothing: every call of the allocator by its thread is counted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use manycore::guard::{
    event::{Event, Fact, What},
    groups::Groups,
    rules::Rules,
    watcher::{Means, Plan, QUEUE, Watcher},
};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::{Duration, Instant},
};

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls are passed on unchanged to the system's allocator; the counter is a plain cell of the thread that
// needs no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the clerk does for the control groups of processes.
fn identify(
    events: &Receiver<Event>,
    facts: &SyncSender<Fact>,
    groups: &mut Groups,
    rules: &Rules,
) -> Vec<Event> {
    let mut others = Vec::new();
    for event in events.try_iter() {
        match event.what {
            What::Identify { pid, start } => {
                if let Some(found) = groups.identify(pid, start, rules) {
                    facts.try_send(found.fact(pid, start)).ok().unwrap();
                }
            }
            _ => others.push(event),
        }
    }
    others
}

#[test]
fn nothing_is_allocated_between_a_reading_and_the_signal() {
    let name = format!("/manycore-path-{}", std::process::id());
    let mount = Path::new("/sys/fs/cgroup/memory");
    let (mount, limit) = if mount.exists() {
        (mount, "memory.limit_in_bytes")
    } else {
        (Path::new("/sys/fs/cgroup"), "memory.max")
    };
    let folder = mount.join(&name[1..]);
    let made = fs::create_dir(&folder).and_then(|()| fs::write(folder.join(limit), (200 << 20).to_string()));
    if let Err(error) = made {
        let _ = fs::remove_dir(&folder);
        return eprintln!("SKIPPED: no control group with a memory limit can be made: {error}");
    }
    let rules = Rules::load(None, std::slice::from_ref(&name)).unwrap();
    let (plan, _) = Plan::open(&rules).unwrap();
    let (events_in, events) = sync_channel(QUEUE);
    let (facts, facts_out) = sync_channel(QUEUE);
    let wake = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let means = Means {
        plan: Box::new(plan),
        is_dry: false,
        events: events_in,
        facts: facts_out,
        wake,
        manager: None,
    };
    let mut watcher = Watcher::new(means).unwrap();
    let mut groups = Groups::new().unwrap();
    watcher.tick();
    identify(&events, &facts, &mut groups, &rules);
    watcher.take_facts();

    // It waits in the group until it is told to take most of it.
    let script =
        "import sys\nsys.stdin.readline()\nx = bytearray(186 << 20)\nprint(1, flush=True)\nsys.stdin.read()";
    let script_in = format!("echo $$ > {}/cgroup.procs && exec python3 -c \"$0\"", folder.display());
    let mut python = Command::new("sh");
    python.args(["-c", &script_in, script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    let mut stdin = python.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"\n").unwrap();
    let mut line = String::new();
    BufReader::new(python.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() {
        python.wait().unwrap();
        fs::remove_dir(&folder).unwrap();
        return eprintln!("SKIPPED: python3 is not installed, or takes too much");
    }

    let mut calls = 0;
    let mut told = Vec::new();
    let end = Instant::now() + Duration::from_secs(10);
    while !told.iter().any(|event: &Event| matches!(event.what, What::Gone { .. })) {
        watcher.take_facts();
        let before = CALLS.get();
        watcher.tick();
        calls += CALLS.get() - before;
        told.extend(identify(&events, &facts, &mut groups, &rules));
        if Instant::now() >= end {
            facts.try_send(Fact::Why(python.id())).ok().unwrap();
            watcher.take_facts();
            panic!("{told:#?} {:#?}", events.try_iter().collect::<Vec<_>>());
        }
        // One that is a zombie is gone.
        let _ = python.try_wait();
    }
    let is_kill = |event: &Event| matches!(event.what, What::Sent(sent) if sent.is_kill && sent.count == 1);
    assert!(told.iter().any(is_kill), "{told:?}");
    assert_eq!(calls, 0, "calls of the allocator");
    python.wait().unwrap();
    while fs::remove_dir(&folder).is_err() {
        std::thread::yield_now();
    }
}
