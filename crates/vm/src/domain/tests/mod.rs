//! Tests of plans for domains on synthetic machines.

mod again;
mod bytes;
mod earlier;
mod machines;
mod placing;
mod refusals;

use super::{
    AvailableMemory, BandwidthUnit, DomainPlan, LibvirtDialect, PlanRequest, TuneRequest, Version, plan,
};
use crate::{error::PlanError, remedy::PlanNote};
use manycore_topology::{
    CpuSet, Machine,
    machine::{Cache, CacheKind, Device, Group, Node},
};

/// Returns the L3 cache of a node, with an id that is not its index.
fn l3((index, cpus): (usize, CpuSet)) -> Cache {
    Cache {
        level: 3,
        kind: CacheKind::Unified,
        size_bytes: Some(32 << 20),
        line_bytes: Some(64),
        ways: Some(16),
        id: Some(index as u32 * 2),
        cpus,
    }
}

/// Returns a machine with the given numbers of packages, nodes per package, clusters per node, cores per
/// cluster and threads per core. Siblings have adjacent numbers. Node N has a device `0000:NN:00.0` (NN
/// counts from 10) and 64 GiB.
pub(super) fn machine(packages: u32, nodes: u32, clusters: u32, cores: u32, threads: u32) -> Machine {
    let all = packages * nodes * clusters * cores * threads;
    let groups = |count: u32| -> Vec<CpuSet> {
        let size = all / count;
        (0..count).map(|at| (at * size..(at + 1) * size).collect()).collect()
    };
    let named = |count: u32| -> Vec<Group> {
        groups(count).into_iter().map(|cpus| Group { id: None, cpus }).collect()
    };
    let count = packages * nodes;
    let far = |from: u32, to: u32| match () {
        () if from == to => 10,
        () if from / nodes == to / nodes => 12,
        () => 32,
    };
    Machine {
        online: (0..all).collect(),
        packages: named(packages),
        dies: named(packages),
        clusters: named(count * clusters),
        cores: named(count * clusters * cores),
        caches: groups(count).into_iter().enumerate().map(l3).collect(),
        nodes: groups(count)
            .into_iter()
            .zip(0..)
            .map(|(cpus, id)| Node {
                id,
                cpus,
                memory_bytes: Some(64 << 30),
                distances: (0..count).map(|to| far(id, to)).collect(),
                ..Node::default()
            })
            .collect(),
        devices: (0..count)
            .map(|node| Device {
                address: format!("0000:{:02x}:00.0", 0x10 + node),
                class: 0x02_0000,
                id: Some(format!("8086:{node:04x}")),
                node: Some(node),
                ..Device::default()
            })
            .collect(),
        ..Machine::default()
    }
}

/// Returns the request of a command line with only this policy.
pub(super) fn request(policy: &str) -> PlanRequest {
    PlanRequest {
        qemu: Some(Version(9, 1, 0)),
        libvirt: Some(Version(10, 1, 0)),
        ..PlanRequest::new(policy.parse().unwrap())
    }
}

/// Returns a passed-through device of that host node.
pub(super) fn hostdev(node: u32) -> String {
    format!(
        "    <hostdev mode='subsystem' type='pci' managed='yes'>\n      <source>\n        <address domain='0x0000' \
         bus='{:#04x}' slot='0x00' function='0x0'/>\n      </source>\n    </hostdev>\n",
        0x10 + node
    )
}

/// Returns a domain with this many virtual CPUs and these devices.
pub(super) fn domain(vcpus: u32, devices: &str) -> String {
    format!(
        "<domain type='kvm'>\n  <name>web1</name>\n  <memory unit='GiB'>8</memory>\n  <vcpu>{vcpus}</vcpu>\n  \
         <os>\n    <type arch='x86_64' machine='q35'>hvm</type>\n  </os>\n  <devices>\n{devices}  </devices>\n</domain>\n"
    )
}

/// Returns the texts of all notes, one a line.
fn texts(notes: &[PlanNote]) -> String {
    notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("\n")
}

pub(super) fn planned(text: &str, machine: &Machine, policy: &str) -> DomainPlan {
    plan(text, machine, &request(policy)).unwrap()
}

pub(super) fn refused(text: &str, machine: &Machine, request: &PlanRequest) -> PlanError {
    plan(text, machine, request).unwrap_err()
}
