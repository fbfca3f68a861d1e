//! Findings that pictures cannot show: those of `audit`, and conditions of the machine. A thread of its own looks for
//! them seldom, because an audit reads files of each thread.

use crate::cmd::audit;
use manycore_audit::{Finding as AuditFinding, FindingKind as AuditKind, Severity};
use manycore_text::names::printable;
use manycore_top::findings::{Conditions, Finding, FindingKind};
use manycore_topology::Machine;
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::BTreeMap,
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
/// The time between two checks is at least this many times the CPU time of one.
const TIMES_ITS_COST: u32 = 200;
/// How long a check observes.
const OBSERVED: Duration = Duration::from_secs(1);
/// How long a single picture waits for its check.
const LONGEST: Duration = Duration::from_secs(10);

/// The checks. They end when this is dropped.
pub(super) struct Checks {
    latest: Arc<Mutex<Option<Vec<Finding>>>>,
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
        let latest = Arc::new(Mutex::new(None));
        let (stop, stopped) = sync_channel(0);
        let (tell, finished) = sync_channel(1);
        let mut checker = Checker {
            machine: machine.clone(),
            before: Conditions::read(Path::new("/"), machine),
            since: BTreeMap::new(),
        };
        let shared = Arc::clone(&latest);
        thread::Builder::new().name("checks".to_owned()).spawn(move || {
            let mut pause = delay;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let began = cpu_time();
                let found = checker.check();
                if let Ok(mut latest) = shared.lock() {
                    *latest = Some(found);
                }
                // Nobody may be waiting.
                let _ = tell.try_send(());
                pause = AGAIN.max(cpu_time().saturating_sub(began) * TIMES_ITS_COST);
            }
        })?;
        Ok(Self { latest, finished, _stop: stop })
    }

    /// Waits for the first check.
    pub fn wait(&self) {
        // Without it, there are the findings of the picture.
        let _ = self.finished.recv_timeout(LONGEST);
    }

    /// Returns what the last check found.
    pub fn latest(&self) -> Vec<Finding> {
        self.latest.lock().ok().and_then(|latest| latest.clone()).unwrap_or_default()
    }
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

struct Checker {
    machine: Machine,
    before: Conditions,
    /// Since when each finding of the last audit has held.
    since: BTreeMap<(FindingKind, String), Instant>,
}

impl Checker {
    fn check(&mut self) -> Vec<Finding> {
        let began = Instant::now();
        // What cannot be examined is no finding.
        let audited = audit::examine(&[], OBSERVED).map(|audit| audit.findings).unwrap_or_default();
        let audited = audited.iter().filter_map(|finding| Some((kind(finding)?, finding)));
        let mut since = BTreeMap::new();
        let mut findings: Vec<Finding> = audited
            .map(|(kind, finding)| {
                let text = printable(&finding.headline);
                let first = *self.since.get(&(kind, text.clone())).unwrap_or(&began);
                since.insert((kind, text.clone()), first);
                let fix = Some(printable(&finding.fix)).filter(|fix| !fix.is_empty());
                Finding { kind, text, fix, seconds: first.elapsed().as_secs_f64() }
            })
            .collect();
        self.since = since;
        let now = Conditions::read(Path::new("/"), &self.machine);
        findings.extend(now.findings(&self.before));
        self.before = now;
        findings
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
