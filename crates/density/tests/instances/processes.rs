//! Processes without a safeguard, and what all kinds have in common.

use super::common::{SERVER, helper, is_paused, service, state, until, words};
use manycore_density::{
    Error,
    instances::{InstanceTuning, Instances, Readiness, ServiceSpec},
};
use manycore_linux::affinity;
use manycore_topology::CpuSet;
use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    time::Duration,
};

#[test]
fn instances_are_kept_while_counts_change_and_are_gone_at_the_end() {
    let mut instances = Instances::new(service(&SERVER, 3));
    instances.set_active(1).unwrap();
    let first = instances.processes()[0][0];
    instances.set_active(3).unwrap();
    let all: Vec<u32> = instances.processes().iter().map(|all| all[0]).collect();
    assert_eq!((all.len(), all[0]), (3, first));
    for server in instances.servers() {
        TcpStream::connect(server).unwrap();
    }
    instances.set_active(1).unwrap();
    assert_eq!((instances.processes()[0][0], instances.servers().len()), (first, 1));
    until(|| is_paused(all[1]) && is_paused(all[2]));
    assert_ne!(state(all[0]), "T");
    instances.set_active(2).unwrap();
    until(|| !is_paused(all[1]));
    assert_eq!((instances.processes().len(), state(all[2]).as_str()), (2, "T"));
    drop(instances);
    assert!(all.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
}

#[test]
fn an_instance_that_ends_is_named_with_its_last_line() {
    let mut broken =
        Instances::new(service(&["sh", "-c", "echo first >&2; echo no room {port} >&2; exit 3"], 1));
    let error = broken.set_active(1).unwrap_err();
    assert!(matches!(error, Error::Ended { index: 0, .. }), "{error}");
    let said = error.to_string();
    assert!(said.starts_with("instance 0 has ended (exit status: 3), having printed: no room "), "{said}");

    // One that ends later, by another's hand.
    let mut instances = Instances::new(service(&SERVER, 2));
    instances.set_active(2).unwrap();
    let second = rustix::process::Pid::from_raw(instances.processes()[1][0] as i32).unwrap();
    rustix::process::kill_process(second, rustix::process::Signal::KILL).unwrap();
    let error = loop {
        match instances.check() {
            Ok(()) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Ended { index: 1, .. }), "{error}");
    instances.remove_ended();
    assert_eq!(instances.processes().len(), 1);
    instances.set_active(2).unwrap();
    assert_eq!(instances.processes().len(), 2);
}

/// Regression test: after a count that failed, the instances that had been started for it went on beside the lone one.
#[test]
fn instances_of_a_count_that_failed_are_paused() {
    let script = "[ {index} -lt 2 ] || exit 3; exec python3 -m http.server --bind {address} {port}";
    let mut instances = Instances::new(service(&["sh", "-c", script], 3));
    instances.set_active(2).unwrap();
    let second = instances.processes()[1][0];
    instances.set_active(1).unwrap();
    assert!(matches!(instances.set_active(3), Err(Error::Ended { index: 2, .. })));
    instances.set_active(1).unwrap();
    until(|| is_paused(second));
    instances.set_active(2).unwrap();
    until(|| !is_paused(second));
}

#[test]
fn a_port_of_another_program_is_not_measured() {
    let spec = service(&SERVER, 1);
    let _other = TcpListener::bind(("127.0.0.1", spec.first_port)).unwrap();
    let error = Instances::new(spec.clone()).set_active(1).unwrap_err();
    assert!(matches!(error, Error::PortInUse { index: 0, port } if port == spec.first_port), "{error}");
}

#[test]
fn a_program_that_is_missing_is_named() {
    let error = Instances::new(service(&["/no/such/server", "{port}"], 1)).set_active(1).unwrap_err();
    assert!(error.to_string().starts_with("cannot start instance 0 (/no/such/server): "), "{error}");
}

#[test]
fn readiness_by_a_command_is_waited_for_and_an_instance_is_prepared_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    // It creates a file later, and never listens.
    let command = format!(
        "touch {path}/{{port}}.begun; read never < {path}/{{index}}.begin; touch {path}/{{index}}.up; sleep 1000"
    );
    for index in 0..2 {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.path().join(format!("{index}.begin")),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
    }
    // The second run of the command for readiness lets the instance go on.
    let ready = format!(
        "[ -e {path}/{{index}}.up ] || {{ [ ! -e {path}/{{index}}.once ] || echo go > {path}/{{index}}.begin; touch {path}/{{index}}.once; exit 1; }}"
    );
    let prepare = format!("echo {{name}} {{port}} >> {path}/{{index}}.data");
    let spec = ServiceSpec {
        ready: Readiness::Command(helper(&["sh", "-c", &ready])),
        prepare: Some(helper(&["sh", "-c", &prepare])),
        ..service(&["sh", "-c", &command], 2)
    };
    let first_port = spec.first_port;
    let mut instances = Instances::new(spec);
    instances.set_active(2).unwrap();
    instances.set_active(1).unwrap();
    instances.set_active(2).unwrap();
    for index in 0..2 {
        let data = std::fs::read_to_string(folder.path().join(format!("{index}.data"))).unwrap();
        let expected = format!("manycore-{}-{index} {}\n", std::process::id(), first_port + index);
        assert_eq!(data, expected);
    }
}

#[test]
fn failures_of_readiness_and_preparation_are_named() {
    let never = ServiceSpec {
        ready: Readiness::Command(helper(&["sh", "-c", "echo not yet >&2; exit 1"])),
        ready_limit: Duration::from_secs(5),
        ..service(&["sleep", "1000", "{port}"], 1)
    };
    // `sleep` adds its arguments.
    let error = Instances::new(never).set_active(1).unwrap_err();
    assert!(matches!(error, Error::NotReadyByCommand { index: 0, .. }), "{error}");
    assert!(error.to_string().ends_with("does not succeed, having printed: not yet"), "{error}");

    // Regression test: the time limit of the last attempt hid what earlier ones had shown.
    let silent = ServiceSpec {
        ready: Readiness::Command(helper(&["false"])),
        ready_limit: Duration::from_secs(2),
        ..service(&["sleep", "1000", "{port}"], 1)
    };
    let error = Instances::new(silent).set_active(1).unwrap_err().to_string();
    assert!(error.ends_with("does not succeed"), "{error}");

    let unprepared = |command: &[&str]| {
        let prepare = Some(helper(command));
        let spec = ServiceSpec { prepare, ..service(&SERVER, 1) };
        Instances::new(spec).set_active(1).unwrap_err().to_string()
    };
    let said = unprepared(&["sh", "-c", "echo no data >&2; exit 4"]);
    assert!(said.starts_with("instance 0 cannot be prepared: sh -c "), "{said}");
    assert!(said.ends_with("failed (exit status: 4), having printed: no data"), "{said}");
    let said = unprepared(&["no-such-program", "{port}"]);
    assert!(said.contains("cannot be run: no-such-program is not installed"), "{said}");
}

#[test]
fn instances_start_on_their_places() {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        return eprintln!("SKIPPED: needs two CPUs");
    }
    let places = [cpus.first(), cpus.last()].map(|cpu| CpuSet::single(cpu.unwrap())).to_vec();
    let command =
        words(&["sh", "-c", "export PLACE={cpus}; exec python3 -m http.server --bind {address} {port}"]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut instances = Instances::new(ServiceSpec {
        tuning: InstanceTuning { places: places.clone(), ..InstanceTuning::default() },
        ..service(&command, 3)
    });
    instances.set_active(3).unwrap();
    for (index, processes) in instances.processes().into_iter().enumerate() {
        let place = &places[index % 2];
        assert_eq!(affinity::of_thread(processes[0]).unwrap(), *place);
        assert!(manycore_linux::tasks::has_environment(processes[0], &format!("PLACE={place}")));
    }
}

#[test]
fn memory_that_does_not_hold_the_instances_is_refused() {
    let mut instances = Instances::new(service(&SERVER, 1));
    // Nothing is known of the memory of an instance yet.
    instances.check_memory(usize::MAX).unwrap();
    instances.set_active(1).unwrap();
    instances.check_memory(1).unwrap();
    let error = instances.check_memory(100_000_000).unwrap_err();
    assert!(matches!(&error, Error::Memory(shortage) if shortage.most > 1), "{error}");
}
