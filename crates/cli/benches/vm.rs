//! Time to plan a domain of 320 virtual CPUs over four nodes with 40 passed-through devices.
//!
//! Prints the median and the interquartile range of the runs. Planning is pure, so there is nothing to
//! interleave with.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_topology::Machine;
use manycore_topology::{
    SysTree,
    synthetic::{
        MachineSpec, Numbering,
        extras::{PciDevice, add_device},
    },
};
use manycore_vm::domain::{PlanRequest, Version, plan};
use std::{hint::black_box, time::Instant};

/// Number of runs; the first one is not counted.
const RUNS: usize = 42;
/// Maximum time of a plan, in milliseconds.
const MAX_MS: f64 = 100.0;

/// Returns a machine with two packages of two nodes, 40 cores of two threads per node, and ten devices per
/// node.
fn machine() -> Machine {
    let spec = MachineSpec {
        packages: 2,
        nodes: 2,
        clusters: 10,
        cores: 4,
        threads: 2,
        memory_gib: 256,
        numbering: Numbering::Halves,
        ..MachineSpec::default()
    };
    let mut files = spec.capture();
    for number in 0..40 {
        let address = format!("0000:{:02x}:00.0", 0x10 + number);
        let name = format!("net/eth{number}");
        let device = PciDevice {
            address: &address,
            class: 0x02_0000,
            driver: "vfio-pci",
            node: number % 4,
            name: &name,
        };
        add_device(&mut files, device);
    }
    manycore_topology::read(&SysTree::from_capture(files)).expect("a machine")
}

fn domain() -> String {
    let devices: Vec<String> = (0..40)
        .map(|number| {
            format!(
                "    <hostdev mode='subsystem' type='pci' managed='yes'>\n      <source>\n        \
                 <address domain='0x0000' bus='{:#04x}' slot='0x00' function='0x0'/>\n      </source>\n    </hostdev>\n",
                0x10 + number
            )
        })
        .collect();
    format!(
        "<domain type='kvm'>\n  <name>large</name>\n  <memory unit='GiB'>480</memory>\n  <vcpu>320</vcpu>\n  \
         <os>\n    <type arch='x86_64' machine='q35'>hvm</type>\n  </os>\n  <devices>\n{}  </devices>\n</domain>\n",
        devices.concat()
    )
}

fn main() {
    let (machine, text) = (machine(), domain());
    let request = PlanRequest {
        qemu: Some(Version(9, 1, 0)),
        libvirt: Some(Version(10, 1, 0)),
        ..PlanRequest::new("close".parse().expect("a policy"))
    };
    let planned = plan(&text, &machine, &request).expect("a plan");
    assert_eq!((planned.guest.cells.len(), planned.guest.expanders.len()), (4, 4));
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            black_box(plan(black_box(&text), &machine, &request)).expect("a plan");
            began.elapsed().as_secs_f64() * 1e3
        })
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "plan of 320 virtual CPUs, 4 nodes, 40 devices: {:.2} ms ({:.2} to {:.2}, {} runs; longest {:.2})",
        at(0.5),
        at(0.25),
        at(0.75),
        times.len(),
        at(1.0)
    );
    assert!(at(0.5) < MAX_MS, "a plan may take {MAX_MS} ms");
}
