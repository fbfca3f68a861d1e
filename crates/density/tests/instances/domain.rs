//! Virtual machines of libvirt.

use super::{
    common::{alone, helper, is_alive, journals, ports, safeguard, state, until, words},
    killed::ProgramWithInstances,
};
use manycore_control::domain::{command, is_active};
use manycore_density::{
    Error,
    instances::{DomainSpec, DomainTemplate, InstanceKind, Instances, Readiness, ServiceSpec},
    template::CommandTemplate,
};
use manycore_linux::child;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// Name of the variable with the connection, for a program that is killed.
pub const URI: &str = "MANYCORE_DENSITY_TEST_URI";

/// A machine without a system, in emulation.
const XML: &str = "<domain type='qemu'><name>{name}</name><title>{port}</title><memory unit='MiB'>32</memory><vcpu>1</vcpu>\
    <os><type arch='x86_64' machine='q35'>hvm</type></os><devices>\
    <emulator>/usr/bin/qemu-system-x86_64</emulator><memballoon model='none'/></devices></domain>";

/// The user `nobody`: libvirt and its machines run with its rights.
const USER: u32 = 65_534;

fn with_xml(uri: &str, xml: &str) -> ServiceSpec {
    let kind =
        InstanceKind::Domain(DomainSpec { uri: uri.to_owned(), xml: DomainTemplate::new(xml).unwrap() });
    let unused = CommandTemplate::new(words(&["{port}"])).unwrap();
    ServiceSpec { kind, ..ServiceSpec::new(unused, "127.0.0.1".parse().unwrap(), ports(2)) }
}

/// Machines that are ready when they run.
pub fn spec(uri: &str) -> ServiceSpec {
    let ready = Readiness::Command(helper(&["virsh", "--connect", uri, "domstate", "{name}"]));
    ServiceSpec { ready, ..with_xml(uri, XML) }
}

/// libvirt of an unprivileged user, with all its files in a directory of its own.
struct Libvirt {
    daemon: Child,
    folder: TempDir,
}

impl Libvirt {
    fn start() -> Result<Self, String> {
        let needed =
            ["/usr/sbin/libvirtd", "/usr/bin/virsh", "/usr/bin/qemu-system-x86_64", "/usr/bin/setpriv"];
        if let Some(missing) = needed.into_iter().find(|path| !Path::new(path).is_file()) {
            return Err(format!("{missing} is not installed"));
        }
        if !rustix::process::getuid().is_root() {
            return Err("it needs root".to_owned());
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut start = Command::new("setpriv");
        start.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
        // It ends by itself if this test is killed.
        start.args(["/usr/sbin/libvirtd", "--timeout", "60"]).stdout(Stdio::null()).stderr(Stdio::null());
        for (variable, name) in [
            ("HOME", "home"),
            ("XDG_RUNTIME_DIR", "run"),
            ("XDG_CONFIG_HOME", "home"),
            ("XDG_CACHE_HOME", "home"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(USER), Some(USER)).unwrap();
            start.env(variable, path);
        }
        let mut libvirt = Self { daemon: child::spawn(&mut start).unwrap(), folder };
        let uri = libvirt.uri();
        while is_active(&uri, "none").is_err() {
            if libvirt.daemon.try_wait().unwrap().is_some() {
                return Err("libvirtd does not run here".to_owned());
            }
            let list = command(&uri, &["list"]).output().unwrap();
            if String::from_utf8_lossy(&list.stderr).contains("no connection driver") {
                return Err(
                    "libvirtd has no driver for QEMU: libvirt-daemon-driver-qemu is not installed".to_owned()
                );
            }
        }
        Ok(libvirt)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join("run/libvirt").join(name)
    }

    fn uri(&self) -> String {
        format!("qemu+unix:///session?socket={}", self.socket("libvirt-sock").display())
    }

    fn state(&self, name: &str) -> String {
        let done = command(&self.uri(), &["domstate", "--domain", name]).output().unwrap();
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Libvirt {
    fn drop(&mut self) {
        child::kill(&mut self.daemon);
        // The daemon has started another one, which would run for two more minutes.
        let pid = fs::read_to_string(self.socket("virtlogd.pid")).ok();
        if let Some(pid) = pid.and_then(|pid| rustix::process::Pid::from_raw(pid.trim().parse().ok()?)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

#[test]
fn virtual_machines_are_started_paused_and_ended() {
    let libvirt = match Libvirt::start() {
        Ok(libvirt) => libvirt,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let _alone = alone();
    let (uri, folder) = (libvirt.uri(), tempfile::tempdir().unwrap());
    let spec = ServiceSpec { safeguard: Some(safeguard(folder.path())), ..spec(&uri) };
    let mut instances = Instances::new(spec);
    instances.set_active(1).unwrap();
    let id = manycore_control::journal::pending(folder.path()).unwrap().0[0].id();
    let name = format!("manycore-{id}-0");
    let emulator = instances.processes()[0][0];
    assert!(manycore_linux::tasks::name(emulator).unwrap().starts_with("qemu-system"));
    assert_eq!(libvirt.state(&name), "running");
    let refused = instances.check_memory(1 << 20).unwrap_err().to_string();
    assert!(refused.contains("1048576 instances of 32 MiB take 32 TiB"), "{refused}");
    instances.set_active(0).unwrap();
    assert_eq!((libvirt.state(&name).as_str(), instances.processes().len()), ("paused", 0));
    instances.set_active(1).unwrap();
    assert_eq!(libvirt.state(&name), "running");
    // It is ended by another.
    assert!(command(&uri, &["destroy", "--domain", &name]).status().unwrap().success());
    until(|| !is_alive(emulator) || state(emulator) == "Z");
    assert!(matches!(instances.check(), Err(Error::Ended { index: 0, .. })));
    instances.remove_ended();
    instances.set_active(1).unwrap();
    assert_eq!(libvirt.state(&name), "running");
    assert_eq!((instances.end(), is_active(&uri, &name).unwrap(), journals(folder.path())), (None, false, 0));

    // The cleanup process of a program that is killed ends them.
    let mut program = ProgramWithInstances::start_with("domain", folder.path(), &[(URI, &uri)]);
    let processes = program.paused();
    let cleanup = program.cleanup_process();
    assert!(!processes.is_empty());
    program.kill();
    until(|| !is_alive(cleanup));
    until(|| !processes.iter().any(|&pid| is_alive(pid)));
    assert_eq!(journals(folder.path()), 0);
}

#[test]
fn a_connection_that_fails_is_named() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let xml = "<domain type='test'><name>{name}</name><title>{port}</title><memory>1024</memory><os><type>hvm</type></os></domain>";
    let spec = with_xml("test:///no/such/file", xml);
    let mut instances = Instances::new(ServiceSpec { safeguard: Some(safeguard(folder.path())), ..spec });
    match instances.set_active(1) {
        Err(error @ Error::MissingProgram(_)) => eprintln!("SKIPPED: {error}"),
        Err(Error::ManagerFails { program, source, .. }) => {
            assert_eq!(program, "virsh");
            assert!(source.to_string().contains("error: "), "{source}");
        }
        other => panic!("{other:?}"),
    }
}
