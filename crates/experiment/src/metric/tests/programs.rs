//! Readers of programs that load the machine itself.

use super::*;
use std::{fs, time::Duration};

#[test]
fn sysbench_gives_the_rate_of_its_test_and_latencies() {
    let events = |value| ("events", "events/s", Higher, value);
    let latency = |value| ("latency", "ms", Lower, value);
    let p95 = |value| ("p95", "ms", Lower, value);
    gives("sysbench", printed!("sysbench-cpu"), &[events(2043.05), latency(0.96), p95(4.49)]);
    gives(
        "sysbench",
        printed!("sysbench-memory"),
        &[("throughput", "MiB/s", Higher, 3097.10), events(3_184_986.0 / 1.0024), latency(0.0), p95(0.0)],
    );
    gives(
        "sysbench",
        printed!("sysbench-fileio"),
        &[
            ("throughput", "MiB/s", Higher, 134.02 + 89.34),
            ("reads", "reads/s", Higher, 8577.07),
            ("writes", "writes/s", Higher, 5718.05),
            ("fsyncs", "fsyncs/s", Higher, 575.52),
            events(16016.0 / 1.0749),
            latency(0.07),
            p95(0.02),
        ],
    );
    gives("sysbench", printed!("sysbench-threads"), &[events(798.0 / 1.0010), latency(2.51), p95(3.82)]);
    gives("sysbench", printed!("sysbench-mutex"), &[events(2.0 / 0.7188), latency(689.05), p95(719.92)]);
}

#[test]
fn sysbench_gives_transactions_of_oltp_and_the_rate_of_its_next_version() {
    let oltp = "    transactions:      6230   (622.26 per sec.)\n    queries:    124600 (12445.17 per sec.)\n\
                total time: 10.0119s\ntotal number of events: 6230\n";
    gives(
        "sysbench",
        oltp,
        &[
            ("transactions", "transactions/s", Higher, 622.26),
            ("queries", "queries/s", Higher, 12445.17),
            ("events", "events/s", Higher, 6230.0 / 10.0119),
        ],
    );
    let next = "Throughput:\n    events/s (eps):   2163.0\n  total time: 2s\ntotal number of events: 4361\n";
    gives("sysbench.events", next, &[("events", "events/s", Higher, 2163.0)]);
}

#[test]
fn stress_ng_gives_bogo_operations_of_each_stressor() {
    let brief = printed!("stress-ng-brief");
    let expected = read("stress-ng", brief).unwrap();
    assert_eq!(expected.iter().map(|(metric, _)| metric.name.as_str()).collect::<Vec<_>>(), ["cpu", "pipe"]);
    let stderr = RunOutput { stderr: brief, ..output("") };
    assert_eq!("stress-ng".parse::<MetricReader>().unwrap().read(&stderr), Ok(expected));
    let full = printed!("stress-ng-metrics");
    assert_eq!(read("stress-ng", full).unwrap()[0].0.name, "sem");
    let message = read("stress-ng", "").unwrap_err();
    assert!(message.contains("add --metrics-brief and --stdout"), "{message}");
}

#[test]
fn unixbench_gives_index_and_rates_of_each_pass() {
    let report = printed!("unixbench");
    gives("unixbench.copies2.index", report, &[("copies2.index", "", Higher, 1494.6)]);
    let single = &report[..report.rfind("----").unwrap()];
    gives(
        "unixbench",
        single,
        &[
            ("index", "", Higher, 594.3),
            ("dhry2reg", "lps", Higher, 20_000_000.5),
            ("whetstone-double", "MWIPS", Higher, 4000.5),
            ("context1", "lps", Higher, 40_000.0),
            ("shell1", "lpm", Higher, 4240.0),
        ],
    );
}

#[test]
fn hackbench_gives_its_time() {
    gives("hackbench", printed!("hackbench"), &[("time", "s", Lower, 0.132)]);
    let twice = printed!("hackbench").repeat(2);
    assert_eq!(
        read("hackbench", &twice),
        Err("hackbench: time is printed more than once; measure one run of the program at a time".to_owned())
    );
}

#[test]
fn perf_bench_gives_times_and_rates() {
    let pipe = [
        ("time", "s", Lower, 0.070),
        ("latency", "usecs/op", Lower, 3.5296),
        ("operations", "ops/s", Higher, 283_318.0),
    ];
    gives("perf-bench", printed!("perf-messaging"), &[("time", "s", Lower, 0.164)]);
    gives("perf-bench", printed!("perf-pipe"), &pipe);
    gives("perf-bench.operations", printed!("perf-syscall"), &[("operations", "ops/s", Higher, 5_089_835.0)]);
    gives("perf-bench", printed!("perf-futex-hash"), &[("operations", "ops/s", Higher, 1_738_240.0)]);
    gives("perf-bench", printed!("perf-epoll"), &[("operations", "ops/s", Higher, 333_047.0)]);
    gives("perf-bench", printed!("perf-futex-wake"), &[("time", "ms", Lower, 0.384)]);
    gives("perf-bench", printed!("perf-numa"), &[("throughput", "GB/s", Higher, 20.607)]);
    gives("perf-bench.default", printed!("perf-memcpy"), &[("default", "GB/s", Higher, 17.376_557)]);
    gives("perf-bench.pipe.time", printed!("perf-sched-all"), &[("pipe.time", "s", Lower, 4.311)]);
    let message = read("perf-bench", printed!("perf-pipe-simple")).unwrap_err();
    assert!(message.contains("default format"), "{message}");
}

#[test]
fn spec_gives_scores_that_runcpu_prints() {
    let int = [("SPECrate2017_int_base", "", Higher, 613.0), ("SPECrate2017_int_peak", "", Higher, 647.0)];
    gives("spec", printed!("spec-2017"), &int);
    gives("spec", printed!("spec-2006"), &[("SPECfp_base2006", "", Higher, 41.5)]);
    gives("spec", "spec.cpu2017.basemean: 5.25\nspec.cpu2017.peakmean: 0\n", &[("base", "", Higher, 5.25)]);
}

#[test]
fn spec_gives_scores_of_the_newest_result_file_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let write = |name: &str, text: &str, seconds: u64| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let read = |pattern: &str, since: u64| {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(since);
        format!("spec={place}/{pattern}")
            .parse::<MetricReader>()
            .unwrap()
            .read(&RunOutput { since, ..output("") })
            .map_err(|error| error.to_string())
    };
    write("CPU2017.001.fprate.csv", "SPECrate2017_fp_base,20.5,,20.5\n", 1000);
    write("CPU2017.002.fprate.csv", include_str!("../../../tests/metrics/spec-2017.csv"), 2000);
    write("CPU2017.003.log", "not a result", 3000);
    let value = read("CPU2017.*.fprate.csv", 1500).unwrap();
    assert_eq!((value[0].0.name.as_str(), value[0].1, value.len()), ("SPECrate2017_fp_base", 36.742_346, 1));
    assert_eq!(read("CPU2017.00?.fprate.csv", 2000).unwrap(), value);
    assert!(read("*.csv", 2500).unwrap_err().contains("is older than the run"));
    assert!(read("*.rsf", 0).unwrap_err().ends_with("*.rsf: no file matches after the run"));
    assert!(read("*.log", 0).unwrap_err().contains("contains no SPEC CPU score"));
    assert!(read("*/x.csv", 0).unwrap_err().ends_with("not its directory"));
}
