//! The HTML page in a real browser: an empty console, and every chart present with its size.

use crate::common::{interrupted, manycore, save, stolen_guest};
use manycore_experiment::{record::Record, spawning::Work};
use manycore_testkit::SyntheticMachine;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

/// Names under which distributions install Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<&'static str> {
    let runs =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let found = BROWSERS.into_iter().find(|name| runs(name));
    if found.is_none() {
        eprintln!("SKIPPED: chromium is not installed");
    }
    found
}

fn open(browser: &str, page: &Path, profile: &Path, more: &[&str]) -> Output {
    Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-first-run"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
}

/// Script that is appended to a copy of the page without its policy. It writes the size of each chart as
/// laid out by the browser, and of the page, into the document.
const MEASURE: &str = "<script>for (const s of document.querySelectorAll('svg[id]:not(.zoom svg)')) {
    const r = s.getBoundingClientRect(), t = s.getBBox();
    s.setAttribute('data-size', `${Math.round(Math.min(r.width, t.width))} ${Math.round(Math.min(r.height, t.height))}`);
}
document.body.setAttribute('data-wide', document.documentElement.scrollWidth > window.innerWidth);</script>";

/// Opens the page of `records` and checks the console, the charts, and that nothing is cut off at the
/// right.
fn check(records: &[(&str, Record)], charts: &[&str]) {
    let Some(browser) = browser() else { return };
    let folder = TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    let paths = records.iter().map(|(name, record)| save(&folder, name, record));
    manycore().arg("report").args(paths).arg("--html").arg(&page).assert().success();

    let profile = folder.path().join("profile");
    let plain = open(browser, &page, &profile, &["--dump-dom"]);
    let log = String::from_utf8_lossy(&plain.stderr).into_owned();
    assert!(!log.contains("CONSOLE"), "{log}");
    assert!(String::from_utf8_lossy(&plain.stdout).contains("</html>"), "{log}");

    let policy = "<meta http-equiv=\"Content-Security-Policy\"";
    let source = fs::read_to_string(&page).unwrap();
    assert!(source.contains(policy));
    let measured =
        source.replace(policy, "<meta name=\"was-policy\"").replace("</body>", &format!("{MEASURE}</body>"));
    fs::write(&page, measured).unwrap();
    for width in ["--window-size=1280,900", "--window-size=500,900"] {
        let dom = open(browser, &page, &profile, &["--dump-dom", width]).stdout;
        let dom = String::from_utf8(dom).unwrap();
        assert!(dom.contains("data-wide=\"false\""), "the page scrolls horizontally at {width}");
        assert_eq!(dom.matches("data-size=").count(), charts.len(), "number of charts");
        for id in charts {
            let [across, down] = size(&dom, id);
            assert!(across > 100 && down > 50, "{id} is {across} x {down} at {width}");
        }
    }
}

/// Returns width and height of the chart `id`.
fn size(dom: &str, id: &str) -> [u32; 2] {
    let element = dom.split("<svg ").find(|element| element.starts_with(&format!("id=\"{id}\"")));
    let element = element.unwrap_or_else(|| panic!("no chart {id}"));
    let size = element.split("data-size=\"").nth(1).unwrap().split('"').next().unwrap();
    let mut sides = size.split(' ').map(|side| side.parse().unwrap());
    [sides.next().unwrap(), sides.next().unwrap()]
}

/// Charts of every evaluation.
const ALL: [&str; 16] = [
    "chart-noise-1",
    "chart-speedup",
    "chart-efficiency",
    "chart-latency",
    "chart-cpus-1",
    "chart-modes",
    "chart-modes-pairs-1",
    "chart-matrix-one",
    "chart-matrix-all",
    "chart-affinity-pairs-1",
    "chart-affinity-1",
    "chart-stream-1",
    "chart-contention-0",
    "chart-distance-1",
    "chart-contention-2",
    "chart-contention-pairs-1",
];

/// Maps of machines with several nodes.
const NODES: [&str; 3] = ["chart-stream-nodes-1", "chart-stream-idle-1", "chart-stream-loaded-1"];

/// The map of a machine with several pairs of CPUs.
const LATENCY: &str = "chart-latency-map-1";

#[test]
fn a_page_of_two_cpus_has_all_charts_and_an_empty_console() {
    check(&[("guest", stolen_guest())], &ALL);
}

#[test]
fn a_page_of_320_cpus_has_all_charts_and_an_empty_console() {
    let record = SyntheticMachine { blocks: 8, ..SyntheticMachine::large_server() }.record();
    check(&[("giant", record)], &[&ALL[..], &NODES, &[LATENCY]].concat());
}

#[test]
fn a_page_of_three_records_has_a_map_for_each() {
    let records = [
        ("guest", stolen_guest()),
        ("server", SyntheticMachine { blocks: 8, ..SyntheticMachine::chiplets() }.record()),
        ("half", interrupted()),
    ];
    let pairs =
        ["noise", "modes-pairs", "affinity-pairs", "contention-pairs"].map(|name| format!("chart-{name}-2"));
    let pairs: Vec<&str> = pairs.iter().map(String::as_str).chain(["chart-noise-3"]).collect();
    let maps = ["chart-cpus-2", "chart-cpus-3", "chart-affinity-2", "chart-latency-map-2"];
    let memory = ["chart-stream-2", "chart-stream-nodes-2", "chart-stream-idle-2", "chart-stream-loaded-2"];
    let sharing = ["chart-contention-3", "chart-distance-4", "chart-contention-5"];
    check(&records, &[&ALL[..], &pairs, &maps, &memory, &sharing].concat());
}

/// A map whose only cell is as wide as the page says no more than the figure in the table.
#[test]
fn a_single_figure_is_no_map() {
    let folder = TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    manycore()
        .arg("report")
        .arg(save(&folder, "guest", &stolen_guest()))
        .arg("--html")
        .arg(&page)
        .assert()
        .success();
    let page = fs::read_to_string(page).unwrap();
    for absent in NODES.iter().chain([&LATENCY]) {
        assert!(!page.contains(absent), "{absent}");
    }
}

#[test]
fn a_page_of_half_a_run_has_the_charts_of_that_half() {
    check(&[("half", interrupted())], &ALL[..5]);
}

#[test]
fn a_page_of_light_processes_has_their_bytes_and_a_map_for_each_runtime() {
    let maps = ["chart-spawn-bytes", "chart-spawn-cpus-1-1", "chart-spawn-cpus-1-2", "chart-spawn-cpus-1-3"];
    check(&[("spin", SyntheticMachine::guest().spawn(Work::Spin))], &maps);
    check(&[("idle", SyntheticMachine::guest().spawn(Work::Idle))], &maps[..1]);
}

#[test]
fn a_page_of_light_processes_on_320_cpus_beside_another_fits() {
    let records = [
        ("giant", SyntheticMachine::large_server().spawn(Work::Spin)),
        ("guest", SyntheticMachine::guest().spawn(Work::Io)),
    ];
    let maps = ["chart-spawn-bytes", "chart-spawn-cpus-1-1", "chart-spawn-cpus-1-2", "chart-spawn-cpus-1-3"];
    check(&records, &maps);
}
