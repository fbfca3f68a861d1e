//! Relocations to the types of the running kernel (CO-RE; `Documentation/bpf/llvm_reloc.rst`).
//!
//! The compiler records for each access to a field of a kernel's type, and each enumerator, which one was meant. Types
//! and fields are found again by name, so that programs run on kernels whose types have another layout.

use crate::{
    Error, Result,
    btf::{Btf, kind},
    elf::ProgramText,
    instruction::Instruction,
};

/// Kinds of relocations (`enum bpf_core_relo_kind`).
mod relocation {
    pub const FIELD_OFFSET: u32 = 0;
    pub const FIELD_SIZE: u32 = 1;
    pub const FIELD_EXISTS: u32 = 2;
    pub const TYPE_EXISTS: u32 = 8;
    pub const VALUE_EXISTS: u32 = 10;
    pub const VALUE: u32 = 11;
}

/// One relocation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    section: String,
    at: usize,
    type_id: u32,
    access: String,
    kind: u32,
}

/// A field, found in the types of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    byte_offset: u64,
    bytes: u32,
}

/// Adapts the instructions of a program to the running kernel.
///
/// # Errors
/// [`Error::Lacks`] if the kernel has no such type, field or enumerator, [`Error::Object`] for a relocation that is not
/// supported.
pub fn relocate(program: &mut ProgramText, local: &Btf, btf_ext: &[u8], kernel: &Btf) -> Result<()> {
    for record in records(btf_ext, local).iter().filter(|record| record.section == program.section) {
        let value = value(record, local, kernel)?;
        let code = program.code.get_mut(record.at..).unwrap_or_default();
        if code.len() < 8 {
            return Err(Error::Object(format!("a relocation beyond the end of {}", program.name)));
        }
        let mut instruction = Instruction(code);
        if record.kind == relocation::FIELD_OFFSET
            && let (Some(accessed), Some(field)) = (instruction.access_bytes(), field(record, local, kernel)?)
            && accessed != field.bytes.min(8)
            && field.bytes.is_power_of_two()
        {
            let what = described(record, local);
            return Err(Error::Lacks(format!("{what} of {accessed} bytes (it has {} bytes)", field.bytes)));
        }
        if !instruction.patch(value) {
            return Err(Error::Object(format!(
                "a relocation of {} to {value} in {instruction:?}",
                program.name
            )));
        }
    }
    Ok(())
}

/// Returns the records of `.BTF.ext`.
fn records(btf_ext: &[u8], local: &Btf) -> Vec<Record> {
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_ne_bytes(btf_ext.get(at..at + 4)?.try_into().ok()?)) };
    let mut all = Vec::new();
    let mut read = || -> Option<()> {
        let start = word(4)? as usize;
        let (mut at, size) = (start + word(24)? as usize, word(28)? as usize);
        let end = at + size;
        let record_size = word(at)? as usize;
        at += 4;
        while at < end {
            let (section, count) = (local.string(word(at)?).to_owned(), word(at + 4)?);
            at += 8;
            for _ in 0..count {
                all.push(Record {
                    section: section.clone(),
                    at: word(at)? as usize,
                    type_id: word(at + 4)?,
                    access: local.string(word(at + 8)?).to_owned(),
                    kind: word(at + 12)?,
                });
                at += record_size;
            }
        }
        Some(())
    };
    // A section that ends early has no further records; the compiler does not write such.
    let _ = read();
    all
}

/// Returns the value for the running kernel.
fn value(record: &Record, local: &Btf, kernel: &Btf) -> Result<u64> {
    let lacking = || Error::Lacks(described(record, local));
    match record.kind {
        relocation::FIELD_OFFSET => Ok(field(record, local, kernel)?.ok_or_else(lacking)?.byte_offset),
        relocation::FIELD_SIZE => Ok(u64::from(field(record, local, kernel)?.ok_or_else(lacking)?.bytes)),
        relocation::FIELD_EXISTS => Ok(u64::from(field(record, local, kernel)?.is_some())),
        relocation::TYPE_EXISTS => Ok(u64::from(counterpart(record.type_id, local, kernel).is_some())),
        relocation::VALUE_EXISTS => Ok(u64::from(enumerator(record, local, kernel).is_some())),
        relocation::VALUE => enumerator(record, local, kernel).ok_or_else(lacking),
        other => Err(Error::Object(format!("a relocation of kind {other}"))),
    }
}

/// Returns a name without what follows `___`, which distinguishes versions of a type in the source.
fn plain(name: &str) -> &str {
    name.split_once("___").map_or(name, |(name, _)| name)
}

/// Returns what a relocation is about, for messages.
fn described(record: &Record, local: &Btf) -> String {
    let name = plain(local.name(local.stripped(record.type_id)));
    if record.kind >= relocation::VALUE_EXISTS {
        return format!("enumerator {} of {name}", enumerator_name(record, local));
    }
    let path = path(record, local);
    let names: Vec<String> = path
        .into_iter()
        .flatten()
        .filter_map(|step| match step {
            Step::Member(name) => Some(name),
            Step::Index(_) => None,
        })
        .collect();
    if names.is_empty() {
        format!("struct {name}")
    } else {
        format!("field {} of struct {name}", names.join("."))
    }
}

/// Returns the kernel's type with the name of a local one.
fn counterpart(id: u32, local: &Btf, kernel: &Btf) -> Option<u32> {
    let id = local.stripped(id);
    let kinds: &[u32] = match local.kind(id) {
        kind::STRUCT | kind::UNION => &[kind::STRUCT, kind::UNION],
        kind::ENUM | kind::ENUM64 => &[kind::ENUM, kind::ENUM64],
        _ => return None,
    };
    kernel.find(plain(local.name(id)), kinds)
}

fn enumerator_name<'a>(record: &Record, local: &'a Btf) -> &'a str {
    let index = record.access.parse().unwrap_or(u32::MAX);
    local.enumerator(local.stripped(record.type_id), index).map_or("?", |(name, _)| plain(name))
}

fn enumerator(record: &Record, local: &Btf, kernel: &Btf) -> Option<u64> {
    let id = counterpart(record.type_id, local, kernel)?;
    let wanted = enumerator_name(record, local);
    (0..)
        .map_while(|index| kernel.enumerator(id, index))
        .find(|&(name, _)| name == wanted)
        .map(|(_, value)| value)
}

/// One step from a struct to a field in it.
enum Step {
    Member(String),
    Index(u32),
}

/// Returns the steps to a field, with the names of the compiler's types; `None` if the record is damaged.
fn path(record: &Record, local: &Btf) -> Option<Vec<Step>> {
    let mut indices = record.access.split(':').map(str::parse::<u32>);
    // The first index is that of an array of the type itself, of which there are none.
    indices.next()?.ok().filter(|&index| index == 0)?;
    let (mut id, mut steps) = (local.stripped(record.type_id), Vec::new());
    for index in indices {
        let index = index.ok()?;
        if local.kind(id) == kind::ARRAY {
            steps.push(Step::Index(index));
            id = local.stripped(local.array(id).0);
            continue;
        }
        let member = local.members(id).nth(index as usize)?;
        if !member.name.is_empty() {
            steps.push(Step::Member(plain(member.name).to_owned()));
        }
        id = local.stripped(member.type_id);
    }
    Some(steps)
}

/// Returns a field of the kernel's type; `None` if the kernel has no such type or field.
fn field(record: &Record, local: &Btf, kernel: &Btf) -> Result<Option<Field>> {
    let steps =
        path(record, local).ok_or_else(|| Error::Object(format!("the access {:?}", record.access)))?;
    let Some(mut id) = counterpart(record.type_id, local, kernel) else { return Ok(None) };
    let mut byte_offset = 0;
    for step in steps {
        match step {
            Step::Index(index) if kernel.kind(id) == kind::ARRAY => {
                id = kernel.array(id).0;
                byte_offset += u64::from(index) * u64::from(kernel.size(id));
            }
            Step::Index(_) => return Ok(None),
            Step::Member(name) => {
                let Some((member, offset)) = member(kernel, id, &name) else { return Ok(None) };
                id = member;
                byte_offset += offset;
            }
        }
        id = kernel.stripped(id);
    }
    Ok(Some(Field { byte_offset, bytes: kernel.size(id) }))
}

/// Returns the type and byte offset of a member, also of anonymous structs inside; `None` for bit fields too.
fn member(kernel: &Btf, id: u32, name: &str) -> Option<(u32, u64)> {
    for member in kernel.members(id) {
        let offset = u64::from(member.bit_offset / 8);
        if member.name == name {
            return (member.bit_offset % 8 == 0).then_some((member.type_id, offset));
        }
        if member.name.is_empty() {
            let inner = kernel.stripped(member.type_id);
            if matches!(kernel.kind(inner), kind::STRUCT | kind::UNION)
                && let Some((found, inside)) = self::member(kernel, inner, name)
            {
                return Some((found, offset + inside));
            }
        }
    }
    None
}
