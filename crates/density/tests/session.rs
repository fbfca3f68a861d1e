//! The density of real services.

use manycore_density::{
    Error,
    hosts::LoadHosts,
    instances::ServiceSpec,
    load::{InstanceLoad, SliceTimes},
    options::{DensityOptions, DensityVariant, Rate},
    session::run,
    template::CommandTemplate,
};
use manycore_experiment::{
    Record,
    record::{Experiment, Sample, factor, id, parameter},
    session::Event,
};
use manycore_load::{ArrivalPattern, Template};
use manycore_testkit::FreePort;
use manycore_topology::{CpuSet, Machine, SysTree};
use std::{
    path::Path,
    time::{Duration, Instant},
};

fn options(command: &str) -> DensityOptions {
    let words = ["sh", "-c", command].map(str::to_owned).to_vec();
    DensityOptions {
        service: ServiceSpec::new(
            CommandTemplate::new(words).unwrap(),
            "127.0.0.1".parse().unwrap(),
            FreePort::find_run(8).unwrap(),
        ),
        subject: command.to_owned(),
        variants: vec![DensityVariant::default()],
        load: InstanceLoad::Generator {
            pipeline: 1,
            pattern: ArrivalPattern::default(),
            template: Template::http("localhost", "/", 1).unwrap(),
            connections: 2,
            hosts: LoadHosts::default(),
        },
        request: "GET /".to_owned(),
        load_cpus: CpuSet::new(),
        rate: Rate::PerSecond(100.0),
        bound: "p99 < +10%".parse().unwrap(),
        most: 4,
        may_reduce: false,
        pairs: 3,
        times: SliceTimes { length: Duration::from_millis(300), settle: Duration::from_millis(100) },
        seed: 1,
    }
}

/// Serves the list of these tests at `{port}`.
const SERVER: &str = concat!(
    "cd '",
    env!("CARGO_MANIFEST_DIR"),
    "/tests' && exec python3 -m http.server --bind 127.0.0.1 {port}"
);

fn machine() -> Machine {
    manycore_topology::read(&SysTree::open(Path::new("/")).unwrap()).unwrap()
}

/// Measures, and returns the record, how it ended, and the notes.
fn measure(options: &DensityOptions) -> Result<(Record, manycore_density::Result, Vec<String>), Error> {
    let mut notes = Vec::new();
    let mut listener = |event: Event| {
        if let Event::Note(text) = event {
            notes.push(text.to_owned());
        }
    };
    let (record, ending) = run(machine(), options, &mut listener)?;
    record.check().unwrap();
    Ok((record, ending, notes))
}

/// What other work on the machine makes of loads that are served well without it.
const DISTURBED: [&str; 3] = ["much too late", "the lone instance served less", "no request was answered"];

/// Measures again while a note or the error has one of these texts. `None` with a message if that was so for a minute and a
/// half.
fn undisturbed(
    options: &DensityOptions,
    disturbed: &[&str],
) -> Option<(Record, manycore_density::Result, Vec<String>)> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(90) {
        let found = measure(options).unwrap();
        let error = found.1.as_ref().err().map(ToString::to_string);
        let is_disturbed = |text: &String| disturbed.iter().any(|part| text.contains(part));
        if !found.2.iter().chain(&error).any(is_disturbed) {
            return Some(found);
        }
    }
    println!("SKIPPED: other work on this machine delayed the loads for a minute and a half");
    None
}

fn experiment(record: &Record) -> &Experiment {
    record.experiment(id::DENSITY).unwrap()
}

fn workers(experiment: &Experiment, sample: &Sample) -> usize {
    experiment.treatments[sample.treatment].workers
}

#[test]
fn pairs_are_measured_until_they_are_used_up() {
    let Some((record, ending, notes)) = undisturbed(&options(SERVER), &DISTURBED) else { return };
    assert!(ending.is_ok());
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("about 30 requests, so its p99 is its slowest request"), "{notes:?}");
    let experiment = experiment(&record);
    assert_eq!(experiment.samples.len(), 6);
    for pair in experiment.samples.chunks(2) {
        let mut counts = [workers(experiment, &pair[0]), workers(experiment, &pair[1])];
        counts.sort_unstable();
        assert_eq!((counts, pair[0].block), ([1, 2], pair[1].block));
    }
    for sample in &experiment.samples {
        assert!(sample.values[0] > 0.0 && sample.requests[0].count > 10, "{sample:?}");
        assert!((sample.requests[0].quantile(0.99) / sample.values[0] - 1.0).abs() < 0.02);
    }
    assert_eq!(experiment.parameters[parameter::RATE], "100.0");
}

#[test]
fn an_instance_that_cannot_run_beside_the_others_is_the_limit() {
    let command = format!("[ {{index}} -lt 2 ] || {{ echo no room >&2; exit 3; }}; {SERVER}");
    let options = DensityOptions { bound: "p50 < 60s".parse().unwrap(), pairs: 60, ..options(&command) };
    let Some((record, ending, notes)) = undisturbed(&options, &DISTURBED) else { return };
    assert!(ending.is_ok());
    let why = "count as above the bound: instance 2 has ended (exit status: 3), having printed: no room";
    let failed = [format!("4 instances {why}"), format!("3 instances {why}")];
    assert_eq!(
        notes.iter().filter(|note| note.contains("count as above")).collect::<Vec<_>>(),
        failed.each_ref()
    );
    // Each was measured again first.
    assert_eq!(
        notes.iter().filter(|note| note.contains("failed, and is repeated: ")).count(),
        2,
        "{notes:?}"
    );
    // The reason is that of the count.
    let is_kept = |note: &&String| !note.contains("count as above");
    assert_eq!(record.notes.iter().collect::<Vec<_>>(), notes.iter().filter(is_kept).collect::<Vec<_>>());
    let experiment = experiment(&record);
    let reasons = experiment.treatments.iter().filter_map(|one| one.factors.get(factor::FAILURE));
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        ["instance 2 has ended (exit status: 3), having printed: no room"; 2].each_ref()
    );
    let failed = experiment.samples.iter().filter(|sample| experiment.is_failure(sample));
    assert_eq!(failed.map(|sample| workers(experiment, sample)).collect::<Vec<_>>(), [4, 3]);
    // With an absolute bound, the lone instance is a count like any other.
    assert_eq!(experiment.samples.iter().map(|sample| workers(experiment, sample)).min(), Some(1));
}

#[test]
fn a_port_in_use_reduces_the_counts_where_it_may() {
    let mut options = DensityOptions { pairs: 1, ..options(SERVER) };
    let third = options.service.first_port + 2;
    let _other = std::net::TcpListener::bind(("127.0.0.1", third)).unwrap();
    let refused = measure(&options).unwrap_err();
    assert!(matches!(refused, Error::PortInUse { index: 2, port } if port == third), "{refused}");
    options.may_reduce = true;
    let Some((record, ending, notes)) = undisturbed(&options, &DISTURBED) else { return };
    assert!(ending.is_ok());
    assert_eq!(record.experiments[0].parameters[parameter::MOST_INSTANCES], "2");
    let why = format!("port {third} of instance 2 is in use by another program: at most 2 are measured");
    assert!(notes.iter().any(|note| note.starts_with(&why)), "{notes:?}");
    // A bound relative to the lone instance needs two.
    options.service.first_port = third - 1;
    assert!(matches!(measure(&options).unwrap_err(), Error::PortInUse { index: 1, .. }));
}

#[test]
fn variants_alternate_and_the_rate_can_be_a_share_of_the_capacity() {
    let variant = |name: &str| DensityVariant { name: Some(name.to_owned()), ..DensityVariant::default() };
    let options = DensityOptions {
        rate: Rate::ShareOfCapacity(0.1),
        variants: vec![variant("one"), variant("other")],
        most: 2,
        pairs: 2,
        ..options(SERVER)
    };
    let Some((record, ending, _)) = undisturbed(&options, &DISTURBED) else { return };
    assert!(ending.is_ok());
    let experiment = experiment(&record);
    let number = |name: &str| experiment.parameters[name].parse::<f64>().unwrap();
    assert!((number(parameter::RATE) / number(parameter::CAPACITY) - 0.1).abs() < 0.01);
    let titles: Vec<&str> =
        experiment.samples.chunks(2).map(|pair| experiment.treatments[pair[0].treatment].title()).collect();
    assert_eq!(titles.len(), 4);
    assert!(titles.chunks(2).all(|round| round.contains(&"one") && round.contains(&"other")), "{titles:?}");
}

#[test]
fn a_lone_instance_that_fails_is_an_error() {
    let mut missing = options(SERVER);
    missing.load = InstanceLoad::Generator {
        pipeline: 1,
        pattern: ArrivalPattern::default(),
        template: Template::http("localhost", "/missing", 1).unwrap(),
        connections: 1,
        hosts: LoadHosts::default(),
    };
    let (record, ending, _) = measure(&missing).unwrap();
    assert!(matches!(&ending, Err(Error::Alone(why)) if why.contains("404")), "{ending:?}");
    assert!(record.experiments.is_empty());
    // Regression: its capacity was 0, and so was the rate.
    let of_capacity = DensityOptions { rate: Rate::ShareOfCapacity(0.5), ..missing };
    let error = measure(&of_capacity).unwrap_err();
    assert!(matches!(&error, Error::Alone(why) if why.contains("404")), "{error}");
    let error = measure(&options("exit 1; {port}")).unwrap_err();
    assert!(matches!(error, Error::Ended { index: 0, .. }), "{error}");
}

/// Regression: the time for which a reply was waited for counted as a latency, and such an instance met its bound.
#[test]
fn a_service_that_never_replies_is_an_error() {
    let silent = "exec python3 -c 'import socket
server = socket.create_server((\"127.0.0.1\", {port}))
held = []
while True: held.append(server.accept())'";
    for rate in [Rate::PerSecond(20.0), Rate::PerSecond(5_000.0), Rate::ShareOfCapacity(0.5)] {
        let measured = measure(&DensityOptions { rate, ..options(silent) });
        let error = match measured {
            Ok((record, ending, _)) => {
                assert!(record.experiments.is_empty());
                ending.unwrap_err()
            }
            Err(error) => error,
        };
        assert!(
            matches!(&error, Error::Alone(why) if why.contains("there was no reply in a slice")),
            "{error}"
        );
    }
}

/// Regression: one slice without a request, by chance, ended the measurement.
#[test]
fn pairs_without_requests_do_not_count() {
    let options = DensityOptions { rate: Rate::PerSecond(0.001), ..options(SERVER) };
    let (record, ending, notes) = measure(&options).unwrap();
    assert!(matches!(&ending, Err(Error::NoPair(_))), "{ending:?}");
    assert!(record.experiments.is_empty());
    assert!(notes.iter().any(|note| note.contains("no request was answered in a slice")), "{notes:?}");
}

/// A server that needs at least 20 ms for each request.
const SLOW: &str = r#"exec python3 -c 'import http.server, time
class Slow(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(0.02)
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", {port}), Slow).serve_forever()'"#;

/// Its latency is the age of its queue, and that of any number of instances is the same.
#[test]
fn a_lone_instance_that_serves_less_than_the_rate_is_no_reference() {
    let overloaded = DensityOptions { rate: Rate::PerSecond(1_000.0), pairs: 60, ..options(SLOW) };
    let Some((record, ending, notes)) = undisturbed(&overloaded, &DISTURBED[..1]) else { return };
    assert!(matches!(ending, Err(Error::NoPair(_))), "{ending:?}");
    assert!(record.experiments.is_empty());
    let wanted = "3 pairs do not count, and the search ended. In the last one, with 2 instances, the lone instance served less";
    assert!(notes.last().unwrap().starts_with(wanted), "{notes:?}");
    // A time is a bound for it all the same.
    let bound = "p50 < 1ms".parse().unwrap();
    let bounded = DensityOptions { bound, pairs: 5, ..overloaded };
    let Some((record, ending, _)) = undisturbed(&bounded, &DISTURBED[..1]) else { return };
    assert!(ending.is_ok(), "{ending:?}");
    assert_eq!(
        experiment(&record).samples.iter().map(|sample| workers(experiment(&record), sample)).max(),
        Some(1)
    );
}
