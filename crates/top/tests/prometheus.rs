//! Metrics, rules and dashboard against the real Prometheus, where it is installed.

use crate::served;
use manycore_testkit::FreePort;
use manycore_top::{
    Picture, Sample,
    serve::{Access, ServeOptions, Server, Token},
};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

const TOKEN: &str = "a-token-of-the-test-0123";

/// Longest wait for Prometheus.
const LONGEST: Duration = Duration::from_mins(2);

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Whether a program is installed. Otherwise says what is skipped.
fn have(program: &str) -> bool {
    let have =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !have {
        println!("SKIPPED: {program} is not installed");
    }
    have
}

/// Runs promtool, and returns whether it is satisfied and what it said.
fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: SocketAddr, path: &str, head: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_mins(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_mins(1))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{head}\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |escaped, byte| escaped + &format!("%{byte:02X}"))
}

/// Returns the result of a query.
fn query(prometheus: SocketAddr, expression: &str) -> Result<Vec<Value>, String> {
    let body =
        get(prometheus, &format!("/api/v1/query?query={}", escape(expression)), "").ok_or("no answer")?;
    let answer: Value = serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))?;
    let result = answer["data"]["result"].as_array().cloned();
    result.ok_or_else(|| format!("{expression}: {answer}"))
}

fn number(prometheus: SocketAddr, expression: &str) -> Option<f64> {
    let result = query(prometheus, expression).ok()?;
    result.first()?["value"][1].as_str()?.parse().ok()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONGEST;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not after {LONGEST:?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Publishes pictures of an invented machine at the speed of the clock, until the sender of `stop` is dropped.
fn publish(mut server: Server, stop: &Receiver<()>) {
    let machine = served::machine(64);
    let began = Instant::now();
    let mut before: Option<Sample> = None;
    while stop.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
        let now = served::sample(&machine, Duration::from_mins(1) + began.elapsed());
        if let Some(picture) = before.as_ref().and_then(|before| Picture::new(&machine, before, &now)) {
            server.publish(&picture, &now, &[served::named()], &[]);
        }
        before = Some(now);
    }
}

fn server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let access = Access::Token(Token::new(TOKEN).unwrap());
    Server::start(listener, ServeOptions { access, ..ServeOptions::default() }).unwrap()
}

/// Starts Prometheus with our rules, which scrapes `target` each second.
fn prometheus(folder: &Path, target: SocketAddr) -> (Killed, FreePort) {
    let rules = packaging("prometheus/manycore.rules.yml").canonicalize().unwrap();
    let configuration = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\nscrape_configs:\n\
         - job_name: manycore\n  authorization: {{credentials: {TOKEN}}}\n  static_configs: [{{targets: [\"{target}\"]}}]\n",
        rules.display()
    );
    fs::write(folder.join("prometheus.yml"), configuration).unwrap();
    let port = FreePort::find().unwrap();
    let child = Command::new("prometheus")
        .arg("--config.file=prometheus.yml")
        .arg("--storage.tsdb.path=data")
        .arg("--log.level=error")
        .arg(format!("--web.listen-address={}", port.address()))
        .current_dir(folder)
        .spawn()
        .unwrap();
    (Killed(child), port)
}

/// Returns all expressions of the dashboard, and the panels that have them, with its variables replaced.
fn expressions(instance: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(packaging("grafana/manycore-top.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let replaced = expression
                .replace("$__rate_interval", "2m")
                .replace("$instance", instance)
                .replace("$level", "llc")
                .replace("$name", ".*");
            assert!(!replaced.contains('$'), "a variable is not known: {replaced}");
            found.push((panel["title"].as_str().unwrap().to_owned(), replaced));
        }
    }
    found
}

#[test]
fn rules_are_valid_and_alerts_fire_when_they_should() {
    if !have("promtool") {
        return;
    }
    let rules = packaging("prometheus/manycore.rules.yml");
    let tests = packaging("prometheus/manycore.tests.yml");
    for arguments in [["check", "rules", rules.to_str().unwrap()], ["test", "rules", tests.to_str().unwrap()]]
    {
        let (is_good, said) = promtool(&arguments, "");
        assert!(is_good, "{said}");
    }
}

#[test]
fn prometheus_gets_all_series_and_every_panel_has_data() {
    if !have("prometheus") || !have("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = server();
    let address = server.address();
    let (stop, stopped) = channel();
    let publisher = thread::spawn(move || publish(server, &stopped));
    let (_killed, port) = prometheus(folder.path(), address);
    let prometheus = port.address();
    let user = "manycore_cpu_seconds_total{level=\"machine\",mode=\"user\"}";
    wait_until("Prometheus has ten samples", || {
        number(prometheus, &format!("count_over_time({user}[2m])")).is_some_and(|count| count >= 10.0)
    });
    let text = get(address, "/metrics", &format!("Authorization: Bearer {TOKEN}\r\n")).unwrap();
    let (is_good, said) = promtool(&["check", "metrics"], &text);
    assert!(is_good && said.is_empty(), "{said}");
    // CPU n is busy for 37 n mod 101 percent of the time, 80 % of that in user mode.
    let expected: f64 = (0..64).map(|cpu| f64::from(cpu * 37 % 101) * 0.8 / 100.0).sum();
    // Pictures are late on a busy machine, but all counters of a picture are of one moment: those of all modes count its time.
    let all = "sum(rate(manycore_cpu_seconds_total{level=\"machine\"}[2m]))";
    let rate = number(prometheus, &format!("64 * sum(rate({user}[2m])) / {all}")).unwrap();
    assert!((rate / expected - 1.0).abs() < 0.01, "{rate} instead of {expected}");
    let throttled = "sum(rate(manycore_named_throttled_seconds_total[2m]))";
    let quota = number(prometheus, &format!("64 * {throttled} / {all}")).unwrap();
    assert!((quota / 0.1 - 1.0).abs() < 0.01, "{quota}");
    let mut empty = Vec::new();
    for (panel, expression) in expressions(&address.to_string()) {
        match query(prometheus, &expression) {
            Ok(result) if !result.is_empty() => {}
            Ok(_) => empty.push(format!("{panel}: {expression}: no data")),
            Err(error) => empty.push(format!("{panel}: {error}")),
        }
    }
    assert!(empty.is_empty(), "{}", empty.join("\n"));
    // The rules' interval is longer than this test: promtool has checked their values.
    wait_until("machine, 2 nodes, 2 caches and 16 clusters", || {
        number(prometheus, "count(manycore:cpu_use:ratio)") == Some(21.0)
    });
    drop(stop);
    publisher.join().unwrap();
}
