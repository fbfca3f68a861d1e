//! The server against clients that behave well, badly, and not at all.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_http::{Access, Answer, Error, Events, Query, Server, Site, Token};
use manycore_testkit::FreePort;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

const SECRET: &str = "a-secret-of-some-length";

/// One page and a stream of events.
struct Example(Arc<Events>);

impl Site for Example {
    fn answer(&self, query: Query<'_>) -> Option<Answer> {
        match query.path {
            "/" => Some(Answer::text("text/plain", "page\n".to_owned()).with("x-test", "1")),
            "/events" => Some(Answer::events(&self.0)),
            "/early" => Some(Answer::not_yet("Later.\n")),
            _ => None,
        }
    }
}

fn start(access: Access) -> (Server, Arc<Events>) {
    start_at("127.0.0.1:0".parse().unwrap(), access)
}

fn start_at(address: SocketAddr, access: Access) -> (Server, Arc<Events>) {
    let events = Arc::new(Events::default());
    let listener = TcpListener::bind(address).unwrap();
    let server = Server::start(listener, "test", access, Arc::new(Example(Arc::clone(&events)))).unwrap();
    (server, events)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, Duration::from_mins(1)).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream
}

fn ask(address: SocketAddr, request: &str) -> io::Result<String> {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn get(address: SocketAddr, path: &str, head: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{head}\r\n")).unwrap()
}

/// Connects to the events, and returns the stream after the head of the answer.
fn listen(address: SocketAddr) -> BufReader<TcpStream> {
    let mut stream = connect(address);
    write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    assert!(line(&mut reader).starts_with("HTTP/1.1 200 "));
    while !line(&mut reader).trim().is_empty() {}
    reader
}

fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut text = String::new();
    reader.read_line(&mut text).unwrap();
    text
}

/// Returns the next line with data.
fn data(reader: &mut BufReader<TcpStream>) -> String {
    loop {
        let text = line(reader);
        assert!(!text.is_empty(), "the stream has ended");
        if let Some(data) = text.strip_prefix("data: ") {
            return data.trim_end().to_owned();
        }
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn requests_have_standard_answers() {
    let (server, _) = start(Access::Local);
    let address = server.address();
    let page = get(address, "/?x=1", "");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with("page\n"), "{page}");
    assert!(page.contains("x-test: 1\r\n") && page.contains("nosniff"), "{page}");
    assert!(get(address, "/none", "").starts_with("HTTP/1.1 404 "));
    let early = get(address, "/early", "");
    assert!(early.starts_with("HTTP/1.1 503 ") && early.contains("retry-after: 1\r\n"), "{early}");
    let post = format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
    assert!(ask(address, &post).unwrap().starts_with("HTTP/1.1 405 "));
    let head = format!("HEAD /events HTTP/1.1\r\nHost: {address}\r\n\r\n");
    assert!(ask(address, &head).unwrap().starts_with("HTTP/1.1 200 "));
    let huge = format!("Cookie: {}\r\n", "x".repeat(60 << 10));
    assert!(get(address, "/", &huge).starts_with("HTTP/1.1 431 "));
    assert!(ask(address, "nonsense\r\n\r\n").unwrap().starts_with("HTTP/1.1 400 "));
}

#[test]
fn other_hosts_need_a_token() {
    let site = || Arc::new(Example(Arc::default()));
    let everywhere = || TcpListener::bind("0.0.0.0:0").unwrap();
    let refused = Server::start(everywhere(), "test", Access::Local, site());
    assert!(matches!(refused, Err(Error::NeedsToken(_))), "{refused:?}");
    let token = Access::Token(Token::new(SECRET).unwrap());
    assert!(Server::start(everywhere(), "test", token, site()).is_ok());
    assert!(Server::start(everywhere(), "test", Access::Open, site()).is_ok());
}

#[test]
fn nothing_is_answered_without_the_token() {
    let (server, events) = start(Access::Token(Token::new(SECRET).unwrap()));
    let address = server.address();
    for path in ["/", "/events", "/none", "/?token=wrong-wrong-wrong-wr"] {
        let refused = get(address, path, "");
        assert!(
            refused.starts_with("HTTP/1.1 401 ") && refused.contains("www-authenticate: Bearer"),
            "{refused}"
        );
    }
    assert_eq!(events.clients(), 0);
    assert!(get(address, &format!("/?token={SECRET}"), "").starts_with("HTTP/1.1 200 "));
    let head = format!("Authorization: Bearer {SECRET}\r\n");
    assert!(get(address, "/", &head).starts_with("HTTP/1.1 200 "));
}

#[test]
fn pages_of_other_names_cannot_read_a_site_without_token() {
    let (server, _) = start(Access::Local);
    let with =
        |host: &str| ask(server.address(), &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
    assert!(with("localhost").starts_with("HTTP/1.1 200 "));
    assert!(with("evil.example").starts_with("HTTP/1.1 403 "));
}

#[test]
fn each_client_gets_the_newest_event_and_those_that_follow() {
    let (server, events) = start(Access::Local);
    events.publish("one");
    events.publish("two\nlines");
    let mut readers = [listen(server.address()), listen(server.address())];
    for reader in &mut readers {
        assert_eq!((data(reader), data(reader)), ("two".to_owned(), "lines".to_owned()));
    }
    events.publish("three");
    for reader in &mut readers {
        assert_eq!(data(reader), "three");
    }
    drop(readers);
    events.publish("four");
    wait_until("clients that have left are forgotten", || {
        events.publish("five");
        events.clients() == 0
    });
}

#[test]
fn a_slow_client_loses_events_and_does_not_delay_others() {
    let (server, events) = start(Access::Local);
    events.publish("0");
    let (mut slow, mut fast) = (listen(server.address()), listen(server.address()));
    assert_eq!((data(&mut slow), data(&mut fast)), ("0".to_owned(), "0".to_owned()));
    // More than the kernel's buffers of a connection hold.
    let filler = "x".repeat(256 << 10);
    let last = 200;
    for number in 1..=last {
        events.publish(&format!("{number} {filler}"));
        let read = data(&mut fast);
        assert_eq!(read.split(' ').next(), Some(&*number.to_string()));
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        let read = data(&mut slow);
        assert!(read.ends_with("xxx"), "an event is complete");
        seen.push(read.split(' ').next().unwrap().parse::<i32>().unwrap());
    }
    assert!(seen.is_sorted() && seen.len() < 150, "{seen:?}");
}

#[test]
fn streams_have_a_limit_and_outlast_a_flood_of_connections() {
    let (server, events) = start(Access::Local);
    events.publish("first");
    let mut streams: Vec<_> = (0..16).map(|_| listen(server.address())).collect();
    assert!(get(server.address(), "/events", "").starts_with("HTTP/1.1 503 "));
    let idle: Vec<TcpStream> = (0..200).map(|_| connect(server.address())).collect();
    assert!(get(server.address(), "/", "").starts_with("HTTP/1.1 200 "));
    events.publish("second");
    for stream in &mut streams {
        assert_eq!((data(stream), data(stream)), ("first".to_owned(), "second".to_owned()));
    }
    drop(idle);
}

#[test]
fn a_server_that_is_dropped_ends_its_streams() {
    // No other program gets this port meanwhile.
    let port = FreePort::find().unwrap();
    let (server, events) = start_at(port.address(), Access::Local);
    events.publish("first");
    let address = server.address();
    let mut reader = listen(address);
    drop(server);
    let mut rest = String::new();
    let _ = reader.read_to_string(&mut rest);
    assert!(TcpStream::connect_timeout(&address, Duration::from_mins(1)).is_err());
}
