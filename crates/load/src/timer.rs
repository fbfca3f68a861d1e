//! A timer of the kernel's full resolution. That of the runtime has 1 ms.
#![allow(unsafe_code, reason = "a descriptor is registered with the runtime")]

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::{io, os::fd::OwnedFd, time::Instant};
use tokio::io::unix::AsyncFd;

/// A timer.
#[derive(Debug)]
pub(crate) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// Creates a timer, inside a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: `OwnedFd` owns its descriptor, which is neither replaced nor closed while `AsyncFd` owns it.
        Ok(Self(unsafe { AsyncFd::register(timer)? }))
    }

    /// Waits until a moment.
    pub(crate) async fn wait_until(&self, moment: Instant) -> io::Result<()> {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let it_value = Timespec::try_from(left).unwrap_or_default();
        let spec = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &spec)?;
        loop {
            let mut ready = self.0.readable().await?;
            let mut expirations = [0; 8];
            match rustix::io::read(self.0.get_ref(), &mut expirations) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
