//! Reads how the machine is populated with memory modules: from the tables of the firmware (SMBIOS), which only root can read,
//! or from the drivers of memory controllers (EDAC). Serial numbers are in these tables, too; they are not kept.

use crate::{
    read::smbios::{self, ModuleSlot},
    sys_tree::SysTree,
};
use manycore_text::units::bytes;
use std::{cmp::Reverse, collections::BTreeMap};

/// The structures of the firmware, without the entry point (`Documentation/ABI/testing/sysfs-firmware-dmi-tables`).
const TABLE: &str = "sys/firmware/dmi/tables/DMI";
/// Largest table that is read. Those of large servers have some 50 KB.
const MAX_TABLE_BYTES: u64 = 1 << 20;
/// Memory controllers (`Documentation/ABI/testing/sysfs-devices-edac`).
const CONTROLLERS: &str = "sys/devices/system/edac/mc";
/// Maximum number of slots that count. Machines with eight packages have 192.
const MAX_SLOTS: usize = 1024;
/// Maximum number of kinds of modules that are named.
const MAX_KINDS: usize = 4;

/// Returns the population in words: `8 of 16 slots (1,3,5,7,9,11,13,15): 8 x 32 GiB DDR5 at 4800 MT/s`. EDAC shows neither empty
/// slots nor speeds: `8 modules: 8 x 32 GiB Registered-DDR4`.
pub fn read(tree: &SysTree) -> Option<String> {
    of_table(tree)
        .or_else(|| of_controllers(tree, "dimm", "module"))
        .or_else(|| of_controllers(tree, "rank", "rank"))
}

fn of_table(tree: &SysTree) -> Option<String> {
    let mut slots = smbios::memory_slots(&tree.binary(TABLE, MAX_TABLE_BYTES, smbios::memory_part)?);
    slots.truncate(MAX_SLOTS);
    let filled: Vec<usize> = (0..slots.len()).filter(|&slot| slots[slot].bytes != Some(0)).collect();
    let which = if filled.is_empty() || filled.len() == slots.len() {
        String::new()
    } else {
        format!(" ({})", positions(&filled))
    };
    let modules: Vec<ModuleSlot> = filled.iter().map(|&slot| slots[slot]).collect();
    let head = format!("{} of {} slots{which}", filled.len(), slots.len());
    (!slots.is_empty()).then(|| with_kinds(head, modules.iter().map(words)))
}

/// Reads the modules, or the ranks of modules, that drivers show as folders of controllers.
fn of_controllers(tree: &SysTree, prefix: &str, name: &str) -> Option<String> {
    let mut modules = Vec::new();
    for controller in tree.numbered_entries(CONTROLLERS, "mc").iter() {
        let controller = format!("{CONTROLLERS}/mc{controller}");
        for module in tree.numbered_entries(&controller, prefix).iter().take(MAX_SLOTS) {
            let file = |name: &str| format!("{controller}/{prefix}{module}/{name}");
            let size = tree.number::<u64>(&file("size")).and_then(|mib| mib.checked_mul(1 << 20));
            if size == Some(0) {
                continue;
            }
            let kind = tree.read(&file("dimm_mem_type")).filter(|kind| !kind.is_empty());
            modules.push([Some(shown(size)), kind].into_iter().flatten().collect::<Vec<_>>().join(" "));
        }
    }
    modules.truncate(MAX_SLOTS);
    let head = manycore_text::units::counted(modules.len(), name);
    (!modules.is_empty()).then(|| with_kinds(head, modules.into_iter().map(|words| (0, words))))
}

/// Returns what is said of a module, after its size for their order.
fn words(module: &ModuleSlot) -> (u64, String) {
    let kind = module.kind.map(|kind| format!(" {kind}")).unwrap_or_default();
    let speed = module.megatransfers.map(|speed| format!(" at {speed} MT/s")).unwrap_or_default();
    (module.bytes.unwrap_or(0), format!("{}{kind}{speed}", shown(module.bytes)))
}

fn shown(size: Option<u64>) -> String {
    size.map_or_else(|| "unknown size".to_owned(), bytes)
}

/// Adds the kinds of modules to a text, the largest first: `: 4 x 32 GiB + 4 x 16 GiB`.
fn with_kinds(head: String, modules: impl Iterator<Item = (u64, String)>) -> String {
    let mut counts: BTreeMap<(Reverse<u64>, String), usize> = BTreeMap::new();
    for (size, words) in modules {
        *counts.entry((Reverse(size), words)).or_default() += 1;
    }
    let mut parts: Vec<String> =
        counts.iter().take(MAX_KINDS).map(|((_, words), count)| format!("{count} x {words}")).collect();
    if counts.len() > MAX_KINDS {
        parts.push(format!("{} other kinds", counts.len() - MAX_KINDS));
    }
    if parts.is_empty() { head } else { format!("{head}: {}", parts.join(" + ")) }
}

/// Returns positions from 1, in the order of the table: `1,3,5-8`.
fn positions(filled: &[usize]) -> String {
    let runs = filled.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [.., last] if run.len() > 1 => format!("{}-{}", run[0] + 1, last + 1),
        _ => (run[0] + 1).to_string(),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capture::Capture,
        read::smbios::tests::{Table, module},
    };
    use std::fs;

    /// Reads a table, and what is recorded of it, which must be the same.
    fn of(table: &Table) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(TABLE);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &table.0).unwrap();
        let tree = SysTree::open(root.path()).unwrap().with_recording();
        let found = read(&tree);
        let saved = tree.recording().unwrap().to_string();
        assert_eq!(read(&SysTree::parse("saved", &saved).unwrap()), found, "{saved}");
        found
    }

    #[test]
    fn the_population_is_one_line() {
        let mut table = Table::with_array(3);
        for slot in 0..8 {
            table.add(&module(if slot % 2 == 0 { 0x7fff } else { 0 }, 32 << 10, 4800));
        }
        assert_eq!(of(&table).unwrap(), "4 of 8 slots (1,3,5,7): 4 x 32 GiB DDR5 at 4800 MT/s");
        table.add(&module(16 << 10, 0, 4400));
        assert_eq!(
            of(&table).unwrap(),
            "5 of 9 slots (1,3,5,7,9): 4 x 32 GiB DDR5 at 4800 MT/s + 1 x 16 GiB DDR5 at 4400 MT/s"
        );
        let mut full = Table::with_array(3);
        full.add(&module(8 << 10, 0, 0));
        full.add(&module(0xffff, 0, 0));
        assert_eq!(
            of(&full).unwrap(),
            "2 of 2 slots: 1 x 8 GiB DDR5 at 5600 MT/s + 1 x unknown size DDR5 at 5600 MT/s"
        );
        assert_eq!(of(&Table(b"no table".to_vec())), None);
    }

    /// A read of sysfs returns one page at most: tables are longer.
    #[test]
    fn tables_longer_than_a_page_are_read() {
        let mut table = Table::with_array(3);
        for _ in 0..400 {
            table.add(&module(0x7fff, 64 << 10, 5600));
        }
        assert!(table.0.len() > 4 * 4096);
        assert_eq!(of(&table).unwrap(), "400 of 400 slots: 400 x 64 GiB DDR5 at 5600 MT/s");
    }

    #[test]
    fn drivers_show_modules_where_the_table_cannot_be_read() {
        let mut capture = Capture::default();
        for (path, text) in [
            ("mc0/dimm0/size", "16384"),
            ("mc0/dimm0/dimm_mem_type", "Registered-DDR4"),
            ("mc1/dimm2/size", "16384"),
            ("mc1/dimm2/dimm_mem_type", "Registered-DDR4"),
            ("mc1/dimm3/size", "0"),
        ] {
            capture.add_file(&format!("{CONTROLLERS}/{path}"), text);
        }
        assert_eq!(read(&SysTree::from_capture(capture)).unwrap(), "2 modules: 2 x 16 GiB Registered-DDR4");
        let mut ranks = Capture::default();
        ranks.add_file(&format!("{CONTROLLERS}/mc0/rank0/size"), "8192");
        assert_eq!(read(&SysTree::from_capture(ranks)).unwrap(), "1 rank: 1 x 8 GiB");
        assert_eq!(read(&SysTree::from_capture(Capture::default())), None);
    }
}
