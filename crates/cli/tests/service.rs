//! Services that `manycore compare --service` starts, moves and stops.

use crate::common::{
    first_cpu, last_cpu,
    study::{WorkFolder, end_of, findings, has, running, signal, unique, until, words},
};
use manycore_testkit::FreePort;
use std::{collections::BTreeSet, fs, net::TcpListener};

/// Returns the command line of a shell service, which is ready when the file `up` exists.
fn shell(script: &str) -> String {
    format!("sh -c '{script}'")
}

const READY: [&str; 2] = ["--ready", "test -e up"];

fn with<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

#[test]
fn a_service_keeps_running_while_its_placement_is_switched() {
    if !has("python3") {
        return;
    }
    let (work, free) = (WorkFolder::new(), FreePort::find().unwrap());
    let port = free.number().to_string();
    let [first, last] = [first_cpu(), last_cpu()].map(|cpu| format!("cpus={cpu}"));
    let server = format!(
        "python3 -c \"import http.server as s, os; open('pids','a').write(str(os.getpid())); \
        s.HTTPServer(('127.0.0.1', {port}), s.SimpleHTTPRequestHandler).serve_forever()\""
    );
    // The load makes no requests; it only notes where the service may run.
    let load = "grep Cpus_allowed_list /proc/$(cat pids)/status >> places";
    let place = ["--a", &first, "--b", &last, "--pairs", "3", "--timeout", "10s"];
    let service = ["--service", &server, "--ready-port", &port, "--", "sh", "-c", load];
    let judged = work.evaluated(&with(&[&["compare"], &place, &service]));
    let places = fs::read_to_string(work.path("places")).unwrap();
    let seen: BTreeSet<&str> = places.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(seen, BTreeSet::from([&first[5..], &last[5..]]), "{places}");
    assert_eq!(places.lines().count(), 10);
    let pid: u32 = fs::read_to_string(work.path("pids")).unwrap().parse().unwrap();
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    assert!(!findings(&judged).contains("left a process running"), "{judged}");
    let metrics = work.record()["experiments"][0]["metrics"].to_string();
    assert!(metrics.contains("service_cpu"), "{metrics}");
    assert!(!work.report().is_empty());
}

#[test]
fn a_running_service_is_placed_and_gets_its_cpus_back() {
    let work = WorkFolder::new();
    let mut service = std::process::Command::new("sleep").arg(unique()).spawn().unwrap();
    let pid = service.id().to_string();
    let cpus = || manycore_linux::affinity::of_thread(service.id()).unwrap();
    let before = cpus();
    let [first, last] = [first_cpu(), last_cpu()].map(|cpu| format!("cpus={cpu}"));
    let load = format!("grep Cpus_allowed_list /proc/{pid}/status >> places");
    let place = ["compare", "--service-pid", &pid, "--pairs", "3"];
    work.evaluated(&with(&[&place, &["--a", &first, "--b", &last, "--", "sh", "-c", &load]]));
    let places = fs::read_to_string(work.path("places")).unwrap();
    let seen: BTreeSet<&str> = places.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(seen, BTreeSet::from([&first[5..], &last[5..]]), "{places}");
    assert_eq!(cpus(), before);
    // After a failure, too.
    let said = work.run(&with(&[&place, &["--a", &first, "--", "false"]]));
    assert_eq!((said.status.code(), cpus()), (Some(4), before));
    service.kill().unwrap();
    service.wait().unwrap();
    let said = work.run(&with(&[&place, &["--", "true"]]));
    assert_eq!(said.status.code(), Some(2), "{}", words(&said));
}

#[test]
fn a_load_on_the_cpus_of_the_service_is_warned_of() {
    let work = WorkFolder::new();
    let server = shell(&format!("touch up; exec sleep {}", unique()));
    let start = ["compare", "--pairs", "1", "--service", &server, "--load-cpus"];
    let first = first_cpu();
    let place = format!("cpus={first}");
    let run = work.run(&with(&[&start, &[&first, "--a", &place, "--b", &place], &READY, &["--", "true"]]));
    let said = words(&run);
    assert!(said.contains(&format!("WARNING: the load and the service share CPU {first}")), "{said}");
    assert!(work.record()["notes"].to_string().contains("WARNING: the load"), "{}", work.record()["notes"]);
}

#[test]
fn redis_is_measured_in_both_placements() {
    if !has("redis-server") || !has("redis-benchmark") {
        return;
    }
    let (work, free) = (WorkFolder::new(), FreePort::find().unwrap());
    let port = free.number().to_string();
    let server = format!("redis-server --port {port} --save '' --appendonly no");
    let load = ["redis-benchmark", "-p", &port, "-q", "-t", "get", "-n", "2000"];
    let service = ["--service", &server, "--ready-port", &port, "--metric", "redis-benchmark", "--"];
    let first = format!("cpus={}", first_cpu());
    let judged = work.evaluated(&with(&[&["compare", "--pairs", "2", "--a", &first], &service, &load]));
    assert!(judged["comparison"]["others"][0]["metrics"].to_string().contains("service_cpu"), "{judged}");
    assert!(running(&port).is_empty());
}

#[test]
fn a_service_is_ended_when_its_load_fails() {
    let (work, time) = (WorkFolder::new(), unique());
    let server = shell(&format!("touch up; exec sleep {time}"));
    let said = work.refused(4, &with(&[&["compare", "--service", &server], &READY, &["--", "false"]]));
    assert!(said.contains("(false) failed (exit status: 1)"), "{said}");
    assert!(running(&time).is_empty());
    let said = work.refused(3, &with(&[&["compare", "--service", &server], &["--", "no-such-load"]]));
    assert!(said.contains("no-such-load"), "{said}");
    assert!(running(&time).is_empty());
}

#[test]
fn a_service_is_ended_by_ctrl_c() {
    let (work, time, load) = (WorkFolder::new(), unique(), unique());
    let server = shell(&format!("touch up; sleep {time} & wait"));
    let child = work.start(&with(&[&["compare", "--service", &server], &READY, &["--", "sleep", &load]]));
    until("the load", || !running(&load).is_empty());
    signal(child.id(), "INT");
    let (ended, said, _) = end_of(child);
    assert_eq!(ended, Some(130), "{said}");
    assert!(running(&time).is_empty() && running(&load).is_empty());
}

#[test]
fn a_service_that_is_not_up_yet_is_ended_by_ctrl_c() {
    let (work, time) = (WorkFolder::new(), unique());
    let server = format!("sleep {time}");
    let child = work.start(&["compare", "--service", &server, "--ready", "false", "--", "true"]);
    until("the service", || !running(&time).is_empty());
    signal(child.id(), "INT");
    assert_eq!(end_of(child).0, Some(130));
    assert!(running(&time).is_empty());
}

#[test]
fn a_service_that_ends_in_the_middle_is_reported_with_its_last_line() {
    let work = WorkFolder::new();
    let server = shell("touch up; until test -e enough; do sleep 0.01; done; echo out of memory >&2; exit 9");
    let load = "echo >> runs; test $(wc -l < runs) -le 7 || touch enough; sleep 0.1";
    let arguments = with(&[&["compare", "--service", &server], &READY, &["--", "sh", "-c", load]]);
    let run = work.run(&arguments);
    assert_eq!(run.status.code(), Some(4), "{}", words(&run));
    assert!(words(&run).contains("ended (exit status: 9): out of memory"), "{}", words(&run));
    assert!(work.record()["experiments"][0]["samples"].as_array().unwrap().len() >= 2);
    assert!(!work.report().is_empty());
}

#[test]
fn a_service_that_ends_at_once_or_does_not_exist_is_reported() {
    let server = shell("echo no such port >&2; exit 1");
    let said =
        WorkFolder::new().refused(4, &["compare", "--service", &server, "--ready-port", "1", "--", "true"]);
    assert!(said.contains("ended (exit status: 1): no such port"), "{said}");
    let said = WorkFolder::new().refused(3, &["compare", "--service", "no-such-service", "--", "true"]);
    assert!(said.contains("cannot start the service no-such-service"), "{said}");
}

#[test]
fn a_port_in_use_is_refused() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let arguments = ["compare", "--service", "sleep 1000", "--ready-port", &port, "--", "true"];
    let said = WorkFolder::new().refused(2, &arguments);
    assert!(said.contains(&format!("port {port} is already in use")), "{said}");
}

#[test]
fn a_service_that_does_not_become_ready_is_ended() {
    let (free, probe) = (FreePort::find().unwrap(), unique());
    let port = free.number().to_string();
    let waiting = format!("sleep {probe}");
    for ready in [["--ready-port", &port], ["--ready", "false"], ["--ready", &waiting]] {
        let time = unique();
        let server = format!("sleep {time}");
        let start = ["compare", "--timeout", "300ms", "--service", &server];
        let said = WorkFolder::new().refused(4, &with(&[&start, &ready, &["--", "true"]]));
        assert!(said.contains("is not ready after 0.3 s"), "{said}");
        assert!(running(&time).is_empty() && running(&probe).is_empty());
    }
}

#[test]
fn a_service_in_the_background_is_measured_and_ended() {
    let (work, time) = (WorkFolder::new(), unique());
    let server = shell(&format!("setsid sleep {time} & touch up"));
    let load = "pgrep -f \"sleep $0\" > /dev/null; ls /proc/*/cmdline | wc -l > all; sleep 0.02";
    let start = ["compare", "--pairs", "3", "--service", &server];
    let judged = work.evaluated(&with(&[&start, &READY, &["--", "sh", "-c", load]]));
    assert!(!findings(&judged).contains("left a process running"), "{judged}");
    assert!(running(&time).is_empty());
}

/// The launcher is still running when the first run begins. Its daemon becomes our child in the middle of
/// that run.
#[test]
fn a_service_that_goes_into_the_background_late_is_not_ended_as_a_leftover() {
    let (work, time) = (WorkFolder::new(), unique());
    let wait = "until test -e first; do sleep 0.01; done";
    let server = shell(&format!("echo $$ > launcher; touch up; {wait}; setsid sleep {time} &"));
    let load = "touch first; while kill -0 $(cat launcher) 2> /dev/null; do sleep 0.01; done";
    let start = ["compare", "--pairs", "2", "--service", &server];
    let judged = work.evaluated(&with(&[&start, &READY, &["--", "sh", "-c", load]]));
    assert!(!findings(&judged).contains("left a process running"), "{judged}");
    assert!(running(&time).is_empty());
}

#[test]
fn leftovers_of_the_load_are_distinguished_from_the_service() {
    let (work, time, stray) = (WorkFolder::new(), unique(), unique());
    let server = shell(&format!("setsid sleep {time} & touch up"));
    let load = format!("setsid sleep {stray} & exit 0");
    let start = ["compare", "--pairs", "2", "--service", &server];
    let judged = work.evaluated(&with(&[&start, &READY, &["--", "sh", "-c", &load]]));
    assert!(findings(&judged).contains("left a process running ("), "{judged}");
    assert!(running(&time).is_empty() && running(&stray).is_empty());
}

#[test]
fn nginx_in_the_background_is_found_and_ended() {
    if !has("nginx") {
        return;
    }
    let (work, free) = (WorkFolder::new(), FreePort::find().unwrap());
    let port = free.number().to_string();
    let folder = work.0.path().display().to_string();
    let configuration = format!(
        "pid {folder}/pid; error_log stderr; worker_processes 2; events {{}} \
         http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
    );
    fs::write(work.path("nginx.conf"), configuration).unwrap();
    let server = format!("/usr/sbin/nginx -c {folder}/nginx.conf");
    // It binds its port before it goes into the background, so the first run may begin before that.
    let load = "until test -s pid; do sleep 0.01; done; cp pid seen; kill -0 $(cat pid)";
    let start = ["compare", "--pairs", "3", "--service", &server, "--ready-port", &port];
    let first = format!("cpus={}", first_cpu());
    let judged = work.evaluated(&with(&[&start, &["--a", &first, "--", "sh", "-c", load]]));
    assert!(!findings(&judged).contains("left a process running"), "{judged}");
    let pid = fs::read_to_string(work.path("seen")).unwrap();
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap());
}

#[test]
fn processes_left_by_the_shell_of_a_service_get_sigterm_too() {
    let work = WorkFolder::new();
    let server = "trap 'touch asked; exit' TERM\necho $$ > pid\ntouch up\nwhile :; do sleep 0.01; done\n";
    fs::write(work.path("server"), server).unwrap();
    // The outer shell ends on SIGTERM without passing it on to the inner one.
    let server = shell("sh server; exit 5");
    work.evaluated(&with(&[&["compare", "--pairs", "1", "--service", &server], &READY, &["--", "true"]]));
    assert!(work.path("asked").exists(), "it was killed");
    let pid = fs::read_to_string(work.path("pid")).unwrap();
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap());
}

#[test]
fn memory_policies_are_refused_for_services() {
    let (work, time) = (WorkFolder::new(), unique());
    let server = shell(&format!("touch up; exec sleep {time}"));
    let start = ["compare", "--b", "memory=local", "--service", &server];
    let said = work.refused(2, &with(&[&start, &READY, &["--", "true"]]));
    assert!(said.contains("memory policies do not work with --service"), "{said}");
    assert!(!work.path("up").exists(), "the service was started needlessly");
    assert!(running(&time).is_empty());
}
