//! The sections of the page.

use super::{
    course::{Course, Courses, UnitCourses},
    groups::Unit,
    time,
    uses::Uses,
};
use manycore_render::{
    chart::{TimeAxis, TimeBand, TimeBands, TimeMap},
    table::{Align, Table},
};
use manycore_report::page::{ChartFigure, PageSection, figure_html, table_html};
use manycore_text::units::{counted, duration, percent};
use manycore_topology::Machine;
use maud::{Markup, html};

/// Processes and groups that have a course each.
const SHOWN: usize = 8;
/// Processes in the table.
const LISTED: usize = 20;

/// Returns what the recording shows in a few sentences.
pub(super) fn summary(courses: &Courses, machine: &Machine) -> Vec<String> {
    let totals = &courses.totals;
    let Some((busy, most)) = totals.busy.summary() else {
        return vec!["The recording has fewer than two samples, so that nothing can be shown.".to_owned()];
    };
    let count = machine.online.len();
    let mut lines =
        vec![format!("On average {busy:.1} of {} were busy, at most {most:.1}.", counted(count, "CPU"))];
    if let Some((wait, most)) = totals.wait.summary() {
        lines.push(format!(
            "On average {wait:.2} {} for a CPU, at most {most:.1}.",
            if wait == 1.0 { "task waited" } else { "tasks waited" }
        ));
    }
    if let Some((stolen, most)) = totals.stolen.summary().filter(|stolen| stolen.1 > 0.01 * count as f64) {
        lines.push(format!("The hypervisor took {stolen:.2} CPUs on average, at most {most:.1}."));
    }
    lines
}

pub(super) fn all(courses: &Courses, machine: &Machine) -> Vec<PageSection> {
    if courses.totals.busy.summary().is_none() {
        return Vec::new();
    }
    let page = Sections {
        courses,
        machine,
        axis: time::axis(courses.unix_ms(), courses.seconds()),
        moment: courses.seconds() / courses.moments() as f64,
    };
    [page.cpus(), page.waiting(), page.processes()]
        .into_iter()
        .chain(page.guests())
        .chain(page.interrupts())
        .chain(page.memory())
        .chain(page.bandwidth())
        .chain(page.pressure())
        .collect()
}

struct Sections<'a> {
    courses: &'a Courses,
    machine: &'a Machine,
    axis: TimeAxis,
    /// Seconds of a moment.
    moment: f64,
}

fn section(id: &str, name: &str, heading: &str, body: Markup) -> PageSection {
    PageSection { id: id.to_owned(), name: name.to_owned(), heading: heading.to_owned(), mark: None, body }
}

fn charts(figures: &[ChartFigure]) -> Markup {
    html! { div.row.charts { @for figure in figures { (figure_html(figure)) } } }
}

impl Sections<'_> {
    /// Puts values at the middle of their moments.
    fn points(&self, values: impl IntoIterator<Item = (f64, f64)>) -> Vec<(f64, f64, f64)> {
        let values = values.into_iter().enumerate();
        values.map(|(at, (mean, largest))| ((at as f64 + 0.5) * self.moment, mean, largest)).collect()
    }

    fn band(&self, name: &str, course: &Course, unit: &str, colour: usize) -> TimeBand {
        let words = course
            .summary()
            .map_or_else(String::new, |(mean, largest)| format!("mean {mean:.2}, max {largest:.2}{unit}"));
        TimeBand { name: name.to_owned(), words, points: self.points(course.values()), colour }
    }

    fn bands(
        &self,
        id: &str,
        title: &str,
        caption: &str,
        bands: Vec<TimeBand>,
        is_common: bool,
    ) -> ChartFigure {
        let chart = TimeBands { id, label: title, time: &self.axis, is_common, bands };
        ChartFigure {
            title: title.to_owned(),
            caption: caption.to_owned(),
            legend: Vec::new(),
            drawing: chart.draw(),
        }
    }

    fn cpus(&self) -> PageSection {
        let totals = &self.courses.totals;
        let rows = &self.courses.rows;
        let is_single = rows.iter().all(|(group, _)| group.cpus.len() == 1);
        let map = TimeMap {
            id: "chart-cpus",
            label: "Share of the time in which CPUs were busy",
            time: &self.axis,
            names: rows.iter().map(|(group, _)| group.name.clone()).collect(),
            columns: self.courses.moments(),
            rows: rows.iter().map(|(_, course)| course.values().map(|value| value.0).collect()).collect(),
            lines: rows.iter().enumerate().filter(|(_, row)| row.0.begins).map(|(at, _)| at).collect(),
            scale: ["idle", "half busy", "busy"].map(str::to_owned),
        };
        let map = ChartFigure {
            title: if is_single { "CPUs over time" } else { "Groups of CPUs over time" }.to_owned(),
            caption: if is_single {
                "Each row is a CPU, each cell its mean. Lines separate clusters, last-level caches or nodes."
                    .to_owned()
            } else {
                "Each row is the CPUs that are named, each cell their mean.".to_owned()
            },
            legend: Vec::new(),
            drawing: map.draw(),
        };
        let bands = vec![
            self.band("Busy", &totals.busy, " CPUs", 0),
            self.band("Interrupts and softirqs", &totals.interrupts, " CPUs", 1),
            self.band("Stolen by the hypervisor", &totals.stolen, " CPUs", 3),
            self.band("Idle while a disk is waited for", &totals.disk, " CPUs", 4),
        ];
        let caption = "In CPUs: 1 is one CPU all the time. The area is the mean of each moment, the line the largest \
                       value of a sample.";
        let sums = self.bands("chart-shares", "All CPUs, in CPUs", caption, bands, false);
        section(
            "cpus",
            "CPUs",
            "Which CPUs were busy, and when?",
            html! { (charts(&[map, sums])) @if let Some(table) = self.units() { (table_html(&table, true)) } },
        )
    }

    /// Returns how much of each unit was used for what; `None` if there is one unit only.
    fn units(&self) -> Option<Table> {
        let (unit, _) = self.courses.units.first()?;
        let (level, head) = (unit.level, |name| (name, Align::Right));
        let names = ["busy", "max", "interrupts", "max", "stolen", "max"].map(head);
        let head: Vec<(&str, Align)> = [("CPUs", Align::Left)].into_iter().chain(names).collect();
        let mut table = Table::new(format!("Shares by {level}"), &head);
        let row = |(unit, one): &(Unit, UnitCourses)| {
            let figures = [&one.busy, &one.interrupts, &one.stolen].into_iter().flat_map(|course| {
                let ends = course.summary().map(|(mean, largest)| [percent(mean), percent(largest)]);
                ends.unwrap_or_else(|| ["unknown", "unknown"].map(str::to_owned))
            });
            [unit.cpus.brief()].into_iter().chain(figures).collect()
        };
        table.rows = self.courses.units.iter().map(row).collect();
        let note = "Shares of the time of these CPUs: the mean, and the largest value of a sample. Interrupts include softirqs.";
        table.notes = vec![note.to_owned()];
        Some(table)
    }

    fn waiting(&self) -> PageSection {
        let totals = &self.courses.totals;
        let bands = vec![
            self.band("Tasks that waited", &totals.wait, "", 1),
            self.band("Context switches per second", &totals.switches, "", 2),
        ];
        let caption = "Run-queue wait: 2 is two tasks that wait for a CPU all the time. A wait is counted when it ends.";
        let mut figures = vec![self.bands("chart-wait", "Waiting for a CPU", caption, bands, false)];
        if let Some((unit, _)) = self.courses.units.first() {
            let title = format!("Tasks that waited, by {}", unit.level);
            let bands = self
                .courses
                .units
                .iter()
                .map(|(unit, one)| self.band(&format!("CPUs {}", unit.cpus.brief()), &one.wait, "", 1));
            let caption = "A task counts where it ran last. All have the same vertical axis.";
            figures.push(self.bands("chart-wait-units", &title, caption, bands.collect(), true));
        }
        section("waiting", "Waiting", "Did tasks wait for a CPU?", charts(&figures))
    }

    /// Returns the courses of those that used most of a value.
    fn of_most<K: Ord + Clone, const N: usize>(
        &self,
        uses: &Uses<K, N>,
        value: usize,
        unit: &str,
        name: impl Fn(&K, &str) -> String,
    ) -> Vec<TimeBand> {
        let clock = &self.courses.totals.busy;
        let seconds = clock.lengths().sum::<f64>().max(f64::MIN_POSITIVE);
        let band = |(at, (key, one)): (usize, (&K, &super::uses::Use<N>))| {
            let course = one.course(value, clock);
            let largest = course.iter().map(|point| point.1).fold(0.0, f64::max);
            TimeBand {
                name: name(key, &one.name),
                words: format!("mean {:.2}, max {largest:.2}{unit}", one.sums[value] / seconds),
                points: self.points(course),
                colour: at,
            }
        };
        uses.most(value, SHOWN).into_iter().enumerate().map(band).collect()
    }

    fn processes(&self) -> PageSection {
        let processes = &self.courses.processes;
        let name = |key: &(u32, u64), name: &str| format!("{name} ({})", key.0);
        let used = self.of_most(processes, 0, " CPUs", name);
        let waited = self.of_most(processes, 1, "", name);
        let caption = "The processes with most CPU time. The area is the mean of each moment, the line the largest value.";
        let mut figures = vec![self.bands("chart-used", "CPUs used by processes", caption, used, true)];
        if !waited.is_empty() {
            let caption = "The processes whose threads waited most, in threads that wait.";
            figures.push(self.bands("chart-waited", "Waiting for a CPU, by process", caption, waited, true));
        }
        let head = [
            ("process", Align::Left),
            ("id", Align::Right),
            ("CPU time", Align::Right),
            ("wait", Align::Right),
        ];
        let mut table = Table::new("Processes", &head);
        table.rows = processes
            .most(0, LISTED)
            .into_iter()
            .map(|((pid, _), one)| {
                vec![one.name.clone(), pid.to_string(), time(one.sums[0]), time(one.sums[1])]
            })
            .collect();
        table.notes = vec!["Wait is that of all threads, which may wait at the same time.".to_owned()];
        let body = html! { (charts(&figures)) (table_html(&table, true)) };
        section("processes", "Processes", "Which processes used CPUs, and which waited?", body)
    }

    /// Returns the virtual machines that used most CPU time; `None` if there were none.
    fn guests(&self) -> Option<PageSection> {
        let name = |pid: &u32, name: &str| format!("{name} ({pid})");
        let used = self.of_most(&self.courses.guests, 0, " CPUs", name);
        if used.is_empty() {
            return None;
        }
        let waited = self.of_most(&self.courses.guests, 1, "", name);
        let caption = "The machines whose virtual CPUs used most CPU time.";
        let mut figures =
            vec![self.bands("chart-guests", "CPUs used by virtual machines", caption, used, true)];
        if !waited.is_empty() {
            let caption = "The machines whose virtual CPUs waited most, in virtual CPUs that wait.";
            figures.push(self.bands(
                "chart-guests-wait",
                "Virtual CPUs that waited for a CPU",
                caption,
                waited,
                true,
            ));
        }
        let heading = "Which virtual machines used CPUs, and which waited?";
        Some(section("guests", "Virtual machines", heading, charts(&figures)))
    }

    /// Returns the groups of resctrl with most traffic; `None` if it was not recorded.
    fn bandwidth(&self) -> Option<PageSection> {
        let figure = |value: usize, id: &str, title: &str| {
            let mut bands = self.of_most(&self.courses.bandwidth, value, "", |_, name| name.to_owned());
            for band in &mut bands {
                // In gigabytes, as limits of bandwidth are.
                band.points
                    .iter_mut()
                    .for_each(|(_, mean, largest)| (*mean, *largest) = (*mean / 1e9, *largest / 1e9));
                let largest = band.points.iter().map(|point| point.2).fold(0.0, f64::max);
                band.words = format!("max {largest:.2} GB/s");
            }
            let caption = "In GB/s: the groups of resctrl with most traffic. A group counts that of its monitoring groups, too.";
            (!bands.is_empty()).then(|| self.bands(id, title, caption, bands, true))
        };
        let all = figure(0, "chart-bandwidth", "Memory bandwidth");
        let local = figure(1, "chart-bandwidth-local", "The part to and from memory of the own node");
        let figures: Vec<ChartFigure> = all.into_iter().chain(local).collect();
        let heading = "Which groups moved most data to and from memory?";
        (!figures.is_empty()).then(|| section("bandwidth", "Bandwidth", heading, charts(&figures)))
    }

    /// Returns the interrupts that were handled most often; `None` if none were recorded.
    fn interrupts(&self) -> Option<PageSection> {
        let bands = self.of_most(&self.courses.interrupts, 0, " per second", |_, name| name.to_owned());
        if bands.is_empty() {
            return None;
        }
        let caption =
            "Those that were handled most often, per second on all CPUs. Each has its own vertical axis.";
        let figure = self.bands("chart-interrupts", "Interrupts and softirqs", caption, bands, false);
        let heading = "Which interrupts were handled most often?";
        Some(section("interrupts", "Interrupts", heading, charts(&[figure])))
    }

    fn memory(&self) -> Option<PageSection> {
        let clock = &self.courses.totals.busy;
        let count = self.courses.nodes.all().count();
        let bands = |value: usize, what: &str, colour: usize| -> Vec<TimeBand> {
            let all = self.courses.nodes.all().take(SHOWN);
            all.map(|(_, one)| {
                let course = one.course(value, clock);
                let largest = course.iter().map(|point| point.1).fold(0.0, f64::max);
                TimeBand {
                    name: format!("{what}, {}", one.name),
                    words: format!("max {largest:.1} GiB"),
                    points: self.points(course),
                    colour,
                }
            })
            .collect()
        };
        let caption = "In GiB. Memory of files can be given to programs.";
        let figures = [
            self.bands(
                "chart-used-memory",
                "Memory of programs and the kernel",
                caption,
                bands(0, "used", 0),
                false,
            ),
            self.bands("chart-file-memory", "Memory of files", caption, bands(1, "files", 2), false),
        ];
        let nodes = counted(self.machine.nodes.len(), "node");
        let heading = format!("How much memory was used on {nodes}?");
        (count > 0).then(|| section("memory", "Memory", &heading, charts(&figures)))
    }

    fn pressure(&self) -> Option<PageSection> {
        let resources = [("cpu", "CPUs"), ("memory", "memory"), ("io", "disks")].into_iter().enumerate();
        let figures = resources.filter_map(|(value, (id, name))| {
            let bands = self.of_most(&self.courses.pressure, value, "", |_, name| name.to_owned());
            let caption = "Share of the time in which some task of the control group waited (PSI).";
            let title = format!("Waiting for {name}");
            let id = format!("chart-pressure-{id}");
            (!bands.is_empty()).then(|| self.bands(&id, &title, caption, bands, true))
        });
        let figures: Vec<ChartFigure> = figures.collect();
        let heading = "Which control groups waited for what?";
        (!figures.is_empty()).then(|| section("pressure", "Pressure", heading, charts(&figures)))
    }
}

/// Formats a time on CPUs: `0.03 s`, `12 s`, `3 min`.
fn time(seconds: f64) -> String {
    if seconds < 9.995 { format!("{seconds:.2} s") } else { duration(seconds) }
}
