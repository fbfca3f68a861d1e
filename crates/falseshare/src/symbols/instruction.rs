//! Decodes instructions as far as is needed to recognize locks.

/// Returns whether the instruction at the start of `code` exchanges a value in memory, unconditionally (`xchg`,
/// `swp`) or if it has the expected value (`cmpxchg`, `cas`). `code` is machine code of this machine's architecture.
pub(super) fn is_exchange(code: &[u8]) -> bool {
    if cfg!(target_arch = "aarch64") { on_arm(code) } else { on_x86(code) }
}

/// Opcodes of XCHG, CMPXCHG and CMPXCHG8B/16B, from Intel's manual, volume 2.
fn on_x86(code: &[u8]) -> bool {
    let is_prefix = |byte: &u8| matches!(byte, 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64..=0x67 | 0x40..=0x4f);
    let start = code.iter().position(|byte| !is_prefix(byte)).unwrap_or(code.len());
    // The two high bits of the ModRM byte after the opcode show whether the operand is in memory.
    let in_memory = |byte: u8| byte >> 6 != 3;
    match code[start..] {
        [0x86 | 0x87, operand, ..] | [0x0f, 0xb0 | 0xb1, operand, ..] => in_memory(operand),
        [0x0f, 0xc7, operand, ..] => in_memory(operand) && operand >> 3 & 7 == 1,
        _ => false,
    }
}

/// Classes of CAS and SWP, from Arm's manual, C4.1.
fn on_arm(code: &[u8]) -> bool {
    let Some(word) = code.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else { return false };
    word & 0x3fa0_7c00 == 0x08a0_7c00 || word & 0x3f20_fc00 == 0x3820_8000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_distinguished_from_additions() {
        for (code, is_it) in [
            // xchg %eax,(%rdi); lock cmpxchg %edx,(%rdi); lock cmpxchg16b (%rdi); xchg %r8,(%r9)
            (&[0x87, 0x07][..], true),
            (&[0xf0, 0x0f, 0xb1, 0x17], true),
            (&[0xf0, 0x48, 0x0f, 0xc7, 0x0f], true),
            (&[0x4d, 0x87, 0x01], true),
            // lock xadd %eax,(%rdi); lock addl $1,(%rdi); xchg %ax,%ax; rdrand %eax; addq $1,(%rdi); nothing
            (&[0xf0, 0x0f, 0xc1, 0x07], false),
            (&[0xf0, 0x83, 0x07, 0x01], false),
            (&[0x66, 0x87, 0xc0], false),
            (&[0x0f, 0xc7, 0xf0], false),
            (&[0x48, 0x83, 0x07, 0x01], false),
            (&[0xf0], false),
        ] {
            assert_eq!(on_x86(code), is_it, "{code:02x?}");
        }
        // casal w0, w1, [x2]; swpal w0, w1, [x2]; ldaddal w0, w1, [x2]; str w0, [x1]
        for (word, is_it) in
            [(0x88e0_fc41_u32, true), (0xb8e0_8041, true), (0xb8e0_0041, false), (0xb900_0020, false)]
        {
            assert_eq!(on_arm(&word.to_le_bytes()), is_it, "{word:#x}");
        }
    }
}
