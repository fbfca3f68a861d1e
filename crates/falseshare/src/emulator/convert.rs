//! Conversion of the shared region's contents into an [`Observation`].

use super::Program;
use crate::{
    shadow::{
        reader::{self, LineSeen, MapSeen, ProcessSeen},
        region::{Region, SLOTS},
        sampling_windows,
    },
    sharing::{
        CommandEnd, HeapBlock, LineAccess, MappedFile, MemoryKind, Names, Observation, Process, SharedLine,
        Thread,
    },
};
use manycore_linux::job::leftover_note;
use std::path::Path;

/// Returns `observation` completed with the contents of `region` and with notes. `leftovers` are names of
/// programs that the command left running and that were ended with it.
pub fn to_observation(
    region: &Region,
    mut observation: Observation,
    program: &Program,
    leftovers: &[String],
) -> Observation {
    let (mut processes, unreported) = reader::read(region);
    if matches!(observation.end, CommandEnd::Timeout | CommandEnd::Interrupted) {
        // The processes were ended by us, possibly in the middle of `execve(2)`.
        for process in &mut processes {
            process.exec_failed_silently = false;
        }
    }
    observation.notes.extend(program.notes.iter().cloned());
    observation.processes = processes.iter().map(convert).collect();
    for (seen, process) in processes.iter().zip(&observation.processes) {
        let name = display_name(seen, program);
        notes(seen, &name, &mut observation.notes);
        if !reports_allocations(seen) && has_unnamed_sharing(process) {
            observation.notes.push(format!(
                "allocations of {name} are not visible, because it is linked statically or with a C library other than \
                 glibc: shared data on its heap has no names"
            ));
        }
    }
    if unreported.ended > 0 {
        let text = format!(
            "{} processes with a single thread, which shared nothing, are not listed",
            unreported.ended
        );
        observation.notes.push(text);
    }
    observation.unobserved_processes = unreported.without_slot as usize;
    if unreported.without_slot > 0 {
        observation.notes.push(format!(
            "{} processes were not observed: more than {SLOTS} ran at the same time",
            unreported.without_slot
        ));
    }
    for leftover in leftovers {
        observation.notes.push(leftover_note(leftover));
    }
    observation
}

/// Returns the name of a process for messages: the program as the command names it if it is the command's
/// own, rather than the target of a symbolic link.
fn display_name(process: &ProcessSeen, program: &Program) -> String {
    let is_named = std::fs::canonicalize(&program.path).is_ok_and(|path| path == Path::new(&process.program));
    let path = if is_named { program.path.display().to_string() } else { process.program.clone() };
    format!("{path} (process {})", process.pid)
}

fn notes(process: &ProcessSeen, name: &str, notes: &mut Vec<String>) {
    match &process.escape {
        Some((path, why)) if why.is_empty() => {
            notes.push(format!("{path}, which {name} executed, was not observed"));
        }
        Some((path, why)) => notes.push(format!("{path}, which {name} executed, was not observed: {why}")),
        None if process.exec_failed_silently => {
            notes.push(format!(
                "the program that {name} executed did not start in the emulator and was not observed"
            ));
        }
        None => {}
    }
    let sampled = process.lines.iter().filter(|line| line.transfers > sampling_windows::SAMPLE_AFTER).count();
    if sampled > 0 {
        notes.push(format!(
            "{name}: transfer counts are estimates for lines (here {sampled}) with more than {} transfers: from then on, \
             these lines are sampled a sixteenth of the time",
            sampling_windows::SAMPLE_AFTER
        ));
    }
    let mut note_count = |count: u64, what: &str| {
        if count > 0 {
            notes.push(format!("{name}: {count} {what}"));
        }
    };
    note_count(process.unfollowed_accesses, "accesses were not followed, as the memory for that was used up");
    note_count(process.overflow_accesses, "accesses of threads beyond the first 4096 were not followed");
    note_count(process.lost_maps, "mappings were not recorded, because there were too many");
    note_count(process.lost_blocks, "heap blocks were not recorded, because there were too many");
    note_count(
        sum(process.lines.iter().map(|line| line.uncounted)),
        "accesses to shared lines are missing from the tables, because there were too many different ones",
    );
}

/// Returns whether our library, which reports allocations, is loaded in the process.
fn reports_allocations(process: &ProcessSeen) -> bool {
    process.maps.iter().any(|map| map.path.starts_with("/memfd:manycore-preload"))
}

/// Returns whether there is false sharing on the heap without a known block, or in other memory without a name.
fn has_unnamed_sharing(process: &Process) -> bool {
    let is_nameless = |place: &MemoryKind| match place {
        MemoryKind::Heap { blocks } => blocks.is_empty(),
        MemoryKind::Mapping { .. } => true,
        _ => false,
    };
    process.lines.iter().any(|line| line.false_transfers > 0 && is_nameless(&line.memory))
}

/// Returns the saturated sum of counts. The program can write into the region, so counts may be any number.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn convert(process: &ProcessSeen) -> Process {
    let files: Vec<&MapSeen> = process.maps.iter().filter(|map| !map.path.is_empty()).collect();
    let name = Path::new(&process.program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    Process {
        pid: process.pid,
        program: process.program.clone(),
        unfollowed_accesses: process.unfollowed_accesses.saturating_add(process.overflow_accesses),
        ran_unobserved: process.escape.is_some() || process.exec_failed_silently,
        threads: process
            .threads
            .iter()
            .map(|thread| Thread {
                tid: thread.tid,
                // A thread whose name was never set has the emulator's name.
                name: if thread.name.is_empty() || thread.name.starts_with("qemu-") {
                    name.chars().take(15).collect()
                } else {
                    thread.name.clone()
                },
            })
            .collect(),
        modules: files
            .iter()
            .map(|map| MappedFile {
                start: map.start,
                end: map.end,
                file_offset: map.offset,
                path: map.path.clone(),
            })
            .collect(),
        lines: process.lines.iter().map(|line| convert_line(process, &files, line)).collect(),
        names: Names::default(),
        accesses: sum(process.threads.iter().map(|thread| thread.accesses)),
    }
}

fn convert_line(process: &ProcessSeen, files: &[&MapSeen], line: &LineSeen) -> SharedLine {
    let first = line.accesses.iter().map(|access| access.offset).min().unwrap_or(0);
    SharedLine {
        address: line.address,
        layout: line.layout,
        transfers: line.transfers,
        false_transfers: line.false_transfers,
        accesses: line
            .accesses
            .iter()
            .map(|access| LineAccess {
                thread: access.thread,
                code: access.code,
                of_lock: access.of_lock,
                offset: access.offset,
                bytes: access.bytes,
                reads: access.reads,
                writes: access.writes,
            })
            .collect(),
        memory: place(process, files, line, line.address.saturating_add(u64::from(first))),
    }
}

/// Returns what contains `address`, the first byte of `line` that was accessed.
fn place(process: &ProcessSeen, files: &[&MapSeen], line: &LineSeen, address: u64) -> MemoryKind {
    if !line.blocks.is_empty() {
        let block = |block: &reader::BlockSeen| HeapBlock {
            start: block.start,
            bytes: block.bytes,
            callers: block.callers.clone(),
        };
        return MemoryKind::Heap { blocks: line.blocks.iter().map(block).collect() };
    }
    let inside = |(start, end): (u64, u64)| (start..end).contains(&address);
    let stack = process.threads.iter().rposition(|thread| inside(thread.stack));
    if let Some(thread) = stack {
        return MemoryKind::Stack { thread };
    }
    if inside(process.heap) {
        return MemoryKind::Heap { blocks: Vec::new() };
    }
    let holds = |map: &MapSeen, live: bool| map.live == live && inside((map.start, map.end));
    let file = |live| files.iter().rposition(|map| holds(map, live));
    let other = |live| process.maps.iter().rev().find(|map| map.path.is_empty() && holds(map, live));
    // A file that was unmapped does not give its name to later mappings at the same address.
    let map = match (file(true), other(true), file(false), other(false)) {
        (Some(module), ..) | (None, None, Some(module), _) => return MemoryKind::Module { module },
        (None, Some(map), ..) | (None, None, None, Some(map)) => map,
        (None, None, None, None) => return MemoryKind::Unknown,
    };
    // Zeroed memory directly after a file's mapping is its `.bss`.
    match files.iter().rposition(|file| file.end == map.start && file.live == map.live) {
        Some(module) => MemoryKind::Module { module },
        None => MemoryKind::Mapping { start: map.start, bytes: map.end - map.start },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::reader::{AccessSeen, ThreadSeen};

    /// Regression test: memory at an address where a file had been mapped was reported as that file's data.
    #[test]
    fn memory_is_not_named_after_a_file_that_was_mapped_there_before() {
        let map = |path: &str, live| MapSeen {
            start: 0x1000,
            end: 0x3000,
            path: path.to_owned(),
            live,
            ..MapSeen::default()
        };
        let line = LineSeen { address: 0x1040, ..LineSeen::default() };
        let place_among = |maps: Vec<MapSeen>| {
            let process = ProcessSeen { maps, ..ProcessSeen::default() };
            let files: Vec<&MapSeen> = process.maps.iter().filter(|map| !map.path.is_empty()).collect();
            place(&process, &files, &line, line.address)
        };
        let anonymous = MemoryKind::Mapping { start: 0x1000, bytes: 0x2000 };
        assert_eq!(place_among(vec![map("/etc/passwd", false), map("", true)]), anonymous);
        assert_eq!(place_among(vec![map("", false), map("/lib/a", true)]), MemoryKind::Module { module: 0 });
        assert_eq!(place_among(vec![map("/lib/a", false), map("", false)]), MemoryKind::Module { module: 0 });
    }

    #[test]
    fn figures_beyond_all_bounds_are_converted() {
        let thread = ThreadSeen { accesses: u64::MAX, ..ThreadSeen::default() };
        let access = AccessSeen { offset: 8, ..AccessSeen::default() };
        let line = LineSeen {
            address: u64::MAX - 3,
            uncounted: u64::MAX,
            accesses: vec![access],
            ..LineSeen::default()
        };
        let seen = ProcessSeen {
            threads: vec![thread.clone(), thread],
            lines: vec![line.clone(), line],
            ..ProcessSeen::default()
        };
        let mut texts = Vec::new();
        notes(&seen, "x", &mut texts);
        assert!(texts[0].contains(&format!("{} accesses to shared lines", u64::MAX)), "{texts:?}");
        let process = convert(&seen);
        assert_eq!((process.accesses, &process.lines[1].memory), (u64::MAX, &MemoryKind::Unknown));
    }
}
