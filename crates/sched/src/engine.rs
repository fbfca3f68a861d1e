//! The scheduler in the kernel: loads it, counts what it does, and notices when the kernel removes it.

use crate::{
    counters::{Counters, WAITS},
    error::{Error, Result},
    layout::Layout,
    maps::{self, cluster, cpu},
    run::FixedPolicy,
};
use manycore_bpf::{Loader, map::MappedArray, program::Loaded, struct_ops::Operations};
use manycore_linux::{
    clock,
    sched_ext::{self, SchedExt},
};
use manycore_topology::{CpuSet, Machine, SysTree};

/// The compiled scheduler; empty if it was built without clang.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/scheduler.bpf.o"));
/// What was missing when it was built.
pub(crate) static MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/missing"));

/// Name of the scheduler in `/sys/kernel/sched_ext/root/ops`; the policy follows after `_`.
pub const NAME: &str = "manycore";

/// The kernel removes the scheduler if a runnable task does not run for so long.
const WATCHDOG_MS: u32 = 20_000;

/// `SCX_EXIT_UNREG`: the scheduler was removed because its program asked for that, or ended.
const EXIT_UNREGISTERED: u64 = 64;
/// `SCX_ECODE_ACT_RESTART`: the scheduler may be loaded again.
const MAY_RESTART: u64 = 1 << 48;

/// The scheduler in force. The kernel's own one takes over again when it is dropped, or this process ends in any way.
pub struct Scheduler {
    cpus: MappedArray,
    clusters: MappedArray,
    controls: MappedArray,
    removals: MappedArray,
    layout: Layout,
    // Removed before what it uses.
    operations: Operations,
    loaded: Loaded,
}

/// Why the kernel removed the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The kernel's reason and message.
    pub reason: String,
    /// Whether it can be loaded again at once, because only the CPUs have changed.
    pub may_restart: bool,
    /// Whether this or another process asked for it.
    pub was_requested: bool,
}

impl Scheduler {
    /// Loads the scheduler and puts it in force: for all tasks, or only for those of the scheduling class `SCHED_EXT`.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], [`Error::NoSchedExt`], [`Error::Other`] if another scheduler is loaded,
    /// [`Error::OneCluster`], or [`Error::Bpf`] with what the kernel said.
    pub fn load(tree: &SysTree, machine: &Machine, policy: FixedPolicy, partial: bool) -> Result<Self> {
        let object = object()?;
        match sched_ext::read(tree) {
            SchedExt::Absent => return Err(Error::NoSchedExt),
            SchedExt::Enabled(name) => return Err(Error::Other(name)),
            SchedExt::Disabled | SchedExt::Changing(_) => {}
        }
        // Read before the topology: the kernel refuses the scheduler if CPUs have come or gone since.
        let hotplug = tree.number::<u64>("sys/kernel/sched_ext/hotplug_seq").unwrap_or(0);
        let layout = Layout::of(machine).ok_or(Error::OneCluster)?;
        let possible =
            tree.cpu_list("sys/devices/system/cpu/possible")?.unwrap_or_else(|| machine.online.clone());
        let object = Loader::new(object)?;
        let flag = |name: &str| object.value(name);
        let mut flags = flag("SCX_OPS_KEEP_BUILTIN_IDLE") | flag("SCX_OPS_ENQ_LAST");
        if partial {
            flags |= flag("SCX_OPS_SWITCH_PARTIAL");
        }
        let loaded = load(object, &layout, &possible)?;
        let controls = loaded.map("controls")?.mapped()?;
        controls.set_word(0, 0, number(policy));
        let name = format!("{NAME}_{}", policy.word());
        let operations = loaded.take_over(
            "sched_ext_ops",
            &[
                ("name", name.as_bytes()),
                ("flags", &flags.to_ne_bytes()),
                ("timeout_ms", &WATCHDOG_MS.to_ne_bytes()),
                ("hotplug_seq", &hotplug.to_ne_bytes()),
            ],
        )?;
        Ok(Self {
            cpus: loaded.map("cpus")?.mapped()?,
            clusters: loaded.map("clusters")?.mapped()?,
            controls,
            removals: loaded.map("removals")?.mapped()?,
            layout,
            operations,
            loaded,
        })
    }

    /// The machine as the scheduler knows it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets the policy of all tasks for which no other is set.
    pub fn set_policy(&self, policy: FixedPolicy) {
        self.controls.set_word(0, 0, number(policy));
        self.renew();
    }

    /// Sets the policy of a control group by its id, or with `None` that of all other tasks.
    ///
    /// # Errors
    /// [`Error::Bpf`] if the kernel refuses it: there are 65,536 places.
    pub fn set_policy_of(&self, group: u64, policy: Option<FixedPolicy>) -> Result<()> {
        let map = self.loaded.map("policies")?;
        match policy {
            Some(policy) => map.update(&group.to_ne_bytes(), &number(policy).to_ne_bytes())?,
            None => map.remove(&group.to_ne_bytes())?,
        }
        self.renew();
        Ok(())
    }

    /// Makes tasks look up their policies again.
    fn renew(&self) {
        self.controls.set_word(0, 1, self.controls.word(0, 1) + 1);
    }

    /// Returns what was counted since the scheduler was loaded, for each cluster.
    pub fn counters(&self) -> Vec<Counters> {
        self.layout
            .clusters
            .iter()
            .enumerate()
            .map(|(index, cluster)| self.counters_of(index, &cluster.cpus))
            .collect()
    }

    fn counters_of(&self, index: usize, cpus: &[u32]) -> Counters {
        let sum = |word: usize| cpus.iter().map(|&cpu| self.cpus.word(cpu as usize, word)).sum::<u64>();
        // A task that runs has not been counted yet, however long it runs.
        let now = clock::now_ns();
        let running = |cpu: u32| match self.cpus.word(cpu as usize, cpu::TID) {
            0 => 0,
            _ => now.saturating_sub(self.cpus.word(cpu as usize, cpu::SINCE)),
        };
        let running: u64 = cpus.iter().map(|&cpu| running(cpu)).sum();
        let mut waits = [0; WAITS];
        for (place, count) in waits.iter_mut().enumerate() {
            *count = sum(cpu::WAITS + place);
        }
        Counters {
            idle_cpus: self.clusters.word(index, cluster::IDLE),
            busy_ns: sum(cpu::BUSY) + running,
            direct: sum(cpu::DIRECT),
            queued: sum(cpu::QUEUED),
            stolen: sum(cpu::STOLEN),
            moved: sum(cpu::MOVED),
            wakeups: sum(cpu::WAKEUPS),
            wait_ns: sum(cpu::WAIT),
            waits,
            choices: sum(cpu::CHOICES),
            choice_ns: sum(cpu::CHOICE),
        }
    }

    /// Returns why the kernel has removed the scheduler; `None` while it is in force.
    pub fn removal(&self) -> Option<Removal> {
        let kind = self.removals.word(0, 0).checked_sub(1)?;
        let code = self.removals.word(0, 1);
        let text = |from: usize, words: usize| {
            let bytes: Vec<u8> =
                (from..from + words).flat_map(|word| self.removals.word(0, word).to_ne_bytes()).collect();
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
        };
        let (reason, message) = (text(2, 16), text(18, 128));
        let reason =
            if message.is_empty() || message == reason { reason } else { format!("{reason}: {message}") };
        Some(Removal {
            reason,
            may_restart: code & MAY_RESTART != 0,
            was_requested: kind == EXIT_UNREGISTERED,
        })
    }

    /// Gives the machine back to the kernel's own scheduler.
    pub fn remove(self) {
        drop(self.operations);
    }
}

/// Returns the compiled scheduler.
fn object() -> Result<&'static [u8]> {
    if OBJECT.is_empty() { Err(Error::NotBuilt(MISSING)) } else { Ok(OBJECT) }
}

/// Loads the programs for a machine, which changes nothing yet.
fn load(mut object: Loader, layout: &Layout, possible: &CpuSet) -> Result<Loaded> {
    for (newer, older) in [
        ("scx_bpf_dsq_insert", "scx_bpf_dispatch"),
        ("scx_bpf_dsq_insert_vtime", "scx_bpf_dispatch_vtime"),
        ("scx_bpf_dsq_move_to_local", "scx_bpf_consume"),
    ] {
        object.alias(newer, older);
    }
    maps::declare(&mut object, layout, possible)?;
    object.set("possible_cpus", possible.len() as u64);
    let loaded = object.load()?;
    maps::fill(&loaded, layout)?;
    Ok(loaded)
}

/// Checks that this kernel accepts the scheduler for a machine, which need not be this one. Nothing is put in force.
///
/// # Errors
/// [`Error::NotBuilt`], [`Error::OneCluster`], or [`Error::Bpf`] with what the kernel said.
pub fn check(machine: &Machine) -> Result {
    let layout = Layout::of(machine).ok_or(Error::OneCluster)?;
    load(Loader::new(object()?)?, &layout, &machine.online).map(drop)
}

/// Returns the number of a policy in the BPF program.
const fn number(policy: FixedPolicy) -> u64 {
    match policy {
        FixedPolicy::Spread => 0,
        FixedPolicy::Pack => 1,
    }
}
