//! From a cause to the signal.

use crate::decision::{
    choice::{Finding, Kin, Suspect, belongs},
    incident::Incident,
    table::{Process, Shield},
};
use crate::ending::Held;
use crate::event::{Sent, What};
use crate::watcher::{SURVEY_SHARE, WAITING_NS, Watcher};
use manycore_linux::clock::now_ns;
use rustix::{io::Errno, process::Signal};
use std::io;

/// Number of causes that are tried in a row: some may have exited or turn out to be protected.
const TRIES: usize = 8;

/// Number of passes over a family: it may have new members after each pass.
const ROUNDS: usize = 3;

/// The process or family that was sent a signal.
pub struct Target {
    /// The process; of a family, its representative.
    pub suspect: Suspect,
    /// What the processes have in common, if there are several.
    pub kin: Option<Kin>,
    /// The open process.
    pub held: Option<Held>,
    /// Time of the first signal of this kind.
    pub at_ns: u64,
    /// Time of the signal to the last member of a family.
    pub last_ns: u64,
    /// Whether the signal was SIGKILL.
    pub is_kill: bool,
    /// Set if it was selected by the last resort; see [`Sent::resort`].
    pub resort: Option<u32>,
}

/// Why no signal was sent.
enum Unsent {
    /// A resource was missing that may be available in a moment.
    Failed,
    /// The process has exited.
    Gone,
    /// The kernel must not kill the process (`oom_score_adj` is -1000), so the guard does not either.
    Spared,
    /// The kernel refused the signal: the error number.
    Refused(i32),
}

impl Unsent {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) if number == Errno::SRCH.raw_os_error() => Self::Gone,
            Some(number) if number == Errno::PERM.raw_os_error() => Self::Refused(number),
            _ => Self::Failed,
        }
    }
}

impl Watcher {
    /// Executes the path to a signal once, on a child process, so that the code is in memory before it is
    /// needed. Returns the error if processes cannot be opened.
    pub(super) fn rehearse_act(&mut self) -> Option<io::Error> {
        let own = std::process::id();
        let start = self.survey.start(own).map_or(0, |(start, _)| start);
        let failed = Held::of(&mut self.survey, own, start).err();
        let Some(mut victim) = self.victim.take() else { return failed };
        self.look_at_all(now_ns());
        self.is_rehearsing = true;
        self.rehearse_on(victim.id());
        self.is_rehearsing = false;
        let _ = victim.kill();
        let _ = victim.wait();
        failed
    }

    fn rehearse_on(&mut self, victim: u32) {
        let (Some(process), false) = (self.table.find_mut(victim), self.plan.watches.is_empty()) else {
            return;
        };
        // The only process of a control group that does not exist.
        (process.group, process.shield, process.watches) = (u16::MAX, None, 1);
        let suspect = Suspect {
            process: *process,
            bytes: 0,
            members: 1,
            growth: 0,
            fall: 0,
            whole_growth: 0,
            from_ns: u64::MAX,
            whole_ns: u64::MAX,
            score: 0.0,
        };
        let _ = self.group_of(0, &suspect);
        let _ = (self.has_to_ask(0), self.has_to_seek(0));
        self.keep_seeking(0);
        let _ = self.highest_score(0);
        let _ = self.send_all(0, &suspect, Kin::Whole(u16::MAX), Signal::CONT);
        let _ = self.send(0, &suspect, None, false, None);
        self.finish(0);
        let _ = self.is_gone(0);
        self.go_on(0);
        let watch = &mut self.plan.watches[0];
        (watch.target, watch.asking_ns, watch.seeking_ns) = (None, None, None);
        watch.incident = Incident::default();
    }

    /// Finds the cause and sends it a signal.
    pub(super) fn act(&mut self, at: usize, is_kill: bool) {
        self.refresh();
        if self.has_to_ask(at) || self.has_to_seek(at) {
            return;
        }
        for _ in 0..TRIES {
            let (suspect, kin, resort) = match self.find(at) {
                Finding::Process(suspect) if self.plan.watches[at].end_group => {
                    match self.group_of(at, &suspect) {
                        Some((suspect, kin)) => (suspect, Some(kin), None),
                        None => (suspect, None, None),
                    }
                }
                Finding::Process(suspect) => (suspect, None, None),
                Finding::Family(suspect, kin) => (suspect, Some(kin), None),
                other => match (self.last_resort(at), other) {
                    (Some((suspect, score)), _) => (suspect, None, Some(score)),
                    (None, Finding::Files(bytes)) => return self.give_up(at, &What::Files(bytes)),
                    (None, _) => return self.give_up(at, &What::Nobody),
                },
            };
            match self.send(at, &suspect, kin, is_kill, resort) {
                Ok(()) => return,
                Err(Unsent::Gone) => self.table.remove(suspect.process.seen.pid),
                Err(Unsent::Spared) => {
                    if let Some(process) = self.table.find_mut(suspect.process.seen.pid) {
                        process.shield = Some(Shield::Spared);
                    }
                }
                Err(Unsent::Refused(number)) => {
                    let seen = suspect.process.seen;
                    self.plan.watches[at].incident.leave_out(seen.pid, seen.start);
                    self.tell(at, &What::Refused(suspect, number));
                }
                Err(Unsent::Failed) => break,
            }
        }
        self.plan.watches[at].incident.in_vain(now_ns());
    }

    /// Reports, once, that no process can be ended.
    fn give_up(&mut self, at: usize, what: &What) {
        if self.plan.watches[at].incident.in_vain(now_ns()) {
            self.tell(at, what);
        }
        // The search may show the cause at any moment, and the last resort waits for nothing else.
        if self.is_sought(at) {
            self.plan.watches[at].incident.wait(now_ns() + WAITING_NS);
        }
    }

    /// Returns all processes of the suspect's control group. `None` if the group is unknown or one of them is
    /// protected.
    fn group_of(&mut self, at: usize, suspect: &Suspect) -> Option<(Suspect, Kin)> {
        let group = Some(suspect.process.group).filter(|&group| group > 0 && suspect.process.is_known)?;
        let Self { table, survey, .. } = self;
        let members = || table.processes().iter().filter(|process| process.group == group);
        if members().any(|process| survey.is_spared(process.seen.pid)) {
            return None;
        }
        let all_may = members().all(|process| process.may_end(at));
        let bytes = members().map(Process::bytes).sum();
        let whole = Suspect { bytes, members: members().count() as u32, ..*suspect };
        all_may.then_some((whole, Kin::Whole(group)))
    }

    /// Sends the signal, records it and reports it.
    fn send(
        &mut self,
        at: usize,
        suspect: &Suspect,
        kin: Option<Kin>,
        is_kill: bool,
        resort: Option<u32>,
    ) -> Result<(), Unsent> {
        let seen = suspect.process.seen;
        let held = match (Held::of(&mut self.survey, seen.pid, seen.start), kin) {
            (Ok(held), _) => Some(held),
            (Err(_), Some(_)) => None,
            (Err(error), None) => return Err(Unsent::of(&error)),
        };
        if self.survey.is_spared(seen.pid) {
            return Err(Unsent::Spared);
        }
        let signal = if is_kill { Signal::KILL } else { Signal::TERM };
        let reading_ns = self.plan.watches[at].reading.at_ns;
        let (count, sent_ns) = if self.is_dry {
            (suspect.members, now_ns())
        } else {
            self.deliver(at, suspect, kin, held.as_ref(), signal)?
        };
        let now = now_ns();
        let is_dry = self.is_dry;
        let watch = &mut self.plan.watches[at];
        watch.asking_ns = None;
        if is_dry {
            watch.incident.pretended(now);
        } else {
            let held = held.filter(|_| kin.is_none());
            watch.target =
                Some(Target { suspect: *suspect, kin, held, at_ns: now, last_ns: now, is_kill, resort });
            if is_kill {
                watch.incident.killed(now, watch.reading.room());
            } else {
                watch.incident.asked(now);
            }
        }
        let after_ns = sent_ns.saturating_sub(reading_ns);
        let suspect = *suspect;
        let sent = Sent { suspect, kin, is_kill, was_asked: false, resort, after_ns, count };
        self.tell(at, &What::Sent(sent));
        Ok(())
    }

    /// Sends a signal to one process or a family. Returns the number of processes reached and the time of the
    /// first signal.
    fn deliver(
        &mut self,
        at: usize,
        suspect: &Suspect,
        kin: Option<Kin>,
        held: Option<&Held>,
        signal: Signal,
    ) -> Result<(u32, u64), Unsent> {
        let refused = || Unsent::Refused(Errno::PERM.raw_os_error());
        match (kin, held) {
            (Some(kin), _) => {
                let (count, first_ns) = self.send_all(at, suspect, kin, signal);
                if count == 0 { Err(refused()) } else { Ok((count, first_ns)) }
            }
            (None, Some(held)) => {
                held.signal(signal).map_err(|error| Unsent::of(&error))?;
                Ok((1, now_ns()))
            }
            (None, None) => Err(refused()),
        }
    }

    /// Kills the process that was sent SIGTERM.
    pub(super) fn finish(&mut self, at: usize) {
        let Some(mut target) = self.plan.watches[at].target.take() else {
            return self.plan.watches[at].incident.killed(now_ns(), 0);
        };
        let reading_ns = self.plan.watches[at].reading.at_ns;
        let delivered = self.deliver(at, &target.suspect, target.kin, target.held.as_ref(), Signal::KILL);
        let now = now_ns();
        let (count, sent_ns) = delivered.unwrap_or((0, now));
        (target.at_ns, target.last_ns, target.is_kill) = (now, now, true);
        let sent = Sent {
            suspect: target.suspect,
            kin: target.kin,
            is_kill: true,
            was_asked: true,
            resort: target.resort,
            after_ns: sent_ns.saturating_sub(reading_ns),
            count,
        };
        let watch = &mut self.plan.watches[at];
        watch.target = Some(target);
        watch.incident.killed(now, watch.reading.room());
        self.tell(at, &What::Sent(sent));
    }

    /// Sends a signal to all members of a family, again while there are new ones. Returns the number of
    /// processes reached and the time of the first signal.
    fn send_all(&mut self, at: usize, suspect: &Suspect, kin: Kin, signal: Signal) -> (u32, u64) {
        let (mut count, mut first_ns) = (0, 0);
        for round in 0..ROUNDS {
            let before = count;
            for place in 0.. {
                let Some(process) = self.table.processes().get(place).copied() else { break };
                if Self::is_member(at, &process, suspect, kin) && !self.survey.is_spared(process.seen.pid) {
                    let seen = process.seen;
                    let held = Held::of(&mut self.survey, seen.pid, seen.start);
                    count += u32::from(held.is_ok_and(|held| held.signal(signal).is_ok()));
                    if count == 1 && first_ns == 0 {
                        first_ns = now_ns();
                    }
                }
            }
            if count == before || signal != Signal::KILL || round + 1 == ROUNDS {
                break;
            }
            self.look_at_all(now_ns());
        }
        (count, if first_ns == 0 { now_ns() } else { first_ns })
    }

    fn is_member(at: usize, process: &Process, suspect: &Suspect, kin: Kin) -> bool {
        process.may_end(at) && belongs(process, kin, suspect)
    }

    /// Whether all processes that were sent a signal have exited. A family has exited when a survey that
    /// began after the last signal finds no member.
    pub(super) fn is_gone(&mut self, at: usize) -> bool {
        let Some(target) = &self.plan.watches[at].target else { return false };
        match (&target.held, target.kin) {
            (Some(held), _) => held.is_gone(),
            (None, None) => true,
            (None, Some(kin)) => {
                let suspect = target.suspect;
                let rest = self.survey_ns * SURVEY_SHARE / 2;
                let is_due = now_ns().saturating_sub(self.surveyed_ns) >= rest;
                if self.surveyed_ns <= target.last_ns && !is_due {
                    return false;
                }
                if self.surveyed_ns <= target.last_ns {
                    self.look_at_all(now_ns());
                }
                !self.table.processes().iter().any(|process| Self::is_member(at, process, &suspect, kin))
            }
        }
    }

    /// While a family is being killed, kills members that were created meanwhile.
    pub(super) fn go_on(&mut self, at: usize) {
        let Some(target) = &self.plan.watches[at].target else { return };
        // Only a survey since the last signal can have found new members.
        let has_looked = self.surveyed_ns > target.last_ns;
        if let (Some(kin), true, true) = (target.kin, target.is_kill, has_looked) {
            let suspect = target.suspect;
            if self.send_all(at, &suspect, kin, Signal::KILL).0 > 0
                && let Some(target) = &mut self.plan.watches[at].target
            {
                target.last_ns = now_ns();
            }
        }
    }
}
