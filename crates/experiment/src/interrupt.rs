//! Ctrl-C and its kin: a flag that long work looks at, so that what was measured can be saved.

use crate::error::{Error, Result};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Longest sleep after which the flag is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The flag: a signal handler sets it, and work that checks it ends early.
pub fn flag() -> Arc<AtomicBool> {
    Arc::clone(REQUESTED.get_or_init(Arc::default))
}

/// Whether a signal asked for the end.
pub fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Relaxed))
}

/// Goes on, or not.
///
/// # Errors
/// [`Error::Interrupted`] after a signal.
pub fn check() -> Result {
    if requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Sleeps for `time`.
///
/// # Errors
/// [`Error::Interrupted`] as soon as a signal was seen.
pub fn sleep(time: Duration) -> Result {
    let end = Instant::now() + time;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}
