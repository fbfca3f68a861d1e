use super::*;
use std::os::unix::fs::symlink;

fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("etc")).unwrap();
    std::fs::create_dir_all(root.path().join("cpu/cpu12")).unwrap();
    std::fs::create_dir_all(root.path().join("cpu/cpu01")).unwrap();
    std::fs::write(root.path().join("etc/name"), "inside \n").unwrap();
    std::fs::write(root.path().join("etc/raw"), b"\xffx\0").unwrap();
    symlink("/etc/name", root.path().join("absolute")).unwrap();
    symlink("../../../../etc/name", root.path().join("climbing")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    root
}

#[test]
fn links_stay_below_the_root() {
    let root = folder();
    let tree = SysTree::open(root.path()).unwrap();
    assert_eq!(tree.read("absolute").as_deref(), Some("inside"));
    assert_eq!(tree.read("climbing").as_deref(), Some("inside"));
    assert_eq!(tree.read("loop"), None);
    assert_eq!(tree.link("absolute").as_deref(), Some("/etc/name"));
    assert!(open_confined(root.path(), "climbing", OFlags::RDONLY).is_none());
    assert!(open_confined(root.path(), "etc/name", OFlags::RDONLY).is_some());
}

#[test]
fn odd_files_are_absent_or_repaired() {
    let root = folder();
    let tree = SysTree::open(root.path()).unwrap();
    assert_eq!(tree.read("etc"), None);
    assert_eq!(tree.read("none"), None);
    assert_eq!(tree.read("etc/raw").as_deref(), Some("\u{fffd}x"));
    assert_eq!(tree.numbered_entries("cpu", "cpu").to_string(), "12");
    assert_eq!((tree.folders("cpu"), tree.folders("etc")), (vec!["cpu01".into(), "cpu12".into()], vec![]));
    assert!(SysTree::open(&root.path().join("none")).is_err());
    assert!(SysTree::open(&root.path().join("etc/name")).is_err());
}

#[test]
fn a_record_reads_like_its_source() {
    let root = folder();
    let tree = SysTree::open(root.path()).unwrap().with_recording();
    let see = |tree: &SysTree| {
        (
            tree.read("etc/name"),
            tree.link("absolute"),
            tree.numbered_entries("cpu", "cpu"),
            tree.list("cpu"),
            tree.read("no"),
        )
    };
    let seen = see(&tree);
    let again = SysTree::parse("again", &tree.recording().unwrap().to_string()).unwrap();
    assert_eq!(see(&again), seen);
}

#[test]
fn digits_are_bytes() {
    let bytes: Vec<u8> = (0..=255).collect();
    let text = digits(&bytes);
    assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [64; 8]);
    assert_eq!(from_digits(&text).unwrap(), bytes);
    assert_eq!(from_digits(" 0 1\nfF "), Some(vec![1, 255]));
    assert_eq!([from_digits("012"), from_digits("0x"), from_digits("ü0")], [None, None, None]);
}
