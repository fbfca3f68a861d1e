//! Maps of generated code for perf: each line has the address, the size and the name, with numbers in hexadecimal.

use super::{Names, printable_name};
use crate::sharing::Frame;
use std::collections::BTreeSet;

/// Adds the names of `addresses`. The last name of an address counts, because code is compiled again at the
/// same address.
pub(super) fn add_names(text: &[u8], addresses: &BTreeSet<u64>, names: &mut Names) {
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let mut number = || {
            let word = std::str::from_utf8(words.next()?).ok()?;
            u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
        };
        let (Some(start), Some(bytes)) = (number(), number()) else { continue };
        let Some(name) = words.next().map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) else {
            continue;
        };
        for address in addresses.range(start..start.saturating_add(bytes)) {
            let frame = Frame { function: printable_name(name), ..Frame::default() };
            names.insert(*address, frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_of_an_address_counts_and_nonsense_is_left_out() {
        let text =
            b"0x1000 0x20 void Old.run()\n1000 10 void New.run(int, long)\nnonsense\n2000\n3000 zz x\n\
            ffffffffffffffff ffffffffffffffff far\n4000 10 \n5000 10\n\xff\xfe\n1010 8 \x1b]0;title\x07";
        let addresses = BTreeSet::from([0x1000, 0x100f, 0x1011, 0x101f, 0x2000, 0x4000, 0x5000]);
        let mut names = Names::new();
        add_names(text, &addresses, &mut names);
        let found: Vec<(u64, &str)> =
            names.iter().map(|(at, frame)| (*at, frame.function.as_str())).collect();
        let new = "void New.run(int, long)";
        assert_eq!(found, [(0x1000, new), (0x100f, new), (0x1011, "?]0;title?"), (0x101f, "void Old.run()")]);
    }
}
