use super::*;
use crate::{ProcessUse, findings::tests::task};
use manycore_control::journal::{Change, Journal};
use manycore_linux::{affinity, tasks};
use std::process::Command;

fn cpus(list: &str) -> Arc<CpuSet> {
    Arc::new(list.parse().unwrap())
}

/// Two threads of process 7, the first given CPU 0 and the second CPU 1.
fn plans(now: [&str; 2]) -> Plans {
    let thread =
        |given: &str, now: &str| ThreadPlan { given: cpus(given), now: cpus(now), is_kept: given == now };
    let threads = BTreeMap::from([(7, thread("0", now[0])), (8, thread("1", now[1]))]);
    Plans(BTreeMap::from([(7, ProcessPlan { start: 1, threads, all: cpus("0-1") })]))
}

fn states(plans: &Plans, tasks: Vec<TaskUse>, start: u64) -> (Vec<PlanState>, Picture) {
    let process =
        ProcessUse { pid: 7, start, run: None, threads: tasks.len() as u32, wait: None, counted: None };
    let mut picture = Picture { tasks, processes: vec![process], ..Picture::default() };
    plans.mark(&mut picture);
    (picture.tasks.iter().map(|task| task.plan.as_ref().unwrap().state()).collect(), picture)
}

#[test]
fn a_thread_with_other_cpus_breaks_the_plan_and_a_new_one_keeps_that_of_its_process() {
    use PlanState::{Broken, Kept, None};
    let tasks = || vec![task(7, 0, 0.1, 0.0, "0"), task(8, 1, 0.1, 0.0, "1"), task(9, 1, 0.1, 0.0, "0-1")];
    assert_eq!(states(&plans(["0", "1"]), tasks(), 1).0, [Kept, Kept, Kept]);
    assert_eq!(states(&plans(["0", "0-1"]), tasks(), 1).0, [Kept, Broken, Kept]);
    // One that has chosen CPUs itself is not placed.
    let own = vec![task(9, 5, 0.1, 0.0, "5")];
    assert_eq!(states(&plans(["0", "1"]), own, 1).0, [None]);
    // A later process with the same id.
    assert_eq!(states(&plans(["0", "0-1"]), tasks(), 2).0, [None, None, None]);
    assert_eq!(states(&Plans::default(), tasks(), 1).0, [None, None, None]);
}

#[test]
fn a_cpu_outside_breaks_the_plan_only_of_a_thread_that_runs() {
    let (running, mut asleep) = (task(7, 3, 0.1, 0.0, "0"), task(7, 3, 0.1, 0.0, "0-3"));
    asleep.state = 'S';
    assert_eq!(states(&plans(["0", "1"]), vec![running], 1).0, [PlanState::Broken]);
    let (found, picture) = states(&plans(["0", "1"]), vec![asleep], 1);
    assert_eq!(found, [PlanState::Kept]);
    // What the sampler reads late.
    assert_eq!(picture.tasks[0].allowed, Some(cpus("0")));
}

#[test]
fn a_process_has_the_worst_state_of_its_threads() {
    let tasks = vec![task(7, 0, 0.1, 0.0, "0"), task(8, 1, 0.1, 0.0, "1"), task(9, 5, 0.1, 0.0, "5")];
    let of = |now| PlanState::of(&states(&plans(now), tasks.clone(), 1).1.tasks);
    assert_eq!(of(["0", "1"]), Some(PlanState::Kept));
    assert_eq!(of(["0", "0-1"]), Some(PlanState::Broken));
    assert_eq!(PlanState::of(&tasks), None);
}

#[test]
fn journals_are_read_with_the_cpus_of_a_real_process() {
    let own = affinity::allowed().unwrap();
    let (Some(first), Some(other)) = (own.first(), own.iter().nth(1)) else {
        return println!("SKIPPED: it needs two CPUs");
    };
    let (first, other) = (CpuSet::single(first), CpuSet::single(other));
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id();
    let start = tasks::start_time(pid).unwrap();
    let journal = Journal::begin(folder.path(), "test", "a pin", true).unwrap();
    journal.record(&Change::Process { pid, start, cpus: own.clone() }).unwrap();
    journal.record(&Change::Affinity { pid, tid: pid, old: own, new: first.clone() }).unwrap();
    let kept = || PlanReader::new(folder.path().to_owned()).plans().0[&pid].threads[&pid].is_kept;
    affinity::restrict(pid, &first).unwrap();
    assert!(kept());
    affinity::restrict(pid, &other).unwrap();
    assert!(!kept());
    child.kill().unwrap();
    child.wait().unwrap();
    let read = PlanReader::new(folder.path().to_owned()).plans().clone();
    assert_eq!(read, Plans::default());
}
