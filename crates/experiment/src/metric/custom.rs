//! Metrics defined by the user: `NAME=REGEX` and `NAME=json:PATH`.

use crate::{
    metric::{
        MEASURED, MEASURED_OF_SERVICE, MEMORY_ALIAS,
        figures::{ending_of, list, quote},
        number::{self, Quantity, QuantityKind},
    },
    record::{Direction, Metric},
};
use regex_lite::{Regex, RegexBuilder};
use serde_json::Value;

/// One metric and where to find it.
#[derive(Clone, Debug)]
pub(super) struct CustomMetric {
    metric: Metric,
    place: ValueSource,
}

#[derive(Clone, Debug)]
enum ValueSource {
    /// First group of a regular expression.
    Group(Regex),
    /// Keys and indices from the top of a JSON value.
    Json(Vec<String>),
}

impl CustomMetric {
    /// Parses the two sides of the `=`: `NAME[UNIT]:DIRECTION`, and an expression or `json:PATH`.
    pub(super) fn parse(head: &str, place: &str) -> Result<Self, String> {
        let metric = metric(head)?;
        let place = match place.strip_prefix("json:") {
            Some(path) => ValueSource::Json(keys(path)?),
            None => ValueSource::Group(expression(&metric.name, place)?),
        };
        Ok(Self { metric, place })
    }

    pub(super) fn metric(&self) -> &Metric {
        &self.metric
    }

    pub(super) fn name(&self) -> &str {
        &self.metric.name
    }

    /// Reads the metric from `text`, whose `source` is named in messages. A value with a time unit is converted to the metric's unit if that is a
    /// time unit too, otherwise to milliseconds. A value with a size unit is converted to bytes.
    pub(super) fn read(&self, text: &str, source: &str) -> Result<(Metric, f64), String> {
        let found = match &self.place {
            ValueSource::Group(expression) => group(expression, text, source),
            ValueSource::Json(keys) => json(keys, text, source),
        };
        let quantity = found.map_err(|reason| format!("metric {}: {reason}", self.name()))?;
        let mut metric = self.metric.clone();
        if metric.unit.is_empty() {
            quantity.kind.unit().clone_into(&mut metric.unit);
        }
        let scale = match quantity.kind {
            QuantityKind::Time => number::milliseconds(&metric.unit).unwrap_or(1.0),
            _ => 1.0,
        };
        Ok((metric, quantity.value / scale))
    }
}

fn metric(head: &str) -> Result<Metric, String> {
    let (rest, better) = match head.rsplit_once(':') {
        None => (head, Direction::Higher),
        Some((rest, "higher")) => (rest, Direction::Higher),
        Some((rest, "lower")) => (rest, Direction::Lower),
        Some((_, other)) => {
            return Err(format!("\"{other}\" is not a direction: write NAME:higher=... or NAME:lower=..."));
        }
    };
    let (name, unit) = match rest.split_once('[') {
        None => (rest, ""),
        Some((name, unit)) => (
            name,
            unit.strip_suffix(']')
                .ok_or_else(|| format!("the unit in \"{head}\" has no ]: write NAME[UNIT]=..."))?,
        ),
    };
    if MEASURED.contains(&name.trim()) || [MEASURED_OF_SERVICE, MEMORY_ALIAS].contains(&name.trim()) {
        return Err(format!("{name} is always measured: choose another name for your metric"));
    }
    if name.trim().is_empty() {
        return Err("a metric needs a name: NAME=REGEX".to_owned());
    }
    Ok(Metric { name: name.trim().to_owned(), unit: unit.trim().to_owned(), better })
}

fn expression(name: &str, text: &str) -> Result<Regex, String> {
    let expression = RegexBuilder::new(text)
        .multi_line(true)
        .crlf(true)
        .build()
        .map_err(|error| format!("metric {name}: {text} is not a regular expression: {error}"))?;
    if expression.captures_len() < 2 {
        return Err(format!("metric {name}: {text} has no group: put the number in parentheses"));
    }
    Ok(expression)
}

fn group(expression: &Regex, text: &str, source: &str) -> Result<Quantity, String> {
    let found: Vec<&str> = expression
        .captures_iter(text)
        .filter_map(|captures| captures.get(1))
        .map(|group| group.as_str())
        .collect();
    match found[..] {
        [] => Err(format!("{expression} does not match {source}; {}", ending_of(source, text))),
        [value] => number::quantity(value).ok_or_else(|| format!("{} is not a finite number", quote(value))),
        [..] => {
            let quoted: Vec<String> = found.iter().map(|value| quote(value)).collect();
            let shown = list(quoted.iter().map(String::as_str));
            Err(format!("found {} times ({shown}); make the expression match only one of them", found.len()))
        }
    }
}

/// Splits a path into keys: `a.b.0`, `$.a.b[0]`, or a JSON pointer `/a/b/0` (RFC 6901), which allows keys
/// that contain dots.
fn keys(path: &str) -> Result<Vec<String>, String> {
    let keys: Vec<String> = if let Some(pointer) = path.strip_prefix('/') {
        pointer.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect()
    } else {
        let path = path.strip_prefix('$').unwrap_or(path).replace('[', ".").replace(']', "");
        path.strip_prefix('.').unwrap_or(&path).split('.').map(str::to_owned).collect()
    };
    if keys.iter().any(String::is_empty) {
        return Err(format!("\"{path}\" is not a path into JSON: write json:KEY.KEY.INDEX"));
    }
    Ok(keys)
}

fn json(keys: &[String], text: &str, source: &str) -> Result<Quantity, String> {
    let top =
        document(text).ok_or_else(|| format!("{source} contains no JSON; {}", ending_of(source, text)))?;
    let mut value = &top;
    for (depth, key) in keys.iter().enumerate() {
        let next = match value {
            Value::Object(map) => map.get(key),
            Value::Array(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        let place = || if depth == 0 { "the top".to_owned() } else { keys[..depth].join(".") };
        value = next.ok_or_else(|| format!("no \"{key}\" at {}, which is {}", place(), describe(value)))?;
    }
    let number = match value {
        Value::Number(number) => number.as_f64().map(|value| Quantity { value, kind: QuantityKind::Plain }),
        Value::String(text) => number::quantity(text),
        _ => None,
    };
    number
        .filter(|number| number.value.is_finite())
        .ok_or_else(|| format!("{} is {}, not a finite number", keys.join("."), describe(value)))
}

/// Parses the whole text as JSON, or else its last line that is a JSON object.
fn document(text: &str) -> Option<Value> {
    let object = |line: &str| serde_json::from_str(line).ok().filter(Value::is_object);
    serde_json::from_str(text).ok().or_else(|| text.lines().rev().find_map(object))
}

fn describe(value: &Value) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "an empty object".to_owned(),
        Value::Object(map) => format!("an object with {}", list(map.keys().map(String::as_str))),
        Value::Array(items) => format!("a list of {}", items.len()),
        other => quote(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Found = (String, String, Direction, f64);

    fn named(given: &str) -> Result<CustomMetric, String> {
        let (head, place) = given.split_once('=').unwrap();
        CustomMetric::parse(head, place)
    }

    fn read(given: &str, text: &str) -> Result<Found, String> {
        let (metric, value) = named(given)?.read(text, "standard output")?;
        Ok((metric.name, metric.unit, metric.better, value))
    }

    fn found(name: &str, unit: &str, better: Direction, value: f64) -> Found {
        (name.to_owned(), unit.to_owned(), better, value)
    }

    #[test]
    fn an_expression_gives_its_group() {
        let text = "start\r\nrequests: 12,345\r\nlatency 250us\r\n";
        assert_eq!(read("rps=^requests: (\\S+)$", text), Ok(found("rps", "", Direction::Higher, 12_345.0)));
        assert_eq!(read("lat:lower=latency (\\S+)", text), Ok(found("lat", "ms", Direction::Lower, 0.25)));
        assert_eq!(
            read("lat[us]:lower=latency (\\S+)", text),
            Ok(found("lat", "us", Direction::Lower, 250.0))
        );
        assert_eq!(
            read("n[req/s]:higher=: (\\S+)", text),
            Ok(found("n", "req/s", Direction::Higher, 12_345.0))
        );
    }

    #[test]
    fn an_expression_that_does_not_match_once_is_reported_with_its_matches() {
        assert_eq!(
            read("rps=rps (\\d+)", "rps 123\nrps 456\n"),
            Err("metric rps: found 2 times (\"123\", \"456\"); make the expression match only one of them"
                .to_owned())
        );
        assert_eq!(
            read("rps=rps (\\d+)", "rps: 123\ndone\n\n"),
            Err("metric rps: rps (\\d+) does not match standard output; the last line is \"done\"".to_owned())
        );
        assert_eq!(
            read("rps=rps (\\d+)", ""),
            Err("metric rps: rps (\\d+) does not match standard output; standard output is empty".to_owned())
        );
        assert_eq!(
            read("rps=rps (\\S+)", "rps nan"),
            Err("metric rps: \"nan\" is not a finite number".to_owned())
        );
    }

    #[test]
    fn a_wrong_request_is_refused_with_the_right_form() {
        let error = |given| named(given).unwrap_err();
        assert!(
            error("rps=(").starts_with("metric rps: ( is not a regular expression: "),
            "{}",
            error("rps=(")
        );
        assert_eq!(error("rps=\\d+"), "metric rps: \\d+ has no group: put the number in parentheses");
        assert_eq!(
            error("a:less=(x)"),
            "\"less\" is not a direction: write NAME:higher=... or NAME:lower=..."
        );
        assert_eq!(error("a[ms=(x)"), "the unit in \"a[ms\" has no ]: write NAME[UNIT]=...");
        assert_eq!(error("=(x)"), "a metric needs a name: NAME=REGEX");
        assert_eq!(error("a=json:x..y"), "\"x..y\" is not a path into JSON: write json:KEY.KEY.INDEX");
        assert_eq!(error("a=json:"), "\"\" is not a path into JSON: write json:KEY.KEY.INDEX");
    }

    #[test]
    fn json_is_read_by_path() {
        let text = r#"{"a": {"b.c": 3, "runs": [1, {"time": "250us"}]}, "n": 2.5e3, "s": "fast"}"#;
        assert_eq!(read("n=json:n", text), Ok(found("n", "", Direction::Higher, 2500.0)));
        assert_eq!(read("n=json:.a.runs.0", text), Ok(found("n", "", Direction::Higher, 1.0)));
        assert_eq!(read("t:lower=json:$.a.runs[1].time", text), Ok(found("t", "ms", Direction::Lower, 0.25)));
        assert_eq!(read("n=json:/a/b.c", text), Ok(found("n", "", Direction::Higher, 3.0)));
        assert_eq!(read("n=json:1.x", "[1, {\"x\": 7}]"), Ok(found("n", "", Direction::Higher, 7.0)));
        let lines = "starting\n{\"n\": 1}\n[3]\n{\"n\": 2}\nbye\n";
        assert_eq!(read("n=json:n", lines), Ok(found("n", "", Direction::Higher, 2.0)));
    }

    #[test]
    fn a_missing_json_path_is_reported_with_the_last_key_found() {
        let text = r#"{"a": {"x": 1, "y": [1, 2]}, "s": "fast", "o": {}}"#;
        let error = |given| read(given, text).unwrap_err();
        assert_eq!(error("n=json:b"), "metric n: no \"b\" at the top, which is an object with a, o, s");
        assert_eq!(error("n=json:a.y.2"), "metric n: no \"2\" at a.y, which is a list of 2");
        assert_eq!(error("n=json:a.x.z"), "metric n: no \"z\" at a.x, which is \"1\"");
        assert_eq!(error("n=json:o"), "metric n: o is an empty object, not a finite number");
        assert!(error("n=json:s").ends_with("not a finite number"), "{}", error("n=json:s"));
        assert_eq!(
            read("n=json:b", "no json\n").unwrap_err(),
            "metric n: standard output contains no JSON; the last line is \"no json\""
        );
    }

    proptest! {
        #[test]
        fn any_request_and_text_give_a_finite_value_or_an_error(
            head in "[a-z]{0,3}(\\[[a-z]{0,2}\\]?)?(:lower|:higher|:x)?",
            place in "(json:)?[-a-z0-9.$/()\\[\\]*+?|\\\\]{0,8}|\\PC{0,8}",
            text in "(\\PC|\\n){0,40}|\\{\"a\": ?(1e400|[0-9]{1,3}|\"1e999\"|null|\\[1\\])\\}",
        ) {
            if let Ok((_, value)) = CustomMetric::parse(&head, &place).and_then(|named| named.read(&text, "standard output")) {
                prop_assert!(value.is_finite());
            }
        }

        #[test]
        fn a_number_is_found_wherever_it_stands(
            value in -1e12_f64..1e12, before in "[a-z \n]{0,20}", after in "( [a-z \n]{0,20})?",
        ) {
            let text = format!("{before}\nscore={value}{after}");
            prop_assert_eq!(named("n=score=(\\S+)").unwrap().read(&text, "standard output").unwrap().1, value);
        }
    }
}
