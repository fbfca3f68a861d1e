//! Readers of programs that load a server.

use super::*;

#[test]
fn wrk_gives_rate_transfer_and_latency() {
    gives(
        "wrk",
        printed!("wrk"),
        &[
            ("requests", "requests/s", Higher, 39_987.92),
            ("transfer", "MiB/s", Higher, 165.36),
            ("latency", "ms", Lower, 409.64 * 1e-3),
            ("errors", "", Lower, 0.0),
        ],
    );
    gives(
        "wrk",
        printed!("wrk-latency"),
        &[
            ("requests", "requests/s", Higher, 44_145.74),
            ("transfer", "MiB/s", Higher, 182.55),
            ("latency", "ms", Lower, 620.11 * 1e-3),
            ("p50", "ms", Lower, 132.0 * 1e-3),
            ("p75", "ms", Lower, 266.0 * 1e-3),
            ("p90", "ms", Lower, 2.36),
            ("p99", "ms", Lower, 4.49),
            ("errors", "", Lower, 0.0),
        ],
    );
}

#[test]
fn wrk_with_failed_requests_is_rejected() {
    let message = |errors: &str, requests: &str| {
        Err(format!(
            "wrk counted {errors} socket errors and responses other than 2xx and 3xx in {requests} requests, so its \
             rate is not that of successful responses; check that the server is up and the address is right"
        ))
    };
    assert_eq!(read("wrk", printed!("wrk-non2xx")), message("66162", "66162"));
    assert_eq!(read("wrk", printed!("wrk-refused")), message("31642", "0"));
    let few = printed!("wrk")
        .replace("Requests/sec", "  Socket errors: connect 0, read 3, write 0, timeout 4\nRequests/sec");
    gives("wrk.requests", &few, &[("requests", "requests/s", Higher, 39_987.92)]);
    let errors = read_all(&readers(&["wrk.requests", "wrk.errors"]), &output(&few)).unwrap();
    assert_eq!(errors[1].1, 7.0);
}

#[test]
fn redis_benchmark_gives_requests_and_latencies_in_each_of_its_formats() {
    let requests = |value| ("requests", "requests/s", Higher, value);
    gives("redis-benchmark", printed!("redis-q"), &[requests(58_139.53), ("p50", "ms", Lower, 0.047)]);
    gives("redis-benchmark", printed!("redis-q-script"), &[requests(59_523.81), ("p50", "ms", Lower, 0.047)]);
    gives(
        "redis-benchmark",
        printed!("redis-plain"),
        &[
            requests(79_365.08),
            ("latency", "ms", Lower, 0.034),
            ("p50", "ms", Lower, 0.031),
            ("p95", "ms", Lower, 0.063),
            ("p99", "ms", Lower, 0.095),
        ],
    );
}

#[test]
fn redis_benchmark_names_its_tests_where_there_are_several() {
    let names = |text| -> Vec<String> {
        read("redis-benchmark", text).unwrap().into_iter().map(|(metric, _)| metric.name).collect()
    };
    assert_eq!(names(printed!("redis-q-two")), ["set.requests", "set.p50", "get.requests", "get.p50"]);
    let fields = ["requests", "latency", "p50", "p95", "p99"];
    let both: Vec<String> =
        ["set", "get"].iter().flat_map(|test| fields.map(|field| format!("{test}.{field}"))).collect();
    assert_eq!(names(printed!("redis-csv")), both);
    assert_eq!(names(printed!("redis-plain-two")), both);
    gives("redis-benchmark.get.p99", printed!("redis-csv"), &[("get.p99", "ms", Lower, 0.071)]);
    gives(
        "redis-benchmark.lrange_100.requests",
        printed!("redis-csv-odd"),
        &[("lrange_100.requests", "requests/s", Higher, 30_120.48)],
    );
}

#[test]
fn redis_benchmark_6_0_gives_requests() {
    let requests = |name| (name, "requests/s", Higher, 90_909.09);
    gives("redis-benchmark", "\"SET\",\"90909.09\"\n", &[requests("requests")]);
    gives("redis-benchmark", "SET: 90909.09 requests per second\n\n", &[requests("requests")]);
    let plain =
        "====== SET ======\n  100 requests completed in 0.01 seconds\n\n90909.09 requests per second\n";
    gives("redis-benchmark", plain, &[requests("requests")]);
    assert_eq!(
        read("redis-benchmark", "\"SET\",\"-nan\"\n"),
        Err("redis-benchmark: SET has \"-nan\", not a finite number".to_owned())
    );
}

#[test]
fn memtier_gives_its_totals() {
    let totals = [
        ("operations", "ops/s", Higher, 55_000.75),
        ("latency", "ms", Lower, 1.10909),
        ("p50", "ms", Lower, 0.895),
        ("p99", "ms", Lower, 4.127),
        ("p99.9", "ms", Lower, 9.663),
        ("throughput", "KB/s", Higher, 1600.3),
    ];
    gives("memtier", printed!("memtier"), &totals);
    let report = printed!("memtier");
    let best = report.replace("ALL STATS", "BEST RUN RESULTS").replace("55000.75", "99999.99");
    let runs = format!("{best}\n{}", report.replace("ALL STATS", "AGGREGATED AVERAGE RESULTS (2 runs)"));
    gives("memtier", &runs, &totals);
    assert!(read("memtier", &best.repeat(2)).unwrap_err().contains("operations is printed more than once"));
    let old = "Type   Ops/sec  Hits/sec  Misses/sec  Latency  KB/sec\nTotals  100.5  0.00  9.1  1.5  2.25\n";
    let kb = ("throughput", "KB/s", Higher, 2.25);
    gives("memtier", old, &[("operations", "ops/s", Higher, 100.5), ("latency", "ms", Lower, 1.5), kb]);
}

#[test]
fn wrk2_gives_the_percentiles_of_its_histogram() {
    let figures = [
        ("requests", "requests/s", Higher, 1999.21),
        ("transfer", "MiB/s", Higher, 1.64),
        ("latency", "ms", Lower, 1.14),
        ("p50", "ms", Lower, 1.11),
        ("p75", "ms", Lower, 1.35),
        ("p90", "ms", Lower, 1.61),
        ("p99", "ms", Lower, 2.14),
        ("p99.9", "ms", Lower, 2.34),
        ("p99.99", "ms", Lower, 2.46),
        ("p99.999", "ms", Lower, 2.5),
        ("max", "ms", Lower, 2.54),
        ("errors", "", Lower, 0.0),
    ];
    gives("wrk2", printed!("wrk2"), &figures);
    assert!(
        read("wrk2", printed!("wrk-latency"))
            .unwrap_err()
            .starts_with("this does not look like the output of wrk2")
    );
}

#[test]
fn hey_oha_and_ghz_give_requests_and_percentiles() {
    let hey = [
        ("requests", "requests/s", Higher, 595.8123),
        ("latency", "ms", Lower, 6.4),
        ("p10", "ms", Lower, 1.3),
        ("p25", "ms", Lower, 2.2),
        ("p50", "ms", Lower, 5.2),
        ("p75", "ms", Lower, 8.9),
        ("p90", "ms", Lower, 11.9),
        ("p95", "ms", Lower, 15.1),
        ("p99", "ms", Lower, 30.4),
        ("max", "ms", Lower, 39.9),
        ("errors", "", Lower, 0.0),
    ];
    let found = read("hey", printed!("hey")).unwrap();
    assert_eq!(found.len(), hey.len());
    for ((metric, value), (name, unit, better, expected)) in found.iter().zip(hey) {
        assert_eq!((metric.name.as_str(), metric.unit.as_str(), metric.better), (name, unit, better));
        assert!((value - expected).abs() < 1e-9, "{name}: {value}");
    }
    gives("oha.p99.9", printed!("oha"), &[("p99.9", "ms", Lower, 8.1132)]);
    gives("oha.max", printed!("oha"), &[("max", "ms", Lower, 25.491)]);
    gives("oha.requests", printed!("oha"), &[("requests", "requests/s", Higher, 49_874.1)]);
    gives("ghz.p95", printed!("ghz"), &[("p95", "ms", Lower, 55.45)]);
    assert_eq!(
        read_all(&readers(&["ghz.requests", "ghz.errors"]), &output(printed!("ghz"))).unwrap()[1].1,
        1.0
    );
    for (reader, other) in [("hey", "oha"), ("oha", "hey"), ("ghz", "oha"), ("hey", "ghz")] {
        let text = match other {
            "oha" => printed!("oha"),
            "ghz" => printed!("ghz"),
            _ => printed!("hey"),
        };
        assert!(
            read(reader, text).unwrap_err().contains("does not look like the output of"),
            "{reader} {other}"
        );
    }
}

#[test]
fn hey_with_failed_requests_is_rejected() {
    assert_eq!(
        read("hey", printed!("hey-404")),
        Err("hey counted 40 errors and 0 successful responses, so its rate is not that of successful responses; check \
             that the server is up and the address is right"
            .to_owned())
    );
    let refused = printed!("hey")
        .replace("  [200]\t300 responses\n", "\nError distribution:\n  [20]\tGet \"x\": refused\n");
    assert!(read("hey", &refused).unwrap_err().starts_with("hey counted 20 errors and 0 successful"));
}

#[test]
fn a_table_of_hdr_histogram_gives_the_percentiles_that_it_reaches() {
    let figures = [
        ("p99", "", Lower, 2.141),
        ("p50", "", Lower, 1.113),
        ("p75", "", Lower, 1.610),
        ("p90", "", Lower, 1.610),
        ("p99.9", "", Lower, 2.541),
        ("p99.99", "", Lower, 2.541),
        ("latency", "", Lower, 1.138),
        ("max", "", Lower, 2.540),
    ];
    gives("hdr", printed!("hdr"), &figures);
    let few = "Value     Percentile TotalCount 1/(1-Percentile)\n\n 1.0 0.5 5 2.0\n 3.0 1.0 10 inf\n";
    let names: Vec<String> = read("hdr", few).unwrap().into_iter().map(|(metric, _)| metric.name).collect();
    assert_eq!(names, ["p50", "p75", "p90", "max"]);
}
