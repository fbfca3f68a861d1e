//! What is at which path.

use super::published::Published;
use manycore_http::{Answer, Events, Query, Site, metrics};
use std::{
    fmt::Write,
    fs::File,
    io::Read,
    sync::{Arc, Mutex, PoisonError},
};

/// The page. Each answer has another nonce.
const PAGE: &str = include_str!("page.html");

/// What stands for the nonce in the page.
const NONCE: &str = "NONCE";

#[derive(Debug, Default)]
pub(super) struct TopSite {
    last: Mutex<Option<Arc<Published>>>,
    events: Arc<Events>,
}

impl TopSite {
    /// Replaces what metrics are made of.
    pub(super) fn put(&self, published: Arc<Published>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(published);
    }

    /// Whether a page is open.
    pub(super) fn has_viewers(&self) -> bool {
        self.events.clients() > 0
    }

    /// Sends a picture to the pages that are open.
    pub(super) fn show(&self, json: &str) {
        self.events.publish(json);
    }

    /// Forgets the last picture: a page that is opened later must not show it as the present one.
    pub(super) fn forget(&self) {
        self.events.clear();
    }

    fn metrics(&self, query: Query<'_>) -> Answer {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match last {
            Some(last) => metrics::answer(query, last.text().to_owned()),
            None => Answer::not_yet("There is no picture yet.\n"),
        }
    }
}

impl Site for TopSite {
    fn answer(&self, query: Query<'_>) -> Option<Answer> {
        match query.path {
            "/" => Some(page()),
            "/events" => Some(Answer::events(&self.events)),
            "/metrics" => Some(self.metrics(query)),
            _ => None,
        }
    }

    fn not_found(&self) -> &'static str {
        "The page is at /, metrics are at /metrics.\n"
    }
}

fn page() -> Answer {
    let Some(nonce) = nonce() else { return Answer::not_yet("There are no random numbers.\n") };
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    Answer::text("text/html; charset=utf-8", PAGE.replace(NONCE, &nonce))
        .with("content-security-policy", &policy)
        // The address may have the token.
        .with("referrer-policy", "no-referrer")
        .with("cache-control", "no-store")
}

/// Returns 128 random bits as text.
fn nonce() -> Option<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
    Some(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Picture, serve::totals::Totals};

    #[test]
    fn metrics_of_a_sample_are_encoded_once() {
        let published = Published::new(&Totals::default(), &Picture::default(), &[], &[], false);
        let first = published.text().as_ptr();
        assert!(published.text().ends_with("# EOF\n"));
        assert_eq!(published.text().as_ptr(), first);
    }
}
