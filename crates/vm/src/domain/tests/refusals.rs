//! Requests that are refused, and their messages.

use super::*;

#[test]
fn demands_that_cannot_be_met_are_refused_with_the_way_out() {
    let machine = machine(2, 1, 2, 2, 2);
    let tune = |tune: Tune| Wish { tune, ..wish("close") };
    let bandwidth = Tune { bandwidth: Some(50), ..Tune::default() };
    let cputune = "  <cputune>\n    <cachetune vcpus='0-1'/>\n  </cputune>\n  <os>";
    for (text, wish, message) in [
        (
            domain(17, ""),
            wish("close"),
            "17 virtual CPUs cannot have a CPU each on 16 CPUs: use --overcommit",
        ),
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
            "--priority: the <memorytune> of upstream libvirt supports only a bandwidth",
        ),
        (
            domain(4, "").replace("  <os>", cputune),
            tune(bandwidth),
            "a <cachetune> for virtual CPUs 0-1, and the requested one is for 0-3",
        ),
        (domain(4, "").replace("kvm", "xen"), wish("close"), "type 'xen'"),
    ] {
        let said = refused(&text, &machine, &wish).to_string();
        assert!(said.contains(message), "{said:?} should contain {message:?}");
    }
}

#[test]
fn bandwidth_that_is_no_percent_is_refused() {
    let tune = Tune { bandwidth: Some(40), ..Tune::default() };
    for (id, code) in
        [("AuthenticAMD/25/1/1", true), ("HygonGenuine/24/2/1", true), ("GenuineIntel/6/207/2", false)]
    {
        let mut machine = machine(2, 1, 2, 2, 2);
        machine.system.cpu_id = Some(id.to_owned());
        let ran = plan(&domain(4, ""), &machine, &Wish { tune: tune.clone(), ..wish("close") });
        let said = ran.as_ref().map_or_else(ToString::to_string, |_| String::new());
        assert_eq!(said.contains("with 40 would mean 5000 MB/s of each L3"), code, "{id}: {said}");
        assert_eq!(ran.is_err(), code, "{id}");
    }
    let megabytes = Wish { tune, steps: Some(Steps::Megabytes), ..wish("close") };
    let said = refused(&domain(4, ""), &machine(2, 1, 2, 2, 2), &megabytes).to_string();
    assert!(said.contains("mounted with mba_MBps"), "{said}");
}

#[test]
fn bandwidth_off_the_steps_of_the_machine_is_told() {
    let with = |bandwidth: u8, steps: Option<Steps>| {
        let tune = Tune { bandwidth: Some(bandwidth), ..Tune::default() };
        plan(&domain(4, ""), &machine(2, 1, 2, 2, 2), &Wish { steps, tune, ..wish("close") }).unwrap()
    };
    let tens = Some(Steps::Percent { least: 10, step: 10 });
    for (asked, written) in [(55, 60), (1, 10), (60, 60), (99, 100), (100, 100)] {
        let planned = with(asked, tens);
        assert!(planned.xml.contains(&format!("<node id='0' bandwidth='{written}'/>")), "{}", planned.xml);
        assert_eq!(planned.notes.iter().any(|note| note.contains("changes to")), asked != written, "{asked}");
    }
    let unknown = with(55, None);
    assert!(unknown.xml.contains("bandwidth='55'"), "{}", unknown.xml);
    assert!(unknown.notes.iter().any(|note| note.contains("bandwidth_gran")), "{:?}", unknown.notes);
    assert!(with(50, None).notes.iter().all(|note| !note.contains("bandwidth_gran")));
}

#[test]
fn more_devices_than_buses_are_refused() {
    let devices = hostdev(0).repeat(300);
    let said = refused(&domain(16, &devices), &machine(2, 1, 2, 2, 2), &wish("close")).to_string();
    assert!(said.contains("more than the 255 PCI buses that exist"), "{said}");
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

#[test]
fn a_reserve_of_cpus_that_are_not_there_is_refused() {
    let mut machine = machine(2, 1, 2, 2, 2);
    machine.online = machine.online.difference(&"7".parse().unwrap());
    machine.offline = "7".parse().unwrap();
    for (reserve, why) in [
        ("cpus=7", "reserve cpus=7: 7 offline; CPUs that may be reserved: 0-6,8-15"),
        ("cpus=0,7777", "reserve cpus=0,7777: 7777 not in this machine"),
    ] {
        let wish = Wish { reserve: reserve.parse().unwrap(), ..wish("close") };
        let said = refused(&domain(4, ""), &machine, &wish).to_string();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn more_cells_than_qemu_takes_are_refused() {
    let cells = |count: u32| {
        let cell = |id| format!("<cell id='{id}' cpus='{id}' memory='1' unit='GiB'/>");
        let cells = (0..count).map(cell).collect::<Vec<_>>().concat();
        domain(count, "").replace("  <os>", &format!("  <cpu><numa>{cells}</numa></cpu>\n  <os>"))
    };
    let said = refused(&cells(129), &machine(2, 1, 2, 64, 2), &wish("close")).to_string();
    assert!(said.contains("<cell> in <numa> is '129', expected at most 128"), "{said}");
    assert!(plan(&cells(128), &machine(2, 1, 2, 64, 2), &wish("spread")).is_ok());
}
