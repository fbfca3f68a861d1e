//! Hosts by ssh.

use super::{
    ATTEMPTS, HostEvent, Observer, Reply, TICK, Work, end_of,
    visit::{Failure, visit},
};
use manycore_experiment::interrupt;
use manycore_remote::{RemoteConnection, RemoteHost};
use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::AtomicBool,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
};

/// What a thread tells.
enum Message {
    Begins,
    Again(String),
    Ends(Result<Reply, Failure>),
}

/// A host, and how often it was tried.
type Turn<'a> = (&'a String, usize);

pub(super) fn collect(
    hosts: &[String],
    ssh: &[String],
    work: &Work,
    parallel: usize,
    observer: &mut dyn Observer,
) {
    let turns: Mutex<VecDeque<Turn>> = Mutex::new(hosts.iter().map(|host| (host, 1)).collect());
    let (sender, messages) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..parallel.clamp(1, hosts.len().max(1)) {
            let sender = sender.clone();
            let turns = &turns;
            scope.spawn(move || work_off(turns, ssh, work, &sender));
        }
        // The channel ends with the last thread.
        drop(sender);
        loop {
            match messages.recv_timeout(TICK) {
                Ok((host, Message::Begins)) => observer.event(host, HostEvent::Begins),
                Ok((host, Message::Again(why))) => observer.event(host, HostEvent::Again(why)),
                Ok((host, Message::Ends(Ok(reply)))) => observer.reply(host, reply),
                Ok((host, Message::Ends(Err(failure)))) => observer.event(host, end_of(failure, work)),
                Err(RecvTimeoutError::Timeout) => observer.tick(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

/// Visits hosts until none is left. A connection lives in the thread that opened it.
fn work_off<'a>(
    turns: &Mutex<VecDeque<Turn<'a>>>,
    ssh: &[String],
    work: &Work,
    sender: &Sender<(&'a String, Message)>,
) {
    let take = || turns.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    while let Some((host, attempt)) = take() {
        let _told = sender.send((host, Message::Begins));
        let ended = one(host, ssh, work);
        let message = match ended {
            Err(Failure::Lost(why)) if attempt < ATTEMPTS && !interrupt::requested() => {
                // After the others: it may restart meanwhile.
                turns.lock().unwrap_or_else(PoisonError::into_inner).push_back((host, attempt + 1));
                Message::Again(why)
            }
            ended => Message::Ends(ended),
        };
        let _told = sender.send((host, message));
    }
}

fn one(host: &str, ssh: &[String], work: &Work) -> Result<Reply, Failure> {
    if interrupt::requested() {
        return Err(Failure::Interrupted);
    }
    let parsed: RemoteHost =
        host.parse().map_err(|error: manycore_remote::InvalidHost| Failure::Failed(error.to_string()))?;
    let connection = RemoteConnection::open(&parsed, ssh)?;
    visit(&connection, work, None, &AtomicBool::new(false))
}
