//! Requests that are refused, and their messages.

use super::*;
use crate::remedy::Remedy;

#[test]
fn unmet_requests_are_refused_with_advice() {
    let machine = machine(2, 1, 2, 2, 2);
    let tune = |tune: TuneRequest| PlanRequest { tune, ..request("close") };
    let bandwidth = TuneRequest { bandwidth: Some(50), ..TuneRequest::default() };
    let cputune = "  <cputune>\n    <cachetune vcpus='0-1'/>\n  </cputune>\n  <os>";
    for (text, request, message) in [
        (
            domain(17, ""),
            request("close"),
            "17 virtual CPUs cannot have a CPU each on 16 CPUs: let them share",
        ),
        (domain(0, ""), request("close"), "<vcpu> is '0', expected 1 to 4096"),
        (domain(5000, ""), request("close"), "<vcpu> is '5000'"),
        (domain(4, "").replace(">4<", ">four<"), request("close"), "<vcpu> is 'four'"),
        (domain(4, ""), request("cpus=99"), "99 not present on this machine"),
        (domain(4, ""), request("near=eth7"), "no such device"),
        (
            domain(16, "").replace("GiB'>8", "TiB'>8"),
            request("close"),
            "which has 64 GiB: give the guest less",
        ),
        (domain(4, "").replace("GiB", "furlongs"), request("close"), "<memory> is '8 furlongs'"),
        (domain(4, "").replace(">8<", ">99999999999999999999<"), request("close"), "<memory> is"),
        (
            domain(4, ""),
            tune(TuneRequest { priority: Some(2), ..bandwidth.clone() }),
            "priority: the <memorytune> of upstream libvirt supports only a bandwidth",
        ),
        (
            domain(4, "").replace("  <os>", cputune),
            tune(bandwidth),
            "a <cachetune> for virtual CPUs 0-1, and the requested one is for 0-3",
        ),
        (domain(4, "").replace("kvm", "xen"), request("close"), "type 'xen'"),
    ] {
        let reported = refused(&text, &machine, &request).to_string();
        assert!(reported.contains(message), "{reported:?} should contain {message:?}");
    }
    assert_eq!(refused(&domain(17, ""), &machine, &request("close")).remedy(), Some(Remedy::Overcommit));
    let priority = tune(TuneRequest { priority: Some(2), ..TuneRequest::default() });
    assert_eq!(refused(&domain(4, ""), &machine, &priority).remedy(), Some(Remedy::OpenEuler));
}

#[test]
fn bandwidth_not_in_percent_is_refused() {
    let tune = TuneRequest { bandwidth: Some(40), ..TuneRequest::default() };
    for (id, code) in
        [("AuthenticAMD/25/1/1", true), ("HygonGenuine/24/2/1", true), ("GenuineIntel/6/207/2", false)]
    {
        let mut machine = machine(2, 1, 2, 2, 2);
        machine.system.cpu_id = Some(id.to_owned());
        let ran = plan(&domain(4, ""), &machine, &PlanRequest { tune: tune.clone(), ..request("close") });
        let reported = ran.as_ref().map_or_else(ToString::to_string, |_| String::new());
        assert_eq!(reported.contains("with 40 would mean 5000 MB/s of each L3"), code, "{id}: {reported}");
        assert_eq!(ran.is_err(), code, "{id}");
    }
    let megabytes = PlanRequest { tune, bandwidth_unit: Some(BandwidthUnit::Megabytes), ..request("close") };
    let refused = refused(&domain(4, ""), &machine(2, 1, 2, 2, 2), &megabytes);
    assert!(refused.to_string().contains("mounted with mba_MBps"), "{refused}");
    assert_eq!(refused.remedy(), Some(Remedy::RunningLimit));
}

#[test]
fn bandwidth_between_steps_is_noted() {
    let with = |bandwidth: u8, bandwidth_unit: Option<BandwidthUnit>| {
        let tune = TuneRequest { bandwidth: Some(bandwidth), ..TuneRequest::default() };
        let request = PlanRequest { bandwidth_unit, tune, ..request("close") };
        plan(&domain(4, ""), &machine(2, 1, 2, 2, 2), &request).unwrap()
    };
    let tens = Some(BandwidthUnit::Percent { minimum: 10, step: 10 });
    for (requested, written) in [(55, 60), (1, 10), (60, 60), (99, 100), (100, 100)] {
        let planned = with(requested, tens);
        assert!(planned.xml.contains(&format!("<node id='0' bandwidth='{written}'/>")), "{}", planned.xml);
        assert_eq!(
            planned.notes.iter().any(|note| note.text.contains("changes to")),
            requested != written,
            "{requested}"
        );
    }
    let unknown = with(55, None);
    assert!(unknown.xml.contains("bandwidth='55'"), "{}", unknown.xml);
    assert!(unknown.notes.iter().any(|note| note.text.contains("bandwidth_gran")), "{:?}", unknown.notes);
    assert!(with(50, None).notes.iter().all(|note| !note.text.contains("bandwidth_gran")));
}

#[test]
fn more_devices_than_buses_are_refused() {
    let devices = hostdev(0).repeat(300);
    let reported = refused(&domain(16, &devices), &machine(2, 1, 2, 2, 2), &request("close")).to_string();
    assert!(reported.contains("more than the 255 PCI buses that exist"), "{reported}");
    let many = hostdev(0).repeat(70);
    let planned = planned(&domain(16, &many), &machine(2, 1, 2, 2, 2), "close");
    assert_eq!(planned.guest.expanders.len(), 3, "32 ports to an expander");
}

#[test]
fn overcommit_lets_vcpus_share() {
    let request = PlanRequest { overcommit: true, ..request("close") };
    let planned = plan(&domain(32, ""), &machine(2, 1, 2, 2, 2), &request).unwrap();
    assert_eq!(planned.guest.pins.len(), 32);
}

#[test]
fn a_reserve_of_cpus_that_are_not_there_is_refused() {
    let mut machine = machine(2, 1, 2, 2, 2);
    machine.online = machine.online.difference(&"7".parse().unwrap());
    machine.offline = "7".parse().unwrap();
    for (reserve, why) in [
        ("cpus=7", "reserve cpus=7: 7 offline; CPUs that may be reserved: 0-6,8-15"),
        ("cpus=0,7777", "reserve cpus=0,7777: 7777 not present on this machine"),
    ] {
        let request = PlanRequest { reserve: reserve.parse().unwrap(), ..request("close") };
        let reported = refused(&domain(4, ""), &machine, &request).to_string();
        assert!(reported.contains(why), "{reported}");
    }
}

#[test]
fn more_cells_than_qemu_takes_are_refused() {
    let cells = |count: u32| {
        let cell = |id| format!("<cell id='{id}' cpus='{id}' memory='1' unit='GiB'/>");
        let cells = (0..count).map(cell).collect::<Vec<_>>().concat();
        domain(count, "").replace("  <os>", &format!("  <cpu><numa>{cells}</numa></cpu>\n  <os>"))
    };
    let reported = refused(&cells(129), &machine(2, 1, 2, 64, 2), &request("close")).to_string();
    assert!(reported.contains("<cell> in <numa> is '129', expected at most 128"), "{reported}");
    assert!(plan(&cells(128), &machine(2, 1, 2, 64, 2), &request("spread")).is_ok());
}
