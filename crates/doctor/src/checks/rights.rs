//! Rights of this process, and limits that apply to it.

use super::{Maker, root_command};
use crate::{
    Check, Facts, Fix, State, Topic,
    facts::{GroupAccess, RightsFacts},
};

const MAKER: Maker = Maker(Topic::Rights);

/// Capabilities that subcommands use, with their bits (`linux/capability.h`).
const CAPABILITIES: [(&str, u32); 8] = [
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_KILL", 5),
    ("CAP_NET_ADMIN", 12),
    ("CAP_IPC_LOCK", 14),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_NICE", 23),
    ("CAP_SYS_RESOURCE", 24),
];

/// The value of `kernel.perf_event_paranoid` up to which users can sample on all CPUs' user code.
const MAX_PARANOID: i32 = 1;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let rights = &facts.rights;
    let hidden = rights.hidepid.as_ref().map(|hidepid| hidden_processes(rights, hidepid));
    let checks = [
        root(rights),
        cpus(rights),
        cgroups(facts),
        cpuset(facts),
        memory(facts),
        process_events(rights),
        paranoid(facts),
    ];
    checks.into_iter().chain(hidden).collect()
}

fn hidden_processes(rights: &RightsFacts, hidepid: &str) -> Check {
    let used_by = ["audit", "top", "vm", "guard", "pin", "qos", "sched"];
    let fix = if rights.is_root {
        Fix::Advice(
            "run it with CAP_SYS_PTRACE, without which /proc hides processes from root, too".to_owned(),
        )
    } else {
        Fix::Command("sudo manycore SUBCOMMAND".to_owned())
    };
    MAKER.available("other processes", &used_by, format!("hidden by /proc (hidepid={hidepid})")).lacking(
        State::Partial,
        "processes of other users are neither shown nor found",
        fix,
    )
}

/// Returns the capabilities among [`CAPABILITIES`] that this process does not have.
fn missing_capabilities(rights: &RightsFacts) -> Vec<&'static str> {
    let lacks = |bit: u32| rights.capabilities >> bit & 1 == 0;
    CAPABILITIES.iter().filter(|(_, bit)| lacks(*bit)).map(|(name, _)| *name).collect()
}

/// Returns two capabilities, or one of more and how many there are, so that they fit into a table.
fn named(capabilities: &[&str]) -> String {
    match capabilities {
        [first, _, rest @ ..] if !rest.is_empty() => format!("{first} and {} more", rest.len() + 1),
        few => few.join(", "),
    }
}

fn root(rights: &RightsFacts) -> Check {
    let missing = missing_capabilities(rights);
    let used_by = [
        "run",
        "pin",
        "audit",
        "irq",
        "qos",
        "vm",
        "guard",
        "falseshare",
        "density",
        "sched",
        "top",
        "trace",
    ];
    let check = |found: &str| MAKER.available("root", &used_by, found);
    match (rights.is_root, missing.is_empty()) {
        (true, true) => check("root with all needed capabilities"),
        (true, false) => check(&format!("root without {}", named(&missing)))
            .lacking(
                State::Partial,
                format!("what needs {} is refused", missing.join(", ")),
                Fix::Advice(
                    "run it on the host, or in a container with these capabilities (podman run --privileged)".to_owned(),
                ),
            ),
        (false, _) => check("an ordinary user").lacking(
            State::Partial,
            "pin, guard and audit reach only your own processes; irq place, qos and trace are refused; vm and top see \
             less; density cannot limit instances; sched run works only with --with affinity. Measurements of your own \
             commands, and reports, need no root",
            Fix::Command("sudo manycore SUBCOMMAND".to_owned()),
        ),
    }
}

fn cpus(rights: &RightsFacts) -> Check {
    let (usable, online) = (rights.usable_cpus, rights.online_cpus);
    let quota =
        rights.quota_cpus.map_or_else(|| "no quota".to_owned(), |cpus| format!("quota of {cpus:.1} CPUs"));
    let check = MAKER.available(
        "CPUs",
        &["eval", "bench", "compare", "scale", "tune", "spawn", "plan", "run"],
        format!("{usable} of {online} usable, {quota}"),
    );
    if usable == online && rights.quota_cpus.is_none() {
        return check;
    }
    check.lacking(
        State::Partial,
        "measurements and placements cover only these CPUs and this CPU time, not the machine",
        Fix::Advice(format!(
            "start it outside of this limit ({}): in a login shell of the host, or a container without a limit",
            rights.limit
        )),
    )
}

fn cgroups(facts: &Facts) -> Check {
    let check = |found| MAKER.available("control groups", &["run", "pin", "spawn", "guard", "audit"], found);
    match (facts.rights.cgroups.v1, facts.rights.cgroups.v2) {
        (false, true) => check("version 2"),
        (true, true) => check("versions 1 and 2 mounted"),
        (true, false) => check("version 1"),
        (false, false) => check("none mounted").lacking(
            State::Missing,
            "run finds processes that hide from it less surely; no cpusets, no memory limits, no limits in audit",
            root_command(facts, "mount -t cgroup2 none /sys/fs/cgroup"),
        ),
    }
}

fn cpuset(facts: &Facts) -> Check {
    let cost = "run and pin set affinities only, which a process can change; pin cannot bind memory";
    if facts.rights.resets_affinities {
        let found = "not used: kernels before 6.2 reset the affinities of tasks whose cpuset changes";
        return MAKER.available("cpusets", &["run", "pin"], found).lacking(
            State::Partial,
            "run and pin set affinities only, which a process can change",
            Fix::Advice("use Linux 6.2 or later".to_owned()),
        );
    }
    group_access("cpusets", &["run", "pin"], cost, ("cpuset", &facts.rights.cpuset), facts)
}

fn memory(facts: &Facts) -> Check {
    let cost = "spawn --test-capacity and counts beyond the available memory are refused";
    group_access("memory limits", &["spawn"], cost, ("memory", &facts.rights.memory), facts)
}

fn group_access(
    name: &str,
    used_by: &[&str],
    cost: &str,
    (controller, access): (&str, &GroupAccess),
    facts: &Facts,
) -> Check {
    let check = |found: String| MAKER.available(name, used_by, found);
    let delegated = format!("systemd-run --scope -p Delegate={controller} manycore SUBCOMMAND");
    match access {
        GroupAccess::Writable(_) => check("groups can be created".to_owned()),
        GroupAccess::ReadOnly(folder) if facts.rights.is_root => check("groups cannot be created".to_owned())
            .lacking(
                State::Missing,
                format!("{cost} ({} is read-only)", folder.display()),
                Fix::Advice("run it on the host, or in a container with /sys/fs/cgroup writable".to_owned()),
            ),
        GroupAccess::ReadOnly(folder) => check("no right to create groups".to_owned()).lacking(
            State::Missing,
            format!("{cost} ({} is not writable)", folder.display()),
            root_command(facts, "manycore SUBCOMMAND"),
        ),
        GroupAccess::Unavailable(why) => check(format!("no {controller} controller here")).lacking(
            State::Missing,
            format!("{cost} ({why})"),
            root_command(facts, &delegated),
        ),
        GroupAccess::Unknown => check("not examined".to_owned()).lacking(
            State::Missing,
            cost,
            Fix::Advice("mount control groups first".to_owned()),
        ),
    }
}

fn process_events(rights: &RightsFacts) -> Check {
    let used_by = ["run", "pin"];
    if rights.process_events {
        return MAKER.available("process events", &used_by, "the kernel reports new tasks");
    }
    let fix = if rights.is_root {
        Fix::Advice(
            "run it in the host's network and process namespaces (podman run --net=host --pid=host), with a kernel \
             with CONFIG_PROC_EVENTS"
                .to_owned(),
        )
    } else {
        Fix::Command("sudo manycore SUBCOMMAND".to_owned())
    };
    MAKER.available("process events", &used_by, "not delivered here").lacking(
        State::Missing,
        "run and pin find new threads by polling, 1 to 8 ms later",
        fix,
    )
}

fn paranoid(facts: &Facts) -> Check {
    let rights = &facts.rights;
    let check = |found: String| MAKER.available("perf events", &["falseshare"], found);
    let cost = "falseshare --engine sampling is refused; emulation does not need it";
    match rights.perf_event_paranoid {
        None => check("the kernel has none".to_owned()).lacking(
            State::Absent,
            cost,
            Fix::Advice("needs a kernel with CONFIG_PERF_EVENTS".to_owned()),
        ),
        Some(level) if level <= MAX_PARANOID => check(format!("perf_event_paranoid is {level}")),
        Some(level) if rights.is_root && !missing_capabilities(rights).contains(&"CAP_SYS_ADMIN") => {
            check(format!("perf_event_paranoid is {level}; root may use them"))
        }
        Some(level) => check(format!("perf_event_paranoid is {level}")).lacking(
            State::Missing,
            cost,
            root_command(facts, &format!("sysctl kernel.perf_event_paranoid={MAX_PARANOID}")),
        ),
    }
}
