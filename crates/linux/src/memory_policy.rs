//! On which NUMA nodes a program's memory comes from (`set_mempolicy(2)`).

use std::io;

/// Where new pages of a program come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// As the system does it: on the node of the CPU that touches a page first, others where that is full.
    #[default]
    Default,
    /// The same, also where an outer program asked for something else.
    Local,
    /// On these nodes in turns.
    Interleave(Vec<u32>),
    /// On these nodes only.
    Bind(Vec<u32>),
}

/// Bits in a word of the kernel's node mask.
const WORD: u32 = libc::c_ulong::BITS;

/// A policy as the kernel takes it.
pub(crate) struct Encoded {
    mode: libc::c_int,
    mask: Vec<libc::c_ulong>,
}

impl MemoryPolicy {
    pub(crate) fn encoded(&self) -> Option<Encoded> {
        let (mode, nodes): (_, &[u32]) = match self {
            Self::Default => return None,
            Self::Local => (libc::MPOL_LOCAL, &[]),
            Self::Interleave(nodes) => (libc::MPOL_INTERLEAVE, nodes),
            Self::Bind(nodes) => (libc::MPOL_BIND, nodes),
        };
        let words = nodes.iter().max().map_or(0, |most| (most / WORD + 1) as usize);
        let mut mask = vec![0; words];
        for node in nodes {
            mask[(node / WORD) as usize] |= 1 << (node % WORD);
        }
        Some(Encoded { mode, mask })
    }
}

impl Encoded {
    /// Sets it for the calling thread and all that it starts. Allocates nothing.
    #[allow(unsafe_code, reason = "the system call takes a pointer to a mask")]
    pub(crate) fn set(&self) -> io::Result<()> {
        let bits = self.mask.len() as libc::c_ulong * libc::c_ulong::from(WORD);
        // The kernel reads one bit less than it is told (see the notes of set_mempolicy(2)).
        let bits = if bits == 0 { 0 } else { bits + 1 };
        // SAFETY: the kernel reads as many bits as the mask holds.
        let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, self.mask.as_ptr(), bits) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
