//! Types of the kernel or of a BPF object, as BTF describes them (`Documentation/bpf/btf.rst`).

use crate::{Error, Result};
use std::{cell::RefCell, collections::HashMap, fs, ops::Range};

/// Where the kernel describes its types.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;

/// Kinds of types that this crate distinguishes (`BTF_KIND_*`).
pub(crate) mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// The types of a kernel or of an object. Type ids are indices from 1; 0 is `void`.
pub struct Btf {
    bytes: Vec<u8>,
    strings: Range<usize>,
    /// Position of each type; the first is that of id 1.
    types: Vec<usize>,
    /// The types with a name that were searched for before: a kernel has more than 100,000 types.
    found: RefCell<HashMap<String, Vec<u32>>>,
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    /// Its name; empty for an anonymous struct or union.
    pub name: &'a str,
    /// Id of its type.
    pub type_id: u32,
    /// Offset in bits from the start of the struct.
    pub bit_offset: u32,
}

impl Btf {
    /// Reads the types of the running kernel.
    ///
    /// # Errors
    /// [`Error::NoBtf`] if the kernel does not describe them.
    pub fn of_kernel() -> Result<Self> {
        let bytes = fs::read(KERNEL).map_err(|source| Error::NoBtf { path: KERNEL.to_owned(), source })?;
        Self::parse(bytes)
    }

    /// Parses the contents of a `.BTF` section.
    ///
    /// # Errors
    /// [`Error::Btf`] with the position at which it is damaged.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        let mut btf = Self { bytes, strings: 0..0, types: Vec::new(), found: RefCell::default() };
        let header = |at| btf.word(at).ok_or_else(|| Error::Btf("its header is too short".to_owned()));
        if header(0)? & 0xffff != u32::from(MAGIC) {
            return Err(Error::Btf("it does not begin with the magic number of this byte order".to_owned()));
        }
        let [start, types_at, types_size, strings_at, strings_size] =
            [header(4)?, header(8)?, header(12)?, header(16)?, header(20)?].map(|word| word as usize);
        let strings = start + strings_at..start + strings_at + strings_size;
        let end = start + types_at + types_size;
        if strings.end > btf.bytes.len() || end > btf.bytes.len() {
            return Err(Error::Btf("its sections are longer than the file".to_owned()));
        }
        let (mut at, mut types) = (start + types_at, Vec::new());
        while at < end {
            types.push(at);
            let size = btf.size_at(at).ok_or_else(|| Error::Btf(format!("an unknown type at byte {at}")))?;
            at += size;
        }
        (btf.strings, btf.types) = (strings, types);
        Ok(btf)
    }

    /// Returns the size in bytes of a type's description.
    fn size_at(&self, at: usize) -> Option<usize> {
        let (kind, count) = (self.word(at + 4)? >> 24 & 0x1f, (self.word(at + 4)? & 0xffff) as usize);
        let further = match kind {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => count * 12,
            kind::ENUM | kind::FUNC_PROTO => count * 8,
            1..=19 => 0,
            _ => return None,
        };
        Some(12 + further)
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?))
    }

    /// Returns a 32-bit word of a type's description; 0 beyond its end, which [`Btf::parse`] has excluded.
    fn field(&self, id: u32, at: usize) -> u32 {
        let Some(&start) = (id as usize).checked_sub(1).and_then(|index| self.types.get(index)) else {
            return 0;
        };
        self.word(start + at).unwrap_or(0)
    }

    /// Returns the number of types, without `void`.
    pub fn len(&self) -> u32 {
        self.types.len() as u32
    }

    /// Whether there are no types.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Returns the string at an offset of the string section; empty if there is none.
    pub(crate) fn string(&self, offset: u32) -> &str {
        let strings = &self.bytes[self.strings.clone()];
        let text = strings.get(offset as usize..).unwrap_or_default();
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        str::from_utf8(&text[..end]).unwrap_or_default()
    }

    /// Returns the name of a type; empty if it has none.
    pub(crate) fn name(&self, id: u32) -> &str {
        self.string(self.field(id, 0))
    }

    /// Whether a type has this name; faster than [`Btf::name`], which checks the encoding.
    fn has_name(&self, id: u32, name: &str) -> bool {
        let start = self.strings.start + self.field(id, 0) as usize;
        let end = start + name.len();
        self.bytes.get(start..end) == Some(name.as_bytes()) && self.bytes.get(end) == Some(&0)
    }

    /// Returns the kind of a type, one of [`kind`]; 0 for `void`.
    pub(crate) fn kind(&self, id: u32) -> u32 {
        self.field(id, 4) >> 24 & 0x1f
    }

    fn count(&self, id: u32) -> u32 {
        self.field(id, 4) & 0xffff
    }

    /// Returns the word of a type that is its size in bytes or the type to which it refers.
    fn size_or_type(&self, id: u32) -> u32 {
        self.field(id, 8)
    }

    /// Returns the type without qualifiers, tags and names for it.
    pub(crate) fn stripped(&self, mut id: u32) -> u32 {
        // Descriptions cannot be longer than there are types; a damaged one may refer to itself.
        for _ in 0..32 {
            match self.kind(id) {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = self.size_or_type(id);
                }
                _ => break,
            }
        }
        id
    }

    /// Returns the size of a type in bytes.
    pub(crate) fn size(&self, id: u32) -> u32 {
        let id = self.stripped(id);
        match self.kind(id) {
            kind::PTR => 8,
            kind::ARRAY => {
                let (element, count) = self.array(id);
                self.size(element).saturating_mul(count)
            }
            kind::INT | kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64 => self.size_or_type(id),
            _ => 0,
        }
    }

    /// Returns the type of an array's elements and their number.
    pub(crate) fn array(&self, id: u32) -> (u32, u32) {
        (self.field(id, 12), self.field(id, 20))
    }

    /// Returns the size of an element in bytes and the number of elements of a variable that is an array.
    pub(crate) fn array_variable(&self, name: &str) -> Option<(u32, u32)> {
        let array = self.stripped(self.size_or_type(self.find(name, &[kind::VAR])?));
        let (element, count) = (self.kind(array) == kind::ARRAY).then(|| self.array(array))?;
        Some((self.size(element), count))
    }

    /// Returns the members of a struct or union, which may be anonymous.
    pub(crate) fn members(&self, id: u32) -> impl Iterator<Item = Member<'_>> {
        let has_bit_fields = self.field(id, 4) >> 31 == 1;
        (0..self.count(id) as usize).map(move |index| {
            let at = 12 + index * 12;
            let offset = self.field(id, at + 8);
            Member {
                name: self.string(self.field(id, at)),
                type_id: self.field(id, at + 4),
                bit_offset: if has_bit_fields { offset & 0x00ff_ffff } else { offset },
            }
        })
    }

    /// Returns the value of the enumerator with an index.
    pub(crate) fn enumerator(&self, id: u32, index: u32) -> Option<(&str, u64)> {
        if index >= self.count(id) {
            return None;
        }
        let index = index as usize;
        if self.kind(id) == kind::ENUM64 {
            let at = 12 + index * 12;
            let value = u64::from(self.field(id, at + 4)) | u64::from(self.field(id, at + 8)) << 32;
            return Some((self.string(self.field(id, at)), value));
        }
        let at = 12 + index * 8;
        Some((self.string(self.field(id, at)), self.field(id, at + 4) as i32 as u64))
    }

    /// Returns the type with a name that is one of these kinds. Suffixes after `___` are no part of names.
    pub(crate) fn find(&self, name: &str, kinds: &[u32]) -> Option<u32> {
        let mut found = self.found.borrow_mut();
        let ids = found
            .entry(name.to_owned())
            .or_insert_with(|| (1..=self.len()).filter(|&id| self.has_name(id, name)).collect());
        ids.iter().copied().find(|&id| kinds.contains(&self.kind(id)))
    }

    /// Returns the id of a function.
    pub(crate) fn function(&self, name: &str) -> Option<u32> {
        self.find(name, &[kind::FUNC])
    }

    /// Returns the enumerators, of any enum, whose names begin like this.
    pub fn values(&self, prefix: &str) -> HashMap<String, u64> {
        (1..=self.len())
            .filter(|&id| matches!(self.kind(id), kind::ENUM | kind::ENUM64))
            .flat_map(|id| (0..self.count(id)).filter_map(move |index| self.enumerator(id, index)))
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Returns the names and bit offsets of the members of a struct, and its size in bytes.
    pub fn layout(&self, name: &str) -> Option<(Vec<(String, u32)>, u32)> {
        let id = self.find(name, &[kind::STRUCT])?;
        let members = self.members(id).map(|member| (member.name.to_owned(), member.bit_offset)).collect();
        Some((members, self.size(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a description of types whose strings are `names`, each preceded by an empty one.
    fn described(types: &[u32], names: &str) -> Vec<u8> {
        let size = types.len() as u32 * 4;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, size, size, names.len() as u32];
        let words = header.iter().chain(types).flat_map(|word| word.to_ne_bytes());
        words.chain(names.bytes()).collect()
    }

    #[test]
    fn structs_have_their_members_and_enums_their_values() {
        let int = [1, kind::INT << 24, 4, 32];
        let structure = [5, kind::STRUCT << 24 | 1, 8, 9, 1, 32];
        let values = [0, kind::ENUM64 << 24 | 1, 8, 11, 5, 1];
        let all: Vec<u32> = [&int[..], &structure, &values].concat();
        let btf = Btf::parse(described(&all, "\0int\0big\0m\0V\0")).unwrap();
        assert_eq!(btf.len(), 3);
        let id = btf.find("big", &[kind::STRUCT]).unwrap();
        let members: Vec<_> = btf.members(id).collect();
        assert_eq!(members, [Member { name: "m", type_id: 1, bit_offset: 32 }]);
        assert_eq!((btf.size(id), btf.size(1)), (8, 4));
        assert_eq!(btf.values("V"), HashMap::from([("V".to_owned(), 5 | 1 << 32)]));
        assert!(btf.values("W").is_empty());
    }

    #[test]
    fn damaged_descriptions_are_errors() {
        let whole = described(&[1, kind::INT << 24, 4, 32], "\0int\0");
        for length in 0..whole.len() {
            assert!(Btf::parse(whole[..length].to_vec()).is_err(), "{length}");
        }
        assert!(Btf::parse(described(&[0, 31 << 24, 0], "\0")).is_err());
    }

    #[test]
    fn a_type_that_refers_to_itself_ends() {
        let btf = Btf::parse(described(&[0, kind::TYPEDEF << 24, 1], "\0")).unwrap();
        assert_eq!(btf.size(1), 0);
    }

    #[test]
    fn the_types_of_this_kernel_are_known_where_it_describes_them() {
        let Ok(btf) = Btf::of_kernel() else {
            println!("SKIPPED: this kernel has no BTF");
            return;
        };
        let (members, size) = btf.layout("task_struct").unwrap();
        assert!(members.iter().any(|(name, _)| name == "pid") && size > 1000);
    }
}
