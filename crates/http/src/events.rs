//! Server-sent events (HTML standard, 9.2), of which each client gets the newest.

use crate::connection::{Body, Lease};
use http_body_util::{Either, channel};
use hyper::body::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time};

/// Largest number of clients.
const MOST_CLIENTS: usize = 16;

/// Longest time without an event. Then a comment is sent, which shows whether the client is still there.
const SILENCE: Duration = Duration::from_secs(5);

/// Events of one kind. Publishing never waits. A client that has not read the last event gets the newest one when it has,
/// and loses those between them.
#[derive(Debug)]
pub struct Events(watch::Sender<Bytes>);

impl Default for Events {
    fn default() -> Self {
        Self(watch::Sender::new(Bytes::new()))
    }
}

impl Events {
    /// Publishes an event with this data. Clients that come later get it first.
    pub fn publish(&self, data: &str) {
        let mut text = String::with_capacity(data.len() + 16);
        for line in data.split(['\n', '\r']) {
            text.push_str("data: ");
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
        self.0.send_replace(Bytes::from(text));
    }

    /// Forgets the last event: clients that come later get the next one first.
    pub fn clear(&self) {
        self.0.send_if_modified(|last| {
            *last = Bytes::new();
            false
        });
    }

    /// Returns how many clients are connected.
    pub fn clients(&self) -> usize {
        self.0.receiver_count()
    }

    /// Returns the body for a new client; `None` if there are too many.
    pub(crate) fn subscribe(self: &Arc<Self>, lease: Arc<Lease>) -> Option<Body> {
        if self.clients() >= MOST_CLIENTS {
            return None;
        }
        let (sender, body) = channel::Channel::new(1);
        tokio::spawn(forward(self.0.subscribe(), sender, lease));
        Some(Either::Right(body))
    }
}

/// Sends each event to one client. Each that is accepted extends the lease of its connection.
async fn forward(mut news: watch::Receiver<Bytes>, mut client: channel::Sender<Bytes>, lease: Arc<Lease>) {
    // A browser connects again after this many milliseconds.
    if client.send_data(Bytes::from_static(b"retry: 1000\n\n")).await.is_err() {
        return;
    }
    news.mark_changed();
    loop {
        let next = match time::timeout(SILENCE, news.changed()).await {
            Ok(Ok(())) => news.borrow_and_update().clone(),
            Ok(Err(_)) => return,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        if !next.is_empty() && client.send_data(next).await.is_err() {
            return;
        }
        lease.extend();
    }
}
