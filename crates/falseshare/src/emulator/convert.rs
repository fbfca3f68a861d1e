//! Conversion of the shared region's contents into an [`Observation`] of the model.

use super::Program;
use crate::shadow::{
    reader::{self, LineSeen, MapSeen, ProcessSeen},
    region::{Region, SLOTS},
    windows,
};
use crate::sharing::{Access, Block, End, Line, Module, Names, Observation, Place, Process, Thread};
use manycore_linux::job::left_behind;
use std::path::Path;

/// Returns `observation` completed with the contents of `region` and with notes. `strays` are names of
/// programs that the command left running and that were ended with it.
pub fn observed(
    region: &Region,
    mut observation: Observation,
    program: &Program,
    strays: &[String],
) -> Observation {
    let (mut processes, untold) = reader::read(region);
    if matches!(observation.end, End::Timeout | End::Interrupted) {
        // The processes were ended by us, possibly in the middle of `execve(2)`.
        for process in &mut processes {
            process.vanished = false;
        }
    }
    observation.notes.extend(program.notes.iter().cloned());
    observation.processes = processes.iter().map(convert).collect();
    for (seen, process) in processes.iter().zip(&observation.processes) {
        let name = shown(seen, program);
        notes(seen, &name, &mut observation.notes);
        if !tells_allocations(seen) && shares_nameless(process) {
            observation.notes.push(format!(
                "allocations of {name} are not visible, because it is linked statically or with a C library other than \
                 glibc: shared data on its heap has no names"
            ));
        }
    }
    if untold.ended > 0 {
        let text =
            format!("{} processes with a single thread, which shared nothing, are not listed", untold.ended);
        observation.notes.push(text);
    }
    observation.unobserved = untold.strangers as usize;
    if untold.strangers > 0 {
        observation.notes.push(format!(
            "{} processes were not observed: more than {SLOTS} ran at the same time",
            untold.strangers
        ));
    }
    for stray in strays {
        observation.notes.push(left_behind(stray));
    }
    observation
}

/// Returns the name of a process for messages: the program as the command names it if it is the command's
/// own, rather than the target of a symbolic link.
fn shown(process: &ProcessSeen, program: &Program) -> String {
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
        None if process.vanished => {
            notes.push(format!(
                "the program that {name} executed did not start in the emulator and was not observed"
            ));
        }
        None => {}
    }
    let often = process.lines.iter().filter(|line| line.hand_overs > windows::MANY).count();
    if often > 0 {
        notes.push(format!(
            "{name}: transfer counts are estimates for lines (here {often}) with more than {} transfers: from then on, \
             these lines are sampled a sixteenth of the time",
            windows::MANY
        ));
    }
    let mut tell = |count: u64, what: &str| {
        if count > 0 {
            notes.push(format!("{name}: {count} {what}"));
        }
    };
    tell(process.not_followed, "accesses were not followed, as the memory for that was used up");
    tell(process.strangers, "accesses of threads beyond the first 4096 were not followed");
    tell(process.lost_maps, "mappings were not recorded, because there were too many");
    tell(process.lost_blocks, "heap blocks were not recorded, because there were too many");
    tell(
        sum(process.lines.iter().map(|line| line.uncounted)),
        "accesses to shared lines are missing from the tables, because there were too many different ones",
    );
}

/// Returns whether our library, which reports allocations, is loaded in the process.
fn tells_allocations(process: &ProcessSeen) -> bool {
    process.maps.iter().any(|map| map.path.starts_with("/memfd:manycore-preload"))
}

/// Returns whether there is false sharing on the heap without a known block, or in other memory without a name.
fn shares_nameless(process: &Process) -> bool {
    let is_nameless = |place: &Place| match place {
        Place::Heap { blocks } => blocks.is_empty(),
        Place::Mapping { .. } => true,
        _ => false,
    };
    process.lines.iter().any(|line| line.needless > 0 && is_nameless(&line.place))
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
        unfollowed: process.not_followed.saturating_add(process.strangers),
        escaped: process.escape.is_some() || process.vanished,
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
            .map(|map| Module {
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

fn convert_line(process: &ProcessSeen, files: &[&MapSeen], line: &LineSeen) -> Line {
    let first = line.accesses.iter().map(|access| access.offset).min().unwrap_or(0);
    Line {
        address: line.address,
        layout: line.layout,
        hand_overs: line.hand_overs,
        needless: line.needless,
        accesses: line
            .accesses
            .iter()
            .map(|access| Access {
                thread: access.thread,
                code: access.code,
                of_lock: access.of_lock,
                offset: access.offset,
                bytes: access.bytes,
                reads: access.reads,
                writes: access.writes,
            })
            .collect(),
        place: place(process, files, line, line.address.saturating_add(u64::from(first))),
    }
}

/// Returns what contains `address`, the first byte of `line` that was accessed.
fn place(process: &ProcessSeen, files: &[&MapSeen], line: &LineSeen, address: u64) -> Place {
    if !line.blocks.is_empty() {
        let block = |block: &reader::BlockSeen| Block {
            start: block.start,
            bytes: block.bytes,
            callers: block.callers.clone(),
        };
        return Place::Heap { blocks: line.blocks.iter().map(block).collect() };
    }
    let inside = |(start, end): (u64, u64)| (start..end).contains(&address);
    let stack = process.threads.iter().rposition(|thread| inside(thread.stack));
    if let Some(thread) = stack {
        return Place::Stack { thread };
    }
    if inside(process.heap) {
        return Place::Heap { blocks: Vec::new() };
    }
    let holds = |map: &MapSeen, live: bool| map.live == live && inside((map.start, map.end));
    let file = |live| files.iter().rposition(|map| holds(map, live));
    let other = |live| process.maps.iter().rev().find(|map| map.path.is_empty() && holds(map, live));
    // A file that was unmapped does not give its name to later mappings at the same address.
    let map = match (file(true), other(true), file(false), other(false)) {
        (Some(module), ..) | (None, None, Some(module), _) => return Place::Module { module },
        (None, Some(map), ..) | (None, None, None, Some(map)) => map,
        (None, None, None, None) => return Place::Unknown,
    };
    // Zeroed memory directly after a file's mapping is its `.bss`.
    match files.iter().rposition(|file| file.end == map.start && file.live == map.live) {
        Some(module) => Place::Module { module },
        None => Place::Mapping { start: map.start, bytes: map.end - map.start },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::reader::{AccessSeen, ThreadSeen};

    /// Regression test: memory at an address where a file had been mapped was reported as that file's data.
    #[test]
    fn memory_is_not_called_after_a_file_that_was_there_before() {
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
        let anonymous = Place::Mapping { start: 0x1000, bytes: 0x2000 };
        assert_eq!(place_among(vec![map("/etc/passwd", false), map("", true)]), anonymous);
        assert_eq!(place_among(vec![map("", false), map("/lib/a", true)]), Place::Module { module: 0 });
        assert_eq!(place_among(vec![map("/lib/a", false), map("", false)]), Place::Module { module: 0 });
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
        let mut told = Vec::new();
        notes(&seen, "x", &mut told);
        assert!(told[0].contains(&format!("{} accesses to shared lines", u64::MAX)), "{told:?}");
        let process = convert(&seen);
        assert_eq!((process.accesses, &process.lines[1].place), (u64::MAX, &Place::Unknown));
    }
}
