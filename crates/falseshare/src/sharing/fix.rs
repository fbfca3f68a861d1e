//! Fixes for avoidable sharing, worded for the program's language.

use super::{CodeSite, DataOwner, SeparableField};
use serde::{Deserialize, Serialize};

/// The recommended change, with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind", content = "text")]
pub enum Fix {
    /// Put each thread's data on lines of its own.
    Pad(String),
    /// Separate data that is only read from data that is written.
    Split(String),
    /// Count per thread, and add the counts up when the total is needed.
    PerThread(String),
    /// Allocate blocks so that they start on lines of their own.
    Allocate(String),
    /// Let fewer threads write the data: they do share it.
    ReduceSharing(String),
    /// Hold the lock for less time, since threads wait for it.
    Lock(String),
}

/// The language of a source file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Another language, or an unknown one.
    Other,
}

impl Fix {
    /// Returns the advice.
    pub fn text(&self) -> &str {
        match self {
            Self::Pad(text)
            | Self::Split(text)
            | Self::PerThread(text)
            | Self::Allocate(text)
            | Self::ReduceSharing(text)
            | Self::Lock(text) => text,
        }
    }

    /// Returns the fix for false sharing of data in `data` by `sites`, on lines of `line_bytes` bytes.
    pub(super) fn fix_for_false_sharing(data: &DataOwner, sites: &[CodeSite], line_bytes: u32) -> Self {
        let language = language(sites);
        let align = language.align(line_bytes);
        let neighbours = matches!(data, DataOwner::Heap { blocks } if blocks.len() > 1);
        let readers: Vec<&CodeSite> = sites.iter().filter(|site| site.writes == 0).collect();
        let writers: Vec<&CodeSite> = sites.iter().filter(|site| site.writes > 0).collect();
        if neighbours {
            return Self::Allocate(format!(
                "these blocks are adjacent on the heap: allocate data of different threads on separate lines: {}",
                language.allocate(line_bytes)
            ));
        }
        if writers.iter().all(|site| site.is_lock) && writers.iter().any(|site| site.threads > 1) {
            return Self::Pad(format!("put each lock on a line of its own: {align}"));
        }
        if let Some(count) = writers.iter().find(|site| site.is_shared_counter()) {
            return Self::PerThread(format!(
                "each thread writes its own part at {}: count in a local variable and store it once at the end, or \
                 put each part on a line of its own: {align}",
                count.frame.brief()
            ));
        }
        if writers.iter().any(|site| site.threads > 1) {
            return Self::Pad(format!("put each thread's part on a line of its own: {align}"));
        }
        let writing: usize = writers.iter().map(|site| site.threads).max().unwrap_or(0);
        if !readers.is_empty() && writing == 1 && are_disjoint(&readers, &writers) && same_writer(&writers) {
            return Self::Split(format!(
                "move data that other threads only read ({}, read at {}) away from data that is written ({}, at {}): {align}",
                format_byte_ranges(&readers[0].bytes),
                readers[0].frame.brief(),
                format_byte_ranges(&writers[0].bytes),
                writers[0].frame.brief(),
            ));
        }
        Self::Pad(format!("put what each thread writes on a line of its own: {align}"))
    }

    /// Returns the advice for true sharing of data in `data`. `fields` are those that could be separated to
    /// save some transfers.
    pub(super) fn advice_for_true_sharing(
        data: &DataOwner,
        sites: &[CodeSite],
        fields: &[SeparableField],
    ) -> Self {
        if let Some(site) = sites.iter().find(|site| site.is_lock && site.writes > 0 && site.threads > 1) {
            return Self::Lock(format!(
                "threads contend for a lock{}, at {}: hold it for less time, take it once for several items, or \
                 protect parts of the data with locks of their own",
                data.name().map(|name| format!(" in {name}")).unwrap_or_default(),
                site.frame.brief()
            ));
        }
        if let Some(site) = sites.iter().find(|site| site.is_shared_counter()) {
            return Self::PerThread(format!(
                "several threads update one counter at {}: give each thread or CPU a counter on a line of its \
                 own, and sum the counters when the total is needed",
                site.frame.brief()
            ));
        }
        let padding = if fields.is_empty() { " padding does not help;" } else { "" };
        Self::ReduceSharing(format!(
            "threads use the same bytes:{padding} transfer less often (process in batches, use a copy for each \
             thread, hold locks for less time)"
        ))
    }
}

impl CodeSite {
    /// Returns whether several threads count there, in the program's own code and not for a lock.
    fn is_shared_counter(&self) -> bool {
        self.is_counting() && self.threads > 1 && self.is_own && !self.is_lock
    }
}

impl DataOwner {
    /// Returns the name of the variable, or of the block by its allocation; `None` where there is no name.
    fn name(&self) -> Option<String> {
        match self {
            Self::Globals { variables } => variables.first().map(|variable| variable.name.clone()),
            Self::Heap { blocks } => {
                let caller = blocks.first()?.callers.first()?;
                Some(format!("the block from {}", caller.brief()))
            }
            _ => None,
        }
    }
}

/// Returns whether no byte that `readers` read is written by `writers`.
fn are_disjoint(readers: &[&CodeSite], writers: &[&CodeSite]) -> bool {
    let overlap = |a: &[(u32, u32)], b: &[(u32, u32)]| {
        a.iter().any(|&(start, end)| b.iter().any(|&(other, last)| start < last && other < end))
    };
    readers.iter().all(|reader| writers.iter().all(|writer| !overlap(&reader.bytes, &writer.bytes)))
}

/// Returns whether the same threads write at all of these.
fn same_writer(writers: &[&CodeSite]) -> bool {
    writers.windows(2).all(|two| two[0].thread_groups == two[1].thread_groups)
}

/// Formats ranges of bytes, such as `bytes 0-7, 16-23`.
pub(crate) fn format_byte_ranges(ranges: &[(u32, u32)]) -> String {
    let words: Vec<String> = ranges
        .iter()
        .map(
            |&(start, end)| if end - start <= 1 { start.to_string() } else { format!("{start}-{}", end - 1) },
        )
        .collect();
    let one = ranges.len() == 1 && ranges[0].1 - ranges[0].0 <= 1;
    format!("{} {}", if one { "byte" } else { "bytes" }, words.join(", "))
}

/// Returns the language of the first site whose file name shows it.
fn language(sites: &[CodeSite]) -> Language {
    let files = sites.iter().filter_map(|site| site.frame.file.as_deref());
    files
        .map(Language::from_file_name)
        .find(|language| *language != Language::Other)
        .unwrap_or(Language::Other)
}

impl Language {
    /// Returns the language for a file name, by its extension.
    pub fn from_file_name(file: &str) -> Self {
        match file.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension) {
            Some("c" | "h") => Self::C,
            Some("cc" | "cpp" | "cxx" | "C" | "hh" | "hpp" | "hxx" | "ipp" | "tpp" | "inl") => Self::Cpp,
            Some("rs") => Self::Rust,
            Some("go") => Self::Go,
            _ => Self::Other,
        }
    }

    /// Describes how to put a type or field on a line of its own.
    fn align(self, line: u32) -> String {
        match self {
            Self::C => format!("_Alignas({line}) on the field or the struct"),
            Self::Cpp => format!(
                "alignas(std::hardware_destructive_interference_size), {line} here, on the field or type"
            ),
            Self::Rust => {
                format!(
                    "#[repr(align({line}))] on the type, or crossbeam_utils::CachePadded<T> around the field"
                )
            }
            Self::Go => format!("a field _ [{line}]byte after it (golang.org/x/sys/cpu has CacheLinePad)"),
            Self::Other => format!("align it to {line} bytes and pad it to a multiple of that"),
        }
    }

    /// Describes how to allocate a block on lines of its own.
    fn allocate(self, line: u32) -> String {
        match self {
            Self::C => format!("aligned_alloc({line}, size rounded up to {line})"),
            Self::Cpp => format!("a type with alignas({line}), which new and std::allocator then respect"),
            Self::Rust => {
                format!("a type with #[repr(align({line}))], or Box<crossbeam_utils::CachePadded<T>>")
            }
            Self::Go => format!("pad the struct to {line} bytes or more: blocks of that size start on lines"),
            Self::Other => format!("align blocks to {line} bytes, and pad them to a multiple of that"),
        }
    }
}
