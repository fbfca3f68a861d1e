//! Threads of the operating system.

use crate::builtin::{
    LightProcesses, wait,
    work::{self, FileStats, Files, WorkResult},
};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// State shared by all threads.
#[derive(Default)]
struct Shared {
    alive: AtomicU64,
    begin: AtomicBool,
    stop: AtomicBool,
    end: AtomicBool,
    /// The work: on files, or computing only (`None`).
    work: OnceLock<Option<(Files, FileStats)>>,
    working: AtomicU64,
}

#[derive(Default)]
pub(super) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    fn wake(&self) {
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    fn work(&self, what: Option<(Files, FileStats)>, time: Duration, begun: &mut dyn FnMut()) {
        let shared = &self.shared;
        shared.working.store(self.threads.len() as u64, Relaxed);
        let _ = shared.work.set(what);
        shared.begin.store(true, Relaxed);
        self.wake();
        begun();
        thread::sleep(time);
        shared.stop.store(true, Relaxed);
        wait(|| shared.working.load(Relaxed) == 0);
    }
}

fn run_thread(number: u64, shared: &Shared) {
    shared.alive.fetch_add(1, Relaxed);
    while !shared.begin.load(Relaxed) && !shared.end.load(Relaxed) {
        thread::park();
    }
    if shared.begin.load(Relaxed) {
        work_on(number, shared);
        shared.working.fetch_sub(1, Relaxed);
    }
    while !shared.end.load(Relaxed) {
        thread::park();
    }
}

fn work_on(number: u64, shared: &Shared) {
    let mut data = Vec::new();
    let mut x = number as u32;
    while !shared.stop.load(Relaxed) {
        match shared.work.get() {
            Some(Some((files, stats))) => {
                if !files.round(number, &mut data, stats) {
                    thread::sleep(work::PAUSE);
                }
            }
            _ => x = work::compute_piece(x),
        }
    }
}

impl LightProcesses for Threads {
    fn description(&self) -> String {
        "unit=thread\tversion=threads of this system (Rust standard library)".to_owned()
    }

    fn start(&mut self, count: u64, report: &mut dyn FnMut(u64)) -> Result<(), (u64, String)> {
        let mut refused = None;
        for number in 0..count {
            report(number);
            let shared = Arc::clone(&self.shared);
            match thread::Builder::new().spawn(move || run_thread(number, &shared)) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    refused = Some(error.to_string());
                    break;
                }
            }
        }
        let alive = self.threads.len() as u64;
        wait(|| self.shared.alive.load(Relaxed) == alive);
        refused.map_or(Ok(()), |why| Err((alive, why)))
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
        self.shared.end.store(true, Relaxed);
        self.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
