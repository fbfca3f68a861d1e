//! Loads BPF programs of this workspace.
