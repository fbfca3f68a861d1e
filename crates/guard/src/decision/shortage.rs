//! The course of a shortage, from the first warning until memory is available again: which action is due
//! when, for one cause at a time.

use super::assessment::{Assessment, Stage};

/// Nanoseconds per millisecond.
const MS: u64 = 1_000_000;

/// For this long after a kill has taken effect, no other process is selected: readings from before the kill
/// may still arrive.
const SETTLE_NS: u64 = 60 * MS;

/// A killed process that does not exit and frees no memory is given up after this time.
const STUCK_NS: u64 = 2_000 * MS;

/// A killed process that frees memory but has not exited is given up after this time.
const LONGEST_NS: u64 = 20_000 * MS;

/// Delay before the next search if no cause was found.
const AGAIN_NS: u64 = 200 * MS;

/// The delay after many failed searches, so that a machine that is always short of memory costs little.
const RARELY_NS: u64 = 5_000 * MS;

/// A shortage has ended when there was no sign of it for this long.
const OVER_NS: u64 = 10_000 * MS;

/// Number of processes remembered as tried without success.
const MAX_EXCLUDED: usize = 16;

/// What the guard has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing new.
    Nothing,
    /// Warn, and slow the cause down if the rules say so.
    Warn,
    /// Find the cause and send SIGTERM.
    Term,
    /// Find the cause and send SIGKILL.
    Kill,
    /// Send SIGKILL to the process that was sent SIGTERM: it did not free enough memory within the grace
    /// period.
    Escalate,
    /// Report that the process that was sent a signal has exited.
    Exited,
    /// Report that the killed process does not exit. It is ignored from now on.
    Stuck,
    /// Report that the shortage has passed while the process that was sent SIGTERM still runs. It is left
    /// running.
    LeaveRunning,
    /// Report that the shortage is over.
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// SIGTERM was sent.
    TermSent {
        at_ns: u64,
    },
    /// SIGKILL was sent; `available` is the available memory at that time.
    KillSent {
        at_ns: u64,
        available: u64,
    },
    Settling {
        until_ns: u64,
    },
}

/// The state of one watch.
#[derive(Debug, Default)]
pub struct ShortageState {
    state: State,
    warned: bool,
    /// Time of the last sign of a shortage.
    danger_ns: u64,
    /// No search for a cause starts before this time.
    not_before_ns: u64,
    /// Number of failed searches in a row.
    failed_searches: u32,
    /// The stage at the last search for a cause.
    searched_stage: Stage,
    excluded: [(u32, u64); MAX_EXCLUDED],
    excluded_count: usize,
}

impl ShortageState {
    /// Returns what to do at `now_ns`. `has_exited` says whether all processes that were sent a signal have
    /// exited. `available` is the available memory in bytes, `grace_ns` the time between SIGTERM and SIGKILL.
    pub fn step(
        &mut self,
        now_ns: u64,
        assessment: &Assessment,
        available: u64,
        has_exited: bool,
        grace_ns: u64,
    ) -> Action {
        if assessment.stage >= Stage::Warn {
            self.danger_ns = now_ns;
        }
        match self.state {
            State::Settling { until_ns } if now_ns < until_ns => Action::Nothing,
            State::Idle | State::Settling { .. } => {
                self.state = State::Idle;
                self.idle(now_ns, assessment.stage)
            }
            State::TermSent { .. } | State::KillSent { .. } if has_exited => {
                self.state = State::Settling { until_ns: now_ns + SETTLE_NS };
                Action::Exited
            }
            State::TermSent { at_ns } => {
                let is_late = now_ns.saturating_sub(at_ns) >= grace_ns;
                match assessment.stage {
                    Stage::Kill => Action::Escalate,
                    Stage::Term if is_late => Action::Escalate,
                    _ if is_late => {
                        self.state = State::Idle;
                        Action::LeaveRunning
                    }
                    _ => Action::Nothing,
                }
            }
            State::KillSent { at_ns, available: before } => {
                let since = now_ns.saturating_sub(at_ns);
                if since >= LONGEST_NS || since >= STUCK_NS && available <= before {
                    self.state = State::Idle;
                    Action::Stuck
                } else {
                    Action::Nothing
                }
            }
        }
    }

    fn idle(&mut self, now_ns: u64, stage: Stage) -> Action {
        match stage {
            // A search that failed at a lower stage says nothing about the current one.
            Stage::Term | Stage::Kill if now_ns < self.not_before_ns && stage <= self.searched_stage => {
                Action::Nothing
            }
            Stage::Term | Stage::Kill => {
                self.searched_stage = stage;
                if stage == Stage::Term { Action::Term } else { Action::Kill }
            }
            Stage::Warn if !self.warned => {
                self.warned = true;
                Action::Warn
            }
            Stage::Calm if self.danger_ns > 0 && now_ns.saturating_sub(self.danger_ns) >= OVER_NS => {
                let was_reported = self.warned || self.failed_searches > 0 || self.excluded_count > 0;
                *self = Self::default();
                if was_reported { Action::Over } else { Action::Nothing }
            }
            Stage::Calm | Stage::Warn => Action::Nothing,
        }
    }

    /// Records that the cause was found and sent SIGTERM.
    pub fn term_sent(&mut self, now_ns: u64) {
        (self.state, self.failed_searches, self.warned) = (State::TermSent { at_ns: now_ns }, 0, true);
    }

    /// Records that the cause was killed.
    pub fn kill_sent(&mut self, now_ns: u64, available: u64) {
        (self.state, self.failed_searches, self.warned) =
            (State::KillSent { at_ns: now_ns, available }, 0, true);
    }

    /// Records that no cause was found, or that the signal could not be sent. Returns whether to report it,
    /// which is so the first time.
    pub fn search_failed(&mut self, now_ns: u64) -> bool {
        self.failed_searches += 1;
        self.not_before_ns = now_ns + if self.failed_searches > 10 { RARELY_NS } else { AGAIN_NS };
        self.failed_searches == 1
    }

    /// Delays the next search: it is not yet known which processes are eligible.
    pub fn delay_search(&mut self, until_ns: u64) {
        self.not_before_ns = until_ns;
    }

    /// Records that an action was reported only (dry run). Nothing more is done for a while.
    pub fn dry_run_reported(&mut self, now_ns: u64) {
        (self.warned, self.not_before_ns) = (true, now_ns + RARELY_NS);
    }

    /// Excludes this process until the shortage is over.
    pub fn exclude(&mut self, pid: u32, start: u64) {
        self.excluded[self.excluded_count % MAX_EXCLUDED] = (pid, start);
        self.excluded_count += 1;
    }

    /// Returns the excluded processes.
    pub fn excluded(&self) -> &[(u32, u64)] {
        &self.excluded[..self.excluded_count.min(MAX_EXCLUDED)]
    }

    /// Whether a process was sent a signal and has not exited yet.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::TermSent { .. } | State::KillSent { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: u64 = 5_000 * MS;

    /// Returns the orders for each `(ms, stage, available, is gone)`. A cause is always found.
    fn course(steps: &[(u64, Stage, u64, bool)]) -> Vec<Action> {
        let mut shortage = ShortageState::default();
        let orders = steps.iter().map(|&(ms, stage, available, has_exited)| {
            let assessment = Assessment { stage, ..Assessment::default() };
            let order = shortage.step(ms * MS, &assessment, available, has_exited, GRACE);
            match order {
                Action::Term => shortage.term_sent(ms * MS),
                Action::Kill | Action::Escalate => shortage.kill_sent(ms * MS, available),
                Action::Stuck => shortage.exclude(7, 1),
                _ => {}
            }
            order
        });
        orders.collect()
    }

    use Stage::{Calm, Kill, Term, Warn};

    #[test]
    fn shortage_runs_from_warning_to_over() {
        let orders = course(&[
            (1, Warn, 9, false),
            (100, Warn, 8, false),
            (200, Term, 7, false),
            (300, Term, 6, false),
            (400, Kill, 5, false),
            (420, Kill, 5, false),
            (450, Calm, 50, true),
            (460, Kill, 50, false),
            (600, Calm, 50, false),
            (11_000, Calm, 50, false),
            (30_000, Calm, 50, false),
        ]);
        assert_eq!(
            orders,
            [
                Action::Warn,
                Action::Nothing,
                Action::Term,
                Action::Nothing,
                Action::Escalate,
                Action::Nothing,
                Action::Exited,
                Action::Nothing,
                Action::Nothing,
                Action::Over,
                Action::Nothing
            ]
        );
    }

    #[test]
    fn late_process_is_killed_only_during_shortage() {
        let late = |stage| course(&[(1, Term, 9, false), (4_000, Term, 9, false), (5_001, stage, 9, false)]);
        assert_eq!(late(Term).pop(), Some(Action::Escalate));
        assert_eq!(late(Calm).pop(), Some(Action::LeaveRunning));
    }

    #[test]
    fn killed_process_that_frees_memory_has_more_time() {
        let stuck = |available| {
            course(&[(1, Kill, 9, false), (1_000, Kill, 9, false), (2_002, Kill, available, false)])
        };
        assert_eq!(stuck(9).pop(), Some(Action::Stuck));
        assert_eq!(stuck(10).pop(), Some(Action::Nothing));
        assert_eq!(course(&[(1, Kill, 9, false), (20_002, Kill, 10, false)]).pop(), Some(Action::Stuck));
    }

    #[test]
    fn no_other_process_is_selected_during_a_kill() {
        let orders = course(&[(1, Kill, 9, false), (20, Kill, 9, false), (500, Kill, 9, false)]);
        assert_eq!(orders, [Action::Kill, Action::Nothing, Action::Nothing]);
    }

    #[test]
    fn failed_searches_do_not_delay_the_kill_stage() {
        let mut shortage = ShortageState::default();
        let step = |shortage: &mut ShortageState, ms: u64, stage| {
            shortage.step(ms * MS, &Assessment { stage, ..Assessment::default() }, 0, false, GRACE)
        };
        for ms in (10..10_000).step_by(10) {
            if step(&mut shortage, ms, Term) == Action::Term {
                shortage.search_failed(ms * MS);
            }
        }
        assert_eq!(step(&mut shortage, 10_010, Term), Action::Nothing, "by now searches are less frequent");
        assert_eq!(step(&mut shortage, 10_020, Kill), Action::Kill);
    }

    #[test]
    fn searches_become_less_frequent_without_a_cause() {
        let mut shortage = ShortageState::default();
        let assessment = Assessment { stage: Kill, ..Assessment::default() };
        let mut looks = Vec::new();
        for ms in (10..60_000).step_by(10) {
            if shortage.step(ms * MS, &assessment, 0, false, GRACE) == Action::Kill {
                assert_eq!(shortage.search_failed(ms * MS), looks.is_empty());
                looks.push(ms);
            }
        }
        assert!(looks.len() < 25 && looks[1] - looks[0] <= 200, "{looks:?}");
    }
}
