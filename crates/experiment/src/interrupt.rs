//! Signals such as Ctrl-C set a flag, which long work checks so that the results so far can be saved.

use crate::error::{Error, Result};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Maximum sleep between two checks of the flag.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the flag: a signal handler sets it, and work that checks it ends early.
pub fn flag() -> Arc<AtomicBool> {
    Arc::clone(REQUESTED.get_or_init(Arc::default))
}

/// Returns whether a signal has requested the end of the run.
pub fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Relaxed))
}

/// Checks whether the run may go on.
///
/// # Errors
/// [`Error::Interrupted`] after a signal.
pub fn check() -> Result {
    if requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Sleeps for `time`.
///
/// # Errors
/// [`Error::Interrupted`] soon after a signal.
pub fn sleep(time: Duration) -> Result {
    let end = Instant::now() + time;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
}
