//! The distributions of requests in the outputs of load generators.

use super::*;
use crate::record::RequestTimes;

fn of(reader: &str, stdout: &str) -> Vec<RequestTimes> {
    requests(&[reader.parse().unwrap()], &output(stdout)).unwrap()
}

#[track_caller]
fn only(reader: &str, stdout: &str) -> RequestTimes {
    let mut all = of(reader, stdout);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn wrk_has_four_percentiles_and_the_maximum() {
    let times = only("wrk", printed!("wrk-https"));
    assert_eq!((times.count, times.unit.as_str()), (180_230, "ms"));
    let expected = [(0.044, 90_115), (0.045, 135_173), (0.046, 162_207), (0.153, 178_428), (1.48, 180_230)];
    assert_eq!(times.points, expected);
    assert_eq!(of("wrk", printed!("wrk")), []);
}

#[test]
fn wrk2_and_hdr_have_the_rows_of_the_spectrum() {
    let (wrk2, hdr) = (only("wrk2", printed!("wrk2")), only("hdr", printed!("hdr")));
    assert_eq!(wrk2.points[..3], [(0.212, 1), (0.703, 9997), (1.113, 49_950)]);
    assert_eq!((wrk2.count, wrk2.unit.as_str(), hdr.unit.as_str()), (99_900, "ms", ""));
    assert_eq!(wrk2.points, hdr.points);
}

/// The log of Java's `HistogramLogWriter`, with times in nanoseconds and `MAX` in milliseconds. Its own processor finds
/// 1500 values without a tag, of which the largest is 22.921.
#[test]
fn a_log_of_hdr_histogram_has_a_distribution_of_all_and_of_each_tag() {
    let all = of("hdr", printed!("hdr-log"));
    let counts: Vec<(&str, u64)> = all.iter().map(|times| (times.name.as_str(), times.count)).collect();
    assert_eq!(counts, [("", 3000), ("no tag", 1500), ("GET", 1500)]);
    let largest = all[1].points.last().unwrap().0;
    assert!((largest - 22.921).abs() < 0.01, "{largest}");
}

#[test]
fn hey_oha_and_ghz_have_percentiles_and_the_slowest_request() {
    let hey = only("hey", printed!("hey"));
    let tail = [(30.4, 297), (32.0, 298), (36.0, 299), (39.9, 300)];
    assert_eq!((hey.points[0], &hey.points[hey.points.len() - 4..]), ((1.3, 30), &tail[..]));
    // Regression test: the current version prints "99%% in 0.0304 secs", and had no percentiles.
    assert_eq!(only("hey", &printed!("hey").replace('%', "%%")), hey);
    let oha = only("oha", printed!("oha"));
    assert_eq!(
        (oha.count, oha.points[2], oha.points.last()),
        (249_506, (0.9038, 124_753), Some(&(25.491, 249_506)))
    );
    let ghz = only("ghz.requests", printed!("ghz"));
    assert_eq!((ghz.count, ghz.points.last()), (199, Some(&(69.6, 199))));
}

#[test]
fn redis_benchmark_has_a_distribution_for_each_test() {
    let one = only("redis-benchmark", printed!("redis-plain"));
    assert_eq!((one.name.as_str(), one.count), ("", 5000));
    assert_eq!(one.points[..4], [(0.015, 13), (0.031, 2676), (0.039, 3783), (0.047, 4490)]);
    let names: Vec<String> =
        of("redis-benchmark", printed!("redis-plain-two")).into_iter().map(|times| times.name).collect();
    assert_eq!(names, ["set", "get"]);
    assert_eq!(of("redis-benchmark", printed!("redis-q")), []);
}

#[test]
fn memtier_has_a_distribution_for_each_kind() {
    let text = printed!("memtier").replace(
        "SET       0.300         0.000\n",
        "SET       0.300        50.000\nSET       2.000       100.000\n---\nGET       0.200        90.000\nGET       9.000       100.000\n",
    );
    let kinds = of("memtier", &text);
    assert_eq!((kinds[0].name.as_str(), &kinds[0].points[..]), ("set", &[(0.3, 25_001), (2.0, 50_003)][..]));
    assert_eq!((kinds[1].name.as_str(), kinds[1].count), ("get", 500_005));
}

#[test]
fn impossible_distributions_name_the_reader_and_what_was_expected() {
    let refused = |reader: &str, text: &str| {
        requests(&[reader.parse().unwrap()], &output(text)).unwrap_err().to_string()
    };
    let wrk = printed!("wrk-https");
    let absurd = refused("wrk", &wrk.replace("180230 requests", "1e300 requests"));
    assert!(absurd.contains("wrk: the distribution of the requests cannot be used"), "{absurd}");
    assert!(absurd.contains("expected 1 to 2^53"), "{absurd}");
    let negative = refused("wrk", &wrk.replace("153.00us", "-153.00us"));
    assert!(negative.contains("a latency is -0.153"), "{negative}");
}

const PRINTED: [(&str, &str); 9] = [
    ("wrk", printed!("wrk-https")),
    ("wrk2", printed!("wrk2")),
    ("hdr", printed!("hdr")),
    ("hdr", printed!("hdr-log")),
    ("hey", printed!("hey")),
    ("oha", printed!("oha")),
    ("ghz", printed!("ghz")),
    ("redis-benchmark", printed!("redis-plain-two")),
    ("memtier", printed!("memtier")),
];

proptest! {
    /// Outputs that end early, repeat, or have other numbers in them.
    #[test]
    fn a_damaged_output_has_a_usable_distribution_or_a_message(
        (which, reader) in (0..PRINTED.len(), 0..PRINTED.len()),
        (at, length) in (0.0..1.0_f64, 0_usize..12),
        put in "(-|nan|1e300|999999999999999999999|%|ms|\\PC{0,6}|\n)",
    ) {
        let text: Vec<char> = PRINTED[which].1.chars().collect();
        let at = (at * text.len() as f64) as usize;
        let after = text.get(at + length..).unwrap_or_default();
        let damaged: String = text[..at].iter().copied().chain(put.chars()).chain(after.iter().copied()).collect();
        let cut: String = text[..at].iter().collect();
        for text in [damaged.as_str(), cut.as_str()] {
            if let Ok(all) = requests(&[PRINTED[reader].0.parse().unwrap()], &output(text)) {
                for times in all {
                    prop_assert!(times.points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
                    prop_assert_eq!(times.points.last().map(|last| last.1), Some(times.count));
                }
            }
        }
    }
}
