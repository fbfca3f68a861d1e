//! What cannot be planned, and what is said.

use super::*;

#[test]
fn demands_that_cannot_be_met_are_refused_with_the_way_out() {
    let machine = machine(2, 1, 2, 2, 2);
    let tune = |tune: Tune| Wish { tune, ..wish("close") };
    let bandwidth = Tune { bandwidth: Some(50), ..Tune::default() };
    let cputune = "  <cputune>\n    <cachetune vcpus='0-1'/>\n  </cputune>\n  <os>";
    let empty_cell =
        "  <cpu>\n    <numa>\n      <cell id='0' memory='1' unit='GiB'/>\n    </numa>\n  </cpu>\n  <os>";
    for (text, wish, message) in [
        (domain(17, ""), wish("close"), "17 virtual CPUs on 16 CPUs cannot have one each; --overcommit"),
        (domain(0, ""), wish("close"), "<vcpu> is '0', expected 1 to 4096"),
        (domain(5000, ""), wish("close"), "<vcpu> is '5000'"),
        (domain(4, "").replace(">4<", ">four<"), wish("close"), "<vcpu> is 'four'"),
        (domain(4, ""), wish("cpus=99"), "99 not in this machine"),
        (domain(4, ""), wish("near=eth7"), "no such device"),
        (domain(16, "").replace("GiB'>8", "TiB'>8"), wish("close"), "which has 64 GiB: give the guest less"),
        (domain(4, "").replace("GiB", "furlongs"), wish("close"), "<memory> is '8 furlongs'"),
        (domain(4, "").replace(">8<", ">99999999999999999999<"), wish("close"), "<memory> is"),
        (
            domain(4, ""),
            tune(Tune { priority: Some(2), ..bandwidth.clone() }),
            "--priority: the <memorytune> of libvirt.org has a bandwidth and nothing else",
        ),
        (
            domain(4, "").replace("  <os>", cputune),
            tune(bandwidth),
            "a <cachetune> for virtual CPUs 0-1, and the one that is asked for is for 0-3",
        ),
        (domain(4, "").replace("  <os>", empty_cell), wish("close"), "NUMA cells without CPUs"),
        (domain(4, "").replace("kvm", "xen"), wish("close"), "type 'xen'"),
    ] {
        let said = refused(&text, &machine, &wish).to_string();
        assert!(said.contains(message), "{said:?} should say {message:?}");
    }
}

#[test]
fn more_devices_than_buses_are_refused() {
    let devices = hostdev(0).repeat(300);
    let said = refused(&domain(16, &devices), &machine(2, 1, 2, 2, 2), &wish("close")).to_string();
    assert!(said.contains("more PCI buses than the 255 that there are"), "{said}");
    let many = hostdev(0).repeat(70);
    let planned = planned(&domain(16, &many), &machine(2, 1, 2, 2, 2), "close");
    assert_eq!(planned.guest.expanders.len(), 3, "32 ports to an expander");
}

#[test]
fn virtual_cpus_share_where_that_is_asked_for() {
    let wish = Wish { overcommit: true, ..wish("close") };
    let planned = plan(&domain(32, ""), &machine(2, 1, 2, 2, 2), &wish).unwrap();
    assert_eq!(planned.guest.pins.len(), 32);
}
