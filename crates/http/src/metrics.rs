//! Metrics for Prometheus in one of its two text formats, whichever the client accepts.

use crate::{Answer, Query};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the answer to a request for metrics, which are given in the `OpenMetrics` format.
pub fn answer(query: Query<'_>, text: String) -> Answer {
    if query.accept.contains("application/openmetrics-text") {
        Answer::text(OPEN_METRICS, text)
    } else {
        Answer::text(CLASSIC, to_text_format(&text))
    }
}

/// Converts metrics in the `OpenMetrics` format to the older text format (0.0.4), in which a counter is described by the
/// name of its samples, and units are comments.
pub fn to_text_format(open: &str) -> String {
    let lines: Vec<&str> = open.lines().filter(|line| *line != "# EOF").collect();
    let mut text = String::with_capacity(open.len() + 16 * lines.len());
    for (at, line) in lines.iter().enumerate() {
        let mut words = line.splitn(4, ' ');
        let described = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) => Some((what, name, rest)),
            _ => None,
        };
        // `HELP` stands before the `TYPE` of the same name.
        let is_counter = |name: &str| {
            let kind = format!("# TYPE {name} counter");
            lines[at..].iter().take(2).any(|line| *line == kind)
        };
        match described {
            Some((what, name, rest)) if is_counter(name) => {
                text.push_str(&format!("# {what} {name}_total {rest}\n"));
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_the_name_of_their_samples() {
        let open = "# HELP a Help of a.\n# TYPE a counter\na_total{x=\"# TYPE a counter\"} 1\n# HELP b A b.\n# TYPE b gauge\nb 2\n# EOF\n";
        let text = "# HELP a_total Help of a.\n# TYPE a_total counter\na_total{x=\"# TYPE a counter\"} 1\n# HELP b A b.\n# TYPE b gauge\nb 2\n";
        assert_eq!(to_text_format(open), text);
    }
}
