//! The metrics page over HTTP. Limits and behaviour towards bad clients are those of `manycore_http`.

use manycore_http::{Access, Answer, Error, Query, Server, Site, metrics};
use std::{
    io,
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
};

/// The metrics in the `OpenMetrics` format; empty before the first.
#[derive(Debug, Default)]
pub struct Page(Mutex<String>);

impl Page {
    /// Replaces the text of the page.
    pub fn put(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Site for Page {
    fn answer(&self, query: Query<'_>) -> Option<Answer> {
        if query.path != "/metrics" {
            return None;
        }
        let text = self.text();
        let early = || Answer::not_yet("No reading is available yet.\n");
        Some(if text.is_empty() { early() } else { metrics::answer(query, text) })
    }

    fn not_found(&self) -> &'static str {
        "The metrics are at /metrics.\n"
    }
}

/// Serves the page to all that can connect, from now on and until this process ends.
///
/// # Errors
/// The thread or the asynchronous runtime cannot be created.
pub fn serve(listener: TcpListener, page: &Arc<Page>) -> io::Result<()> {
    let site: Arc<dyn Site> = Arc::<Page>::clone(page);
    let server = Server::start(listener, "metrics", Access::Open, site).map_err(|error| match error {
        Error::Start(error) => error,
        other => io::Error::other(other),
    })?;
    std::mem::forget(server);
    Ok(())
}
