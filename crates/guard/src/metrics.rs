//! Metrics for Prometheus, in its text formats, over HTTP or in a file for the node exporter's textfile
//! collector.

mod page;

use crate::decision::{
    assessment::{Assessment, MemoryReading},
    event_line::EventKind,
};
use crate::error::{Error, Result};
use manycore_http::metrics::to_text_format;
use manycore_linux::{trusted_file, whole_file};
use page::Page;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, Write},
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Interval between updates of the file if nothing happens.
const FILE_INTERVAL: Duration = Duration::from_secs(5);

/// Interval between updates of the page.
const PAGE_INTERVAL: Duration = Duration::from_secs(1);

/// Counters, whose samples end in `_total`: names and help texts.
const EVENTS: (&str, &str) = ("manycore_guard_events", "Decisions by kind.");
const KILLED: (&str, &str) = ("manycore_guard_killed_bytes", "Memory of killed processes.");

/// The metrics.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    watches: Vec<WatchMetrics>,
    /// Number of known processes.
    pub processes: usize,
    /// Duration of the last survey of all processes in seconds.
    pub survey_seconds: f64,
}

#[derive(Clone, Debug, Default)]
struct WatchMetrics {
    name: String,
    reading: MemoryReading,
    assessment: Assessment,
    events: BTreeMap<&'static str, u64>,
    killed_bytes: u64,
    signal_seconds: Option<f64>,
}

/// A gauge with one value for each watch: name, help text, and the function that returns the value, if there
/// is one.
type Family = (&'static str, &'static str, fn(&WatchMetrics) -> Option<f64>);

const FAMILIES: [Family; 8] = [
    ("manycore_guard_available_bytes", "Memory that can be allocated without swapping.", |watch| {
        Some(watch.reading.available_bytes as f64)
    }),
    ("manycore_guard_memory_bytes", "Total memory.", |watch| Some(watch.reading.total_bytes as f64)),
    ("manycore_guard_swap_free_bytes", "Free swap.", |watch| Some(watch.reading.swap_free_bytes as f64)),
    ("manycore_guard_decrease_bytes_per_second", "Rate of memory decrease.", |watch| {
        Some(watch.assessment.decrease_bytes_per_second)
    }),
    (
        "manycore_guard_exhausted_seconds",
        "Time until memory is exhausted at this rate; absent if it does not decrease.",
        |watch| watch.assessment.seconds_left,
    ),
    (
        "manycore_guard_stalled_ratio",
        "Share of time in which all tasks wait for memory (PSI full).",
        |watch| watch.reading.stalled,
    ),
    ("manycore_guard_stage", "0 calm, 1 warn, 2 term, 3 kill.", |watch| {
        Some(f64::from(watch.assessment.stage as u8))
    }),
    ("manycore_guard_signal_seconds", "Time from reading to signal; absent before the first.", |watch| {
        watch.signal_seconds
    }),
];

impl Metrics {
    /// Creates metrics for watches of these names.
    pub fn new(names: impl Iterator<Item = String>) -> Self {
        let watches = names.map(|name| WatchMetrics { name, ..WatchMetrics::default() }).collect();
        Self { watches, ..Self::default() }
    }

    /// Creates metrics for watches of these names. Counters of watches that already existed are kept.
    pub fn renewed(&self, names: impl Iterator<Item = String>) -> Self {
        let mut renewed = Self::new(names);
        for watch in &mut renewed.watches {
            if let Some(former) = self.watches.iter().find(|former| former.name == watch.name) {
                (watch.events, watch.killed_bytes) = (former.events.clone(), former.killed_bytes);
                watch.signal_seconds = former.signal_seconds;
            }
        }
        renewed
    }

    /// Whether there is a reading yet.
    fn has_reading(&self) -> bool {
        self.watches.iter().any(|watch| watch.reading.at_ns > 0)
    }

    /// Stores a reading.
    pub fn set_reading(&mut self, watch: usize, reading: MemoryReading, assessment: Assessment) {
        if let Some(watch) = self.watches.get_mut(watch) {
            (watch.reading, watch.assessment) = (reading, assessment);
        }
    }

    /// Counts an event. `bytes` is the memory of the killed process, `seconds` the time from the reading to
    /// the signal.
    pub fn count(&mut self, watch: usize, kind: EventKind, bytes: u64, seconds: Option<f64>) {
        let Some(watch) = self.watches.get_mut(watch) else { return };
        *watch.events.entry(name(kind)).or_default() += 1;
        if kind == EventKind::Kill {
            watch.killed_bytes += bytes;
        }
        if let Some(seconds) = seconds.filter(|_| matches!(kind, EventKind::Term | EventKind::Kill)) {
            watch.signal_seconds = Some(seconds);
        }
    }

    /// Returns all metrics in the `OpenMetrics` format.
    pub fn text(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut written = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut written, &registry);
        written
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let read = || self.watches.iter().filter(|watch| watch.reading.at_ns > 0);
        for (name, help, value) in FAMILIES {
            let values: Vec<_> = read().filter_map(|watch| Some((watch, value(watch)?))).collect();
            if values.is_empty() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (watch, value) in values {
                let labels = [("watch", watch.name.as_str())];
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(KILLED.0, KILLED.1, None, MetricType::Counter)?;
        for watch in &self.watches {
            let labels = [("watch", watch.name.as_str())];
            ConstCounter::new(watch.killed_bytes).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor(EVENTS.0, EVENTS.1, None, MetricType::Counter)?;
        for watch in &self.watches {
            for (event, count) in &watch.events {
                let labels = [("watch", watch.name.as_str()), ("event", event)];
                ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
        for (name, help, value) in [
            ("manycore_guard_processes", "Known processes.", self.processes as f64),
            (
                "manycore_guard_survey_seconds",
                "Duration of the last survey of all processes.",
                self.survey_seconds,
            ),
        ] {
            let one = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(one)?;
        }
        Ok(())
    }
}

/// Returns the name of an event kind, the same as in JSON.
pub fn name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Warn => "warn",
        EventKind::Slow => "slow",
        EventKind::Release => "release",
        EventKind::Term => "term",
        EventKind::Kill => "kill",
        EventKind::Exited => "exited",
        EventKind::Stuck => "stuck",
        EventKind::LeftRunning => "left_running",
        EventKind::Refused => "refused",
        EventKind::NoCause => "no_cause",
        EventKind::Files => "files",
        EventKind::Over => "over",
        EventKind::Note => "note",
    }
}

/// Where metrics are published.
pub enum Sink {
    /// Nowhere.
    None,
    /// In a file that is replaced.
    File(PathBuf),
    /// On a page over HTTP.
    Served(Arc<Page>, SocketAddr),
}

impl Sink {
    /// Opens `ADDRESS:PORT` or a file.
    ///
    /// # Errors
    /// [`Error::InvalidMetricsPlace`]; [`Error::System`] if the guard cannot listen on the address, if the directory of the file does not
    /// exist, [`Error::UntrustedFile`] if other users
    /// can replace the file.
    pub fn open(place: Option<&str>) -> Result<Self> {
        let Some(place) = place else { return Ok(Self::None) };
        let addresses = if place.contains('/') { None } else { place.to_socket_addrs().ok() };
        if let Some(address) = addresses.and_then(|mut all| all.next()) {
            let cannot = || Error::system(format!("cannot listen on {address}"));
            let listener = TcpListener::bind(address).map_err(cannot())?;
            let address = listener.local_addr().unwrap_or(address);
            let page = Arc::new(Page::default());
            page::serve(listener, &page).map_err(cannot())?;
            return Ok(Self::Served(page, address));
        }
        if !place.contains('/') && (place.contains(':') || place.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(Error::InvalidMetricsPlace(place.to_owned()));
        }
        whole_file::check(Path::new(place)).map_err(Error::system(format!("cannot write {place}")))?;
        trusted_file::check_path(Path::new(place)).map_err(|why| Error::UntrustedFile(why.to_string()))?;
        Ok(Self::File(place.into()))
    }

    /// Returns the address of the page, if one is served.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Served(_, address) => Some(*address),
            Self::None | Self::File(_) => None,
        }
    }

    /// Whether metrics are published.
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the interval between updates if nothing happens.
    pub fn interval(&self) -> Duration {
        if matches!(self, Self::Served(..)) { PAGE_INTERVAL } else { FILE_INTERVAL }
    }

    /// Publishes the present metrics. Returns whether there are any yet.
    pub fn publish(&self, metrics: &Metrics) -> bool {
        if !metrics.has_reading() {
            return false;
        }
        match self {
            Self::None => {}
            Self::File(path) => {
                let _ = replace(path, &to_text_format(&metrics.text()));
            }
            Self::Served(page, _) => page.put(metrics.text()),
        }
        true
    }
}

/// Replaces a file through a new file that did not exist before.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("prom.new");
    let _ = fs::remove_file(&new);
    File::create_new(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests;
