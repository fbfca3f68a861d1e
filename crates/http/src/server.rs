//! The thread that accepts connections.

use crate::{
    Error,
    access::Access,
    answer::Site,
    connection::{self, Lease},
};
use rustix::process::{getpriority_process, setpriority_process};
use std::{
    collections::VecDeque,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{net, runtime, sync::oneshot, task::JoinHandle, time};

/// Largest number of open connections, those for events left out.
pub const MOST: usize = 32;

/// Pause after an error of `accept(2)`, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// How much the `nice` value of the thread is above that of the process.
const NICER: i32 = 10;

/// A server. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Serves a site from now on, in a thread of this name.
    ///
    /// # Errors
    /// [`Error::NeedsToken`] if other hosts can reach the address and [`Access::Local`] is wanted; [`Error::Start`].
    pub fn start(
        listener: TcpListener,
        name: &str,
        access: Access,
        site: Arc<dyn Site>,
    ) -> Result<Self, Error> {
        let address = listener.local_addr()?;
        if matches!(access, Access::Local) && !address.ip().to_canonical().is_loopback() {
            return Err(Error::NeedsToken(address));
        }
        listener.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            // On Linux this applies to the calling thread only.
            let _ = getpriority_process(None).and_then(|nice| setpriority_process(None, nice + NICER));
            runtime.block_on(async move {
                let accepting = tokio::spawn(accept(listener, Arc::new(access), site));
                // Also when the server is forgotten instead of dropped: its sender stays.
                let _ = stopped.await;
                accepting.abort();
            });
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, access: Arc<Access>, site: Arc<dyn Site>) {
    let Ok(listener) = net::TcpListener::from_std(listener) else { return };
    let mut open: VecDeque<(JoinHandle<()>, Arc<Lease>)> = VecDeque::with_capacity(MOST);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            time::sleep(PAUSE).await;
            continue;
        };
        // Connections for events have a limit of their own.
        open.retain(|(one, lease)| !one.is_finished() && !lease.is_stream());
        if open.len() >= MOST
            && let Some((oldest, _)) = open.pop_front()
        {
            oldest.abort();
        }
        let lease = Arc::new(Lease::new());
        let one = connection::serve(stream, Arc::clone(&access), Arc::clone(&site), Arc::clone(&lease));
        open.push_back((tokio::spawn(one), lease));
    }
}
