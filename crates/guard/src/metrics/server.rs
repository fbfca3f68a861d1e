//! The metrics page over HTTP, in a thread of its own with few resources and low priority.
//!
//! Idle connections must not keep others out: beyond [`MOST`] connections the oldest is closed for a new one.
//! A scrape takes milliseconds, so it succeeds even while hundreds of connections a second arrive.

use crate::metrics::to_text_format;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{getpriority_process, setpriority_process};
use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};
use tokio::{net, runtime, task::JoinHandle, time};

/// Largest number of open connections.
const MOST: usize = 32;

/// Largest request in bytes. A larger one is answered with 431.
const MOST_BYTES: usize = 16 << 10;

/// Longest wait for a request.
const REQUEST: Duration = Duration::from_secs(5);

/// Longest time for a whole connection.
const WHOLE: Duration = Duration::from_secs(10);

/// Pause after an error of `accept(2)`, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// How much the `nice` value of the thread is above that of the guard.
const NICER: i32 = 10;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const WORDS: &str = "text/plain; charset=utf-8";

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

/// Serves the page from now on.
///
/// # Errors
/// The thread or the asynchronous runtime cannot be created.
pub fn start(listener: TcpListener, page: Arc<Page>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let serve = move || {
        // On Linux this applies to the calling thread only.
        let _ = getpriority_process(None).and_then(|nice| setpriority_process(None, nice + NICER));
        runtime.block_on(serve(listener, page));
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(serve).map(drop)
}

async fn serve(listener: TcpListener, page: Arc<Page>) {
    let Ok(listener) = net::TcpListener::from_std(listener) else { return };
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::with_capacity(MOST);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|one| !one.is_finished());
        if open.len() >= MOST
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(connection(stream, Arc::clone(&page))));
    }
}

/// Handles one request and its answer.
async fn connection(stream: net::TcpStream, page: Arc<Page>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let answer = answer(&request, &page);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST).max_buf_size(MOST_BYTES).keep_alive(false);
    let _ = time::timeout(WHOLE, http.serve_connection(TokioIo::new(stream), answer)).await;
}

fn answer(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return words(StatusCode::NOT_FOUND, "The metrics are at /metrics.\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = words(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are supported.\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let text = page.text();
    if text.is_empty() {
        let mut early = words(StatusCode::SERVICE_UNAVAILABLE, "No reading is available yet.\n");
        early.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        return early;
    }
    let accepted = request.headers().get(ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    if accepted.contains("application/openmetrics-text") {
        reply(StatusCode::OK, OPEN_METRICS, text)
    } else {
        reply(StatusCode::OK, CLASSIC, to_text_format(&text))
    }
}

fn words(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    reply(status, WORDS, text.to_owned())
}

fn reply(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}
