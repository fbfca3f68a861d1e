//! Reads how many interrupts each CPU took (`/proc/interrupts`, `Documentation/filesystems/proc.rst`).

use manycore_topology::{CpuId, Error, sys_tree::SysTree};
use std::collections::BTreeMap;

const FILE: &str = "proc/interrupts";
const SOFTIRQS: &str = "proc/softirqs";
/// Maximum size in bytes: some thousand interrupts of a machine with some thousand CPUs, eleven characters
/// each.
const MAX_BYTES: usize = 256 << 20;

/// Counters since boot, or their increase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptCounts {
    /// CPUs that are online, in the order of the columns.
    pub cpus: Vec<CpuId>,
    /// Interrupts of devices by number, then those of the architecture by name.
    pub rows: Vec<InterruptRow>,
}

/// The counts of one interrupt: a line of `/proc/interrupts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptRow {
    /// A number (`/proc/irq/N`) for a device, a name (`LOC`) for the architecture.
    pub name: String,
    /// Counts by CPU, in the order of [`InterruptCounts::cpus`]. Fewer if the kernel counts for the whole machine
    /// (`ERR`).
    pub counts: Vec<u64>,
    /// Names of the handlers (actions, separated by `, `), or the kernel's description. Empty without a
    /// handler.
    pub handlers: String,
}

/// Reads the current counters; absent if the tree has no such file.
///
/// # Errors
/// The first line does not name CPUs.
pub fn counts(tree: &SysTree) -> Result<Option<InterruptCounts>, Error> {
    read(tree, FILE)
}

/// Reads the current counters of softirqs (`NET_RX`, `TIMER`), with columns for all possible CPUs; absent if the tree has
/// no such file.
///
/// # Errors
/// The first line does not name CPUs.
pub fn softirqs(tree: &SysTree) -> Result<Option<InterruptCounts>, Error> {
    read(tree, SOFTIRQS)
}

fn read(tree: &SysTree, file: &str) -> Result<Option<InterruptCounts>, Error> {
    let Some(text) = tree.read_part(file, MAX_BYTES, str::to_owned) else { return Ok(None) };
    parse(&text).map(Some).map_err(|problem| tree.malformed(file, &problem))
}

fn parse(text: &str) -> Result<InterruptCounts, String> {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let cpu = |word: &str| word.strip_prefix("CPU")?.parse::<CpuId>().ok();
    let cpus: Option<Vec<CpuId>> = head.split_whitespace().map(cpu).collect();
    let cpus = cpus
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| format!("the first line is {head:?}, expected CPU0 CPU1 ..."))?;
    let rows = rest.lines().filter_map(|line| row(line, cpus.len())).collect();
    Ok(InterruptCounts { cpus, rows })
}

fn row(line: &str, cpus: usize) -> Option<InterruptRow> {
    let (name, rest) = line.split_once(':')?;
    let (mut counts, mut rest) = (Vec::new(), rest.trim());
    while counts.len() < cpus {
        let word = rest.split_whitespace().next().unwrap_or_default();
        let Ok(count) = word.parse() else { break };
        counts.push(count);
        rest = rest[word.len()..].trim_start();
    }
    let mut row = InterruptRow { name: name.trim().to_owned(), counts, handlers: rest.to_owned() };
    if row.irq().is_some() {
        actions(rest).clone_into(&mut row.handlers);
    }
    (!row.name.is_empty()).then_some(row)
}

/// Returns the actions, which follow the chip, the number on the chip and the trigger:
/// ` PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0`, `GICv3  27 Level     arch_timer`.
fn actions(text: &str) -> &str {
    let mut rest = word(text).1;
    // The name of a chip may have several words; it ends before its number, or a trigger if it has no number.
    loop {
        let (first, behind) = word(rest);
        if first.is_empty() {
            // Kernels before 4.0 have neither; two spaces precede the actions.
            return text.split_once("  ").map_or("", |(_, actions)| actions.trim());
        }
        rest = behind;
        if is_number_on_chip(first) {
            break;
        }
    }
    let (trigger, behind) = word(rest);
    let is_trigger = ["Level", "Edge"]
        .iter()
        .any(|name| trigger.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')));
    if is_trigger { behind } else { rest }
}

/// Returns the first word, and the text after it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (first, behind) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    (first, behind.trim())
}

/// Whether the word is a number on a chip: `27`, `1-edge`, `-event`.
fn is_number_on_chip(word: &str) -> bool {
    let trigger = word.trim_start_matches(|c: char| c.is_ascii_digit());
    !word.is_empty() && (trigger.is_empty() || trigger.starts_with('-'))
}

impl InterruptRow {
    /// Returns the interrupt number; absent for interrupts of the architecture.
    pub fn irq(&self) -> Option<u32> {
        self.name.parse().ok()
    }
}

impl InterruptCounts {
    /// Returns the increase since `before`. A counter that is smaller than before has restarted (it wraps at
    /// 2^32, and is freed with its device), so its value is the increase.
    pub fn since(&self, before: &Self) -> Self {
        let columns: BTreeMap<CpuId, usize> =
            before.cpus.iter().enumerate().map(|(column, &cpu)| (cpu, column)).collect();
        let rows: BTreeMap<&str, &InterruptRow> =
            before.rows.iter().map(|row| (row.name.as_str(), row)).collect();
        let grown = |row: &InterruptRow| {
            let earlier = |column: usize| {
                let old = rows.get(row.name.as_str())?;
                old.counts.get(*columns.get(self.cpus.get(column)?)?)
            };
            let counts = row.counts.iter().enumerate();
            let counts = counts.map(|(column, &now)| {
                earlier(column).and_then(|&before| now.checked_sub(before)).unwrap_or(now)
            });
            InterruptRow { counts: counts.collect(), ..row.clone() }
        };
        Self { cpus: self.cpus.clone(), rows: self.rows.iter().map(grown).collect() }
    }

    /// Returns the counts of a row by CPU; CPUs without any are left out, and so is a count of the whole
    /// machine.
    pub fn by_cpu(&self, row: &InterruptRow) -> BTreeMap<CpuId, u64> {
        let whole_machine = row.counts.len() < self.cpus.len();
        let counts = self.cpus.iter().copied().zip(row.counts.iter().copied());
        counts.filter(|(_, count)| *count > 0 && !whole_machine).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GUEST: &str = "           CPU0       CPU2
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 28:          0          0 PCI-MSIX-0000:00:01.0   0-edge
 36:          0    1019376 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 16:          7          9  IO-APIC  16-fasteoi   ehci_hcd:usb1, i801_smbus
LOC:    4590538    4654063   Local timer interrupts
ERR:          3";

    #[test]
    fn a_guests_lines_are_read() {
        let counts = parse(GUEST).unwrap();
        assert_eq!(counts.cpus, [0, 2]);
        let row = |name: &str, counts: &[u64], handlers: &str| InterruptRow {
            name: name.to_owned(),
            counts: counts.to_owned(),
            handlers: handlers.to_owned(),
        };
        assert_eq!(
            counts.rows,
            [
                row("24", &[1, 0], "ACPI:Ged"),
                row("28", &[0, 0], ""),
                row("36", &[0, 1_019_376], "virtio1-req.0"),
                row("16", &[7, 9], "ehci_hcd:usb1, i801_smbus"),
                row("LOC", &[4_590_538, 4_654_063], "Local timer interrupts"),
                row("ERR", &[3], ""),
            ]
        );
        assert_eq!(counts.by_cpu(&counts.rows[2]), BTreeMap::from([(2, 1_019_376)]));
        assert!(counts.by_cpu(&counts.rows[5]).is_empty());
    }

    /// Lines of x86-64 and aarch64, old and new kernels, Xen and Hyper-V.
    #[test]
    fn actions_are_distinguished_from_chips() {
        for (text, expected) in [
            (
                "IR-PCI-MSIX-0000:3b:00.0    4-edge      mlx5_comp3@pci:0000:3b:00.0",
                "mlx5_comp3@pci:0000:3b:00.0",
            ),
            ("GICv3  27 Level     arch_timer", "arch_timer"),
            ("GICv3  13 Edge-fasteoi     uart, 8250", "uart, 8250"),
            ("ITS-MSI 524288 Edge      nvme0q0, nvme0q1", "nvme0q0, nvme0q1"),
            ("Hyper-V PCIe MSI 4096-edge      mlx4-async", "mlx4-async"),
            ("Hyper-V PCIe MSI 4096-edge", ""),
            ("xen-dyn    -event     eth0-q0-tx", "eth0-q0-tx"),
            ("PCI-MSI-edge      eth0-TxRx-0", "eth0-TxRx-0"),
            ("IO-APIC-fasteoi   uhci_hcd:usb3, ata_piix", "uhci_hcd:usb3, ata_piix"),
            ("dummy  44  rtc 0", "rtc 0"),
            ("None", ""),
            ("", ""),
        ] {
            assert_eq!(actions(text), expected, "{text}");
        }
    }

    #[test]
    fn increases_are_counted_by_cpu_and_not_by_column() {
        let before = parse("CPU0 CPU1\n1: 5 7 C 1-edge  a\n2: 9 9 C 2-edge  b").unwrap();
        let after = parse("CPU1 CPU4\n1: 8 2 C 1-edge  a\n2: 4 0 C 2-edge  b\n3: 1 1 C 3-edge  c").unwrap();
        let grown: Vec<Vec<u64>> = after.since(&before).rows.into_iter().map(|row| row.counts).collect();
        // CPU 4 is new; the counter of 2 restarted; interrupt 3 is new.
        assert_eq!(grown, [vec![1, 2], vec![4, 0], vec![1, 1]]);
    }

    #[test]
    fn a_file_without_cpus_is_refused() {
        for text in ["", "x", "CPU", "CPU0 CPUx\n1: 5 7", "1: 5"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(CPU[0-9]{1,3} |\\PC|\n|:|[0-9]| |-|,){0,200}") {
            if let Ok(counts) = parse(&format!("CPU0 CPU1\n{text}")) {
                for row in &counts.rows {
                    prop_assert!(row.counts.len() <= 2 && !row.name.is_empty());
                }
                let grown = counts.since(&counts);
                prop_assert!(grown.rows.len() == counts.rows.len());
            }
            let _ = parse(&text);
        }

        #[test]
        fn real_files_of_kernels_are_read(
            irq in 0u32..100_000,
            counts in prop::collection::vec(any::<u32>(), 1..6),
            names in prop::collection::vec("[a-z][a-z0-9-]{0,10}(@pci:0000:3b:00.0)?", 0..4),
        ) {
            let head: Vec<String> = (0..counts.len()).map(|cpu| format!("      CPU{cpu}")).collect();
            let figures: Vec<String> = counts.iter().map(|count| format!("{count:>10} ")).collect();
            let actions = if names.is_empty() { String::new() } else { format!("  {}", names.join(", ")) };
            let text = format!("{}\n{irq:>4}: {} PCI-MSIX-0000:3b:00.0 {irq:>3}-edge    {actions}", head.concat(), figures.concat());
            let read = parse(&text).unwrap();
            prop_assert_eq!(read.rows[0].irq(), Some(irq));
            prop_assert_eq!(&read.rows[0].counts, &counts.iter().map(|&c| u64::from(c)).collect::<Vec<_>>());
            prop_assert_eq!(&read.rows[0].handlers, &names.join(", "));
        }
    }
}
