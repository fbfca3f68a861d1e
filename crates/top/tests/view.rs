//! The view drawn into buffers: what is on the screen.

use crate::pictures;
use crate::shown::{buffer, key, press, screen, server, task_lines, view_of};
use manycore_top::{
    BandwidthUse, Picture, TaskUse, Wanted,
    findings::{Finding, FindingKind},
    snapshot::Order,
    view::{ColorDepth, CpuMetric, Theme, View, ViewKey, ViewOptions, ViewScreen},
};
use manycore_topology::{Machine, synthetic::MachineSpec};
use ratatui::style::Color;
use unicode_width::UnicodeWidthStr;

#[test]
fn cpus_and_tasks_at_several_sizes() {
    insta::assert_snapshot!("server_80x24", screen(&mut server(), 80, 24));
    insta::assert_snapshot!("server_140x40", screen(&mut server(), 140, 40));
    insta::assert_snapshot!("server_20x5", screen(&mut server(), 20, 5));
    let ascii = ViewOptions { is_ascii: true, ..ViewOptions::default() };
    let huge =
        MachineSpec { packages: 2, nodes: 4, caches: 4, cores: 8, threads: 2, ..MachineSpec::default() };
    let mut huge = view_of(&pictures::machine(&huge), ascii);
    insta::assert_snapshot!("huge_ascii_80x24", screen(&mut huge, 80, 24));
    let mut small = view_of(&pictures::machine(&MachineSpec { cores: 4, ..MachineSpec::default() }), ascii);
    insta::assert_snapshot!("small_ascii_80x24", screen(&mut small, 80, 24));
}

#[test]
fn the_use_of_hundreds_of_cpus_does_not_touch_the_name_of_their_package() {
    let giant =
        MachineSpec { packages: 4, nodes: 4, caches: 8, cores: 16, threads: 2, ..MachineSpec::default() };
    let text = screen(&mut view_of(&pictures::machine(&giant), ViewOptions::default()), 80, 24);
    let line = text.lines().find(|line| line.contains("package 0")).unwrap();
    let figure = line.split("package 0").nth(1).unwrap();
    assert!(figure.starts_with(' '), "{text}");
    assert!(figure.trim_start().split(' ').next().unwrap().parse::<f64>().unwrap() >= 100.0, "{text}");
}

#[test]
fn means_since_boot_are_named_as_such() {
    let machine = pictures::server(2, 2);
    let picture = pictures::picture(&machine, 60, 7);
    let mut view = View::new(&machine, ViewOptions::default());
    view.update(Picture { is_since_boot: true, ..picture.clone() });
    for width in [20, 80, 140] {
        let text = screen(&mut view, width, 24);
        assert!(text.lines().next().unwrap().contains("MEANS SINCE BOOT"), "{text}");
    }
    view.update(picture);
    assert!(!screen(&mut view, 140, 24).contains("BOOT"));
}

#[test]
fn a_wide_screen_is_filled() {
    let text = screen(&mut server(), 400, 100);
    assert!(text.lines().all(|line| line.width() <= 400));
    assert!(text.contains("X-NODE/s") && text.contains("THR"), "{text}");
    assert!(task_lines(&text).len() > 20, "{text}");
}

#[test]
fn all_views() {
    let mut view = server();
    for (digit, name) in ["nodes", "interrupts", "groups", "guests", "latency"].into_iter().enumerate() {
        press(&mut view, &(digit + 3).to_string());
        insta::assert_snapshot!(format!("view_{name}"), screen(&mut view, 110, 24));
    }
    let text = "redis (pid 7) waits for CPU 3 half of the time while CPU 9 is idle".to_owned();
    let fix = Some("taskset -pc 9 7".to_owned());
    view.set_findings(vec![Finding { kind: FindingKind::CrowdedCpu, text, fix, seconds: 12.0 }]);
    press(&mut view, "8");
    insta::assert_snapshot!("view_findings", screen(&mut view, 110, 16));
    press(&mut view, "?");
    insta::assert_snapshot!("help", screen(&mut view, 100, 60));
}

#[test]
fn counters_of_the_cpus_have_columns_where_they_exist() {
    let machine = pictures::server(2, 2);
    let mut picture = pictures::picture(&machine, 200, 7);
    pictures::add_counters(&mut picture);
    let mut view = View::new(&machine, ViewOptions::default());
    view.update(picture);
    view.show(ViewScreen::Tasks);
    insta::assert_snapshot!("counters_processes", screen(&mut view, 140, 20));
    // The least important columns are left out first.
    let narrow = screen(&mut view, 80, 20);
    assert!(narrow.contains("CPU%") && !server_text().contains("IPC"), "{narrow}");
    press(&mut view, "H");
    insta::assert_snapshot!("counters_threads", screen(&mut view, 140, 12));
}

#[test]
fn memory_pressure_and_bandwidth_of_processes_have_columns() {
    let machine = pictures::server(2, 2);
    let mut picture = pictures::picture(&machine, 60, 7);
    let mut pids: Vec<u32> = picture.processes.iter().map(|process| process.pid).collect();
    pids.truncate(9);
    picture.details = pids.iter().map(|&pid| pictures::details(pid)).collect();
    // The first one is on no other node, and its memory is on none that is known.
    picture.details[0].1.node_kib = None;
    picture.details[1].1.monitor = Some("web".to_owned());
    for (domain, total) in [(0, 3e9), (1, 5e8)] {
        let (group, total, cache_bytes) = ("web".into(), Some(total), Some(3 << 20));
        picture.bandwidth.push(BandwidthUse { group, domain, total, local: None, cache_bytes });
    }
    let mut view = View::new(&machine, ViewOptions { order: Order::Memory, ..ViewOptions::default() });
    view.update(picture);
    view.show(ViewScreen::Tasks);
    press(&mut view, "o");
    insta::assert_snapshot!("resources_140", screen(&mut view, 140, 24));
    insta::assert_snapshot!("resources_80", screen(&mut view, 80, 12));
    let wanted = view.wanted();
    // Those of the rows on the screen, the memory by node of one of them at a time.
    assert_eq!((wanted.details.len(), wanted.memory_of.len(), wanted.bandwidth), (9, 1, true));
    press(&mut view, "o");
    assert_eq!(view.wanted(), Wanted { counters: true, ..Wanted::default() });
}

fn server_text() -> String {
    screen(&mut server(), 400, 100)
}

/// Returns the view of latencies that are counted exactly.
fn exact_latencies() -> View {
    let machine = pictures::server(0, 1);
    let mut picture = pictures::picture(&machine, 20, 1);
    picture.latency = Some(pictures::latency());
    let mut view = View::new(&machine, ViewOptions::default());
    view.update(picture);
    view.show(ViewScreen::Latency);
    view
}

#[test]
fn exact_latencies_are_histograms() {
    let mut view = exact_latencies();
    insta::assert_snapshot!("latency_exact", screen(&mut view, 120, 30));
}

#[test]
fn the_latency_view_scrolls() {
    let mut view = exact_latencies();
    let first = screen(&mut view, 80, 24);
    assert!(first.lines().last().unwrap().contains("↓Scroll"), "{first}");
    assert!(first.contains("From wake-up to running") && !first.contains("Off the CPU"), "{first}");
    let mut all = first.clone();
    let mut shown = String::new();
    while all != shown {
        shown.clone_from(&all);
        key(&mut view, ViewKey::PageDown);
        all = screen(&mut view, 80, 24);
    }
    assert!(!all.contains("From wake-up to running") && all.contains("Off the CPU"), "{all}");
    // The last row stays on the screen, and one row up is seen at once.
    let above_foot = |text: &str| text.lines().rev().nth(1).unwrap().to_owned();
    assert!(above_foot(&all).contains(" %"), "{all}");
    key(&mut view, ViewKey::Up);
    assert_ne!(screen(&mut view, 80, 24), all);
    press(&mut view, "G");
    assert_eq!(screen(&mut view, 80, 24), all);
    press(&mut view, "g");
    assert_eq!(screen(&mut view, 80, 24), first);
}

#[test]
fn the_time_that_tasks_ran_is_shown_by_cluster() {
    let screen_of = |machine: &Machine, count: u64| {
        let mut picture = pictures::picture(machine, 20, 1);
        picture.seconds = 2.0;
        let run_ns = (0..count).map(|at| if at == 1 { 3_000_000_000 } else { 0 }).collect();
        picture.latency = Some(manycore_top::LatencySample { run_ns, ..pictures::latency() });
        let mut view = View::new(machine, ViewOptions::default());
        view.update(picture);
        view.show(ViewScreen::Latency);
        screen(&mut view, 120, 50)
    };
    let clusters = pictures::server(2, 1);
    let text = screen_of(&clusters, 16);
    assert!(text.contains("by CPUs of a cluster") && text.contains("1.50 CPUs on 16 clusters"), "{text}");
    assert!(text.lines().any(|line| line.contains(" 4-7 █") && line.contains("100 %")), "{text}");
    // Of another number of clusters, and of CPUs that are in none.
    assert!(!screen_of(&clusters, 15).contains("of a cluster"));
    assert!(!screen_of(&pictures::server(0, 1), 32).contains("of a cluster"));
}

#[test]
fn migrations_are_named_by_levels_that_exist() {
    let notes = |machine: &Machine| {
        let mut picture = pictures::picture(machine, 20, 1);
        picture.latency =
            Some(manycore_top::LatencySample { migrations: [1, 20, 300, 4000], ..pictures::latency() });
        let mut view = View::new(machine, ViewOptions::default());
        view.update(picture);
        view.show(ViewScreen::Latency);
        let text = screen(&mut view, 160, 20);
        let conflict = text.lines().find_map(|line| line.trim().strip_prefix("Two tasks ran on one "));
        let unit = conflict.map(|line| line.split(" while").next().unwrap().to_owned());
        (text.split(" s: ").nth(1).unwrap().split('.').next().unwrap().to_owned(), unit.unwrap_or_default())
    };
    let pair = |migrations: &str, unit: &str| (migrations.to_owned(), unit.to_owned());
    // Clusters below last-level caches, which are those of the nodes.
    let spec = MachineSpec { packages: 2, clusters: 2, cores: 4, ..MachineSpec::default() };
    let clusters = pictures::machine(&spec);
    assert_eq!(
        notes(&clusters),
        pair("1 within clusters, 320 across clusters, 4000 across nodes", "cluster")
    );
    // The same without clusters: at that level, each CPU is a unit.
    let caches =
        pictures::machine(&MachineSpec { packages: 2, caches: 2, cores: 4, ..MachineSpec::default() });
    let expected = "21 within last-level caches, 300 across last-level caches, 4000 across nodes";
    assert_eq!(notes(&caches), pair(expected, "last-level cache"));
    let single = pictures::machine(&MachineSpec { cores: 4, ..MachineSpec::default() });
    assert_eq!(notes(&single).0, "321 within nodes");
}

#[test]
fn tasks_are_sorted_as_the_options_say() {
    let machine = pictures::server(2, 1);
    let picture = pictures::picture(&machine, 200, 7);
    let rates = |task: &TaskUse| {
        let switches = task.voluntary.unwrap_or(0.0) + task.involuntary.unwrap_or(0.0);
        let migrations = task.migrations.as_ref().map_or(0.0, |all| all.iter().sum())
            + f64::from(u8::from(task.migration.is_some()));
        [task.wait.unwrap_or(0.0), migrations, switches, task.resident_kib as f64]
    };
    for (at, order) in
        [Order::Wait, Order::Migrations, Order::Switches, Order::Memory].into_iter().enumerate()
    {
        let mut view = view_of(&machine, ViewOptions { order, ..ViewOptions::default() });
        view.show(ViewScreen::Tasks);
        press(&mut view, "H");
        let text = screen(&mut view, 220, 40);
        let head = text.lines().position(|line| line.contains("TID")).unwrap();
        let tid: u32 =
            text.lines().nth(head + 1).unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
        let of = |tid: u32| rates(picture.tasks.iter().find(|task| task.id.tid == tid).unwrap())[at];
        let most = picture.tasks.iter().map(|task| rates(task)[at]).fold(0.0, f64::max);
        assert!(most > 0.0 && of(tid) == most, "{order:?}: {tid} has {} of {most}\n{text}", of(tid));
    }
}

#[test]
fn ascii_screens_have_ascii_only() {
    let mut view = view_of(&pictures::server(2, 2), ViewOptions { is_ascii: true, ..ViewOptions::default() });
    for digit in '1'..='8' {
        press(&mut view, &digit.to_string());
        let text = screen(&mut view, 130, 40);
        assert!(text.is_ascii(), "{text}");
    }
    press(&mut view, "1tH?");
    assert!(screen(&mut view, 130, 40).is_ascii());
}

#[test]
fn without_colours_there_are_none() {
    let mut view = server();
    key(&mut view, ViewKey::Down);
    let plain = buffer(&mut view, 120, 40);
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    let theme = Theme { depth: ColorDepth::Ansi256, is_light: true };
    let mut colored = view_of(&pictures::server(2, 2), ViewOptions { theme, ..ViewOptions::default() });
    let colored = buffer(&mut colored, 120, 40);
    assert!(colored.content.iter().filter(|cell| cell.fg != Color::Reset).count() > 200);
}

#[test]
fn figures_that_do_not_exist_are_said_to() {
    let mut view = server();
    view.set_metric(CpuMetric::Temperature);
    assert!(screen(&mut view, 100, 24).contains("temperature, degrees Celsius: being read"));
    let picture = pictures::picture(&pictures::server(2, 2), 20, 1);
    view.update(picture.clone());
    view.update(picture);
    assert!(
        screen(&mut view, 100, 24).contains("temperature, degrees Celsius: not available on this machine")
    );
    press(&mut view, "m");
    assert_eq!(view.metric(), CpuMetric::Use);
}
