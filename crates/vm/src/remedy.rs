//! Notes of a plan, and the parts of a request that can be changed to resolve a note or a refusal.

use std::fmt;

/// The part of a request that can be changed to resolve a refusal or a note. The command line has an option for
/// each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Let virtual CPUs share CPUs.
    Overcommit,
    /// Another placement policy.
    Policy,
    /// Another machine.
    Machine,
    /// State the version of QEMU.
    QemuVersion,
    /// State the version of libvirt.
    LibvirtVersion,
    /// Request the CPU mode host-passthrough.
    HostPassthrough,
    /// Plan for the libvirt of openEuler.
    OpenEuler,
    /// Request a limit of the memory bandwidth.
    Bandwidth,
    /// Request a share of the cache.
    CacheShare,
    /// Limit the running domain through resctrl instead of its XML.
    RunningLimit,
    /// Save the description of the host again.
    SaveMachine,
}

/// Something that could not be planned or that the plan decided, and why: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanNote {
    /// The sentence.
    pub text: String,
    /// The part of the request that changes it, if there is one.
    pub remedy: Option<Remedy>,
}

impl fmt::Display for PlanNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Collects the notes of a plan.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<PlanNote>);

impl Notes {
    /// Adds a note.
    pub fn push(&mut self, text: impl Into<String>) {
        self.0.push(PlanNote { text: text.into(), remedy: None });
    }

    /// Adds a note about something that another value of that part of the request changes.
    pub fn push_with(&mut self, remedy: Remedy, text: impl Into<String>) {
        self.0.push(PlanNote { text: text.into(), remedy: Some(remedy) });
    }

    /// Returns all notes in the order in which they were added.
    pub fn into_vec(self) -> Vec<PlanNote> {
        self.0
    }
}
