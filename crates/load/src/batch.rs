//! Several loads at the same time, here or in a process that another one, perhaps on another host, controls.
//!
//! That process reads a line with a [`LoadBatch`], makes all connections, prints [`READY`], waits for a line [`GO`], and prints
//! a line with a [`LoadReply`]; if a server does not accept connections, it prints that at once. Lines are JSON. So the loads of
//! several hosts begin at the same time, without clocks that agree. The process ends with its input.

use crate::{
    Error, LoadRequest, LoadResult, Result,
    run::{ConnectedLoad, GRACE},
};
use manycore_linux::affinity;
use manycore_topology::CpuSet;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, BufRead, Write},
    net::SocketAddr,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// The hidden subcommand of `manycore` that is this process.
pub const SUBCOMMAND: &str = "load-worker";
/// The line that says that all connections of a batch are made.
pub const READY: &str = "ready";
/// The line that starts a batch.
pub const GO: &str = "go";

/// A load and its CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedLoad {
    /// The load.
    pub request: LoadRequest,
    /// The CPUs of its thread; those of this process if absent.
    pub cpus: Option<CpuSet>,
}

/// Loads that run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadBatch {
    /// The loads.
    pub loads: Vec<PlacedLoad>,
}

/// What became of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoadReply {
    /// The results, one for each load.
    Measured(Vec<LoadResult>),
    /// A server does not accept connections.
    NotConnected {
        /// The server.
        address: SocketAddr,
        /// The error of `connect(2)`.
        why: String,
        /// Its number, if it has one.
        errno: Option<i32>,
    },
    /// A load is invalid.
    Invalid(String),
    /// The loads could not be generated for another reason.
    Failed(String),
}

impl PlacedLoad {
    fn connect(&self, stops: fn() -> bool) -> Result<ConnectedLoad<'_>> {
        if let Some(cpus) = &self.cpus {
            affinity::restrict(0, cpus)
                .map_err(|source| Error::Request(format!("a load cannot run on CPUs {cpus}: {source}")))?;
        }
        ConnectedLoad::new(&self.request, stops)
    }
}

impl LoadBatch {
    /// Runs each load in a thread. When all have their connections, calls `begin`; if it returns true, all begin at the same
    /// time. They end early when `stops` is true.
    ///
    /// # Errors
    /// Those of [`run`](crate::run), of the first load that fails; [`Error::Request`] if a load cannot be bound to its CPUs;
    /// [`Error::Interrupted`] if `begin` returned false, or the loads were stopped.
    pub fn run(&self, begin: impl FnOnce() -> bool, stops: fn() -> bool) -> Result<Vec<LoadResult>> {
        let (gate, is_cancelled) = (RwLock::new(()), AtomicBool::new(false));
        // Each thread drops its sender when it is connected, or has failed.
        let (connecting, all_are_connected) = mpsc::channel();
        let one = |load: &PlacedLoad, connecting: Sender<()>| {
            let load = load.connect(stops).inspect_err(|_| is_cancelled.store(true, Relaxed))?;
            drop(connecting);
            drop(gate.read());
            if is_cancelled.load(Relaxed) { Ok(None) } else { load.run(GRACE).map(Some) }
        };
        let one = &one;
        thread::scope(|scope| {
            let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
            let start = |load| {
                let connecting = connecting.clone();
                thread::Builder::new().spawn_scoped(scope, move || one(load, connecting))
            };
            let threads: io::Result<Vec<_>> = self.loads.iter().map(start).collect();
            drop(connecting);
            let _none = all_are_connected.recv();
            if threads.is_err() || is_cancelled.load(Relaxed) || !begin() {
                is_cancelled.store(true, Relaxed);
            }
            drop(closed);
            let threads = threads
                .map_err(|source| Error::System { what: "cannot start the thread of a load", source })?;
            let ended = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Panicked)));
            let results: Option<_> = ended.collect::<Result<Vec<_>>>()?.into_iter().collect();
            results.ok_or(Error::Interrupted)
        })
    }

    /// Returns it as a line.
    ///
    /// # Errors
    /// It cannot be serialized.
    pub fn line(&self) -> io::Result<Vec<u8>> {
        line(self)
    }
}

impl LoadReply {
    /// Reads it from what the other process printed.
    ///
    /// # Errors
    /// [`Error::Reply`] if there is none; the error that the reply is.
    pub fn results(printed: &[u8]) -> Result<Vec<LoadResult>> {
        let lines = printed.split(|&byte| byte == b'\n');
        let reply =
            lines.filter(|line| line.starts_with(b"{")).find_map(|line| serde_json::from_slice(line).ok());
        match reply {
            Some(Self::Measured(results)) => Ok(results),
            Some(Self::NotConnected { address, why, errno }) => {
                let source = errno.map_or_else(|| io::Error::other(why), io::Error::from_raw_os_error);
                Err(Error::Connect { address, source })
            }
            Some(Self::Invalid(why)) => Err(Error::Request(why)),
            Some(Self::Failed(why)) => Err(Error::Reply(why)),
            None => Err(Error::Reply("it printed no result".to_owned())),
        }
    }

    fn new(result: Result<Vec<LoadResult>>) -> Self {
        match result {
            Ok(results) => Self::Measured(results),
            Err(Error::Connect { address, source }) => {
                Self::NotConnected { address, why: source.to_string(), errno: source.raw_os_error() }
            }
            Err(Error::Request(why)) => Self::Invalid(why),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Reads a batch, runs it and writes the reply. Calls `on_end` in another thread if the input ends meanwhile.
///
/// # Errors
/// The input has no batch, or reading or writing fails.
pub fn serve(
    mut input: impl BufRead + Send + 'static,
    output: &mut impl Write,
    on_end: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let batch: LoadBatch = read_line(&mut input)?;
    let (sender, go) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let mut line = String::new();
        if input.read_line(&mut line).is_ok() && line.trim_end() == GO && sender.send(()).is_ok() {
            // Nothing more is sent: the read returns at the end, or with an error.
            let _end = input.read_line(&mut line);
        }
        on_end();
    })?;
    let mut started = Ok(());
    let begin = || {
        started = wait_for_start(output, &go);
        started.is_ok()
    };
    let result = batch.run(begin, || false);
    started?;
    write_line(&LoadReply::new(result), output)
}

/// Says that all connections are made, and waits until the loads are started.
fn wait_for_start(output: &mut impl Write, go: &Receiver<()>) -> io::Result<()> {
    writeln!(output, "{READY}")?;
    output.flush()?;
    go.recv().map_err(|_| io::Error::new(io::ErrorKind::UnexpectedEof, "the loads were not started"))
}

fn read_line<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<T> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn write_line(value: &impl Serialize, output: &mut impl Write) -> io::Result<()> {
    output.write_all(&line(value)?)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, Template};
    use base64::{Engine, prelude::BASE64_STANDARD};
    use hdrhistogram::Histogram;
    use std::{
        io::{Cursor, Read},
        net::TcpListener,
        time::Duration,
    };

    fn batch() -> LoadBatch {
        let request = LoadRequest {
            // Nothing serves there.
            address: "127.0.0.1:1".parse().unwrap(),
            template: Template::http("localhost", "/{random}", 10).unwrap(),
            connections: 2,
            pipeline: 1,
            arrivals: Arrivals::Poisson { per_second: 0.1 + 0.2 },
            warm_up: Duration::from_nanos(1_000_000_001),
            duration: Duration::from_secs(2),
            seed: u64::MAX,
            polls: true,
        };
        LoadBatch { loads: vec![PlacedLoad { request, cpus: None }] }
    }

    fn served(input: String) -> io::Result<Vec<u8>> {
        let mut output = Vec::new();
        serve(Cursor::new(input), &mut output, || {})?;
        Ok(output)
    }

    fn text(batch: &LoadBatch) -> String {
        String::from_utf8(batch.line().unwrap()).unwrap()
    }

    #[test]
    fn a_batch_is_the_same_on_the_other_side() {
        let line = text(&batch());
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(read_line::<LoadBatch>(&mut line.as_bytes()).unwrap(), batch());
    }

    #[test]
    fn results_are_the_same_on_the_other_side() {
        let mut result = LoadResult::new();
        for latency in [1, 1000, 123_456_789, 3_600_000_000_000] {
            result.replied(latency);
        }
        result.own.saturating_record(7);
        result.failed(|| "-ERR \u{1}".to_owned());
        let mut line = b"a banner of the login shell\nready\n".to_vec();
        write_line(&LoadReply::new(Ok(vec![result.clone(), LoadResult::new()])), &mut line).unwrap();
        let found = LoadReply::results(&line).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((&found[0].latency, &found[0].own), (&result.latency, &result.own));
        assert_eq!((found[0].failed, &found[0].first_failure), (1, &result.first_failure));
    }

    /// The memory of a histogram follows from its bounds, and the reader takes as much as its header says.
    #[test]
    fn histograms_that_need_more_memory_than_ours_are_refused() {
        let reply = |result: LoadResult| {
            let mut line = Vec::new();
            write_line(&LoadReply::new(Ok(vec![result])), &mut line).unwrap();
            line
        };
        let wide = Histogram::new_with_bounds(1, u64::MAX, 3).unwrap();
        let wide = reply(LoadResult { own: wide, ..LoadResult::new() });
        assert!(matches!(LoadReply::results(&wide), Err(Error::Reply(_))));
        let ours = reply(LoadResult::new());
        assert!(LoadReply::results(&ours).is_ok());
        let text = String::from_utf8(ours).unwrap();
        let encoded = text.split("\"own\":\"").nth(1).unwrap().split('"').next().unwrap();
        let mut bytes = BASE64_STANDARD.decode(encoded).unwrap();
        bytes[4..8].fill(0xff);
        let long = text.replace(encoded, &BASE64_STANDARD.encode(bytes));
        assert!(matches!(LoadReply::results(long.as_bytes()), Err(Error::Reply(_))));
    }

    #[test]
    fn errors_of_the_other_side_are_errors_here() {
        let output = served(format!("{}go\n", text(&batch()))).unwrap();
        assert!(!output.starts_with(b"ready\n"), "the connections are not made");
        let error = LoadReply::results(&output).unwrap_err();
        assert!(matches!(&error, Error::Connect { address, .. } if address.port() == 1), "{error}");
        let mut printed = Vec::new();
        write_line(&LoadReply::new(Err(Error::Panicked)), &mut printed).unwrap();
        assert!(LoadReply::results(&printed).unwrap_err().to_string().contains("panicked"));
        let mut invalid = batch();
        invalid.loads[0].request.connections = 0;
        let output = served(format!("{}go\n", text(&invalid))).unwrap();
        assert!(matches!(LoadReply::results(&output), Err(Error::Request(_))));
        for printed in ["", "ready\n", "ready\n{\"Measured\":[{}]}\n", "{}"] {
            assert!(matches!(LoadReply::results(printed.as_bytes()), Err(Error::Reply(_))), "{printed}");
        }
    }

    fn ping(listener: &TcpListener) -> PlacedLoad {
        let PlacedLoad { request, cpus } = batch().loads.remove(0);
        let address = listener.local_addr().unwrap();
        PlacedLoad { request: LoadRequest { address, ..request }, cpus }
    }

    #[test]
    fn no_load_begins_before_all_have_their_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let loads = vec![ping(&listener), batch().loads.remove(0)];
        let error = LoadBatch { loads }.run(|| panic!("a load is not connected"), || false).unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
        let mut sent = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut sent).unwrap();
        assert_eq!(sent, b"");
    }

    #[test]
    fn loads_end_early_when_they_are_stopped() {
        static STOPS: AtomicBool = AtomicBool::new(false);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut load = ping(&listener);
        load.request.duration = Duration::from_hours(24);
        let stop = || {
            STOPS.store(true, Relaxed);
            true
        };
        let error = LoadBatch { loads: vec![load] }.run(stop, || STOPS.load(Relaxed)).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
    }

    #[test]
    fn loads_need_a_batch_and_a_start() {
        let none = text(&LoadBatch { loads: Vec::new() });
        for input in [String::new(), "{}\n".to_owned(), none.clone(), format!("{none}stop\n")] {
            served(input).unwrap_err();
        }
    }

    #[test]
    fn the_end_of_the_input_is_noticed() {
        let (sender, receiver) = mpsc::channel();
        let input = format!("{}go\n", text(&LoadBatch { loads: Vec::new() }));
        serve(Cursor::new(input), &mut Vec::new(), move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(Duration::from_mins(1)).unwrap();
    }
}
