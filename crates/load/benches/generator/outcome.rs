//! What a generator printed, as numbers.

/// The quantiles that are compared.
pub const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// One run of a generator.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Replies per second.
    pub rate: f64,
    /// CPU time of the generator for each request, in microseconds.
    pub cpu_us: f64,
    /// CPU time of the server for each second.
    pub server: f64,
    /// Mean latency in milliseconds.
    pub mean: f64,
    /// Latency at each of [`QUANTILES`], in milliseconds.
    pub quantiles: [f64; 4],
    /// Mean, p50 and p99 of the server's own times in milliseconds, where it measures them.
    pub served: [f64; 3],
    /// The generator's own part of the mean latency, where it knows it.
    pub own: Option<f64>,
    /// CPU time that other programs got meanwhile on the two CPUs, for each second.
    pub others: f64,
    /// Whether each request was answered, and 99 % of them within 10 ms.
    pub kept: bool,
}

/// Reads the rows `percentile% <= milliseconds` of redis-benchmark, and its summary.
pub fn redis_benchmark(text: &str) -> Option<Outcome> {
    let summary = text.split("throughput summary:").nth(1)?;
    let rate = summary.split_whitespace().next()?.parse().ok()?;
    // The figures are below their names.
    let means = text.split("latency summary (msec):").nth(1)?.lines().nth(2)?;
    let rows = text.split("Cumulative distribution").next()?.lines().filter_map(|line| {
        let (percent, rest) = line.split_once("% <= ")?;
        Some((percent.trim().parse::<f64>().ok()? / 100.0, rest.split(' ').next()?.parse().ok()?))
    });
    Some(Outcome {
        rate,
        mean: means.split_whitespace().next()?.parse().ok()?,
        quantiles: at_quantiles(&rows.collect::<Vec<_>>())?,
        ..Outcome::default()
    })
}

/// Reads the totals of `memtier_benchmark`, whose columns differ between versions.
pub fn memtier(text: &str) -> Option<Outcome> {
    let line = |begin: &str| text.lines().find(|line| line.starts_with(begin));
    let names: Vec<_> = line("Type ")?.split("  ").map(str::trim).filter(|name| !name.is_empty()).collect();
    let values: Vec<_> = line("Totals ")?.split_whitespace().collect();
    let column = |name: &str| -> Option<f64> {
        values.get(names.iter().position(|other| *other == name)?)?.parse().ok()
    };
    Some(Outcome {
        rate: column("Ops/sec")?,
        mean: column("Avg. Latency")?,
        quantiles: [
            column("p50 Latency")?,
            column("p99 Latency")?,
            column("p99.9 Latency")?,
            column("p100 Latency")?,
        ],
        ..Outcome::default()
    })
}

/// Reads the detailed spectrum of wrk2, which has more digits than its summary.
pub fn wrk2(text: &str) -> Option<Outcome> {
    let behind = |word: &str| -> Option<f64> {
        let rest = text.split(word).nth(1)?.trim_start_matches([' ', '=', ':']);
        rest.split([',', ' ', '\n']).next()?.parse().ok()
    };
    let spectrum = text.split("Detailed Percentile spectrum").nth(1)?.split("#[Mean").next()?;
    let rows = spectrum.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let value = words.next()?.parse().ok()?;
        Some((words.next()?.parse().ok()?, value))
    });
    Some(Outcome {
        rate: behind("Requests/sec")?,
        mean: behind("#[Mean")?,
        quantiles: at_quantiles(&rows.collect::<Vec<_>>())?,
        ..Outcome::default()
    })
}

/// Returns the first value at or above each quantile.
fn at_quantiles(rows: &[(f64, f64)]) -> Option<[f64; 4]> {
    let mut values = [0.0; 4];
    for (value, quantile) in values.iter_mut().zip(QUANTILES) {
        *value = rows.iter().find(|row| row.0 >= quantile).or(rows.last())?.1;
    }
    Some(values)
}
