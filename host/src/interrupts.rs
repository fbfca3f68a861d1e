//! How often each interrupt came on each CPU (`/proc/interrupts`, `Documentation/filesystems/proc.rst`).

use crate::tree::Tree;
use manycore_model::{CpuId, audit::Interrupt};

/// Longest table that is read: a thousand interrupts on 1,024 CPUs.
const LARGEST: usize = 16 << 20;

/// One interrupt that has a number, since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Its number.
    pub number: u32,
    /// Who handles it (`eth0-TxRx-3`, `ehci_hcd:usb1, ehci_hcd:usb2`).
    pub name: String,
    /// How often it came, for each online CPU.
    pub per_cpu: Vec<(CpuId, u64)>,
}

/// All interrupts that have a number, which those between CPUs and the local timers of x86 have not; none where
/// the file cannot be read.
pub fn counts(tree: &Tree) -> Vec<Counts> {
    parse(&tree.read_part("proc/interrupts", LARGEST, str::to_owned).unwrap_or_default())
}

/// Interrupts of devices that came between two looks, `seconds` apart. Timers and performance counters of
/// Arm have numbers too, and are left out.
pub fn rates(before: &[Counts], after: &[Counts], seconds: f64) -> Vec<Interrupt> {
    let is_device = |counts: &&Counts| {
        let name = counts.name.to_ascii_lowercase();
        !name.contains("timer") && !name.contains("pmu")
    };
    let rate = |late: &Counts| {
        let early = before.iter().find(|early| early.number == late.number && early.name == late.name)?;
        let came = late.per_cpu.iter().filter_map(|&(cpu, count)| {
            let at = early.per_cpu.binary_search_by_key(&cpu, |&(other, _)| other).ok()?;
            let more = count.checked_sub(early.per_cpu[at].1).filter(|&more| more > 0)?;
            Some((cpu, more as f64 / seconds))
        });
        let per_second = came.collect();
        Some(Interrupt { number: late.number, name: late.name.clone(), per_second })
    };
    after.iter().filter(is_device).filter_map(rate).filter(|irq| !irq.per_second.is_empty()).collect()
}

/// A head of CPU names, then rows `24:  1  0  IO-APIC  5-edge  ACPI:Ged`, in which two blanks stand before the
/// handlers.
fn parse(text: &str) -> Vec<Counts> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<CpuId> =
        head.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
    lines.filter_map(|line| row(line, &cpus)).collect()
}

fn row(line: &str, cpus: &[CpuId]) -> Option<Counts> {
    let (number, mut rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    let mut per_cpu = Vec::with_capacity(cpus.len());
    for &cpu in cpus {
        rest = rest.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        per_cpu.push((cpu, rest[..end].parse().ok()?));
        rest = &rest[end..];
    }
    let name = rest.trim().rsplit("  ").next().unwrap_or_default().trim().to_owned();
    Some(Counts { number, name, per_cpu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const X86: &str = "           CPU0       CPU2
  0:         12          0   IO-APIC   2-edge      timer
 24:          1          7  PCI-MSIX-0000:00:05.0   1-edge      virtio4-input.0
 25:          3          0   IO-APIC  16-fasteoi   ehci_hcd:usb1, ehci_hcd:usb2
NMI:          0          0   Non-maskable interrupts
LOC:      48838      35870   Local timer interrupts
ERR:          0
";

    #[test]
    fn rows_with_numbers_are_read() {
        let counts = parse(X86);
        let names: Vec<&str> = counts.iter().map(|counts| counts.name.as_str()).collect();
        assert_eq!(names, ["timer", "virtio4-input.0", "ehci_hcd:usb1, ehci_hcd:usb2"]);
        assert_eq!(counts[1].per_cpu, [(0, 1), (2, 7)]);
        let arm = "   CPU0   CPU1\n 11:  5  6  GICv3  27 Level     arch_timer\n 12:  1  1  ITS-MSI 524288 Edge      nvme0q1\n";
        assert_eq!(
            parse(arm).iter().map(|counts| counts.name.as_str()).collect::<Vec<_>>(),
            ["arch_timer", "nvme0q1"]
        );
    }

    #[test]
    fn rates_are_those_of_devices() {
        let later = X86.replace(" 7 ", " 307 ").replace(" 12 ", " 999 ");
        let rates = rates(&parse(X86), &parse(&later), 2.0);
        assert_eq!(
            rates,
            [Interrupt {
                number: 24,
                name: "virtio4-input.0".into(),
                per_second: BTreeMap::from([(2, 150.0)])
            }]
        );
    }

    #[test]
    fn this_machine_has_interrupts() {
        let tree = Tree::open(std::path::Path::new("/")).unwrap();
        if tree.read("proc/interrupts").is_none() {
            eprintln!("SKIPPED: /proc/interrupts cannot be read");
            return;
        }
        assert!(!counts(&tree).is_empty());
    }

    proptest! {
        #[test]
        fn any_table_is_read(text in "([A-Z0-9: a-z.,-]|\n){0,200}") {
            let counts = parse(&text);
            let _ = rates(&counts, &counts, 1.0);
        }
    }
}
