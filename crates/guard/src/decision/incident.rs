//! From the first warning until memory is back: what is done when, one cause at a time.

use super::stage::{Assessment, Stage};

/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

/// After a kill has taken effect, readings of before are still about: so long nobody else is chosen.
const SETTLE_NS: u64 = 60 * MS;

/// Who is killed and holds on without giving memory back is left to itself after this time.
const PATIENCE_NS: u64 = 2_000 * MS;

/// One who gives memory back, but is not gone yet, has this time.
const LONGEST_NS: u64 = 20_000 * MS;

/// Where nobody was found to blame, it is looked again after this time.
const AGAIN_NS: u64 = 200 * MS;

/// The same after nobody was found again and again, so that a machine that is always short costs little.
const RARELY_NS: u64 = 5_000 * MS;

/// A danger is over after so much time without one.
const OVER_NS: u64 = 10_000 * MS;

/// Processes that were tried in vain.
const TRIED: usize = 16;

/// What the guard is to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing new.
    Nothing,
    /// Say that it is coming; slow the cause down where that is wished.
    Warn,
    /// Find the cause, and ask it to end.
    Term,
    /// Find the cause, and end it.
    Kill,
    /// End the one that was asked: more is needed than it gave in its time of grace.
    Finish,
    /// Say that the one that was asked or killed is gone.
    Gone,
    /// Say that the killed one does not go away; from now on it is left to itself.
    Stuck,
    /// Say that the danger has passed while the one that was asked to end still lives; it is let live.
    Spare,
    /// Say that all is well again.
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// Asked to end.
    Asked {
        at_ns: u64,
    },
    /// Killed; the room when it was.
    Killed {
        at_ns: u64,
        room: u64,
    },
    Settling {
        until_ns: u64,
    },
}

/// One watch's course.
#[derive(Debug, Default)]
pub struct Incident {
    state: State,
    warned: bool,
    /// When there was danger last.
    danger_ns: u64,
    /// Not before this time is a cause looked for.
    not_before_ns: u64,
    /// How often nobody was found in a row.
    in_vain: u32,
    /// The stage at which a cause was looked for last.
    sought: Stage,
    tried: [(u32, u64); TRIED],
    tried_count: usize,
}

impl Incident {
    /// What to do at `now_ns`. `is_gone` tells whether all that was asked or killed is gone; `room` are the bytes that
    /// are left, `grace_ns` is the time between asking and killing.
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
            // That nobody was found before it was worse says nothing.
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

    /// The cause was found and asked to end.
    pub fn asked(&mut self, now_ns: u64) {
        (self.state, self.in_vain, self.warned) = (State::Asked { at_ns: now_ns }, 0, true);
    }

    /// The cause was killed.
    pub fn killed(&mut self, now_ns: u64, room: u64) {
        (self.state, self.in_vain, self.warned) = (State::Killed { at_ns: now_ns, room }, 0, true);
    }

    /// Nobody was found, or the signal could not be sent. Returns whether it is to be said: the first time.
    pub fn in_vain(&mut self, now_ns: u64) -> bool {
        self.in_vain += 1;
        self.not_before_ns = now_ns + if self.in_vain > 10 { RARELY_NS } else { AGAIN_NS };
        self.in_vain == 1
    }

    /// Somebody may be found in a moment: it is not yet known who may be chosen.
    pub fn wait(&mut self, until_ns: u64) {
        self.not_before_ns = until_ns;
    }

    /// Only said, not done: nothing more for a while.
    pub fn pretended(&mut self, now_ns: u64) {
        (self.warned, self.not_before_ns) = (true, now_ns + RARELY_NS);
    }

    /// Leaves this one out from now on, until the danger is over.
    pub fn leave_out(&mut self, pid: u32, start: u64) {
        self.tried[self.tried_count % TRIED] = (pid, start);
        self.tried_count += 1;
    }

    /// Those that are left out.
    pub fn left_out(&self) -> &[(u32, u64)] {
        &self.tried[..self.tried_count.min(TRIED)]
    }

    /// Whether something was asked to end or killed and is waited for.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Asked { .. } | State::Killed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: u64 = 5_000 * MS;

    /// The orders for each `(ms, stage, room, is gone)`; a cause is always found.
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
        assert_eq!(step(&mut incident, 10_010, Term), Order::Nothing, "it is looked more rarely by now");
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
