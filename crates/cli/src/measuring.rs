//! What all subcommands that measure do around the measurement: results folder, progress, Ctrl-C, saving, printing.

use crate::{
    checks::Checks,
    cli::Results,
    failure::{Failure, Outcome},
    folder::Folder,
    output,
    progress::Progress,
    signals,
};
use manycore_experiment::{
    Record,
    session::{Event, Listener},
};
use manycore_render::terminal::Terminal;
use manycore_report::{Exported, NamedEvaluation};
use std::path::Path;

/// A measurement under way.
pub struct Run<'a> {
    subcommand: &'a str,
    to: &'a Results,
    folder: Folder,
    progress: Progress,
    terminal: Terminal,
    checks: Checks<'a>,
}

impl<'a> Run<'a> {
    /// Catches Ctrl-C, makes the results folder, and shows the progress of a run of `subcommand` that takes about `seconds`,
    /// if that is known.
    ///
    /// # Errors
    /// [`Failure::Input`] where the folder has the record of an earlier run, [`Failure::Missing`] where it cannot be
    /// written.
    pub fn begin(
        subcommand: &'a str,
        to: &'a Results,
        terminal: Terminal,
        seconds: Option<f64>,
    ) -> Outcome<Self> {
        signals::catch_interrupts()?;
        let folder = Folder::open(to, &subcommand.replace(' ', "-"))?;
        let progress = Progress::new(seconds, to.quiet);
        Ok(Self { subcommand, to, folder, progress, terminal, checks: Checks::default() })
    }

    /// Sets what is done with the result besides printing it.
    pub fn with_checks(self, checks: Checks<'a>) -> Self {
        Self { checks, ..self }
    }

    /// The results folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends a run of which nothing is kept.
    pub fn discard(&mut self) {
        self.progress.finish();
        self.folder.discard();
    }

    /// Saves the record and prints its evaluation; returns how the run ended. An empty record is not kept.
    ///
    /// # Errors
    /// The failure in `ending`, that the record cannot be saved, or a gate that failed.
    pub fn end(mut self, record: Record, ending: Outcome) -> Outcome {
        self.progress.finish();
        // An evaluation describes the machine even where nothing could be measured.
        if record.experiments.is_empty() && record.light_processes.is_empty() && self.subcommand != "eval" {
            self.folder.discard();
            let missed = record.not_measured.last().map(|missed| Failure::missing(missed.why.clone()));
            return nothing_saved(ending).and(missed.map_or(Ok(()), Err));
        }
        // The measurement took the time: its evaluation is printed even if a file could not be written.
        let mut all = [NamedEvaluation::new(self.subcommand.to_owned(), record)];
        let applied = self.checks.apply(&mut all[0]);
        let written = self.folder.keep(&all, self.to.quiet);
        let printed = output::evaluations(&all, self.to.format, self.to.extent, self.terminal);
        let checked = self.checks.end(&Exported { all: &all, sessions: None });
        written.and(printed).and(self.saved(ending)).and(applied).and(checked)
    }

    /// Saves the record and its page, prints nothing of it; returns how the run ended.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub fn keep(mut self, record: Record, ending: Outcome) -> Outcome {
        self.progress.finish();
        if record.experiments.is_empty() {
            self.folder.discard();
            return nothing_saved(ending);
        }
        let all = [NamedEvaluation::new(self.subcommand.to_owned(), record)];
        let saved = self.folder.keep(&all, self.to.quiet);
        saved.and(ending)
    }

    /// An interruption, with where the record is.
    fn saved(&self, ending: Outcome) -> Outcome {
        match ending {
            Err(Failure::Interrupted(_)) => Err(Failure::Interrupted(format!(
                "interrupted; the results so far are in {} (show them with: manycore report {0})",
                self.folder.path().display()
            ))),
            ending => ending,
        }
    }
}

impl Listener for Run<'_> {
    fn event(&mut self, event: Event) {
        match event {
            Event::Section(title) => self.progress.section(title),
            Event::Remaining(left) => self.progress.set_remaining(left),
            Event::Planned(left) => self.progress.set_plan(left),
            Event::Waiting => self.progress.refresh(),
            Event::Note(text) => self.progress.note(text),
            Event::NotMeasured(missed) => {
                self.progress.note(&format!("skipped {}: {}", missed.what, missed.why));
            }
            // Saved after each part, so that SIGKILL does not lose the finished parts; a full disk is reported at the
            // end.
            Event::Measured(record) if record.experiments.is_empty() && record.light_processes.is_empty() => {
            }
            Event::Measured(record) => drop(self.folder.write_record(record)),
        }
    }
}
/// An interruption before there was anything to save.
fn nothing_saved(ending: Outcome) -> Outcome {
    match ending {
        Err(Failure::Interrupted(_)) => Err(Failure::Interrupted(
            "interrupted before anything was measured: nothing was saved".to_owned(),
        )),
        ending => ending,
    }
}
