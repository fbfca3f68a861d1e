//! Our prime events and those of sysbench, in interleaved samples with the same parameters.

use crate::{
    Suite, as_optional,
    error::{Error, Result},
    parameters,
    peer_subject::PeerSubject,
    scaling::prime_trial,
    treatment,
};
use manycore_experiment::{
    command,
    engine::{Budget, ExperimentSpec},
    record::{Method, factor, id},
    sampling::{SamplingMode, settling_time},
    worker_pool::WorkerPool,
};
use manycore_workload::{DEFAULT_MAX_PRIME, LoadKind};
use std::{process::Command, rc::Rc, time::Duration};

/// Length of a sample of either program.
const SAMPLE: Duration = Duration::from_millis(250);

/// Returns the version that the installed sysbench prints.
///
/// # Errors
/// [`Error::Unavailable`] if it is not installed.
pub fn version() -> Result<String> {
    let printed =
        command::run(Command::new("sysbench").arg("--version")).map_err(|failure| match failure.into() {
            Error::Unavailable(_) => Error::unavailable(
                "sysbench is not installed (Debian: apt install sysbench; openEuler: dnf install sysbench)",
            ),
            other => other,
        })?;
    Ok(printed.stdout.trim().to_owned())
}

pub(super) fn measure(suite: &mut Suite) -> Result {
    let version = version()?;
    let pilot = parse(&command::run(&mut sysbench(1, 200))?.stdout)?;
    let cpus = suite.machine().usable();
    let counts = if cpus.len() > 1 { vec![1, cpus.len()] } else { vec![1] };
    let sides: Vec<(usize, &'static str)> = counts
        .iter()
        .flat_map(|&workers| ["manycore", "sysbench"].map(|program| (workers, program)))
        .collect();
    let trials = sides.iter().map(|&(workers, _)| prime_trial(workers, &cpus)).collect();
    let mode = SamplingMode::Slices { slice: SAMPLE, settling_time: settling_time(suite.machine()) };
    let pool = WorkerPool::start(LoadKind::Prime, cpus.len(), 0)?;
    let ours = suite.pool_subject(pool, mode, trials);
    let events_per_second = pilot.events / pilot.seconds;
    let mut subject = PeerSubject {
        ours,
        sides: sides.clone(),
        run_peer: Box::new(move |workers| {
            let events = (events_per_second * workers as f64 * SAMPLE.as_secs_f64()).ceil() as u64;
            let printed = parse(&command::run(&mut sysbench(workers, events))?.stdout)?;
            Ok((printed.events, printed.seconds))
        }),
        counter_reader: Rc::clone(&suite.session.counter_reader),
        origin_ns: suite.session.origin_ns,
    };
    let spec = ExperimentSpec {
        parameters: parameters([("max_prime", DEFAULT_MAX_PRIME.to_string()), ("version", version)]),
        treatments: sides
            .iter()
            .map(|&(workers, program)| {
                treatment(format!("{program} {workers}"), workers, (factor::PROGRAM, program.to_owned()))
            })
            .collect(),
        budget: Budget::seconds(suite.profile.sysbench),
        ..ExperimentSpec::new(id::SYSBENCH, Method::WholeRun, "events")
    };
    suite.experiment(spec, &mut subject, (0.0, 1.0)).map_err(as_optional)
}

fn sysbench(threads: usize, events: u64) -> Command {
    let mut command = Command::new("sysbench");
    command
        .arg("cpu")
        .arg(format!("--cpu-max-prime={DEFAULT_MAX_PRIME}"))
        .arg(format!("--threads={threads}"));
    command.args(["--time=0", &format!("--events={events}"), "run"]);
    command
}

/// The totals that sysbench prints.
struct Printed {
    events: f64,
    /// Mean execution time of the threads. Their start is not included.
    seconds: f64,
}

fn parse(text: &str) -> Result<Printed> {
    let value = |name: &str| -> Option<f64> {
        let rest = text.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix(':'))?;
        rest.trim().split('/').next()?.parse().ok().filter(|&number: &f64| number > 0.0 && number.is_finite())
    };
    value("total number of events")
        .zip(value("execution time (avg/stddev)"))
        .map(|(events, seconds)| Printed { events, seconds })
        .ok_or_else(|| Error::Failed("sysbench 1.0 was expected to print totals, but did not".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sysbench_s_totals_are_read() {
        let text =
            "    total number of events:              600\n    execution time (avg/stddev):   0.2304/0.00\n";
        let printed = parse(text).unwrap();
        assert_eq!((printed.events, printed.seconds), (600.0, 0.2304));
        assert!(parse("nothing of the kind").is_err());
    }

    proptest! {
        #[test]
        fn any_text_gives_positive_totals_or_none(
            lines in prop::collection::vec(
                (
                    "(total number of events|execution time \\(avg/stddev\\)|events)?",
                    " {0,2}:? {0,2}",
                    "(0|-?[0-9]{1,4}(\\.[0-9]{1,3})?|1e999|inf|-inf|nan|)(/[0-9]{0,3})?|\\PC{0,8}",
                ),
                0..8,
            )
        ) {
            let lines: Vec<String> =
                lines.iter().map(|(name, colon, value)| format!("{name}{colon}{value}")).collect();
            let text = lines.join("\n");
            if let Ok(printed) = parse(&text) {
                prop_assert!(printed.events > 0.0 && printed.events.is_finite(), "{}", text);
                prop_assert!(printed.seconds > 0.0 && printed.seconds.is_finite(), "{}", text);
            }
        }

        #[test]
        fn totals_are_read_wherever_they_stand(
            events in 1u32.., milliseconds in 1u32.., before in "[a-z ]{0,20}", indent in " {0,8}",
        ) {
            let seconds = f64::from(milliseconds) / 1e3;
            let printed = parse(&format!(
                "{before}\n{indent}total number of events: {events}\n{indent}execution time (avg/stddev): {seconds}/0\n"
            ));
            let printed = printed.unwrap();
            prop_assert_eq!((printed.events, printed.seconds), (f64::from(events), seconds));
        }
    }
}
