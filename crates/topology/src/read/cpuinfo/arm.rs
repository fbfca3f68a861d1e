//! Names of Arm CPUs. The kernel reports only two numbers: implementer and part of `MIDR_EL1`.
//!
//! The numbers are from the vendors' technical reference manuals and `arch/arm64/include/asm/cputype.h`.

/// A number, the vendor, and the vendor's parts.
type Implementer = (u32, &'static str, &'static [(u32, &'static str)]);

/// Implementers and their parts: the product name of a number, or the name of the core.
const KNOWN: [Implementer; 10] = [
    (
        0x41,
        "Arm",
        &[
            (0xd03, "Cortex-A53"),
            (0xd04, "Cortex-A35"),
            (0xd05, "Cortex-A55"),
            (0xd07, "Cortex-A57"),
            (0xd08, "Cortex-A72"),
            (0xd09, "Cortex-A73"),
            (0xd0a, "Cortex-A75"),
            (0xd0b, "Cortex-A76"),
            (0xd0c, "Neoverse N1"),
            (0xd40, "Neoverse V1"),
            (0xd49, "Neoverse N2"),
            (0xd4a, "Neoverse E1"),
            (0xd4f, "Neoverse V2"),
            (0xd84, "Neoverse V3"),
            (0xd8e, "Neoverse N3"),
        ],
    ),
    (0x43, "Cavium", &[(0xa1, "ThunderX"), (0xaf, "ThunderX2")]),
    (0x46, "Fujitsu", &[(0x001, "A64FX")]),
    (0x48, "HiSilicon", &[(0xd01, "Kunpeng 920"), (0xd02, "TaiShan v120")]),
    (0x4e, "NVIDIA", &[(0x003, "Denver 2"), (0x004, "Carmel")]),
    (0x50, "Applied Micro", &[(0x000, "X-Gene")]),
    (0x51, "Qualcomm", &[(0xc00, "Falkor"), (0xc01, "Saphira")]),
    (0x61, "Apple", &[]),
    (
        0x70,
        "Phytium",
        &[(0x660, "FTC660"), (0x661, "FTC661"), (0x662, "FTC662"), (0x663, "FTC663"), (0x862, "FTC862")],
    ),
    (0xc0, "Ampere", &[(0xac3, "AmpereOne"), (0xac4, "AmpereOne A")]),
];

/// Returns `HiSilicon Kunpeng 920` for `0x48` and `0xd01`; for an unknown part, the vendor and the number.
pub(super) fn name(implementer: &str, part: &str) -> Option<String> {
    let number = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (implementer, number) = (number(implementer)?, number(part)?);
    let (_, vendor, parts) = KNOWN.iter().find(|(known, ..)| *known == implementer)?;
    let name = parts.iter().find(|(known, _)| *known == number);
    Some(name.map_or_else(|| format!("{vendor} part {part}"), |(_, name)| format!("{vendor} {name}")))
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn arm_cpus_have_names() {
        assert_eq!(name("0x48", "0xd01").as_deref(), Some("HiSilicon Kunpeng 920"));
        assert_eq!(name("0x41", "0xd0c").as_deref(), Some("Arm Neoverse N1"));
        assert_eq!(name("0x48", "0xfff").as_deref(), Some("HiSilicon part 0xfff"));
        assert_eq!(name("0x99", "0xd01"), None);
        assert_eq!(name("", "x"), None);
    }
}
