//! The parallel modes in Python with NumPy: with one BLAS thread, and with the default number of them.

use crate::{
    Suite, as_optional,
    error::{Error, Result},
    modes::{MIN_BLOCKS, PUBLISHED, TASKS, repeats},
    parameters, treatment,
};
use manycore_experiment::{
    command,
    counters::CounterReader,
    engine::{Budget, ExperimentSpec, Subject},
    interrupt,
    record::{Method, Sample, Treatment, factor},
};
use manycore_linux::clock::now_ns;
use std::{
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
};

const SCRIPT: &str = include_str!("inverse.py");

/// Rows of M in the shorter profiles: small, because the reference BLAS is 20 to 100 times slower.
const SIZE: u64 = 200;

/// The ways in which the script does its tasks.
const MODES: [&str; 3] = ["serial", "threads", "processes"];

/// Repetitions per task in the runs that show how long a mode takes, as a share of those of a measurement.
const TRIAL_SHARE: u64 = 8;

/// Variables that set the number of threads of BLAS libraries.
const BLAS_THREADS: [&str; 5] = [
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
];

pub(super) fn measure(suite: &mut Suite) -> Result {
    let (python, probe) = find("probe", SIZE)?;
    let settings = [("modes-python-1", "1", true), ("modes-python", "default", false)];
    // At the published size, a block takes hours with a reference BLAS. One block has to be enough then.
    let min_blocks = if suite.profile.published { 1 } else { MIN_BLOCKS };
    let described = describe(suite, &python, &probe);
    let seconds = suite.profile.python / settings.len() as f64;
    for (index, (id, threads, one_thread)) in settings.into_iter().enumerate() {
        let mut subject = Python {
            interpreter: python.clone(),
            one_thread,
            size: PUBLISHED.0,
            repeats: PUBLISHED.1,
            counter_reader: Rc::clone(&suite.session.counter_reader),
            origin_ns: suite.session.origin_ns,
        };
        if !suite.profile.published {
            subject.size = SIZE;
            subject.repeats = repeats(probe.seconds);
            subject.repeats = subject.fitting_repeats(seconds / MIN_BLOCKS as f64).map_err(as_optional)?;
        }
        let (size, repeats) = (subject.size, subject.repeats);
        let workers = |mode: &str| if mode == "serial" { 1 } else { TASKS };
        let treatments: Vec<Treatment> = MODES
            .iter()
            .map(|mode| treatment((*mode).to_owned(), workers(mode), (factor::MODE, (*mode).to_owned())))
            .collect();
        let spec = ExperimentSpec {
            parameters: described
                .iter()
                .cloned()
                .chain(parameters([
                    ("blas_threads", threads.to_owned()),
                    ("n", size.to_string()),
                    ("k", repeats.to_string()),
                ]))
                .collect(),
            treatments,
            budget: Budget { min_blocks, ..Budget::seconds(seconds) },
            ..ExperimentSpec::new(id, Method::WholeRun, "tasks")
        };
        let half = index as f64 / 2.0;
        suite.experiment(spec, &mut subject, (half, half + 0.5)).map_err(as_optional)?;
    }
    Ok(())
}

/// Describes Python, and the speed of its BLAS on one thread: with the default kernel, and with the kernel
/// that suits this CPU (an OpenBLAS that is older than the CPU selects its oldest kernel).
fn describe(suite: &Suite, python: &Path, probe: &Printed) -> Vec<(String, String)> {
    let mut described = parameters([
        ("program", "python".to_owned()),
        ("python", probe.python.clone()),
        ("numpy", probe.numpy.clone()),
        ("blas", probe.blas.clone()),
        ("tasks", TASKS.to_string()),
    ]);
    described.extend(probe.gflops.map(|gflops| ("blas_gflops".to_owned(), format!("{gflops:.1}"))));
    let kernel = best_kernel(&suite.machine().system.cpu_flags)
        .filter(|_| probe.blas.contains("openblas") && std::env::var_os("OPENBLAS_CORETYPE").is_none());
    let told = kernel.and_then(|kernel| {
        let mut command = script(python, "probe", 1, SIZE, 1);
        command.envs(BLAS_THREADS.map(|name| (name, "1"))).env("OPENBLAS_CORETYPE", kernel);
        Some((kernel, parse(&command::run(&mut command).ok()?.stdout)?.gflops?))
    });
    if let Some((kernel, gflops)) = told {
        described.insert("blas_kernel".to_owned(), kernel.to_owned());
        described.insert("blas_kernel_gflops".to_owned(), format!("{gflops:.1}"));
    }
    described.into_iter().collect()
}

/// Returns OpenBLAS's name of the kernel for the widest vectors of the CPU.
pub fn best_kernel(flags: &[String]) -> Option<&'static str> {
    let has = |wanted: &str| flags.iter().any(|flag| flag == wanted);
    if has("avx512f") && has("avx512vl") {
        Some("SkylakeX")
    } else {
        (has("avx2") && has("fma")).then_some("Haswell")
    }
}

struct Python {
    interpreter: PathBuf,
    one_thread: bool,
    size: u64,
    repeats: u64,
    counter_reader: Rc<CounterReader>,
    origin_ns: u64,
}

impl Python {
    /// Returns the repetitions per task with which one run of each mode takes at most so many seconds: threads of tasks
    /// that each start threads of the BLAS may take ten times as long as the serial mode. At most the present number.
    fn fitting_repeats(&mut self, seconds: f64) -> Result<u64> {
        let most = self.repeats;
        self.repeats = (most / TRIAL_SHARE).max(1);
        let (mut working, mut whole) = (0.0, 0.0);
        for mode in 0..MODES.len() {
            let began = now_ns();
            working += self.measure(mode)?.wall_ns as f64 / 1e9;
            whole += (now_ns() - began) as f64 / 1e9;
        }
        Ok(repeats_within(seconds - (whole - working), working / self.repeats as f64, most))
    }
}

/// Returns the repetitions that fit into so many seconds, of which each takes `one`; 1 to `most`.
fn repeats_within(seconds: f64, one: f64, most: u64) -> u64 {
    ((seconds / one) as u64).clamp(1, most)
}

impl Subject for Python {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        let mut command = script(&self.interpreter, MODES[treatment], TASKS, self.size, self.repeats);
        if self.one_thread {
            command.envs(BLAS_THREADS.map(|name| (name, "1")));
        }
        let before = self.counter_reader.snapshot(&[], now_ns());
        let start_ns = now_ns() - self.origin_ns;
        let output = command::run(&mut command)?;
        let counters = self.counter_reader.delta(&before, &self.counter_reader.snapshot(&[], now_ns()));
        let seconds = parse(&output.stdout)
            .ok_or_else(|| Error::Failed(format!("Python printed no result: {:?}", output.stdout)))?
            .seconds;
        Ok(Sample {
            start_ns,
            // The time of the tasks only. The start of the interpreter is not part of any mode.
            wall_ns: (seconds * 1e9) as u64,
            work: TASKS as f64,
            counters,
            ..Sample::default()
        })
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

fn script(python: &Path, mode: &str, tasks: usize, size: u64, repeats: u64) -> Command {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT, mode]).args([tasks as u64, size, repeats].map(|number| number.to_string()));
    command
}

/// The line that the script prints.
struct Printed {
    seconds: f64,
    gflops: Option<f64>,
    blas: String,
    numpy: String,
    python: String,
}

fn parse(text: &str) -> Option<Printed> {
    let value: serde_json::Value = serde_json::from_str(text.lines().last()?).ok()?;
    let libraries = value["blas"].as_array()?.iter().filter_map(|name| name.as_str());
    let blas = libraries.collect::<Vec<_>>().join(", ");
    Some(Printed {
        seconds: value["seconds"].as_f64().filter(|&seconds| seconds > 0.0)?,
        gflops: value["gflops"].as_f64(),
        blas: if blas.is_empty() { "none found".to_owned() } else { blas },
        numpy: value["numpy"].as_str()?.to_owned(),
        python: value["python"].as_str()?.to_owned(),
    })
}

/// Returns the versions of the NumPy that would be measured, and of its BLAS.
///
/// # Errors
/// [`Error::Unavailable`] if no `python3` in PATH has NumPy.
pub fn numpy_version() -> Result<String> {
    const SMALL: u64 = 2;
    let (_, printed) = find("serial", SMALL)?;
    Ok(format!("{} with {}", printed.numpy, printed.blas))
}

/// Returns the first `python3` in PATH that has NumPy, and what the script printed there for one task of this size.
fn find(mode: &str, size: u64) -> Result<(PathBuf, Printed)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&path) {
        let python = folder.join("python3");
        if !python.is_file() {
            continue;
        }
        if let Ok(output) =
            command::run(script(&python, mode, 1, size, 1).envs(BLAS_THREADS.map(|name| (name, "1"))))
            && let Some(probe) = parse(&output.stdout)
        {
            return Ok((python, probe));
        }
        interrupt::check()?;
    }
    Err(Error::unavailable(
        "found no python3 with NumPy in PATH (Debian: apt install python3-numpy; openEuler: dnf install python3-numpy)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_script_s_line_is_read() {
        let printed = parse(
            "noise\n{\"seconds\": 0.5, \"blas\": [\"libblas.so.3\"], \"numpy\": \"1.24\", \"python\": \"3.11\"}\n",
        );
        let printed = printed.unwrap();
        assert_eq!((printed.seconds, printed.blas.as_str()), (0.5, "libblas.so.3"));
        for bad in ["", "x", "{}", "{\"seconds\": 0}", "[1]"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    /// Regression test: with the default number of BLAS threads, `eval` took twice the budget of this section.
    #[test]
    fn slow_modes_have_fewer_repetitions() {
        // Modes of 0.19, 2.5 and 0.48 s with 35 repetitions, in 1.16 s of which 0.6 s start interpreters.
        assert_eq!(repeats_within(0.56, 3.17 / 35.0, 35), 6);
        assert_eq!(repeats_within(0.56, 0.48 / 35.0, 35), 35);
        assert_eq!((repeats_within(-1.0, 0.1, 35), repeats_within(1.0, 0.0, 35)), (1, 35));
    }

    /// Generates a line in the script's format, whose values may be of any kind.
    fn line() -> impl Strategy<Value = String> {
        let number = || prop_oneof![any::<f64>().prop_map(|number| format!("{number:e}")), "-?[0-9]{1,4}"];
        let value = move || {
            prop_oneof![
                number(),
                "null|true|NaN|Infinity|1e999",
                "\"[a-z0-9.]{0,6}\"",
                "\\[(\"[a-z]{0,4}\")?\\]",
                "\\{\\}"
            ]
        };
        let names = "\\[\"[a-z]{0,6}\"(, \"[a-z]{0,6}\")?\\]";
        let word = "\"[0-9.]{1,6}\"";
        (prop_oneof![number(), value()], value(), prop_oneof![names, value()], prop_oneof![word, value()]).prop_map(
            |(seconds, gflops, blas, version)| {
                format!(
                    "{{\"seconds\": {seconds}, \"gflops\": {gflops}, \"blas\": {blas}, \"numpy\": {version}, \"python\": {version}}}"
                )
            },
        )
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(before in "\\PC{0,20}", line in line(), cut in 0.0f64..1.5) {
            let end = ((line.len() as f64 * cut) as usize).min(line.len());
            let whole = end == line.len();
            let printed = parse(&format!("{before}\n{}", &line[..end]));
            prop_assert!(whole || printed.is_none());
            if let Some(printed) = printed {
                prop_assert!(printed.seconds > 0.0 && printed.seconds.is_finite());
                prop_assert!(printed.gflops.is_none_or(f64::is_finite));
                prop_assert!(!printed.blas.is_empty());
            }
        }

        #[test]
        fn any_text_is_no_result(text in "\\PC{0,40}") {
            prop_assert!(parse(&text).is_none());
        }
    }
}
