//! Submits jobs, also where a controller takes no more of them.

use super::{Collector, Held, Turn};
use crate::collect::{HostEvent, Observer, TICK};
use manycore_experiment::interrupt;
use manycore_remote::BatchPhase;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Time after which a job that waits does not count among those that run at the same time: its node is busy.
const FRESH: Duration = Duration::from_secs(30);
/// Maximum number of jobs that wait, so that a controller is not flooded.
const MOST_WAITING: usize = 1000;
/// Parts of the reasons for which no job is taken for now (`slurm_errtab` in `src/common/slurm_errno.c`): the user, the account or
/// the controller has too many, or the controller did not answer.
const LATER: [&str; 5] = [
    "job submit limit",
    "SubmitJob",
    "temporarily unable to accept job",
    "Unable to contact slurm controller",
    "Socket timed out",
];
/// How long Slurm may fail to answer before the jobs that wait are given up: its controller may be restarted meanwhile.
const SILENT: Duration = Duration::from_mins(5);

impl<'a> Collector<'a> {
    /// Submits jobs, and returns where all jobs are; `None` if Slurm does not answer, or an interrupt was requested.
    pub fn submit(&mut self, observer: &mut dyn Observer) -> Option<BTreeMap<u64, BatchPhase>> {
        loop {
            let refused = self.submit_some();
            match (self.jobs.phases(), refused) {
                (Ok(phases), None) => {
                    self.silent = None;
                    return Some(phases);
                }
                (Ok(_), Some((turn, _))) if interrupt::requested() => {
                    self.queue.push_front(turn);
                    return None;
                }
                // It takes the next job when another one has ended.
                (Ok(phases), Some((turn, why)))
                    if is_later(&why) && self.may_wait(turn.node, &why, observer) =>
                {
                    self.silent = None;
                    self.queue.push_front(turn);
                    return Some(phases);
                }
                // It refuses this node.
                (Ok(_), Some((turn, why))) => observer.event(turn.node, HostEvent::Failed(why)),
                (Err(error), refused) => {
                    self.queue.extend(refused.map(|(turn, _)| turn));
                    self.wait_for_controller(&error.to_string(), observer);
                    return None;
                }
            }
            if interrupt::requested() {
                return None;
            }
        }
    }

    /// Notes that Slurm has not answered, and gives up what waits if it has not for long.
    fn wait_for_controller(&mut self, why: &str, observer: &mut dyn Observer) {
        if self.silent.is_none() {
            let queued = self.queue.iter().map(|turn| turn.node);
            let held = self.held.values().filter(|held| held.lost.is_none()).map(|held| held.turn.node);
            queued.chain(held).for_each(|node| observer.event(node, HostEvent::Waits(why.to_owned())));
            self.held.values_mut().for_each(|held| held.reason.clear());
        }
        if self.silent.get_or_insert_with(Instant::now).elapsed() >= SILENT {
            self.lose_waiting(why, observer);
        }
    }

    /// Returns whether a node may wait until Slurm takes further jobs: until those of this run have ended, and for others as
    /// long as for a node.
    fn may_wait(&mut self, node: &str, why: &str, observer: &mut dyn Observer) -> bool {
        if self.full.is_none() {
            observer.event(node, HostEvent::Waits(why.to_owned()));
        }
        let since = *self.full.get_or_insert_with(Instant::now);
        !self.held.is_empty() || since.elapsed() < self.wait
    }

    /// Submits jobs until there are enough, or one is refused: it is returned with the reason. Ends after a second, because
    /// runs wait meanwhile.
    fn submit_some(&mut self) -> Option<(Turn<'a>, String)> {
        let began = Instant::now();
        let counts = |held: &&Held| held.lost.is_some() || held.since.elapsed() < FRESH;
        while self.held.values().filter(counts).count() < self.parallel && self.held.len() < MOST_WAITING {
            let turn = self.queue.pop_front()?;
            match self.jobs.submit(turn.node, &interrupt::requested) {
                Ok(number) => {
                    self.full = None;
                    let held = Held { turn, since: Instant::now(), reason: String::new(), lost: None };
                    self.held.insert(number, held);
                }
                Err(error) => return Some((turn, error.to_string())),
            }
            if interrupt::requested() || began.elapsed() > TICK {
                break;
            }
        }
        None
    }

    /// Cancels jobs of this run that it does not know: Slurm has accepted them after it was given up. They would hold a node
    /// for nothing.
    pub fn cancel_strays(&self, phases: &BTreeMap<u64, BatchPhase>) {
        for (number, phase) in phases {
            if *phase != BatchPhase::Ending && !self.held.contains_key(number) {
                self.jobs.cancel(*number);
            }
        }
    }
}

/// Whether Slurm may take a job later that it refuses now.
fn is_later(why: &str) -> bool {
    LATER.iter().any(|part| why.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_or_a_silent_controller_is_no_failure_of_a_node() {
        let refused = "sbatch: error: Batch job submission failed: ";
        let of = |why: &str| is_later(&format!("{refused}{why}"));
        assert!(of("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"));
        assert!(is_later("sbatch: error: QOSMaxSubmitJobPerUserLimit"));
        assert!(of("Unable to contact slurm controller (connect failure)"));
        assert!(
            !of("Invalid node name specified") && !of("Requested partition configuration not available now")
        );
    }
}
