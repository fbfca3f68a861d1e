use super::*;
use std::{
    io::Read,
    net::{SocketAddr, TcpStream},
};

fn metrics() -> Metrics {
    let mut metrics = Metrics::new(["machine".to_owned(), "a\"b".to_owned()].into_iter());
    let reading = MemoryReading { at_ns: 1, available_bytes: 5, total_bytes: 10, ..MemoryReading::default() };
    metrics.set_reading(
        0,
        reading,
        Assessment { seconds_left: Some(2.5), decrease_bytes_per_second: 2.0, ..Assessment::default() },
    );
    metrics.count(0, EventKind::Kill, 7, Some(0.012));
    metrics
}

/// Returns a page that is served, and its address.
fn served() -> (Arc<Page>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, page) = (listener.local_addr().unwrap(), Arc::new(Page::default()));
    page::serve(listener, &page).unwrap();
    (page, address)
}

/// Returns the answer to a request, or the error.
fn ask(address: SocketAddr, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_mins(1))?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).unwrap()
}

#[test]
fn metrics_are_in_the_openmetrics_format() {
    insta::assert_snapshot!(metrics().text());
}

#[test]
fn file_is_in_the_text_format() {
    let text = to_text_format(&metrics().text());
    assert!(text.contains("# TYPE manycore_guard_killed_bytes_total counter\n"), "{text}");
    assert!(text.contains("manycore_guard_killed_bytes_total{watch=\"machine\"} 7\n"), "{text}");
    assert!(!text.contains("# EOF"));
}

#[test]
fn counters_survive_new_rules() {
    let renewed = metrics().renewed(["machine".to_owned(), "other".to_owned()].into_iter());
    assert!(renewed.text().contains("manycore_guard_killed_bytes_total{watch=\"machine\"} 7\n"));
    assert!(renewed.text().contains("manycore_guard_killed_bytes_total{watch=\"other\"} 0\n"));
}

#[test]
fn invalid_address_and_missing_directory_are_refused() {
    assert!(matches!(Sink::open(Some("127.0.0.1:0")), Ok(Sink::Served(..))));
    assert!(matches!(Sink::open(Some("/nonexistent/x.prom")), Err(Error::System { .. })));
    for wrong in ["99999", "127.0.0.1:99999", "no-such-host.invalid:1"] {
        assert!(matches!(Sink::open(Some(wrong)), Err(Error::InvalidMetricsPlace(_))), "{wrong}");
    }
}

#[test]
fn page_is_unavailable_before_the_first_reading() {
    let (page, address) = served();
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 503 "));
    Sink::Served(Arc::clone(&page), ([127, 0, 0, 1], 0).into())
        .publish(&Metrics::new(["machine".to_owned()].into_iter()));
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 503 "), "no reading yet");
    Sink::Served(page, ([127, 0, 0, 1], 0).into()).publish(&metrics());
    let answer = get(address, "/metrics");
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.contains("_memory_bytes{watch=\"machine\"} 10"),
        "{answer}"
    );
}

#[test]
fn requests_have_standard_answers() {
    let (page, address) = served();
    page.put(metrics().text());
    assert!(get(address, "/").starts_with("HTTP/1.1 404 "));
    assert!(get(address, "/metrics/x").starts_with("HTTP/1.1 404 "));
    assert!(get(address, "/metrics?x=1").starts_with("HTTP/1.1 200 "));
    let with = |head: &str| ask(address, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{head}\r\n")).unwrap();
    let open = with("Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    assert!(open.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{open}");
    let large = with(&format!("Cookie: {}\r\n", "x".repeat(6 << 10)));
    assert!(large.starts_with("HTTP/1.1 200 "), "{large}");
    let huge = with(&format!("Cookie: {}\r\n", "x".repeat(60 << 10)));
    assert!(huge.starts_with("HTTP/1.1 431 "), "{huge}");
    let post = ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
    assert!(ask(address, "nonsense\r\n\r\n").unwrap().starts_with("HTTP/1.1 400 "));
}

#[test]
fn idle_connections_do_not_stop_a_scrape() {
    let (page, address) = served();
    page.put(metrics().text());
    let mut idle = Vec::new();
    for _ in 0..1000 {
        // The limit of descriptors may be lower.
        let Ok(stream) = TcpStream::connect(address) else { break };
        idle.push(stream);
        if idle.len() % 100 == 0 {
            // Within the time limit of the client.
            assert!(get(address, "/metrics").starts_with("HTTP/1.1 200 "), "beside {}", idle.len());
        }
    }
    assert!(idle.len() >= 200, "only {} connections could be made", idle.len());
}
