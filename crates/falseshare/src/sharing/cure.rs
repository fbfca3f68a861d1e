//! What ends sharing that is not needed, in the words of the program's language.

use super::{Field, Holder, Site};
use serde::{Deserialize, Serialize};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "text")]
pub enum Cure {
    /// Give each thread's data lines of its own.
    Pad(String),
    /// Part what is only read from what is written.
    Split(String),
    /// Let each thread count for itself, and add up when somebody asks.
    PerThread(String),
    /// Have the allocator start blocks on lines of their own.
    Allocate(String),
    /// Fewer threads should write there: they do share it.
    Rethink(String),
    /// Threads wait for the same lock: it should be held less.
    Lock(String),
}

/// The language of a source file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Another one, or none is known.
    Other,
}

impl Cure {
    /// The advice.
    pub fn text(&self) -> &str {
        match self {
            Self::Pad(text)
            | Self::Split(text)
            | Self::PerThread(text)
            | Self::Allocate(text)
            | Self::Rethink(text)
            | Self::Lock(text) => text,
        }
    }

    /// What cures false sharing of data in `holder` by `sites`, on lines of so many bytes.
    pub(super) fn of_false(holder: &Holder, sites: &[Site], line_bytes: u32) -> Self {
        let language = language(sites);
        let align = language.align(line_bytes);
        let neighbours = matches!(holder, Holder::Heap { blocks } if blocks.len() > 1);
        let readers: Vec<&Site> = sites.iter().filter(|site| site.writes == 0).collect();
        let writers: Vec<&Site> = sites.iter().filter(|site| site.writes > 0).collect();
        if neighbours {
            return Self::Allocate(format!(
                "these are neighbours on the heap: allocate what different threads write on lines of its own: {}",
                language.allocate(line_bytes)
            ));
        }
        if writers.iter().all(|site| site.is_lock) && writers.iter().any(|site| site.threads > 1) {
            return Self::Pad(format!("give each lock a line of its own: {align}"));
        }
        if let Some(count) = writers.iter().find(|site| site.counts_alone()) {
            return Self::PerThread(format!(
                "each thread writes its own part at {}: count in a local variable and store it once at the end, or \
                 give each part a line of its own: {align}",
                count.frame.brief()
            ));
        }
        if writers.iter().any(|site| site.threads > 1) {
            return Self::Pad(format!("give the part of each thread a line of its own: {align}"));
        }
        let writing: usize = writers.iter().map(|site| site.threads).max().unwrap_or(0);
        if !readers.is_empty() && writing == 1 && apart(&readers, &writers) && same_writer(&writers) {
            return Self::Split(format!(
                "move what others only read ({}, read at {}) away from what is written ({}, at {}): {align}",
                bytes(&readers[0].bytes),
                readers[0].frame.brief(),
                bytes(&writers[0].bytes),
                writers[0].frame.brief(),
            ));
        }
        Self::Pad(format!("give what each thread writes a line of its own: {align}"))
    }

    /// What eases true sharing of data in `holder`; `fields` are those that lines of their own would help in part.
    pub(super) fn of_true(holder: &Holder, sites: &[Site], fields: &[Field]) -> Self {
        if let Some(site) = sites.iter().find(|site| site.is_lock && site.writes > 0 && site.threads > 1) {
            return Self::Lock(format!(
                "threads take turns at a lock{}, at {}: hold it for less, take it for several items at once, or give \
                 parts of the data locks of their own",
                holder.name().map(|name| format!(" in {name}")).unwrap_or_default(),
                site.frame.brief()
            ));
        }
        if let Some(site) = sites.iter().find(|site| site.counts_alone()) {
            return Self::PerThread(format!(
                "threads count together at {}: let each count on a line of its own (per thread or per CPU), and add \
                 up when somebody asks",
                site.frame.brief()
            ));
        }
        let padding = if fields.is_empty() { " padding does not help;" } else { "" };
        Self::Rethink(format!(
            "threads use the same bytes:{padding} hand over less often (batches, a copy for each thread, a \
             lock held for less)"
        ))
    }
}

impl Site {
    /// Whether several threads count there, by the program's own code and not for a lock.
    fn counts_alone(&self) -> bool {
        self.is_counting() && self.threads > 1 && self.is_own && !self.is_lock
    }
}

impl Holder {
    /// The variable, or the block by its allocation; none where there is no name.
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

/// Whether nothing that readers read is written.
fn apart(readers: &[&Site], writers: &[&Site]) -> bool {
    let overlap = |a: &[(u32, u32)], b: &[(u32, u32)]| {
        a.iter().any(|&(start, end)| b.iter().any(|&(other, last)| start < last && other < end))
    };
    readers.iter().all(|reader| writers.iter().all(|writer| !overlap(&reader.bytes, &writer.bytes)))
}

/// Whether one and the same thread writes at all of these.
fn same_writer(writers: &[&Site]) -> bool {
    writers.windows(2).all(|two| two[0].parties == two[1].parties)
}

/// `bytes 0-7, 16-23`.
pub fn bytes(ranges: &[(u32, u32)]) -> String {
    let words: Vec<String> = ranges
        .iter()
        .map(
            |&(start, end)| if end - start <= 1 { start.to_string() } else { format!("{start}-{}", end - 1) },
        )
        .collect();
    let one = ranges.len() == 1 && ranges[0].1 - ranges[0].0 <= 1;
    format!("{} {}", if one { "byte" } else { "bytes" }, words.join(", "))
}

/// The language of the first site that has a file which says so.
fn language(sites: &[Site]) -> Language {
    let files = sites.iter().filter_map(|site| site.frame.file.as_deref());
    files.map(Language::of).find(|language| *language != Language::Other).unwrap_or(Language::Other)
}

impl Language {
    /// By the extension of a file.
    pub fn of(file: &str) -> Self {
        match file.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension) {
            Some("c" | "h") => Self::C,
            Some("cc" | "cpp" | "cxx" | "C" | "hh" | "hpp" | "hxx" | "ipp" | "tpp" | "inl") => Self::Cpp,
            Some("rs") => Self::Rust,
            Some("go") => Self::Go,
            _ => Self::Other,
        }
    }

    /// How a type or field is put on a line of its own.
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
            Self::Go => format!("a field _ [{line}]byte behind it (golang.org/x/sys/cpu has CacheLinePad)"),
            Self::Other => format!("align it to {line} bytes and fill the rest of the line"),
        }
    }

    /// How a block is put on lines of its own.
    fn allocate(self, line: u32) -> String {
        match self {
            Self::C => format!("aligned_alloc({line}, size rounded up to {line})"),
            Self::Cpp => format!("a type with alignas({line}), which new and std::allocator then respect"),
            Self::Rust => {
                format!("a type with #[repr(align({line}))], or Box<crossbeam_utils::CachePadded<T>>")
            }
            Self::Go => format!("pad the struct to {line} bytes or more: blocks of that size start on lines"),
            Self::Other => format!("align blocks to {line} bytes, and round their size up to it"),
        }
    }
}
