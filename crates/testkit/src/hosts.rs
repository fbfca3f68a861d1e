//! Invented hosts of many instances of one service, of which the density is known.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Requests before those of a slice, which fill the queue.
const WARM_UP: usize = 500;

/// A host. Each instance serves one request at a time, in their order, with exponential times between arrivals and of
/// service. The mean time of service alone is 1.
#[derive(Clone, Debug)]
pub struct InstanceHost {
    /// CPUs. Instances beyond one per CPU share them.
    pub cpus: usize,
    /// Arrivals of one instance, as a share of what it can serve alone.
    pub load: f64,
    /// Share of the time of service that waits for memory.
    pub memory: f64,
    /// Number of instances that would use the whole memory bandwidth.
    pub bandwidth: f64,
    /// Requests in a slice.
    pub requests: usize,
    /// Standard deviation of the logarithm of the machine's speed from one slice to the next, which adds up.
    pub drift: f64,
    speed: f64,
    random: Xoshiro256PlusPlus,
}

impl InstanceHost {
    /// Returns a host with slices of 20,000 requests, and 1 % drift from slice to slice.
    pub fn new(cpus: usize, load: f64, memory: f64, bandwidth: f64, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { cpus, load, memory, bandwidth, requests: 20_000, drift: 0.01, speed: 1.0, random }
    }

    /// Returns the mean time of service with this number of instances.
    pub fn service(&self, count: usize) -> f64 {
        let used = (count as f64 * self.load / self.bandwidth).min(0.99);
        let alone = (self.load / self.bandwidth).min(0.99);
        let memory = self.memory * (1.0 - alone) / (1.0 - used);
        let shared = (count as f64 / self.cpus as f64).max(1.0);
        (1.0 - self.memory + memory) * shared
    }

    /// Returns the true p99 of the latency (of an M/M/1 queue); infinite if requests arrive faster than they are served.
    pub fn true_p99(&self, count: usize) -> f64 {
        let left = 1.0 / self.service(count) - self.load;
        if left > 0.0 { 100f64.ln() / left } else { f64::INFINITY }
    }

    /// Returns the largest count up to `most` at which the true p99 is at most `factor` times that of one instance.
    pub fn true_density(&self, factor: f64, most: usize) -> usize {
        let alone = self.true_p99(1);
        (1..=most).take_while(|&count| self.true_p99(count) <= factor * alone).last().unwrap_or(0)
    }

    /// Measures the p99 of the latency in one slice.
    pub fn p99(&mut self, count: usize) -> f64 {
        self.speed *= (self.drift * (self.random.random::<f64>() - 0.5) * 12f64.sqrt()).exp();
        let service = self.service(count) * self.speed;
        let mut latencies = Vec::with_capacity(self.requests);
        let mut latency = 0.0f64;
        for request in 0..WARM_UP + self.requests {
            // Lindley's recursion: what is left of the one before, and its own time of service.
            let gap = self.exponential() / self.load;
            latency = (latency - gap).max(0.0) + service * self.exponential();
            if request >= WARM_UP {
                latencies.push(latency);
            }
        }
        let at = latencies.len() * 99 / 100;
        *latencies.select_nth_unstable_by(at, f64::total_cmp).1
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.random.random::<f64>()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_the_true_p99_in_the_mean() {
        let mut host = InstanceHost { drift: 0.0, ..InstanceHost::new(64, 0.5, 0.4, 80.0, 7) };
        for count in [1, 40, 64] {
            let logs: f64 = (0..40).map(|_| (host.p99(count) / host.true_p99(count)).ln()).sum();
            assert!((logs / 40.0).abs() < 0.02, "{count} instances: {}", logs / 40.0);
        }
    }

    #[test]
    fn instances_beyond_the_cpus_or_the_bandwidth_break_the_bound() {
        let cpus = InstanceHost::new(16, 0.5, 0.0, 1000.0, 1);
        assert_eq!((cpus.true_density(1.1, 512), cpus.true_p99(40)), (16, f64::INFINITY));
        let memory = InstanceHost::new(512, 0.5, 0.5, 100.0, 1);
        let density = memory.true_density(1.1, 512);
        assert!((2..100).contains(&density), "{density}");
    }
}
