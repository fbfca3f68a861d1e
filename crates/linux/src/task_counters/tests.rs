//! Groups beside other counts of the kernel, by events that every kernel counts.

use super::*;
use crate::clock;
use rustix::{
    mm::{MapFlags, ProtFlags},
    thread::set_thread_uid,
};
use std::{
    fs,
    process::{Command, Stdio, id},
    sync::mpsc::channel,
    thread::spawn,
    time::{Duration, Instant},
};

const CLOCKS: [CountedEvent; 2] = [CountedEvent::TaskClock, CountedEvent::PageFaults];

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Returns the counters; `None`, with a message, where a container forbids them.
fn counters<const N: usize>(events: [CountedEvent; N]) -> Option<TaskCounters<N>> {
    match TaskCounters::probe(events) {
        Ok(counters) => Some(counters),
        Err(error @ (CountError::NoRight(_) | CountError::NotCounted(_))) => {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Uses CPU time for `ns` nanoseconds.
fn run(ns: u64) {
    let end = clock::thread_cpu().as_nanos() as u64 + ns;
    while (clock::thread_cpu().as_nanos() as u64) < end {}
}

fn counts(running_ns: u64, counts: [u64; 2]) -> EventCounts<2> {
    EventCounts { enabled_ns: 1000 + running_ns * 2, running_ns, counts }
}

#[test]
fn counts_are_scaled_to_all_of_the_time() {
    let (before, now) = (counts(100, [10, 7]), counts(200, [60, 7]));
    assert_eq!(now.since(&before, 0.5), Some([100.0, 0.0]));
    assert_eq!(now.since(&before, 0.51), None);
    assert_eq!(now.since(&now, 1.0), Some([0.0, 0.0]));
    // It ran, and its events had no turn.
    let no_turn = EventCounts { enabled_ns: now.enabled_ns + 9, ..now };
    assert_eq!(no_turn.since(&now, 0.0), None);
    // Of another group: counters that decrease are no count.
    assert_eq!(before.since(&now, 0.0), Some([0.0, 0.0]));
}

#[test]
fn only_readings_of_all_events_are_parsed() {
    let bytes = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>();
    let expected = EventCounts { enabled_ns: 9, running_ns: 8, counts: [5, 6] };
    assert_eq!(parse(&bytes(&[2, 9, 8, 5, 6])), Some(expected));
    assert_eq!(parse::<2>(&bytes(&[1, 9, 8, 5, 6])), None);
    assert_eq!(parse::<2>(&bytes(&[2, 9, 8, 5])), None);
    assert_eq!(parse::<2>(&bytes(&[2, 9, 8, 5, 6])[..39]), None);
    assert_eq!(parse::<2>(&[]), None);
}

#[test]
fn errors_are_told_apart_by_their_number() {
    let of = |errno: Errno| CountError::from(io::Error::from(errno));
    for errno in [Errno::NOENT, Errno::OPNOTSUPP, Errno::NODEV, Errno::NOSYS] {
        assert!(matches!(of(errno), CountError::NotCounted(_)));
    }
    assert!([Errno::ACCESS, Errno::PERM].into_iter().all(|one| matches!(of(one), CountError::NoRight(_))));
    assert!(
        [Errno::MFILE, Errno::NFILE].into_iter().all(|one| matches!(of(one), CountError::NoDescriptors(_)))
    );
    assert!(matches!(of(Errno::SRCH), CountError::Ended) && matches!(of(Errno::INVAL), CountError::Other(_)));
}

#[test]
fn the_task_clock_is_the_cpu_time_of_the_thread() {
    let Some(counters) = counters([CountedEvent::TaskClock]) else { return };
    let tid = own_tid();
    let (began, outer) = (Instant::now(), counters.count(tid).unwrap());
    let (first, inner) = (outer.read().unwrap(), clock::cpu_ns(tid).unwrap());
    run(20_000_000);
    let (inner, last) = (clock::cpu_ns(tid).unwrap() - inner, outer.read().unwrap());
    let elapsed = began.elapsed().as_nanos() as f64;
    let [counted] = last.since(&first, 1.0).unwrap();
    // The task clock of the kernel includes interrupts and the time of the hypervisor, which can be much.
    assert!(counted >= inner as f64 * 0.99 && counted <= elapsed, "{inner} <= {counted} <= {elapsed}");
    assert!(last.running_ns <= last.enabled_ns);
}

#[test]
fn a_thread_that_waits_is_not_counted_and_another_one_is() {
    let Some(counters) = counters(CLOCKS) else { return };
    let (to, orders) = channel::<u64>();
    let (answer, from) = channel();
    let worker = spawn(move || {
        answer.send(own_tid()).unwrap();
        for ns in orders {
            run(ns);
            answer.send(own_tid()).unwrap();
        }
    });
    let tid = from.recv().unwrap();
    let counted = counters.count(tid).unwrap();
    // After its answer it runs for a moment, which may be later.
    let deadline = Instant::now() + Duration::from_mins(1);
    let first = loop {
        let first = counted.read().unwrap();
        run(10_000_000);
        let idle = counted.read().unwrap().since(&first, 1.0).unwrap();
        if idle[0] == 0.0 {
            break first;
        }
        assert!(Instant::now() < deadline, "{idle:?}");
    };
    to.send(10_000_000).unwrap();
    from.recv().unwrap();
    let busy = counted.read().unwrap().since(&first, 1.0).unwrap();
    assert!(busy[0] >= 9.9e6, "{busy:?}");
    drop(to);
    worker.join().unwrap();
    // Counts of a thread that has ended stand, and it cannot be counted any more.
    while fs::exists(format!("/proc/self/task/{tid}")).unwrap() {}
    let ended = counted.read().unwrap();
    assert_eq!(counted.read().unwrap(), ended);
    assert!(matches!(counters.count(tid), Err(CountError::Ended)));
}

#[test]
fn page_faults_are_the_pages_that_were_touched() {
    let Some(counters) = counters(CLOCKS) else { return };
    let (page, pages) = (rustix::param::page_size(), 300);
    let length = pages * page;
    let counted = counters.count(own_tid()).unwrap();
    let before = counted.read().unwrap();
    touch(length, page);
    let [_, faults] = counted.read().unwrap().since(&before, 1.0).unwrap();
    // Others: of the stack and of the kernel's tables, and of pages that were swapped out.
    assert!((pages as f64..2.0 * pages as f64).contains(&faults), "{faults}");
}

/// Writes to each page of new memory, which has no large pages.
#[allow(unsafe_code, reason = "new memory without large pages")]
fn touch(length: usize, page: usize) {
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, which only this function uses, within its length, and unmaps.
    unsafe {
        let memory = rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, rights, flags).unwrap();
        rustix::mm::madvise(memory, length, rustix::mm::Advice::LinuxNoHugepage).unwrap();
        for at in (0..length).step_by(page) {
            memory.byte_add(at).cast::<u8>().write_volatile(1);
        }
        rustix::mm::munmap(memory, length).unwrap();
    }
}

#[test]
fn files_are_closed_and_their_lack_is_an_error() {
    // This runs in a process of its own, whose files no other test opens.
    if std::env::var_os("COUNT_FILES").is_some() {
        let Some(counters) = counters(CLOCKS) else { return };
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let counted = [1, 2, 3].map(|_| counters.count(own_tid()).unwrap());
        assert_eq!(open(), before + 3 * CLOCKS.len());
        drop(counted);
        assert_eq!(open(), before);
        let mut all = Vec::new();
        let error = loop {
            match counters.count(own_tid()) {
                Ok(one) if all.len() < 100 => all.push(one),
                other => break other.err(),
            }
        };
        assert!(matches!(error, Some(CountError::NoDescriptors(_))), "{error:?}");
        return;
    }
    let own = "task_counters::tests::files_are_closed_and_their_lack_is_an_error";
    let command = "ulimit -n 64; exec \"$0\" \"$@\"";
    let program = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).arg(program).args([own, "--exact", "--test-threads=1"]);
    assert!(shell.env("COUNT_FILES", "1").stdout(Stdio::null()).status().unwrap().success());
}

#[test]
fn threads_of_other_users_are_refused() {
    // This runs in a process of its own, of which one thread becomes another user.
    if let Some(target) = std::env::var_os("COUNT_RIGHTS") {
        let target: u32 = target.to_str().unwrap().parse().unwrap();
        set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        let Some(counters) = counters(CLOCKS) else { return };
        // `perf_event_paranoid` of the machine may be below 2.
        let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
        assert_eq!(counters.is_user_only(), level.trim().parse::<i32>().unwrap() >= 2);
        let refused = counters.count(target);
        assert!(matches!(refused, Err(CountError::NoRight(_))), "{refused:?}");
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can become another user");
        return;
    }
    let own = "task_counters::tests::threads_of_other_users_are_refused";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([own, "--exact"]).env("COUNT_RIGHTS", id().to_string()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}

#[test]
fn counters_of_the_cpu_are_there_or_named_as_absent() {
    match TaskCounters::probe([CountedEvent::Cycles, CountedEvent::Instructions, CountedEvent::CacheMisses]) {
        Ok(counters) => {
            let counted = counters.count(own_tid()).unwrap();
            let before = counted.read().unwrap();
            run(20_000_000);
            let now = counted.read().unwrap().since(&before, 0.0);
            assert!(
                now.is_none_or(|[cycles, instructions, _]| cycles > 0.0 && instructions > 0.0),
                "{now:?}"
            );
        }
        Err(error) => {
            println!("SKIPPED: {error}");
            assert!(matches!(error, CountError::NotCounted(_) | CountError::NoRight(_)), "{error:?}");
        }
    }
}
