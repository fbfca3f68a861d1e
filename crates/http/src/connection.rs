//! One connection: one request and its answer.

use crate::{
    access::{Access, Lack},
    answer::{Answer, Content, Query, Site},
};
use http_body_util::{Either, Full, channel::Channel};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, HeaderValue, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{self, Instant},
};

pub(crate) type Body = Either<Full<Bytes>, Channel<Bytes>>;

/// Largest request in bytes. A larger one is answered with 431.
const MOST_BYTES: usize = 16 << 10;

/// Longest wait for a request.
const REQUEST: Duration = Duration::from_secs(5);

/// Longest time for a whole connection.
const WHOLE: Duration = Duration::from_secs(10);

/// Longest time in which a client of events accepts none.
const STALLED: Duration = Duration::from_secs(20);

/// How long a connection may stay open.
#[derive(Debug)]
pub(crate) struct Lease {
    until: Mutex<Instant>,
    is_stream: AtomicBool,
}

impl Lease {
    pub(crate) fn new() -> Self {
        Self { until: Mutex::new(Instant::now() + WHOLE), is_stream: AtomicBool::new(false) }
    }

    /// Extends the time, because the client has accepted an event.
    pub(crate) fn extend(&self) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + STALLED;
    }

    /// Whether the connection is one for events, which stays open.
    pub(crate) fn is_stream(&self) -> bool {
        self.is_stream.load(Ordering::Relaxed)
    }

    async fn ended(&self) {
        loop {
            let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
            if until <= Instant::now() {
                return;
            }
            time::sleep_until(until).await;
        }
    }
}

/// Handles a connection until it ends, or its time has passed.
pub(crate) async fn serve(stream: TcpStream, access: Arc<Access>, site: Arc<dyn Site>, lease: Arc<Lease>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let answer = respond(&request, &access, &*site, &lease);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST).max_buf_size(MOST_BYTES).keep_alive(false);
    first_of(http.serve_connection(TokioIo::new(stream), answer), lease.ended()).await;
}

/// Waits until one of two futures ends.
async fn first_of(one: impl Future, other: impl Future) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        let is_ended = one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready();
        if is_ended { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn respond(
    request: &Request<Incoming>,
    access: &Access,
    site: &dyn Site,
    lease: &Arc<Lease>,
) -> Response<Body> {
    let answer = answer(request, access, site);
    let body = match answer.content {
        Content::Text(text) => Either::Left(Full::new(Bytes::from(text))),
        Content::Events(_) if request.method() == Method::HEAD => Either::Left(Full::default()),
        Content::Events(events) => match events.subscribe(Arc::clone(lease)) {
            Some(body) => {
                lease.is_stream.store(true, Ordering::Relaxed);
                lease.extend();
                body
            }
            None => return respond_busy(),
        },
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    // A browser must not guess that a text is something else.
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response.headers_mut().extend(answer.headers);
    response
}

fn respond_busy() -> Response<Body> {
    let mut busy = Response::new(Either::Left(Full::from("Too many pages are open.\n")));
    *busy.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    busy
}

fn answer(request: &Request<Incoming>, access: &Access, site: &dyn Site) -> Answer {
    match access.lack(request.headers(), request.uri()) {
        Some(Lack::Token) => {
            let mut refused = Answer::words(
                StatusCode::UNAUTHORIZED,
                "A token is needed: ?token=TOKEN, or the header Authorization: Bearer TOKEN.\n",
            );
            refused.headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
            return refused;
        }
        Some(Lack::LocalHost) => {
            let text =
                "Without a token, only localhost or an address such as 127.0.0.1 may be in the address.\n";
            return Answer::words(StatusCode::FORBIDDEN, text);
        }
        None => {}
    }
    let Some(answer) = site.answer(Query::new(request.uri().path(), request.headers())) else {
        return Answer::words(StatusCode::NOT_FOUND, site.not_found());
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = Answer::words(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are supported.\n");
        refused.headers.push((ALLOW, HeaderValue::from_static("GET, HEAD")));
        return refused;
    }
    answer
}
