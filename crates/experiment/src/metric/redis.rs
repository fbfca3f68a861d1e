//! redis-benchmark: its default output, that of `-q` and that of `--csv`.
//!
//! Tested with redis-benchmark 7.0.15. The output of version 6.0, which has rates without latencies, was not
//! available for tests.

use crate::metric::{
    figures::{Figures, higher, lower, not_output_of, quote, slug},
    number,
    requests::PrintedTimes,
};

/// The figures of one Redis command.
struct RedisTest {
    title: String,
    /// Names and values: `requests`, then latencies in milliseconds.
    values: Vec<(String, f64)>,
}

/// Reads requests (primary) and latencies. With several tests, each name starts with that of its test:
/// `get.requests`.
pub(super) fn read(text: &str) -> Result<Figures, String> {
    let lines: Vec<&str> = text.split(['\n', '\r']).map(str::trim).collect();
    let mut tests = csv(&lines)?;
    if tests.is_empty() {
        tests = quiet_format(&lines);
    }
    if tests.is_empty() {
        tests = default_format(&lines)?;
    }
    if tests.is_empty() {
        return Err(not_output_of("redis-benchmark", "\"requests per second\" and no row of --csv", text));
    }
    let several = tests.len() > 1;
    let mut names = Vec::new();
    let mut figures = Figures::new();
    for test in &tests {
        let name = name(&test.title, &names);
        for (value_name, value) in &test.values {
            let full = if several { format!("{name}.{value_name}") } else { value_name.clone() };
            figures.push(match value_name.as_str() {
                "requests" => higher(&full, "requests/s", *value),
                _ => lower(&full, "ms", *value),
            });
        }
        names.push(name);
    }
    Ok(figures)
}

/// Returns `lrange_100` for `LRANGE_100 (first 100 elements)`. The part in parentheses is added if the name
/// is taken.
fn name(title: &str, taken: &[String]) -> String {
    let short = slug(title.split(" (").next().unwrap_or(title));
    if taken.contains(&short) { slug(title) } else { short }
}

/// Reads the rows of `--csv`. Version 6.0 prints no header and only the rate.
fn csv(lines: &[&str]) -> Result<Vec<RedisTest>, String> {
    let rows = lines.iter().filter_map(|line| {
        let line = line.strip_prefix('"')?.strip_suffix('"')?;
        Some(line.split("\",\"").collect::<Vec<&str>>())
    });
    let mut columns = vec!["test", "requests"];
    let mut tests = Vec::new();
    for row in rows.filter(|row| row.len() > 1) {
        if row[0] == "test" {
            columns = row.iter().map(|column| column_name(column)).collect();
            continue;
        }
        let pairs = columns.iter().zip(&row).skip(1).filter(|(column, _)| !matches!(**column, "min" | "max"));
        let values = pairs.map(|(column, value)| Ok(((*column).to_owned(), value_of(row[0], value)?)));
        tests.push(RedisTest { title: row[0].to_owned(), values: values.collect::<Result<_, String>>()? });
    }
    Ok(tests)
}

fn column_name(column: &str) -> &str {
    match column.strip_suffix("_latency_ms").unwrap_or(column) {
        "rps" => "requests",
        "avg" => "latency",
        other => other,
    }
}

/// Reads the lines of `-q`: `SET: 58139.53 requests per second, p50=0.047 msec`.
fn quiet_format(lines: &[&str]) -> Vec<RedisTest> {
    let test = |line: &&str| {
        let (title, rest) = line.rsplit_once(": ")?;
        let (rate, rest) = rest.split_once(" requests per second")?;
        let mut values = vec![("requests".to_owned(), number::plain(rate)?)];
        if let Some((name, value)) = rest.trim_start_matches(", ").split_once('=') {
            values.push((name.to_owned(), number::plain(value.split_whitespace().next()?)?));
        }
        (title != "throughput summary").then(|| RedisTest { title: title.to_owned(), values })
    };
    lines.iter().filter_map(test).collect()
}

/// Reads sections `====== SET ======` with a summary, or, of version 6.0, with a rate only.
fn default_format(lines: &[&str]) -> Result<Vec<RedisTest>, String> {
    let mut tests: Vec<RedisTest> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(title) = line.strip_prefix("====== ").and_then(|line| line.strip_suffix(" ======")) {
            tests.push(RedisTest { title: title.to_owned(), values: Vec::new() });
        }
        let Some(test) = tests.last_mut() else { continue };
        if let Some(rate) = line.strip_suffix(" requests per second") {
            let rate = rate.trim_start_matches("throughput summary:").trim();
            test.values.push(("requests".to_owned(), value_of(&test.title, rate)?));
        }
        if line.starts_with("latency summary (msec):") {
            let row = |after: usize| lines.get(at + after).unwrap_or(&"").split_whitespace();
            for (column, value) in row(1).zip(row(2)).filter(|(column, _)| !matches!(*column, "min" | "max"))
            {
                test.values.push((column_name(column).to_owned(), value_of(&test.title, value)?));
            }
        }
    }
    tests.retain(|test| !test.values.is_empty());
    Ok(tests)
}

/// Returns the rows of the default output: `50.000% <= 0.031 milliseconds (cumulative count 2676)`.
pub(super) fn requests_of(text: &str) -> Vec<PrintedTimes> {
    let lines: Vec<&str> = text.split(['\n', '\r']).map(str::trim).collect();
    let mut tests: Vec<PrintedTimes> = Vec::new();
    let mut names = Vec::new();
    for line in lines {
        // A test that prints its progress has its heading at the end of the line.
        if let Some((_, title)) = line.strip_suffix(" ======").and_then(|line| line.rsplit_once("====== ")) {
            let name = name(title, &names);
            names.push(name.clone());
            tests.push(PrintedTimes { name, ..PrintedTimes::default() });
        }
        if let (Some(test), Some((latency, number))) = (tests.last_mut(), cumulative(line)) {
            test.count = test.count.max(number);
            test.points.push((latency, number));
        }
    }
    if let [only] = tests.as_mut_slice() {
        only.name.clear();
    }
    tests
}

fn cumulative(line: &str) -> Option<(f64, f64)> {
    let (_, rest) = line.split_once("% <= ")?;
    let (latency, number) = rest.split_once(" (cumulative count ")?;
    let latency = number::plain(latency.strip_suffix(" milliseconds")?)?;
    Some((latency, number::plain(number.strip_suffix(')')?)?))
}

fn value_of(title: &str, printed: &str) -> Result<f64, String> {
    number::plain(printed)
        .ok_or_else(|| format!("redis-benchmark: {title} has {}, not a finite number", quote(printed)))
}
