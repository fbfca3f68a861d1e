//! The contents of a journal: a header, and the changes.

use crate::container::ContainerEngine;
use manycore_topology::CpuSet;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Value of [`Header::schema`] that this version writes.
pub const JOURNAL_SCHEMA: &str = "manycore/journal/1";

/// The command that makes the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Header {
    /// Always [`JOURNAL_SCHEMA`] in files that this version writes.
    #[cfg_attr(feature = "schema", schemars(extend("const" = JOURNAL_SCHEMA)))]
    pub schema: String,
    /// `/proc/sys/kernel/random/boot_id` of the running system.
    pub boot_id: String,
    /// The process namespace of the recorded ids (`/proc/self/ns/pid`).
    pub pid_namespace: String,
    /// Time when the journal was begun, in UTC (RFC 3339).
    pub began: String,
    /// Start time in nanoseconds of `CLOCK_MONOTONIC`, by which journals are ordered.
    pub began_ns: u64,
    /// The process that writes the journal.
    pub owner: Option<Owner>,
    /// The request, for display.
    pub request: String,
    /// Whether the changes stay in force after the owner has ended, until they are undone.
    pub persistent: bool,
}

/// The process that writes a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, which distinguishes it from a later process with the same id.
    pub start: u64,
}

/// One change. CPUs of tasks are as `sched_getaffinity(2)` returns them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A command is started on CPUs, with `mark` in its environment.
    Command {
        /// `NAME=VALUE` in the environment of all processes that it starts.
        mark: String,
        /// The CPUs that its tasks would have had otherwise.
        old: CpuSet,
        /// The CPUs that it starts on.
        new: CpuSet,
    },
    /// The tasks of a process are about to be placed.
    Process {
        /// Process id.
        pid: u32,
        /// Its start time in clock ticks since boot, which distinguishes it from a later process with the same id.
        start: u64,
        /// The CPUs that undo gives to tasks which it creates from now on.
        cpus: CpuSet,
    },
    /// The affinity of a task of a process that an earlier entry names (or that carries an earlier mark).
    Affinity {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// The affinity before the change.
        old: CpuSet,
        /// The affinity after the change.
        new: CpuSet,
    },
    /// A process is moved to a control group.
    ProcessMoved {
        /// Process id.
        pid: u32,
        /// Its start time in clock ticks since boot.
        start: u64,
        /// Directory of the group that it was in.
        from: PathBuf,
        /// Directory of the group that it is moved to.
        to: PathBuf,
    },
    /// A control group is created.
    ControlGroup {
        /// Its directory.
        path: PathBuf,
    },
    /// The control group of an instance of a measured service is created. Its processes are killed when this is undone.
    MeasuredGroup {
        /// Its directory.
        path: PathBuf,
    },
    /// An instance of a measured service is started without a control group. All processes with `mark` in their environment
    /// are killed when this is undone.
    MarkedInstance {
        /// `NAME=VALUE` in the environment of all processes that it starts.
        mark: String,
    },
    /// A container is created for an instance of a measured service.
    Container {
        /// The program that manages it.
        engine: ContainerEngine,
        /// Its name.
        name: String,
    },
    /// A transient virtual machine is created for an instance of a measured service.
    Domain {
        /// The connection of libvirt.
        uri: String,
        /// Its name.
        name: String,
    },
    /// A controller is enabled for the children of a version 2 group.
    Controller {
        /// `cgroup.subtree_control` of the group.
        path: PathBuf,
        /// `cpuset`, `cpu` or `memory`.
        controller: String,
    },
    /// A group of cache and memory bandwidth control (`resctrl`) is created.
    ResctrlGroup {
        /// Its directory.
        path: PathBuf,
    },
    /// The kernel did not create it: a group of this name belongs to another owner.
    ResctrlGroupNotCreated {
        /// Its directory.
        path: PathBuf,
    },
    /// A task is moved to such a group.
    TaskMoved {
        /// Thread id.
        tid: u32,
        /// Its start time in clock ticks since boot.
        start: u64,
        /// Directory of the group that it was in.
        from: PathBuf,
        /// Directory of the group that it is moved to.
        to: PathBuf,
    },
    /// CPUs are moved to such a group (`cpus_list`).
    CpusMoved {
        /// The CPUs, all of which were in one other group.
        cpus: CpuSet,
        /// Directory of that group.
        from: PathBuf,
        /// Directory of the group that they are moved to.
        to: PathBuf,
    },
    /// A limit of an existing group is written: one domain of one line.
    Limit {
        /// Directory of the group.
        path: PathBuf,
        /// Name of the line.
        line: String,
        /// Number of the domain.
        domain: u32,
        /// The value that was in force.
        old: u64,
        /// The value that is written, or that was in force after the write.
        new: u64,
    },
    /// A file system is mounted.
    Mount {
        /// The mount point.
        point: PathBuf,
    },
    /// The program of a scheduler is about to be started, maybe several times. The kernel removes the scheduler when the
    /// program ends.
    Scheduler {
        /// What the user calls the scheduler: `cluster:spread`.
        label: String,
        /// The program and its arguments.
        command: Vec<String>,
        /// `NAME=VALUE` in the environment of the program and all that it starts.
        mark: String,
    },
    /// Such a program was started.
    SchedulerProcess {
        /// Process id, which is that of its process group.
        pid: u32,
        /// Its start time in clock ticks since boot.
        start: u64,
    },
    /// The process that writes the journal is about to load a scheduler itself, or has replaced it. The kernel removes
    /// the scheduler when that process ends.
    OwnScheduler {
        /// The kernel's name of the scheduler.
        name: String,
    },
    /// The scheduling class of a task is changed to the one of loaded schedulers (`SCHED_EXT`).
    SchedulingClass {
        /// Thread id.
        tid: u32,
        /// Its start time in clock ticks since boot.
        start: u64,
        /// The class that it had (`SCHED_NORMAL` is 0, `SCHED_BATCH` is 3).
        old: u32,
    },
    /// An older journal that had placed the same task was undone. Its recorded original affinity replaces the
    /// one in this journal, which was set by the older one.
    OriginalAffinity {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// The affinity to restore.
        old: CpuSet,
    },
    /// An older journal that had written the same kernel setting was undone. Its recorded original contents replace
    /// those in this journal.
    OriginalSetting {
        /// The file.
        path: PathBuf,
        /// The contents to restore.
        old: String,
    },
    /// An older journal that had written the same limit was undone. Its recorded original value replaces the one in
    /// this journal.
    OriginalLimit {
        /// Directory of the group.
        path: PathBuf,
        /// Name of the line.
        line: String,
        /// Number of the domain.
        domain: u32,
        /// The value to restore.
        old: u64,
    },
    /// A kernel setting is written, such as `/proc/irq/24/smp_affinity_list`. A setting that is switched several times
    /// has one entry for each value.
    Setting {
        /// The file.
        path: PathBuf,
        /// The original contents, without the newline at the end; the word in brackets where the file lists its choices.
        old: String,
        /// The contents that are written.
        new: String,
    },
}
