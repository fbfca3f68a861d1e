//! Which threads are counted: those that use most CPU time. Opening counters costs system calls, and counters make
//! switches of their thread slower, so that the threads are few, and seldom others.

use crate::sample::TaskId;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Most threads that are counted.
pub(super) const MOST: usize = 64;

/// The threads that are counted.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// CPU time of each in the last interval in nanoseconds, or half of this value of the interval before if that is more: a
    /// thread that pauses keeps its place for a while.
    lately_ns: BTreeMap<TaskId, u64>,
    /// Threads that may not be counted.
    refused: BTreeSet<TaskId>,
}

impl Choice {
    /// Whether a thread is chosen.
    pub fn has(&self, id: TaskId) -> bool {
        self.lately_ns.contains_key(&id)
    }

    /// Leaves out a thread. It can be chosen again.
    pub fn remove(&mut self, id: TaskId) {
        self.lately_ns.remove(&id);
    }

    /// Leaves out a thread for good.
    pub fn refuse(&mut self, id: TaskId) {
        self.remove(id);
        self.refused.insert(id);
    }

    /// Chooses by the CPU times of all threads in an interval, ascending by thread, in nanoseconds. Threads that are not
    /// among them have ended. Returns those that were not chosen before, the busiest first.
    ///
    /// A thread needs `least_ns`. It takes a free place, or that of the least busy thread if it used more than twice as much.
    pub fn update(&mut self, times: &[(TaskId, u64)], least_ns: u64) -> Vec<TaskId> {
        let time_of = |id: &TaskId| times.binary_search_by_key(id, |time| time.0).ok().map(|at| times[at].1);
        self.refused.retain(|id| time_of(id).is_some());
        self.lately_ns.retain(|id, lately| {
            time_of(id).is_some_and(|ns| {
                *lately = ns.max(*lately / 2);
                true
            })
        });
        let is_candidate = |time: &&(TaskId, u64)| {
            time.1 >= least_ns && !self.has(time.0) && !self.refused.contains(&time.0)
        };
        let mut candidates: Vec<(TaskId, u64)> = times.iter().filter(is_candidate).copied().collect();
        candidates.sort_by_key(|&(id, ns)| (Reverse(ns), id));
        let mut chosen = Vec::new();
        for (id, ns) in candidates {
            if self.lately_ns.len() >= MOST {
                let least = self.lately_ns.iter().min_by_key(|(_, lately)| **lately);
                let Some((&least, _)) = least.filter(|(_, lately)| ns / 2 > **lately) else { break };
                self.remove(least);
            }
            self.lately_ns.insert(id, ns);
            chosen.push(id);
        }
        chosen
    }

    /// Chooses before there is an interval: threads that are runnable, then those with most CPU time since their start. The
    /// times of an interval replace any of these.
    pub fn first(&mut self, tasks: impl Iterator<Item = (TaskId, bool, u64)>) -> Vec<TaskId> {
        let mut all: Vec<(bool, u64, TaskId)> =
            tasks.map(|(id, is_runnable, run_ns)| (is_runnable, run_ns, id)).collect();
        all.sort_unstable_by_key(|&all| Reverse(all));
        let chosen: Vec<TaskId> = all.into_iter().take(MOST).map(|(.., id)| id).collect();
        self.lately_ns = chosen.iter().map(|&id| (id, 0)).collect();
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 10;

    fn id(tid: u32) -> TaskId {
        TaskId { pid: 1, tid, start: 5 }
    }

    /// Threads from 0 on with these times.
    fn times(ns: &[u64]) -> Vec<(TaskId, u64)> {
        ns.iter().enumerate().map(|(tid, &ns)| (id(tid as u32), ns)).collect()
    }

    fn tids(chosen: &[TaskId]) -> Vec<u32> {
        chosen.iter().map(|id| id.tid).collect()
    }

    #[test]
    fn busy_threads_are_chosen_once_and_until_they_end() {
        let mut choice = Choice::default();
        assert_eq!(tids(&choice.update(&times(&[LEAST, 9, 0, 50]), LEAST)), [3, 0]);
        assert!(choice.update(&times(&[0, 9, 0, 0]), LEAST).is_empty());
        assert!(choice.has(id(0)) && choice.has(id(3)) && !choice.has(id(1)));
        choice.update(&times(&[0, 0, 0]), LEAST);
        assert!(choice.has(id(0)) && !choice.has(id(3)));
    }

    #[test]
    fn a_later_thread_with_the_same_id_is_another_one() {
        let mut choice = Choice::default();
        choice.update(&times(&[50]), LEAST);
        let later = TaskId { start: 6, ..id(0) };
        assert_eq!(choice.update(&[(later, 50)], LEAST), [later]);
        assert!(!choice.has(id(0)));
    }

    #[test]
    fn a_thread_that_is_refused_is_not_tried_again_until_it_has_ended() {
        let mut choice = Choice::default();
        choice.update(&times(&[50, 60]), LEAST);
        choice.refuse(id(1));
        choice.remove(id(0));
        assert_eq!(tids(&choice.update(&times(&[50, 60]), LEAST)), [0]);
        choice.update(&times(&[50]), LEAST);
        assert!(choice.refused.is_empty());
    }

    #[test]
    fn only_a_thread_that_is_much_busier_takes_the_place_of_another_one() {
        let mut choice = Choice::default();
        let mut all = vec![100; MOST + 2];
        assert_eq!(choice.update(&times(&all), LEAST).len(), MOST);
        (all[3], all[MOST]) = (50, 200);
        // Times around those of others do not change the choice, and the half of 100 counts for the third one.
        assert_eq!(tids(&choice.update(&times(&all), LEAST)), [MOST as u32]);
        assert!(!choice.has(id(3)) && choice.lately_ns.len() == MOST);
        // Others that pause in turn keep their places.
        for pausing in [5, 6, 7] {
            let mut all = all.clone();
            all[pausing] = 0;
            assert!(choice.update(&times(&all), LEAST).is_empty(), "{pausing}");
        }
        // One that stays idle does not.
        all[9] = 0;
        let rounds = (0..9).map(|_| choice.update(&times(&all), LEAST)).filter(|all| !all.is_empty());
        let changes: Vec<TaskId> = rounds.flatten().collect();
        assert_eq!(tids(&changes), [MOST as u32 + 1]);
        assert!(!choice.has(id(9)));
    }

    #[test]
    fn the_first_ones_are_runnable_or_were_busy_and_yield_to_all() {
        let mut choice = Choice::default();
        let tasks = (0..100).map(|tid| (id(tid), tid == 2, u64::from(tid)));
        let chosen = tids(&choice.first(tasks));
        assert_eq!((chosen.len(), &chosen[..3]), (MOST, &[2, 99, 98][..]));
        let mut all = vec![0; 100];
        (all[2], all[5]) = (90, LEAST);
        assert_eq!(tids(&choice.update(&times(&all), LEAST)), [5]);
        assert!(choice.has(id(2)));
    }
}
