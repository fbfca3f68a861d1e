//! Dumps of generated code for perf, with source lines (`tools/perf/Documentation/jitdump-specification.txt` of Linux).

use super::{Names, printable_name};
use crate::{cursor::Cursor, sharing::Frame};
use std::collections::BTreeSet;

/// The first word of a dump, `JiTD` in this machine's byte order.
const MAGIC: u32 = 0x4a69_5444;
/// Types of records.
const CODE_LOAD: u32 = 0;
const DEBUG_INFO: u32 = 2;
/// Size in bytes of a record's header: type, size, time.
const HEAD: usize = 16;

/// A line table entry: first instruction, file and line.
type Source<'a> = (u64, &'a [u8], u32);

/// Adds the names of `addresses`. The last name of an address counts, because code is compiled again at the
/// same address.
pub(super) fn add_names(bytes: &[u8], addresses: &BTreeSet<u64>, names: &mut Names) {
    let mut header = Cursor::new(bytes);
    if header.u32() != Some(MAGIC) {
        return;
    }
    let Some(mut rest) = header.u32().and(header.u32()).and_then(|size| bytes.get(size as usize..)) else {
        return;
    };
    let mut sources = Vec::new();
    loop {
        let mut head = Cursor::new(rest);
        let (Some(kind), Some(size)) = (head.u32(), head.u32()) else { return };
        let Some(record) = rest.get(HEAD..size as usize) else { return };
        match kind {
            DEBUG_INFO => sources = lines(record).unwrap_or_default(),
            CODE_LOAD => {
                load(record, &sources, addresses, names);
                sources.clear();
            }
            _ => {}
        }
        rest = &rest[size as usize..];
    }
}

/// Returns the line table of the code that the next record loads. Returns `None` if a file name is not valid text:
/// V8 10 writes freed memory, including zeros, as names of scripts, after which the record cannot be parsed.
fn lines(record: &[u8]) -> Option<Vec<Source<'_>>> {
    let mut cursor = Cursor::new(record);
    let (_start, count) = (cursor.u64()?, cursor.u64()?);
    let mut lines: Vec<Source<'_>> = Vec::new();
    for _ in 0..count {
        let (Some(address), Some(line), Some(_)) = (cursor.u64(), cursor.u32(), cursor.u32()) else {
            break;
        };
        let Some(file) = cursor.text() else { break };
        // The same file as in the previous entry.
        let file = if file == b"\xff" { lines.last().map_or(&b""[..], |last| last.1) } else { file };
        if str::from_utf8(file).map_or(true, |name| name.contains(char::is_control)) {
            return None;
        }
        lines.push((address, file, line));
    }
    lines.sort_by_key(|line| line.0);
    Some(lines)
}

fn load(record: &[u8], sources: &[Source<'_>], addresses: &BTreeSet<u64>, names: &mut Names) -> Option<()> {
    let mut cursor = Cursor::new(record);
    let (_pid, _tid, _virtual) = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
    let (start, bytes, _index) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let function = printable_name(cursor.text()?);
    for address in addresses.range(start..start.saturating_add(bytes)) {
        let upto = sources.partition_point(|source| source.0 <= *address);
        let source = upto.checked_sub(1).and_then(|at| sources.get(at)).filter(|source| !source.1.is_empty());
        let frame = Frame {
            function: function.clone(),
            file: source.map(|source| printable_name(source.1)),
            line: source.map(|source| source.2).filter(|line| *line > 0),
        };
        names.insert(*address, frame);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        let size = (HEAD + body.len()) as u32;
        [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 8], &body].concat()
    }

    fn dump() -> Vec<u8> {
        let header: Vec<u8> =
            [MAGIC, 1, 40, 62, 0, 7, 0, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let long = |number: u64| number.to_ne_bytes();
        let place = |line: u32| [line.to_ne_bytes(), [0; 4]].concat();
        let lines = [
            &long(0x1000)[..],
            &long(2),
            &long(0x1000),
            &place(7),
            b"src/Work.java\0",
            &long(0x1010),
            &place(9),
            b"\xff\0",
        ];
        let load = [&[0; 8][..], &long(0), &long(0x1000), &long(0x20), &long(1), b"Work.run\0", &[0xc3; 32]];
        [header, record(DEBUG_INFO, &lines), record(1, &[]), record(CODE_LOAD, &load)].concat()
    }

    /// Regression test: with `node --perf-prof`, the file was shown as `X�`, and the line was that of other code.
    #[test]
    fn lines_of_a_file_whose_name_is_no_text_are_left_out() {
        let at = |position: usize, wrong: &[u8]| {
            let mut dump = dump();
            dump[position..position + wrong.len()].copy_from_slice(wrong);
            let mut names = Names::new();
            add_names(&dump, &BTreeSet::from([0x1004]), &mut names);
            names[&0x1004].clone()
        };
        let position = dump().windows(4).position(|part| part == b"src/").unwrap();
        for wrong in [&b"y[\x10\x08@\0\0\0\x0f6"[..], b" \x81\x01\x04\0\0\0\0\x0f6"] {
            let frame = at(position, wrong);
            assert_eq!((&*frame.function, frame.file, frame.line), ("Work.run", None, None));
        }
        assert_eq!(at(position, b"s").line, Some(7));
    }

    #[test]
    fn functions_are_named_with_their_lines() {
        let mut names = Names::new();
        add_names(&dump(), &BTreeSet::from([0xfff, 0x1004, 0x1010, 0x1020]), &mut names);
        let found: Vec<_> =
            names.iter().map(|(at, it)| (*at, &*it.function, it.file.as_deref(), it.line)).collect();
        let file = Some("src/Work.java");
        assert_eq!(found, [(0x1004, "Work.run", file, Some(7)), (0x1010, "Work.run", file, Some(9))]);
    }

    proptest! {
        /// A program may write anything to this file.
        #[test]
        fn any_dump_is_read_to_its_end(at in 0_usize..200, byte in any::<u8>(), cut in 0_usize..250) {
            let mut bytes = dump();
            bytes.truncate(cut.max(12));
            let count = bytes.len();
            bytes[at % count] = byte;
            add_names(&bytes, &BTreeSet::from([0x1004]), &mut Names::new());
        }
    }
}
