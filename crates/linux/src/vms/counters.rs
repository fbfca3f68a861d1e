//! Kernel counters of emulators and of the host (`proc(5)`; VM exits: `Documentation/virt/kvm`).

use super::{CpuTime, HostReading, VcpuReading, memory};
use crate::{clock::now_ns, counters::ticks_per_second};
use manycore_topology::sys_tree::SysTree;
use rustix::param::page_size;
use std::collections::BTreeMap;

/// Maximum size of a `numa_maps` file, in bytes; enough for about a million mappings.
const MAX_NUMA_MAPS_BYTES: usize = 256 << 20;
/// Directory of KVM's statistics; readable only by root.
const KVM: &str = "sys/kernel/debug/kvm";

/// A line of `/proc/PID/stat`, or of a task below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub time: CpuTime,
    pub has_ended: bool,
    pub threads: u32,
    /// Start time, in ticks since boot.
    pub started: u64,
    /// RSS in bytes, without huge pages.
    pub resident_bytes: u64,
    pub cpu: Option<u32>,
}

/// Returns the `stat` of `task` (`PID` or `PID/task/TID`).
pub(super) fn stat(tree: &SysTree, task: &str) -> Option<Stat> {
    let text = tree.read(&format!("proc/{task}/stat"))?;
    // The second field is a name in parentheses that may contain any characters.
    let mut fields = [""; 50];
    let mut words = text.rsplit_once(')')?.1.split_ascii_whitespace();
    fields.iter_mut().skip(3).for_each(|field| *field = words.next().unwrap_or_default());
    let number = |at: usize| fields[at].parse::<u64>().ok();
    let tick = 1_000_000_000 / ticks_per_second();
    Some(Stat {
        time: CpuTime {
            user_ns: number(14)? * tick,
            system_ns: number(15)? * tick,
            guest_ns: number(43).unwrap_or(0) * tick,
        },
        has_ended: ["Z", "X"].contains(&fields[3]),
        threads: number(20)? as u32,
        started: number(22)?,
        resident_bytes: number(24)? * page_size() as u64,
        cpu: number(39).map(|cpu| cpu as u32),
    })
}

/// Reads `schedstat` of a thread: nanoseconds on a CPU, nanoseconds waiting for one, number of times it was
/// scheduled onto a CPU. All are absent if the kernel has no such file (`CONFIG_SCHED_INFO`). Returns `None`
/// if there is no such thread.
pub(super) fn thread(tree: &SysTree, pid: u32, tid: u32) -> Option<VcpuReading> {
    let folder = format!("proc/{pid}/task/{tid}");
    let Some(text) = tree.read(&format!("{folder}/schedstat")) else {
        return tree.is_folder(&folder).then(|| VcpuReading { tid, ..VcpuReading::default() });
    };
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten();
    Some(VcpuReading { tid, busy_ns: next(), delay_ns: next(), switches: next(), time: None, cpu: None })
}

/// Returns the bytes of huge pages (`HugetlbPages` of `status`), which RSS does not include.
pub(super) fn huge_pages(tree: &SysTree, pid: u32) -> Option<u64> {
    let text = tree.read(&format!("proc/{pid}/status"))?;
    kibibytes(&text, "HugetlbPages:")
}

/// Returns the user of a process (`Uid` of `status`: the first value, the real user id).
pub(super) fn real_user(tree: &SysTree, pid: u32) -> Option<u32> {
    let text = tree.read(&format!("proc/{pid}/status"))?;
    text.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the bytes of the line `NAME 12 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Returns the bytes on each node (`numa_maps`); empty if the file cannot be read.
pub(super) fn by_node(tree: &SysTree, pid: u32) -> BTreeMap<u32, u64> {
    let text = tree.read_part(&format!("proc/{pid}/numa_maps"), MAX_NUMA_MAPS_BYTES, str::to_owned);
    memory::by_node(&text.unwrap_or_default())
}

/// Number of VM exits of guests, by process id, if KVM's statistics can be read.
pub(super) struct VmExits<'a> {
    tree: &'a SysTree,
    /// Directory name `PID-DESCRIPTOR` of each guest.
    folders: BTreeMap<u32, String>,
}

/// Lists the guests in KVM's statistics.
pub(super) fn exits(tree: &SysTree) -> VmExits<'_> {
    let folder = |name: String| Some((name.split_once('-')?.0.parse().ok()?, name));
    VmExits { tree, folders: tree.list(KVM).into_iter().filter_map(folder).collect() }
}

impl VmExits<'_> {
    /// Returns the number of VM exits of all virtual CPUs of a process.
    pub(super) fn count(&self, pid: u32) -> Option<u64> {
        self.tree.number(&format!("{KVM}/{}/exits", self.folders.get(&pid)?))
    }
}

/// Reads the counters of the host (the first line of `/proc/stat`, and `/proc/meminfo`).
pub fn host_counters(tree: &SysTree) -> HostReading {
    let line = tree.read_part("proc/stat", 4096, |text| text.lines().next().unwrap_or_default().to_owned());
    let line = line.unwrap_or_default();
    let tick = 1_000_000_000 / ticks_per_second();
    let numbers: Vec<u64> =
        line.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let at = |place: usize| numbers.get(place).copied().unwrap_or(0) * tick;
    let memory = tree.read_part("proc/meminfo", 4096, str::to_owned).unwrap_or_default();
    // The fields are user nice system idle iowait irq softirq steal guest guest_nice. user and nice include
    // the guests.
    HostReading {
        at_ns: now_ns(),
        cpus: tree.cpu_list("sys/devices/system/cpu/online").ok().flatten().map_or(0, |cpus| cpus.len()),
        busy_ns: [0, 1, 2, 5, 6, 7].map(at).iter().sum(),
        guest_ns: at(8) + at(9),
        steal_ns: at(7),
        memory_bytes: kibibytes(&memory, "MemTotal:").unwrap_or(0),
        available_bytes: kibibytes(&memory, "MemAvailable:").unwrap_or(0),
    }
}
