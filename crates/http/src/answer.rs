//! What a site answers.

use crate::Events;
use hyper::{
    HeaderMap, StatusCode,
    header::{ACCEPT, HeaderName, HeaderValue},
};
use std::sync::Arc;

/// Content type of plain text.
const WORDS: &str = "text/plain; charset=utf-8";

/// A request that may read: its path, and what kinds of content the client accepts.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The path, without what follows `?`.
    pub path: &'a str,
    /// The value of `Accept`; empty without.
    pub accept: &'a str,
}

impl<'a> Query<'a> {
    pub(crate) fn new(path: &'a str, headers: &'a HeaderMap) -> Self {
        let accept = headers.get(ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
        Self { path, accept }
    }
}

/// Answers requests. It is called in the thread of the server, and must not wait.
pub trait Site: Send + Sync + 'static {
    /// Returns the answer to a request for a path; `None` if there is no such path.
    fn answer(&self, query: Query<'_>) -> Option<Answer>;

    /// Returns the text of the answer 404.
    fn not_found(&self) -> &'static str {
        "There is no such page.\n"
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Text(String),
    Events(Arc<Events>),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) content: Content,
}

impl Answer {
    /// Returns an answer with a text of this content type.
    pub fn text(kind: &'static str, text: String) -> Self {
        let headers = vec![(hyper::header::CONTENT_TYPE, HeaderValue::from_static(kind))];
        Self { status: StatusCode::OK, headers, content: Content::Text(text) }
    }

    /// Returns an answer that says in plain text why there is nothing else.
    pub(crate) fn words(status: StatusCode, text: &str) -> Self {
        Self { status, ..Self::text(WORDS, text.to_owned()) }
    }

    /// Returns the answer while there is nothing to show yet; the client tries again after one second.
    pub fn not_yet(text: &str) -> Self {
        let mut early = Self::words(StatusCode::SERVICE_UNAVAILABLE, text);
        early.headers.push((hyper::header::RETRY_AFTER, HeaderValue::from_static("1")));
        early
    }

    /// Returns an answer that goes on with each event, until the client leaves.
    pub fn events(events: &Arc<Events>) -> Self {
        let mut answer = Self::text("text/event-stream", String::new());
        answer.content = Content::Events(Arc::clone(events));
        answer.with("cache-control", "no-store")
    }

    /// Adds a header. A value that a header cannot have is left out.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((HeaderName::from_static(name), value));
        }
        self
    }
}
