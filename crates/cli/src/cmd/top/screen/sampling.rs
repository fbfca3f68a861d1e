//! The thread that takes samples and keeps those of the last minutes.

use super::super::shown::{Shown, Source};
use crate::failure::{Failure, Outcome};
use manycore_top::{TaskUse, Wanted, view::RecorderState};
use std::{
    io::{Read, Write},
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
    thread::{self, JoinHandle},
};

/// What the thread has to do.
pub(super) enum Request {
    /// Take a sample with what is wanted. The memory of the tasks is used again.
    Next(Wanted, Vec<TaskUse>),
    /// Make the picture of a sample that is kept.
    At(usize),
}

/// What the thread has done.
pub(super) enum Reply {
    /// A sample was taken.
    Next {
        /// The picture; absent if no time has passed.
        shown: Outcome<Option<Box<Shown>>>,
        /// The numbers of the pictures that are kept.
        numbers: Range<usize>,
        /// Whether the samples are recorded.
        recorder: RecorderState,
        /// Whether the command has ended.
        is_over: bool,
    },
    /// The picture of a sample, if it is kept.
    At(Option<Box<Shown>>),
}

/// The thread, as the loop sees it.
pub(super) struct Sampling {
    requests: Option<Sender<Request>>,
    replies: Receiver<Reply>,
    /// Becomes readable with each reply.
    wakeup: UnixStream,
    thread: Option<JoinHandle<Source>>,
}

impl Sampling {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Failure::Missing`]: there can be no further thread or file.
    pub fn start(source: Source) -> Outcome<Self> {
        let (requests, asked) = channel();
        let (answers, replies) = channel();
        let (wakeup, rope) = UnixStream::pair().map_err(Failure::missing)?;
        wakeup.set_nonblocking(true).map_err(Failure::missing)?;
        rope.set_nonblocking(true).map_err(Failure::missing)?;
        let thread = thread::Builder::new()
            .name("sampling".to_owned())
            .spawn(move || serve(source, &asked, &answers, &rope))
            .map_err(Failure::missing)?;
        Ok(Self { requests: Some(requests), replies, wakeup, thread: Some(thread) })
    }

    /// Gives the thread something to do.
    pub fn ask(&self, request: Request) {
        // The thread ends only after this end of the channel.
        let _ = self.requests.as_ref().map(|requests| requests.send(request));
    }

    /// Returns the next reply if there is one.
    ///
    /// # Errors
    /// [`Failure::Missing`]: the thread has panicked.
    pub fn take(&self) -> Outcome<Option<Reply>> {
        while (&self.wakeup).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        match self.replies.try_recv() {
            Ok(reply) => Ok(Some(reply)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(Failure::missing("the thread that takes samples has failed"))
            }
        }
    }

    /// Ends the thread; returns what it sampled, unless it panicked.
    pub fn stop(&mut self) -> Option<Source> {
        self.requests = None;
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl AsFd for Sampling {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

/// Answers requests until the loop has ended.
fn serve(
    mut source: Source,
    asked: &Receiver<Request>,
    answers: &Sender<Reply>,
    mut rope: &UnixStream,
) -> Source {
    while let Ok(first) = asked.recv() {
        for request in newest([first].into_iter().chain(asked.try_iter())) {
            let reply = match request {
                Request::Next(wanted, spare) => next(&mut source, wanted, spare),
                Request::At(number) => Reply::At(source.at(number).map(Box::new)),
            };
            if answers.send(reply).is_err() {
                return source;
            }
            // A full pipe wakes the loop as well.
            let _ = rope.write(&[0]);
        }
    }
    source
}

/// Returns the requests without steps after which there is another one: a key that is held asks for many.
fn newest(requests: impl Iterator<Item = Request>) -> Vec<Request> {
    let mut left: Vec<Request> = Vec::new();
    for request in requests {
        if matches!(request, Request::At(_)) {
            left.retain(|one| !matches!(one, Request::At(_)));
        }
        left.push(request);
    }
    left
}

fn next(source: &mut Source, wanted: Wanted, spare: Vec<TaskUse>) -> Reply {
    let shown = source.next(wanted, spare).map(|shown| shown.map(Box::new));
    let is_over = source.is_over();
    let (numbers, recorder) = (source.numbers(), source.recorder());
    match is_over {
        Ok(is_over) => Reply::Next { shown, numbers, recorder, is_over },
        Err(failure) => Reply::Next { shown: Err(failure), numbers, recorder, is_over: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_steps_the_last_one_is_made() {
        let at = |number| Request::At(number);
        let next = || Request::Next(Wanted::default(), Vec::new());
        let left = newest([at(9), at(8), next(), at(7), at(6)].into_iter());
        assert!(matches!(left[..], [Request::Next(..), Request::At(6)]));
        assert_eq!(newest([next()].into_iter()).len(), 1);
    }
}
