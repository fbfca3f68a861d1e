use super::*;
use crate::details::Pressure;
use manycore_topology::capture::Capture;
use std::{fs, path::Path};

const SOME: &str =
    "some avg10=2.50 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
const MOUNTS: &str = "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n2 0 0:2 / /cg/memory rw - cgroup cgroup rw,memory\n\
                      3 0 0:3 / /cg/unified rw - cgroup2 cgroup2 rw\n";

fn read_files(files: &[(&str, &str)]) -> Vec<GroupSample> {
    read_parts(files, GroupParts::All)
}

fn read_parts(files: &[(&str, &str)], parts: GroupParts) -> Vec<GroupSample> {
    let mut capture = Capture::default();
    for (path, text) in files {
        capture.add_file(path, text);
    }
    let mut into = Vec::new();
    read(&SysTree::from_capture(capture), &mut Names::default(), parts, &mut into);
    into
}

#[test]
fn version_2_is_read_with_its_limits_and_pressure() {
    let found = read_files(&[
        ("proc/self/mountinfo", "3 0 0:3 / /cg rw - cgroup2 cgroup2 rw\n"),
        ("cg/cgroup.controllers", "cpuset cpu memory"),
        ("cg/cgroup.procs", "1\n2\n"),
        ("cg/cpu.stat", "usage_usec 900\nuser_usec 1\n"),
        ("cg/a.slice/cpu.stat", "usage_usec 12\nnr_throttled 3\nthrottled_usec 5\n"),
        ("cg/a.slice/b\u{1b}/cpu.max", "max 100000"),
        ("cg/a.slice/b\u{1b}/memory.max", "max"),
        ("cg/a.slice/cpu.max", "150000 100000"),
        ("cg/a.slice/memory.current", "4096"),
        ("cg/a.slice/memory.max", "8192"),
        ("cg/a.slice/cgroup.procs", ""),
        ("cg/a.slice/cpu.pressure", SOME),
        ("cg/a.slice/memory.pressure", SOME),
        ("cg/a.slice/io.pressure", SOME),
    ]);
    let pressure = Pressure { some_ns: 7000, some_percent: 2.5 };
    let root =
        GroupSample { path: "/".into(), cpu_ns: Some(900_000), processes: 2, ..GroupSample::default() };
    let slice = GroupSample {
        path: "/a.slice".into(),
        cpu_ns: Some(12_000),
        throttled_ns: Some(5000),
        quota_milli: Some(1500),
        memory_bytes: Some(4096),
        memory_limit: Some(8192),
        processes: 0,
        pressure: Some([pressure; 3]),
    };
    let inner = GroupSample { path: "/a.slice/b\u{fffd}".into(), ..GroupSample::default() };
    assert_eq!(found, [root, slice, inner]);
}

#[test]
fn hierarchies_of_version_1_are_joined_by_path() {
    let found = read_files(&[
        ("proc/self/mountinfo", MOUNTS),
        ("cg/unified/cgroup.controllers", ""),
        ("cg/unified/x/cgroup.procs", "7\n"),
        ("cg/cpu/docker/cpuacct.usage", "123456"),
        ("cg/cpu/docker/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 99\n"),
        ("cg/cpu/docker/cpu.cfs_quota_us", "50000"),
        ("cg/cpu/docker/cpu.cfs_period_us", "100000"),
        ("cg/memory/docker/memory.usage_in_bytes", "10"),
        ("cg/memory/docker/memory.limit_in_bytes", "20"),
        ("cg/memory/docker/cgroup.procs", "3\n4\n"),
        ("cg/memory/free/memory.limit_in_bytes", "9223372036854771712"),
    ]);
    let docker = GroupSample {
        path: "/docker".into(),
        cpu_ns: Some(123_456),
        throttled_ns: Some(99),
        quota_milli: Some(500),
        memory_bytes: Some(10),
        memory_limit: Some(20),
        processes: 2,
        pressure: None,
    };
    let named = |path: &str| GroupSample { path: path.into(), ..GroupSample::default() };
    assert_eq!(found, [named("/"), docker, named("/free")]);
}

#[test]
fn on_version_1_the_outermost_group_has_the_pressure_of_the_machine() {
    let files = [
        ("cg/cpu/release_agent", ""),
        ("proc/self/mountinfo", MOUNTS),
        ("cg/unified/cgroup.controllers", ""),
        ("cg/cpu/docker/cpuacct.usage", "123456"),
        ("proc/pressure/cpu", SOME),
        ("proc/pressure/memory", SOME),
        ("proc/pressure/io", SOME),
    ];
    let pressure = |files: &[_], parts| {
        read_parts(files, parts).into_iter().map(|one| (one.path.to_string(), one.pressure))
    };
    let machine = Some([Pressure { some_ns: 7000, some_percent: 2.5 }; 3]);
    let found: Vec<_> = pressure(&files, GroupParts::All).collect();
    assert_eq!(found, [("/".to_owned(), machine), ("/docker".to_owned(), None)]);
    // In a container, the outermost group is not the machine.
    assert!(pressure(&files[1..], GroupParts::All).all(|(_, pressure)| pressure.is_none()));
    assert!(pressure(&files, GroupParts::Throttling).all(|(_, pressure)| pressure.is_none()));
}

#[test]
fn throttling_alone_is_read_from_two_files() {
    let throttled = |name: &str| GroupSample {
        path: name.into(),
        throttled_ns: Some(5000),
        quota_milli: Some(1500),
        ..GroupSample::default()
    };
    let root = GroupSample { path: "/".into(), ..GroupSample::default() };
    let unified = [
        ("proc/self/mountinfo", "3 0 0:3 / /cg rw - cgroup2 cgroup2 rw\n"),
        ("cg/cgroup.controllers", "cpu"),
        ("cg/a/cpu.stat", "usage_usec 12\nnr_throttled 3\nthrottled_usec 5\n"),
        ("cg/a/cpu.max", "150000 100000"),
        ("cg/a/memory.current", "4096"),
        ("cg/a/cgroup.procs", "7\n"),
        ("cg/a/cpu.pressure", SOME),
    ];
    assert_eq!(read_parts(&unified, GroupParts::Throttling), [root.clone(), throttled("/a")]);
    assert_eq!(read_parts(&unified, GroupParts::None), []);
    let named = [
        ("proc/self/mountinfo", MOUNTS),
        ("cg/unified/cgroup.controllers", ""),
        ("cg/cpu/b/cpu.stat", "throttled_time 5000\n"),
        ("cg/cpu/b/cpu.cfs_quota_us", "150000"),
        ("cg/cpu/b/cpu.cfs_period_us", "100000"),
        ("cg/memory/c/memory.usage_in_bytes", "10"),
    ];
    assert_eq!(read_parts(&named, GroupParts::Throttling), [root, throttled("/b")]);
    assert!(GroupParts::None < GroupParts::Throttling && GroupParts::Throttling < GroupParts::All);
}

#[test]
fn number_and_depth_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let make = |path: &Path| fs::create_dir_all(path).unwrap();
    make(&folder.path().join("proc/self"));
    fs::write(folder.path().join("proc/self/mountinfo"), "3 0 0:3 / /cg rw - cgroup2 cgroup2 rw\n").unwrap();
    make(&folder.path().join("cg").join("a/".repeat(DEEPEST + 9)));
    let tree = SysTree::open(folder.path()).unwrap();
    let mut into = Vec::new();
    read(&tree, &mut Names::default(), GroupParts::All, &mut into);
    assert_eq!(into.len(), DEEPEST + 1);
    for number in 0..MOST_GROUPS + 5 {
        fs::create_dir(folder.path().join(format!("cg/b{number}"))).unwrap();
    }
    read(&tree, &mut Names::default(), GroupParts::All, &mut into);
    assert_eq!(into.len(), MOST_GROUPS);
    assert!(into.is_sorted_by(|a, b| a.path < b.path));
}

#[test]
fn the_groups_of_this_machine_are_read() {
    let tree = SysTree::open(Path::new("/")).unwrap();
    let mut into = Vec::new();
    read(&tree, &mut Names::default(), GroupParts::All, &mut into);
    match into.first() {
        Some(root) => assert!(&*root.path == "/" && root.cpu_ns.is_some_and(|ns| ns > 0), "{root:?}"),
        None => println!("SKIPPED: no control groups are mounted here"),
    }
}
