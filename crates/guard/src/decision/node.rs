//! What an Erlang node tells of its processes.

use serde::{Deserialize, Serialize};

/// The process of a node with the most memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heaviest {
    /// As the node writes it: `<0.105.0>`.
    pub pid: String,
    /// Registered name, or the function that it began with.
    pub name: String,
    /// What it does now.
    pub current: String,
    /// Bytes of all that it has.
    pub bytes: u64,
    /// Words of its heaps.
    pub words: u64,
    /// Messages that wait.
    pub messages: u64,
    /// Bytes of the one with the second most.
    pub second_bytes: u64,
    /// Processes of the node.
    pub processes: u64,
    /// `max_heap_size` of the node in words, 0 for none.
    pub limit_words: u64,
}

impl Heaviest {
    /// Words of heap that would have held it and let all others be: twice what the second has, and half of what it has
    /// itself at most. 233 words are the least heap there is.
    pub fn held_by(&self) -> u64 {
        const WORD: u64 = 8;
        (2 * self.second_bytes / WORD).min(self.words / 2).max(233)
    }

    /// Whether one process is to blame, and not their number.
    pub fn is_cause(&self) -> bool {
        self.bytes > 4 * self.second_bytes && self.bytes > 1 << 20
    }
}
