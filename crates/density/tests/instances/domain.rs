//! Virtual machines of libvirt.

use super::common::{ports, safeguard, words};
use manycore_density::{
    Error,
    instances::{DomainSpec, DomainTemplate, InstanceKind, Instances, ServiceSpec},
    template::CommandTemplate,
};

pub fn spec(uri: &str, xml: &str, test: u16) -> ServiceSpec {
    let xml = DomainTemplate::new(xml).unwrap();
    let kind = InstanceKind::Domain(DomainSpec { uri: uri.to_owned(), xml });
    let unused = CommandTemplate::new(words(&["{port}"])).unwrap();
    ServiceSpec { kind, ..ServiceSpec::new(unused, "127.0.0.1".parse().unwrap(), ports(2, test)) }
}

#[test]
fn a_connection_that_fails_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let xml =
        "<domain type='test'><name>{name}</name><memory>1024</memory><os><type>hvm</type></os></domain>";
    let spec = spec("test:///no/such/file", xml, 17);
    let mut instances = Instances::new(ServiceSpec { safeguard: Some(safeguard(folder.path())), ..spec });
    match instances.set_active(1) {
        Err(error @ Error::MissingProgram(_)) => eprintln!("SKIPPED: {error}"),
        Err(Error::Start { index: 0, program, source }) => {
            assert_eq!(program, "virsh create");
            assert!(source.to_string().starts_with("error: "), "{source}");
        }
        other => panic!("{other:?}"),
    }
}
