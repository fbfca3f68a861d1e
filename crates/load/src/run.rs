//! Makes the connections of a load, and runs it.

use crate::{Error, LoadRequest, Result, connection::Connection, generator::Shared, result::LoadResult};
use manycore_linux::clock::thread_cpu;
use std::{io, net::SocketAddr, rc::Rc, time::Duration};
use tokio::{
    net::TcpStream,
    runtime::{self, Runtime},
    select,
    task::{self, LocalSet},
    time,
};

/// How long [`run`] waits for replies after the last request.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// How often a load looks whether it should stop.
const LOOK: Duration = Duration::from_millis(200);
/// A connection is made within this time.
const CONNECT: Duration = Duration::from_secs(5);

/// Sends requests for the warm-up and the duration, and waits up to 1 s for the last replies.
///
/// # Errors
/// [`Error::Request`] for an impossible rate, or no connections or requests on them; [`Error::Connect`]; [`Error::System`]. A
/// server that fails later is no error: its failures are counted.
pub fn run(request: &LoadRequest) -> Result<LoadResult> {
    run_with_grace(request, GRACE)
}

/// Does the same, and waits up to `grace` for the last replies.
///
/// # Errors
/// As [`run`].
pub fn run_with_grace(request: &LoadRequest, grace: Duration) -> Result<LoadResult> {
    ConnectedLoad::new(request, || false)?.run(grace)
}

/// A load that has all its connections.
pub(crate) struct ConnectedLoad<'a> {
    request: &'a LoadRequest,
    streams: Vec<TcpStream>,
    runtime: Runtime,
    stops: fn() -> bool,
}

impl<'a> ConnectedLoad<'a> {
    /// Makes the connections. `stops` says when the load should end early.
    pub(crate) fn new(request: &'a LoadRequest, stops: fn() -> bool) -> Result<Self> {
        request.arrivals.check()?;
        if request.connections == 0 || request.pipeline == 0 {
            return Err(Error::Request("a load needs a connection, and a request on it".to_owned()));
        }
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::System { what: "cannot create the runtime", source })?;
        let mut streams = Vec::with_capacity(request.connections);
        for _ in 0..request.connections {
            if stops() {
                return Err(Error::Interrupted);
            }
            let stream = runtime.block_on(connect(request.address));
            streams.push(stream.map_err(|source| Error::Connect { address: request.address, source })?);
        }
        Ok(Self { request, streams, runtime, stops })
    }

    /// Sends the requests, and waits up to `grace` for the last replies.
    ///
    /// # Errors
    /// [`Error::System`]; [`Error::Interrupted`] if it was stopped.
    pub(crate) fn run(self, grace: Duration) -> Result<LoadResult> {
        let Self { request, streams, runtime, stops } = self;
        LocalSet::new().block_on(&runtime, async {
            select! {
                biased;
                result = generate(request, streams, grace) => result,
                () = stopped(stops) => Err(Error::Interrupted),
            }
        })
    }
}

/// Waits until the load should stop.
async fn stopped(stops: fn() -> bool) {
    while !stops() {
        time::sleep(LOOK).await;
    }
}

async fn generate(request: &LoadRequest, streams: Vec<TcpStream>, grace: Duration) -> Result<LoadResult> {
    let cpu_before = thread_cpu();
    let shared = Rc::new(Shared::new(request));
    let connections: Vec<_> = (0..)
        .zip(streams)
        .map(|(index, stream)| task::spawn_local(Connection::new(Rc::clone(&shared), index, stream).run()))
        .collect();
    shared
        .send()
        .await
        .map_err(|source| Error::System { what: "cannot wait for the next request", source })?;
    let all = async {
        for connection in connections {
            // It has panicked, or it was aborted: its request is unanswered.
            let _ended = connection.await;
        }
    };
    // What is not answered by then is counted below.
    let _in_time = time::timeout(grace, all).await;
    Ok(shared.end(thread_cpu().saturating_sub(cpu_before)))
}

pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = time::timeout(CONNECT, TcpStream::connect(address)).await.map_err(io::Error::from)??;
    stream.set_nodelay(true)?;
    Ok(stream)
}
