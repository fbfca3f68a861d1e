//! The work of a built-in light process, in pieces. It can be stopped between pieces.

use crate::builtin::wait;
use manycore_stats::histogram::{BUCKETS, bucket};
use std::{
    fmt::Write as _,
    fs::OpenOptions,
    hint::black_box,
    io::{self, Write as _},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Pause after a failed round, so that failures do not slow down others.
pub const PAUSE: Duration = Duration::from_millis(10);

/// Steps in a piece of computing; takes about 30 µs.
const STEPS: u32 = 20_000;

/// Computes one piece.
pub fn compute_piece(start: u32) -> u32 {
    let mut x = start;
    for _ in 0..STEPS {
        x = black_box(x.wrapping_mul(1_103_515_245).wrapping_add(12_345));
    }
    x
}

/// Directory of the files, and their length in bytes.
#[derive(Clone, Debug)]
pub struct Files {
    pub folder: PathBuf,
    pub bytes: usize,
}

/// Results of file rounds, counted concurrently by all light processes.
pub struct FileStats {
    times: Vec<AtomicU64>,
    failed: AtomicU64,
    why: Mutex<String>,
}

/// The work of light processes that share memory.
#[derive(Default)]
pub struct SharedWork {
    /// Work on files, or computing only (`None`).
    what: OnceLock<Option<(Files, FileStats)>>,
    stop: AtomicBool,
    /// Number of light processes that have not left the work.
    working: AtomicU64,
}

/// The state of one light process while it works.
pub struct Worker {
    number: u64,
    data: Vec<u8>,
    x: u32,
}

/// The results when all have ended.
#[derive(Clone, Debug, Default)]
pub struct WorkResult {
    /// Non-empty buckets of the latency histogram: index and count.
    pub times: Vec<(usize, u64)>,
    pub failed: u64,
    pub why: String,
}

impl Files {
    /// Opens, writes, reads and closes file `number`, and counts the round. Returns whether it succeeded.
    pub fn round(&self, number: u64, data: &mut Vec<u8>, stats: &FileStats) -> bool {
        let began = Instant::now();
        match self.rewrite(number, data) {
            Ok(()) => {
                let slot = bucket(began.elapsed().as_nanos() as u64);
                stats.times[slot].fetch_add(1, Relaxed);
                true
            }
            Err(error) => {
                if stats.failed.fetch_add(1, Relaxed) == 0 {
                    *stats.why.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string();
                }
                false
            }
        }
    }

    fn rewrite(&self, number: u64, data: &mut Vec<u8>) -> io::Result<()> {
        data.resize(self.bytes, b'm');
        let path = self.folder.join(number.to_string());
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.write_all(data)?;
        file.read_exact_at(data, 0)
    }
}

impl SharedWork {
    /// Gives `working` light processes their work for `time` and waits until all have left it. `begin` starts them.
    pub fn run(
        &self,
        files: Option<Files>,
        working: u64,
        time: Duration,
        begin: impl FnOnce(),
    ) -> WorkResult {
        self.working.store(working, Relaxed);
        let what = self.what.get_or_init(|| files.map(|files| (files, FileStats::new())));
        begin();
        thread::sleep(time);
        self.stop.store(true, Relaxed);
        wait(|| self.working.load(Relaxed) == 0);
        what.as_ref().map(|(_, stats)| stats.done()).unwrap_or_default()
    }

    /// Reports that a light process has ended its work.
    pub fn leave(&self) {
        self.working.fetch_sub(1, Relaxed);
    }
}

impl Worker {
    pub fn new(number: u64) -> Self {
        Self { number, data: Vec::new(), x: number as u32 }
    }

    /// Does the next piece of work. Returns whether it succeeded, and `None` once the work has ended.
    pub fn next_piece(&mut self, work: &SharedWork) -> Option<bool> {
        if work.stop.load(Relaxed) {
            return None;
        }
        match work.what.get() {
            Some(Some((files, stats))) => Some(files.round(self.number, &mut self.data, stats)),
            _ => {
                self.x = compute_piece(self.x);
                Some(true)
            }
        }
    }
}

impl FileStats {
    pub fn new() -> Self {
        let times = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { times, failed: AtomicU64::new(0), why: Mutex::default() }
    }

    /// Returns what was counted so far.
    pub fn done(&self) -> WorkResult {
        let times = self.times.iter().map(|count| count.load(Relaxed)).enumerate();
        WorkResult {
            times: times.filter(|(_, count)| *count > 0).collect(),
            failed: self.failed.load(Relaxed),
            why: self.why.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl WorkResult {
    /// Adds the counts of another process.
    pub fn add(&mut self, times: &[(usize, u64)], failed: u64, why: &str) {
        for &(index, count) in times {
            match self.times.binary_search_by_key(&index, |(index, _)| *index) {
                Ok(at) => self.times[at].1 += count,
                Err(at) => self.times.insert(at, (index, count)),
            }
        }
        self.failed += failed;
        if self.why.is_empty() {
            why.clone_into(&mut self.why);
        }
    }

    /// Returns the results as a line of the protocol.
    pub fn line(&self, took: Duration) -> String {
        let operations: u64 = self.times.iter().map(|(_, count)| count).sum();
        let mut line = format!(
            "done\tseconds={}\toperations={operations}\tfailed={}\twhy={}\tlatency=",
            took.as_secs_f64(),
            self.failed,
            self.why.replace(['\t', '\n'], " ")
        );
        for (index, count) in &self.times {
            let _ = write!(line, "{index}:{count},");
        }
        line
    }
}
