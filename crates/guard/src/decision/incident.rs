//! The course of a shortage, from the first warning until memory is available again: which action is due
//! when, for one cause at a time.

use super::stage::{Assessment, Stage};

/// Nanoseconds per millisecond.
const MS: u64 = 1_000_000;

/// For this long after a kill has taken effect, no other process is selected: readings from before the kill
/// may still arrive.
const SETTLE_NS: u64 = 60 * MS;

/// A killed process that does not exit and frees no memory is given up after this time.
const PATIENCE_NS: u64 = 2_000 * MS;

/// A killed process that frees memory but has not exited is given up after this time.
const LONGEST_NS: u64 = 20_000 * MS;

/// Delay before the next search if no cause was found.
const AGAIN_NS: u64 = 200 * MS;

/// The delay after many failed searches, so that a machine that is always short of memory costs little.
const RARELY_NS: u64 = 5_000 * MS;

/// A shortage has ended when there was no sign of it for this long.
const OVER_NS: u64 = 10_000 * MS;

/// Number of processes remembered as tried without success.
const TRIED: usize = 16;

/// What the guard has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
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
    Finish,
    /// Report that the process that was sent a signal has exited.
    Gone,
    /// Report that the killed process does not exit. It is ignored from now on.
    Stuck,
    /// Report that the shortage has passed while the process that was sent SIGTERM still runs. It is left
    /// running.
    Spare,
    /// Report that the shortage is over.
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// SIGTERM was sent.
    Asked {
        at_ns: u64,
    },
    /// SIGKILL was sent; `room` is the available memory at that time.
    Killed {
        at_ns: u64,
        room: u64,
    },
    Settling {
        until_ns: u64,
    },
}

/// The state of one watch.
#[derive(Debug, Default)]
pub struct Incident {
    state: State,
    warned: bool,
    /// Time of the last sign of a shortage.
    danger_ns: u64,
    /// No search for a cause starts before this time.
    not_before_ns: u64,
    /// Number of failed searches in a row.
    in_vain: u32,
    /// The stage at the last search for a cause.
    sought: Stage,
    tried: [(u32, u64); TRIED],
    tried_count: usize,
}

impl Incident {
    /// Returns what to do at `now_ns`. `is_gone` says whether all processes that were sent a signal have
    /// exited. `room` is the available memory in bytes, `grace_ns` the time between SIGTERM and SIGKILL.
    pub fn step(&mut self, now_ns: u64, told: &Assessment, room: u64, is_gone: bool, grace_ns: u64) -> Order {
        if told.stage >= Stage::Warn {
            self.danger_ns = now_ns;
        }
        match self.state {
            State::Settling { until_ns } if now_ns < until_ns => Order::Nothing,
            State::Idle | State::Settling { .. } => {
                self.state = State::Idle;
                self.idle(now_ns, told.stage)
            }
            State::Asked { .. } | State::Killed { .. } if is_gone => {
                self.state = State::Settling { until_ns: now_ns + SETTLE_NS };
                Order::Gone
            }
            State::Asked { at_ns } => {
                let is_late = now_ns.saturating_sub(at_ns) >= grace_ns;
                match told.stage {
                    Stage::Kill => Order::Finish,
                    Stage::Term if is_late => Order::Finish,
                    _ if is_late => {
                        self.state = State::Idle;
                        Order::Spare
                    }
                    _ => Order::Nothing,
                }
            }
            State::Killed { at_ns, room: before } => {
                let since = now_ns.saturating_sub(at_ns);
                if since >= LONGEST_NS || since >= PATIENCE_NS && room <= before {
                    self.state = State::Idle;
                    Order::Stuck
                } else {
                    Order::Nothing
                }
            }
        }
    }

    fn idle(&mut self, now_ns: u64, stage: Stage) -> Order {
        match stage {
            // A search that failed at a lower stage says nothing about the current one.
            Stage::Term | Stage::Kill if now_ns < self.not_before_ns && stage <= self.sought => {
                Order::Nothing
            }
            Stage::Term | Stage::Kill => {
                self.sought = stage;
                if stage == Stage::Term { Order::Term } else { Order::Kill }
            }
            Stage::Warn if !self.warned => {
                self.warned = true;
                Order::Warn
            }
            Stage::Calm if self.danger_ns > 0 && now_ns.saturating_sub(self.danger_ns) >= OVER_NS => {
                let was_told = self.warned || self.in_vain > 0 || self.tried_count > 0;
                *self = Self::default();
                if was_told { Order::Over } else { Order::Nothing }
            }
            Stage::Calm | Stage::Warn => Order::Nothing,
        }
    }

    /// Records that the cause was found and sent SIGTERM.
    pub fn asked(&mut self, now_ns: u64) {
        (self.state, self.in_vain, self.warned) = (State::Asked { at_ns: now_ns }, 0, true);
    }

    /// Records that the cause was killed.
    pub fn killed(&mut self, now_ns: u64, room: u64) {
        (self.state, self.in_vain, self.warned) = (State::Killed { at_ns: now_ns, room }, 0, true);
    }

    /// Records that no cause was found, or that the signal could not be sent. Returns whether to report it,
    /// which is so the first time.
    pub fn in_vain(&mut self, now_ns: u64) -> bool {
        self.in_vain += 1;
        self.not_before_ns = now_ns + if self.in_vain > 10 { RARELY_NS } else { AGAIN_NS };
        self.in_vain == 1
    }

    /// Delays the next search: it is not yet known which processes are eligible.
    pub fn wait(&mut self, until_ns: u64) {
        self.not_before_ns = until_ns;
    }

    /// Records that an action was reported only (dry run). Nothing more is done for a while.
    pub fn pretended(&mut self, now_ns: u64) {
        (self.warned, self.not_before_ns) = (true, now_ns + RARELY_NS);
    }

    /// Excludes this process until the shortage is over.
    pub fn leave_out(&mut self, pid: u32, start: u64) {
        self.tried[self.tried_count % TRIED] = (pid, start);
        self.tried_count += 1;
    }

    /// Returns the excluded processes.
    pub fn left_out(&self) -> &[(u32, u64)] {
        &self.tried[..self.tried_count.min(TRIED)]
    }

    /// Whether a process was sent a signal and has not exited yet.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Asked { .. } | State::Killed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: u64 = 5_000 * MS;

    /// Returns the orders for each `(ms, stage, room, is gone)`. A cause is always found.
    fn course(steps: &[(u64, Stage, u64, bool)]) -> Vec<Order> {
        let mut incident = Incident::default();
        let orders = steps.iter().map(|&(ms, stage, room, is_gone)| {
            let told = Assessment { stage, ..Assessment::default() };
            let order = incident.step(ms * MS, &told, room, is_gone, GRACE);
            match order {
                Order::Term => incident.asked(ms * MS),
                Order::Kill | Order::Finish => incident.killed(ms * MS, room),
                Order::Stuck => incident.leave_out(7, 1),
                _ => {}
            }
            order
        });
        orders.collect()
    }

    use Stage::{Calm, Kill, Term, Warn};

    #[test]
    fn from_warning_to_the_end() {
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
                Order::Warn,
                Order::Nothing,
                Order::Term,
                Order::Nothing,
                Order::Finish,
                Order::Nothing,
                Order::Gone,
                Order::Nothing,
                Order::Nothing,
                Order::Over,
                Order::Nothing
            ]
        );
    }

    #[test]
    fn who_does_not_end_in_time_is_killed_only_while_there_is_need() {
        let late = |stage| course(&[(1, Term, 9, false), (4_000, Term, 9, false), (5_001, stage, 9, false)]);
        assert_eq!(late(Term).pop(), Some(Order::Finish));
        assert_eq!(late(Calm).pop(), Some(Order::Spare));
    }

    #[test]
    fn a_killed_one_that_gives_memory_back_has_more_time_than_one_that_does_not() {
        let stuck =
            |room| course(&[(1, Kill, 9, false), (1_000, Kill, 9, false), (2_002, Kill, room, false)]);
        assert_eq!(stuck(9).pop(), Some(Order::Stuck));
        assert_eq!(stuck(10).pop(), Some(Order::Nothing));
        assert_eq!(course(&[(1, Kill, 9, false), (20_002, Kill, 10, false)]).pop(), Some(Order::Stuck));
    }

    #[test]
    fn nobody_else_is_chosen_while_one_is_dying() {
        let orders = course(&[(1, Kill, 9, false), (20, Kill, 9, false), (500, Kill, 9, false)]);
        assert_eq!(orders, [Order::Kill, Order::Nothing, Order::Nothing]);
    }

    #[test]
    fn that_nobody_was_found_in_time_does_not_blind_it_at_the_end() {
        let mut incident = Incident::default();
        let step = |incident: &mut Incident, ms: u64, stage| {
            incident.step(ms * MS, &Assessment { stage, ..Assessment::default() }, 0, false, GRACE)
        };
        for ms in (10..10_000).step_by(10) {
            if step(&mut incident, ms, Term) == Order::Term {
                incident.in_vain(ms * MS);
            }
        }
        assert_eq!(step(&mut incident, 10_010, Term), Order::Nothing, "by now searches are less frequent");
        assert_eq!(step(&mut incident, 10_020, Kill), Order::Kill);
    }

    #[test]
    fn where_nobody_is_to_blame_it_is_looked_again_ever_more_rarely() {
        let mut incident = Incident::default();
        let told = Assessment { stage: Kill, ..Assessment::default() };
        let mut looks = Vec::new();
        for ms in (10..60_000).step_by(10) {
            if incident.step(ms * MS, &told, 0, false, GRACE) == Order::Kill {
                assert_eq!(incident.in_vain(ms * MS), looks.is_empty());
                looks.push(ms);
            }
        }
        assert!(looks.len() < 25 && looks[1] - looks[0] <= 200, "{looks:?}");
    }
}
