//! Damaged and hostile trees: each file that is read is replaced by nonsense in turn. Reading may return an
//! error, but must not panic, hang or use unbounded memory.

use manycore_topology::{
    SysTree,
    capture::Entry,
    synthetic::{MachineSpec, extras::add_cgroup},
};
use proptest::prelude::*;

fn files() -> Vec<String> {
    let mut capture =
        MachineSpec { packages: 2, cores: 2, threads: 2, memory_only_gib: vec![8], ..MachineSpec::default() }
            .capture();
    add_cgroup(&mut capture, "/a/b", "0-3", "150000 100000");
    let tree = SysTree::from_capture(capture).with_recording();
    manycore_topology::read(&tree).unwrap();
    let read = tree.recording().unwrap();
    let names = read.entries().filter(|(_, entry)| matches!(entry, Entry::File(_)));
    names.map(|(path, _)| path.to_owned()).collect()
}

fn with(path: &str, text: &str) -> SysTree {
    let mut capture =
        MachineSpec { packages: 2, cores: 2, threads: 2, memory_only_gib: vec![8], ..MachineSpec::default() }
            .capture();
    add_cgroup(&mut capture, "/a/b", "0-3", "150000 100000");
    capture.add_file(path, text);
    SysTree::from_capture(capture)
}

const NONSENSE: [&str; 12] = [
    "",
    "a",
    "3-1",
    "0-99999999999",
    "0-4294967294",
    "-1",
    "ffffffff,ffffffff,ffffffff",
    "0x",
    "\u{0}\u{1}",
    ",,,",
    "18446744073709551616",
    "NaN",
];

#[test]
fn every_file_may_hold_nonsense() {
    let files = files();
    assert!(files.len() > 50, "{}", files.len());
    for path in &files {
        for text in NONSENSE {
            if let Err(error) = manycore_topology::read(&with(path, text)) {
                assert!(error.to_string().contains(path.as_str()), "{path} = {text:?}: {error}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_file_may_hold_anything(at: prop::sample::Index, text in "(\\PC|\n|,|-|[0-9a-f]){0,60}") {
        let files = files();
        let _ = manycore_topology::read(&with(&files[at.index(files.len())], &text));
    }
}
