//! Channels to a thread that waits in `poll(2)` for several things.
//!
//! All channels to one thread share its [`WakeUp`]. So the thread sleeps until there is something to do, and never
//! looks for messages in vain.

use rustix::{
    event::{EventfdFlags, eventfd},
    io::{read, write},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender},
    },
};

/// Wakes a thread (`eventfd(2)`). Neither waking nor clearing allocates or blocks.
#[derive(Clone, Debug)]
pub struct WakeUp(Arc<OwnedFd>);

impl WakeUp {
    /// Creates one that is clear.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Wakes the thread, now or when it next waits.
    pub fn wake(&self) {
        let _ = write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Clears it. To be called after waiting and before messages are received.
    pub fn clear(&self) {
        let _ = read(&*self.0, &mut [0u8; 8]);
    }
}

impl AsFd for WakeUp {
    /// Becomes readable when the thread is woken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends messages to a thread and wakes it. The thread is also woken when the sender is dropped.
#[derive(Debug)]
pub struct Sender<T> {
    /// Present until the sender is dropped.
    queue: Option<SyncSender<T>>,
    wake_up: WakeUp,
}

/// Creates a channel with space for `capacity` messages to the thread that `wake_up` wakes.
pub fn channel<T>(capacity: usize, wake_up: &WakeUp) -> (Sender<T>, Receiver<T>) {
    let (queue, receiver) = mpsc::sync_channel(capacity);
    (Sender { queue: Some(queue), wake_up: wake_up.clone() }, receiver)
}

impl<T> Sender<T> {
    /// Sends a message. Returns false if the channel is full or the receiver is gone. Neither allocates nor blocks.
    pub fn try_send(&self, message: T) -> bool {
        let is_sent = self.queue.as_ref().is_some_and(|queue| queue.try_send(message).is_ok());
        if is_sent {
            self.wake_up.wake();
        }
        is_sent
    }

    /// As [`Self::try_send`], but blocks until the channel has free capacity.
    pub fn send(&self, message: T) {
        if self.queue.as_ref().is_some_and(|queue| queue.send(message).is_ok()) {
            self.wake_up.wake();
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), wake_up: self.wake_up.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The receiver must find the channel disconnected when it wakes.
        drop(self.queue.take());
        self.wake_up.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::sync::mpsc::TryRecvError;

    fn is_awake(wake_up: &WakeUp) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(wake_up, PollFlags::IN)], Some(&now)) == Ok(1)
    }

    #[test]
    fn a_message_and_the_end_of_the_sender_wake_the_receiver() {
        let wake_up = WakeUp::new().unwrap();
        let (sender, receiver) = channel(1, &wake_up);
        assert!(!is_awake(&wake_up));
        assert!(sender.try_send(1) && !sender.try_send(2), "there is space for one");
        assert!(is_awake(&wake_up));
        wake_up.clear();
        assert!(!is_awake(&wake_up));
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Err(TryRecvError::Empty)));
        drop(sender);
        assert!(is_awake(&wake_up));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    }
}
