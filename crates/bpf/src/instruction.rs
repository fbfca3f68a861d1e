//! BPF instructions (`Documentation/bpf/standardization/instruction-set.rst`), as far as they are relocated.

use std::fmt;

/// Size of an instruction in bytes.
pub const SIZE: usize = 8;

/// `BPF_LD | BPF_IMM | BPF_DW`: loads 64 bits, and takes the place of two instructions.
const LOAD_64: u8 = 0x18;
/// `BPF_JMP | BPF_CALL`: the first byte of a call.
pub const CALL: u8 = 0x85;
const CLASS: u8 = 0x07;
/// `BPF_LDX`, `BPF_ST`, `BPF_STX`: memory is accessed at an offset.
const MEMORY: [u8; 3] = [1, 2, 3];
/// `BPF_ALU`, `BPF_ALU64`.
const ARITHMETIC: [u8; 2] = [4, 7];

/// What the immediate value of a 64-bit load, or of a call, means: the field `src_reg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The file descriptor of a map (`BPF_PSEUDO_MAP_FD`).
    Map = 1,
    /// The file descriptor of a map, and an offset into its first value (`BPF_PSEUDO_MAP_VALUE`).
    MapValue = 2,
}

/// `src_reg` of the call of a kernel function (`BPF_PSEUDO_KFUNC_CALL`).
const KERNEL_FUNCTION: u8 = 2;

/// An instruction in place.
pub struct Instruction<'a>(pub &'a mut [u8]);

impl fmt::Debug for Instruction<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:02x?}", self.0)
    }
}

impl Instruction<'_> {
    fn class(&self) -> u8 {
        self.0[0] & CLASS
    }

    /// Whether it loads 64 bits.
    pub fn is_load_64(&self) -> bool {
        self.0[0] == LOAD_64 && self.0.len() >= 2 * SIZE
    }

    /// Whether it calls a function.
    pub fn is_call(&self) -> bool {
        self.0[0] == CALL
    }

    fn set_immediate(&mut self, value: u32) {
        self.0[4..8].copy_from_slice(&value.to_ne_bytes());
    }

    fn set_source(&mut self, source: u8) {
        self.0[1] = self.0[1] & 0x0f | source << 4;
    }

    /// Makes a 64-bit load one of a constant. Returns false if something is added to it.
    pub fn load_constant(&mut self, value: u64) -> bool {
        self.0[4..8] == [0; 4] && self.patch(value)
    }

    /// Makes a 64-bit load one of the address of a map, or of `offset` in its first value.
    pub fn load_map(&mut self, meaning: Meaning, fd: u32, offset: u32) {
        self.set_source(meaning as u8);
        self.set_immediate(fd);
        self.0[12..16].copy_from_slice(&offset.to_ne_bytes());
    }

    /// Makes a call one of the kernel function with this id; with 0 the program is refused if it gets there.
    pub fn call_kernel(&mut self, id: u32) {
        self.set_source(KERNEL_FUNCTION);
        self.set_immediate(id);
        self.0[2..4].copy_from_slice(&[0, 0]);
    }

    /// Replaces the value that a relocation concerns: an offset of memory, or an immediate value. Returns false if the
    /// instruction has none, or it is too large.
    pub fn patch(&mut self, value: u64) -> bool {
        if self.is_load_64() {
            self.set_immediate(value as u32);
            self.0[12..16].copy_from_slice(&((value >> 32) as u32).to_ne_bytes());
        } else if MEMORY.contains(&self.class()) {
            let Ok(offset) = i16::try_from(value) else { return false };
            self.0[2..4].copy_from_slice(&offset.to_ne_bytes());
        } else if ARITHMETIC.contains(&self.class()) {
            let Ok(value) = i32::try_from(value) else { return false };
            self.set_immediate(value as u32);
        } else {
            return false;
        }
        true
    }

    /// Returns the bytes of memory that it accesses, if it does.
    pub fn access_bytes(&self) -> Option<u32> {
        MEMORY.contains(&self.class()).then(|| [4, 2, 1, 8][usize::from(self.0[0] >> 3 & 3)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_values_are_replaced_where_they_are() {
        // r1 = *(u64 *)(r2 + 8)
        let mut load = [0x79, 0x21, 8, 0, 0, 0, 0, 0];
        assert_eq!(Instruction(&mut load).access_bytes(), Some(8));
        assert!(Instruction(&mut load).patch(0x1234) && load[2..4] == [0x34, 0x12]);
        assert!(!Instruction(&mut load).patch(1 << 15));
        // r1 += 8
        let mut add = [0x07, 0x01, 0, 0, 8, 0, 0, 0];
        assert!(Instruction(&mut add).patch(70_000) && add[4..] == 70_000_i32.to_ne_bytes());
        // exit
        assert!(!Instruction(&mut [0x95, 0, 0, 0, 0, 0, 0, 0]).patch(1));
    }

    #[test]
    fn a_load_of_64_bits_gets_a_map_and_an_offset() {
        let mut load = [0; 16];
        load[0] = LOAD_64;
        load[1] = 3;
        Instruction(&mut load).load_map(Meaning::MapValue, 5, 24);
        assert_eq!((load[1], load[4], load[12]), (0x23, 5, 24));
    }

    #[test]
    fn a_load_of_64_bits_gets_a_constant() {
        let mut load = [0; 16];
        load[0] = LOAD_64;
        assert!(Instruction(&mut load).load_constant(7 << 32 | 5));
        assert_eq!((load[1], load[4], load[12]), (0, 5, 7));
        assert!(!Instruction(&mut load).load_constant(5), "the sum of a constant and a number");
    }
}
