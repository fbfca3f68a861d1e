//! The sampler beside complete readings of the files of a process that does what it is commanded.

use super::*;
use crate::sample::TaskSample;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{JoinHandle, spawn},
    time::{Duration, Instant},
};

/// Set in the process that [`commanded`] is run in.
const COMMANDED: &str = "MANYCORE_TOP_COMMANDED";

/// A thread that runs for a moment whenever it is commanded to.
struct Worker(Sender<()>, JoinHandle<()>);

impl Worker {
    fn start(done: &Sender<()>) -> Self {
        let (send, receive) = channel();
        let done = done.clone();
        let work = move || {
            while receive.recv().is_ok() {
                let end = Instant::now() + Duration::from_micros(200);
                while Instant::now() < end {}
                done.send(()).unwrap();
            }
        };
        Self(send, spawn(work))
    }
}

/// Is the commanded process; nothing in that of the tests.
#[test]
fn commanded() {
    let Ok(count) = std::env::var(COMMANDED) else { return };
    let (done, dones) = channel();
    let mut workers: Vec<Worker> = (0..count.parse().unwrap()).map(|_| Worker::start(&done)).collect();
    let spin = Arc::new(AtomicBool::new(true));
    let mut answer = io::stdout();
    writeln!(answer, "\nready").unwrap();
    for line in io::stdin().lines() {
        let line = line.unwrap();
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match command {
            "run" => {
                let indices = rest.split(' ').map(|index| index.parse::<usize>().unwrap() % workers.len());
                let count = indices.map(|index| workers[index].0.send(()).unwrap()).count();
                dones.iter().take(count).for_each(drop);
            }
            "new" => workers.push(Worker::start(&done)),
            "end" => {
                let Worker(send, handle) =
                    workers.swap_remove(rest.parse::<usize>().unwrap() % workers.len());
                drop(send);
                handle.join().unwrap();
            }
            "spin" => {
                let spin = Arc::clone(&spin);
                spawn(move || while spin.load(Ordering::Relaxed) {});
            }
            _ => spin.store(false, Ordering::Relaxed),
        }
        writeln!(answer, "done").unwrap();
    }
    std::process::exit(0);
}

struct Commanded(Child, BufReader<ChildStdout>);

impl Commanded {
    fn start(threads: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "sampler::tests::commanded", "--nocapture"])
            .env(COMMANDED, threads.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut one = Self(child, answers);
        one.wait_for("ready");
        one
    }

    fn wait_for(&mut self, answer: &str) {
        let mut line = String::new();
        while line.trim_end() != answer {
            line.clear();
            assert!(self.1.read_line(&mut line).unwrap() > 0, "it has ended");
        }
    }

    fn command(&mut self, line: &str) {
        writeln!(self.0.stdin.as_ref().unwrap(), "{line}").unwrap();
        self.wait_for("done");
    }

    /// Waits until none of its threads runs or waits for a CPU.
    fn wait_until_it_sleeps(&self) {
        let folder = format!("/proc/{}/task", self.0.id());
        let runs = |entry: fs::DirEntry| {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('R'))
        };
        let deadline = Instant::now() + Duration::from_mins(1);
        while fs::read_dir(&folder).unwrap().flatten().any(runs) {
            assert!(Instant::now() < deadline, "its threads do not sleep");
            std::thread::yield_now();
        }
    }

    /// Returns `schedstat` of each thread, ascending by id.
    fn files(&self) -> Vec<(u32, [u64; 3])> {
        let folder = format!("/proc/{}/task", self.0.id());
        let read = |entry: fs::DirEntry| {
            let text = fs::read(entry.path().join("schedstat")).ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, parse::schedstat(&text)?))
        };
        let mut all: Vec<_> = fs::read_dir(folder).unwrap().flatten().filter_map(read).collect();
        all.sort_unstable();
        all
    }
}

impl Drop for Commanded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn times(task: &TaskSample) -> (u32, [u64; 3]) {
    (task.id.tid, [task.run_ns, task.wait_ns.unwrap(), task.slices.unwrap()])
}

/// What a sample was compared with.
#[derive(Default)]
struct Compared {
    exact: usize,
    /// Samples in which it was proved that others had not run.
    proved: usize,
}

/// Takes a sample, and compares it with all files before and after it.
fn compare(process: &Commanded, sampler: &mut Sampler, compared: &mut Compared) {
    let pid = process.0.id();
    let (before, clock_before) = (process.files(), clock::process_cpu_ns(pid));
    let mut sample = Sample::default();
    sampler.sample(&mut sample).unwrap();
    let (clock_after, after) = (clock::process_cpu_ns(pid), process.files());
    let tasks: Vec<_> = sample.tasks.iter().filter(|task| task.id.pid == pid).map(times).collect();
    for (tid, [run, ..]) in &tasks {
        let of = |files: &[(u32, [u64; 3])]| files.iter().find(|file| file.0 == *tid).map(|file| file.1[0]);
        let (least, most) = (of(&before), of(&after));
        assert!(least.is_none_or(|least| least <= *run) && most.is_none_or(|most| *run <= most), "{tid}");
    }
    // Nothing ran between.
    if before == after && clock_before == clock_after {
        assert_eq!(tasks, before);
        compared.exact += 1;
    }
    compared.proved += usize::from(sampler.processes[&pid].unread() > 0);
}

/// A sequence of numbers that looks random, and is the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn times_are_those_of_all_files_while_threads_run_begin_and_end() {
    let mut process = Commanded::start(150);
    let options = SamplerOptions { most_open: 64, ..SamplerOptions::default() };
    let mut sampler = Sampler::new(Path::new("/"), options).unwrap();
    let (mut numbers, mut compared) = (Numbers(7), Compared::default());
    for _ in 0..120 {
        match numbers.below(12) {
            0 => process.command("new"),
            1 => process.command(&format!("end {}", numbers.below(1000))),
            2..8 => {
                let all: Vec<String> = (0..=numbers.below(3)).map(|_| numbers.below(9).to_string()).collect();
                process.command(&format!("run {}", all.join(" ")));
            }
            8 => process.command(&format!("run {}", numbers.below(1000))),
            _ => {}
        }
        process.wait_until_it_sleeps();
        compare(&process, &mut sampler, &mut compared);
    }
    assert!(compared.exact > 20 && compared.proved > 20, "{} {}", compared.exact, compared.proved);
    let open: usize = fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < 64 + 40, "{open} open files");
}

#[test]
fn times_are_between_those_of_all_files_beside_threads_that_run_all_the_time() {
    let mut process = Commanded::start(60);
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    let (mut numbers, mut compared) = (Numbers(3), Compared::default());
    process.command("spin");
    for _ in 0..60 {
        process.command(&format!("run {} {}", numbers.below(60), numbers.below(4)));
        compare(&process, &mut sampler, &mut compared);
    }
    process.command("stop");
}

/// With one sample after the other, all threads are read completely, a bounded number in each.
#[test]
fn each_thread_has_its_turn() {
    for threads in [100, 3000, 20_000, 60_000] {
        let mut context = context();
        context.begin(0, threads);
        let samples = (context.refresh * context.stretch) as usize;
        let mut due = vec![0; threads];
        for _ in 0..samples {
            let before: u32 = due.iter().sum();
            for (tid, due) in due.iter_mut().enumerate() {
                *due += u32::from(context.is_due(tid as u32));
            }
            assert!(due.iter().sum::<u32>() - before <= 201, "{threads}");
            context.begin(0, threads);
        }
        assert!(due.iter().all(|&due| due == 1), "{threads}");
    }
}

fn context() -> Context {
    Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap().context
}

/// The list of processes is not read in each sample. Those that begin or end are seen all the same.
#[test]
fn processes_begin_and_end_in_the_next_sample() {
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    let mut sample = Sample::default();
    let mut has = |sampler: &mut Sampler, pid: u32| {
        sampler.sample(&mut sample).unwrap();
        sample.processes.iter().any(|process| process.pid == pid)
    };
    for _ in 0..3 {
        has(&mut sampler, 0);
        let process = Commanded::start(1);
        let pid = process.0.id();
        assert!(has(&mut sampler, pid) && has(&mut sampler, pid));
        drop(process);
        assert!(!has(&mut sampler, pid) && !has(&mut sampler, pid));
    }
}

/// Files stayed open of each thread that was there at the first sample, although most threads sleep.
#[test]
fn files_of_new_threads_do_not_stay_open() {
    let process = Commanded::start(40);
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    sampler.sample(&mut Sample::default()).unwrap();
    let open = sampler.processes[&process.0.id()].open_files();
    assert!(open <= 1, "more than the directory: {open}");
}

/// The directory of an active process stays open. It was listed from where the last list had ended.
#[test]
fn each_new_thread_of_an_active_process_is_found() {
    let mut process = Commanded::start(80);
    let pid = process.0.id();
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    let mut sample = Sample::default();
    for new in 0..6 {
        sampler.sample(&mut sample).unwrap();
        let known = sample.tasks.iter().filter(|task| task.id.pid == pid).count();
        assert_eq!(known, process.files().len(), "{new} new threads");
        process.command("new");
        process.command("run 1 2 3");
    }
}
