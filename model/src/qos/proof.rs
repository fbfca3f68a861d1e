//! Tests whether a limit is enforced: the bandwidth of a memory load with the limit and without.

use super::{
    dialect::{Bounds, Dialect, Offer, Scope},
    told::Told,
    translate::Places,
    wish::{Bandwidth, On},
};
use crate::{
    CpuSet,
    evaluation::floor,
    record::Experiment,
    stats::Estimate,
    verdict::{Answer, Rule, Verdict},
};
use serde::Serialize;

/// Version of the JSON format of [`Proof`]s.
pub const PROOF_SCHEMA: &str = "manycore/qos-proof/1";

/// The property that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// A group with a maximum gets less bandwidth than one without.
    Bandwidth,
    /// Under contention, a group with a minimum gets more bandwidth than one without.
    Minimum,
    /// Under contention, a group with a high priority gets more bandwidth than one with the default priority.
    Priority,
}

/// Name of the treatment with the limit.
pub const WITH: &str = "with";
/// Name of the treatment with the same load without the limit.
pub const WITHOUT: &str = "without";
/// Name of the treatment without the limit and without competing processes; only of checks with competing
/// processes.
pub const ALONE: &str = "alone";

impl Check {
    /// All checks.
    pub const ALL: [Self; 3] = [Self::Bandwidth, Self::Minimum, Self::Priority];

    /// Returns the name on the command line: `bandwidth`, `min`, `priority`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Minimum => "min",
            Self::Priority => "priority",
        }
    }

    /// Whether the check needs processes that compete for memory.
    pub const fn has_rivals(self) -> bool {
        !matches!(self, Self::Bandwidth)
    }

    /// Returns the treatments, in the order of the design.
    pub const fn treatments(self) -> &'static [&'static str] {
        if self.has_rivals() { &[WITH, WITHOUT, ALONE] } else { &[WITH, WITHOUT] }
    }
}

/// Returns the default limit of the check `bandwidth`: a tenth, or the minimum if that is higher. Absent if
/// limits are rates, since the unlimited rate has to be measured first.
pub fn usual_limit(offer: &Offer) -> Option<Bandwidth> {
    if offer.megabytes || offer.dialect == Dialect::AmdPqos {
        return None;
    }
    let least = match offer.control("MB").or_else(|| offer.control("MBMAX")).map(|control| &control.bounds) {
        Some(Bounds::Number { least, .. }) => *least,
        _ => 0,
    };
    Some(Bandwidth::Percent(least.max(10)))
}

/// Returns the domains in which limits must be set so that they apply to a load on `cpus` of NUMA node
/// `node`: an L3 may serve several nodes, or a part of one. `None` (everywhere) if the topology is unknown.
pub fn reach(offer: &Offer, places: &Places, node: Option<u32>, cpus: &CpuSet) -> Option<On> {
    match offer.dialect.scope("MB") {
        Scope::Node => node.map(|node| On::Nodes(CpuSet::single(node))),
        Scope::Cache(level) => {
            let serves = |((of, _), its): &(&(u32, u32), &CpuSet)| *of == level && its.intersects(cpus);
            let caches: CpuSet = places.caches.iter().filter(serves).map(|((_, id), _)| *id).collect();
            (!caches.is_empty()).then_some(On::Caches(caches))
        }
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "answer", content = "why")]
pub enum Shown {
    /// The limit is enforced.
    Holds,
    /// The limit has no effect, or the wrong one.
    Fails(String),
    /// There are too few pairs, or they scatter too much, for a decision.
    Inconclusive,
    /// This machine or this load cannot show it.
    CannotShow(String),
}

/// The results of one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// The check.
    pub check: Check,
    /// The limits in force during the measurement.
    pub limits: Vec<Told>,
    /// The outcome.
    #[serde(flatten)]
    pub shown: Shown,
    /// Bytes per second with the limit.
    pub with: Option<Estimate>,
    /// Bytes per second without the limit.
    pub without: Option<Estimate>,
    /// Bytes per second without the limit and without competing processes.
    pub alone: Option<Estimate>,
    /// Rate with the limit over rate without, evaluated as by `compare`: A is without, B is with the limit.
    pub verdict: Option<Verdict>,
}

impl Proof {
    /// Returns the result of a check that could not be measured, with the reason.
    pub fn cannot(check: Check, why: String) -> Self {
        Self {
            check,
            limits: Vec::new(),
            shown: Shown::CannotShow(why),
            with: None,
            without: None,
            alone: None,
            verdict: None,
        }
    }

    /// Evaluates a measurement with the treatments of [`Check::treatments`], whose unit of work is bytes.
    pub fn of(check: Check, limits: Vec<Told>, experiment: &Experiment) -> Self {
        let at = |name: &str| experiment.treatments.iter().position(|treatment| treatment.name == name);
        let rates = |name| Estimate::of(&experiment.rates(at(name)?));
        let judged = |a, b| {
            let (a, b) = (at(a)?, at(b)?);
            Verdict::of(&experiment.log_ratios(a, b), Rule::of(experiment), floor(experiment, &[a, b]))
        };
        let verdict = judged(WITHOUT, WITH);
        let shown = match &verdict {
            Some(verdict) if check.has_rivals() => among_rivals(verdict, judged(ALONE, WITHOUT).as_ref()),
            Some(verdict) => limited(verdict),
            None => Shown::Inconclusive,
        };
        Self {
            check,
            limits,
            shown,
            with: rates(WITH),
            without: rates(WITHOUT),
            alone: rates(ALONE),
            verdict,
        }
    }
}

/// Evaluates a maximum. A loss within the margin means that the limit has no effect; a loss that may be
/// within the margin is inconclusive.
fn limited(verdict: &Verdict) -> Shown {
    match verdict.verdict {
        _ if verdict.is_within_margin() => {
            Shown::Fails("the load gets as much bandwidth with the limit as without".to_owned())
        }
        Answer::ABetter if verdict.is_worse_beyond_margin() => Shown::Holds,
        Answer::BBetter => Shown::Fails("the load is faster with the limit than without".to_owned()),
        Answer::ABetter | Answer::Equivalent | Answer::Inconclusive => Shown::Inconclusive,
    }
}

/// Evaluates a preference under contention. `crowded` is the unpreferred rate with competing processes over
/// that without.
fn among_rivals(verdict: &Verdict, crowded: Option<&Verdict>) -> Shown {
    let plenty =
        crowded.is_some_and(|crowded| crowded.is_within_margin() || crowded.verdict == Answer::BBetter);
    match (verdict.verdict, plenty) {
        _ if verdict.is_better_beyond_margin() => Shown::Holds,
        (Answer::ABetter, _) => {
            Shown::Fails("the load gets less bandwidth with the preference than without".to_owned())
        }
        (_, true) => Shown::CannotShow(
            "competing processes did not slow the load down, so memory bandwidth is not scarce here"
                .to_owned(),
        ),
        _ if verdict.is_within_margin() => {
            Shown::Fails("under contention the load gets as much bandwidth without the preference".to_owned())
        }
        _ => Shown::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        qos::{
            dialect::Info,
            schemata::Schemata,
            translate::{Refusal, translate},
            wish::Wish,
        },
        record::{Method, Sample, Treatment},
    };
    use std::collections::BTreeMap;

    fn offer(dialect: Dialect, least: u64, options: &[&str]) -> Offer {
        let info = Info { least: Some(least), step: Some(1), ..Info::default() };
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        Offer::new(dialect, &options, &Schemata::parse("MB:0=100;1=100"), &[("MB".to_owned(), info)].into())
    }

    #[test]
    fn the_usual_limit_is_one_that_can_be_set() {
        assert_eq!(usual_limit(&offer(Dialect::IntelRdt, 10, &[])), Some(Bandwidth::Percent(10)));
        assert_eq!(usual_limit(&offer(Dialect::Mpam, 13, &[])), Some(Bandwidth::Percent(13)));
        assert_eq!(usual_limit(&offer(Dialect::OpenEuler66, 1, &[])), Some(Bandwidth::Percent(10)));
        assert_eq!(usual_limit(&offer(Dialect::AmdPqos, 0, &[])), None);
        assert_eq!(usual_limit(&offer(Dialect::IntelRdt, 10, &["mba_MBps"])), None);
    }

    #[test]
    fn limits_reach_the_whole_cache_that_several_nodes_share() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let places = Places {
            nodes: [(0, "0-3"), (1, "4-7"), (2, "8-11")].map(|(node, list)| (node, cpus(list))).into(),
            caches: [((2, 0), "0-1"), ((3, 0), "0-7"), ((3, 1), "8-11")]
                .map(|(cache, list)| (cache, cpus(list)))
                .into(),
        };
        let intel = offer(Dialect::IntelRdt, 10, &[]);
        let on = reach(&intel, &places, Some(1), &cpus("4-7"));
        assert_eq!(on, Some(On::Caches(cpus("0"))));
        let wish = Wish { bandwidth: usual_limit(&intel), on, ..Wish::default() };
        let writes = translate(&wish, &intel, &places, &[]);
        let lines = writes.map(|writes| writes.iter().map(|write| write.line.to_string()).collect());
        assert_eq!(lines, Ok::<Vec<String>, Vec<Refusal>>(vec!["MB:0=10".to_owned()]));
        let euler = offer(Dialect::OpenEuler66, 1, &[]);
        assert_eq!(reach(&euler, &places, Some(1), &cpus("4-7")), Some(On::Nodes(cpus("1"))));
        assert_eq!(reach(&intel, &Places::default(), None, &cpus("4-7")), None);
    }

    /// Twenty blocks in which each treatment transfers the given bytes, with noise of a thousandth.
    fn measured(treatments: &[(&str, f64)]) -> Experiment {
        scattered(treatments, 1e-3)
    }

    /// The same with noise of `share`.
    fn scattered(treatments: &[(&str, f64)], share: f64) -> Experiment {
        let named = |(name, _): &(&str, f64)| Treatment { name: (*name).to_owned(), ..Treatment::default() };
        let mut experiment = Experiment {
            id: String::new(),
            method: Method::Whole,
            unit: "bytes".to_owned(),
            parameters: BTreeMap::new(),
            metrics: Vec::new(),
            treatments: treatments.iter().map(named).collect(),
            samples: Vec::new(),
        };
        for block in 0..20 {
            for (treatment, (_, bytes)) in treatments.iter().enumerate() {
                let noise = 1.0 + ((block * 7 + treatment * 3) % 11) as f64 / 10.0 * share;
                let sample = Sample {
                    block,
                    treatment,
                    wall_ns: 1_000_000_000,
                    work: bytes * noise,
                    ..Sample::default()
                };
                experiment.samples.push(sample);
            }
        }
        experiment
    }

    fn shown(check: Check, treatments: &[(&str, f64)]) -> Shown {
        Proof::of(check, Vec::new(), &measured(treatments)).shown
    }

    #[test]
    fn a_limit_has_to_take_something() {
        assert_eq!(shown(Check::Bandwidth, &[(WITH, 1e9), (WITHOUT, 1e10)]), Shown::Holds);
        assert!(matches!(shown(Check::Bandwidth, &[(WITH, 1e10), (WITHOUT, 1e10)]), Shown::Fails(_)));
        assert!(matches!(shown(Check::Bandwidth, &[(WITH, 2e10), (WITHOUT, 1e10)]), Shown::Fails(_)));
    }

    /// Regression: a limit to 10 % was reported as enforced although it took only 3.2 % (95 %: 0.2 to 5.9 %).
    #[test]
    fn a_loss_that_may_be_within_the_margin_proves_no_limit() {
        assert!(matches!(shown(Check::Bandwidth, &[(WITH, 0.99e10), (WITHOUT, 1e10)]), Shown::Fails(_)));
        let near = |check, treatments: &[(&str, f64)]| {
            let proof = Proof::of(check, Vec::new(), &scattered(treatments, 0.1));
            let verdict = proof.verdict.unwrap();
            assert!(verdict.is_different() && !verdict.is_within_margin(), "{verdict:?}");
            proof.shown
        };
        assert_eq!(near(Check::Bandwidth, &[(WITH, 0.97e10), (WITHOUT, 1e10)]), Shown::Inconclusive);
        let preferred = [(WITH, 5.15e9), (WITHOUT, 5e9), (ALONE, 1e10)];
        assert_eq!(near(Check::Priority, &preferred), Shown::Inconclusive);
    }

    #[test]
    fn a_preference_shows_only_where_memory_is_scarce() {
        for check in [Check::Minimum, Check::Priority] {
            assert_eq!(shown(check, &[(WITH, 9e9), (WITHOUT, 5e9), (ALONE, 1e10)]), Shown::Holds);
            let scarce = [(WITH, 5e9), (WITHOUT, 5e9), (ALONE, 1e10)];
            assert!(matches!(shown(check, &scarce), Shown::Fails(_)));
            let plenty = [(WITH, 1e10), (WITHOUT, 1e10), (ALONE, 1e10)];
            assert!(matches!(shown(check, &plenty), Shown::CannotShow(_)));
            let worse = [(WITH, 1e9), (WITHOUT, 5e9), (ALONE, 1e10)];
            assert!(matches!(shown(check, &worse), Shown::Fails(_)));
        }
    }

    #[test]
    fn noise_that_could_hide_a_limit_is_no_proof_against_it() {
        let judged =
            |check, treatments: &[(&str, f64)]| Proof::of(check, Vec::new(), &scattered(treatments, 2.0));
        let proof = judged(Check::Bandwidth, &[(WITH, 1e10), (WITHOUT, 1e10)]);
        assert_eq!(proof.verdict.unwrap().verdict, Answer::Inconclusive);
        assert_eq!(proof.shown, Shown::Inconclusive);
        let even = [(WITH, 1e10), (WITHOUT, 1e10), (ALONE, 1e10)];
        assert_eq!(judged(Check::Priority, &even).shown, Shown::Inconclusive);
    }

    #[test]
    fn few_pairs_show_nothing() {
        let mut experiment = measured(&[(WITH, 1e9), (WITHOUT, 1e10)]);
        experiment.samples.truncate(4);
        let proof = Proof::of(Check::Bandwidth, Vec::new(), &experiment);
        assert_eq!(proof.shown, Shown::Inconclusive);
        experiment.samples.clear();
        assert_eq!(Proof::of(Check::Bandwidth, Vec::new(), &experiment).verdict, None);
    }
}
