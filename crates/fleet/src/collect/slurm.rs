//! Nodes by jobs of Slurm.

mod submission;

use super::{
    ATTEMPTS, HostEvent, Observer, Reply, TICK, Work, end_of,
    visit::{Failure, visit_in_job},
};
use manycore_experiment::interrupt;
use manycore_remote::{BatchJobs, BatchPhase, Error, batch_nodes};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

/// Reasons for which a job waits until a limit is raised: it asks for more time than it may have
/// (`src/common/slurm_protocol_defs.c`).
const TOO_LONG: [&str; 3] =
    ["PartitionTimeLimit", "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit"];

/// A node that is to be visited.
#[derive(Clone, Copy)]
struct Turn<'a> {
    node: &'a str,
    attempt: usize,
}

/// A node that has a job.
struct Held<'a> {
    turn: Turn<'a>,
    /// When it was submitted.
    since: Instant,
    /// Why it waits, as told last.
    reason: String,
    /// What makes its run end, while it runs.
    lost: Option<Arc<AtomicBool>>,
}

pub(super) fn collect(
    hosts: &[String],
    partition: Option<&str>,
    wait: Duration,
    work: &Work,
    parallel: usize,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let queue = up(hosts, partition, observer)?;
    // A run may be late before it is killed.
    let jobs = BatchJobs::new(partition, work.limit + wait.min(Duration::from_mins(1)))?;
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        let mut collector = Collector {
            jobs: &jobs,
            work,
            wait,
            parallel,
            queue,
            held: BTreeMap::new(),
            silent: None,
            full: None,
        };
        while !collector.is_done() {
            collector.step(scope, &sender, observer);
            collector.listen(&ended, observer);
        }
    });
    Ok(())
}

/// Reports the nodes that take no jobs, and returns the others, those that are free first.
fn up<'a>(
    hosts: &'a [String],
    partition: Option<&str>,
    observer: &mut dyn Observer,
) -> Result<VecDeque<Turn<'a>>, Error> {
    let known: BTreeMap<String, _> =
        batch_nodes(partition, None)?.into_iter().map(|node| (node.name.clone(), node)).collect();
    let (mut free, mut busy) = (VecDeque::new(), VecDeque::new());
    for host in hosts {
        match known.get(host) {
            None => observer.event(host, HostEvent::Down("Slurm has no such node there".to_owned())),
            Some(node) if !node.takes_jobs() => {
                let why = match &node.reason {
                    Some(reason) if node.state == "down" => reason.clone(),
                    Some(reason) => format!("{}: {reason}", node.state),
                    None => format!("Slurm has it as {}", node.state),
                };
                observer.event(host, HostEvent::Down(why));
            }
            Some(node) => {
                let turn = Turn { node: host, attempt: 1 };
                if node.state == "idle" { free.push_back(turn) } else { busy.push_back(turn) }
            }
        }
    }
    free.append(&mut busy);
    Ok(free)
}

/// The number of a job, and how its run ended.
type Ended = (u64, Result<Reply, Failure>);

struct Collector<'a> {
    jobs: &'a BatchJobs,
    work: &'a Work,
    wait: Duration,
    parallel: usize,
    queue: VecDeque<Turn<'a>>,
    held: BTreeMap<u64, Held<'a>>,
    /// Since when Slurm has not answered.
    silent: Option<Instant>,
    /// Since when Slurm takes no further job.
    full: Option<Instant>,
}

impl<'a> Collector<'a> {
    fn is_done(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }

    /// Submits jobs, and begins the runs of those that have their node.
    fn step<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        sender: &Sender<Ended>,
        observer: &mut dyn Observer,
    ) where
        'a: 'scope,
    {
        if interrupt::requested() {
            self.give_up(observer);
            return;
        }
        let Some(phases) = self.submit(observer) else { return };
        self.cancel_strays(&phases);
        let numbers: Vec<u64> = self.held.keys().copied().collect();
        for number in numbers {
            match phases.get(&number) {
                Some(BatchPhase::Running) => self.begin(number, scope, sender, observer),
                Some(BatchPhase::Waiting(reason)) => self.waits(number, reason, observer),
                Some(BatchPhase::Ending) => self.is_ending(number),
                None => self.is_gone(number, observer),
            }
        }
    }

    fn begin<'scope>(
        &mut self,
        number: u64,
        scope: &'scope Scope<'scope, '_>,
        sender: &Sender<Ended>,
        observer: &mut dyn Observer,
    ) where
        'a: 'scope,
    {
        let Some(held) = self.held.get_mut(&number).filter(|held| held.lost.is_none()) else { return };
        let lost = Arc::new(AtomicBool::new(false));
        held.lost = Some(Arc::clone(&lost));
        observer.event(held.turn.node, HostEvent::Begins);
        let (jobs, work, node, sender) = (self.jobs, self.work, held.turn.node, sender.clone());
        scope.spawn(move || {
            let _told = sender.send((number, visit_in_job(jobs, work, number, node, &lost)));
        });
    }

    fn waits(&mut self, number: u64, reason: &str, observer: &mut dyn Observer) {
        let Some(held) = self.held.get_mut(&number) else { return };
        if let Some(lost) = &held.lost {
            // Suspended, or requeued by an operator: the run that was there ends, and another job takes its place.
            lost.store(true, Relaxed);
            return;
        }
        if TOO_LONG.contains(&reason) {
            let why = format!("Slurm allows only shorter jobs there ({reason}): give a shorter --time");
            observer.event(held.turn.node, HostEvent::Failed(why));
            self.drop_job(number);
        } else if held.since.elapsed() > self.wait {
            let why = format!(
                "Slurm has not granted it within {} s ({reason}): --wait allows more",
                self.wait.as_secs()
            );
            observer.event(held.turn.node, HostEvent::Late(why));
            self.drop_job(number);
        } else if held.reason != reason && held.since.elapsed() > TICK * 2 {
            reason.clone_into(&mut held.reason);
            observer.event(held.turn.node, HostEvent::Waits(reason.to_owned()));
        }
    }

    fn is_ending(&mut self, number: u64) {
        if let Some(lost) = self.held.get(&number).and_then(|held| held.lost.as_ref()) {
            lost.store(true, Relaxed);
        }
    }

    /// A job that ended before its run did: cancelled, out of time, or its node failed.
    fn is_gone(&mut self, number: u64, observer: &mut dyn Observer) {
        let Some(held) = self.held.get(&number) else { return };
        match &held.lost {
            Some(lost) => lost.store(true, Relaxed),
            // squeue may not know a job yet that was just submitted.
            None if held.since.elapsed() < TICK * 5 => {}
            None => {
                let why = "its job ended before it began: it was cancelled, or the node failed".to_owned();
                let node = held.turn.node;
                if !self.try_again(number, &why, observer) {
                    observer.event(node, HostEvent::Failed(why));
                }
                self.held.remove(&number);
            }
        }
    }

    /// Puts a node that was lost back into the queue, unless it was tried often enough. Returns whether it is there.
    fn try_again(&mut self, number: u64, why: &str, observer: &mut dyn Observer) -> bool {
        let Some(held) = self.held.get_mut(&number) else { return false };
        if held.turn.attempt >= ATTEMPTS || interrupt::requested() {
            return false;
        }
        observer.event(held.turn.node, HostEvent::Again(why.to_owned()));
        held.turn.attempt += 1;
        self.queue.push_back(held.turn);
        true
    }

    /// Takes what runs sent, for about a second.
    fn listen(&mut self, ended: &Receiver<Ended>, observer: &mut dyn Observer) {
        let end = Instant::now() + TICK;
        while let Ok((number, result)) = ended.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.has_ended(number, result, observer);
            if self.is_done() {
                return;
            }
        }
        observer.tick();
    }

    fn has_ended(&mut self, number: u64, result: Result<Reply, Failure>, observer: &mut dyn Observer) {
        let Some(node) = self.held.get(&number).map(|held| held.turn.node) else { return };
        match result {
            Ok(reply) => observer.reply(node, reply),
            Err(Failure::Lost(why) | Failure::Unreachable(why)) => {
                if !self.try_again(number, &why, observer) {
                    observer.event(node, HostEvent::Unreachable(why));
                }
            }
            Err(failure) => observer.event(node, end_of(failure, self.work)),
        }
        self.drop_job(number);
    }

    fn drop_job(&mut self, number: u64) {
        self.held.remove(&number);
        self.jobs.cancel(number);
    }

    /// After a signal: what waits ends here, what runs ends by itself.
    fn give_up(&mut self, observer: &mut dyn Observer) {
        for turn in self.queue.drain(..) {
            observer.event(turn.node, HostEvent::Interrupted);
        }
        self.end_waiting(&HostEvent::Interrupted, observer);
    }

    fn lose_waiting(&mut self, why: &str, observer: &mut dyn Observer) {
        for turn in self.queue.drain(..) {
            observer.event(turn.node, HostEvent::Failed(why.to_owned()));
        }
        self.end_waiting(&HostEvent::Failed(why.to_owned()), observer);
    }

    fn end_waiting(&mut self, event: &HostEvent, observer: &mut dyn Observer) {
        let waiting: Vec<u64> =
            self.held.iter().filter(|(_, held)| held.lost.is_none()).map(|(number, _)| *number).collect();
        for number in waiting {
            if let Some(held) = self.held.remove(&number) {
                observer.event(held.turn.node, event.clone());
            }
            self.jobs.cancel(number);
        }
    }
}
