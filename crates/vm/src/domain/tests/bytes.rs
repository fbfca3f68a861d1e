//! Everything that a plan does not change stays byte for byte.

use super::*;
use crate::domain::xml::DomainXml;
use manycore_text::xml::{Node, is_element};
use proptest::{prelude::*, sample::select};

/// Paths of elements that a plan may change, with everything below them.
const PLANNED_PATHS: [&str; 13] = [
    "domain/vcpu",
    "domain/cputune/vcpupin",
    "domain/cputune/emulatorpin",
    "domain/cputune/iothreadpin",
    "domain/cputune/memorytune",
    "domain/cputune/cachetune",
    "domain/numatune/memory",
    "domain/numatune/memnode",
    "domain/cpu/topology",
    "domain/cpu/cache",
    "domain/cpu/numa",
    "domain/devices/hostdev/address",
    "domain/devices/hostdev/numa",
];
/// Elements that a plan may create; their own tags may then be new.
const CREATED_PATHS: [&str; 3] = ["domain/cputune", "domain/numatune", "domain/cpu"];

/// Returns everything that a plan must not change, in order: start tags, texts, comments and instructions as
/// written.
fn unplanned_parts(xml: &DomainXml) -> Vec<String> {
    let mut out = Vec::new();
    for node in xml.root().parent().unwrap().children() {
        collect(xml, node, "", &mut out);
    }
    out
}

fn collect(xml: &DomainXml, node: Node, path: &str, out: &mut Vec<String>) {
    let raw = xml.slice(node.range());
    if !node.is_element() {
        if !raw.trim().is_empty() {
            out.push(format!("{path}: {}", raw.trim()));
        }
        return;
    }
    let path = match path {
        "" => node.tag_name().name().to_owned(),
        path => format!("{path}/{}", node.tag_name().name()),
    };
    let made = is_element(node, "controller")
        && ["pcie-expander-bus", "pcie-root-port"].contains(&node.attribute("model").unwrap_or_default());
    if PLANNED_PATHS.contains(&path.as_str()) || made {
        return;
    }
    if !CREATED_PATHS.contains(&path.as_str()) {
        // If an element gets its first child, or loses its last one, the end of its tag changes.
        let end = match node.first_child() {
            Some(child) => child.range().start - node.range().start,
            None => raw.find("</").unwrap_or(raw.len()),
        };
        out.push(format!("{path} {}", raw[..end].trim_end_matches(['/', '>']).trim_end()));
    }
    node.children().for_each(|child| collect(xml, child, &path, out));
}

/// Generates a device; some of them are passed through.
fn device() -> impl Strategy<Value = &'static str> {
    select(vec![
        "<hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x10' slot='0x00' function='0x0'/></source></hostdev>",
        "<hostdev mode=\"subsystem\" type=\"pci\">\n <source><address bus=\"0x11\"/></source> <rom bar='off'/>\n <address type=\"pci\" bus=\"0x05\" slot=\"0x01\" function=\"0x0\"/>\n</hostdev>",
        "<hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/></source></hostdev>",
        "<controller type='pci' index='3' model='pcie-root-port'/>",
        "<controller type='pci' index='2' model='pcie-expander-bus'><target busNr='180'><node>1</node></target></controller>",
        "<interface type='network'><source network='default'/></interface>",
    ])
}

/// Generates a domain in an arbitrary formatting style, with elements that are unknown to the plan.
fn any_domain() -> impl Strategy<Value = String> {
    let extra = select(vec![
        "",
        "<!-- a comment with <tags> & 'all' -->",
        "<metadata>\n   <app:x xmlns:app='urn:x'  a = \"1\"   b='&lt;2&gt;'>  text &amp; more </app:x></metadata>",
        "<future-thing  mode=\"odd\"/>",
        "<?instruction here?>",
        "<a><![CDATA[ <not> ]]></a>",
        "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:arg value='-x'/></qemu:commandline>",
    ]);
    let extras = prop::collection::vec(extra, 8);
    let tune = select(vec![
        "",
        "<cputune/>",
        "<cputune><shares>2048</shares><vcpupin cpuset=\"7\" vcpu=\"1\"/><!-- why --><vcpupin vcpu='99' cpuset='1'/></cputune>",
        "<cputune>\n    <emulatorpin cpuset='3'/>\n    <period>1000</period> <!-- us -->\n  </cputune>",
    ]);
    let numatune = select(vec![
        "",
        "<numatune><memory mode='preferred' nodeset='1'/><memnode cellid='9' mode='strict' nodeset='1'/></numatune>",
    ]);
    let cpu = select(vec![
        "",
        "<cpu mode='host-model'><feature policy='require' name='x'/></cpu>",
        "<cpu mode=\"host-passthrough\" check=\"none\">\n\t<topology sockets=\"1\" cores=\"4\" threads=\"1\"/>\n\t<cache level='3' mode='emulate'/>\n</cpu>",
        "<cpu mode='host-passthrough'><numa><cell id='0' cpus='0' memory='1' unit='GiB'/><cell id='1' cpus='1' memory='1' unit='GiB'><distances><sibling id='0' value='21'/></distances></cell></numa></cpu>",
    ]);
    let devices = prop::collection::vec(device(), 0..6);
    let style = (1u32..17, select(vec!["\n", "\r\n", "\n\n", ""]), select(vec!["  ", "\t", "      ", ""]));
    (extras, tune, numatune, cpu, devices, style).prop_map(|(extras, tune, numatune, cpu, devices, style)| {
        let (vcpus, newline, unit) = style;
        let vcpu = format!("<vcpu placement=\"auto\" cpuset='0-9'>{vcpus}</vcpu>");
        let devices: String = devices.iter().flat_map(|device| [newline, unit, unit, device]).collect();
        let devices = format!("<devices>{devices}{newline}{unit}</devices>");
        let parts = [
            "<name>x</name>", extras[0], "<memory unit='GiB'>2</memory>", extras[1], vcpu.as_str(), extras[2],
            tune, extras[3], numatune, "<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>", extras[4],
            cpu, extras[5], devices.as_str(), extras[6],
        ];
        let body: String = parts.iter().flat_map(|part| [newline, unit, part]).collect();
        let tail = if extras[7].starts_with("<!--") { extras[7] } else { "" };
        format!(
            "<?xml version=\"1.0\"?>{newline}<!-- first -->{newline}<domain type='kvm' id='3'>{body}{newline}</domain>{newline}{tail}"
        )
    })
}

fn bodies() -> impl Strategy<Value = PlanRequest> {
    let policy = select(vec!["close", "spread", "spread@node", "free", "cpus=3,1,9,9,12,0-15"]);
    (policy, any::<bool>(), any::<bool>()).prop_map(|(policy, openeuler, tuned)| {
        let mut request = request(policy);
        request.overcommit = true;
        if openeuler {
            request.dialect = LibvirtDialect::OpenEuler;
        }
        if tuned {
            request.tune.bandwidth = Some(40);
            request.tune.cache = vec!["l3=50%".parse().unwrap()];
        }
        request
    })
}

proptest! {
    #[test]
    fn unplanned_parts_stay_unchanged(text in any_domain(), request in bodies()) {
        let machine = machine(2, 1, 2, 2, 2);
        let planned = plan(&text, &machine, &request).unwrap();
        let (before, after) = (DomainXml::parse(&text).unwrap(), DomainXml::parse(&planned.xml).unwrap());
        prop_assert_eq!(unplanned_parts(&before), unplanned_parts(&after), "{}", planned.xml);
        if !text.contains('\n') {
            prop_assert!(!planned.xml.contains('\n'), "{}", planned.xml);
        }
        if text.contains("\r\n") && !text.replace("\r\n", "").contains('\n') {
            prop_assert!(!planned.xml.replace("\r\n", "").contains('\n'));
        }
        // A plan of a planned domain changes nothing.
        let again = plan(&planned.xml, &machine, &request).unwrap();
        prop_assert_eq!(&again.xml, &planned.xml);
    }

    #[test]
    fn damaged_domains_never_panic(text in any_domain(), cuts in prop::collection::vec((any::<usize>(), 0x20u8..0x7f), 1..4)) {
        let mut bytes = text.into_bytes();
        for (at, byte) in cuts {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let _ = plan(&String::from_utf8_lossy(&bytes), &machine(2, 1, 1, 2, 1), &request("close"));
    }
}

#[test]
fn removing_the_only_device_keeps_the_list() {
    let devices = "<devices><controller type='pci' index='2' model='pcie-expander-bus'><target busNr='180'><node>1</node></target></controller></devices>";
    let text = format!(
        "<domain type='kvm'><name>x</name><memory unit='GiB'>2</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>{devices}</domain>"
    );
    let planned = plan(&text, &machine(2, 1, 2, 2, 2), &request("close")).unwrap().xml;
    assert!(planned.contains("<devices></devices>"), "{planned}");
    assert_eq!(
        unplanned_parts(&DomainXml::parse(&text).unwrap()),
        unplanned_parts(&DomainXml::parse(&planned).unwrap())
    );
}

#[test]
fn everything_around_a_pin_stays() {
    let text = "<domain type=\"kvm\">\n\t<name>a</name><vcpu>1</vcpu>\n\t<memory>4194304</memory>\n\t<cputune>\n\t\t<vcpupin  cpuset=\"9\"\tvcpu='0' /> <!-- busy -->\n\t</cputune>\n</domain>";
    let planned = plan(text, &machine(1, 1, 1, 4, 1), &request("close")).unwrap().xml;
    assert!(planned.contains("\t\t<vcpupin  cpuset=\"0\"\tvcpu='0' /> <!-- busy -->\n\t\t<emulatorpin cpuset=\"1-3\"/>\n\t</cputune>"), "{planned}");
}
