//! The work of a built-in light process, in pieces. It can be stopped between pieces.

use manycore_stats::histogram::{BUCKETS, bucket};
use std::{
    fmt::Write as _,
    fs::OpenOptions,
    hint::black_box,
    io::{self, Write as _},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
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
