//! `manycore qos watch`.

use crate::{
    cli::{Format, QosWatch},
    failure::{Failure, Outcome},
    live::{History, IntervalTimer, Screen},
    output,
};
use manycore_linux::resctrl::watch::UsageSnapshot;
use manycore_qos::{
    self as qos,
    watch::UsageWatch,
    watch_text::{self, RateHistory},
};
use manycore_render::terminal::Terminal;

/// Prints the usage of groups at regular intervals.
///
/// # Errors
/// [`crate::failure::Failure::Missing`] if resctrl is not mounted or has no monitors.
pub fn run(args: &QosWatch, terminal: Terminal) -> Outcome {
    if matches!(args.format, Format::Csv | Format::Markdown) {
        return Err(Failure::input(
            "qos watch writes lines of text or JSON: use --format text or --format json",
        ));
    }
    let files = qos::open(&qos::system()?, args.resctrl.resctrl.as_deref())?;
    let mut history = History::open(args.history.as_deref())?;
    let mut watch = UsageWatch::begin(&files, &args.groups)?;
    let mut rounds = IntervalTimer::new(args.interval, args.count)?;
    for group in watch.missing_groups() {
        output::note(&format!("manycore: there is no group {group:?} now; it is shown as soon as it exists"));
    }
    let mut output = WatchOutput::new(args.format, terminal, files.root().display().to_string());
    while rounds.wait()? {
        let snapshot = watch.sample();
        history.append(&snapshot, args.format)?;
        if args.format == Format::Text {
            output.show(&snapshot)?;
        }
    }
    Ok(())
}

/// Output of readings as text.
struct WatchOutput {
    root: String,
    screen: Option<Screen>,
    rates: RateHistory,
    /// The header that was printed last.
    head: String,
}

impl WatchOutput {
    fn new(format: Format, terminal: Terminal, root: String) -> Self {
        let screen = if format == Format::Text { Screen::of_terminal(terminal) } else { None };
        Self { root, screen, rates: RateHistory::default(), head: String::new() }
    }

    fn show(&mut self, snapshot: &UsageSnapshot) -> Outcome {
        if let Some(screen) = &mut self.screen {
            self.rates.add(snapshot);
            return screen.show(&watch_text::table(snapshot, &self.rates, &self.root));
        }
        let head = watch_text::head(snapshot);
        let shown = if head == self.head { "" } else { &head };
        output::print(&format!("{shown}{}", watch_text::lines(snapshot)))?;
        self.head = head;
        Ok(())
    }
}
