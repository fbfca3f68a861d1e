//! Temperatures of CPUs: sensors of cores or packages (`Documentation/hwmon/coretemp.rst`, `k10temp.rst`,
//! `Documentation/driver-api/thermal/sysfs-api.rst`).

use crate::sample::CpuTimes;
use manycore_topology::{CpuId, SysTree};
use std::collections::{BTreeMap, BTreeSet};

const HWMON: &str = "sys/class/hwmon";
const ZONES: &str = "sys/class/thermal";
/// Sensors are searched again after this number of samples.
const SEARCH_AGAIN: u32 = 256;

/// A file with thousandths of a degree Celsius, and the CPUs that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sensor {
    file: String,
    cpus: Vec<CpuId>,
}

/// The sensors of the CPUs that were online when they were searched.
#[derive(Debug, Default)]
pub(super) struct Temperatures {
    cpus: Vec<CpuId>,
    sensors: Vec<Sensor>,
    samples: u32,
}

impl Temperatures {
    /// Enters the temperature of each CPU whose sensor is known: that of its core, else of its package. `cpus` are
    /// ascending.
    pub fn read(&mut self, tree: &SysTree, cpus: &mut [CpuTimes]) {
        let is_same = self.cpus.iter().copied().eq(cpus.iter().map(|times| times.cpu));
        if !is_same || self.samples >= SEARCH_AGAIN {
            self.cpus.clear();
            self.cpus.extend(cpus.iter().map(|times| times.cpu));
            self.sensors = sensors(tree, &self.cpus);
            self.samples = 0;
        }
        self.samples += 1;
        for sensor in &self.sensors {
            let value = tree.number::<i32>(&sensor.file);
            for cpu in &sensor.cpus {
                if let Ok(at) = cpus.binary_search_by_key(cpu, |times| times.cpu) {
                    cpus[at].millidegrees = value;
                }
            }
        }
    }
}

/// The CPUs of each package and core.
struct Cores(BTreeMap<i64, BTreeMap<i64, Vec<CpuId>>>);

impl Cores {
    fn read(tree: &SysTree, cpus: &[CpuId]) -> Self {
        let mut packages: BTreeMap<i64, BTreeMap<i64, Vec<CpuId>>> = BTreeMap::new();
        for &cpu in cpus {
            let id = |name: &str| tree.number(&format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
            let (package, core) = (id("physical_package_id").unwrap_or(0), id("core_id"));
            packages.entry(package).or_default().entry(core.unwrap_or(-1)).or_default().push(cpu);
        }
        Self(packages)
    }

    fn core(&self, package: i64, core: i64) -> Vec<CpuId> {
        self.0.get(&package).and_then(|cores| cores.get(&core)).cloned().unwrap_or_default()
    }

    fn package(&self, package: i64) -> Vec<CpuId> {
        self.0.get(&package).into_iter().flat_map(|cores| cores.values().flatten().copied()).collect()
    }

    /// Assigns one sensor to each package, in order, if there are as many.
    fn assign(&self, files: Vec<String>) -> Vec<Sensor> {
        if files.len() != self.0.len() {
            return Vec::new();
        }
        let packages = files.into_iter().zip(self.0.keys());
        packages.map(|(file, &package)| Sensor { file, cpus: self.package(package) }).collect()
    }
}

/// Returns the best sensor of each CPU.
fn sensors(tree: &SysTree, cpus: &[CpuId]) -> Vec<Sensor> {
    let cores = Cores::read(tree, cpus);
    let (mut by_core, mut by_package, mut of_chips) = (Vec::new(), Vec::new(), BTreeMap::new());
    for number in tree.numbered_entries(HWMON, "hwmon").iter() {
        let chip = format!("{HWMON}/hwmon{number}");
        match tree.read(&format!("{chip}/name")).as_deref() {
            Some("coretemp") => intel(tree, &chip, &cores, &mut by_core, &mut by_package),
            Some("k10temp" | "zenpower") => {
                // The addresses of the devices are in the order of packages.
                let device = tree.link(&format!("{chip}/device")).unwrap_or_default();
                let device = device.rsplit('/').next().unwrap_or_default().to_owned();
                of_chips.insert((device, number), amd(tree, &chip));
            }
            _ => {}
        }
    }
    let of_chips = cores.assign(of_chips.into_values().collect());
    let of_zones = cores.assign(zones(tree));
    let mut left: BTreeSet<CpuId> = cpus.iter().copied().collect();
    let mut chosen: Vec<Sensor> = [by_core, by_package, of_chips, of_zones].concat();
    for sensor in &mut chosen {
        sensor.cpus.retain(|cpu| left.remove(cpu));
    }
    chosen.retain(|sensor| !sensor.cpus.is_empty());
    chosen
}

/// Adds the sensors of one package: `temp2_label` is `Core 0`, with the number of `core_id`.
fn intel(tree: &SysTree, chip: &str, cores: &Cores, by_core: &mut Vec<Sensor>, by_package: &mut Vec<Sensor>) {
    let labels: Vec<(String, String)> = tree
        .list(chip)
        .into_iter()
        .filter(|name| name.starts_with("temp") && name.ends_with("_label"))
        .filter_map(|name| Some((name.replace("_label", "_input"), tree.read(&format!("{chip}/{name}"))?)))
        .collect();
    let number = |label: &str, name: &str| label.strip_prefix(name)?.trim().parse::<i64>().ok();
    let labelled = labels.iter().find_map(|(_, label)| number(label, "Package id "));
    // Processors without a sensor of the package: `../../../coretemp.1`.
    let device = || tree.link(&format!("{chip}/device"))?.rsplit_once("coretemp.")?.1.parse().ok();
    let Some(package) = labelled.or_else(device) else { return };
    for (file, label) in &labels {
        let file = format!("{chip}/{file}");
        if let Some(core) = number(label, "Core ") {
            by_core.push(Sensor { file, cpus: cores.core(package, core) });
        } else if number(label, "Package id ").is_some() {
            by_package.push(Sensor { file, cpus: cores.package(package) });
        }
    }
}

/// Returns the file of a chip: `Tdie` is the temperature, `Tctl` may have an offset.
fn amd(tree: &SysTree, chip: &str) -> String {
    let is_die = |name: &String| {
        name.ends_with("_label") && tree.read(&format!("{chip}/{name}")).as_deref() == Some("Tdie")
    };
    let label = tree.list(chip).into_iter().find(is_die);
    format!(
        "{chip}/{}",
        label.map_or_else(|| "temp1_input".to_owned(), |name| name.replace("_label", "_input"))
    )
}

/// Returns the files of zones that are packages.
fn zones(tree: &SysTree) -> Vec<String> {
    let zones = tree.numbered_entries(ZONES, "thermal_zone");
    let is_package = |zone: &u32| {
        let kind = tree.read(&format!("{ZONES}/thermal_zone{zone}/type"));
        matches!(kind.as_deref(), Some("x86_pkg_temp" | "cpu-thermal" | "cpu_thermal"))
    };
    zones.iter().filter(is_package).map(|zone| format!("{ZONES}/thermal_zone{zone}/temp")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;

    /// Two packages of one core with two siblings each.
    fn read_files(files: &[(&str, &str)], links: &[(&str, &str)]) -> Vec<Option<i32>> {
        let mut capture = Capture::default();
        for cpu in 0..4_u32 {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            capture.add_file(&format!("{folder}/physical_package_id"), &(cpu / 2).to_string());
            capture.add_file(&format!("{folder}/core_id"), "8");
        }
        for (path, text) in files {
            capture.add_file(&format!("sys/class/{path}"), text);
        }
        for (path, target) in links {
            capture.add_link(&format!("sys/class/{path}"), target);
        }
        let mut cpus: Vec<CpuTimes> = (0..4).map(|cpu| CpuTimes { cpu, ..CpuTimes::default() }).collect();
        Temperatures::default().read(&SysTree::from_capture(capture), &mut cpus);
        cpus.iter().map(|times| times.millidegrees).collect()
    }

    #[test]
    fn cores_have_sensors_of_their_own() {
        let of = read_files(
            &[
                ("hwmon/hwmon3/name", "coretemp"),
                ("hwmon/hwmon3/temp1_label", "Package id 1"),
                ("hwmon/hwmon3/temp1_input", "50000"),
                ("hwmon/hwmon4/name", "coretemp"),
                ("hwmon/hwmon4/temp2_label", "Core 8"),
                ("hwmon/hwmon4/temp2_input", "41000"),
                ("hwmon/hwmon5/name", "nvme"),
                ("hwmon/hwmon5/temp1_input", "30000"),
            ],
            &[("hwmon/hwmon4/device", "../../../coretemp.0")],
        );
        assert_eq!(of, [Some(41_000), Some(41_000), Some(50_000), Some(50_000)]);
    }

    #[test]
    fn sensors_of_packages_are_in_order() {
        let of = read_files(
            &[
                ("hwmon/hwmon0/name", "k10temp"),
                ("hwmon/hwmon0/temp1_input", "60000"),
                ("hwmon/hwmon1/name", "k10temp"),
                ("hwmon/hwmon1/temp1_input", "99000"),
                ("hwmon/hwmon1/temp2_label", "Tdie"),
                ("hwmon/hwmon1/temp2_input", "-1000"),
            ],
            &[
                ("hwmon/hwmon0/device", "../../../0000:00:19.3"),
                ("hwmon/hwmon1/device", "../../../0000:00:18.3"),
            ],
        );
        assert_eq!(of, [Some(-1000), Some(-1000), Some(60_000), Some(60_000)]);
        let zone = |at: u32| format!("thermal/thermal_zone{at}");
        let (first, second) = (format!("{}/type", zone(0)), format!("{}/type", zone(1)));
        let (temp, other) = (format!("{}/temp", zone(0)), format!("{}/temp", zone(1)));
        let of = read_files(
            &[(&first, "acpitz"), (&temp, "1"), (&second, "x86_pkg_temp"), (&other, "70000")],
            &[],
        );
        // One sensor for two packages: which one it is of is unknown.
        assert_eq!(of, [None; 4]);
    }
}
