//! `manycore sched run`: the scheduler in the kernel.

use super::run::{SessionLine, describe, report_end};
use crate::{
    cli::SchedRun,
    failure::{Failure, Outcome},
    signals::{self, Signals},
    source,
};
use manycore_linux::sd_notify::ServiceManager;
use manycore_sched::service::{
    SchedulerService, ServiceEvent, ServiceObserver, ServiceReport, ServiceRequest, text,
};

/// Keeps the scheduler in force until the work has ended or a signal arrives.
///
/// # Errors
/// [`Failure::Missing`] if it cannot be loaded; [`Failure::Measured`] if the kernel removes it; [`Failure::Input`] for work
/// that does not exist; [`Failure::Status`] with the exit status of the command if that is not 0.
pub fn run(args: &SchedRun) -> Outcome {
    let groups = args.targets();
    let what = describe(args, &groups);
    let request = ServiceRequest {
        policy: args.policy.into(),
        groups,
        interval: args.interval,
        progress: args.progress.as_deref().map(words).transpose()?,
        what: what.clone(),
    };
    let caught: &[i32] = if args.command.is_empty() { &signals::ENDS } else { &signals::ALL };
    let signals = Signals::catch(caught)?;
    let service = SchedulerService::begin(&source::live()?, &request)?;
    let mut display = ServiceDisplay { line: SessionLine::new(args), last: None };
    let end = service.run(&signals, &mut display);
    display.ended();
    report_end(end.restored, &end.journal, end.status, args.quiet)
}

/// Splits the command of `--progress`.
fn words(text: &str) -> Outcome<Vec<String>> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    words.ok_or_else(|| Failure::input(format!("--progress {text:?} is no command: check its quotes")))
}

/// Shows what happens on standard error, and tells a service manager when the scheduler is in force.
struct ServiceDisplay {
    line: SessionLine,
    last: Option<ServiceReport>,
}

impl ServiceDisplay {
    fn ended(&mut self) {
        if let Some(report) = self.last.take() {
            self.line.note(&text::interval(&report));
        }
        self.line.note("the kernel's own scheduler is in force again");
    }
}

impl ServiceObserver for ServiceDisplay {
    fn event(&mut self, event: &ServiceEvent) {
        if let ServiceEvent::Loaded { .. } = event
            && let Some(manager) = ServiceManager::of_environment()
        {
            manager.send("READY=1");
        }
        if let ServiceEvent::Interval(report) = event {
            self.line.interval(&text::interval(report), || text::clusters(report));
            self.last = Some(report.clone());
        }
        if let Some(words) = text::event(event) {
            self.line.note(&words);
        }
    }
}
