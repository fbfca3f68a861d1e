//! How much memory so many light processes will take, from two small runs, and whether that is there.

use crate::experiment::observe::Observer;
use manycore_host::{Tree, cgroup};
use manycore_model::{
    spawn::{Memory, Runtime},
    units,
};
use std::path::Path;

/// Memory that a runtime may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// In bytes; absent where the kernel does not tell.
    pub bytes: Option<u64>,
    /// What says so.
    pub source: String,
}

impl Room {
    /// What is available now, or what control groups leave, less a tenth for all others.
    pub fn now(observer: &Observer) -> Self {
        let available = observer.kernel().memory_bytes("MemAvailable");
        let left = Tree::open(Path::new("/")).ok().and_then(|tree| cgroup::memory_left(&tree));
        let less = |bytes: u64| bytes - bytes / 10;
        match (available, left) {
            (Some(available), Some(left)) if left < available => {
                Self { bytes: Some(less(left)), source: "what control groups leave, less a tenth".to_owned() }
            }
            (available, _) => {
                Self { bytes: available.map(less), source: "available memory less a tenth".to_owned() }
            }
        }
    }

    /// For people: `21 GiB (available memory less a tenth)`.
    pub fn shown(&self) -> String {
        format!("{} ({})", units::bytes(self.bytes.unwrap_or(0)), self.source)
    }
}

/// What a runtime takes from the machine: the larger of what its control group is charged with and of what its
/// processes have.
pub fn needed(memory: &Memory) -> u64 {
    let processes = memory.pss_bytes.unwrap_or(memory.rss_bytes) + memory.kernel_bytes.unwrap_or(0);
    processes.max(memory.group_bytes.unwrap_or(0))
}

/// Bytes of a runtime without light processes, and of each of these, from two runs.
fn line(pilots: &[(u64, u64)]) -> Option<(f64, f64)> {
    let &[(few, small), (many, large)] = pilots else { return None };
    let each = (large as f64 - small as f64).max(0.0) / (many.saturating_sub(few)).max(1) as f64;
    Some((large as f64 - each * many as f64, each))
}

/// How many fit into `bytes`; absent where nothing tells.
pub fn fits(pilots: &[(u64, u64)], bytes: u64) -> Option<u64> {
    let (base, each) = line(pilots).filter(|(_, each)| *each > 0.0)?;
    Some(((bytes as f64 - base).max(0.0) / each) as u64)
}

/// Why `count` light processes are not started; absent where they fit, or nothing tells.
pub fn refusal(runtime: Runtime, count: u64, pilots: &[(u64, u64)], room: &Room) -> Option<String> {
    let (base, each) = line(pilots)?;
    let needed = (base + each * count as f64) as u64;
    let bytes = room.bytes.filter(|&bytes| needed > bytes)?;
    let most = fits(pilots, bytes).unwrap_or(0);
    Some(format!(
        "{count} of {} would take {}: {each:.0} bytes each (pilot runs of {} and {}) and {} of the runtime itself. There \
         are {}, enough for {most}: ask for fewer, or have a control group stop it at the limit (--force)",
        runtime.name(),
        units::bytes(needed),
        pilots[0].0,
        pilots[1].0,
        units::bytes(base.max(0.0) as u64),
        room.shown()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: u64) -> Room {
        Room { bytes: Some(bytes), source: "available memory less a tenth".to_owned() }
    }

    #[test]
    fn what_will_not_fit_is_refused_with_the_arithmetic() {
        // 40 MB and 2,700 bytes each.
        let pilots = [(1000, 42_700_000), (10_000, 67_000_000)];
        assert_eq!(fits(&pilots, 1_000_000_000), Some(355_555));
        assert_eq!(refusal(Runtime::Beam, 355_555, &pilots, &room(1_000_000_000)), None);
        let why = refusal(Runtime::Beam, 1_000_000, &pilots, &room(1_000_000_000)).unwrap();
        for part in [
            "1000000 of beam",
            "2.6 GiB",
            "2700 bytes each",
            "1000 and 10000",
            "38.1 MiB",
            "enough for 355555",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }

    #[test]
    fn where_nothing_tells_nothing_is_refused() {
        assert_eq!(refusal(Runtime::Go, u64::MAX, &[], &room(1)), None);
        assert_eq!(refusal(Runtime::Go, u64::MAX, &[(10, 5), (100, 5)], &Room::default()), None);
        assert_eq!(fits(&[(10, 5), (100, 5)], 1000), None, "no memory each: no ceiling");
        assert_eq!(fits(&[(10, 100), (100, 1000)], 0), Some(0));
    }

    #[test]
    fn the_larger_of_charge_and_sum_is_needed() {
        let memory =
            Memory { pss_bytes: Some(10), rss_bytes: 12, kernel_bytes: Some(5), ..Memory::default() };
        assert_eq!(needed(&memory), 15);
        assert_eq!(needed(&Memory { group_bytes: Some(99), ..memory }), 99);
        assert_eq!(needed(&Memory { pss_bytes: None, ..memory }), 17);
    }
}
