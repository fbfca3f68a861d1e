//! Tests whether a limit is enforced: the bandwidth of a memory load with the limit and without.

use super::comparison::noise_floor;
use manycore_experiment::record::Experiment;
use manycore_stats::{
    Estimate,
    verdict::{Answer, DecisionRule, Verdict},
};
use serde::Serialize;

/// The property that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitCheck {
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

/// [`LimitResult::Holds`] needs the level of the experiment divided by this: others rely on it, and the noise of a virtual machine
/// comes in bursts, which can look like a small effect.
const HOLDS_DIVISOR: usize = 10;

impl LimitCheck {
    /// All of them.
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
    pub const fn has_competitors(self) -> bool {
        !matches!(self, Self::Bandwidth)
    }

    /// Returns the treatments, in the order of the design.
    pub const fn treatments(self) -> &'static [&'static str] {
        if self.has_competitors() { &[WITH, WITHOUT, ALONE] } else { &[WITH, WITHOUT] }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "answer", content = "why")]
pub enum LimitResult {
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitProof {
    /// The check.
    pub check: LimitCheck,
    /// The result of a check.
    #[serde(flatten)]
    pub shown: LimitResult,
    /// Bytes per second with the limit.
    pub with: Option<Estimate>,
    /// Bytes per second without the limit.
    pub without: Option<Estimate>,
    /// Bytes per second without the limit and without competing processes.
    pub alone: Option<Estimate>,
    /// Rate with the limit over rate without, evaluated as by `compare`: A is without, B is with the limit.
    pub verdict: Option<Verdict>,
}

impl LimitProof {
    /// Returns the result of a check that could not be measured, with the reason.
    pub fn not_measured(check: LimitCheck, why: String) -> Self {
        Self {
            check,
            shown: LimitResult::CannotShow(why),
            with: None,
            without: None,
            alone: None,
            verdict: None,
        }
    }

    /// Evaluates what was measured: the treatments of [`LimitCheck::treatments`], whose work is bytes.
    pub fn from_experiment(check: LimitCheck, experiment: &Experiment) -> Self {
        let at = |name: &str| experiment.treatments.iter().position(|treatment| treatment.name == name);
        let rates = |name| Estimate::from_samples(&experiment.rates(at(name)?));
        let rule = DecisionRule::from_parameters(&experiment.parameters);
        let evaluated = |a, b, rule| {
            let (a, b) = (at(a)?, at(b)?);
            Verdict::new(&experiment.log_ratios(a, b), rule, noise_floor(experiment, &[a, b]))
        };
        let verdict = evaluated(WITHOUT, WITH, rule);
        let holds = evaluated(WITHOUT, WITH, rule.divided_by(HOLDS_DIVISOR)).is_some_and(|verdict| {
            if check.has_competitors() {
                verdict.is_better_beyond_margin()
            } else {
                verdict.is_worse_beyond_margin()
            }
        });
        let shown = match &verdict {
            _ if holds => LimitResult::Holds,
            Some(verdict) if check.has_competitors() => {
                with_competition(verdict, evaluated(ALONE, WITHOUT, rule).as_ref())
            }
            Some(verdict) => limited(verdict),
            None => LimitResult::Inconclusive,
        };
        Self { check, shown, with: rates(WITH), without: rates(WITHOUT), alone: rates(ALONE), verdict }
    }
}

/// Evaluates a maximum that was not shown to hold. A loss within the margin means that the limit has no effect; a loss
/// that may be within the margin is inconclusive.
fn limited(verdict: &Verdict) -> LimitResult {
    match verdict.answer {
        _ if verdict.is_within_margin() => {
            LimitResult::Fails("the load gets as much bandwidth with the limit as without".to_owned())
        }
        Answer::BBetter => LimitResult::Fails("the load is faster with the limit than without".to_owned()),
        Answer::ABetter | Answer::Equivalent | Answer::Inconclusive | Answer::TradeOff => {
            LimitResult::Inconclusive
        }
    }
}

/// Evaluates a preference under contention that was not shown to hold. `contended` is the unpreferred rate with competing
/// processes over that without.
fn with_competition(verdict: &Verdict, contended: Option<&Verdict>) -> LimitResult {
    let plenty = contended
        .is_some_and(|contended| contended.is_within_margin() || contended.answer == Answer::BBetter);
    match (verdict.answer, plenty) {
        (Answer::ABetter, _) => {
            LimitResult::Fails("the load gets less bandwidth with the preference than without".to_owned())
        }
        (_, true) => LimitResult::CannotShow(
            "competing processes did not slow the load down, so memory bandwidth is not scarce here"
                .to_owned(),
        ),
        _ if verdict.is_within_margin() => LimitResult::Fails(
            "under contention the load gets as much bandwidth without the preference".to_owned(),
        ),
        _ => LimitResult::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_experiment::record::{Method, Sample, Treatment};
    use std::collections::BTreeMap;

    /// Twenty blocks in which each treatment transfers the given bytes, with noise of a thousandth.
    fn measured(treatments: &[(&str, f64)]) -> Experiment {
        scattered(treatments, 1e-3)
    }

    /// The same with noise of `share`.
    fn scattered(treatments: &[(&str, f64)], share: f64) -> Experiment {
        let named = |(name, _): &(&str, f64)| Treatment { name: (*name).to_owned(), ..Treatment::default() };
        let mut experiment = Experiment {
            id: String::new(),
            method: Method::WholeRun,
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

    fn shown(check: LimitCheck, treatments: &[(&str, f64)]) -> LimitResult {
        LimitProof::from_experiment(check, &measured(treatments)).shown
    }

    #[test]
    fn a_limit_must_reduce_the_bandwidth() {
        assert_eq!(shown(LimitCheck::Bandwidth, &[(WITH, 1e9), (WITHOUT, 1e10)]), LimitResult::Holds);
        assert!(matches!(
            shown(LimitCheck::Bandwidth, &[(WITH, 1e10), (WITHOUT, 1e10)]),
            LimitResult::Fails(_)
        ));
        assert!(matches!(
            shown(LimitCheck::Bandwidth, &[(WITH, 2e10), (WITHOUT, 1e10)]),
            LimitResult::Fails(_)
        ));
    }

    /// Regression: a limit to 10 % was reported as enforced although it took only 3.2 % (95 %: 0.2 to 5.9 %).
    #[test]
    fn a_loss_that_may_be_within_the_margin_proves_no_limit() {
        assert!(matches!(
            shown(LimitCheck::Bandwidth, &[(WITH, 0.99e10), (WITHOUT, 1e10)]),
            LimitResult::Fails(_)
        ));
        let near = |check, treatments: &[(&str, f64)]| {
            let proof = LimitProof::from_experiment(check, &scattered(treatments, 0.1));
            let verdict = proof.verdict.unwrap();
            assert!(verdict.is_different() && !verdict.is_within_margin(), "{verdict:?}");
            proof.shown
        };
        assert_eq!(
            near(LimitCheck::Bandwidth, &[(WITH, 0.97e10), (WITHOUT, 1e10)]),
            LimitResult::Inconclusive
        );
        let preferred = [(WITH, 5.15e9), (WITHOUT, 5e9), (ALONE, 1e10)];
        assert_eq!(near(LimitCheck::Priority, &preferred), LimitResult::Inconclusive);
    }

    /// Regression: of 31 pairs, the limit seemed to take 7.3 % (95 %: 2.5 to 12.9 %), and there was none.
    #[test]
    fn a_loss_beyond_the_margin_at_95_percent_only_proves_no_limit() {
        // With the limit, the bytes of the blocks are `share`, and up to 10 % more or less than that.
        let proof = |share: f64| {
            let mut experiment = scattered(&[(WITH, 1e10), (WITHOUT, 1e10)], 0.0);
            for sample in experiment.samples.iter_mut().filter(|sample| sample.treatment == 0) {
                sample.work *= share + (sample.block * 7 % 20) as f64 / 95.0 - 0.1;
            }
            LimitProof::from_experiment(LimitCheck::Bandwidth, &experiment)
        };
        let unproven = proof(0.94);
        assert!(unproven.verdict.as_ref().is_some_and(Verdict::is_worse_beyond_margin), "{unproven:?}");
        assert_eq!(unproven.shown, LimitResult::Inconclusive, "{unproven:?}");
        assert_eq!(proof(0.9).shown, LimitResult::Holds);
    }

    #[test]
    fn a_preference_shows_only_where_memory_is_scarce() {
        for check in [LimitCheck::Minimum, LimitCheck::Priority] {
            assert_eq!(shown(check, &[(WITH, 9e9), (WITHOUT, 5e9), (ALONE, 1e10)]), LimitResult::Holds);
            let scarce = [(WITH, 5e9), (WITHOUT, 5e9), (ALONE, 1e10)];
            assert!(matches!(shown(check, &scarce), LimitResult::Fails(_)));
            let plenty = [(WITH, 1e10), (WITHOUT, 1e10), (ALONE, 1e10)];
            assert!(matches!(shown(check, &plenty), LimitResult::CannotShow(_)));
            let worse = [(WITH, 1e9), (WITHOUT, 5e9), (ALONE, 1e10)];
            assert!(matches!(shown(check, &worse), LimitResult::Fails(_)));
        }
    }

    #[test]
    fn noise_that_could_hide_a_limit_is_no_proof_against_it() {
        let evaluated = |check, treatments: &[(&str, f64)]| {
            LimitProof::from_experiment(check, &scattered(treatments, 2.0))
        };
        let proof = evaluated(LimitCheck::Bandwidth, &[(WITH, 1e10), (WITHOUT, 1e10)]);
        assert_eq!(proof.verdict.unwrap().answer, Answer::Inconclusive);
        assert_eq!(proof.shown, LimitResult::Inconclusive);
        let even = [(WITH, 1e10), (WITHOUT, 1e10), (ALONE, 1e10)];
        assert_eq!(evaluated(LimitCheck::Priority, &even).shown, LimitResult::Inconclusive);
    }

    #[test]
    fn few_pairs_show_nothing() {
        let mut experiment = measured(&[(WITH, 1e9), (WITHOUT, 1e10)]);
        experiment.samples.truncate(4);
        let proof = LimitProof::from_experiment(LimitCheck::Bandwidth, &experiment);
        assert_eq!(proof.shown, LimitResult::Inconclusive);
        experiment.samples.clear();
        assert_eq!(LimitProof::from_experiment(LimitCheck::Bandwidth, &experiment).verdict, None);
    }
}
