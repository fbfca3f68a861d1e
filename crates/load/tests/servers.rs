//! The generator against servers with known behaviour, and against redis where it is installed.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_load::{Arrivals, Error, LoadRequest, LoadResult, Template, run, run_with_grace};
use manycore_testkit::FreePort;
use rustix::net::sockopt::set_tcp_cork;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// How long replies are waited for. It matters only if there are none.
const PATIENCE: Duration = Duration::from_mins(1);

/// A redis server that replies to PING with what `reply` returns, one request at a time for all connections.
fn redis(reply: impl FnMut(u64) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (reply, served) = (Arc::new(Mutex::new(reply)), Arc::new(AtomicU64::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (reply, served) = (Arc::clone(&reply), Arc::clone(&served));
            thread::spawn(move || answer(stream.unwrap(), &reply, &served));
        }
    });
    address
}

/// Replies to commands of one word until the connection ends.
fn answer(mut stream: TcpStream, reply: &Mutex<impl FnMut(u64) -> String>, served: &AtomicU64) {
    stream.set_nodelay(true).unwrap();
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut lines = [String::new(), String::new(), String::new()];
    loop {
        for line in &mut lines {
            line.clear();
            if !input.read_line(line).is_ok_and(|bytes| bytes > 0) {
                return;
            }
        }
        let text = {
            let mut reply = reply.lock().unwrap();
            reply(served.fetch_add(1, Ordering::Relaxed))
        };
        if text.is_empty() || stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn ping(address: SocketAddr, connections: usize, arrivals: Arrivals) -> LoadRequest {
    LoadRequest {
        address,
        template: Template::redis(&["PING"], 1).unwrap(),
        connections,
        pipeline: 1,
        arrivals,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_secs(1),
        seed: 1,
        polls: false,
    }
}

fn ms(load: &LoadResult, q: f64) -> f64 {
    load.latency_ns(q) as f64 / 1e6
}

/// How long a server stalls.
const STALL: Duration = Duration::from_millis(200);

/// A server that stalls at its first request; it sends the moments of the stall's begin and end.
fn stalling() -> (SocketAddr, mpsc::Receiver<[Instant; 2]>) {
    let (sender, receiver) = mpsc::channel();
    let address = redis(move |served| {
        if served == 0 {
            let begin = Instant::now();
            thread::sleep(STALL);
            sender.send([begin, Instant::now()]).unwrap();
        }
        "+PONG\r\n".to_owned()
    });
    (address, receiver)
}

/// Returns how many requests took longer than this.
fn slower(load: &LoadResult, limit: Duration) -> u64 {
    load.latency.len() - load.latency.count_between(0, limit.as_nanos() as u64)
}

#[test]
fn a_stall_counts_for_each_request_that_should_have_been_sent() {
    // A machine that runs the generator too late for its first request shows little: then it is done again.
    let is_seen = (0..20).any(|_| open_stall() >= 100);
    assert!(is_seen, "in each of 20 rounds, the stall began when most requests should have been sent");
    // In a closed loop, only one request for each connection.
    let (address, _stall) = stalling();
    let request = ping(address, 4, Arrivals::Closed);
    let began = Instant::now();
    let closed = run(&LoadRequest { warm_up: Duration::ZERO, ..request }).unwrap();
    let most = 4 * began.elapsed().as_millis() as u64 / 190;
    let slow = slower(&closed, Duration::from_millis(190));
    // Those of a connection do not overlap: this many fit into the time that the load took.
    assert!((1..=most).contains(&slow), "{slow} requests took the whole stall, and {most} fit");
}

/// Returns how many requests at a rate waited for more than 50 ms of a stall, by the clock of the server. Each of them
/// has to be among the slow ones.
fn open_stall() -> u64 {
    let (address, stall) = stalling();
    let request = ping(address, 4, Arrivals::Constant { per_second: 1000.0 });
    let began = Instant::now();
    let open = run_with_grace(&LoadRequest { warm_up: Duration::ZERO, ..request }, PATIENCE).unwrap();
    assert_eq!((open.intended, open.answered, open.unanswered), (999, 999, 0), "{:?}", open.first_failure);
    let [from, to] = stall.recv().unwrap();
    let end = began + Duration::from_secs(1);
    // The histogram has three digits.
    let expected = |limit: u64| {
        let until = end.min(to.checked_sub(Duration::from_millis(limit + 1)).unwrap());
        (until.saturating_duration_since(from).as_millis() as u64).saturating_sub(1)
    };
    for limit in [50, 150] {
        let slow = slower(&open, Duration::from_millis(limit));
        assert!(slow >= expected(limit), "{slow} of {} requests took more than {limit} ms", expected(limit));
    }
    expected(50)
}

/// A server that takes 5 ms for each request, with the moment at which it got the first one. With one connection and 400
/// requests per second, most of the time no connection is free, and the queue grows by one request every 5 ms.
fn slow() -> (SocketAddr, mpsc::Receiver<Instant>) {
    let (sender, receiver) = mpsc::channel();
    let address = redis(move |served| {
        if served == 0 {
            // Not every test wants to know.
            let _ = sender.send(Instant::now());
        }
        thread::sleep(Duration::from_millis(5));
        "+PONG\r\n".to_owned()
    });
    (address, receiver)
}

#[test]
fn requests_wait_for_a_connection_and_that_counts() {
    let (address, first) = slow();
    let request =
        LoadRequest { warm_up: Duration::ZERO, ..ping(address, 1, Arrivals::Constant { per_second: 400.0 }) };
    let began = Instant::now();
    let load = run(&request).unwrap();
    assert!(load.answered + load.unanswered == load.intended && load.intended.abs_diff(400) <= 1);
    // At least every second request cannot be served in the second, and the last ones not in the grace either.
    assert!(ms(&load, 1.0) >= 900.0, "{} ms", ms(&load, 1.0));
    // Only before its first request was the connection free while requests were due.
    let lag = first.recv().unwrap() - began;
    assert!(load.own.max() as f64 <= 1.001 * lag.as_nanos() as f64, "{} ns, {lag:?}", load.own.max());
    // Replies are at least 5 ms apart. What was not answered by the end was queued, but for the request that was sent then.
    assert!(load.rate() <= 200.0, "{}/s", load.rate());
    assert!(load.queued + load.replies + 5 >= load.intended, "{load:?}");
}

/// With one CPU for each thread, the thread would look for replies all the time: no connection is free, and the only request
/// has no reply yet.
#[test]
fn the_cpu_time_in_which_a_load_looks_for_replies_is_not_counted() {
    let request = ping(slow().0, 1, Arrivals::Constant { per_second: 400.0 });
    let load = run(&LoadRequest { polls: true, ..request }).unwrap();
    assert!(load.answered + load.unanswered == load.intended && load.queued > 0, "{load:?}");
    assert!(load.cpu < load.elapsed / 2, "{:?} of {:?}", load.cpu, load.elapsed);
}

#[test]
fn errors_of_the_server_are_counted_and_named() {
    let address =
        redis(|served| if served % 10 == 0 { "-BUSY try later\r\n" } else { "+PONG\r\n" }.to_owned());
    let load = run_with_grace(&ping(address, 2, Arrivals::Poisson { per_second: 500.0 }), PATIENCE).unwrap();
    assert_eq!((load.answered + load.failed, load.unanswered), (load.intended, 0));
    assert!(load.failed > 0 && load.answered > 0);
    assert_eq!(load.first_failure.as_deref(), Some("-BUSY try later"));
}

#[test]
fn connections_that_end_are_made_again() {
    let address = redis(|served| if served % 50 == 49 { String::new() } else { "+PONG\r\n".to_owned() });
    let load = run_with_grace(&ping(address, 2, Arrivals::Constant { per_second: 500.0 }), PATIENCE).unwrap();
    assert_eq!((load.answered + load.failed, load.unanswered), (load.intended, 0));
    assert!(load.failed >= 5 && load.answered > load.failed, "{} of {}", load.failed, load.intended);
    assert_eq!(load.first_failure.as_deref(), Some("the server closed the connection"));
}

/// As web servers close connections that are idle for some seconds.
#[test]
fn a_connection_that_was_closed_while_idle_is_no_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut input = [0; 4096];
            if stream.read(&mut input).is_ok_and(|bytes| bytes > 0) {
                // Held back until the end of the connection: both arrive at once, and no request is sent between them.
                set_tcp_cork(&stream, true).unwrap();
                stream.write_all(b"+PONG\r\n").unwrap();
            }
        }
    });
    let request = ping(address, 1, Arrivals::Constant { per_second: 50.0 });
    let load = run_with_grace(&request, PATIENCE).unwrap();
    assert_eq!((load.answered, load.failed), (load.intended, 0), "{:?}", load.first_failure);
}

#[test]
fn a_server_that_never_replies_leaves_all_requests_unanswered() {
    let address = redis(|_| {
        loop {
            thread::park();
        }
    });
    let load = run(&ping(address, 3, Arrivals::Constant { per_second: 100.0 })).unwrap();
    assert_eq!((load.answered, load.unanswered), (0, load.intended));
    assert_eq!(load.latency.len(), load.intended);
    assert!(ms(&load, 0.0) >= 1000.0 - 15.0, "{} ms", ms(&load, 0.0));
}

#[test]
fn a_connection_has_as_many_requests_at_a_time_as_its_pipeline() {
    // It answers four requests at once: never those of a client that waits for each reply.
    let load = |pipeline| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut input = [0; 4 * "*1\r\n$4\r\nPING\r\n".len()];
            while stream.read_exact(&mut input).is_ok() && stream.write_all(&b"+PONG\r\n".repeat(4)).is_ok() {
            }
        });
        // 400 requests.
        let duration = Duration::from_millis(1001);
        let request = ping(address, 1, Arrivals::Constant { per_second: 400.0 });
        let request = LoadRequest { pipeline, warm_up: Duration::ZERO, duration, ..request };
        run_with_grace(&request, if pipeline < 4 { Duration::from_secs(1) } else { PATIENCE }).unwrap()
    };
    assert_eq!(load(3).answered, 0);
    for pipeline in [4, 100] {
        let load = load(pipeline);
        assert_eq!((load.answered, load.unanswered), (400, 0), "{load:?}");
    }
    let closed = ping("127.0.0.1:1".parse().unwrap(), 1, Arrivals::Closed);
    assert!(matches!(run(&LoadRequest { pipeline: 0, ..closed }), Err(Error::Request(_))));
}

#[test]
fn requests_behind_a_reply_that_closes_the_connection_are_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut input = [0; 4096];
                let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                if stream.read(&mut input).is_ok_and(|bytes| bytes > 0) && stream.write_all(reply).is_ok() {
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                    // Until the client has read the reply: the kernel takes it back if requests are left.
                    while stream.read(&mut input).is_ok_and(|bytes| bytes > 0) {}
                }
            });
        }
    });
    let template = Template::http("localhost", "/", 1).unwrap();
    let arrivals = Arrivals::Poisson { per_second: 1000.0 };
    let request = LoadRequest { template, pipeline: 8, ..ping(address, 2, arrivals) };
    let load = run_with_grace(&request, PATIENCE).unwrap();
    assert_eq!((load.answered, load.failed), (load.intended, 0), "{:?}", load.first_failure);
}

/// Regression test: each of these replies was no valid one.
#[test]
fn replies_that_end_with_the_connection_are_replies() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                // One request, and whatever comes behind it.
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let _ = stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 200 OK\r\n\r\nhello");
                let _ = stream.shutdown(std::net::Shutdown::Write);
                lines.for_each(drop);
            });
        }
    });
    for pipeline in [1, 4] {
        let template = Template::http("localhost", "/", 1).unwrap();
        let arrivals = Arrivals::Constant { per_second: 200.0 };
        let request = LoadRequest { template, pipeline, ..ping(address, 2, arrivals) };
        let load = run_with_grace(&request, PATIENCE).unwrap();
        assert_eq!((load.answered, load.failed), (load.intended, 0), "{:?}", load.first_failure);
    }
}

#[test]
fn http_replies_of_several_reads_are_one_reply() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_nodelay(true).unwrap();
        let mut input = [0; 4096];
        while stream.read(&mut input).is_ok_and(|bytes| bytes > 0) {
            for part in ["HTTP/1.1 200 OK\r\nTransfer-", "Encoding: chunked\r\n\r\n3\r\nab", "c\r\n0\r\n\r\n"]
            {
                if stream.write_all(part.as_bytes()).is_err() {
                    return;
                }
                stream.flush().unwrap();
            }
        }
    });
    let template = Template::http("localhost", "/x/{random}", 100).unwrap();
    let arrivals = Arrivals::Poisson { per_second: 300.0 };
    let load = run_with_grace(&LoadRequest { template, ..ping(address, 1, arrivals) }, PATIENCE).unwrap();
    assert_eq!((load.answered, load.failed), (load.intended, 0), "{:?}", load.first_failure);
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let port = FreePort::find().unwrap();
    let free = port.address();
    let error = run(&ping(free, 1, Arrivals::Closed)).unwrap_err();
    assert!(matches!(error, Error::Connect { address, .. } if address == free), "{error}");
    let none = LoadRequest { connections: 0, ..ping(free, 1, Arrivals::Closed) };
    assert!(matches!(run(&none), Err(Error::Request(_))));
}

#[test]
fn redis_gets_what_is_sent() {
    let free = FreePort::find().unwrap();
    let (address, port) = (free.address(), free.number().to_string());
    let options =
        ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"];
    let server =
        std::process::Command::new("redis-server").args(options).stdout(std::process::Stdio::null()).spawn();
    let Ok(mut server) = server else {
        println!("SKIPPED: redis-server is not installed");
        return;
    };
    let begin = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begin.elapsed() < PATIENCE && server.try_wait().unwrap().is_none());
        thread::yield_now();
    }
    let template = Template::redis(&["SET", "key:{random}", "value"], 1_000_000).unwrap();
    let request = LoadRequest { template, ..ping(address, 8, Arrivals::Poisson { per_second: 1000.0 }) };
    let load = run_with_grace(&request, PATIENCE);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"*1\r\n$6\r\nDBSIZE\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let load = load.unwrap();
    assert_eq!(
        (load.answered, load.failed, load.unanswered),
        (load.intended, 0, 0),
        "{:?}",
        load.first_failure
    );
    let stored: u64 = line.trim_start_matches(':').trim().parse().unwrap();
    // With those of the warm-up; two random numbers may be the same.
    assert!(stored >= load.answered - 20 && stored <= load.answered + 300, "{stored} of {}", load.answered);
}
