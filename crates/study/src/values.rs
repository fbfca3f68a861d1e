//! The figures of one run: what its output says, and what it used.

use manycore_experiment::metric::{self, Reader};
use manycore_experiment::record::{Better, Metric};
use manycore_linux::job::{Job, MOST_OUTPUT};
use manycore_stats::median;
use std::time::SystemTime;

/// What a run used.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// From the start of the first copy to the end of the last.
    pub wall_ns: u64,
    /// CPU time of all copies.
    pub cpu_ns: u64,
    /// Largest resident set of each copy, summed.
    pub max_rss_bytes: u64,
    /// CPU time of the service meanwhile, where there is one.
    pub service_ns: Option<u64>,
}

/// All figures of one run. Over copies, rates are summed; of times and sizes that copies print, the median is
/// taken.
///
/// # Errors
/// What is wrong with the output, as the end of a sentence about the command.
pub fn figures(
    readers: &[Reader],
    jobs: &[Job],
    used: &Used,
    since: SystemTime,
) -> Result<Vec<(Metric, f64)>, String> {
    let each = jobs.iter().map(|job| read(readers, job, since)).collect::<Result<Vec<_>, _>>()?;
    let mut found: Vec<(Metric, f64)> = Vec::new();
    for (index, (metric, _)) in each[0].iter().enumerate() {
        let of_copy = |one: &Vec<(Metric, f64)>| {
            one.get(index).filter(|(other, _)| other == metric).map(|(_, value)| *value)
        };
        let values: Option<Vec<f64>> = each.iter().map(of_copy).collect();
        let values = values.ok_or_else(|| format!("not every copy printed {}", metric.name))?;
        let together = match metric.better {
            Better::Higher => values.iter().sum(),
            Better::Lower => median(&values).unwrap_or(f64::NAN),
        };
        found.push((metric.clone(), together));
    }
    let lower = |name: &str, unit: &str| Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        better: Better::Lower,
    };
    found.push((lower("wall", "s"), used.wall_ns as f64 / 1e9));
    found.push((lower("cpu", "s"), used.cpu_ns as f64 / 1e9));
    found.push((lower("memory", "MiB"), used.max_rss_bytes as f64 / f64::from(1 << 20)));
    found.extend(used.service_ns.map(|ns| (lower("service_cpu", "s"), ns as f64 / 1e9)));
    Ok(found)
}

fn read(readers: &[Reader], job: &Job, since: SystemTime) -> Result<Vec<(Metric, f64)>, String> {
    if job.cut() {
        return Err(format!("it wrote more than {} MiB, too much to look for metrics in", MOST_OUTPUT >> 20));
    }
    let text = String::from_utf8_lossy(job.output());
    metric::read_all(readers, &metric::Output { stdout: &text, stderr: &job.complaints(), since })
}

/// Which figures an experiment has, and which of them decides; settled by its first run.
#[derive(Clone, Debug)]
pub struct Figures {
    primary: Option<String>,
    metrics: Vec<Metric>,
}

impl Figures {
    /// The metric called `primary` decides, or the first one.
    pub fn new(primary: Option<String>) -> Self {
        Self { primary, metrics: Vec::new() }
    }

    /// The metrics in their order, the primary one first; none before the first run.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The values of a run in that order.
    ///
    /// # Errors
    /// No metric has the name that was asked for, others were found than the time before, or the one that decides
    /// is below 0, or 0 where less is better: nothing is half of nothing. A rate of 0 is a figure like any other.
    pub fn ordered(&mut self, mut found: Vec<(Metric, f64)>) -> Result<Vec<f64>, String> {
        if let Some(primary) = &self.primary {
            let names: Vec<&str> = found.iter().map(|(metric, _)| metric.name.as_str()).collect();
            let position = names.iter().position(|name| name == primary);
            let position = position
                .ok_or_else(|| format!("no metric is called {primary:?}; there are {}", names.join(", ")))?;
            found[..=position].rotate_right(1);
        }
        if self.metrics.is_empty() {
            self.metrics = found.iter().map(|(metric, _)| metric.clone()).collect();
        }
        if self.metrics.iter().ne(found.iter().map(|(metric, _)| metric)) {
            return Err("it printed other metrics than the time before".to_owned());
        }
        match &found[0] {
            (metric, value) if *value > 0.0 || (*value == 0.0 && metric.better == Better::Higher) => {
                Ok(found.into_iter().map(|(_, value)| value).collect())
            }
            (metric, value) => Err(format!("{} is {value}, which cannot be compared", metric.name)),
        }
    }

    /// Work such that work per second of wall time is what the primary metric says: runs for the wall time, the
    /// value for a rate, its inverse for a time or size, of each copy.
    pub fn work(&self, values: &[f64], wall_ns: u64, copies: usize) -> f64 {
        let seconds = wall_ns as f64 / 1e9;
        match self.metrics.first().map(|primary| (primary.name.as_str(), primary.better)) {
            Some(("wall", _)) | None => copies as f64,
            Some((_, Better::Higher)) => values[0] * seconds,
            Some((_, Better::Lower)) => copies as f64 * seconds / values[0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[(&str, Better, f64)]) -> Vec<(Metric, f64)> {
        let metric = |name: &str, better| Metric { name: name.to_owned(), unit: String::new(), better };
        values.iter().map(|&(name, better, value)| (metric(name, better), value)).collect()
    }

    #[test]
    fn the_primary_metric_comes_first_and_sets_the_work() {
        let run = [("rps", Better::Higher, 50.0), ("p99", Better::Lower, 4.0), ("wall", Better::Lower, 2.0)];
        for (primary, values, work) in [
            (None, [50.0, 4.0, 2.0], 100.0),
            (Some("p99"), [4.0, 50.0, 2.0], 1.5),
            (Some("wall"), [2.0, 50.0, 4.0], 3.0),
        ] {
            let mut figures = Figures::new(primary.map(str::to_owned));
            assert_eq!(figures.ordered(found(&run)).unwrap(), values);
            assert_eq!(figures.work(&values, 2_000_000_000, 3), work);
        }
    }

    /// A run in which a server answered nothing ended the whole comparison.
    #[test]
    fn a_rate_of_zero_is_a_sample() {
        let mut figures = Figures::new(None);
        let values = figures.ordered(found(&[("requests", Better::Higher, 0.0)])).unwrap();
        assert_eq!(figures.work(&values, 2_000_000_000, 1), 0.0);
    }

    #[test]
    fn metrics_stay_the_same_and_the_first_can_be_compared() {
        let mut figures = Figures::new(None);
        figures.ordered(found(&[("a", Better::Higher, 1.0)])).unwrap();
        assert!(figures.ordered(found(&[("b", Better::Higher, 1.0)])).unwrap_err().contains("other metrics"));
        for (better, value) in [(Better::Higher, -1.0), (Better::Lower, 0.0), (Better::Lower, -1.0)] {
            let refused = Figures::new(None).ordered(found(&[("a", better, value)])).unwrap_err();
            assert!(refused.contains("cannot be compared"), "{better:?} {value}: {refused}");
        }
        let mut named = Figures::new(Some("p99".to_owned()));
        assert_eq!(
            named.ordered(found(&[("a", Better::Higher, 1.0)])).unwrap_err(),
            "no metric is called \"p99\"; there are a"
        );
    }
}
