//! Figures for Prometheus, in its text format, over HTTP or in a file for the node exporter's textfile collector.

use crate::failure::{Failure, Outcome};
use manycore_model::guard::{
    line::Kind,
    stage::{Assessment, Reading},
};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// What is counted and read.
#[derive(Debug, Default)]
pub struct Metrics {
    watches: Vec<Watch>,
    /// Processes that are known.
    pub processes: usize,
    /// Seconds that the last look at all of them took.
    pub survey_seconds: f64,
}

#[derive(Debug, Default)]
struct Watch {
    name: String,
    reading: Reading,
    told: Assessment,
    events: BTreeMap<&'static str, u64>,
    killed_bytes: u64,
    signal_seconds: Option<f64>,
}

/// A figure of each watch: name, type, help, and where it comes from; absent where there is none.
type Family = (&'static str, &'static str, &'static str, fn(&Watch) -> Option<f64>);

const FAMILIES: [Family; 9] = [
    ("manycore_guard_available_bytes", "gauge", "Memory that can be had without swapping.", |watch| {
        Some(watch.reading.available as f64)
    }),
    ("manycore_guard_memory_bytes", "gauge", "All of it.", |watch| Some(watch.reading.total as f64)),
    ("manycore_guard_swap_free_bytes", "gauge", "Free swap.", |watch| Some(watch.reading.swap_free as f64)),
    ("manycore_guard_fall_bytes_per_second", "gauge", "Rate at which memory goes.", |watch| {
        Some(watch.told.rate)
    }),
    (
        "manycore_guard_exhausted_seconds",
        "gauge",
        "Time until it is gone at this rate; absent where it does not go.",
        |watch| watch.told.seconds_left,
    ),
    (
        "manycore_guard_stalled_ratio",
        "gauge",
        "Share of time in which all tasks wait for memory (PSI full).",
        |watch| watch.reading.stalled,
    ),
    ("manycore_guard_stage", "gauge", "0 calm, 1 warn, 2 term, 3 kill.", |watch| {
        Some(f64::from(watch.told.stage as u8))
    }),
    ("manycore_guard_killed_bytes_total", "counter", "Memory of those that were killed.", |watch| {
        Some(watch.killed_bytes as f64)
    }),
    (
        "manycore_guard_signal_seconds",
        "gauge",
        "From the reading to the last signal; absent before one.",
        |watch| watch.signal_seconds,
    ),
];

impl Metrics {
    /// For watches of these names.
    pub fn new(names: impl Iterator<Item = String>) -> Self {
        let watches = names.map(|name| Watch { name, ..Watch::default() }).collect();
        Self { watches, ..Self::default() }
    }

    /// Takes a reading.
    pub fn look(&mut self, watch: usize, reading: Reading, told: Assessment) {
        if let Some(watch) = self.watches.get_mut(watch) {
            (watch.reading, watch.told) = (reading, told);
        }
    }

    /// Counts an event; `bytes` of whoever was killed, and the seconds until the signal.
    pub fn count(&mut self, watch: usize, kind: Kind, bytes: u64, seconds: Option<f64>) {
        let Some(watch) = self.watches.get_mut(watch) else { return };
        *watch.events.entry(name(kind)).or_default() += 1;
        if kind == Kind::Kill {
            watch.killed_bytes += bytes;
        }
        if let Some(seconds) = seconds.filter(|_| matches!(kind, Kind::Term | Kind::Kill)) {
            watch.signal_seconds = Some(seconds);
        }
    }

    /// All of it as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in FAMILIES {
            text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
            for (watch, value) in self.watches.iter().filter_map(|watch| Some((watch, value(watch)?))) {
                text.push_str(&format!("{name}{{watch=\"{}\"}} {value}\n", escaped(&watch.name)));
            }
        }
        text.push_str(
            "# HELP manycore_guard_events_total What was told.\n# TYPE manycore_guard_events_total counter\n",
        );
        for watch in &self.watches {
            for (event, count) in &watch.events {
                let name = escaped(&watch.name);
                text.push_str(&format!(
                    "manycore_guard_events_total{{watch=\"{name}\",event=\"{event}\"}} {count}\n"
                ));
            }
        }
        for (name, help, value) in [
            ("manycore_guard_processes", "Processes that are known.", self.processes as f64),
            (
                "manycore_guard_survey_seconds",
                "Time that the last look at all of them took.",
                self.survey_seconds,
            ),
        ] {
            text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n"));
        }
        text
    }
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// As it is written in JSON, too.
pub fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Warn => "warn",
        Kind::Slow => "slow",
        Kind::Release => "release",
        Kind::Term => "term",
        Kind::Kill => "kill",
        Kind::Gone => "gone",
        Kind::Stuck => "stuck",
        Kind::Spare => "spare",
        Kind::Refused => "refused",
        Kind::Nobody => "nobody",
        Kind::Files => "files",
        Kind::Over => "over",
        Kind::Note => "note",
    }
}

/// Where metrics go.
pub enum Sink {
    /// Nobody wants them.
    None,
    /// A file that is replaced.
    File(PathBuf),
    /// Whoever asks over HTTP.
    Served(Arc<Mutex<String>>),
}

impl Sink {
    /// `ADDRESS:PORT` or a file.
    ///
    /// # Errors
    /// [`Failure::Missing`] where the address cannot be listened on or the folder of the file does not exist.
    pub fn open(place: Option<&str>) -> Outcome<Self> {
        let Some(place) = place else { return Ok(Self::None) };
        let addresses = if place.contains('/') { None } else { place.to_socket_addrs().ok() };
        if let Some(address) = addresses.and_then(|mut all| all.next()) {
            let listener = TcpListener::bind(address)
                .map_err(|error| Failure::missing(format!("cannot listen on {address}: {error}")))?;
            let address = listener.local_addr().unwrap_or(address);
            let page = Arc::new(Mutex::new(String::new()));
            let shared = Arc::clone(&page);
            let serve = move || listener.incoming().flatten().for_each(|stream| answer(stream, &shared));
            thread::Builder::new().name("metrics".to_owned()).spawn(serve).map_err(Failure::missing)?;
            crate::output::note(&format!("manycore: metrics are at http://{address}/metrics"));
            return Ok(Self::Served(page));
        }
        if !place.contains('/') && (place.contains(':') || place.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(Failure::input(format!(
                "--metrics: {place:?} is no address: write 127.0.0.1:9101, or ./{place} for a file"
            )));
        }
        crate::output::check_file(Path::new(place))?;
        Ok(Self::File(place.into()))
    }

    /// Hands on the present figures.
    pub fn put(&self, metrics: &Metrics) {
        match self {
            Self::None => {}
            Self::File(path) => {
                let new = path.with_extension("prom.new");
                if fs::write(&new, metrics.text()).is_ok() {
                    let _ = fs::rename(&new, path);
                }
            }
            Self::Served(page) => *page.lock().unwrap_or_else(PoisonError::into_inner) = metrics.text(),
        }
    }
}

/// One request, whatever it asks for.
fn answer(mut stream: TcpStream, page: &Mutex<String>) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let mut request = [0; 2048];
    let _ = stream.read(&mut request);
    let text = page.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_prometheus_reads_them() {
        let mut metrics = Metrics::new(["machine".to_owned(), "a\"b".to_owned()].into_iter());
        let reading = Reading { available: 5, total: 10, ..Reading::default() };
        metrics.look(0, reading, Assessment { seconds_left: Some(2.5), rate: 2.0, ..Assessment::default() });
        metrics.count(0, Kind::Kill, 7, Some(0.012));
        insta::assert_snapshot!(metrics.text());
    }

    #[test]
    fn they_are_served_to_whoever_asks() {
        let sink = Sink::open(Some("127.0.0.1:0"));
        assert!(matches!(sink, Ok(Sink::Served(_))));
        assert!(matches!(Sink::open(Some("/nonexistent/x.prom")), Err(Failure::Missing(_))));
        for wrong in ["99999", "127.0.0.1:99999", "no-such-host.invalid:1"] {
            assert!(matches!(Sink::open(Some(wrong)), Err(Failure::Input(_))), "{wrong}");
        }
    }
}
