//! The figures of one run: those in its output, and its resource usage.

use manycore_experiment::{
    metric::{self, MetricReader},
    record::{Direction, Metric, RequestTimes},
};
use manycore_linux::job::{Job, MAX_OUTPUT, MAX_STDERR};
use manycore_stats::median;
use std::time::SystemTime;

/// Resource usage of a run.
#[derive(Clone, Copy, Debug)]
pub struct ResourceUsage {
    /// From the start of the first copy to the end of the last.
    pub wall_ns: u64,
    /// CPU time of all copies.
    pub cpu_ns: u64,
    /// Largest resident set size of each copy, summed.
    pub max_rss_bytes: u64,
    /// CPU time of the service during the run, if there is one.
    pub service_ns: Option<u64>,
}

/// Returns all figures of one run. Of several copies, rates are summed; for times and sizes, the median is
/// taken.
///
/// # Errors
/// What is wrong with the output, phrased as the end of a sentence about the command.
pub(crate) fn figures(
    readers: &[MetricReader],
    jobs: &[Job],
    used: &ResourceUsage,
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
            Direction::Higher => values.iter().sum(),
            Direction::Lower => median(&values).unwrap_or(f64::NAN),
        };
        found.push((metric.clone(), together));
    }
    let lower = |name: &str, unit: &str| Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        better: Direction::Lower,
    };
    found.push((lower("wall", "s"), used.wall_ns as f64 / 1e9));
    found.push((lower("cpu", "s"), used.cpu_ns as f64 / 1e9));
    found.push((lower("memory", "MiB"), used.max_rss_bytes as f64 / f64::from(1 << 20)));
    found.extend(used.service_ns.map(|ns| (lower("service_cpu", "s"), ns as f64 / 1e9)));
    Ok(found)
}

fn read(readers: &[MetricReader], job: &Job, since: SystemTime) -> Result<Vec<(Metric, f64)>, String> {
    if job.output_truncated() {
        return Err(format!(
            "it wrote more than {} MiB, the limit for output with metrics",
            MAX_OUTPUT >> 20
        ));
    }
    if job.stderr_truncated() && readers.iter().any(MetricReader::reads_stderr) {
        return Err(format!(
            "it wrote more than {} KiB to standard error, the limit for metrics from there",
            MAX_STDERR >> 10
        ));
    }
    let text = String::from_utf8_lossy(job.output());
    let output = metric::RunOutput { stdout: &text, stderr: &job.stderr_tail(), since };
    metric::read_all(readers, &output).map_err(|error| error.to_string())
}

/// Returns the distributions of the requests in the output of all copies.
///
/// # Errors
/// What is wrong with the output, phrased as the end of a sentence about the command.
pub(crate) fn requests(
    readers: &[MetricReader],
    jobs: &[Job],
    since: SystemTime,
) -> Result<Vec<RequestTimes>, String> {
    let mut all = Vec::new();
    for job in jobs {
        let text = String::from_utf8_lossy(job.output());
        let output = metric::RunOutput { stdout: &text, stderr: &job.stderr_tail(), since };
        all.extend(metric::requests(readers, &output).map_err(|error| error.to_string())?);
    }
    Ok(all)
}

/// The metrics of an experiment and which of them is primary; fixed by its first run.
#[derive(Clone, Debug)]
pub struct Figures {
    primary: Option<String>,
    metrics: Vec<Metric>,
}

impl Figures {
    /// Makes the metric called `primary` the primary one, or else the first metric.
    pub fn new(primary: Option<String>) -> Self {
        Self { primary, metrics: Vec::new() }
    }

    /// Returns the metrics in order, the primary one first. Empty before the first run.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// Returns the values of a run in that order.
    ///
    /// # Errors
    /// No metric has the requested name; the metrics differ from those of the run before; or the primary
    /// metric is below 0, or is 0 where less is better, as no ratio to 0 exists. A rate of 0 is valid.
    pub(crate) fn ordered(&mut self, mut found: Vec<(Metric, f64)>) -> Result<Vec<f64>, String> {
        if let Some(primary) = &self.primary {
            let names: Vec<&str> = found.iter().map(|(metric, _)| metric.name.as_str()).collect();
            let position = names.iter().position(|name| name == primary);
            let position = position
                .ok_or_else(|| format!("no metric is called {primary:?}; found {}", names.join(", ")))?;
            found[..=position].rotate_right(1);
        }
        if self.metrics.is_empty() {
            self.metrics = found.iter().map(|(metric, _)| metric.clone()).collect();
        }
        if self.metrics.iter().ne(found.iter().map(|(metric, _)| metric)) {
            return Err("it printed other metrics than in the run before".to_owned());
        }
        match &found[0] {
            (metric, value) if *value > 0.0 || (*value == 0.0 && metric.better == Direction::Higher) => {
                Ok(found.into_iter().map(|(_, value)| value).collect())
            }
            (metric, value) => Err(format!("{} is {value}, which cannot be compared", metric.name)),
        }
    }

    /// Returns the work, such that work per second of wall time is the value of the primary metric. For wall
    /// time, the work is the number of runs; for a rate, the value times the seconds; for a time or size, the
    /// seconds divided by the value, for each copy.
    pub fn work(&self, values: &[f64], wall_ns: u64, copies: usize) -> f64 {
        let seconds = wall_ns as f64 / 1e9;
        match self.metrics.first().map(|primary| (primary.name.as_str(), primary.better)) {
            Some(("wall", _)) | None => copies as f64,
            Some((_, Direction::Higher)) => values[0] * seconds,
            Some((_, Direction::Lower)) => copies as f64 * seconds / values[0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[(&str, Direction, f64)]) -> Vec<(Metric, f64)> {
        let metric = |name: &str, better| Metric { name: name.to_owned(), unit: String::new(), better };
        values.iter().map(|&(name, better, value)| (metric(name, better), value)).collect()
    }

    #[test]
    fn the_primary_metric_comes_first_and_sets_the_work() {
        let run = [
            ("rps", Direction::Higher, 50.0),
            ("p99", Direction::Lower, 4.0),
            ("wall", Direction::Lower, 2.0),
        ];
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

    /// Regression test: a run in which a server answered no request ended the whole comparison.
    #[test]
    fn a_rate_of_zero_is_a_sample() {
        let mut figures = Figures::new(None);
        let values = figures.ordered(found(&[("requests", Direction::Higher, 0.0)])).unwrap();
        assert_eq!(figures.work(&values, 2_000_000_000, 1), 0.0);
    }

    #[test]
    fn metrics_stay_the_same_and_the_first_can_be_compared() {
        let mut figures = Figures::new(None);
        figures.ordered(found(&[("a", Direction::Higher, 1.0)])).unwrap();
        assert!(
            figures.ordered(found(&[("b", Direction::Higher, 1.0)])).unwrap_err().contains("other metrics")
        );
        for (better, value) in [(Direction::Higher, -1.0), (Direction::Lower, 0.0), (Direction::Lower, -1.0)]
        {
            let refused = Figures::new(None).ordered(found(&[("a", better, value)])).unwrap_err();
            assert!(refused.contains("cannot be compared"), "{better:?} {value}: {refused}");
        }
        let mut named = Figures::new(Some("p99".to_owned()));
        assert_eq!(
            named.ordered(found(&[("a", Direction::Higher, 1.0)])).unwrap_err(),
            "no metric is called \"p99\"; found a"
        );
    }
}
