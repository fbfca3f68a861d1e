//! Operations of the kernel that programs take over (`BPF_MAP_TYPE_STRUCT_OPS`).

use crate::{
    Error, Result,
    btf::kind,
    map::storage_types,
    program::Loaded,
    syscall::{Attributes, Command},
};
use std::os::fd::{AsRawFd, OwnedFd};

/// `BPF_MAP_TYPE_STRUCT_OPS`.
const STRUCT_OPS: u32 = 26;
/// `BPF_F_LINK`: the operations are in force while a link exists.
const LINK: u32 = 1 << 13;
/// `BPF_STRUCT_OPS`, the kind of the link.
const LINK_KIND: u32 = 44;

/// Operations in force. They end when this value is dropped, or this process ends in any way.
#[derive(Debug)]
pub struct Operations {
    _link: OwnedFd,
    _map: OwnedFd,
}

impl Loaded {
    /// Puts the operations of a struct of the kernel in force: those programs whose section names it, and values for
    /// its other fields, with their bytes. Fields that the kernel does not have are left out, and so are bytes beyond
    /// the size of a field.
    ///
    /// # Errors
    /// [`Error::Lacks`] if the kernel has no such operations, [`Error::Attach`] if it refuses them.
    pub fn take_over(&self, operations: &str, values: &[(&str, &[u8])]) -> Result<Operations> {
        let lacks = || Error::Lacks(format!("operations {operations}"));
        let refused = |source| Error::Attach { name: operations.to_owned(), source };
        let wrapper = format!("bpf_struct_ops_{operations}");
        let wrapper_id = self.kernel.find(&wrapper, &[kind::STRUCT]).ok_or_else(lacks)?;
        let (_, size) = self.kernel.layout(&wrapper).ok_or_else(lacks)?;
        let start = self.offset(&wrapper, "data").ok_or_else(lacks)?;
        let mut bytes = vec![0; size as usize];
        let mut put = |member: &str, value: &[u8]| {
            let at = self.offset(operations, member).map(|offset| start + offset);
            if let Some(place) = at.and_then(|at| bytes.get_mut(at..at + value.len())) {
                place.copy_from_slice(value);
            }
        };
        for (member, value) in values {
            put(member, value);
        }
        for program in &self.programs {
            let named = program.section.split_once('/').and_then(|(_, name)| name.split_once('.'));
            if let Some((name, member)) = named
                && name == operations
            {
                put(member, &(program.fd.as_raw_fd() as u64).to_ne_bytes());
            }
        }
        // The kernel wants types of this process's own with the map, although it does not use them.
        let types = storage_types(8).map_err(refused)?;
        let map = Attributes::new()
            .word(0, STRUCT_OPS)
            .word(4, 4)
            .word(8, size)
            .word(12, 1)
            .word(16, LINK)
            .name(28, operations)
            .word(48, types.as_raw_fd() as u32)
            .word(60, wrapper_id)
            .open(Command::MapCreate)
            .map_err(refused)?;
        let fd = map.as_raw_fd() as u32;
        let update =
            Attributes::new().word(0, fd).input(8, &[0; 4]).input(16, &bytes).call(Command::MapUpdate);
        update.map_err(refused)?;
        let link =
            Attributes::new().word(0, fd).word(8, LINK_KIND).open(Command::LinkCreate).map_err(refused)?;
        Ok(Operations { _link: link, _map: map })
    }

    /// Returns the offset of a member of a struct in bytes.
    fn offset(&self, structure: &str, member: &str) -> Option<usize> {
        let (members, _) = self.kernel.layout(structure)?;
        members.iter().find(|(name, _)| name == member).map(|(_, bits)| *bits as usize / 8)
    }
}
