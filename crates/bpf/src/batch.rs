//! All entries of a map of keys and values.

use crate::{
    Result,
    map::Map,
    syscall::{Attributes, Command},
};
use std::{io, os::fd::AsRawFd};

/// Entries that one system call returns. The kernel wants space for all entries of one of its buckets.
const AT_ONCE: usize = 2048;

impl Map {
    /// Calls `each` with the keys and values of a hash map. Entries that programs add or remove meanwhile may be missing.
    ///
    /// # Errors
    /// [`Error::Map`](crate::Error::Map) if the kernel refuses it (before 5.6), or the map has more entries than it was
    /// created for.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut keys = vec![0; AT_ONCE * self.key_bytes];
        let mut values = vec![0; AT_ONCE * self.value_bytes];
        // The kernel's place in the map; a hash map has 4 bytes.
        let (mut place, mut next) = ([0; 8], [0; 8]);
        // Each call returns one bucket at least, so that this ends even if a map were to change all the time.
        for call in 0..=self.entries {
            let attributes = Attributes::new();
            let attributes = if call > 0 { attributes.input(0, &place) } else { attributes };
            let mut attributes = attributes
                .output(8, &mut next)
                .output(16, &mut keys)
                .output(24, &mut values)
                .word(32, AT_ONCE as u32)
                .word(36, self.fd.as_raw_fd() as u32);
            let (result, count) = attributes.call_always(Command::MapLookupBatch, 32);
            let is_last = match result {
                Ok(_) => false,
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(source) => return Err(self.failed("read", source)),
            };
            let entries = keys.chunks_exact(self.key_bytes).zip(values.chunks_exact(self.value_bytes));
            entries.take(count as usize).for_each(|(key, value)| each(key, value));
            if is_last {
                break;
            }
            place = next;
        }
        Ok(())
    }
}
