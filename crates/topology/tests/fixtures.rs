//! Checks that the machines in `fixtures/machines` are read exactly, and that the builder still produces the
//! same files.
//!
//! `MANYCORE_BLESS=1 cargo test -p manycore-topology fixtures::` rewrites the built ones.

use manycore_topology::{
    Machine, SysTree,
    capture::Capture,
    synthetic::{
        MachineSpec, Numbering,
        extras::{PciDevice, add_cgroup, add_device},
    },
};
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines").join(format!("{name}.machine"))
}

fn load(name: &str) -> Machine {
    manycore_topology::read(&SysTree::open(&path(name)).unwrap()).unwrap()
}

/// A dual-socket server with SMT, two nodes per package, offline CPUs, a memory expander, devices and limits.
fn server() -> Capture {
    let spec = MachineSpec {
        packages: 2,
        nodes: 2,
        cores: 8,
        threads: 2,
        numbering: Numbering::Halves,
        offline: "7,39".parse().unwrap(),
        memory_gib: 64,
        memory_only_gib: vec![256],
        ..MachineSpec::default()
    };
    let mut files = spec.capture();
    for device in [
        PciDevice { address: "0000:17:00.0", class: 0x02_0000, driver: "ice", node: 0, name: "net/eth0" },
        PciDevice {
            address: "0000:98:00.0",
            class: 0x01_0802,
            driver: "nvme",
            node: 2,
            name: "block/nvme0n1",
        },
        PciDevice {
            address: "0000:00:1f.0",
            class: 0x06_0100,
            driver: "lpc_ich",
            node: -1,
            name: "misc/none",
        },
    ] {
        add_device(&mut files, device);
    }
    add_cgroup(&mut files, "/system.slice/job.service", "0-15", "max 100000");
    files.add_file("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-3");
    files.add_file("sys/devices/virtual/memory_tiering/memory_tier961/nodelist", "4");
    files
}

/// Two packages of two clusters each. Firmware numbers the nodes 0 and 2.
fn with_gaps() -> Capture {
    let spec = MachineSpec { packages: 2, clusters: 2, cores: 2, ..MachineSpec::default() };
    let mut files = spec.capture();
    let node = "sys/devices/system/node";
    for name in files.list(&format!("{node}/node1")) {
        let text = files.file(&format!("{node}/node1/{name}")).unwrap().replace("Node 1", "Node 2");
        files.add_file(&format!("{node}/node2/{name}"), &text);
        files.remove(&format!("{node}/node1/{name}"));
    }
    files.add_file(&format!("{node}/online"), "0,2");
    files
}

fn built() -> Vec<(&'static str, Capture)> {
    let hybrid = MachineSpec { cores: 10, threads: 2, efficiency_cores: 4, ..MachineSpec::default() };
    let clusters =
        MachineSpec { packages: 2, nodes: 2, clusters: 8, cores: 4, stride: 4, ..MachineSpec::default() };
    vec![
        ("server-64cpu", server()),
        ("hybrid-16cpu", hybrid.capture()),
        ("clusters-128cpu", clusters.capture()),
        ("node-gaps-8cpu", with_gaps()),
    ]
}

#[test]
fn built_machines_are_as_saved() {
    for (name, files) in built() {
        let tree = SysTree::from_capture(files).with_recording();
        let machine = manycore_topology::read(&tree).unwrap();
        let text = tree.recording().unwrap().to_string();
        if std::env::var_os("MANYCORE_BLESS").is_some() {
            std::fs::write(path(name), &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path(name)).unwrap(), text, "{name} is out of date");
        assert_eq!(load(name), machine, "{name} reads differently once saved");
    }
}

#[test]
fn the_server_is_read_whole() {
    let server = load("server-64cpu");
    assert_eq!(
        (server.online.to_string(), server.offline.to_string()),
        ("0-6,8-38,40-63".into(), "7,39".into())
    );
    assert_eq!([server.packages.len(), server.cores.len(), server.nodes.len()], [2, 31, 5]);
    assert_eq!(server.packages[0].cpus.to_string(), "0-6,8-15,32-38,40-47");
    let expander = &server.nodes[4];
    assert_eq!(
        (expander.memory_only, expander.tier, expander.cpus.to_string()),
        (true, Some(961), "0-6,32-38".into())
    );
    assert_eq!(
        server.allowed.effective_limit,
        "/sys/fs/cgroup/system.slice/job.service/cpuset.cpus.effective leaves 0-6,8-15"
    );
    let devices: Vec<_> = server.devices.iter().map(|device| (device.names.join(","), device.node)).collect();
    assert_eq!(devices, [(String::new(), None), ("eth0".into(), Some(0)), ("nvme0n1".into(), Some(2))]);
}

#[test]
fn a_real_guest_is_read_whole() {
    let guest = load("guest-2cpu");
    assert_eq!(guest.system.hypervisor.as_deref(), Some("KVM"));
    assert_eq!(guest.system.os.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!(guest.allowed.effective_limit, "nothing");
    assert_eq!(
        guest.last_level_caches().map(|cache| cache.size_bytes).collect::<Vec<_>>(),
        [Some(300 << 20)]
    );
    let names: Vec<_> = guest.devices.iter().flat_map(|device| &device.names).collect();
    assert_eq!(names, ["vda", "eth0"]);
}

#[test]
fn clusters_and_sparse_numbers_are_read() {
    let machine = load("clusters-128cpu");
    assert_eq!((machine.clusters.len(), machine.cores.len()), (32, 128));
    assert_eq!(machine.clusters[1].cpus.to_string(), "16,20,24,28");
}
