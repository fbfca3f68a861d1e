//! The server of pictures and metrics, with samples of the running system.

use manycore_top::{
    Picture, Sample, Sampler, SamplerOptions,
    serve::{Access, Error, NamedUnit, ServeOptions, Server, Token},
};
use manycore_topology::{Machine, SysTree, read};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
};

const TOKEN: &str = "0123456789abcdef";

fn start(options: ServeOptions) -> Server {
    Server::start(TcpListener::bind("127.0.0.1:0").unwrap(), options).unwrap()
}

fn connect(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_mins(1))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    stream
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    connect(address, path).read_to_string(&mut answer).unwrap();
    answer
}

/// Takes samples of this machine, and publishes each picture.
struct Live {
    machine: Machine,
    sampler: Sampler,
    before: Sample,
}

impl Live {
    fn new() -> Self {
        let machine = read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
        let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
        let mut before = Sample::default();
        sampler.sample(&mut before).unwrap();
        Self { machine, sampler, before }
    }

    fn publish(&mut self, server: &mut Server) {
        let named = NamedUnit {
            name: "this test".to_owned(),
            processes: [std::process::id()].into(),
            ..NamedUnit::default()
        };
        let mut now = Sample::default();
        self.sampler.sample(&mut now).unwrap();
        let picture = Picture::new(&self.machine, &self.before, &now).unwrap();
        server.publish(&picture, &now, &[named], &[]);
        self.before = now;
    }
}

/// Returns the value of a series.
fn value(text: &str, series: &str) -> f64 {
    let found = text.lines().find(|line| line.starts_with(series));
    assert!(found.is_some(), "{series}: {text}");
    let line = found.unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn metrics_follow_the_running_system() {
    let mut server = start(ServeOptions::default());
    assert!(get(server.address(), "/metrics").starts_with("HTTP/1.1 503 "));
    let mut live = Live::new();
    live.publish(&mut server);
    let first = get(server.address(), "/metrics");
    let own = "manycore_named_cpu_seconds_total{name=\"this test\"}";
    let user = "manycore_cpu_seconds_total{level=\"machine\",unit=\"0\",cpus=\"all\",mode=\"user\"}";
    // The test runs until it has used more than a few ticks.
    let wanted = value(&first, own) + 0.05;
    let user_seconds = || {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        stat.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 100.0
    };
    let (before, last) = loop {
        let before = user_seconds();
        live.publish(&mut server);
        let text = get(server.address(), "/metrics");
        if value(&text, own) > wanted {
            break (before, text);
        }
    };
    assert!(value(&last, user) >= value(&first, user));
    let (found, after) = (value(&last, user), user_seconds());
    // The value is the sum over the CPUs, each in whole ticks. That is less than the kernel's sum by up to a tick for each.
    let ticks = std::fs::read_to_string("/proc/stat").unwrap().matches("\ncpu").count() as f64 / 100.0;
    let expected = before - ticks - 1e-6..after + 1e-6;
    assert!(expected.contains(&found), "{found} s, /proc/stat: {before} to {after}");
    assert_eq!(value(&last, "manycore_named_processes{"), 1.0);
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let server = start(ServeOptions::default());
    let page = get(server.address(), "/");
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    let policy = head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let nonce = policy.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert_eq!((nonce.len(), body.matches(&format!("nonce=\"{nonce}\"")).count()), (32, 2));
    assert!(!body.contains("NONCE") && !body.contains("http://") && !body.contains("https://"));
    assert!(!body.contains("innerHTML") && !body.contains("insertAdjacentHTML") && !body.contains("eval("));
    assert!(head.contains("referrer-policy: no-referrer"));
    let again = get(server.address(), "/");
    assert!(!again.contains(nonce), "each answer has another nonce");
    assert!(get(server.address(), "/none").starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_page_that_is_open_gets_pictures() {
    let mut server = start(ServeOptions { host: "a \u{1b}host".to_owned(), ..ServeOptions::default() });
    let mut live = Live::new();
    let mut lines = BufReader::new(connect(server.address(), "/events")).lines();
    // The head of the answer: from now on there is a viewer.
    while !lines.next().unwrap().unwrap().is_empty() {}
    live.publish(&mut server);
    let data = lines.find_map(|line| line.unwrap().strip_prefix("data: ").map(str::to_owned)).unwrap();
    let picture: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(picture["host"], "a \u{fffd}host");
    assert_eq!(picture["cpus"].as_array().unwrap().len(), live.before.cpus.len());
    assert_eq!(picture["named"][0]["name"], "this test");
    let pids = picture["processes"].as_array().unwrap().iter().map(|row| row["pid"].as_u64().unwrap());
    assert!(pids.count() >= 1);
}

#[test]
fn other_hosts_need_a_token() {
    let everywhere = || TcpListener::bind("0.0.0.0:0").unwrap();
    let refused = Server::start(everywhere(), ServeOptions::default());
    assert!(matches!(refused, Err(Error::NeedsToken(_))));
    let access = Access::Token(Token::new(TOKEN).unwrap());
    let server = Server::start(everywhere(), ServeOptions { access, ..ServeOptions::default() }).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
    for path in ["/", "/events", "/metrics"] {
        assert!(get(address, path).starts_with("HTTP/1.1 401 "), "{path}");
    }
    assert!(get(address, &format!("/?token={TOKEN}")).starts_with("HTTP/1.1 200 "));
}
