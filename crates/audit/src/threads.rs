//! Runtimes that run a worker for each CPU of the machine inside of fewer CPUs, or of a smaller quota.
//!
//! What counts is the workers that run. Where an option sets their number, that is the number. Otherwise they are
//! the threads with a worker's name that have used CPU time, and they must be about as many as the machine, or the
//! affinity mask, has CPUs: a server with a hundred threads for its clients is none of our business. Runtimes that
//! look at their limits by themselves (a JVM since 8u191, Go since 1.25, Erlang/OTP since 23, .NET, Node) are found
//! only where an option overrules them. Pools of Rayon and Tokio cannot be told from other threads by name, and
//! both mind affinity and quota.

use super::{
    BUSY, Finding, Subject,
    facts::{Facts, Process, Program, Thread},
    severity, words,
};
use std::collections::BTreeMap;

/// Variables of the environment that set the number of workers.
pub const VARIABLES: [&str; 11] = [
    "GOMAXPROCS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "DOTNET_PROCESSOR_COUNT",
    "DOTNET_GCHeapCount",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "GODEBUG",
];

/// Parts of the paths of libraries that tell a runtime.
pub const LIBRARIES: [&str; 7] =
    ["/libjvm.so", "/libcoreclr.so", "openblas", "/libmkl_", "/libiomp5", "/libomp.", "/libgomp"];

/// A thread that has used less in its life was started and then had nothing to do (one tick of `/proc`'s clock).
const RAN_SECONDS: f64 = 0.01;

/// A finding for each process.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    facts.processes.iter().filter_map(|process| of_process(facts, process)).collect()
}

/// Whether so many workers are clearly too many for so many CPUs: half more, counting parts of a CPU as one.
pub fn clearly_more(workers: usize, cpus: f64) -> bool {
    workers as f64 >= 1.5 * cpus.ceil().max(1.0)
}

fn of_process(facts: &Facts, process: &Process) -> Option<Finding> {
    let program = process.program.as_ref()?;
    let runtime = Runtime::of(process, program)?;
    let limits = Limits::of(facts, process);
    let threads = runtime.workers(process, |_| true);
    let (workers, set_by) = match runtime.given(program) {
        Some(given) => (runtime.started(threads, given.workers), Some(given.option)),
        None if runtime.minds_limits(program) => return None,
        None => {
            let ran = runtime
                .workers(process, |thread| thread.cpu_seconds.is_some_and(|seconds| seconds >= RAN_SECONDS));
            let like = |cpus: usize| 2 * ran >= cpus && 4 * ran <= 5 * cpus + 4;
            (Some(ran).filter(|_| like(facts.online.len()) || like(limits.mask))?, None)
        }
    };
    clearly_more(workers, limits.cpus)
        .then(|| finding(facts, process, &runtime, &limits, (workers, threads, set_by)))
}

fn finding(
    facts: &Facts,
    process: &Process,
    runtime: &Runtime,
    limits: &Limits,
    (workers, threads, set_by): (usize, usize, Option<String>),
) -> Finding {
    let holder = process.holder(workers);
    let cpus = figure(limits.cpus);
    let room = if limits.cpus == 1.0 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
    let cause = match &set_by {
        Some(option) => {
            format!(
                "set by {option}; it has {} with a worker's name",
                words::count(threads, "thread", "threads")
            )
        }
        None => format!("{} with a worker's name have run", words::count(workers, "thread", "threads")),
    };
    // Half a CPU still needs a worker.
    let fitting = (limits.cpus as usize).max(1);
    let act = if set_by.is_some() { "lower it" } else { "start it with" };
    Finding {
        severity: severity(process.busy_cpus.is_some_and(|busy| busy >= BUSY)),
        headline: format!(
            "{} of {} runs {} for {room}",
            runtime.name(),
            words::process(&holder),
            words::count(workers, "worker", "workers")
        ),
        evidence: vec![
            cause,
            format!("{} leaves it {room}; the machine has {}", limits.source, facts.online.len()),
        ],
        cure: format!("{act}: {}", runtime.cure(fitting)),
        subject: Subject::TooManyThreads {
            process: holder,
            runtime: runtime.name().to_owned(),
            allowed_cpus: limits.cpus,
            limit: limits.source.clone(),
            online_cpus: facts.online.len(),
            set_by,
        },
    }
}

/// `2`, `0.5`, `2.25`.
fn figure(cpus: f64) -> String {
    let text = format!("{cpus:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What a process may use.
struct Limits {
    /// CPUs, with fractions where a quota is the tightest.
    cpus: f64,
    /// CPUs of its affinity masks.
    mask: usize,
    /// What says so.
    source: String,
}

impl Limits {
    fn of(facts: &Facts, process: &Process) -> Self {
        let own = &process.confinement;
        let mask = process.reach(&facts.online);
        let cpuset = own.usable(&facts.online);
        let source = if cpuset.is_subset(&mask) && cpuset != facts.online {
            own.cpus_file.clone()
        } else {
            format!("affinity mask {}", mask.brief())
        };
        match own.quota_cpus {
            Some(quota) if quota < mask.len() as f64 => {
                Self { cpus: quota, mask: mask.len(), source: own.quota_file.clone() }
            }
            _ => Self { cpus: mask.len() as f64, mask: mask.len(), source },
        }
    }
}

/// A runtime that starts workers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Runtime {
    Erlang,
    Jvm,
    DotNet,
    Go,
    /// A library with its variables, the strongest first.
    Library(&'static str, &'static [&'static str]),
}

/// An option and the number that it sets.
struct Given {
    option: String,
    workers: usize,
}

impl Runtime {
    fn of(process: &Process, program: &Program) -> Option<Self> {
        let has = |part: &str| program.libraries.iter().any(|path| path.contains(part));
        if process.name == "beam.smp" {
            Some(Self::Erlang)
        } else if has("/libjvm.so") {
            Some(Self::Jvm)
        } else if has("/libcoreclr.so") {
            Some(Self::DotNet)
        } else if program.go.is_some() {
            Some(Self::Go)
        } else if has("openblas") {
            let variables = &["OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"];
            Some(Self::Library("OpenBLAS", variables))
        } else if has("/libmkl_") {
            Some(Self::Library("MKL", &["MKL_NUM_THREADS", "OMP_NUM_THREADS"]))
        } else if has("/libiomp5") || has("/libomp.") || has("/libgomp") {
            Some(Self::Library("OpenMP", &["OMP_NUM_THREADS"]))
        } else {
            None
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Erlang => "Erlang",
            Self::Jvm => "JVM",
            Self::DotNet => ".NET",
            Self::Go => "Go",
            Self::Library(name, _) => name,
        }
    }

    /// How many threads are workers, of the sort of which there are most.
    fn workers(&self, process: &Process, counts: impl Fn(&Thread) -> bool) -> usize {
        let mut sorts: BTreeMap<&str, usize> = BTreeMap::new();
        for thread in process.threads.iter().filter(|thread| counts(thread)) {
            if let Some(sort) = self.sort(&process.name, &thread.name) {
                *sorts.entry(sort).or_default() += 1;
            }
        }
        sorts.into_values().max().unwrap_or(0)
    }

    /// The sort of worker that a thread of this name is. Names are cut after 15 bytes.
    fn sort(&self, process: &str, thread: &str) -> Option<&'static str> {
        let begins = |names: &[&'static str]| names.iter().find(|name| thread.starts_with(**name)).copied();
        match self {
            // OTP 26 named them anew.
            Self::Erlang => {
                (thread.starts_with("erts_sched_") || thread.ends_with("_scheduler")).then_some("scheduler")
            }
            Self::Jvm => begins(&[
                "GC Thread#",
                "G1 Conc#",
                "GC task thread#",
                "Gang worker#",
                "ParGC Thread#",
                "ZWorker#",
                "Shenandoah GC",
                "ForkJoinPool",
                "C2 CompilerThre",
            ]),
            Self::DotNet => begins(&[".NET Server GC", ".NET TP Worker"]),
            Self::Go | Self::Library(..) => (thread == process).then_some("worker"),
        }
    }

    /// The option that sets their number, where one does.
    fn given(&self, program: &Program) -> Option<Given> {
        match self {
            Self::Erlang => schedulers(&program.arguments),
            Self::Jvm => java(program),
            Self::DotNet => variable(program, &["DOTNET_PROCESSOR_COUNT", "DOTNET_GCHeapCount"]),
            Self::Go => variable(program, &["GOMAXPROCS"]),
            Self::Library(_, variables) => variable(program, variables),
        }
    }

    /// How many of the workers that an option sets there are. Libraries start them with the first work that they
    /// get, if ever, and some no more than there are CPUs.
    fn started(&self, threads: usize, given: usize) -> usize {
        if matches!(self, Self::Library(..)) { given.min(threads) } else { given }
    }

    /// Whether it looks at its limits by itself, so that its threads are something else.
    fn minds_limits(&self, program: &Program) -> bool {
        let Some(go) = &program.go else { return false };
        let told_not_to =
            program.environment.get("GODEBUG").is_some_and(|debug| debug.contains("containermaxprocs=0"));
        let minor = go.version.strip_prefix("go1.").unwrap_or_default();
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        let new = minor[..digits].parse::<u32>().is_ok_and(|minor| minor >= 25);
        *self == Self::Go && (go.automaxprocs || new && !go.ignores_quota && !told_not_to)
    }

    /// The option that leaves `workers`.
    fn cure(&self, workers: usize) -> String {
        match self {
            Self::Erlang => format!("+S {workers}:{workers}"),
            Self::Jvm => format!("-XX:ActiveProcessorCount={workers}"),
            Self::DotNet => format!("DOTNET_PROCESSOR_COUNT={workers}"),
            Self::Go => format!("GOMAXPROCS={workers} (Go 1.25 and newer mind quotas by themselves)"),
            Self::Library(_, variables) => {
                format!("{}={workers}", variables.first().copied().unwrap_or_default())
            }
        }
    }
}

/// Erlang's `+S SCHEDULERS:ONLINE`, which `erl` passes on as `-S`; what comes after `--` is the program's.
fn schedulers(arguments: &[String]) -> Option<Given> {
    let own: Vec<&str> = arguments.iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let at = own.iter().rposition(|word| {
        word.strip_prefix("-S")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
    })?;
    let value = own[at].strip_prefix("-S").filter(|rest| !rest.is_empty()).or(own.get(at + 1).copied())?;
    let online = value.rsplit(':').next()?;
    Some(Given { option: format!("+S {value}"), workers: online.parse().ok()? })
}

/// The last of the JVM's options counts; the command line comes after `JAVA_TOOL_OPTIONS` and before
/// `_JAVA_OPTIONS`.
fn java(program: &Program) -> Option<Given> {
    let words =
        |name: &str| program.environment.get(name).map(String::as_str).unwrap_or_default().split_whitespace();
    let line = program.arguments.iter().map(String::as_str);
    let all =
        words("JAVA_TOOL_OPTIONS").chain(words("JDK_JAVA_OPTIONS")).chain(line).chain(words("_JAVA_OPTIONS"));
    let all: Vec<&str> = all.collect();
    ["-XX:ActiveProcessorCount=", "-XX:ParallelGCThreads="].iter().find_map(|option| {
        let word = all.iter().rev().find(|word| word.starts_with(option))?;
        Some(Given { option: (*word).to_owned(), workers: word[option.len()..].parse().ok()? })
    })
}

/// The first of the variables that is set to a number, or to a list that begins with one.
fn variable(program: &Program, names: &[&str]) -> Option<Given> {
    names.iter().find_map(|name| {
        let value = program.environment.get(*name)?;
        let workers = value.split(',').next()?.trim().parse().ok().filter(|&workers| workers > 0)?;
        Some(Given { option: format!("{name}={value}"), workers })
    })
}
