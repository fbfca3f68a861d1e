//! What hosts printed, side by side by what differs.

use serde_json::Value;
use similar::TextDiff;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Instant,
};

/// Most differing values that are listed; the others are counted.
pub const MOST_DIFFERENCES: usize = 200;
/// Difference of sizes that are the same: kernels keep slightly different parts of the memory for themselves.
const SAME_SIZE: f64 = 0.01;
/// How many levels of nested values are compared.
const DEPTH: usize = 16;
/// Longest path in bytes. An object with a longer one is compared as a whole.
const LONGEST_PATH: usize = 256;
/// Most values of a host that are compared. A machine of 512 CPUs has some 10,000.
const MOST_VALUES: usize = 1 << 18;

/// Hosts that printed the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameOutput {
    /// The hosts, in their order.
    pub hosts: Vec<String>,
    /// What they printed.
    pub output: Vec<u8>,
    /// Their exit code.
    pub code: i32,
}

/// Returns hosts with the same output and exit code together: the most frequent output first.
pub fn same_outputs(outputs: Vec<(String, Vec<u8>, i32)>) -> Vec<SameOutput> {
    let mut groups: BTreeMap<(Vec<u8>, i32), Vec<String>> = BTreeMap::new();
    for (host, output, code) in outputs {
        groups.entry((output, code)).or_default().push(host);
    }
    let mut groups: Vec<SameOutput> =
        groups.into_iter().map(|((output, code), hosts)| SameOutput { hosts, output, code }).collect();
    groups.sort_by(|a, b| b.hosts.len().cmp(&a.hosts.len()).then_with(|| a.hosts.cmp(&b.hosts)));
    groups
}

/// Returns the lines in which an output differs from another one, with a line before and after: `-` marks those of `common`, `+`
/// those of `output`. `None` where less than half of the lines are equal, and after `end`.
pub fn changed_lines(common: &[u8], output: &[u8], end: Instant) -> Option<String> {
    if Instant::now() >= end {
        return None;
    }
    let [common, output] = [common, output].map(String::from_utf8_lossy);
    let [before, after] = [&common, &output].map(|text| text.lines().collect::<Vec<&str>>());
    let diff = TextDiff::configure().deadline(end).diff_slices(&before, &after);
    if diff.ratio() < 0.5 {
        return None;
    }
    let mut lines = String::new();
    for (at, operations) in diff.grouped_ops(1).iter().enumerate() {
        if at > 0 {
            lines.push_str("  ...\n");
        }
        for change in operations.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let _infallible = writeln!(lines, "{} {}", change.tag(), change.value());
        }
    }
    Some(lines)
}

/// A value that is not the same on all hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where it is: `nodes.0.memory_bytes`.
    pub path: String,
    /// The values as JSON, `-` where there is none, and the hosts that have each: the most frequent value first.
    pub values: Vec<(String, Vec<String>)>,
}

/// Returns what differs between values of JSON, by path, without what is below `ignored` paths. At most
/// [`MOST_DIFFERENCES`]; the number of the others is returned, too.
pub fn differences(values: &[(String, Value)], ignored: &[&str]) -> (Vec<Difference>, usize) {
    // Hosts by their numbers: most values of most hosts are the same.
    let mut leaves: BTreeMap<String, BTreeMap<String, Vec<u32>>> = BTreeMap::new();
    for (host, (_, value)) in (0..).zip(values) {
        let mut left = MOST_VALUES;
        flatten(value, &mut String::new(), 0, &mut |path, leaf| {
            left = left.saturating_sub(1);
            if left > 0
                && !ignored.iter().any(|ignored| path == *ignored || path.starts_with(&format!("{ignored}.")))
            {
                leaves.entry(path.to_owned()).or_default().entry(leaf).or_default().push(host);
            }
        });
    }
    let mut found: Vec<Difference> = Vec::new();
    let mut left_out = 0;
    for (path, mut by_value) in leaves {
        let known: usize = by_value.values().map(Vec::len).sum();
        let is_everywhere = known == values.len();
        if is_everywhere && (by_value.len() < 2 || are_same_size(&path, by_value.keys())) {
            continue;
        }
        if found.len() == MOST_DIFFERENCES {
            left_out += 1;
            continue;
        }
        if !is_everywhere {
            by_value.insert("-".to_owned(), hosts_without(values.len(), &by_value));
        }
        let names = |hosts: Vec<u32>| hosts.into_iter().map(|host| values[host as usize].0.clone()).collect();
        let mut values: Vec<(String, Vec<String>)> =
            by_value.into_iter().map(|(value, hosts)| (value, names(hosts))).collect();
        values.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
        found.push(Difference { path, values });
    }
    (found, left_out)
}

/// Returns which of `count` hosts have none of the values.
fn hosts_without(count: usize, by_value: &BTreeMap<String, Vec<u32>>) -> Vec<u32> {
    let have: BTreeSet<&u32> = by_value.values().flatten().collect();
    (0..).take(count).filter(|host| !have.contains(host)).collect()
}

/// Whether all values are sizes in bytes that hardly differ.
fn are_same_size<'a>(path: &str, mut values: impl Iterator<Item = &'a String>) -> bool {
    let mut range: Option<(f64, f64)> = None;
    let all_numbers = values.all(|value| match value.parse::<f64>() {
        Ok(number) => {
            let (low, high) = range.unwrap_or((number, number));
            range = Some((low.min(number), high.max(number)));
            true
        }
        Err(_) => false,
    });
    path.ends_with("_bytes") && all_numbers && range.is_some_and(|(low, high)| high - low <= SAME_SIZE * high)
}

/// Passes each value that is neither an object nor a list to `leaf`, with its path. Lists of plain values, and what is nested
/// too deep, are passed as a whole.
fn flatten(value: &Value, path: &mut String, depth: usize, leaf: &mut dyn FnMut(&str, String)) {
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    let is_short = |name: &str, path: &str| path.len() + name.len() < LONGEST_PATH;
    let mut below = |name: &str, value: &Value, path: &mut String| {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        flatten(value, path, depth + 1, leaf);
        path.truncate(length);
    };
    match value {
        Value::Object(fields) if depth < DEPTH && fields.keys().all(|name| is_short(name, path)) => {
            for (name, value) in fields {
                below(name, value, path);
            }
        }
        Value::Array(items) if depth < DEPTH && !items.iter().all(is_plain) => {
            for (index, value) in items.iter().enumerate() {
                below(&index.to_string(), value, path);
            }
        }
        Value::String(text) => leaf(path, text.clone()),
        other => leaf(path, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host(name: &str, value: Value) -> (String, Value) {
        (name.to_owned(), value)
    }

    #[test]
    fn only_what_differs_is_left() {
        let one = json!({"a": {"b": 1, "c": [1, 2]}, "memory_bytes": 1000, "host": "x"});
        let two = json!({"a": {"b": 2, "c": [1, 2]}, "memory_bytes": 1009, "host": "y"});
        let (found, left_out) =
            differences(&[host("n1", one.clone()), host("n2", two), host("n3", one.clone())], &["host"]);
        let expected = [
            ("1".to_owned(), vec!["n1".to_owned(), "n3".to_owned()]),
            ("2".to_owned(), vec!["n2".to_owned()]),
        ];
        assert_eq!(found, [Difference { path: "a.b".to_owned(), values: expected.to_vec() }]);
        assert_eq!(left_out, 0);
        assert!(differences(&[host("n1", one)], &[]).0.is_empty());
    }

    #[test]
    fn long_names_and_many_values_take_little_memory() {
        let many: serde_json::Map<String, Value> = (0..1000).map(|at| (at.to_string(), json!(at))).collect();
        let mut hostile = json!({"a": {"x".repeat(10_000): many}});
        hostile["b"] = vec![Value::Array(vec![Value::Array(Vec::new())]); MOST_VALUES + 10].into();
        let (found, left_out) = differences(&[host("n1", json!({"a": 1})), host("n2", hostile)], &[]);
        assert!(found.iter().any(|one| one.path == "a"));
        assert!(found.iter().all(|one| one.path.len() < LONGEST_PATH));
        assert!(found.len() + left_out <= MOST_VALUES);
    }

    #[test]
    fn a_value_that_a_host_lacks_differs() {
        let values = [host("n1", json!({"a": [{"x": 1}]})), host("n2", json!({"a": [{"x": 1}, {"x": 2}]}))];
        let (found, _) = differences(&values, &[]);
        assert_eq!(found[0].path, "a.1.x");
        assert!(found[0].values.contains(&("-".to_owned(), vec!["n1".to_owned()])));
    }

    #[test]
    fn differences_are_bounded() {
        let of = |value: usize| {
            json!(
                (0..MOST_DIFFERENCES + 5)
                    .map(|n| (format!("k{n}"), json!(value)))
                    .collect::<serde_json::Map<_, _>>()
            )
        };
        let (found, left_out) = differences(&[host("n1", of(1)), host("n2", of(2))], &[]);
        assert_eq!((found.len(), left_out), (MOST_DIFFERENCES, 5));
    }

    #[test]
    fn equal_outputs_are_one_group() {
        let output = |host: &str, text: &str| (host.to_owned(), text.as_bytes().to_vec(), 0);
        let groups = same_outputs(vec![output("n1", "b"), output("n2", "a"), output("n3", "a")]);
        assert_eq!(groups[0].hosts, ["n2", "n3"]);
        assert_eq!(groups[1].output, b"b");
    }

    #[test]
    fn an_output_is_shown_by_the_lines_that_differ() {
        let common = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let end = Instant::now() + std::time::Duration::from_mins(10);
        let changed = |output: &str| changed_lines(common.as_bytes(), output.as_bytes(), end);
        assert_eq!(changed("a\nB\nc\nd\ne\nf\ng\n").unwrap(), "  a\n- b\n+ B\n  c\n  ...\n  g\n- h\n");
        assert_eq!(changed("{}\n"), None);
        assert_eq!(changed(common).unwrap(), "");
        assert_eq!(changed(common.trim_end()).unwrap(), "");
        assert_eq!(changed_lines(b"a", b"a", Instant::now()), None);
    }
}
