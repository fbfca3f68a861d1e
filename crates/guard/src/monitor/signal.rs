//! From a cause to the signal.

use crate::decision::{
    cause::{CauseFinding, FamilyKey, Suspect, is_family_member},
    process_table::{ProcessEntry, Protection},
    shortage::ShortageState,
};
use crate::event::{EventDetail, SignalSent};
use crate::monitor::{Monitor, SURVEY_SHARE, pause::WAITING_NS};
use manycore_linux::{clock::now_ns, pidfd::ProcessHandle};
use rustix::{io::Errno, process::Signal};
use std::io;

/// Number of causes that are tried in a row: some may have exited or turn out to be protected.
const TRIES: usize = 8;

/// Number of passes over a family: it may have new members after each pass.
const ROUNDS: usize = 3;

/// The process or family that was sent a signal.
pub struct SignalledProcess {
    /// The process; of a family, its representative.
    pub suspect: Suspect,
    /// What the processes have in common, if there are several.
    pub family: Option<FamilyKey>,
    /// The open process.
    pub held: Option<ProcessHandle>,
    /// Time of the first signal of this kind.
    pub at_ns: u64,
    /// Time of the signal to the last member of a family.
    pub last_ns: u64,
    /// Whether the signal was SIGKILL.
    pub is_kill: bool,
    /// Set if it was selected by the last resort; see [`SignalSent::last_resort_score`].
    pub last_resort_score: Option<u32>,
}

/// Why no signal was sent.
enum SignalError {
    /// A resource was missing that may be available in a moment.
    Failed,
    /// The process has exited.
    Exited,
    /// The kernel must not kill the process (`oom_score_adj` is -1000), so the guard does not either.
    OomExempt,
    /// The kernel refused the signal: the error number.
    Refused(i32),
}

impl SignalError {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) if number == Errno::SRCH.raw_os_error() => Self::Exited,
            Some(number) if number == Errno::PERM.raw_os_error() => Self::Refused(number),
            _ => Self::Failed,
        }
    }
}

impl Monitor {
    /// Executes the path to a signal once, on a child process, so that the code is in memory before it is
    /// needed. Returns the error if processes cannot be opened.
    pub(super) fn rehearse_signal(&mut self) -> Option<io::Error> {
        let own = std::process::id();
        let start = self.scanner.reader.start_time(own).map_or(0, |(start, _)| start);
        let failed = ProcessHandle::open(&mut self.scanner.reader, own, start).err();
        let Some(mut rehearsal_child) = self.rehearsal_child.take() else { return failed };
        self.survey_all(now_ns());
        self.is_rehearsing = true;
        self.rehearse_on(rehearsal_child.id());
        self.is_rehearsing = false;
        let _ = rehearsal_child.kill();
        let _ = rehearsal_child.wait();
        failed
    }

    fn rehearse_on(&mut self, rehearsal_child: u32) {
        let (Some(process), false) = (self.table.find_mut(rehearsal_child), self.plan.watches.is_empty())
        else {
            return;
        };
        // The only process of a control group that does not exist.
        (process.group, process.protection, process.watches) = (u16::MAX, None, 1);
        let suspect = Suspect {
            process: *process,
            bytes: 0,
            members: 1,
            growth: 0,
            decrease: 0,
            whole_growth: 0,
            recent_start_ns: u64::MAX,
            whole_start_ns: u64::MAX,
            score: 0.0,
        };
        let _ = self.group_of(0, &suspect);
        let _ = (self.awaits_groups(0), self.awaits_holders(0));
        self.keep_searching(0);
        let _ = self.highest_score(0);
        let _ = self.send_all(0, &suspect, FamilyKey::WholeGroup(u16::MAX), Signal::CONT);
        let _ = self.send(0, &suspect, None, false, None);
        self.escalate_to_kill(0);
        let _ = self.has_exited(0);
        self.kill_new_members(0);
        let watch = &mut self.plan.watches[0];
        (watch.target, watch.group_wait_ns, watch.holder_wait_ns) = (None, None, None);
        watch.shortage = ShortageState::default();
    }

    /// Finds the cause and sends it a signal.
    pub(super) fn find_and_signal(&mut self, at: usize, is_kill: bool) {
        self.refresh_table();
        if self.awaits_groups(at) || self.awaits_holders(at) {
            return;
        }
        for _ in 0..TRIES {
            let (suspect, family, last_resort_score) = match self.find_cause(at) {
                CauseFinding::Process(suspect) if self.plan.watches[at].end_group => {
                    match self.group_of(at, &suspect) {
                        Some((suspect, family)) => (suspect, Some(family), None),
                        None => (suspect, None, None),
                    }
                }
                CauseFinding::Process(suspect) => (suspect, None, None),
                CauseFinding::Family(suspect, family) => (suspect, Some(family), None),
                other => match (self.last_resort(at), other) {
                    (Some((suspect, score)), _) => (suspect, None, Some(score)),
                    (None, CauseFinding::Files(bytes)) => {
                        return self.report_no_cause(at, &EventDetail::Files(bytes));
                    }
                    (None, _) => return self.report_no_cause(at, &EventDetail::NoCause),
                },
            };
            match self.send(at, &suspect, family, is_kill, last_resort_score) {
                Ok(()) => return,
                Err(SignalError::Exited) => self.table.remove(suspect.process.reading.pid),
                Err(SignalError::OomExempt) => {
                    if let Some(process) = self.table.find_mut(suspect.process.reading.pid) {
                        process.protection = Some(Protection::OomExempt);
                    }
                }
                Err(SignalError::Refused(number)) => {
                    let reading = suspect.process.reading;
                    self.plan.watches[at].shortage.exclude(reading.pid, reading.start);
                    self.send_event(at, &EventDetail::Refused(suspect, number));
                }
                Err(SignalError::Failed) => break,
            }
        }
        self.plan.watches[at].shortage.search_failed(now_ns());
    }

    /// Reports, once, that no process can be ended.
    fn report_no_cause(&mut self, at: usize, what: &EventDetail) {
        if self.plan.watches[at].shortage.search_failed(now_ns()) {
            self.send_event(at, what);
        }
        // The search may show the cause at any moment, and the last resort waits for nothing else.
        if self.is_searching(at) {
            self.plan.watches[at].shortage.delay_search(now_ns() + WAITING_NS);
        }
    }

    /// Returns all processes of the suspect's control group. `None` if the group is unknown or one of them is
    /// protected.
    fn group_of(&mut self, at: usize, suspect: &Suspect) -> Option<(Suspect, FamilyKey)> {
        let group = Some(suspect.process.group).filter(|&group| group > 0 && suspect.process.is_known)?;
        let Self { table, scanner, .. } = self;
        let members = || table.processes().iter().filter(|process| process.group == group);
        if members().any(|process| scanner.reader.is_oom_exempt(process.reading.pid)) {
            return None;
        }
        let all_may = members().all(|process| process.is_eligible(at));
        let bytes = members().map(ProcessEntry::freeable_bytes).sum();
        let whole = Suspect { bytes, members: members().count() as u32, ..*suspect };
        all_may.then_some((whole, FamilyKey::WholeGroup(group)))
    }

    /// Sends the signal, records it and reports it.
    fn send(
        &mut self,
        at: usize,
        suspect: &Suspect,
        family: Option<FamilyKey>,
        is_kill: bool,
        last_resort_score: Option<u32>,
    ) -> Result<(), SignalError> {
        let reading = suspect.process.reading;
        let held = match (ProcessHandle::open(&mut self.scanner.reader, reading.pid, reading.start), family) {
            (Ok(held), _) => Some(held),
            (Err(_), Some(_)) => None,
            (Err(error), None) => return Err(SignalError::of(&error)),
        };
        if self.scanner.reader.is_oom_exempt(reading.pid) {
            return Err(SignalError::OomExempt);
        }
        let signal = if is_kill { Signal::KILL } else { Signal::TERM };
        let reading_ns = self.plan.watches[at].reading.at_ns;
        let (count, sent_ns) = if self.is_dry {
            (suspect.members, now_ns())
        } else {
            self.send_signal(at, suspect, family, held.as_ref(), signal)?
        };
        let now = now_ns();
        let target = SignalledProcess {
            suspect: *suspect,
            family,
            held: held.filter(|_| family.is_none()),
            at_ns: now,
            last_ns: now,
            is_kill,
            last_resort_score,
        };
        self.record_signal(at, target);
        let after_ns = sent_ns.saturating_sub(reading_ns);
        let suspect = *suspect;
        let sent =
            SignalSent { suspect, family, is_kill, had_term: false, last_resort_score, after_ns, count };
        self.send_event(at, &EventDetail::Sent(sent));
        Ok(())
    }

    /// Records that a process was sent a signal, or would have been sent one in a dry run.
    fn record_signal(&mut self, at: usize, target: SignalledProcess) {
        let watch = &mut self.plan.watches[at];
        watch.group_wait_ns = None;
        if self.is_dry {
            return watch.shortage.dry_run_reported(target.at_ns);
        }
        if target.is_kill {
            watch.shortage.kill_sent(target.at_ns, watch.reading.available_with_swap());
        } else {
            watch.shortage.term_sent(target.at_ns);
        }
        watch.target = Some(target);
    }

    /// Sends a signal to one process or a family. Returns the number of processes reached and the time of the
    /// first signal.
    fn send_signal(
        &mut self,
        at: usize,
        suspect: &Suspect,
        family: Option<FamilyKey>,
        held: Option<&ProcessHandle>,
        signal: Signal,
    ) -> Result<(u32, u64), SignalError> {
        let refused = || SignalError::Refused(Errno::PERM.raw_os_error());
        match (family, held) {
            (Some(family), _) => {
                let (count, first_ns) = self.send_all(at, suspect, family, signal);
                if count == 0 { Err(refused()) } else { Ok((count, first_ns)) }
            }
            (None, Some(held)) => {
                held.signal(signal).map_err(|error| SignalError::of(&error))?;
                Ok((1, now_ns()))
            }
            (None, None) => Err(refused()),
        }
    }

    /// Kills the process that was sent SIGTERM.
    pub(super) fn escalate_to_kill(&mut self, at: usize) {
        let Some(mut target) = self.plan.watches[at].target.take() else {
            return self.plan.watches[at].shortage.kill_sent(now_ns(), 0);
        };
        let reading_ns = self.plan.watches[at].reading.at_ns;
        let delivered =
            self.send_signal(at, &target.suspect, target.family, target.held.as_ref(), Signal::KILL);
        let now = now_ns();
        let (count, sent_ns) = delivered.unwrap_or((0, now));
        (target.at_ns, target.last_ns, target.is_kill) = (now, now, true);
        let sent = SignalSent {
            suspect: target.suspect,
            family: target.family,
            is_kill: true,
            had_term: true,
            last_resort_score: target.last_resort_score,
            after_ns: sent_ns.saturating_sub(reading_ns),
            count,
        };
        let watch = &mut self.plan.watches[at];
        watch.target = Some(target);
        watch.shortage.kill_sent(now, watch.reading.available_with_swap());
        self.send_event(at, &EventDetail::Sent(sent));
    }

    /// Sends a signal to all members of a family, again while there are new ones. Returns the number of
    /// processes reached and the time of the first signal.
    fn send_all(&mut self, at: usize, suspect: &Suspect, family: FamilyKey, signal: Signal) -> (u32, u64) {
        let (mut count, mut first_ns) = (0, 0);
        for round in 0..ROUNDS {
            let before = count;
            for place in 0.. {
                let Some(process) = self.table.processes().get(place).copied() else { break };
                if Self::is_member(at, &process, suspect, family)
                    && !self.scanner.reader.is_oom_exempt(process.reading.pid)
                {
                    let reading = process.reading;
                    let held = ProcessHandle::open(&mut self.scanner.reader, reading.pid, reading.start);
                    count += u32::from(held.is_ok_and(|held| held.signal(signal).is_ok()));
                    if count == 1 && first_ns == 0 {
                        first_ns = now_ns();
                    }
                }
            }
            if count == before || signal != Signal::KILL || round + 1 == ROUNDS {
                break;
            }
            self.survey_all(now_ns());
        }
        (count, if first_ns == 0 { now_ns() } else { first_ns })
    }

    fn is_member(at: usize, process: &ProcessEntry, suspect: &Suspect, family: FamilyKey) -> bool {
        process.is_eligible(at) && is_family_member(process, family, suspect)
    }

    /// Whether all processes that were sent a signal have exited. A family has exited when a survey that
    /// began after the last signal finds no member.
    pub(super) fn has_exited(&mut self, at: usize) -> bool {
        let Some(target) = &self.plan.watches[at].target else { return false };
        match (&target.held, target.family) {
            (Some(held), _) => held.has_exited(),
            (None, None) => true,
            (None, Some(family)) => {
                let suspect = target.suspect;
                let rest = self.survey_ns * SURVEY_SHARE / 2;
                let is_due = now_ns().saturating_sub(self.surveyed_ns) >= rest;
                if self.surveyed_ns <= target.last_ns && !is_due {
                    return false;
                }
                if self.surveyed_ns <= target.last_ns {
                    self.survey_all(now_ns());
                }
                !self.table.processes().iter().any(|process| Self::is_member(at, process, &suspect, family))
            }
        }
    }

    /// While a family is being killed, kills members that were created meanwhile.
    pub(super) fn kill_new_members(&mut self, at: usize) {
        let Some(target) = &self.plan.watches[at].target else { return };
        // Only a survey since the last signal can have found new members.
        let has_looked = self.surveyed_ns > target.last_ns;
        if let (Some(family), true, true) = (target.family, target.is_kill, has_looked) {
            let suspect = target.suspect;
            if self.send_all(at, &suspect, family, Signal::KILL).0 > 0
                && let Some(target) = &mut self.plan.watches[at].target
            {
                target.last_ns = now_ns();
            }
        }
    }
}
