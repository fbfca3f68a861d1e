//! Latencies of the scheduler as histograms: exact ones with BPF, otherwise the shares of time that tasks waited.

use crate::{
    picture::Picture,
    resources::{LATENCY_CLASSES, LatencyHistogram},
    units::Distances,
    view::pen::Pen,
};
use manycore_sharing::level::{levels, main_level};
use manycore_text::units::counted;
use manycore_topology::{CpuSet, Level, Machine};
use ratatui::{buffer::Buffer, layout::Rect};
use std::cmp::Reverse;

/// One histogram: title, and the classes with their names.
struct Histogram {
    title: String,
    summary: String,
    bars: Vec<(String, u64)>,
}

/// Returns sentences about the source of the figures.
pub fn latency_notes(machine: &Machine, picture: &Picture) -> Vec<String> {
    match &picture.latency {
        Some(latency) => {
            let migrations = Distances::of(picture).text(latency.migrations);
            let moved = format!("Exact (BPF). Migrations in {:.1} s: {migrations}.", picture.seconds);
            let conflict = |level: Level| {
                format!(
                    "Two tasks ran on one {} while another was idle for {:.1} ms.",
                    if level == Level::Llc { "last-level cache" } else { level.name() },
                    latency.conflict_ns as f64 / 1e6
                )
            };
            // No two CPUs share anything that others do not, so that there are no conflicts.
            let shared = main_level(&levels(machine, &machine.online));
            std::iter::once(moved).chain(shared.map(conflict)).collect()
        }
        None => vec![
            "From /proc: the share of the interval in which each task waited for a CPU. Latencies of single wake-ups \
             need BPF: sudo manycore top --bpf, on a kernel with BTF (/sys/kernel/btf/vmlinux)."
                .to_owned(),
        ],
    }
}

/// Draws the histograms beside or below each other, as the room allows, without the first `skipped` rows. Returns how many
/// rows were skipped: the last row stays on the screen.
pub fn draw_latency(pen: &mut Pen<'_>, picture: &Picture, skipped: usize) -> usize {
    let histograms = match &picture.latency {
        Some(latency) => {
            let mut all = vec![
                exact("From wake-up to running", &latency.wakeup),
                exact("From being displaced to running", &latency.displaced),
            ];
            all.extend(
                latency.off_cpu.iter().map(|(reason, one)| exact(&format!("Off the CPU: {reason}"), one)),
            );
            all.extend(run_by_cluster(picture, &latency.run_ns));
            all
        }
        None => vec![shares(picture)],
    };
    let across = (pen.area.width / 46).clamp(1, histograms.len() as u16);
    let width = pen.area.width / across;
    let groups: Vec<&[Histogram]> = histograms.chunks(across.into()).collect();
    let rows = |group: &[Histogram]| group.iter().map(|one| one.bars.len()).max().unwrap_or(0) as u16 + 2;
    // An empty row between two groups.
    let all = groups.iter().map(|group| rows(group) + 1).sum::<u16>() - 1;
    let mut sheet = Buffer::empty(Rect::new(0, 0, pen.area.width, all));
    let mut whole = Pen { area: sheet.area, buffer: &mut sheet, theme: pen.theme, is_ascii: pen.is_ascii };
    let mut y = 0;
    for group in groups {
        let height = rows(group);
        for (at, one) in group.iter().enumerate() {
            let area = Rect { x: at as u16 * width, y, width: width - u16::from(across > 1), height };
            draw(&mut whole.part(area), one);
        }
        y += height + 1;
    }
    let first = all.saturating_sub(pen.area.height).min(skipped.try_into().unwrap_or(u16::MAX));
    for y in 0..pen.area.height.min(all) {
        for x in 0..pen.area.width {
            pen.buffer[(pen.area.x + x, pen.area.y + y)] = sheet[(x, first + y)].clone();
        }
    }
    first.into()
}

fn draw(pen: &mut Pen<'_>, histogram: &Histogram) {
    pen.text(0, 0, &histogram.title, pen.theme.label());
    pen.text(0, 1, &histogram.summary, pen.theme.dim());
    let most = histogram.bars.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let all = histogram.bars.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let label = 12;
    let room = pen.area.width.saturating_sub(label + 9);
    for (at, (name, count)) in histogram.bars.iter().enumerate() {
        let y = at as u16 + 2;
        pen.text_right(label - 1, y, name, label - 1, pen.theme.dim());
        let share = *count as f64 / most as f64;
        let wide = (share * f64::from(room)).ceil() as u16;
        let later = at as f64 / (histogram.bars.len().max(2) - 1) as f64;
        let block = if pen.is_ascii { "#" } else { "█" };
        pen.text(label, y, &block.repeat(wide.into()), pen.theme.heat_text(later));
        let of_all = 100.0 * *count as f64 / all.max(1) as f64;
        let digits = usize::from(of_all > 0.0 && of_all < 9.95);
        pen.text(label + wide + 1, y, &format!("{of_all:.digits$} %"), ratatui::style::Style::new());
    }
}

/// Returns a histogram of durations, from the first to the last class that is not empty.
fn exact(title: &str, histogram: &LatencyHistogram) -> Histogram {
    let counts = histogram.0;
    let first = counts.iter().position(|&count| count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    let name = |class: usize| match class {
        0 => "< 1 us".to_owned(),
        _ if class == LATENCY_CLASSES - 1 => format!(">= {}", duration((1_u64 << (class - 1)) as f64)),
        _ => format!("< {}", duration((1_u64 << class) as f64)),
    };
    let quantile = |q: f64| match histogram.quantile_us(q) {
        None => "-".to_owned(),
        Some(us) if us.is_infinite() => name(LATENCY_CLASSES - 1),
        Some(us) => format!("< {}", duration(us)),
    };
    let count = histogram.count();
    Histogram {
        title: format!("{title}: {}", counted(count as usize, "time")),
        summary: format!("p50 {}, p99 {}, p99.9 {}", quantile(0.5), quantile(0.99), quantile(0.999)),
        bars: if count == 0 { Vec::new() } else { (first..=last).map(|at| (name(at), counts[at])).collect() },
    }
}

/// Most clusters of which the time is shown: the busiest.
const MOST_CLUSTERS: usize = 16;

/// Returns the time that tasks ran by cluster, if there are several clusters.
fn run_by_cluster(picture: &Picture, run_ns: &[u64]) -> Option<Histogram> {
    let cpus: Vec<&CpuSet> = picture.units_of(Level::Cluster).map(|unit| &unit.cpus).collect();
    let are_clusters = cpus.iter().any(|cpus| cpus.len() > 1);
    if run_ns.len() < 2 || cpus.len() != run_ns.len() || !are_clusters {
        return None;
    }
    let mut busiest: Vec<usize> = (0..run_ns.len()).collect();
    busiest.sort_by_key(|&at| Reverse(run_ns[at]));
    busiest.truncate(MOST_CLUSTERS);
    busiest.sort_unstable();
    let sum: f64 = run_ns.iter().map(|&ns| ns as f64).sum();
    Some(Histogram {
        title: "Time that tasks ran, by CPUs of a cluster".to_owned(),
        summary: format!("{:.2} CPUs on {} clusters", sum / 1e9 / picture.seconds, run_ns.len()),
        bars: busiest.into_iter().map(|at| (cpus[at].to_string(), run_ns[at])).collect(),
    })
}

/// Formats microseconds.
fn duration(us: f64) -> String {
    match us {
        short if short < 1_000.0 => format!("{short:.0} us"),
        middle if middle < 1e6 => three_digits(middle / 1e3, "ms"),
        long => three_digits(long / 1e6, "s"),
    }
}

/// Formats a number with three digits, or more before the point.
fn three_digits(value: f64, unit: &str) -> String {
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

/// Upper limits of the classes of shares.
const SHARES: [(f64, &str); 9] = [
    (1e-9, "none"),
    (0.001, "< 0.1 %"),
    (0.01, "< 1 %"),
    (0.02, "< 2 %"),
    (0.05, "< 5 %"),
    (0.1, "< 10 %"),
    (0.2, "< 20 %"),
    (0.5, "< 50 %"),
    (f64::INFINITY, ">= 50 %"),
];

/// Returns the histogram of the shares of tasks that ran.
fn shares(picture: &Picture) -> Histogram {
    let waits: Vec<f64> =
        picture.tasks.iter().filter(|task| task.run > 0.0).filter_map(|task| task.wait).collect();
    let mut counts = [0; SHARES.len()];
    for wait in &waits {
        let class = SHARES.iter().position(|(limit, _)| wait < limit).unwrap_or(SHARES.len() - 1);
        counts[class] += 1;
    }
    let bars = SHARES.iter().zip(counts).map(|((_, name), count)| ((*name).to_owned(), count)).collect();
    Histogram {
        title: "Share of the interval in which a task waited for a CPU".to_owned(),
        summary: format!("{} tasks that ran", waits.len()),
        bars,
    }
}
