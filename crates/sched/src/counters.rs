//! What the scheduler counts.

/// Parts of the distribution of waiting times: four for each power of two, from 1024 ns on.
pub const WAITS: usize = 64;

/// What was counted in one cluster: since the scheduler was loaded, or between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// CPUs that are idle at the moment.
    pub idle_cpus: u64,
    /// CPU time of tasks that have stopped running, in nanoseconds.
    pub busy_ns: u64,
    /// Tasks that got an idle CPU when they woke.
    pub direct: u64,
    /// Tasks taken from the queue of the cluster.
    pub queued: u64,
    /// Tasks taken from the queue of another cluster.
    pub stolen: u64,
    /// Running tasks that were moved into the cluster.
    pub moved: u64,
    /// Tasks that ran after they woke.
    pub wakeups: u64,
    /// Their total time from waking to running, in nanoseconds.
    pub wait_ns: u64,
    /// The distribution of that time.
    pub waits: [u64; WAITS],
    /// Choices of an idle CPU.
    pub choices: u64,
    /// Their total time in nanoseconds.
    pub choice_ns: u64,
}

impl Counters {
    /// Returns what was counted since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut waits = self.waits;
        for (count, before) in waits.iter_mut().zip(&earlier.waits) {
            *count = count.saturating_sub(*before);
        }
        Self {
            idle_cpus: self.idle_cpus,
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            direct: self.direct.saturating_sub(earlier.direct),
            queued: self.queued.saturating_sub(earlier.queued),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            moved: self.moved.saturating_sub(earlier.moved),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            waits,
            choices: self.choices.saturating_sub(earlier.choices),
            choice_ns: self.choice_ns.saturating_sub(earlier.choice_ns),
        }
    }

    /// Returns the sum over clusters.
    pub fn total<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        all.into_iter().fold(None, |sum: Option<Self>, one| {
            let Some(mut sum) = sum else { return Some(one.clone()) };
            for (count, other) in sum.waits.iter_mut().zip(&one.waits) {
                *count += other;
            }
            sum.idle_cpus += one.idle_cpus;
            sum.busy_ns += one.busy_ns;
            sum.direct += one.direct;
            sum.queued += one.queued;
            sum.stolen += one.stolen;
            sum.moved += one.moved;
            sum.wakeups += one.wakeups;
            sum.wait_ns += one.wait_ns;
            sum.choices += one.choices;
            sum.choice_ns += one.choice_ns;
            Some(sum)
        })
    }

    /// Returns the time from waking to running that a share of all wake-ups did not exceed, in nanoseconds: the upper
    /// end of a part of the distribution, at most a quarter above the true one. `None` if there were none.
    pub fn wait_quantile_ns(&self, share: f64) -> Option<u64> {
        let total: u64 = self.waits.iter().sum();
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        let reached = self.waits.iter().position(|count| {
            sum += count;
            total > 0 && sum >= wanted
        })?;
        let (power, part) = (reached as u32 / 4, reached as u64 % 4);
        Some((1024 << power) * (5 + part) / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(waits: &[(usize, u64)]) -> Counters {
        let mut all = [0; WAITS];
        for &(place, count) in waits {
            all[place] = count;
        }
        Counters {
            idle_cpus: 0,
            busy_ns: 0,
            direct: 0,
            queued: 0,
            stolen: 0,
            moved: 0,
            wakeups: 0,
            wait_ns: 0,
            waits: all,
            choices: 0,
            choice_ns: 0,
        }
    }

    #[test]
    fn quantiles_are_ends_of_parts() {
        let counters = counted(&[(0, 98), (8, 1), (63, 1)]);
        assert_eq!(counters.wait_quantile_ns(0.5), Some(1280));
        assert_eq!(counters.wait_quantile_ns(0.99), Some(4096 * 5 / 4));
        assert_eq!(counters.wait_quantile_ns(1.0), Some((1024 << 15) * 2));
        assert_eq!(counted(&[]).wait_quantile_ns(0.5), None);
    }

    #[test]
    fn readings_are_subtracted_and_summed() {
        let (earlier, later) = (counted(&[(1, 2)]), counted(&[(1, 5), (2, 1)]));
        assert_eq!(later.since(&earlier).waits[..3], [0, 3, 1]);
        assert_eq!(Counters::total([&earlier, &later]).map(|sum| sum.waits[1]), Some(7));
        assert_eq!(Counters::total([]), None);
    }
}
