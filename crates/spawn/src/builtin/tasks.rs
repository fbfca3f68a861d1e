//! Tasks of tokio.

use crate::builtin::{
    LightProcesses, wait,
    work::{self, FileStats, Files, WorkResult},
};
use manycore_linux::allocator;
use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
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
    /// The work: on files, or computing only (`None`).
    work: OnceLock<Option<(Files, FileStats)>>,
    stop: AtomicBool,
    working: AtomicU64,
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

    fn work(&self, what: Option<(Files, FileStats)>, time: Duration, begun: &mut dyn FnMut()) {
        let shared = &self.shared;
        shared.working.store(shared.alive.load(Relaxed), Relaxed);
        let _ = shared.work.set(what);
        shared.begin.notify_waiters();
        begun();
        thread::sleep(time);
        shared.stop.store(true, Relaxed);
        wait(|| shared.working.load(Relaxed) == 0);
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
        shared.working.fetch_sub(1, Relaxed);
        end.await;
    }
    shared.alive.fetch_sub(1, Relaxed);
}

/// Works in pieces and yields after each: tokio does not preempt tasks.
async fn work_on(number: u64, shared: &Shared) {
    let mut data = Vec::new();
    let mut x = number as u32;
    while !shared.stop.load(Relaxed) {
        match shared.work.get() {
            Some(Some((files, stats))) => {
                if !files.round(number, &mut data, stats) {
                    tokio::time::sleep(work::PAUSE).await;
                }
            }
            _ => x = work::compute_piece(x),
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

    fn spin(&mut self, time: Duration, begun: &mut dyn FnMut()) {
        self.work(None, time, begun);
    }

    fn files(&mut self, time: Duration, files: Files, begun: &mut dyn FnMut()) -> WorkResult {
        self.work(Some((files, FileStats::new())), time, begun);
        let work = self.shared.work.get().and_then(Option::as_ref);
        work.map(|(_, stats)| stats.done()).unwrap_or_default()
    }

    fn end(&mut self) {
        self.shared.end.notify_waiters();
        wait(|| self.shared.alive.load(Relaxed) == 0);
    }
}
