//! Tasks that spin: how much CPU time each gets, and how long each waits for a CPU.
//!
//! A task reads the clock continuously; the largest difference of two readings is its longest gap. The kernel's file
//! `/proc/thread-self/schedstat` (`Documentation/scheduler/sched-stats.rst`) has the time on a CPU, the time waiting
//! for one, and how often the task got one: the mean wait is the quotient of the last two, over all tasks. On an
//! emulated CPU a gap also contains time in which the host did not run that CPU.

use crate::quantile;
use std::{
    fs,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// What the kernel counted for a thread: nanoseconds on a CPU, nanoseconds waiting for one, and times that it got one.
#[derive(Clone, Copy, Default)]
struct Counted {
    ran: u64,
    waited: u64,
    turns: u64,
}

impl Counted {
    fn read() -> Result<Counted, String> {
        let file = "/proc/thread-self/schedstat";
        let text = fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
        let numbers: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        match numbers[..] {
            [ran, waited, turns] => Ok(Counted { ran, waited, turns }),
            _ => Err(format!("{file} contains '{}' in place of three numbers", text.trim())),
        }
    }
}

struct Task {
    counted: Counted,
    longest: Duration,
}

/// Time from the last thread's creation to the common start, for each task: wake-ups of all tasks fit into it, so that
/// none is woken by a thread that already competes for a CPU.
const LEAD: Duration = Duration::from_millis(1);

/// Spins with `tasks` threads for `time` after all of them exist, and returns a line of JSON.
pub fn run(tasks: usize, time: Duration) -> Result<String, String> {
    let begin = OnceLock::new();
    let results: Vec<Result<Task, String>> = thread::scope(|scope| {
        let spawned: Result<Vec<_>, String> = (0..tasks)
            .map(|_| {
                thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn_scoped(scope, || spin(wait_for(&begin), time))
                    .map_err(|error| format!("cannot create {tasks} threads: {error}; use fewer tasks"))
            })
            .collect();
        let threads = match spawned {
            Ok(threads) => threads,
            // The threads that exist wait for the start, which only the end of the process replaces.
            Err(message) => {
                eprintln!("sched_load: {message}");
                std::process::exit(2);
            }
        };
        begin.get_or_init(|| Instant::now() + LEAD * tasks as u32 + Duration::from_millis(100));
        for thread in &threads {
            thread.thread().unpark();
        }
        threads.into_iter().map(|thread| thread.join().unwrap_or(Err("a task panicked".to_owned()))).collect()
    });
    Ok(report(&results.into_iter().collect::<Result<Vec<_>, _>>()?, time))
}

/// Waits until the common start is known, and returns it.
fn wait_for(begin: &OnceLock<Instant>) -> Instant {
    loop {
        match begin.get() {
            Some(begin) => return *begin,
            None => thread::park(),
        }
    }
}

/// One task: sleeps until `begin`, then reads the clock until `time` has passed since then.
fn spin(begin: Instant, time: Duration) -> Result<Task, String> {
    let before = Counted::read()?;
    thread::sleep(begin.saturating_duration_since(Instant::now()));
    let (mut last, mut longest) = (begin, Duration::ZERO);
    while last.duration_since(begin) < time {
        let now = Instant::now();
        longest = longest.max(now.duration_since(last));
        last = now;
    }
    let after = Counted::read()?;
    let counted = Counted {
        ran: after.ran - before.ran,
        waited: after.waited - before.waited,
        turns: after.turns - before.turns,
    };
    Ok(Task { counted, longest })
}

fn report(tasks: &[Task], time: Duration) -> String {
    let sorted = |of: &dyn Fn(&Task) -> f64| {
        let mut values: Vec<f64> = tasks.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let cpu = sorted(&|task| task.counted.ran as f64 / 1e9);
    let longest = sorted(&|task| task.longest.as_secs_f64() * 1e3);
    let waited: u64 = tasks.iter().map(|task| task.counted.waited).sum();
    let turns: u64 = tasks.iter().map(|task| task.counted.turns).sum();
    // A task that never waited was on a CPU all the time.
    let mean_wait = if turns == 0 { 0.0 } else { waited as f64 / turns as f64 / 1e6 };
    format!(
        r#"{{"load":"spin","tasks":{},"seconds":{:.3},"cpu_s":{{"sum":{:.3},"min":{:.4},"median":{:.4},"max":{:.4}}},"wait_ms":{{"mean":{mean_wait:.3}}},"longest_gap_ms":{{"median":{:.3},"max":{:.3}}}}}"#,
        tasks.len(),
        time.as_secs_f64(),
        cpu.iter().sum::<f64>(),
        quantile(&cpu, 0.0),
        quantile(&cpu, 0.5),
        quantile(&cpu, 1.0),
        quantile(&longest, 0.5),
        quantile(&longest, 1.0),
    )
}
