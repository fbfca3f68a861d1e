//! Why a BPF object cannot be loaded.

use std::io;

/// Why a BPF object cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object is not one that the build of this workspace produces.
    #[error("the BPF object is not usable: {0}")]
    Object(String),
    /// The kernel does not describe its types.
    #[error("{path} cannot be read ({source}): the kernel needs CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf {
        /// Path of the file.
        path: String,
        /// The failure of reading it.
        source: io::Error,
    },
    /// The description of types is damaged.
    #[error("the description of types (BTF) is damaged: {0}")]
    Btf(String),
    /// The running kernel lacks a type, a field, a function or a value that a program needs.
    #[error("this kernel has no {0}, which the BPF program needs")]
    Lacks(String),
    /// A map could not be created or used.
    #[error("the BPF map {name} cannot be {action}: {source}{}", hint(source))]
    Map {
        /// Name of the map.
        name: String,
        /// What was to be done: `created`, `written`, `read`, `mapped`.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel's verifier refused a program.
    #[error("the kernel refused the BPF program {name} ({source}){}{}", hint(source), tail(log))]
    Verifier {
        /// Name of the program.
        name: String,
        /// The kernel's error.
        source: io::Error,
        /// The last lines of the verifier's log.
        log: String,
    },
    /// A loaded program could not be attached.
    #[error("the BPF program {name} cannot be attached: {source}{}", hint(source))]
    Attach {
        /// Name of the program or of the operations.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Returns what to do about an error of the kernel.
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; loading BPF programs needs root (CAP_BPF, and CAP_PERFMON or CAP_SYS_ADMIN)"
        }
        _ => "",
    }
}

fn tail(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(":\n{log}") }
}

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;
