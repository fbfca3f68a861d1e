//! The domains of `/proc/schedstat` (`Documentation/scheduler/sched-stats.rst`).
//!
//! `domainM [NAME] MASK COUNTERS...` follows the line of each CPU, smallest domain first. The name exists since version
//! 17 of the file (Linux 6.14).

use manycore_topology::{CpuId, CpuSet, SysTree};
use std::collections::BTreeMap;

/// Maximum size of the file in bytes. With 4,096 CPUs it has about 30 MB, most of them masks.
const MAX_BYTES: usize = 128 << 20;

/// A domain of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuDomain {
    /// The kernel's name, in files that have it.
    pub name: Option<String>,
    /// CPUs of the domain.
    pub cpus: CpuSet,
}

/// The domains of each CPU, smallest first.
pub(super) type CpuDomains = BTreeMap<CpuId, Vec<CpuDomain>>;

/// Reads the domains of all CPUs; `None` without the file.
pub(super) fn read(tree: &SysTree) -> Option<CpuDomains> {
    Some(parse(&tree.read_part("proc/schedstat", MAX_BYTES, without_counters)?))
}

/// Removes the counters, which no reader of a recording needs.
fn without_counters(text: &str) -> String {
    let kept = text.lines().map(|line| {
        let words = if line.starts_with("cpu") { 1 } else { 3 };
        line.split_whitespace().take(words).collect::<Vec<_>>().join(" ")
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// Parses the file. A line that cannot be parsed is left out.
fn parse(text: &str) -> CpuDomains {
    let mut found = CpuDomains::new();
    let (mut has_names, mut cpu) = (false, None);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if first == "version" {
            has_names = words.next().and_then(|version| version.parse().ok()).is_some_and(|it: u32| it >= 17);
        } else if let Some(number) = first.strip_prefix("cpu") {
            cpu = number.parse().ok();
            if let Some(cpu) = cpu {
                found.entry(cpu).or_default();
            }
        } else if first.starts_with("domain") {
            let name = if has_names { words.next().map(str::to_owned) } else { None };
            let mask = words.next().and_then(|mask| CpuSet::from_mask(mask).ok());
            let domains = cpu.and_then(|cpu| found.get_mut(&cpu));
            if let (Some(cpus), Some(domains)) = (mask, domains) {
                domains.push(CpuDomain { name, cpus });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_exist_since_version_17() {
        let new =
            parse("version 17\ntimestamp 1\ncpu0 0 0\ndomain0 CLS 000f 0 0\ndomain1 MC 00ff 0\ncpu9 0\n");
        let domain = |name: &str, cpus: &str| CpuDomain {
            name: (!name.is_empty()).then(|| name.to_owned()),
            cpus: cpus.parse().unwrap(),
        };
        assert_eq!(new[&0], [domain("CLS", "0-3"), domain("MC", "0-7")]);
        assert_eq!(new[&9], []);
        let old = parse("version 15\ncpu0 0 0\ndomain0 00000000,0000000f 0 0\n");
        assert_eq!(old[&0], [domain("", "0-3")]);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_and_counters_are_not_needed(
            text in "(version 1[5-8]\n)?(cpu[0-9]{1,3}( 0){0,3}\n|domain[0-9]( MC)? [0-9a-f,]{0,9} 0\n|\\PC{0,20}\n){0,9}"
        ) {
            prop_assert_eq!(parse(&text), parse(&without_counters(&text)));
        }
    }
}
