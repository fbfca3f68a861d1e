//! Reads names and flags of the first CPU from `/proc/cpuinfo`. Every architecture has its own keys.

mod arm;

use crate::sys_tree::SysTree;

/// Maximum number of bytes read. One CPU needs far less; for 256 CPUs the kernel takes milliseconds to
/// write the file.
const MAX_BYTES: usize = 16 << 10;
/// Keys that are used, for x86, Arm, POWER, s390 and RISC-V.
const KEYS: [&str; 18] = [
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "flags",
    "CPU implementer",
    "CPU part",
    "CPU architecture",
    "Features",
    "Hardware",
    "Processor",
    "cpu",
    "revision",
    "vendor",
    "family",
    "uarch",
    "isa",
];

/// The first CPU's keys and values in `/proc/cpuinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuInfo {
    pairs: Vec<(String, String)>,
}

impl CpuInfo {
    /// Reads the first CPU's paragraph.
    pub fn read(tree: &SysTree) -> Self {
        Self::parse(&tree.read_part("proc/cpuinfo", MAX_BYTES, first_cpu).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(pair).map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self { pairs: pairs.collect() }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|pair| pair.0 == key)
            .map(|pair| pair.1.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns the marketing name of the CPU.
    pub fn model(&self) -> Option<String> {
        ["model name", "cpu", "Processor", "Hardware", "uarch", "vendor_id"]
            .into_iter()
            .find_map(|key| self.get(key))
            .map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "))
            .or_else(|| arm::name(self.get("CPU implementer")?, self.get("CPU part")?))
    }

    /// Returns the id: `GenuineIntel/6/207/2`, `0x48/0xd01`.
    pub fn id(&self) -> Option<String> {
        let joined = |keys: &[&str]| {
            let parts: Option<Vec<&str>> = keys.iter().map(|key| self.get(key)).collect();
            Some(parts?.join("/"))
        };
        joined(&["vendor_id", "cpu family", "model", "stepping"])
            .or_else(|| joined(&["CPU implementer", "CPU part"]))
            .or_else(|| joined(&["vendor", "family", "model", "revision"]))
    }

    /// Returns the instruction-set flags.
    pub fn flags(&self) -> Vec<String> {
        let flags = self.get("flags").or_else(|| self.get("Features")).unwrap_or_default();
        flags.split_whitespace().map(str::to_owned).collect()
    }

    /// Returns whether the CPU reports a hypervisor (x86 only).
    pub fn is_guest(&self) -> bool {
        self.get("flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
    }

    /// Returns the output of `uname -m`, as far as the keys determine it.
    pub fn architecture(&self) -> Option<String> {
        let long_mode = self.get("flags").map(|flags| flags.split_whitespace().any(|flag| flag == "lm"));
        let name = match (self.get("vendor_id"), long_mode, self.get("CPU architecture")) {
            (_, _, Some("8" | "AArch64")) => "aarch64",
            (Some("GenuineIntel" | "AuthenticAMD" | "HygonGenuine" | "CentaurHauls"), Some(true), _) => {
                "x86_64"
            }
            (Some("GenuineIntel" | "AuthenticAMD"), Some(false), _) => "i686",
            (Some("IBM/S390"), ..) => "s390x",
            _ => return None,
        };
        Some(name.to_owned())
    }

    /// Returns whether the CPU is of AMD family 15h or 16h, whose thread siblings are the cores of a
    /// compute unit.
    pub fn has_compute_units(&self) -> bool {
        self.get("vendor_id") == Some("AuthenticAMD") && matches!(self.get("cpu family"), Some("21" | "22"))
    }

    /// Returns whether the CPU is a Xeon Phi of the second or third generation, which reports an L3 without
    /// a size.
    pub fn is_xeon_phi(&self) -> bool {
        self.get("vendor_id") == Some("GenuineIntel")
            && self.get("cpu family") == Some("6")
            && matches!(self.get("model"), Some("87" | "133"))
    }
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    Some((key.trim(), value.trim()))
}

/// Returns the used keys of the first CPU and of the text before it (s390 begins with a common paragraph).
fn first_cpu(text: &str) -> String {
    let mut seen = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = pair(line) else { continue };
        if key == "processor" && seen.contains(&"processor") {
            break;
        }
        if key == "processor" || KEYS.contains(&key) && !seen.contains(&key) {
            seen.push(key);
        }
        if KEYS.contains(&key) && seen.last() == Some(&key) {
            lines.push(format!("{key}\t: {value}"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_cpu_is_enough() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R)  Xeon(R)\n\
                    stepping\t: 2\ncpu MHz\t: 2100.1\nflags\t\t: fpu lm hypervisor\n\nprocessor\t: 1\nmodel name\t: Other\n";
        let kept = first_cpu(text);
        assert!(!kept.contains("MHz") && !kept.contains("Other"), "{kept}");
        let info = CpuInfo::parse(&kept);
        assert_eq!(info.model().as_deref(), Some("Intel(R) Xeon(R)"));
        assert_eq!(info.id().as_deref(), Some("GenuineIntel/6/207/2"));
        assert_eq!(info.architecture().as_deref(), Some("x86_64"));
        assert!(info.is_guest() && !info.has_compute_units());
        assert_eq!(first_cpu(&kept), kept);
    }

    #[test]
    fn arm_has_other_keys() {
        let info = CpuInfo::parse(
            "CPU implementer : 0x48\nCPU architecture: 8\nCPU part : 0xd01\nFeatures : fp asimd\n",
        );
        assert_eq!(info.id().as_deref(), Some("0x48/0xd01"));
        assert_eq!(info.model().as_deref(), Some("HiSilicon Kunpeng 920"));
        assert_eq!(info.flags(), ["fp", "asimd"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\\PC|\n|\t|:){0,200}") {
            let info = CpuInfo::parse(&first_cpu(&text));
            let _ = (info.model(), info.id(), info.flags(), info.architecture());
        }
    }
}
