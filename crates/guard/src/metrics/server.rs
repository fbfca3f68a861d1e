//! The page of figures over HTTP: a thread of its own with little room, which gives way to all others.
//!
//! Connections that only stand there must not keep others out: beyond [`MOST`] the oldest is closed for a new one. A
//! scrape takes milliseconds, so that it gets through while others come in hundreds a second.

use crate::metrics::classic;
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

/// Connections that are open at most.
const MOST: usize = 32;

/// Largest request in bytes; a larger one is answered with 431.
const MOST_BYTES: usize = 16 << 10;

/// Longest wait for a request.
const REQUEST: Duration = Duration::from_secs(5);

/// Longest time that a connection may take with its answer.
const WHOLE: Duration = Duration::from_secs(10);

/// After an error of `accept(2)`, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// `nice(2)` below that of the guard.
const NICER: i32 = 10;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const WORDS: &str = "text/plain; charset=utf-8";

/// The figures in the `OpenMetrics` format; empty before the first.
#[derive(Debug, Default)]
pub struct Page(Mutex<String>);

impl Page {
    /// Puts other figures on it.
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
/// No thread can be made, or none that can wait for connections.
pub fn start(listener: TcpListener, page: Arc<Page>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let serve = move || {
        // On Linux this is of the thread.
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

/// One request and its answer.
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
        return words(StatusCode::NOT_FOUND, "The figures are at /metrics.\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = words(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD are answered.\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let text = page.text();
    if text.is_empty() {
        let mut early = words(StatusCode::SERVICE_UNAVAILABLE, "There is no reading yet.\n");
        early.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        return early;
    }
    let accepted = request.headers().get(ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    if accepted.contains("application/openmetrics-text") {
        reply(StatusCode::OK, OPEN_METRICS, text)
    } else {
        reply(StatusCode::OK, CLASSIC, classic(&text))
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
