//! The view on a terminal: waits for keys, signals and pictures, and does what the view asks for.
//!
//! Samples are taken by a thread of their own, so that a key is answered while thousands of processes are read.

mod events;
mod kept_output;
mod options;
mod sampling;
mod screen_guard;
mod translate;

use super::{
    live::Live,
    replayed::Replayed,
    shown::{Shown, Source},
    work::{CommandOutput, Work},
};
use crate::{
    cli::Top,
    failure::{Failure, Outcome},
    output,
    signals::{ENDS, Signals},
};
use events::TerminalInput;
use kept_output::KeptOutput;
use manycore_render::terminal::Terminal as TextTerminal;
use manycore_top::{
    GroupParts, TaskUse, Wanted,
    view::{FigureSource, RecorderState, ShownMoment, View, ViewCommand},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Signal, getpid, kill_process},
};
use sampling::{Reply, Request, Sampling};
use screen_guard::ScreenGuard;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH};
use std::{
    io,
    ops::Range,
    time::{Duration, Instant},
};

/// Length of the first interval: until then there are means since boot. Also that of the first one with what another
/// screen needs.
const FIRST_INTERVAL: Duration = Duration::from_millis(200);

/// The last bytes of the command's output, which are kept and printed after the view.
const MOST_OUTPUT: u64 = 16 << 20;

/// Shows the view until `q`, Ctrl-C, the end of the command, or a signal.
///
/// # Errors
/// As [`run`](super::run); the terminal cannot be read or written.
pub(super) fn run(args: &Top, terminal: TextTerminal) -> Outcome {
    let mut source = source(args)?;
    let mut options = options::of_terminal(terminal.is_colored(), args.interval);
    options.source = if args.bpf { FigureSource::Bpf } else { FigureSource::Proc };
    options.order = args.sort.into();
    let mut view = View::new(source.machine(), options);
    if let Some(picture) = source.first() {
        view.update(picture);
    }
    let recording = source.recording().map(str::to_owned);
    let signals = Signals::catch(&[&ENDS[..], &[SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH]].concat())?;
    let input = TerminalInput::open().map_err(Failure::missing)?;
    let (output, written) = KeptOutput::begin(MOST_OUTPUT)?;
    source.start(&CommandOutput::File(&written))?;
    // The command alone has it.
    drop(written);
    let mut shown = ScreenLoop {
        view,
        sampling: Sampling::start(source)?,
        recording,
        signals,
        input,
        interval: args.interval,
        due: Instant::now() + FIRST_INTERVAL,
        requested: Instant::now(),
        is_sampling: false,
        wanted: Wanted::default(),
        spare: Vec::new(),
        soon: 0,
        number: 0,
        numbers: 0..0,
        recorder: RecorderState::Off,
        newest_ms: 0,
        is_paused: false,
        is_over: false,
        is_changed: true,
    };
    let result = shown.run();
    let ended = match shown.sampling.stop() {
        Some(source) => source.end(result),
        None => result.and(Err(Failure::missing("the thread that takes samples has failed"))),
    };
    print_output(output).and(ended)
}

fn source(args: &Top) -> Outcome<Source> {
    if let Some(path) = &args.replay {
        return Replayed::open(path).map(|replayed| Source::Replayed(Box::new(replayed)));
    }
    let mut live = Live::begin(args, Wanted::default(), true, Work::find(&args.work)?)?;
    live.keep_history();
    Ok(Source::Live(Box::new(live)))
}

/// Prints what the command wrote meanwhile.
fn print_output(kept: KeptOutput) -> Outcome {
    let tail = kept.end()?;
    if tail.left_out > 0 {
        output::note(&format!("The first {} bytes that the command wrote are left out.", tail.left_out));
    }
    if tail.bytes.is_empty() { Ok(()) } else { output::print(&String::from_utf8_lossy(&tail.bytes)) }
}

/// The state of the loop.
#[allow(clippy::struct_excessive_bools, reason = "each can change alone")]
struct ScreenLoop {
    view: View,
    sampling: Sampling,
    /// Name of the recording that is shown.
    recording: Option<String>,
    signals: Signals,
    input: TerminalInput,
    interval: Duration,
    /// When the next sample is taken.
    due: Instant,
    /// When the last one was.
    requested: Instant,
    /// Whether a sample is being taken.
    is_sampling: bool,
    /// What the view needed after the last key.
    wanted: Wanted,
    /// Tasks of the picture before the one that is shown: their memory is used again.
    spare: Vec<TaskUse>,
    /// Number of samples that are taken soon, whatever the interval is.
    soon: usize,
    /// Number of the picture that is shown, and those of the pictures that are kept.
    number: usize,
    numbers: Range<usize>,
    /// Whether the samples are recorded.
    recorder: RecorderState,
    /// When the newest sample was taken, in milliseconds since 1970.
    newest_ms: u64,
    is_paused: bool,
    is_over: bool,
    /// Whether the screen has to be drawn.
    is_changed: bool,
}

impl ScreenLoop {
    fn run(&mut self) -> Outcome {
        let mut screen = ScreenGuard::enter().map_err(Failure::missing)?;
        while !self.is_over {
            if std::mem::take(&mut self.is_changed) {
                screen.draw(&mut self.view).map_err(Failure::missing)?;
            }
            self.wait()?;
            self.handle_signals(&mut screen)?;
            if self.is_over {
                break;
            }
            while let Some(event) = self.input.next().map_err(Failure::missing)? {
                self.is_changed = true;
                self.view.handle(event);
                self.obey(&mut screen)?;
            }
            while let Some(reply) = self.sampling.take()? {
                self.show(reply)?;
            }
            if Instant::now() >= self.due && !self.is_sampling {
                self.request_sample();
            }
        }
        Ok(())
    }

    /// Waits for a key, a signal, a picture, or the time of the next sample.
    fn wait(&self) -> Outcome {
        let left = self.due.saturating_duration_since(Instant::now());
        let left = if self.is_sampling { Duration::from_mins(1) } else { left };
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut files = [
            PollFd::new(&self.input, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN),
            PollFd::new(&self.sampling, PollFlags::IN),
        ];
        match poll(&mut files, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::missing(format!("cannot wait: {error}"))),
        }
    }

    fn request_sample(&mut self) {
        // A late sample does not shorten the intervals after it.
        self.soon = self.soon.saturating_sub(1);
        let interval = if self.soon > 0 { FIRST_INTERVAL.min(self.interval) } else { self.interval };
        self.due = self.due.max(Instant::now()) + interval;
        if self.is_paused && self.recording.is_some() {
            return;
        }
        self.requested = Instant::now();
        // Findings are counted in each view, and one of them needs these.
        let findings = Wanted { groups: GroupParts::Throttling, ..Wanted::default() };
        let wanted = self.view.wanted().and(&findings);
        self.sampling.ask(Request::Next(wanted, std::mem::take(&mut self.spare)));
        self.is_sampling = true;
    }

    fn handle_signals(&mut self, screen: &mut ScreenGuard) -> Outcome {
        for signal in self.signals.take() {
            match signal {
                Signal::WINCH => self.is_changed = true,
                // Its end is seen with the next sample.
                Signal::CHILD => self.due = Instant::now(),
                Signal::TSTP => self.suspend(screen)?,
                Signal::CONT => {
                    screen.enter_again().map_err(Failure::missing)?;
                    self.is_changed = true;
                }
                _ => self.is_over = true,
            }
        }
        Ok(())
    }

    /// Gives the terminal back and stops, until SIGCONT.
    fn suspend(&mut self, screen: &mut ScreenGuard) -> Outcome {
        let stop = |screen: &mut ScreenGuard| -> io::Result<()> {
            ScreenGuard::leave()?;
            kill_process(getpid(), Signal::STOP)?;
            screen.enter_again()
        };
        self.is_changed = true;
        stop(screen).map_err(Failure::missing)
    }

    /// Does what the view asks for.
    fn obey(&mut self, screen: &mut ScreenGuard) -> Outcome {
        for command in self.view.commands() {
            match command {
                ViewCommand::Quit => self.is_over = true,
                ViewCommand::Suspend => self.suspend(screen)?,
                ViewCommand::Redraw => screen.enter_again().map_err(Failure::missing)?,
                ViewCommand::Pause(true) => self.is_paused = true,
                // A recording goes on from where it is.
                ViewCommand::Pause(false) if self.recording.is_some() => self.is_paused = false,
                ViewCommand::Last if self.recording.is_some() => self.step_to(usize::MAX),
                ViewCommand::Pause(false) | ViewCommand::Last => self.go_on(),
                ViewCommand::Interval(interval) => {
                    self.interval = interval;
                    self.due = self.due.min(Instant::now() + interval);
                }
                ViewCommand::Step(by) => self.step_to(self.number.saturating_add_signed(by as isize)),
                ViewCommand::First => self.step_to(self.numbers.start),
            }
        }
        self.set_moment(None);
        self.hurry();
        Ok(())
    }

    /// Makes the next samples come soon if the view shows what earlier ones do not have: two, as rates need.
    fn hurry(&mut self) {
        let wanted = self.view.wanted();
        if wanted.has_parts_beyond(&self.wanted) && !self.is_paused && self.recording.is_none() {
            // Not at once after the previous one: rates over a shorter interval would be noise.
            (self.soon, self.due) = (2, Instant::now().max(self.requested + FIRST_INTERVAL));
        }
        self.wanted = wanted;
    }

    fn go_on(&mut self) {
        self.is_paused = false;
        if let Some(last) = self.numbers.end.checked_sub(1).filter(|last| *last != self.number) {
            self.sampling.ask(Request::At(last));
        }
    }

    /// Shows another picture that is kept.
    fn step_to(&mut self, number: usize) {
        self.is_paused = true;
        if let Some(last) = self.numbers.end.checked_sub(1) {
            self.number = number.clamp(self.numbers.start.min(last), last);
            self.sampling.ask(Request::At(self.number));
        }
    }

    fn show(&mut self, reply: Reply) -> Outcome {
        match reply {
            Reply::Next { shown, numbers, recorder, is_over } => {
                self.is_sampling = false;
                self.is_over |= is_over;
                (self.numbers, self.recorder) = (numbers, recorder);
                if let Some(shown) = shown? {
                    self.newest_ms = shown.picture.unix_ms;
                    if !self.is_paused || self.number == 0 {
                        self.show_picture(*shown);
                    }
                    self.set_moment(None);
                }
            }
            // Of several steps, only the last one matters.
            Reply::At(Some(shown)) if shown.number == self.number || !self.is_paused => {
                self.show_picture(*shown);
            }
            Reply::At(_) => {}
        }
        self.is_changed = true;
        Ok(())
    }

    fn show_picture(&mut self, shown: Shown) {
        self.number = shown.number;
        if let Some(machine) = &shown.machine {
            self.view.set_machine(machine);
        }
        self.view.set_findings(shown.findings);
        self.set_moment(Some(shown.picture.unix_ms));
        self.spare = self.view.update(shown.picture).tasks;
    }

    /// Tells the view which moment is shown: that of a picture, or the same as before.
    fn set_moment(&mut self, unix_ms: Option<u64>) {
        let shown_ms = unix_ms.or_else(|| self.view.unix_ms());
        let behind = self.newest_ms.saturating_sub(shown_ms.unwrap_or(self.newest_ms));
        self.view.set_moment(ShownMoment {
            is_paused: self.is_paused,
            behind_seconds: if self.is_paused { behind as f64 / 1e3 } else { 0.0 },
            position: self.recording.is_some().then_some((self.number, self.numbers.end.saturating_sub(1))),
            recording: self.recording.clone(),
            recorder: self.recorder.clone(),
        });
    }
}
