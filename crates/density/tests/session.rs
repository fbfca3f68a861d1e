//! The density of real services.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_density::{
    Error,
    bound::Bound,
    instances::ServiceSpec,
    search::{Density, Position},
    session::{DensityEvent, DensityObserver, DensityRequest, Rate, measure},
    template::CommandTemplate,
};
use manycore_load::Template;
use std::{net::TcpListener, time::Duration};

fn request(command: &str, test: u16) -> DensityRequest {
    let words = ["sh", "-c", command].map(str::to_owned).to_vec();
    let is_free = |port: &u16| (*port..port + 4).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    let begin = 30_000 + test * 1000 + std::process::id() as u16 % 900;
    DensityRequest {
        service: ServiceSpec::new(
            CommandTemplate::new(words).unwrap(),
            "127.0.0.1".parse().unwrap(),
            (begin..begin + 90).step_by(4).find(is_free).unwrap(),
        ),
        template: Template::http("localhost", "/", 1).unwrap(),
        connections: 2,
        rate: Rate::PerSecond(100.0),
        bound: Bound::default(),
        most: 4,
        samples: 3,
        slice: Duration::from_millis(300),
        settle: Duration::from_millis(100),
        seed: 1,
    }
}

/// Serves the list of these tests at `{port}`.
const SERVER: &str = concat!(
    "cd '",
    env!("CARGO_MANIFEST_DIR"),
    "/tests' && exec python3 -m http.server --bind 127.0.0.1 {port}"
);

/// Keeps what happens as words, and ends after a number of events.
struct Log {
    lines: Vec<String>,
    most: usize,
}

impl DensityObserver for Log {
    fn event(&mut self, event: &DensityEvent<'_>) -> bool {
        self.lines.push(match event {
            DensityEvent::Rate { per_second, capacity } => {
                assert!(capacity.is_none_or(|capacity| *per_second == 0.5 * capacity && capacity > 1.0));
                "rate".to_owned()
            }
            DensityEvent::Pair { alone, all, search } => {
                assert_eq!((alone.count, alone.observed.failed, all.failed), (1, 0, 0));
                assert!(alone.observed.answered > 10 && all.observed.answered > 10);
                format!("{} at {}", search.samples(), all.count)
            }
            DensityEvent::Failed { count, why } => format!("failed at {count}: {why}"),
        });
        self.lines.len() < self.most
    }
}

fn log() -> Log {
    Log { lines: Vec::new(), most: 100 }
}

#[test]
fn pairs_are_measured_until_the_samples_are_used_up() {
    let mut log = log();
    let result = measure(&request(SERVER, 0), &mut log).unwrap();
    assert_eq!(log.lines, ["rate", "1 at 2", "2 at 2", "3 at 2"]);
    assert_eq!((result.search.visits()[&2].samples.len(), result.per_second), (3, 100.0));
    assert!(result.is_complete);
}

#[test]
fn an_instance_that_cannot_run_beside_the_others_is_the_limit() {
    let request = request(&format!("[ {{index}} -lt 2 ] || {{ echo no room >&2; exit 3; }}; {SERVER}"), 1);
    let request = DensityRequest { bound: "p50 < 60s".parse().unwrap(), samples: 60, ..request };
    let mut log = log();
    let result = measure(&request, &mut log).unwrap();
    let failed: Vec<&String> = log.lines.iter().filter(|line| line.starts_with("failed")).collect();
    let why = "instance 2 has ended (exit status: 3), having printed: no room";
    assert_eq!(failed, [&format!("failed at 4: {why}"), &format!("failed at 3: {why}")]);
    assert_eq!(result.density, Density { estimate: Some(2), low: 2, high: Some(2) });
    assert_eq!(result.search.visits()[&4].position, Position::Above);
}

#[test]
fn the_rate_can_be_a_share_of_the_capacity_and_the_observer_can_end_it() {
    let mut log = Log { most: 2, ..log() };
    let request = DensityRequest { rate: Rate::ShareOfCapacity(0.5), ..request(SERVER, 2) };
    let result = measure(&request, &mut log).unwrap();
    assert_eq!((log.lines, result.is_complete), (vec!["rate".to_owned(), "1 at 2".to_owned()], false));
}

#[test]
fn a_lone_instance_that_fails_is_an_error() {
    let mut missing = request(SERVER, 3);
    missing.template = Template::http("localhost", "/missing", 1).unwrap();
    let error = measure(&missing, &mut log()).unwrap_err();
    assert!(matches!(&error, Error::Alone(why) if why.contains("404")), "{error}");
    let error = measure(&request("exit 1; {port}", 4), &mut log()).unwrap_err();
    assert!(matches!(error, Error::Ended { index: 0, .. }), "{error}");
}
