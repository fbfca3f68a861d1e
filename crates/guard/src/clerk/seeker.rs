//! Finds the processes that hold memory which is in no process's pages, on a thread of its own: it takes time, and may
//! wait for what processes do.

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

/// How often it is looked while nothing happens.
const CALM: Duration = Duration::from_secs(30);

/// Looking may take this part of the time then, as long as it is looked every [`RAREST`].
const CALM_SHARE: u32 = 2000;

/// See [`CALM_SHARE`].
const RAREST: Duration = Duration::from_mins(2);

/// Between two looks while memory goes, at least; and as long as the look before took.
const MOMENT: Duration = Duration::from_millis(20);

/// Processes that are told of at once: those that hold most.
const MOST: usize = 64;

/// The way to it.
pub struct Seeker(SyncSender<bool>);

impl Seeker {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be made; the kernel does not tell what it takes.
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
                // The answer follows each look at once: the watcher asks again while it explains too little.
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

    /// Has it look: at what is there while nothing happens, or at what has grown since. Where it looks already, that
    /// does.
    pub fn look(&self, is_calm: bool) {
        let _ = self.0.try_send(is_calm);
    }
}

/// Takes a look into the ledger.
pub fn look(scanner: &mut Scanner, ledger: &mut Ledger, is_calm: bool) {
    let look = scanner.look();
    ledger.take(&look.objects, is_calm, look.is_whole);
}
