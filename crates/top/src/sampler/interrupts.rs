//! Interrupts and softirqs by CPU.

use super::names::Names;
use crate::{resources::InterruptSample, sample::CpuTimes};
use manycore_linux::interrupts::counts::{self, InterruptCounts};
use manycore_topology::{CpuId, SysTree};

/// Most interrupts that are read; a machine has some thousand.
const MOST_ROWS: usize = 16_384;

/// Reads interrupts, then softirqs, into `into`, with counts in the order of `cpus`. A file that was read while a CPU
/// came or went, so that it has no column for one of `cpus`, is left out.
pub(super) fn read(tree: &SysTree, cpus: &[CpuTimes], names: &mut Names, into: &mut Vec<InterruptSample>) {
    into.clear();
    for (prefix, counts) in [("", counts::counts(tree)), ("softirq ", counts::softirqs(tree))] {
        if let Ok(Some(counts)) = counts
            && let Some(columns) = columns(&counts, cpus)
        {
            let room = MOST_ROWS.saturating_sub(into.len());
            into.extend(counts.rows.into_iter().take(room).map(|row| {
                let is_by_cpu = row.counts.len() == counts.cpus.len();
                InterruptSample {
                    name: names.get(&format!("{prefix}{}", row.name)),
                    handlers: names.get(&row.handlers),
                    counts: if is_by_cpu {
                        columns.iter().map(|&column| row.counts[column]).collect()
                    } else {
                        row.counts
                    },
                }
            }));
        }
    }
}

/// Returns the column of each CPU.
fn columns(counts: &InterruptCounts, cpus: &[CpuTimes]) -> Option<Vec<usize>> {
    let column = |cpu: CpuId| counts.cpus.iter().position(|&one| one == cpu);
    cpus.iter().map(|times| column(times.cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;
    use std::sync::Arc;

    const INTERRUPTS: &str = "      CPU0  CPU2\n 24:  5  7  PCI-MSI-0000:00:03.0  1-edge  eth0-\u{1b}rx\nLOC: 1 2  Local timer interrupts\nERR: 3";
    const SOFTIRQS: &str = "      CPU0 CPU1 CPU2\n NET_RX: 10 11 12\n";

    fn read_tree(cpus: &[CpuId], names: &mut Names) -> Vec<InterruptSample> {
        let mut capture = Capture::default();
        capture.add_file("proc/interrupts", INTERRUPTS);
        capture.add_file("proc/softirqs", SOFTIRQS);
        let cpus: Vec<CpuTimes> = cpus.iter().map(|&cpu| CpuTimes { cpu, ..CpuTimes::default() }).collect();
        let mut into = Vec::new();
        read(&SysTree::from_capture(capture), &cpus, names, &mut into);
        into
    }

    #[test]
    fn counts_are_in_the_order_of_online_cpus() {
        let mut names = Names::default();
        let rows = read_tree(&[0, 2], &mut names);
        let shown: Vec<(&str, &str, &[u64])> =
            rows.iter().map(|row| (&*row.name, &*row.handlers, &row.counts[..])).collect();
        assert_eq!(
            shown,
            [
                ("24", "eth0-\u{fffd}rx", &[5, 7][..]),
                ("LOC", "Local timer interrupts", &[1, 2]),
                ("ERR", "", &[3]),
                ("softirq NET_RX", "", &[10, 12]),
            ]
        );
        let again = read_tree(&[0, 2], &mut names);
        assert!(rows.iter().zip(&again).all(|(a, b)| Arc::ptr_eq(&a.name, &b.name)));
        // CPU 1 is online in /proc/stat, and not yet in /proc/interrupts.
        let shown = read_tree(&[0, 1, 2], &mut names);
        assert_eq!(
            shown.iter().map(|row| (&*row.name, &row.counts[..])).collect::<Vec<_>>(),
            [("softirq NET_RX", &[10, 11, 12][..])]
        );
    }
}
