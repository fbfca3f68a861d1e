//! Runtimes that run one worker per CPU of the machine, although their process has fewer CPUs or a smaller
//! quota.
//!
//! Only running workers count. If an option sets their number, that number is used. Otherwise workers are the
//! threads with a worker's name that have used CPU time, and their number must be close to the number of CPUs
//! of the machine or of the affinity mask: a server with a hundred threads for its clients is not a finding.
//! Runtimes that adapt to their limits (a JVM since 8u191, Go since 1.25, Erlang/OTP since 23, .NET, Node)
//! are found only if an option overrides that. Pools of Rayon and Tokio cannot be distinguished from other
//! threads by name, but both respect affinity and quota.

use super::{
    BUSY, Finding, FindingKind,
    facts::{AuditFacts, Process, Program, Thread},
    severity, words,
};
use std::collections::BTreeMap;

/// Environment variables that set the number of workers.
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

/// Parts of the paths of libraries by which a runtime is recognised.
pub const LIBRARIES: [&str; 7] =
    ["/libjvm.so", "/libcoreclr.so", "openblas", "/libmkl_", "/libiomp5", "/libomp.", "/libgomp"];

/// A thread with less CPU time was started but never had work (one tick of the clock in `/proc`).
const RAN_SECONDS: f64 = 0.01;

/// Returns a finding for each process.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    facts.processes.iter().filter_map(|process| of_process(facts, process)).collect()
}

/// Whether there are clearly too many workers for this many CPUs: at least 1.5 per CPU, where a fraction of a
/// CPU counts as one.
pub fn clearly_more(workers: usize, cpus: f64) -> bool {
    workers as f64 >= 1.5 * cpus.ceil().max(1.0)
}

fn of_process(facts: &AuditFacts, process: &Process) -> Option<Finding> {
    let program = process.program.as_ref()?;
    let runtime = Runtime::detect(process, program)?;
    let limits = Limits::new(facts, process);
    let threads = runtime.workers(process, |_| true);
    let (workers, set_by) = match runtime.worker_option(program) {
        Some(given) => (runtime.started(threads, given.workers), Some(given.option)),
        None if runtime.respects_limits(program) => return None,
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
    facts: &AuditFacts,
    process: &Process,
    runtime: &Runtime,
    limits: &Limits,
    (workers, threads, set_by): (usize, usize, Option<String>),
) -> Finding {
    let reference = process.reference(workers);
    let cpus = figure(limits.cpus);
    let room = if limits.cpus == 1.0 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
    let cause = match &set_by {
        Some(option) => {
            format!("set by {option}; {} named like workers", words::count(threads, "thread", "threads"))
        }
        None => format!("{} named like workers used CPU time", words::count(workers, "thread", "threads")),
    };
    // Half a CPU still needs one worker.
    let fitting = (limits.cpus as usize).max(1);
    let act = if set_by.is_some() { "lower it" } else { "start it with" };
    Finding {
        severity: severity(process.busy_cpus.is_some_and(|busy| busy >= BUSY)),
        headline: format!(
            "{} of {} runs {} on {room}",
            runtime.name(),
            words::process(&reference),
            words::count(workers, "worker", "workers")
        ),
        evidence: vec![
            cause,
            format!("{} allows {room}; the machine has {}", limits.source, facts.online.len()),
        ],
        fix: format!("{act}: {}", runtime.fix(fitting)),
        subject: FindingKind::TooManyThreads {
            process: reference,
            runtime: runtime.name().to_owned(),
            allowed_cpus: limits.cpus,
            limit: limits.source.clone(),
            online_cpus: facts.online.len(),
            set_by,
        },
    }
}

/// Formats a number of CPUs: `2`, `0.5`, `2.25`.
fn figure(cpus: f64) -> String {
    let text = format!("{cpus:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The CPU limits of a process.
struct Limits {
    /// Number of CPUs, fractional if a quota is the lowest limit.
    cpus: f64,
    /// Number of CPUs in its affinity masks.
    mask: usize,
    /// The source of the limit.
    source: String,
}

impl Limits {
    fn new(facts: &AuditFacts, process: &Process) -> Self {
        let own = &process.limits;
        let mask = process.allowed_cpus(&facts.online);
        let cpuset = own.usable(&facts.online);
        let source = if !cpuset.is_empty() && cpuset.is_subset(&mask) && cpuset != facts.online {
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
    /// A library with its variables, in order of precedence.
    Library(&'static str, &'static [&'static str]),
}

/// An option and the number of workers that it sets.
struct WorkerOption {
    option: String,
    workers: usize,
}

impl Runtime {
    fn detect(process: &Process, program: &Program) -> Option<Self> {
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

    /// Returns the number of workers, of the kind of worker that is most frequent.
    fn workers(&self, process: &Process, counts: impl Fn(&Thread) -> bool) -> usize {
        let mut sorts: BTreeMap<&str, usize> = BTreeMap::new();
        for thread in process.threads.iter().filter(|thread| counts(thread)) {
            if let Some(sort) = self.sort(&process.name, &thread.name) {
                *sorts.entry(sort).or_default() += 1;
            }
        }
        sorts.into_values().max().unwrap_or(0)
    }

    /// Returns the kind of worker that has this thread name. Names are cut after 15 bytes.
    fn sort(&self, process: &str, thread: &str) -> Option<&'static str> {
        let begins = |names: &[&'static str]| names.iter().find(|name| thread.starts_with(**name)).copied();
        match self {
            // OTP 26 renamed them.
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

    /// Returns the option that sets the number of workers, if any.
    fn worker_option(&self, program: &Program) -> Option<WorkerOption> {
        match self {
            Self::Erlang => schedulers(&program.arguments),
            Self::Jvm => java(program),
            Self::DotNet => variable(program, &["DOTNET_PROCESSOR_COUNT", "DOTNET_GCHeapCount"]),
            Self::Go => variable(program, &["GOMAXPROCS"]),
            Self::Library(_, variables) => variable(program, variables),
        }
    }

    /// Returns how many of the workers that an option sets are running. Libraries start them with their first
    /// work, and some libraries start no more than there are CPUs.
    fn started(&self, threads: usize, given: usize) -> usize {
        if matches!(self, Self::Library(..)) { given.min(threads) } else { given }
    }

    /// Whether the runtime respects its limits by itself, so that its threads are not too many workers.
    fn respects_limits(&self, program: &Program) -> bool {
        let Some(go) = &program.go else { return false };
        let told_not_to =
            program.environment.get("GODEBUG").is_some_and(|debug| debug.contains("containermaxprocs=0"));
        let minor = go.version.strip_prefix("go1.").unwrap_or_default();
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        let new = minor[..digits].parse::<u32>().is_ok_and(|minor| minor >= 25);
        *self == Self::Go && (go.automaxprocs || new && !go.ignores_quota && !told_not_to)
    }

    /// Returns the option that sets the number of workers to `workers`.
    fn fix(&self, workers: usize) -> String {
        match self {
            Self::Erlang => format!("+S {workers}:{workers}"),
            Self::Jvm => format!("-XX:ActiveProcessorCount={workers}"),
            Self::DotNet => format!("DOTNET_PROCESSOR_COUNT={workers}"),
            Self::Go => format!("GOMAXPROCS={workers} (Go 1.25 and newer respect quotas by default)"),
            Self::Library(_, variables) => {
                format!("{}={workers}", variables.first().copied().unwrap_or_default())
            }
        }
    }
}

/// Parses Erlang's `+S SCHEDULERS:ONLINE`, which `erl` passes on as `-S`; arguments after `--` belong to the
/// program.
fn schedulers(arguments: &[String]) -> Option<WorkerOption> {
    let own: Vec<&str> = arguments.iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let at = own.iter().rposition(|word| {
        word.strip_prefix("-S")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
    })?;
    let value = own[at].strip_prefix("-S").filter(|rest| !rest.is_empty()).or(own.get(at + 1).copied())?;
    let online = value.rsplit(':').next()?;
    Some(WorkerOption { option: format!("+S {value}"), workers: online.parse().ok()? })
}

/// Returns the JVM option in force: the last one. The command line comes after `JAVA_TOOL_OPTIONS` and before
/// `_JAVA_OPTIONS`.
fn java(program: &Program) -> Option<WorkerOption> {
    let words =
        |name: &str| program.environment.get(name).map(String::as_str).unwrap_or_default().split_whitespace();
    let line = program.arguments.iter().map(String::as_str);
    let all =
        words("JAVA_TOOL_OPTIONS").chain(words("JDK_JAVA_OPTIONS")).chain(line).chain(words("_JAVA_OPTIONS"));
    let all: Vec<&str> = all.collect();
    ["-XX:ActiveProcessorCount=", "-XX:ParallelGCThreads="].iter().find_map(|option| {
        let word = all.iter().rev().find(|word| word.starts_with(option))?;
        Some(WorkerOption { option: (*word).to_owned(), workers: word[option.len()..].parse().ok()? })
    })
}

/// Returns the first of the variables that is set to a number, or to a list that begins with one.
fn variable(program: &Program, names: &[&str]) -> Option<WorkerOption> {
    names.iter().find_map(|name| {
        let value = program.environment.get(*name)?;
        let workers = value.split(',').next()?.trim().parse().ok().filter(|&workers| workers > 0)?;
        Some(WorkerOption { option: format!("{name}={value}"), workers })
    })
}
