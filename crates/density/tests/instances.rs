//! Instances as real processes.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_density::{
    Error,
    instances::{Instances, ServiceSpec},
    template::CommandTemplate,
};
use std::{
    net::{TcpListener, TcpStream},
    path::Path,
};

/// A service of the command of these words, on ports that are free and that no other test uses.
fn service(words: &[&str], count: u16, test: u16) -> ServiceSpec {
    let command = CommandTemplate::new(words.iter().map(|word| (*word).to_owned()).collect()).unwrap();
    let is_free =
        |port: &u16| (*port..port + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    let begin = 20_000 + test * 1000 + std::process::id() as u16 % 900;
    let first_port = (begin..begin + 90).step_by(3).find(is_free).unwrap();
    ServiceSpec { command, address: "127.0.0.1".parse().unwrap(), first_port }
}

const SERVER: [&str; 6] = ["python3", "-m", "http.server", "--bind", "{address}", "{port}"];

fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap()[..1].to_owned()
}

#[test]
fn instances_are_kept_while_counts_change_and_are_gone_at_the_end() {
    let mut instances = Instances::new(service(&SERVER, 3, 0));
    instances.set_active(1).unwrap();
    let first = instances.processes();
    instances.set_active(3).unwrap();
    let all = instances.processes();
    assert_eq!((all.len(), all[0]), (3, first[0]));
    for server in instances.servers() {
        TcpStream::connect(server).unwrap();
    }
    instances.set_active(1).unwrap();
    assert_eq!((instances.processes(), instances.servers().len()), (first, 1));
    while !(state(all[1]) == "T" && state(all[2]) == "T") {
        std::thread::yield_now();
    }
    assert_ne!(state(all[0]), "T");
    instances.set_active(2).unwrap();
    while state(all[1]) == "T" {
        std::thread::yield_now();
    }
    assert_eq!((instances.processes(), state(all[2]).as_str()), (all[..2].to_vec(), "T"));
    drop(instances);
    assert!(all.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
}

#[test]
fn an_instance_that_ends_is_named_with_its_last_line() {
    let mut broken =
        Instances::new(service(&["sh", "-c", "echo first >&2; echo no room {port} >&2; exit 3"], 1, 1));
    let error = broken.set_active(1).unwrap_err();
    assert!(matches!(error, Error::Ended { index: 0, .. }), "{error}");
    let said = error.to_string();
    assert!(said.starts_with("instance 0 has ended (exit status: 3), having printed: no room "), "{said}");

    // One that ends later, by another's hand.
    let mut instances = Instances::new(service(&SERVER, 2, 2));
    instances.set_active(2).unwrap();
    let second = rustix::process::Pid::from_raw(instances.processes()[1] as i32).unwrap();
    rustix::process::kill_process(second, rustix::process::Signal::KILL).unwrap();
    let error = loop {
        match instances.check() {
            Ok(()) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Ended { index: 1, .. }), "{error}");
}

#[test]
fn a_port_of_another_program_is_not_measured() {
    let spec = service(&SERVER, 1, 3);
    let _other = TcpListener::bind(("127.0.0.1", spec.first_port)).unwrap();
    let error = Instances::new(spec.clone()).set_active(1).unwrap_err();
    assert!(matches!(error, Error::PortInUse { index: 0, port } if port == spec.first_port), "{error}");
}

#[test]
fn a_program_that_is_missing_is_named() {
    let error = Instances::new(service(&["/no/such/server", "{port}"], 1, 4)).set_active(1).unwrap_err();
    assert!(error.to_string().starts_with("cannot start instance 0 (/no/such/server): "), "{error}");
}
