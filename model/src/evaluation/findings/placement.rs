//! Threads or processes, pinned or not, and how good the arithmetic is.

use super::{Evaluation, Finding, Kind, scaling::ratio};
use crate::{
    evaluation::{
        Affinity, MatrixPoint, Modes, Peer,
        words::{percent, times},
    },
    verdict::{Answer, Verdict},
};

pub(super) fn find(evaluation: &Evaluation) -> Vec<Finding> {
    let mut findings: Vec<Finding> = evaluation.modes.iter().filter_map(mode).collect();
    findings.extend(evaluation.modes.iter().find_map(reference_blas));
    findings.extend(evaluation.affinity.as_ref().map(affinity).unwrap_or_default());
    findings.extend(evaluation.matrix.last().map(matrix));
    findings.extend(evaluation.peers.first().map(peer));
    findings
}

fn program(modes: &Modes) -> String {
    let parameter = |name: &str| modes.parameters.get(name).map_or("?", String::as_str);
    match parameter("program") {
        "python" if parameter("blas_threads") == "1" => "Python with one BLAS thread".to_owned(),
        "python" => "Python with BLAS as it comes".to_owned(),
        _ => "compiled code".to_owned(),
    }
}

fn mode(modes: &Modes) -> Option<Finding> {
    let named = |name: &str| modes.modes.iter().find(|mode| mode.name == name);
    let (threads, processes) = (named("threads")?, named("processes")?);
    let verdict = modes.processes_over_threads.as_ref()?;
    let program = program(modes);
    let best = if verdict.verdict == Answer::BBetter { processes } else { threads };
    let no_gain = best.speedup.interval.is_none_or(|(low, _)| low <= 1.0);
    let text = match verdict.verdict {
        _ if no_gain && verdict.verdict != Answer::NotEnough => {
            format!(
                "For {program}, neither threads nor processes were surely faster than one task after another."
            )
        }
        Answer::BBetter => format!("For {program}, use processes: they beat threads."),
        Answer::ABetter => format!("For {program}, use threads: they beat processes."),
        Answer::NoDifference => {
            format!("For {program}, threads and processes do equally well: take what is simpler to write.")
        }
        Answer::NotEnough => return None,
    };
    Some(Finding::new(
        Kind::Advice,
        "modes",
        text,
        vec![
            ratio(verdict, "processes over threads"),
            format!("threads {} over serial", times(&threads.speedup)),
            format!("processes {} over serial", times(&processes.speedup)),
        ],
    ))
}

fn reference_blas(modes: &Modes) -> Option<Finding> {
    let blas = modes.parameters.get("blas")?;
    let optimised = ["openblas", "mkl", "blis", "atlas", "accelerate", "nvpl", "armpl", "kblas"];
    let known = blas.to_lowercase();
    (known.contains("blas") && !optimised.iter().any(|name| known.contains(name))).then(|| {
        Finding::new(
            Kind::Advice,
            "matrix",
            "Python's NumPy uses the reference BLAS: an optimised one (Debian: libopenblas0; openEuler: openblas) \
             multiplies matrices 20 to 100 times faster."
                .to_owned(),
            vec![format!("BLAS in use: {blas}")],
        )
    })
}

fn affinity(affinity: &Affinity) -> Vec<Finding> {
    let mut findings = Vec::new();
    if affinity.elsewhere > 0 {
        findings.push(Finding::new(
            Kind::Warning,
            "affinity",
            "Bound processes were seen on other CPUs: something on this machine changes affinities (a daemon, a \
             cpuset), and the comparison of free with bound does not count."
                .to_owned(),
            vec![format!("{} of {} looks", affinity.elsewhere, affinity.checks)],
        ));
    }
    findings.extend(
        affinity.verdict.as_ref().filter(|_| affinity.elsewhere == 0).map(|verdict| pin(verdict, affinity)),
    );
    findings
}

fn pin(verdict: &Verdict, affinity: &Affinity) -> Finding {
    let (kind, text) = match verdict.verdict {
        Answer::BBetter => (
            Kind::Advice,
            format!("Bind processes to CPUs for work in cache: bound ones did {} more.", percent(verdict.ratio - 1.0)),
        ),
        Answer::ABetter => (
            Kind::Advice,
            format!("Do not bind processes here: bound ones did {} less.", percent(1.0 - verdict.ratio)),
        ),
        Answer::NoDifference => (
            Kind::Advice,
            "Leave the placement to the scheduler: binding made no difference that can be believed.".to_owned(),
        ),
        Answer::NotEnough => (
            Kind::Fact,
            "Whether binding helps cannot be told from this run: take a larger budget (--standard or --full)."
                .to_owned(),
        ),
    };
    Finding::new(
        kind,
        "affinity",
        text,
        vec![
            ratio(verdict, "bound over free"),
            format!(
                "bound processes looked {} times where they ran: {} times elsewhere",
                affinity.checks, affinity.elsewhere
            ),
        ],
    )
}

fn matrix(point: &MatrixPoint) -> Finding {
    let share = point
        .peak
        .map(|peak| format!(", {} of the core's peak of {peak:.0}", percent(point.one.median / peak)))
        .unwrap_or_default();
    let together = match (&point.speedup, &point.all) {
        (Some(speedup), Some(all)) => format!(
            " {} processes at once reach {:.1} GFLOPS, {:.2} times one.",
            point.processes, all.median, speedup.median
        ),
        _ => String::new(),
    };
    let mut evidence = vec![format!("{} samples on one core", point.one.n)];
    evidence.extend(point.speedup.as_ref().map(|speedup| format!("speed-up {}", times(speedup))));
    Finding::new(
        Kind::Fact,
        "matrix",
        format!(
            "One core multiplies {0} x {0} matrices at {1:.1} GFLOPS{share}.{together}",
            point.size, point.one.median
        ),
        evidence,
    )
}

fn peer(peer: &Peer) -> Finding {
    Finding::new(
        Kind::Fact,
        "peer",
        format!(
            "The built-in prime events run at {:.3} times sysbench's rate{}.",
            peer.ratio.median,
            if (peer.ratio.median - 1.0).abs() <= 0.05 { ": figures of both can be compared" } else { "" }
        ),
        vec![format!("{} pairs, {}", peer.ratio.n, times(&peer.ratio))],
    )
}
