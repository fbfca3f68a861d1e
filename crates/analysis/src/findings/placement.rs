//! Findings about threads and processes, pinning, and arithmetic speed.

use super::{
    Evaluation, Finding, FindingKind, conditions::worker_count, kind_of_difference, kind_of_estimate,
    scaling::ratio,
};
use crate::{
    MatrixPoint, ParallelMode, ParallelModes, PinningComparison, ProgramComparison, usable_cpus,
    wording::{percent, times},
};
use manycore_experiment::Record;
use manycore_stats::{
    Estimate,
    verdict::{Answer, EQUIVALENCE_MARGIN, Verdict},
};
use manycore_text::names::list;

/// Ratio of GFLOPS from which a faster BLAS is reported.
const MIN_BLAS_RATIO: f64 = 1.5;

/// Two programs whose rates differ by no more than this share do the same work.
const COMPARABLE: f64 = 0.03;

pub(super) fn find(record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let cpus = usable_cpus(&record.machine) as f64;
    let mut findings: Vec<Finding> = evaluation.modes.iter().filter_map(mode).collect();
    findings.extend(evaluation.modes.iter().flat_map(|modes| superlinear_modes(modes, cpus)));
    findings.extend(evaluation.modes.iter().find_map(|modes| slow_blas(modes, &evaluation.matrix)));
    findings.extend(evaluation.affinity.as_ref().map(affinity).unwrap_or_default());
    findings.extend(evaluation.matrix.last().map(matrix));
    findings.extend(evaluation.matrix.iter().filter_map(superlinear_matrix));
    findings.extend(evaluation.sysbench.iter().filter_map(peer));
    findings
}

/// Warns about a speed-up that is certainly above the number of CPUs in use. A speed-up that may be due to
/// chance is not reported.
fn superlinear(topic: &'static str, what: &str, speedup: &Estimate, linear: f64) -> Option<Finding> {
    let surely = speedup.interval.is_some_and(|(low, _)| low > linear * (1.0 + EQUIVALENCE_MARGIN));
    surely.then(|| {
        let text = format!(
            "The speed-up of {what} is above {linear}, the number of CPUs in use: the baseline ran slower \
             than it could, or had less cache. The record does not show which."
        );
        Finding::new(FindingKind::Warning, topic, text, vec![format!("speed-up {}", times(speedup))])
    })
}

fn superlinear_modes(modes: &ParallelModes, cpus: f64) -> impl Iterator<Item = Finding> {
    let tasks = modes.parameters.get("tasks").and_then(|tasks| tasks.parse().ok()).unwrap_or(f64::INFINITY);
    let program = program(modes);
    modes.modes.iter().filter_map(move |mode| {
        superlinear("modes", &format!("{} in {program}", mode.name), &mode.speedup, cpus.min(tasks))
    })
}

fn superlinear_matrix(point: &MatrixPoint) -> Option<Finding> {
    let what = format!("{} matrix products of {1} x {1} at once", point.processes, point.size);
    superlinear("matrix", &what, point.speedup.as_ref()?, point.processes as f64)
}

pub(crate) fn program(modes: &ParallelModes) -> String {
    let parameter = |name: &str| modes.parameters.get(name).map_or("?", String::as_str);
    match parameter("program") {
        "python" if parameter("blas_threads") == "1" => "Python with one BLAS thread".to_owned(),
        "python" => "Python with default BLAS threads".to_owned(),
        _ => "compiled code".to_owned(),
    }
}

fn mode(modes: &ParallelModes) -> Option<Finding> {
    let named = |name: &str| modes.modes.iter().find(|mode| mode.name == name);
    let (threads, processes) = (named("threads")?, named("processes")?);
    let verdict = modes.processes_over_threads.as_ref()?;
    let (kind, text) = preferred_mode(modes, [threads, processes], verdict);
    let evidence = vec![
        ratio(verdict, "processes over threads"),
        format!("threads {} over serial", times(&threads.speedup)),
        format!("processes {} over serial", times(&processes.speedup)),
    ];
    Some(Finding::new(kind, "modes", text, evidence))
}

/// Returns which mode to use, as far as the pairs show it.
fn preferred_mode(
    modes: &ParallelModes,
    both: [&ParallelMode; 2],
    verdict: &Verdict,
) -> (FindingKind, String) {
    let surely = |mode: &&ParallelMode| mode.speedup.interval.is_some_and(|(low, _)| low > 1.0);
    let program = program(modes);
    if !both.iter().any(surely) {
        return no_faster_mode(&program, both, verdict.rule.margin);
    }
    match verdict.answer {
        Answer::BBetter if kind_of_difference(verdict) == FindingKind::Advice => {
            (FindingKind::Advice, format!("For {program}, use processes: they are faster than threads."))
        }
        Answer::ABetter if kind_of_difference(verdict) == FindingKind::Advice => {
            (FindingKind::Advice, format!("For {program}, use threads: they are faster than processes."))
        }
        Answer::ABetter | Answer::BBetter => (
            FindingKind::Fact,
            format!("For {program}, processes do {:.3} times the work of threads.", verdict.ratio),
        ),
        Answer::Equivalent => (
            FindingKind::Advice,
            format!(
                "For {program}, threads and processes are equivalent within {}: use whichever is simpler.",
                percent(verdict.rule.margin)
            ),
        ),
        Answer::Inconclusive | Answer::TradeOff => {
            let faster: Vec<String> = both.into_iter().filter(surely).map(|mode| mode.name.clone()).collect();
            let text = format!(
                "For {program}, {} are faster than one task after another; whether threads or processes are \
                 better is inconclusive.",
                list(&faster)
            );
            (FindingKind::Doubtful, text)
        }
    }
}

/// Returns what to use where no mode is certainly faster than one task after another.
fn no_faster_mode(program: &str, both: [&ParallelMode; 2], margin: f64) -> (FindingKind, String) {
    // The gain is within the margin everywhere in the interval.
    let useless = |mode: &&ParallelMode| mode.speedup.interval.is_some_and(|(_, high)| high <= 1.0 + margin);
    let slower = slower(&both);
    if both.iter().all(useless) {
        let text = format!(
            "For {program}, run one task after another: threads and processes are not faster{slower}."
        );
        return (FindingKind::Advice, text);
    }
    let text = format!(
        "For {program}, whether threads or processes are faster than one task after another is inconclusive{slower}."
    );
    (FindingKind::Doubtful, text)
}

/// Returns the modes that were certainly slower than serial, as the end of a sentence.
fn slower(modes: &[&ParallelMode]) -> String {
    let surely = modes.iter().filter(|mode| mode.speedup.interval.is_some_and(|(_, high)| high < 1.0));
    let listed: Vec<String> = surely
        .map(|mode| format!("{} took {:.1} times as long", mode.name, 1.0 / mode.speedup.median))
        .collect();
    if listed.is_empty() { String::new() } else { format!(", and {}", list(&listed)) }
}

/// Reports a BLAS far below the speed that this machine reached, with the fix that the record suggests.
fn slow_blas(modes: &ParallelModes, matrix: &[MatrixPoint]) -> Option<Finding> {
    let number = |name: &str| modes.parameters.get(name)?.parse::<f64>().ok();
    let (blas, theirs) = (modes.parameters.get("blas")?, number("blas_gflops")?);
    let mut evidence = vec![format!("BLAS in use: {blas}; {theirs:.1} GFLOPS at 500 x 500 on one thread")];
    let best_kernel = modes.parameters.get("blas_kernel").zip(number("blas_kernel_gflops"));
    if let Some((kernel, gflops)) = best_kernel.filter(|(_, gflops)| *gflops > MIN_BLAS_RATIO * theirs) {
        evidence.push(format!("{gflops:.1} GFLOPS with OPENBLAS_CORETYPE={kernel}"));
        let text = format!(
            "Set OPENBLAS_CORETYPE={kernel} for NumPy: this OpenBLAS does not seem to recognise the CPU; with that \
             kernel it multiplied matrices {:.1} times as fast.",
            gflops / theirs
        );
        return Some(Finding::new(FindingKind::Advice, "matrix", text, evidence));
    }
    let ours = matrix.iter().find(|point| point.size == 500)?.one_gflops.median;
    (ours > MIN_BLAS_RATIO * theirs).then(|| {
        evidence.push(format!("{ours:.1} GFLOPS by the built-in product of the same size"));
        let optimised = ["openblas", "mkl", "blis", "armpl", "kblas"].iter().any(|name| blas.contains(name));
        let fix = if optimised {
            "Check NumPy's BLAS, which may not recognise this CPU or not use its vector units"
        } else {
            "Give NumPy an optimised BLAS (Debian: libopenblas0; openEuler: openblas)"
        };
        let text = format!("{fix}: the built-in product reached {:.1} times its GFLOPS.", ours / theirs);
        Finding::new(FindingKind::Advice, "matrix", text, evidence)
    })
}

fn affinity(affinity: &PinningComparison) -> Vec<Finding> {
    let mut findings = Vec::new();
    if affinity.off_cpu_checks > 0 {
        findings.push(Finding::new(
            FindingKind::Warning,
            "affinity",
            "Pinned processes were seen on other CPUs: something on this machine changes affinities (a daemon, a \
             cpuset). The comparison of unpinned with pinned processes is not valid."
                .to_owned(),
            vec![format!("{} of {} checks", affinity.off_cpu_checks, affinity.cpu_checks)],
        ));
    }
    findings.extend(
        affinity
            .verdict
            .as_ref()
            .filter(|_| affinity.off_cpu_checks == 0)
            .map(|verdict| pin(verdict, affinity)),
    );
    findings
}

fn pin(verdict: &Verdict, affinity: &PinningComparison) -> Finding {
    let (kind, text) = match verdict.answer {
        Answer::ABetter | Answer::BBetter if kind_of_difference(verdict) != FindingKind::Advice => (
            FindingKind::Fact,
            format!("Pinned processes do {:.3} times the work of unpinned ones.", verdict.ratio),
        ),
        Answer::BBetter => (
            FindingKind::Advice,
            format!(
                "Pin processes to CPUs for work in cache: pinned ones did {} more.",
                percent(verdict.ratio - 1.0)
            ),
        ),
        Answer::ABetter => (
            FindingKind::Advice,
            format!("Do not pin processes here: pinned ones did {} less.", percent(1.0 - verdict.ratio)),
        ),
        Answer::Equivalent => (
            FindingKind::Advice,
            format!(
                "Leave the placement to the scheduler: pinned and unpinned processes are equivalent within {}.",
                percent(verdict.rule.margin)
            ),
        ),
        Answer::Inconclusive | Answer::TradeOff => (
            FindingKind::Doubtful,
            "Whether pinning helps is inconclusive: a larger budget may show it.".to_owned(),
        ),
    };
    Finding::new(
        kind,
        "affinity",
        text,
        vec![
            ratio(verdict, "pinned over unpinned"),
            format!(
                "{} processes{}; in {} checks a pinned one was on another CPU {} times",
                affinity.pinned_seconds.len(),
                affinity.cpus.as_ref().map_or_else(String::new, |cpus| format!(" on CPUs {cpus}")),
                affinity.cpu_checks,
                affinity.off_cpu_checks
            ),
        ],
    )
}

fn matrix(point: &MatrixPoint) -> Finding {
    let share = point
        .peak_gflops
        .map(|peak| format!(", {} of the core's peak of {peak:.0}", percent(point.one_gflops.median / peak)))
        .unwrap_or_default();
    let together = match (&point.speedup, &point.all_gflops) {
        (Some(speedup), Some(all)) => format!(
            " {} processes at once reach {:.1} GFLOPS, {:.2} times one.",
            point.processes, all.median, speedup.median
        ),
        _ => String::new(),
    };
    let mut evidence = vec![format!("{} samples on one core", point.one_gflops.n)];
    evidence.extend(point.speedup.as_ref().map(|speedup| format!("speed-up {}", times(speedup))));
    Finding::new(
        kind_of_estimate(&point.one_gflops),
        "matrix",
        format!(
            "One core multiplies {0} x {0} matrices at {1:.1} GFLOPS{share}.{together}",
            point.size, point.one_gflops.median
        ),
        evidence,
    )
}

fn peer(peer: &ProgramComparison) -> Option<Finding> {
    let ratio = peer.ratio.as_ref()?;
    let near = |end: f64| (end - 1.0).abs() <= COMPARABLE;
    let alike = ratio.interval.is_some_and(|(low, high)| near(low) && near(high));
    let meaning = if alike { ": the figures of both are comparable" } else { "" };
    let text = format!(
        "With {}, the built-in prime events run at {:.3} times sysbench's rate{meaning}.",
        worker_count(peer.workers),
        ratio.median
    );
    Some(Finding::new(
        kind_of_estimate(ratio),
        "sysbench",
        text,
        vec![format!("{} pairs, {}", peer.pairs, times(ratio))],
    ))
}
