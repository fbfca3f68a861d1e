//! Threads of the operating system.

use crate::builtin::{
    LightProcesses, wait,
    work::{self, Files, SharedWork, WorkResult, Worker},
};
use std::{
    sync::{
        Arc,
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
    end: AtomicBool,
    work: SharedWork,
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
}

fn run_thread(number: u64, shared: &Shared) {
    shared.alive.fetch_add(1, Relaxed);
    while !shared.begin.load(Relaxed) && !shared.end.load(Relaxed) {
        thread::park();
    }
    if shared.begin.load(Relaxed) {
        work_on(number, &shared.work);
        shared.work.leave();
    }
    while !shared.end.load(Relaxed) {
        thread::park();
    }
}

fn work_on(number: u64, work: &SharedWork) {
    let mut worker = Worker::new(number);
    while let Some(succeeded) = worker.next_piece(work) {
        if !succeeded {
            thread::sleep(work::PAUSE);
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

    fn work(&mut self, files: Option<Files>, time: Duration, begun: &mut dyn FnMut()) -> WorkResult {
        self.shared.work.run(files, self.threads.len() as u64, time, || {
            self.shared.begin.store(true, Relaxed);
            self.wake();
            begun();
        })
    }

    fn end(&mut self) {
        self.shared.end.store(true, Relaxed);
        self.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
