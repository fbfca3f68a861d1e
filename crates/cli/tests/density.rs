//! Tests of `density` with the real binary and real servers.

use crate::common::place::TestHome;
use manycore_linux::tasks;
use manycore_testkit::FreePort;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

/// A server that starts a process which leaves its process group.
const SERVER: &str = "sh -c '(setsid sleep 1234 &); exec python3 -m http.server --bind {address} {port}'";

/// Returns the first of a few ports that are free and that no other test uses.
fn port() -> u16 {
    FreePort::find_run(4).unwrap()
}

/// Returns the processes of the servers of this test.
fn servers(port: u16) -> Vec<u32> {
    let is_of = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&format!("\0{port}\0"))
    };
    tasks::all().into_iter().filter(is_of).collect()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_mins(3);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn an_answer_is_saved_and_nothing_is_left() {
    let (home, port) = (TestHome::new(), port());
    let ports = port.to_string();
    fs::write(home.path("spec.toml"), format!("service = {SERVER:?}\nload = 'http:/'\nmax = 2\nports = 1\n"))
        .unwrap();
    let line = [
        "density",
        "spec.toml",
        "--ports",
        &ports,
        "--rate",
        "50/s",
        "--bound",
        "p50 < 60s",
        "--slice",
        "1s",
    ];
    let line = [&line[..], &["--quiet", "--out", "found", "--force", "--format", "json"]].concat();
    let Some(run) = home.undisturbed(|| home.run(&line)) else { return };
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(0), "{said}");
    let printed: Value = serde_json::from_slice(&run.stdout).unwrap();
    let answer = &printed["density"]["variants"][0]["answer"];
    assert_eq!((&answer["low"], &answer["high"]), (&Value::from(2), &Value::Null), "{answer}");
    let text = home.run(&["report", "found"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("At least 2 instances fit within p50 < 60000ms"), "{text}");
    assert!(home.path("found/report.html").is_file());
    assert!(servers(port).is_empty() && home.is_clean());
}

/// The cleanup process ends what a killed measurement has started, also what has left its process group.
#[test]
fn nothing_is_left_after_sigkill() {
    let (home, port) = (TestHome::new(), port());
    let ports = port.to_string();
    let line = [
        "density",
        "--service",
        SERVER,
        "--load",
        "http:/",
        "--max",
        "2",
        "--ports",
        &ports,
        "--rate",
        "5/s",
    ];
    let mut running = home.command(&line).spawn().unwrap();
    until("no instance serves", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    running.kill().unwrap();
    running.wait().unwrap();
    until("a server is left", || servers(port).is_empty());
    until("a journal is left", || home.is_clean());
}

/// The command is killed at the first Ctrl-C; before, the measurement waited for its end.
#[test]
fn ctrl_c_ends_the_preparation_of_an_instance() {
    let (home, port) = (TestHome::new(), port());
    let (ports, begun) = (port.to_string(), home.path("begun"));
    let prepare = format!("sh -c 'touch {}; exec sleep 4321'", begun.display());
    let line = ["density", "--service", SERVER, "--load", "http:/", "--ports", &ports, "--prepare", &prepare];
    let mut running = home.command(&line).spawn().unwrap();
    until("the preparation does not begin", || begun.exists());
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert!(servers(port).is_empty() && home.is_clean());
}

#[test]
fn wrong_requests_have_their_exit_codes_and_say_what_to_do() {
    let (home, port) = (TestHome::new(), port());
    let ports = port.to_string();
    let density = |code: i32, options: &[&str]| {
        let said = home.stderr_of(code, &[&["density", "--quiet", "--ports", &ports][..], options].concat());
        assert!(home.is_clean(), "{options:?}");
        said
    };
    let said = density(2, &["--service", "redis-server", "--load", "http:/"]);
    assert!(said.contains("no {port}"), "{said}");
    let said = density(2, &["--service", "x {port}", "--load", "nothing {port}"]);
    assert!(said.contains("--metric wrk"), "{said}");
    // A client that does not follow them would be measured at another rate.
    for (option, value) in [("--rate", "500/s"), ("--connections", "2"), ("--arrivals", "constant")] {
        let said =
            density(2, &["--service", "x {port}", "--load", "wrk http://{address}:{port}", option, value]);
        assert!(said.contains(&format!("{option} is for the loads redis:COMMAND and http:PATH")), "{said}");
    }
    let said =
        density(2, &["--service", "x {port}", "--load", "http:/", "--ports", "65000", "--max", "1000"]);
    assert!(said.contains("--ports"), "{said}");
    let said = density(4, &["--service", "no-such-program {port}", "--load", "http:/"]);
    assert!(said.contains("no-such-program"), "{said}");
    let said = density(4, &["--service", "sh -c 'echo broken >&2; exit 3; {port}'", "--load", "http:/"]);
    assert!(said.contains("exit status: 3") && said.contains("broken"), "{said}");
    let _used = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let said = density(2, &["--service", SERVER, "--load", "http:/"]);
    assert!(said.contains("in use by another program: choose others with --ports"), "{said}");
    fs::write(home.path("wrong.toml"), "mx = 3\n").unwrap();
    let said = density(2, &["wrong.toml"]);
    assert!(said.contains("'mx' is no option of density"), "{said}");
}

/// Regression: another figure was taken, such as p99 for p95 of wrk, or that of the first kind of requests.
#[test]
fn figures_that_a_client_does_not_show_are_refused() {
    let (home, port) = (TestHome::new(), port());
    let ports = port.to_string();
    let said = |output: &str, options: &[&str]| {
        let output = format!("{}/../experiment/tests/metrics/{output}", env!("CARGO_MANIFEST_DIR"));
        let load = format!("sh -c 'cat {output}; : {{port}}'");
        let density = ["density", "--quiet", "--ports", &ports, "--service", SERVER, "--load", &load];
        let run = home.run(&[&density[..], &["--max", "2", "--pairs", "2"], options].concat());
        assert!(home.is_clean() && servers(port).is_empty());
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let (code, words) = said("wrk-latency.txt", &["--metric", "wrk", "--bound", "p95 < +10%"]);
    assert!(code == Some(4) && words.contains("its distribution has no p95, only p90"), "{code:?} {words}");
    let (code, words) = said("redis-plain-two.txt", &["--metric", "redis-benchmark"]);
    assert!(code == Some(4) && words.contains("several kinds of requests (set, get)"), "{code:?} {words}");
    let (code, words) = said("redis-plain.txt", &["--metric", "redis-benchmark"]);
    assert_eq!(code, Some(0), "{words}");
    let named = home.stderr_of(
        2,
        &["density", "--quiet", "--service", SERVER, "--load", "wrk http://{address}:{port}/{name}"],
    );
    assert!(named.contains("has no {name}"), "{named}");
}
