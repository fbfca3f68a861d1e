//! Tests of the built-in readers on the output of real programs. The files are unchanged output, except those
//! of `memtier`, `oha`, `ghz`, `wrk2`, UnixBench and SPEC, which have invented figures in the format of published reports.

use super::*;
use crate::record::Direction::{self, Higher, Lower};
use proptest::prelude::*;

macro_rules! printed {
    ($name:literal) => {
        include_str!(concat!("../../../tests/metrics/", $name, ".txt"))
    };
}

mod programs;
mod requests;
mod servers;

fn output(stdout: &str) -> RunOutput<'_> {
    RunOutput { stdout, stderr: "", since: SystemTime::UNIX_EPOCH }
}

fn read(given: &str, stdout: &str) -> Result<Figures, String> {
    let figures = given.parse::<MetricReader>().and_then(|reader| reader.read(&output(stdout)));
    figures.map_err(|error| error.to_string())
}

/// Checks the name, unit, direction and value of each figure.
#[track_caller]
fn gives(given: &str, stdout: &str, expected: &[(&str, &str, Direction, f64)]) {
    let figures = read(given, stdout).unwrap();
    let figures: Vec<_> =
        figures.iter().map(|(m, value)| (m.name.as_str(), m.unit.as_str(), m.better, *value)).collect();
    assert_eq!(figures, expected);
}

#[test]
fn output_of_another_program_is_named_as_such() {
    for reader in READERS {
        let stranger = if reader == "hackbench" { printed!("wrk") } else { printed!("hackbench") };
        let message = read(reader, stranger).unwrap_err();
        assert!(message.starts_with("this does not look like the output of "), "{reader}: {message}");
        assert!(message.contains("the last line is \""), "{reader}: {message}");
        assert!(read(reader, "").unwrap_err().contains("standard output is empty"), "{reader}");
    }
    assert_eq!(
        read("hackbench", "oh no\n"),
        Err("this does not look like the output of hackbench: no \"Time:\"; the last line is \"oh no\""
            .to_owned())
    );
}

#[test]
fn a_metric_option_is_a_metric_or_a_reader() {
    let parse = |given: &str| given.parse::<MetricReader>().map_err(|error| error.to_string());
    for reader in READERS {
        assert_eq!(parse(reader).unwrap().to_string(), reader);
    }
    assert_eq!(parse("p99[ms]:lower=p99 (\\S+)").unwrap().to_string(), "p99[ms]:lower=p99 (\\S+)");
    assert_eq!(
        parse("wrk=Requests: (.*)").unwrap_err(),
        "wrk is a built-in reader: choose another name for your metric"
    );
    assert!(
        parse("rps")
            .unwrap_err()
            .starts_with("\"rps\" is neither NAME=REGEX nor NAME=json:PATH nor a reader")
    );
    assert_eq!(
        read("wrk.p98", printed!("wrk")).unwrap_err(),
        "wrk found no metric \"p98\" here; it found requests, transfer, latency, errors"
    );
}

#[test]
fn figures_are_also_read_from_standard_error_and_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrk.log");
    std::fs::write(&path, printed!("wrk")).unwrap();
    let read = |given: &str| {
        let reader: MetricReader = given.parse().unwrap();
        reader.before_run();
        let output = RunOutput { stderr: "rate 8\n{\"p99\": 3}", ..output("rate 7") };
        reader.read(&output).map_err(|error| error.to_string())
    };
    let value = |given: &str| read(given).unwrap()[0].1;
    assert_eq!([value("rate=rate (.*)"), value("rate=stderr:rate (.*)")], [7.0, 8.0]);
    assert_eq!(value("p99=stderr:json:p99"), 3.0);
    let from_file = format!("wrk=file:{}:", path.display());
    assert_eq!(read(&from_file).unwrap(), read_all(&readers(&["wrk"]), &output(printed!("wrk"))).unwrap());
    let custom = read(&format!("rps=file:{}:Requests/sec: +(.*)", path.display())).unwrap();
    assert_eq!(custom[0].1, read(&from_file).unwrap()[0].1);
    assert!(
        read("x=stderr:none (.*)").unwrap_err().contains("does not match standard error; the last line is")
    );
    assert!(read("x=file:no/such.log:(.*)").unwrap_err().contains("cannot read no/such.log"));
    assert_eq!("wrk=stderr:rate (.*)".parse::<MetricReader>().unwrap_err().to_string(), parse_error("wrk=x"));
}

fn parse_error(given: &str) -> String {
    given.parse::<MetricReader>().unwrap_err().to_string()
}

fn readers(given: &[&str]) -> Vec<MetricReader> {
    given.iter().map(|reader| reader.parse().unwrap()).collect()
}

#[test]
fn the_primary_metric_is_above_zero_and_names_are_unique() {
    let text = "rate 0\nerrors 0\nscore 5\nloss -3";
    assert_eq!(
        read("rate[req/s]=rate (\\S+)", text).unwrap_err(),
        "metric rate is 0 req/s: the primary metric must be above zero to be compared"
    );
    assert!(read("loss=loss (\\S+)", text).unwrap_err().starts_with("metric loss is -3: "));
    let both = readers(&["score=score (\\S+)", "errors:lower=errors (\\S+)"]);
    assert_eq!(read_all(&both, &output(text)).unwrap().len(), 2);
    let reversed: Vec<MetricReader> = both.iter().rev().cloned().collect();
    assert!(read_all(&reversed, &output(text)).unwrap_err().to_string().starts_with("metric errors is 0: "));
    let twice = readers(&["score=score (\\S+)", "score=errors (\\S+)"]);
    assert_eq!(
        read_all(&twice, &output(text)).unwrap_err().to_string(),
        "metric score is requested twice: give one of them another name"
    );
}

/// Words that the readers look for, so that generated text gets past their first check.
const WORDS: &[&str] = &[
    "total number of events:",
    "total time:",
    "2s",
    "events per second:",
    "Latency (ms):",
    "avg:",
    "95th percentile:",
    " transferred (",
    " MiB/sec",
    "read, MiB/s:",
    "written, MiB/s:",
    "Requests/sec:",
    "Thread Stats",
    "Latency ",
    "Latency Distribution",
    "Latency Distribution (HdrHistogram - Recorded Latency)",
    "Latency distribution:",
    "Response time distribution:",
    "Status code distribution:",
    "Success rate:",
    "Count:",
    "Average:",
    "Slowest:",
    "99% in 0.1 secs",
    "[200]",
    "1/(1-Percentile)",
    "#[Max =",
    "50%",
    "Transfer/sec:",
    "MB",
    " requests in ",
    "Socket errors:",
    ",",
    "\"SET\",\"",
    "\"",
    "SET: ",
    " requests per second",
    ", p50=",
    "====== SET ======",
    "latency summary (msec):",
    "Type ",
    "Totals ",
    "Ops/sec",
    "Avg.",
    "p99",
    "Latency",
    "KB/sec",
    "stressor ",
    "cpu",
    "; running ",
    " parallel copies",
    "System Benchmarks Index Score",
    "lps (1 s, 2 samples)",
    "Time:",
    "# Running 'a/b' benchmark:",
    "ops/sec",
    "Total time:",
    "[sec]",
    "Averaged",
    "operations/sec",
    "SPECrate2017_int_base",
    "spec.cpu2017.basemean:",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_gives_finite_figures_with_unique_names_or_an_error(
        pieces in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(WORDS).prop_map(str::to_owned),
                3 => "[-+]?(0|[0-9]{1,4}(\\.[0-9]{1,3})?|1e999|1e308|inf|nan)(k|ms|GB|%)?",
                1 => "\\PC{0,4}",
            ],
            0..16,
        ),
        breaks in prop::collection::vec("\n|\r| |  ", 16),
    ) {
        let text: String = pieces.iter().zip(&breaks).flat_map(|(piece, gap)| [piece.as_str(), gap]).collect();
        for reader in READERS {
            let output = RunOutput { stderr: &text, ..output(&text) };
            let Ok(figures) = reader.parse::<MetricReader>().unwrap().read(&output) else { continue };
            let names: BTreeSet<&str> = figures.iter().map(|(metric, _)| metric.name.as_str()).collect();
            prop_assert_eq!(names.len(), figures.len(), "{}: {}", reader, text);
            prop_assert!(figures.iter().all(|(_, value)| value.is_finite()), "{}: {}", reader, text);
            prop_assert!(figures.first().is_some_and(|(_, value)| *value > 0.0), "{}: {}", reader, text);
        }
    }

    #[test]
    fn any_request_is_understood_or_refused(given in "(\\PC{0,12}|(wrk|spec|a)[.=:\\[\\]a-z*?/()]{0,10})") {
        if let Ok(reader) = given.parse::<MetricReader>() {
            prop_assert_eq!(reader.to_string(), given);
        }
    }
}
