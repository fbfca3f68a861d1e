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
