//! The kinds of JSON that this program writes, and their JSON Schemas.
//!
//! The schemas are the files of `docs/schema`. The test `schema` generates them from the types and compares them,
//! so the program itself contains no generator.

/// A kind of JSON.
#[derive(Clone, Copy, Debug)]
pub struct JsonKind {
    /// Its name, in the middle of the field `schema`: `record` of `manycore/record/1`.
    pub name: &'static str,
    /// What it is: a line for a list.
    pub about: &'static str,
    /// What writes it.
    pub written_by: &'static str,
    /// The JSON Schema (draft 2020-12).
    pub schema: &'static str,
}

macro_rules! kinds {
    ($($name:literal, $about:literal, $written_by:literal;)*) => {
        /// All kinds, in the order of their names.
        pub const KINDS: &[JsonKind] = &[$(JsonKind {
            name: $name,
            about: $about,
            written_by: $written_by,
            schema: include_str!(concat!("../../../docs/schema/", $name, ".json")),
        }),*];
    };
}

kinds! {
    "audit", "problems of thread placement on this machine", "audit --format json";
    "config", "a user's defaults and where they come from", "config --format json";
    "doctor", "what this machine lets manycore do", "doctor --format json";
    "evaluation", "estimates, verdicts and findings of a record", "report --format json";
    "falseshare", "false sharing that was found", "falseshare --format json";
    "fleet", "which nodes of a fleet are slow, and why", "fleet report --format json";
    "fleet-run", "the state of each host of a run over a fleet", "fleet.json in the directory of a run";
    "guard-event", "a decision of the guard", "guard --format json, guard --events";
    "guard-why", "what the guard would do to a process", "guard why --format json";
    "guest", "the planned hardware of a virtual machine", "vm plan --format json";
    "guest-check", "a virtual machine compared with its plan", "vm check --format json";
    "interrupts", "interrupts and their CPUs", "irq show --format json";
    "irq-moves", "interrupts that were moved", "irq place --format json";
    "journal", "a line of a journal of changes to the machine", "all that change the machine";
    "loads", "what bench can measure", "bench list --format json";
    "machine", "CPUs, caches, nodes and devices of a machine", "topo --format json";
    "memory-accesses", "memory accesses of threads to shared cache lines", "falseshare --save";
    "placement-trace", "where tasks ran", "run --trace, pin --trace";
    "plan", "CPUs for workers", "plan --format json, tune";
    "qos", "limits of cache and memory bandwidth", "qos show --format json";
    "qos-applied", "limits that were set", "qos set --format json";
    "qos-proof", "whether limits are enforced", "qos prove --format json";
    "qos-watch", "use of cache and memory bandwidth", "qos watch --format json";
    "record", "samples and conditions of a measurement", "eval, bench, compare, scale, tune, spawn";
    "scheduler", "the scheduler in force and its domains", "sched show --format json";
    "sessions", "differences between stored records", "compare OLD NEW --format json";
    "top", "what CPUs, caches and tasks did in an interval", "top --format json";
    "undo-list", "changes that can be undone", "undo --list --format json";
    "undo-result", "changes that were undone", "undo --format json";
    "vms", "CPU time and memory of virtual machines", "vm list, vm top --format json";
}
