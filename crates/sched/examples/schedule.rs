//! Loads the scheduler until the process ends: `schedule POLICY SECONDS`.
use manycore_sched::{
    counters::Counters,
    engine::{Policy, Scheduler},
};
use manycore_topology::SysTree;
use std::{env, path::Path, thread, time::Duration};

fn main() {
    let policy = if env::args().nth(1).as_deref() == Some("pack") { Policy::Pack } else { Policy::Spread };
    let seconds: u64 = env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(5);
    let tree = SysTree::open(Path::new("/")).unwrap();
    let machine = manycore_topology::read(&tree).unwrap();
    let scheduler = match Scheduler::load(&tree, &machine, policy, false) {
        Ok(scheduler) => scheduler,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(3)
        }
    };
    println!("loaded");
    let mut before = scheduler.counters();
    for _ in 0..seconds {
        thread::sleep(Duration::from_secs(1));
        if let Some(removal) = scheduler.removal() {
            println!("{removal:?}");
            return;
        }
        let now = scheduler.counters();
        for (a, b) in now.iter().zip(&before) {
            let c = a.since(b);
            println!(
                "idle {} busy {:.2} direct {} queued {} stolen {} moved {} wake {} p50 {:?} p99 {:?}",
                c.idle_cpus,
                c.busy_ns as f64 / 1e9,
                c.direct,
                c.queued,
                c.stolen,
                c.moved,
                c.wakeups,
                c.wait_quantile_ns(0.5),
                c.wait_quantile_ns(0.99)
            );
        }
        let sum: Counters =
            Counters::total(&now.iter().zip(&before).map(|(a, b)| a.since(b)).collect::<Vec<_>>()).unwrap();
        println!("choice {} ns over {}", sum.choice_ns / sum.choices.max(1), sum.choices);
        before = now;
    }
}
