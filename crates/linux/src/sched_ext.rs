//! Schedulers that are loaded from user space, by `sched_ext` (`Documentation/scheduler/sched-ext.rst`; since Linux
//! 6.12).

use manycore_topology::SysTree;
use rustix::thread::CapabilitySet;

/// The state of `sched_ext`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedExt {
    /// The kernel has no `sched_ext`, or `/sys` is not mounted.
    Absent,
    /// No scheduler is loaded: all tasks are scheduled by the kernel's own one.
    Disabled,
    /// A scheduler is being loaded or removed; the kernel's word for it (`enabling`, `disabling`).
    Changing(String),
    /// A scheduler is loaded. Its name, as the scheduler chose it.
    Enabled(String),
}

/// Reads the state of `sched_ext` (`/sys/kernel/sched_ext`).
pub fn read(tree: &SysTree) -> SchedExt {
    let Some(state) = tree.read("sys/kernel/sched_ext/state") else { return SchedExt::Absent };
    match state.trim() {
        "disabled" => SchedExt::Disabled,
        "enabled" => {
            let name = tree.read("sys/kernel/sched_ext/root/ops").unwrap_or_default();
            SchedExt::Enabled(name.trim().to_owned())
        }
        other => SchedExt::Changing(other.to_owned()),
    }
}

/// Returns how many schedulers were loaded since boot (`enable_seq`). `None` where the kernel does not count them.
pub fn loads(tree: &SysTree) -> Option<u64> {
    tree.number("sys/kernel/sched_ext/enable_seq")
}

/// Returns whether this process has a capability that loads schedulers: `CAP_BPF` or `CAP_SYS_ADMIN`.
pub fn may_load() -> bool {
    let effective = rustix::thread::capabilities(None).map(|sets| sets.effective);
    effective.is_ok_and(|set| set.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN))
}
