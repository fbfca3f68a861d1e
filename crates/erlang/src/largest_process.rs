//! The processes of an Erlang node.

use serde::{Deserialize, Serialize};

/// The process of a node that uses the most memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LargestErlangProcess {
    /// Process identifier as the node prints it: `<0.105.0>`.
    pub pid: String,
    /// Registered name, or the function that it was started with.
    pub name: String,
    /// The function that it is executing.
    pub current: String,
    /// Memory of the process in bytes.
    pub bytes: u64,
    /// Size of its heaps in words.
    pub words: u64,
    /// Number of messages in its queue.
    pub messages: u64,
    /// Memory of the second largest process in bytes.
    pub second_bytes: u64,
    /// Number of processes on the node.
    pub processes: u64,
    /// `max_heap_size` of the node in words; 0 if unset.
    pub limit_words: u64,
}

impl LargestErlangProcess {
    /// Returns the `max_heap_size`, in words, that would have stopped this process and left all others
    /// running: twice the memory of the second largest, but at most half of this process's own heap. The
    /// smallest heap has 233 words.
    pub fn suggested_max_heap_words(&self) -> u64 {
        const WORD: u64 = 8;
        (2 * self.second_bytes / WORD).min(self.words / 2).max(233)
    }

    /// Whether a single process is the cause, and not the number of processes.
    pub fn is_cause(&self) -> bool {
        self.bytes > 4 * self.second_bytes && self.bytes > 1 << 20
    }
}
