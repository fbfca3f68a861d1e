//! Spread or pack, as measured on the live work.
//!
//! The work runs under both policies in turn, in pairs of slices in random order. The first part of each slice is thrown
//! away. The progress of the work in each slice gives one ratio per pair, and the rule of all comparisons decides:
//! interim analyses at a level that allows for several of them. A policy is kept only if it is shown to be better;
//! otherwise the work is spread, as without this. When the progress changes lastingly, the measurement begins again.

use super::{ProgressCommand, ServiceRequest, groups::GroupPolicies};
use crate::{
    engine::Scheduler,
    error::{Error, Result},
    run::{FixedPolicy, Policy, Target},
};
use manycore_linux::clock;
use manycore_stats::{
    log_ratio,
    verdict::{Answer, DecisionRule, Verdict},
};
use std::time::{Duration, Instant};

/// Length of a slice.
const SLICE: Duration = Duration::from_secs(2);
/// Time after a switch that does not count: running tasks are moved within a few ticks, and caches are filled again.
const SETTLING: Duration = Duration::from_millis(500);
/// Numbers of pairs after which is decided.
const ANALYSES: [usize; 3] = [12, 20, 32];
/// A progress that differs by so much from the one at the decision, in all of the latest readings, is another load.
const OTHER_LOAD: f64 = 1.5;
/// So many readings in a row.
const READINGS: usize = 5;
/// Time between two readings after a decision.
const WATCH: Duration = Duration::from_secs(10);

/// What was decided, with the figures.
#[derive(Clone, Debug)]
pub struct AutoDecision {
    /// What it is about: `all tasks`, or a control group.
    pub subject: String,
    /// What was found.
    pub outcome: AutoOutcome,
}

/// What was found.
#[derive(Clone, Debug)]
pub enum AutoOutcome {
    /// A measurement begins.
    Begun,
    /// The policies were compared: B is pack, A is spread. The policy is in force from now on.
    Decided(Box<Verdict>, FixedPolicy),
    /// A reading failed for this reason; what was being measured is left out.
    NoReading(String),
    /// There was no progress in this number of pairs, which were left out.
    NoProgress(usize),
    /// The progress has changed from one value per second to another, so the policies are compared again.
    OtherLoad(f64, f64),
}

/// What the policy applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AutoSubject {
    All,
    /// The named group with this index.
    Group(usize, String),
}

/// Where the measurement is.
enum State {
    /// A slice of a pair; the index within the pair.
    Switched { place: usize },
    /// The part that counts has begun: when, and with which progress.
    Measuring { place: usize, began: Instant, progress: f64 },
    /// Decided: the progress per second then, the last reading, and the latest ones that differ.
    Watching { rate: Option<f64>, last: (Instant, f64), others: Vec<f64> },
}

/// The measurement.
pub struct AutoPolicy {
    subject: AutoSubject,
    progress: ProgressCommand,
    state: State,
    /// Progress per second under spread and pack, of the pair that is measured.
    rates: [Option<f64>; 2],
    order: [FixedPolicy; 2],
    log_ratios: Vec<f64>,
    without_progress: usize,
    random: u64,
    has_begun: bool,
    in_force: FixedPolicy,
    /// The last reading failed.
    is_failing: bool,
}

impl AutoPolicy {
    /// Returns the measurement that is requested; `None` if all policies are fixed.
    ///
    /// # Errors
    /// [`Error::NoProgress`], [`Error::SeveralAuto`].
    pub fn of(request: &ServiceRequest) -> Result<Option<Self>> {
        let groups = request.groups.iter().filter(|group| matches!(group.target, Target::Cgroup(_)));
        let groups = groups.enumerate().filter(|(_, group)| group.policy == Policy::Auto);
        let groups = groups.map(|(index, group)| AutoSubject::Group(index, group_name(&group.target)));
        let all = (request.policy == Policy::Auto).then_some(AutoSubject::All);
        let mut subjects = all.into_iter().chain(groups);
        let Some(subject) = subjects.next() else { return Ok(None) };
        if subjects.next().is_some() {
            return Err(Error::SeveralAuto);
        }
        let progress = ProgressCommand::new(request.progress.clone().ok_or(Error::NoProgress)?);
        // Fails now rather than in the middle.
        progress.read()?;
        let seed = clock::now_ns();
        Ok(Some(Self {
            subject,
            progress,
            state: State::Switched { place: 0 },
            rates: [None; 2],
            order: [FixedPolicy::Spread, FixedPolicy::Pack],
            log_ratios: Vec::new(),
            without_progress: 0,
            random: seed | 1,
            has_begun: false,
            in_force: FixedPolicy::default(),
            is_failing: false,
        }))
    }

    /// Time between two looks at what is due.
    pub const fn tick() -> Duration {
        SETTLING
    }

    fn decision(&self, outcome: AutoOutcome) -> AutoDecision {
        let subject = match &self.subject {
            AutoSubject::All => "all tasks".to_owned(),
            AutoSubject::Group(_, name) => name.clone(),
        };
        AutoDecision { subject, outcome }
    }

    fn set(&mut self, policy: FixedPolicy, scheduler: &Scheduler, groups: &mut GroupPolicies) -> Result {
        self.in_force = policy;
        match &self.subject {
            AutoSubject::All => scheduler.set_policy(policy),
            AutoSubject::Group(index, _) => {
                groups.set(*index, policy);
                groups.apply(scheduler)?;
            }
        }
        Ok(())
    }

    /// Goes on after the scheduler was loaded again: with the policy that was decided, or with another pair.
    ///
    /// # Errors
    /// The kernel refuses a policy.
    pub fn resume(&mut self, scheduler: &Scheduler, groups: &mut GroupPolicies) -> Result {
        match self.state {
            State::Watching { .. } => self.set(self.in_force, scheduler, groups),
            _ if self.has_begun => self.begin_pair(scheduler, groups),
            _ => Ok(()),
        }
    }

    /// Does what is due, and returns when the next step is due, and what there is to report. Of failed readings in a row
    /// the first is reported.
    ///
    /// # Errors
    /// The kernel refuses a policy.
    pub fn step(
        &mut self,
        scheduler: &Scheduler,
        groups: &mut GroupPolicies,
    ) -> Result<(Duration, Option<AutoDecision>)> {
        let was_failing = self.is_failing;
        match self.advance(scheduler, groups) {
            Err(error @ Error::Progress { .. }) => {
                self.is_failing = true;
                self.resume(scheduler, groups)?;
                let report = || self.decision(AutoOutcome::NoReading(error.to_string()));
                Ok((WATCH, (!was_failing).then(report)))
            }
            done => {
                self.is_failing = false;
                done
            }
        }
    }

    fn advance(
        &mut self,
        scheduler: &Scheduler,
        groups: &mut GroupPolicies,
    ) -> Result<(Duration, Option<AutoDecision>)> {
        if !self.has_begun {
            self.has_begun = true;
            self.begin_pair(scheduler, groups)?;
            return Ok((SETTLING, Some(self.decision(AutoOutcome::Begun))));
        }
        let now = Instant::now();
        match &self.state {
            State::Switched { place } => {
                self.state = State::Measuring { place: *place, began: now, progress: self.progress.read()? };
                Ok((SLICE.saturating_sub(SETTLING), None))
            }
            State::Measuring { place, began, progress } => {
                let (place, rate) = (*place, self.rate_since(*began, *progress)?);
                self.rates[place_of(self.order[place])] = Some(rate);
                if place == 0 {
                    self.set(self.order[1], scheduler, groups)?;
                    self.state = State::Switched { place: 1 };
                    return Ok((SETTLING, None));
                }
                self.end_pair(scheduler, groups)
            }
            State::Watching { .. } => self.watch(scheduler, groups),
        }
    }

    fn rate_since(&self, began: Instant, progress: f64) -> Result<f64> {
        Ok((self.progress.read()? - progress) / began.elapsed().as_secs_f64().max(1e-9))
    }

    /// Begins a pair, in random order.
    fn begin_pair(&mut self, scheduler: &Scheduler, groups: &mut GroupPolicies) -> Result {
        // Marsaglia's xorshift: which policy is first matters only in that nothing periodic follows it.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if self.random >> 32 & 1 == 1 {
            self.order.reverse();
        }
        self.rates = [None; 2];
        self.set(self.order[0], scheduler, groups)?;
        self.state = State::Switched { place: 0 };
        Ok(())
    }

    fn end_pair(
        &mut self,
        scheduler: &Scheduler,
        groups: &mut GroupPolicies,
    ) -> Result<(Duration, Option<AutoDecision>)> {
        let ratio = match self.rates {
            [Some(spread), Some(pack)] => log_ratio(spread, pack),
            _ => None,
        };
        match ratio {
            Some(ratio) => self.log_ratios.push(ratio),
            None => self.without_progress += 1,
        }
        if let Some((verdict, policy)) = decide(&self.log_ratios) {
            self.set(policy, scheduler, groups)?;
            self.log_ratios.clear();
            self.state = State::Watching {
                rate: None,
                last: (Instant::now(), self.progress.read()?),
                others: Vec::new(),
            };
            return Ok((WATCH, Some(self.decision(AutoOutcome::Decided(Box::new(verdict), policy)))));
        }
        self.begin_pair(scheduler, groups)?;
        let idle = self.without_progress;
        let report = (idle >= READINGS).then(|| {
            self.without_progress = 0;
            self.decision(AutoOutcome::NoProgress(idle))
        });
        Ok((SETTLING, report))
    }

    /// Looks whether the load is still the one that was measured.
    fn watch(
        &mut self,
        scheduler: &Scheduler,
        groups: &mut GroupPolicies,
    ) -> Result<(Duration, Option<AutoDecision>)> {
        let progress = self.progress.read()?;
        let State::Watching { rate, last, others } = &mut self.state else { return Ok((WATCH, None)) };
        let now = (progress - last.1) / last.0.elapsed().as_secs_f64().max(1e-9);
        *last = (Instant::now(), progress);
        let Some(decided) = *rate else {
            *rate = Some(now);
            return Ok((WATCH, None));
        };
        if is_other_load(decided, now) {
            others.push(now);
        } else {
            others.clear();
        }
        if others.len() < READINGS {
            return Ok((WATCH, None));
        }
        let report = self.decision(AutoOutcome::OtherLoad(decided, now));
        self.begin_pair(scheduler, groups)?;
        Ok((SETTLING, Some(report)))
    }
}

/// Returns the name of a control group.
fn group_name(target: &Target) -> String {
    match target {
        Target::Cgroup(path) => format!("control group {path}"),
        _ => String::new(),
    }
}

/// Returns the place of a policy in [`AutoPolicy::rates`].
fn place_of(policy: FixedPolicy) -> usize {
    usize::from(policy == FixedPolicy::Pack)
}

/// Whether a load is another one than that of the decision; no load at all is none.
fn is_other_load(decided: f64, now: f64) -> bool {
    now > 0.0 && (decided <= 0.0 || now / decided > OTHER_LOAD || decided / now > OTHER_LOAD)
}

/// Decides at a planned analysis, or returns `None` if more pairs are needed. `log_ratios` are those of pack to spread.
fn decide(log_ratios: &[f64]) -> Option<(Verdict, FixedPolicy)> {
    let analysis = ANALYSES.iter().position(|&pairs| pairs == log_ratios.len())?;
    let rule = DecisionRule::at_analysis(analysis + 1, ANALYSES.len());
    let verdict = Verdict::new(log_ratios, rule, None)?;
    let is_last = analysis + 1 == ANALYSES.len();
    match verdict.answer {
        Answer::BBetter => Some((verdict, FixedPolicy::Pack)),
        Answer::ABetter | Answer::Equivalent => Some((verdict, FixedPolicy::Spread)),
        Answer::Inconclusive | Answer::TradeOff => is_last.then_some((verdict, FixedPolicy::Spread)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ratios around `ratio`, with a scatter that is the same each time.
    fn ratios(ratio: f64, scatter: f64, pairs: usize) -> Vec<f64> {
        (0..pairs).map(|index| f64::ln(ratio) + scatter * ((index * 7 % 11) as f64 / 5.0 - 1.0)).collect()
    }

    #[test]
    fn pack_is_kept_only_if_it_is_shown_to_be_better() {
        let decided =
            |ratio, scatter, pairs| decide(&ratios(ratio, scatter, pairs)).map(|(_, policy)| policy);
        assert_eq!(decided(1.3, 0.05, 12), Some(FixedPolicy::Pack));
        assert_eq!(decided(0.7, 0.05, 12), Some(FixedPolicy::Spread));
        assert_eq!(decided(1.0, 0.005, 12), Some(FixedPolicy::Spread));
        // Too noisy: more pairs, and spread in the end.
        assert_eq!(decided(1.1, 1.0, 12), None);
        assert_eq!(decided(1.1, 1.0, 13), None);
        assert_eq!(decided(1.1, 1.0, 32), Some(FixedPolicy::Spread));
    }

    #[test]
    fn a_pause_is_no_other_load() {
        assert!(!is_other_load(100.0, 0.0) && !is_other_load(100.0, 130.0));
        assert!(is_other_load(100.0, 160.0) && is_other_load(100.0, 60.0) && is_other_load(0.0, 5.0));
    }
}
