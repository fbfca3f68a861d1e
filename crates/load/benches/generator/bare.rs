//! The least client: one thread that never sleeps, and no library between it and its sockets. What it measures is the
//! latency that the server, the network and the machine give to any client.

use crate::outcome::{Outcome, QUANTILES};
use hdrhistogram::Histogram;
use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// A request that waits for its reply.
struct Sent {
    intended: Instant,
    connection: usize,
    received: usize,
}

struct Client {
    streams: Vec<TcpStream>,
    free: VecDeque<usize>,
    sent: Vec<Sent>,
    latencies: Histogram<u64>,
    /// When the requests begin that count.
    since: Instant,
}

/// Sends PING at equal distances. Latencies are from the intended start.
pub fn run(
    address: SocketAddr,
    connections: usize,
    rate: f64,
    warm_up: Duration,
    duration: Duration,
) -> Outcome {
    let streams: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let stream = TcpStream::connect(address).expect("a connection");
            stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).expect("a stream");
            stream
        })
        .collect();
    let begin = Instant::now();
    let mut client = Client {
        free: (0..connections).collect(),
        streams,
        sent: Vec::new(),
        latencies: Histogram::new(4).expect("a precision"),
        since: begin + warm_up,
    };
    let end = client.since + duration;
    let mut count = 0_u32;
    loop {
        let intended = begin + Duration::from_secs_f64(f64::from(count) / rate);
        if intended < end && Instant::now() >= intended && client.send(intended) {
            count += 1;
        }
        client.receive();
        if intended >= end && client.sent.is_empty() {
            break;
        }
    }
    let quantiles = QUANTILES.map(|q| client.latencies.value_at_quantile(q) as f64 / 1e6);
    Outcome {
        rate: client.latencies.len() as f64 / duration.as_secs_f64(),
        mean: client.latencies.mean() / 1e6,
        quantiles,
        kept: true,
        ..Outcome::default()
    }
}

impl Client {
    /// Sends a request if a connection is free, and returns whether one was.
    fn send(&mut self, intended: Instant) -> bool {
        let Some(connection) = self.free.pop_front() else { return false };
        self.streams[connection].write_all(PING).expect("a request");
        self.sent.push(Sent { intended, connection, received: 0 });
        true
    }

    /// Reads what has come.
    fn receive(&mut self) {
        let Self { streams, free, sent, latencies, since } = self;
        sent.retain_mut(|request| {
            let mut bytes = [0; PONG.len()];
            match streams[request.connection].read(&mut bytes[request.received..]) {
                Ok(0) => panic!("the server closed a connection"),
                Ok(length) => request.received += length,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            let is_whole = request.received == PONG.len();
            if is_whole {
                let latency = request.intended.elapsed();
                if request.intended >= *since {
                    latencies.record(latency.as_nanos() as u64).expect("a latency");
                }
                free.push_back(request.connection);
            }
            !is_whole
        });
    }
}
