//! Findings that pictures cannot show: those of `audit`, and conditions of the machine. A thread of its own looks for
//! them seldom, because an audit reads files of each thread.

use crate::{cmd::audit, output};
use manycore_audit::{Finding as AuditFinding, FindingKind as AuditKind, Severity, process_scan::ScanScope};
use manycore_linux::{allocator, clock};
use manycore_text::names::printable;
use manycore_top::{
    Picture,
    findings::{Conditions, Finding, FindingKind},
};
use manycore_topology::Machine;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Time between two checks.
const AGAIN: Duration = Duration::from_mins(1);
/// The same after a finding of the audit, which may be mended.
const AGAIN_SOON: Duration = Duration::from_secs(5);
/// The time between two checks is at least this many times the CPU time of one.
const TIMES_ITS_COST: u32 = 200;
/// How long a check observes.
const OBSERVED: Duration = Duration::from_secs(1);
/// How long a single picture waits for its check.
const LONGEST: Duration = Duration::from_secs(5);

/// A finding of a check.
struct Found {
    kind: FindingKind,
    text: String,
    fix: Option<String>,
    since: Instant,
    /// The finding of the audit, which has its processes.
    audited: Option<AuditFinding>,
}

/// The checks. They end when this is dropped.
pub(super) struct Checks {
    latest: Arc<Mutex<Vec<Found>>>,
    /// Told after each check, if it listens.
    finished: Receiver<()>,
    _stop: SyncSender<()>,
}

impl Checks {
    /// Starts the checks, the first one after `delay`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(machine: &Machine, delay: Duration) -> io::Result<Self> {
        let latest = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = sync_channel(0);
        let (tell, finished) = sync_channel(1);
        let is_guest = machine.system.hypervisor.is_some();
        let shared = Arc::clone(&latest);
        thread::Builder::new().name("checks".to_owned()).spawn(move || {
            let before = Conditions::read(Path::new("/"), is_guest);
            let mut checker = Checker { is_guest, before, since: BTreeMap::new() };
            let mut pause = delay;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let began = clock::thread_cpu();
                let found = checker.check();
                let again = if found.iter().any(|one| one.audited.is_some()) { AGAIN_SOON } else { AGAIN };
                if let Ok(mut latest) = shared.lock() {
                    *latest = found;
                }
                // Only a single picture waits for it.
                let _ = tell.try_send(());
                allocator::return_free_memory();
                pause = again.max(clock::thread_cpu().saturating_sub(began) * TIMES_ITS_COST);
            }
        })?;
        Ok(Self { latest, finished, _stop: stop })
    }

    /// Waits for the first check.
    pub fn wait(&self) {
        if self.finished.recv_timeout(LONGEST).is_err() {
            output::note("The audit takes long: its findings are missing. For them: manycore audit");
        }
    }

    /// Returns what the last check found, without findings about processes that have all ended since.
    pub fn latest(&self, picture: &Picture) -> Vec<Finding> {
        let Ok(latest) = self.latest.lock() else { return Vec::new() };
        if latest.is_empty() {
            return Vec::new();
        }
        let pids: BTreeSet<u32> = picture.processes.iter().map(|process| process.pid).collect();
        let holds = |found: &&Found| found.audited.as_ref().is_none_or(|audited| audited.is_about(&pids));
        let finding = |found: &Found| Finding {
            kind: found.kind,
            text: found.text.clone(),
            fix: found.fix.clone(),
            seconds: found.since.elapsed().as_secs_f64(),
        };
        latest.iter().filter(holds).map(finding).collect()
    }
}

struct Checker {
    is_guest: bool,
    before: Conditions,
    /// Since when each finding of the last check has held: of the audit by its words, which name the processes.
    since: BTreeMap<(FindingKind, String), Instant>,
}

impl Checker {
    fn check(&mut self) -> Vec<Found> {
        let began = Instant::now();
        let scope = ScanScope { without_memory: true, ..ScanScope::default() };
        // What cannot be examined is no finding.
        let audited = audit::examine(scope, OBSERVED).map(|audit| audit.findings).unwrap_or_default();
        let audited = audited.into_iter().filter_map(|finding| {
            let fix = Some(printable(&finding.fix)).filter(|fix| !fix.is_empty());
            Some(Found {
                kind: kind(&finding)?,
                text: printable(&finding.headline),
                fix,
                since: began,
                audited: Some(finding),
            })
        });
        let now = Conditions::read(Path::new("/"), self.is_guest);
        let problems = now.problems(&self.before).into_iter();
        let since = self.before.at();
        let problems = problems.map(|(kind, text, fix)| Found { kind, text, fix, since, audited: None });
        let mut all: Vec<Found> = audited.chain(problems).collect();
        let mut held = BTreeMap::new();
        for found in &mut all {
            let words = if found.audited.is_some() { found.text.clone() } else { String::new() };
            let key = (found.kind, words);
            found.since = *self.since.get(&key).unwrap_or(&found.since);
            held.insert(key, found.since);
        }
        (self.since, self.before) = (held, now);
        all
    }
}

/// Returns the kind of a finding of the audit that costs time now, and that pictures do not show.
fn kind(finding: &AuditFinding) -> Option<FindingKind> {
    if finding.severity != Severity::Problem {
        return None;
    }
    match finding.subject {
        AuditKind::OverlappingPins { .. } => Some(FindingKind::OverlappingPins),
        AuditKind::OutsideCpuset { .. } => Some(FindingKind::OutsideCpuset),
        AuditKind::OfflineCpus { .. } => Some(FindingKind::OfflineCpus),
        AuditKind::IsolatedCpus { .. } => Some(FindingKind::IsolatedCpus),
        AuditKind::TooManyThreads { .. } => Some(FindingKind::TooManyThreads),
        AuditKind::OversubscribedCpu { .. }
        | AuditKind::FarMemory { .. }
        | AuditKind::Throttled { .. }
        | AuditKind::Interrupts { .. } => None,
    }
}
