//! Packages of programs, for the package managers of Debian and of Fedora and openEuler.

/// A package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageManager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, openEuler.
    Dnf,
}

/// A program or library with its packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    QemuUser,
    QemuSystem,
    Libvirt,
    Erlang,
    Go,
    Java,
    Sysbench,
    StressNg,
    NumPy,
}

impl PackageManager {
    /// Returns the command line that installs packages.
    pub(crate) fn install(self, packages: &[String]) -> String {
        let program = match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
        };
        format!("{program} install {}", packages.join(" "))
    }

    /// Returns the packages that provide a program.
    pub(crate) fn packages(self, wanted: Wanted, architecture: &str) -> Vec<String> {
        let names: &[&str] = match (wanted, self) {
            (Wanted::QemuUser, _) => &["qemu-user"],
            (Wanted::QemuSystem, Self::Apt) if architecture == "x86_64" => &["qemu-system-x86"],
            (Wanted::QemuSystem, Self::Apt) => &["qemu-system-arm"],
            (Wanted::QemuSystem, Self::Dnf) => &["qemu"],
            (Wanted::Libvirt, Self::Apt) => &["libvirt-daemon-system", "libvirt-clients"],
            (Wanted::Libvirt, Self::Dnf) => &["libvirt"],
            (Wanted::Erlang, Self::Apt) => &["erlang-base"],
            (Wanted::Erlang, Self::Dnf) => &["erlang-erts"],
            (Wanted::Go, Self::Apt) => &["golang-go"],
            (Wanted::Go, Self::Dnf) => &["golang"],
            (Wanted::Java, Self::Apt) => &["default-jdk-headless"],
            (Wanted::Java, Self::Dnf) => &["java-17-openjdk-devel"],
            (Wanted::Sysbench, _) => &["sysbench"],
            (Wanted::StressNg, _) => &["stress-ng"],
            (Wanted::NumPy, _) => &["python3-numpy"],
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }
}
