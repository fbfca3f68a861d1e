//! The NUMA nodes that a program's memory comes from (`set_mempolicy(2)`).

use std::io;

/// The nodes on which new pages of a program are allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// The system default: on the node of the CPU that touches a page first, or on others if that node is
    /// full.
    #[default]
    Default,
    /// The same, even if the parent program set another policy.
    Local,
    /// On these nodes in turn.
    Interleave(Vec<u32>),
    /// On these nodes only.
    Bind(Vec<u32>),
}

/// Number of bits in a word of the kernel's node mask.
const WORD: u32 = libc::c_ulong::BITS;

/// A policy in the form that the kernel takes.
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
    /// Sets the policy for the calling thread and everything that it starts. Allocates nothing.
    #[allow(unsafe_code, reason = "the system call takes a pointer to a mask")]
    pub(crate) fn set(&self) -> io::Result<()> {
        let bits = self.mask.len() as libc::c_ulong * libc::c_ulong::from(WORD);
        // The kernel reads one bit less than it is given (see the notes of set_mempolicy(2)).
        let bits = if bits == 0 { 0 } else { bits + 1 };
        // An empty mask is a null pointer: beside any other one, the kernel does not accept 0 bits.
        let mask = if bits == 0 { std::ptr::null() } else { self.mask.as_ptr() };
        // SAFETY: the kernel reads as many bits as the mask holds.
        let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, mask, bits) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
