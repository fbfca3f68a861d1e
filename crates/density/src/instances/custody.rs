//! What ends instances if this program cannot: their journal and the cleanup process.

use super::spec::{Safeguard, ServiceSpec};
use crate::Result;
use manycore_control::{
    Error as ControlError, GroupError,
    cleanup::{Cleanup, Leftover},
    journal::{Change, Journal},
    measured_group::{GroupLimits, MeasuredGroup},
};
use manycore_linux::tasks;
use std::{io, path::Path};

/// The journal of instances and their cleanup process. When it is dropped, all that the journal has is undone.
#[derive(Debug)]
pub(super) struct Custody {
    /// Present until the end.
    journal: Option<Journal>,
    /// Dropped last: until then it would undo the journal.
    cleanup: Cleanup,
    id: String,
}

impl Custody {
    /// Begins a journal and starts the cleanup process.
    pub(super) fn begin(safeguard: &Safeguard) -> Result<Self> {
        let mut cleanup = Cleanup::start(&safeguard.cleanup)?;
        let folder = &safeguard.journals;
        let begun = Journal::begin(folder, "density", "instances of a service", false);
        let journal =
            begun.map_err(|error| ControlError::JournalUnwritable { folder: folder.clone(), error })?;
        let id = journal.id();
        cleanup.add(Leftover::Journal(id.clone().into()))?;
        Ok(Self { journal: Some(journal), cleanup, id })
    }

    /// Returns the name of an instance without the `manycore-` before it.
    pub(super) fn name(&self, index: usize) -> String {
        format!("{}-{index}", self.id)
    }

    /// Records what is about to be created.
    pub(super) fn record(&self, change: &Change) -> Result {
        let recorded = self.journal.as_ref().map_or(Ok(()), |journal| journal.record(change));
        Ok(recorded.map_err(ControlError::JournalWrite)?)
    }

    /// Creates the control group of an instance.
    pub(super) fn group(&mut self, index: usize, spec: &ServiceSpec) -> Result<MeasuredGroup, GroupError> {
        let limits = GroupLimits {
            cpus: spec.limits.cpus,
            memory: spec.limits.memory,
            weight: spec.tuning.weight(index),
            places: spec.tuning.place(index).cloned().unwrap_or_default(),
        };
        let name = self.name(index);
        let Some(journal) = &self.journal else { return Err(GroupError::Ended) };
        let cleanup = &mut self.cleanup;
        let mut announce = |folder: &Path| {
            let announced = cleanup.add(Leftover::Group(folder.to_owned()));
            announced.map_err(|error| io::Error::other(error.to_string()))
        };
        MeasuredGroup::create(journal, &mut announce, &name, &limits)
    }

    /// Lets undo and the cleanup process end all processes with this assignment in their environment.
    pub(super) fn add_mark(&mut self, mark: &str) -> Result {
        self.record(&Change::MarkedInstance { mark: mark.to_owned() })?;
        Ok(self.cleanup.add(Leftover::Marked(mark.into()))?)
    }

    /// Lets the cleanup process end a process group, also if its processes have changed their environments.
    pub(super) fn add_process_group(&mut self, leader: u32) -> Result {
        if let Some(start) = tasks::start_time(leader) {
            self.cleanup.add(Leftover::ProcessGroup(leader, start))?;
        }
        Ok(())
    }

    /// Undoes what is left. Returns what could not be undone.
    pub(super) fn end(&mut self) -> Option<String> {
        match self.journal.take()?.undo() {
            Ok(result) => result.failure(&self.id),
            Err(error) => Some(format!("instances may be left: {error}; run 'manycore undo {}'", self.id)),
        }
    }
}

impl Drop for Custody {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
