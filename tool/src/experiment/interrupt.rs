//! Signals such as Ctrl-C set a flag, which long work checks so that the results so far can be saved.

use crate::failure::{Failure, Outcome};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Longest sleep between two checks of the flag.
const LOOK: Duration = Duration::from_millis(100);

/// Catches SIGINT, SIGTERM and SIGHUP. The first signal sets the flag. A second one ends the program at once
/// with exit code 130.
///
/// # Errors
/// Those of `sigaction(2)`.
pub fn catch() -> io::Result<()> {
    let flag = REQUESTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))?;
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Returns whether a signal has requested the end of the run.
pub fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Relaxed))
}

/// Checks whether the run may go on.
///
/// # Errors
/// [`Failure::Interrupted`] after a signal.
pub fn check() -> Outcome {
    if requested() { Err(Failure::Interrupted("interrupted".to_owned())) } else { Ok(()) }
}

/// Sleeps for `time`.
///
/// # Errors
/// [`Failure::Interrupted`] soon after a signal.
pub fn sleep(time: Duration) -> Outcome {
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
