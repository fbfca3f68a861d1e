//! PCI addresses, and names of PCI class codes (PCI Code and ID Assignment Specification).

/// Returns whether a name is `domain:bus:device.function`, such as `0000:03:00.0`. PCI domains may have
/// eight digits.
pub fn is_address(name: &str) -> bool {
    let Some((place, function)) = name.split_once('.') else { return false };
    let parts: Vec<&str> = place.split(':').collect();
    let digits = |text: &str, least: usize, most: usize| {
        (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    matches!(parts.as_slice(), [domain, bus, device]
        if digits(domain, 4, 8) && digits(bus, 2, 2) && digits(device, 2, 2) && digits(function, 1, 1))
}

/// Parses a number such as `0x020000`.
pub fn hexadecimal(text: &str) -> Option<u32> {
    let digits = text.trim().strip_prefix("0x")?;
    u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

/// Returns the name of a 24-bit class code, by its upper sixteen bits or else by its upper eight.
pub fn class_name(class: u32) -> &'static str {
    let exact = match class >> 8 {
        0x0001 => "VGA compatible device",
        0x0100 => "SCSI controller",
        0x0101 => "IDE controller",
        0x0104 => "RAID controller",
        0x0106 => "SATA controller",
        0x0107 => "SAS controller",
        0x0108 => "NVMe controller",
        0x0200 => "Ethernet controller",
        0x0207 => "InfiniBand controller",
        0x0280 => "network controller",
        0x0300 => "VGA controller",
        0x0302 => "3D controller",
        0x0403 => "audio device",
        0x0500 => "memory",
        0x0502 => "CXL memory",
        0x0600 => "host bridge",
        0x0601 => "ISA bridge",
        0x0604 => "PCI bridge",
        0x0700 => "serial controller",
        0x0800 => "interrupt controller",
        0x0801 => "DMA controller",
        0x0806 => "IOMMU",
        0x0c03 => "USB controller",
        0x0c04 => "Fibre Channel controller",
        0x0c05 => "SMBus",
        0x0c06 => "InfiniBand",
        0x1200 => "processing accelerator",
        _ => "",
    };
    if exact.is_empty() { base_name(class >> 16) } else { exact }
}

fn base_name(base: u32) -> &'static str {
    match base {
        0x01 => "mass storage controller",
        0x02 => "network controller",
        0x03 => "display controller",
        0x04 => "multimedia controller",
        0x05 => "memory controller",
        0x06 => "bridge",
        0x07 => "communication controller",
        0x08 => "system peripheral",
        0x09 => "input device",
        0x0a => "docking station",
        0x0b => "processor",
        0x0c => "serial bus controller",
        0x0d => "wireless controller",
        0x0e => "intelligent controller",
        0x0f => "satellite controller",
        0x10 => "encryption controller",
        0x11 => "signal processing controller",
        0x12 => "processing accelerator",
        0x13 => "instrumentation",
        0x40 => "co-processor",
        _ => "unclassified device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_distinguished_from_other_names() {
        for name in ["0000:03:00.0", "10000:e1:1f.7"] {
            assert!(is_address(name), "{name}");
        }
        for name in ["pci0000:00", "0000:03:00", "virtio1", "0000:03:00.0:pcie", "000:03:00.0", ""] {
            assert!(!is_address(name), "{name}");
        }
    }

    #[test]
    fn classes_are_named_as_closely_as_known() {
        assert_eq!(class_name(0x01_0802), "NVMe controller");
        assert_eq!(class_name(0x01_8000), "mass storage controller");
        assert_eq!(class_name(0xff_ff00), "unclassified device");
        assert_eq!(hexadecimal("0x020000\n"), Some(0x02_0000));
        assert_eq!(hexadecimal("0x+1"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}|0x[0-9a-f]{0,12}", class: u32) {
            let _ = (is_address(&text), hexadecimal(&text), class_name(class));
        }
    }
}
