//! Tasks of tokio.

use crate::builtin::{
    LightProcesses, wait,
    work::{self, Files, SharedWork, WorkResult, Worker},
};
use manycore_linux::allocator;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Notify,
    task::yield_now,
};

/// The built-in version of tokio.
const VERSION: &str = "tokio 1, multi-thread";

/// State shared by all tasks.
#[derive(Default)]
struct Shared {
    alive: AtomicU64,
    /// Starts the work, once.
    begin: Notify,
    /// Ends all tasks.
    end: Notify,
    work: SharedWork,
}

pub(super) struct Tasks {
    runtime: Runtime,
    shared: Arc<Shared>,
}

impl Tasks {
    pub(super) fn new() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().enable_time().build()?;
        Ok(Self { runtime, shared: Arc::default() })
    }
}

async fn run_task(number: u64, shared: Arc<Shared>) {
    let (begin, end) = (shared.begin.notified(), shared.end.notified());
    let mut begin = std::pin::pin!(begin);
    let mut end = std::pin::pin!(end);
    // From here on both notifications reach the task, even before it waits for them.
    begin.as_mut().enable();
    end.as_mut().enable();
    shared.alive.fetch_add(1, Relaxed);
    let begins = std::future::poll_fn(|context| {
        if end.as_mut().poll(context).is_ready() {
            return std::task::Poll::Ready(false);
        }
        begin.as_mut().poll(context).map(|()| true)
    });
    if begins.await {
        work_on(number, &shared).await;
        shared.work.leave();
        end.await;
    }
    shared.alive.fetch_sub(1, Relaxed);
}

/// Works in pieces and yields after each: tokio does not preempt tasks.
async fn work_on(number: u64, shared: &Shared) {
    let mut worker = Worker::new(number);
    while let Some(succeeded) = worker.next_piece(&shared.work) {
        if !succeeded {
            tokio::time::sleep(work::PAUSE).await;
        }
        yield_now().await;
    }
}

impl LightProcesses for Tasks {
    fn description(&self) -> String {
        format!("unit=task\tschedulers={}\tversion={VERSION}", self.runtime.metrics().num_workers())
    }

    fn reported_bytes(&self) -> Option<u64> {
        allocator::obtained_bytes()
    }

    fn start(&mut self, count: u64, report: &mut dyn FnMut(u64)) -> Result<(), (u64, String)> {
        for number in 0..count {
            report(number);
            self.runtime.spawn(run_task(number, Arc::clone(&self.shared)));
        }
        wait(|| self.shared.alive.load(Relaxed) == count);
        Ok(())
    }

    fn work(&mut self, files: Option<Files>, time: Duration, begun: &mut dyn FnMut()) -> WorkResult {
        let (shared, alive) = (&self.shared, self.shared.alive.load(Relaxed));
        shared.work.run(files, alive, time, || {
            shared.begin.notify_waiters();
            begun();
        })
    }

    fn end(&mut self) {
        self.shared.end.notify_waiters();
        wait(|| self.shared.alive.load(Relaxed) == 0);
    }
}
