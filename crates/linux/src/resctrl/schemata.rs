//! The contents of a `schemata` file: the limits of each line in each domain
//! (`Documentation/filesystems/resctrl.rst`, "Schemata files").
//!
//! ```text
//!     L3:0=fffff;1=3ff
//!     MB:0=  100;1=0000050
//! ```

use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt};

/// What a line sets, which decides how its values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemataKind {
    /// Portions of a cache or of memory bandwidth, as a hexadecimal mask (`L2`, `L3`, `L3CODE`, `L3PBM`, `MBPBM`).
    Mask,
    /// A number (`MB`, `SMBA`, `MBMIN`, `MBHDL`, `L3PRI`, ...).
    Number,
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemataLine {
    /// `L3`, `MB`, `MBHDL`.
    pub name: String,
    /// The value of each domain; a value that is not a number (`uninitialized`, of a group that is being locked)
    /// is left out.
    pub values: BTreeMap<u32, u64>,
}

/// All lines, in the kernel's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schemata(pub Vec<SchemataLine>);

impl SchemataKind {
    /// Returns the kind of the line `name`.
    pub fn from_line_name(name: &str) -> Self {
        let rest = name.strip_prefix("L2").or_else(|| name.strip_prefix("L3"));
        match rest {
            Some("" | "CODE" | "DATA" | "PBM") => Self::Mask,
            _ if name == "MBPBM" => Self::Mask,
            _ => Self::Number,
        }
    }

    /// Formats a value for the kernel.
    pub fn text(self, value: u64) -> String {
        match self {
            Self::Mask => format!("{value:x}"),
            Self::Number => value.to_string(),
        }
    }

    fn parse(self, text: &str) -> Option<u64> {
        // Numbers are padded with blanks (Linux to 6.12) or zeros (openEuler); the kernel writes no signs.
        let digits = text.trim();
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u64::from_str_radix(digits, if self == Self::Mask { 16 } else { 10 }).ok()
    }
}

impl Schemata {
    /// Parses the text of the file. Text that is not a line of it is skipped.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(SchemataLine::parse).collect())
    }

    /// Returns the line of this name.
    pub fn line(&self, name: &str) -> Option<&SchemataLine> {
        self.0.iter().find(|line| line.name == name)
    }

    /// Returns the value of a domain.
    pub fn value(&self, name: &str, domain: u32) -> Option<u64> {
        self.line(name)?.values.get(&domain).copied()
    }
}

impl SchemataLine {
    /// Parses one line: `MB:0=100;1=50`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, values) = text.split_once(':')?;
        let name = name.trim();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return None;
        }
        let kind = SchemataKind::from_line_name(name);
        let value = |part: &str| {
            let (domain, value) = part.split_once('=')?;
            Some((domain.trim().parse().ok()?, kind.parse(value)?))
        };
        Some(Self { name: name.to_owned(), values: values.split(';').filter_map(value).collect() })
    }

    /// Returns the kind of its values.
    pub fn kind(&self) -> SchemataKind {
        SchemataKind::from_line_name(&self.name)
    }
}

impl fmt::Display for SchemataLine {
    /// Formats the line for the kernel, without the newline that must follow.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let kind = self.kind();
        let values: Vec<String> =
            self.values.iter().map(|(domain, &value)| format!("{domain}={}", kind.text(value))).collect();
        write!(f, "{}:{}", self.name, values.join(";"))
    }
}

/// Parses a group's `size` file: bytes of cache in decimal, by line and domain.
pub fn parse_sizes(text: &str) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let line = |line: &str| {
        let (name, values) = line.split_once(':')?;
        let value = |part: &str| {
            let (domain, value) = part.split_once('=')?;
            Some((domain.trim().parse().ok()?, value.trim().parse().ok()?))
        };
        let is_cache = SchemataKind::from_line_name(name.trim()) == SchemataKind::Mask;
        is_cache.then(|| (name.trim().to_owned(), values.split(';').filter_map(value).collect()))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Schemata {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Schemata".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Lines of the file `schemata`: `L3:0=fff;1=fff`.",
            "type": "array",
            "items": { "type": "string" }
        })
    }
}

impl Serialize for Schemata {
    /// Serializes as a list of lines.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ToString::to_string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_paddings_are_read() {
        let text =
            "    L3:0=fffff;1=0003ff\n    MB:0=  100;1=0000050\n  L2:uninitialized\nSMBA:0=2048\nMBPBM:0=f\n";
        let schemata = Schemata::parse(text);
        assert_eq!(schemata.value("L3", 1), Some(0x3ff));
        assert_eq!(schemata.value("MB", 0), Some(100));
        assert_eq!(schemata.value("MB", 1), Some(50), "a number with leading zeros is not octal");
        assert_eq!(schemata.value("MBPBM", 0), Some(15));
        assert_eq!(schemata.line("L2").map(|line| line.values.len()), Some(0));
        assert_eq!(schemata.line("L3").unwrap().to_string(), "L3:0=fffff;1=3ff");
        let sizes = parse_sizes("    L3:0=1048576;1=10\n    MB:0=100;1=50\n");
        assert_eq!(sizes, BTreeMap::from([("L3".to_owned(), BTreeMap::from([(0, 1_048_576), (1, 10)]))]));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([A-Z0-9:;= a-z]|\\PC|\n){0,200}") {
            let _ = (Schemata::parse(&text), parse_sizes(&text));
        }

        #[test]
        fn written_schemata_are_read_back(
            name in prop::sample::select(vec!["L3", "L2CODE", "MB", "MBHDL", "L3PBM", "L3PRI"]),
            values in prop::collection::btree_map(any::<u32>(), any::<u64>(), 1..5),
        ) {
            let line = SchemataLine { name: name.to_owned(), values };
            prop_assert_eq!(SchemataLine::parse(&line.to_string()), Some(line));
        }
    }
}
