//! Interfaces of the kernel.

use super::{Maker, not_here, root_command};
use crate::{Check, Facts, Fix, State, Topic, facts::ResctrlFacts};

const MAKER: Maker = Maker(Topic::Kernel);

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    vec![pressure(facts), schedstat(facts), resctrl(facts), sched_ext(facts), btf(facts)]
}

fn pressure(facts: &Facts) -> Check {
    let pressure = facts.kernel.pressure;
    let found = match (pressure.cpu, pressure.memory) {
        (true, true) => return MAKER.available("PSI", &["eval", "guard"], "CPU and memory"),
        (true, false) => "CPU only",
        (false, true) => "memory only",
        (false, false) => "no /proc/pressure",
    };
    let state = if pressure.cpu || pressure.memory { State::Partial } else { State::Missing };
    MAKER.available("PSI", &["eval", "guard"], found).lacking(
        state,
        "records have no waiting time of the machine; guard decides by available memory alone",
        Fix::Advice("boot with psi=1 (kernel with CONFIG_PSI)".to_owned()),
    )
}

fn schedstat(facts: &Facts) -> Check {
    let used_by = ["eval", "bench", "compare", "scale", "tune"];
    let (found, state, cost) = match (facts.kernel.scheduler.run_delay, facts.kernel.scheduler.migrations) {
        (true, true) => return MAKER.available("scheduler counters", &used_by, "run delay and migrations"),
        (true, false) => ("run delay, no migrations", State::Partial, "records do not count migrations"),
        (false, true) => ("migrations, no run delay", State::Partial, "records do not count run delay"),
        (false, false) => ("none", State::Missing, "records count neither run delay nor migrations"),
    };
    MAKER.available("scheduler counters", &used_by, found).lacking(
        state,
        format!("{cost}: other work on the CPUs is seen less surely"),
        Fix::Advice("needs a kernel with CONFIG_SCHEDSTATS and CONFIG_SCHED_DEBUG".to_owned()),
    )
}

fn resctrl(facts: &Facts) -> Check {
    let cost = "qos cannot limit cache or memory bandwidth; vm top and qos watch do not show their use";
    let check = |found: String| MAKER.available("resctrl", &["qos", "vm"], found);
    match &facts.kernel.resctrl {
        ResctrlFacts::Mounted(point, true) => check(format!("mounted at {}", point.display())),
        ResctrlFacts::Mounted(point, false) => check(format!("{} is not writable", point.display())).lacking(
            State::Partial,
            "qos set, prove and clear are refused; qos show works where the files can be read",
            Fix::Command("sudo manycore qos show".to_owned()),
        ),
        ResctrlFacts::NotMounted => check("not mounted".to_owned()).lacking(
            State::Missing,
            cost,
            root_command(facts, "mount -t resctrl resctrl /sys/fs/resctrl"),
        ),
        ResctrlFacts::Unsupported => check("the kernel offers none".to_owned()).lacking(
            State::Absent,
            cost,
            not_here(
                facts,
                "without RDT, PQoS or MPAM; run it on the host",
                "it needs Intel RDT, AMD PQoS or Arm MPAM, and a kernel with CONFIG_X86_CPU_RESCTRL (openEuler for Arm: \
                 boot with arm64.mpam or mpam=acpi)",
            ),
        ),
    }
}

fn sched_ext(facts: &Facts) -> Check {
    let check = |found: String| MAKER.available("sched_ext", &["sched"], found);
    match facts.kernel.sched_ext.as_deref() {
        Some("") => check("no scheduler loaded".to_owned()),
        Some(name) => check(format!("{name} schedules this machine")),
        None => check("the kernel cannot load schedulers".to_owned()).lacking(
            State::Absent,
            "sched run works only with --with affinity",
            Fix::Advice("needs Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT".to_owned()),
        ),
    }
}

fn btf(facts: &Facts) -> Check {
    let check = |found: &str| MAKER.available("BPF types (BTF)", &["sched", "top", "trace"], found);
    if facts.kernel.btf {
        return check("/sys/kernel/btf/vmlinux");
    }
    check("no /sys/kernel/btf/vmlinux").lacking(
        State::Absent,
        "trace and top --bpf do not work, and sched run only with --with affinity",
        Fix::Advice("needs a kernel with CONFIG_DEBUG_INFO_BTF".to_owned()),
    )
}
