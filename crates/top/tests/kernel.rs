//! The sampler against the running kernel, and against invented trees.

use manycore_linux::{affinity, clock};
use manycore_top::{Picture, Sample, Sampler, SamplerOptions, TaskSample};
use manycore_topology::{CpuSet, Machine, SysTree, read};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// A process that is killed with the test.
struct Killed(Child);

impl Killed {
    fn start(program: &str, arguments: &[&str]) -> Self {
        Self(Command::new(program).args(arguments).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sampler() -> Sampler {
    Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap()
}

fn machine() -> Machine {
    read(&SysTree::open(Path::new("/")).unwrap()).unwrap()
}

fn of(sample: &Sample, pid: u32, tid: u32) -> Option<&TaskSample> {
    sample.tasks.iter().find(|task| (task.id.pid, task.id.tid) == (pid, tid))
}

/// Samples until one of them is as wanted.
fn until(sampler: &mut Sampler, wanted: impl Fn(&Sample) -> bool) -> Sample {
    let (mut sample, deadline) = (Sample::default(), Instant::now() + Duration::from_mins(1));
    loop {
        sampler.sample(&mut sample).unwrap();
        if wanted(&sample) {
            return sample;
        }
        assert!(Instant::now() < deadline, "{} tasks", sample.tasks.len());
        std::thread::yield_now();
    }
}

#[test]
fn a_spinning_process_is_seen_with_its_cpu_time_and_its_cpu() {
    let cpu = affinity::allowed().unwrap().last().unwrap();
    let busy = Killed::start("sh", &["-c", "while :; do :; done"]);
    let pid = busy.0.id();
    affinity::restrict(pid, &CpuSet::single(cpu)).unwrap();
    let mut sampler = sampler();
    let spins = until(&mut sampler, |sample| of(sample, pid, pid).is_some_and(|task| task.state == 'R'));
    let since = of(&spins, pid, pid).unwrap().run_ns + 300_000_000;
    // The times that a sample has are between those before and after it.
    let waits_ns = || {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() as f64
    };
    let times = || [clock::process_cpu_ns(pid).unwrap() as f64, waits_ns()];
    let enclosed = |sampler: &mut Sampler| (times(), until(sampler, |_| true), times());
    let (before_first, before, after_first) = enclosed(&mut sampler);
    until(&mut sampler, |sample| of(sample, pid, pid).unwrap().run_ns > since);
    let (before_last, now, after_last) = enclosed(&mut sampler);
    let picture = Picture::new(&machine(), &before, &now).unwrap();
    let task = picture.tasks.iter().find(|task| task.id.pid == pid).unwrap();
    let process = picture.processes.iter().find(|process| process.pid == pid).unwrap();
    // Its time on CPUs is a tick late.
    let late = [20e6, 1e3];
    let shares = [task.run, process.run.unwrap(), task.wait.unwrap_or(0.0)];
    for (share, what) in shares.into_iter().zip([0, 0, 1]) {
        let bounds = before_last[what] - after_first[what] - late[what]
            ..after_last[what] - before_first[what] + late[what];
        assert!(bounds.contains(&(share * picture.seconds * 1e9)), "{share}, {task:?} {bounds:?}");
    }
    assert_eq!((task.cpu, task.migration, task.is_new, task.is_kernel), (cpu, None, false, false));
    assert_eq!(task.allowed.as_deref(), Some(&CpuSet::single(cpu)));
    assert!(task.involuntary.is_some() && task.resident_kib > 0 && task.parent == std::process::id());
}

#[test]
fn counters_of_a_sleeper_agree_with_its_files_after_each_of_its_runs() {
    let sleeper = Killed::start("sh", &["-c", "while :; do sleep 0.02; done"]);
    let pid = sleeper.0.id();
    let mut sampler = sampler();
    let first = until(&mut sampler, |sample| of(sample, pid, pid).is_some());
    let runs = |sample: &Sample| of(sample, pid, pid).and_then(|task| task.slices).unwrap_or(0);
    let later = until(&mut sampler, |sample| runs(sample) > runs(&first) + 5);
    let task = of(&later, pid, pid).unwrap();
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let file: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(task.run_ns <= file[0] && task.wait_ns.unwrap() <= file[1] && task.slices.unwrap() <= file[2]);
    assert!(later.system.switches > first.system.switches && later.system.created > first.system.created);
}

#[test]
fn threads_that_come_and_go_are_no_error() {
    let (own, stop) = (std::process::id(), AtomicBool::new(false));
    let mut sampler = sampler();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::scope(|inner| {
                    for _ in 0..4 {
                        inner.spawn(std::thread::yield_now);
                    }
                });
            }
        });
        let mut pair = [Sample::default(), Sample::default()];
        let machine = machine();
        for round in 0..50 {
            let (old, new) = pair.split_at_mut(1);
            std::mem::swap(&mut old[0], &mut new[0]);
            sampler.sample(&mut new[0]).unwrap();
            assert!(of(&new[0], own, own).is_some());
            assert!(new[0].tasks.iter().is_sorted_by(|a, b| (a.id.pid, a.id.tid) < (b.id.pid, b.id.tid)));
            if round > 0 {
                Picture::new(&machine, &old[0], &new[0]).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let tid = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get() as u32).join().unwrap();
    assert!(until(&mut sampler, |sample| of(sample, own, tid).is_none()).tasks.len() > 1);
}

#[test]
fn a_new_thread_of_a_known_process_is_found_in_the_next_sample() {
    let own = std::process::id();
    let mut sampler = sampler();
    let mut sample = Sample::default();
    for _ in 0..3 {
        sampler.sample(&mut sample).unwrap();
    }
    let (send, receive) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        ends.recv().is_err()
    });
    let tid = receive.recv().unwrap();
    sampler.sample(&mut sample).unwrap();
    assert!(of(&sample, own, tid).is_some());
    drop(end);
    thread.join().unwrap();
}

#[test]
fn names_with_control_characters_are_printable() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("a)\u{1b}[2J\n(");
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let sleeper = Killed::start(program.to_str().unwrap(), &["1000"]);
    let pid = sleeper.0.id();
    let wanted = "a)\u{fffd}[2J\u{fffd}(";
    let name = |sample: &Sample| of(sample, pid, pid).map(|task| task.name.printable());
    until(&mut sampler(), |sample| name(sample).as_deref() == Some(wanted));
}

/// An invented process with one thread for each line of `threads`: id, start, CPU, `schedstat`.
fn write_tree(root: &Path, pid: u32, threads: &[(u32, u64, u32, &str)]) {
    let _ = fs::remove_dir_all(root.join("proc"));
    for (tid, start, cpu, schedstat) in threads {
        let folder = root.join(format!("proc/{pid}/task/{tid}"));
        fs::create_dir_all(&folder).unwrap();
        let middle = "0 ".repeat(17);
        let zeros = "0 ".repeat(14);
        let stat = format!("{tid} (x) S 1 {middle}{start} 0 8 {zeros}{cpu} 0 0\n");
        fs::write(folder.join("stat"), stat).unwrap();
        if !schedstat.is_empty() {
            fs::write(folder.join("schedstat"), schedstat).unwrap();
        }
        fs::write(folder.join("status"), "Cpus_allowed_list:\t0-3\nvoluntary_ctxt_switches:\t6\n").unwrap();
    }
    fs::write(root.join("proc/stat"), "cpu0 10 0 0 90\nctxt 5\nprocs_running 3\n").unwrap();
}

#[test]
fn an_invented_tree_is_read_exactly() {
    let folder = tempfile::tempdir().unwrap();
    write_tree(folder.path(), 70, &[(70, 5, 1, "100 20 3"), (71, 6, 2, "7 8 9")]);
    // The tree is replaced between samples, so that its directory is opened for each.
    let take = || {
        let mut sample = Sample::default();
        Sampler::new(folder.path(), SamplerOptions::default()).unwrap().sample(&mut sample).unwrap();
        sample
    };
    let first = take();
    let task = of(&first, 70, 71).unwrap();
    assert_eq!(
        (task.id.start, task.cpu, task.run_ns, task.wait_ns, task.slices),
        (6, 2, 7, Some(8), Some(9))
    );
    assert_eq!((task.voluntary, task.involuntary, task.state), (Some(6), None, 'S'));
    assert_eq!((first.system.runnable, first.cpus.len(), first.processes[0].threads), (Some(3), 1, 2));
    assert_eq!((first.processes[0].start, first.processes[0].cpu_ns), (5, None));
    // The first thread ends, the id of the second is used again, and the kernel has no schedstat.
    write_tree(folder.path(), 70, &[(71, 66, 2, "")]);
    let second = take();
    assert_eq!(second.tasks.len(), 1);
    assert_eq!((second.tasks[0].id.start, second.tasks[0].wait_ns), (66, None));
    let picture = Picture::new(&Machine::default(), &first, &second).unwrap();
    assert!(picture.tasks[0].is_new && picture.tasks[0].wait.is_none());
    assert!(Sampler::new(&folder.path().join("none"), SamplerOptions::default()).is_err());
}
