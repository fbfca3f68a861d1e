//! Containers of podman, with programs of this machine.

use super::{
    common::{is_alive, is_paused, journals, ports, safeguard, until, words},
    killed::{KIND, ProgramWithInstances, kill_at_any_moment, undo},
};
use manycore_control::container::{self as engine, ContainerEngine};
use manycore_density::{
    Error,
    instances::{ContainerNetwork, ContainerSpec, InstanceKind, InstanceLimits, Instances, ServiceSpec},
    template::CommandTemplate,
};
use rustix::process::{Resource, getrlimit};
use std::{
    env, fs,
    net::TcpStream,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

const ENGINE: ContainerEngine = ContainerEngine::Podman;

/// The directory of the root of the containers.
const ROOT: &str = "MANYCORE_DENSITY_TEST_ROOT";

fn arguments(text: &[&str]) -> CommandTemplate {
    CommandTemplate::arguments(words(text)).unwrap()
}

/// Returns redis in containers whose root is the directory in the environment.
pub fn spec(count: u16) -> ServiceSpec {
    // Without CAP_SYS_RESOURCE, the limits of podman cannot be set.
    let most = |resource| getrlimit(resource).maximum.unwrap_or(10_000).min(10_000);
    let limits = [("nofile", most(Resource::Nofile)), ("nproc", most(Resource::Nproc))];
    let [files, processes] = limits.map(|(name, most)| format!("{name}={most}:{most}"));
    let options = ["--volume", "/usr:/usr:ro", "--ulimit", &files, "--ulimit", &processes, "--rootfs"];
    let kind = InstanceKind::Container(ContainerSpec {
        engine: ENGINE,
        image: env::var(ROOT).unwrap(),
        options: arguments(&options),
        command: arguments(&["redis-server", "--port", "{port}", "--save", ""]),
        network: ContainerNetwork::Host,
    });
    let unused = CommandTemplate::new(words(&["{port}"])).unwrap();
    ServiceSpec { kind, ..ServiceSpec::new(unused, "127.0.0.1".parse().unwrap(), ports(count)) }
}

/// Runs [`with_podman`] where podman sees either version 1 or version 2 of control groups: a runtime refuses both together.
#[test]
fn containers_are_started_paused_and_removed() {
    let is_there = |program: &str| Path::new("/usr/bin").join(program).is_file();
    if !["podman", "redis-server", "unshare"].into_iter().all(is_there) {
        return eprintln!("SKIPPED: podman, redis-server or unshare is not installed");
    }
    let root = tempfile::tempdir().unwrap();
    for folder in ["usr", "etc", "tmp", "proc", "sys", "dev", "run"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), root.path().join(name)).unwrap();
    }
    let script = "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$0\" --ignored --exact instances::container::with_podman --nocapture";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(env::current_exe().unwrap());
    command.env(ROOT, root.path()).env_remove(KIND).stdin(Stdio::null());
    let done = command.output().unwrap();
    let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    match said.lines().find(|line| line.contains("SKIPPED: ")) {
        Some(line) => eprintln!("{line}"),
        None if said.contains("Operation not permitted") && !said.contains("podman works") => {
            eprintln!("SKIPPED: no mount namespace: {said}");
        }
        None => assert!(done.status.success() && said.contains("podman works"), "{said}"),
    }
}

/// Not a test: the part of it in a mount namespace.
#[test]
#[ignore = "containers_are_started_paused_and_removed starts it"]
fn with_podman() {
    if env::var(ROOT).is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let limits = InstanceLimits { cpus: Some(0.5), memory: Some(64 << 20) };
    let spec = ServiceSpec { limits, safeguard: Some(safeguard(folder.path())), ..spec(2) };
    let mut instances = Instances::new(spec.clone());
    match instances.set_active(2) {
        Ok(()) => {}
        Err(Error::Start { source, .. }) => {
            return println!("SKIPPED: podman cannot run containers: {source}");
        }
        Err(error) => panic!("{error}"),
    }
    println!("podman works");
    let all = instances.processes();
    let (first, second) = (all[0][0], all[1][0]);
    assert_eq!(manycore_linux::tasks::name(first).as_deref(), Some("redis-server"));
    for server in instances.servers() {
        TcpStream::connect(server).unwrap();
    }
    instances.set_active(1).unwrap();
    // The kernel freezes a group after the engine has answered.
    until(|| paused(second));
    assert!(!paused(first));
    instances.set_active(2).unwrap();
    assert!(!paused(second));
    instances.set_active(1).unwrap();
    assert_eq!(instances.end(), None);
    assert!(!is_alive(first) && !is_alive(second) && journals(folder.path()) == 0);

    ends_are_named(&spec);
    killed(folder.path());
    kill_at_any_moment("container", 2, |program| {
        let mut list = ENGINE.command(&["ps", "--all", "--format", "{{.Names}}"]);
        let names = String::from_utf8(list.output().unwrap().stdout).unwrap();
        let name = format!("manycore-density-{program}-");
        assert!(!names.contains(&name), "{names}");
        // Its monitor has the name among its arguments, and ends soon after the last process of the container.
        let has_name = |pid: u32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&name))
        };
        until(|| !manycore_linux::tasks::all().into_iter().any(has_name));
    });
}

/// Whether the group of a container is frozen.
fn paused(pid: u32) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let freezer = groups.lines().find_map(|line| line.split_once(":freezer:")).map(|(_, group)| group);
    match freezer {
        Some(group) => {
            fs::read_to_string(format!("/sys/fs/cgroup/freezer{group}/freezer.state")).unwrap() == "FROZEN\n"
        }
        None => is_paused(pid),
    }
}

/// A container that cannot run, and one that ends.
fn ends_are_named(spec: &ServiceSpec) {
    let InstanceKind::Container(container) = &spec.kind else { unreachable!() };
    let with = |command: &[&str]| {
        let command = arguments(command);
        let kind = InstanceKind::Container(ContainerSpec { command, ..container.clone() });
        let mut instances = Instances::new(ServiceSpec { kind, ..spec.clone() });
        let error = instances.set_active(1).unwrap_err();
        assert_eq!(instances.end(), None);
        error
    };
    let error = with(&["/no/such/server", "{port}"]);
    assert!(matches!(error, Error::Start { index: 0, .. }), "{error}");
    let error = with(&["sh", "-c", "echo no room {port} >&2; exit 3"]);
    let said = error.to_string();
    assert!(matches!(error, Error::Ended { index: 0, .. }), "{said}");
    assert!(said.contains("(exit status: 3)") && said.contains("no room "), "{said}");
}

/// The program is killed; then the program with its cleanup process.
fn killed(folder: &Path) {
    for with_cleanup in [false, true] {
        let mut program = ProgramWithInstances::start("container", folder);
        let processes = program.paused();
        assert_eq!(journals(folder), 1);
        let id = manycore_control::journal::pending(folder).unwrap().0[0].id();
        let cleanup = program.cleanup_process();
        if with_cleanup {
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(cleanup as i32).unwrap(),
                rustix::process::Signal::KILL,
            )
            .unwrap();
        }
        program.kill();
        if with_cleanup {
            assert!(engine::exists(ENGINE, &format!("manycore-{id}-2")).unwrap());
            assert!(processes.iter().all(|&pid| is_alive(pid)));
            let restored = &undo(folder)[0];
            assert_eq!((restored.containers, restored.failed.len()), (3, 0), "{restored:?}");
        }
        until(|| !is_alive(cleanup));
        for index in 0..3 {
            assert!(!engine::exists(ENGINE, &format!("manycore-{id}-{index}")).unwrap());
        }
        assert!(processes.into_iter().all(|pid| !is_alive(pid)) && journals(folder) == 0);
    }
}
