//! Finds the processes that hold memory outside of all processes' pages. It runs in a thread of its own,
//! because it takes time and may block on locks of processes.

use crate::decision::holdings::Ledger;
use crate::event::Fact;
use crate::holdings::Scanner;
use rustix::io::write;
use std::{
    io,
    os::fd::OwnedFd,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// Interval between scans while memory is plentiful.
const CALM: Duration = Duration::from_secs(30);

/// While memory is plentiful, scans may take one part in this many of the time, but run at least every
/// [`RAREST`].
const CALM_SHARE: u32 = 2000;

/// See [`CALM_SHARE`].
const RAREST: Duration = Duration::from_mins(2);

/// Least time between two scans while available memory decreases. It is also at least as long as the last
/// scan took.
const MOMENT: Duration = Duration::from_millis(20);

/// Number of processes reported at once: those that hold most.
const MOST: usize = 64;

/// Handle of the thread.
pub struct Seeker(SyncSender<bool>);

impl Seeker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be created, or the kernel does not provide what the scan needs.
    pub fn begin(facts: SyncSender<Fact>, wake: OwnedFd) -> io::Result<Self> {
        let (sender, wanted) = sync_channel::<bool>(2);
        let mut scanner = Scanner::new()?;
        let mut ledger = Ledger::default();
        let mut not_before = Instant::now();
        let (mut ended, mut rest) = (Instant::now(), Duration::ZERO);
        let work = move || {
            for is_calm in wanted {
                let began = Instant::now();
                if is_calm {
                    if began >= not_before {
                        look(&mut scanner, &mut ledger, true);
                        not_before = Instant::now() + (began.elapsed() * CALM_SHARE).clamp(CALM, RAREST);
                    }
                    continue;
                }
                // The result follows each scan at once. The monitor requests another scan while too little is
                // explained.
                thread::sleep(rest.saturating_sub(ended.elapsed()));
                let began = Instant::now();
                look(&mut scanner, &mut ledger, false);
                (ended, rest) = (Instant::now(), began.elapsed().max(MOMENT));
                let mut held = ledger.held();
                held.truncate(MOST);
                if facts.try_send(Fact::Holdings(held)).is_ok() {
                    let _ = write(&wake, &1u64.to_ne_bytes());
                }
            }
        };
        thread::Builder::new().name("seeker".to_owned()).spawn(work)?;
        Ok(Self(sender))
    }

    /// Requests a scan: the baseline while memory is plentiful (`is_calm`), or what has grown since. Does
    /// nothing if one is already requested.
    pub fn look(&self, is_calm: bool) {
        let _ = self.0.try_send(is_calm);
    }
}

/// Adds a scan to the ledger.
pub fn look(scanner: &mut Scanner, ledger: &mut Ledger, is_calm: bool) {
    let look = scanner.look();
    ledger.take(&look.objects, is_calm, look.is_whole);
}
