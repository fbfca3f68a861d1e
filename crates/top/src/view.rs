//! The view of `top` in a terminal: what is shown, and what keys and the mouse change.
//!
//! The view neither reads the terminal nor waits: the caller hands in pictures ([`View::update`]) and events
//! ([`View::handle`]), draws ([`View::draw`]), reads what the next samples need ([`View::wanted`]) and does what the
//! user asked for ([`View::commands`]).
//!
//! | file | what it is |
//! |---|---|
//! | `map` | the machine as its topology, folded into some rows |
//! | `metric` | the figure that the map shows of each CPU |
//! | `table`, `tree` | sorting, scrolling and drawing of rows |
//! | `task_rows` | threads or processes as rows, and the texts of their cells |
//! | `sheets` | nodes, interrupts, control groups, virtual machines, latencies |
//! | `draw`, `head`, `foot`, `detail`, `help` | the screen |
//! | `keys`, `mouse` | what the user does |
//! | `theme`, `pen` | colours, and writing into cells |
//! | `wanted` | what the next samples need |

mod detail;
mod draw;
mod event;
mod foot;
mod head;
mod help;
mod keys;
mod map;
mod metric;
mod mouse;
mod pen;
mod sheets;
mod table;
mod task_rows;
mod task_table;
mod theme;
mod tree;
mod wanted;

pub use event::{RecorderState, ShownMoment, ViewCommand, ViewEvent, ViewKey};
pub use metric::CpuMetric;
pub use theme::{ColorDepth, Theme};

use crate::{findings::Finding, picture::Picture, snapshot::Order};
use manycore_topology::{CpuSet, Machine};
use map::{CpuMap, levels::MapLevels};
use metric::MetricValues;
use std::time::Duration;
use table::{Sheet, TableRows, TableState};
use task_table::TaskTable;

/// Where scheduling figures of tasks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FigureSource {
    /// The files of `/proc`.
    #[default]
    Proc,
    /// Programs in the kernel.
    Bpf,
}

impl FigureSource {
    const fn name(self) -> &'static str {
        match self {
            Self::Proc => "/proc",
            Self::Bpf => "BPF",
        }
    }
}

/// How the view begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewOptions {
    /// Colours.
    pub theme: Theme,
    /// Whether only ASCII characters are written.
    pub is_ascii: bool,
    /// Where scheduling figures come from.
    pub source: FigureSource,
    /// Time between samples.
    pub interval: Duration,
    /// What the table of tasks is sorted by at first, the largest first.
    pub order: Order,
    /// Offset of the local time from UTC, in seconds.
    pub utc_offset: i32,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            theme: Theme { depth: ColorDepth::None, is_light: false },
            is_ascii: false,
            source: FigureSource::Proc,
            interval: Duration::from_secs(1),
            order: Order::Cpu,
            utc_offset: 0,
        }
    }
}

/// What is shown below the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewScreen {
    /// The map of CPUs, and tasks below.
    #[default]
    Cpus,
    /// Tasks only.
    Tasks,
    /// Nodes.
    Nodes,
    /// Interrupts.
    Interrupts,
    /// Control groups.
    Groups,
    /// Virtual machines.
    Guests,
    /// Latencies.
    Latency,
    /// Findings.
    Findings,
}

impl ViewScreen {
    /// All of them, in the order of their digits.
    pub const ALL: [Self; 8] = [
        Self::Cpus,
        Self::Tasks,
        Self::Nodes,
        Self::Interrupts,
        Self::Groups,
        Self::Guests,
        Self::Latency,
        Self::Findings,
    ];

    /// Returns the name in the list of views.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpus => "CPUs",
            Self::Tasks => "Tasks",
            Self::Nodes => "Nodes",
            Self::Interrupts => "Interrupts",
            Self::Groups => "Groups",
            Self::Guests => "VMs",
            Self::Latency => "Latency",
            Self::Findings => "Findings",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }

    /// Whether it has the table of tasks.
    const fn has_tasks(self) -> bool {
        matches!(self, Self::Cpus | Self::Tasks)
    }
}

/// A limit on the rows of the table, undone by Esc.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Restriction {
    /// Rows with this text.
    Filter(String),
    /// Tasks whose last CPU is in a unit.
    Unit(String, CpuSet),
    /// Threads of a process, and whether rows were processes before.
    Process(u32, String, bool),
}

/// Text that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TextInput {
    /// Whether it filters; otherwise it searches.
    is_filter: bool,
    text: String,
}

/// The state of the view.
#[derive(Debug)]
pub struct View {
    machine: Machine,
    levels: MapLevels,
    options: ViewOptions,
    picture: Picture,
    findings: Vec<Finding>,
    moment: ShownMoment,
    screen: ViewScreen,
    values: MetricValues,
    /// Pictures since the metric or the view was chosen: its counters need two samples.
    pictures: usize,
    map: CpuMap,
    tasks: TaskTable,
    /// The tables of the other views.
    sheets: [TableState; 8],
    sheet: Sheet,
    restrictions: Vec<Restriction>,
    input: Option<TextInput>,
    searched: String,
    /// What the last key did that is not seen otherwise.
    notice: Option<String>,
    /// First line of the help on the screen, if it is shown.
    help: Option<u16>,
    /// Number of findings above the screen.
    skipped_findings: usize,
    /// Number of rows of histograms above the screen.
    skipped_rows: usize,
    has_memory_by_node: bool,
    /// The level of units that `[` and `]` step through, and the unit.
    stepped: Option<(usize, usize)>,
    commands: Vec<ViewCommand>,
    places: draw::Places,
}

impl View {
    /// Returns a view of a machine without a picture.
    pub fn new(machine: &Machine, options: ViewOptions) -> Self {
        Self {
            machine: machine.clone(),
            levels: MapLevels::new(machine),
            options,
            picture: Picture::default(),
            findings: Vec::new(),
            moment: ShownMoment::default(),
            screen: ViewScreen::default(),
            values: MetricValues::default(),
            pictures: 0,
            map: CpuMap::default(),
            tasks: TaskTable::new(options.order),
            sheets: sheet_states(),
            sheet: Sheet::default(),
            restrictions: Vec::new(),
            input: None,
            searched: String::new(),
            notice: None,
            help: None,
            skipped_findings: 0,
            skipped_rows: 0,
            has_memory_by_node: false,
            stepped: None,
            commands: Vec::new(),
            places: draw::Places::default(),
        }
    }

    /// Shows another picture, and returns the one before, whose memory can be used again.
    pub fn update(&mut self, picture: Picture) -> Picture {
        let before = std::mem::replace(&mut self.picture, picture);
        self.pictures += 1;
        self.refresh();
        before
    }

    /// Shows other findings, the worst first.
    pub fn set_findings(&mut self, findings: Vec<Finding>) {
        self.findings = findings;
    }

    /// Shows which moment the picture is of.
    pub fn set_moment(&mut self, moment: ShownMoment) {
        self.moment = moment;
    }

    /// Uses another machine, after CPUs came or went.
    pub fn set_machine(&mut self, machine: &Machine) {
        self.machine = machine.clone();
        self.levels = MapLevels::new(machine);
        self.map.clear();
        self.stepped = None;
        self.refresh();
    }

    /// Returns when the second sample of the picture was taken, in milliseconds since 1970; `None` without a picture.
    pub fn unix_ms(&self) -> Option<u64> {
        (self.picture.unix_ms > 0).then_some(self.picture.unix_ms)
    }

    /// Shows another view.
    pub fn show(&mut self, screen: ViewScreen) {
        if self.screen != screen {
            self.screen = screen;
            self.pictures = 0;
            self.refresh();
        }
    }

    /// Returns the view that is shown.
    pub fn screen(&self) -> ViewScreen {
        self.screen
    }

    /// Shows another figure of the CPUs on the map.
    pub fn set_metric(&mut self, metric: CpuMetric) {
        self.values.metric = metric;
        self.pictures = 0;
        self.refresh();
    }

    /// Returns the figure of the CPUs on the map.
    pub fn metric(&self) -> CpuMetric {
        self.values.metric
    }

    /// Returns what the caller has to do, in this order, and forgets it.
    pub fn commands(&mut self) -> Vec<ViewCommand> {
        std::mem::take(&mut self.commands)
    }

    /// Derives from the picture what is shown, after a change of either.
    fn refresh(&mut self) {
        let filter = self.filter();
        match self.screen {
            ViewScreen::Cpus | ViewScreen::Tasks => {
                self.values = MetricValues::new(self.values.metric, &self.machine, &self.picture);
                let machine = (&self.machine, &self.levels);
                self.tasks.refresh(machine, &self.picture, &self.restrictions, &filter);
                return;
            }
            ViewScreen::Nodes => self.sheet = sheets::nodes(&self.machine, &self.picture),
            ViewScreen::Interrupts => self.sheet = sheets::interrupts(&self.picture),
            ViewScreen::Groups => self.sheet = sheets::groups(&self.picture),
            ViewScreen::Guests => self.sheet = sheets::guests(&self.picture),
            ViewScreen::Findings | ViewScreen::Latency => self.sheet = Sheet::default(),
        }
        self.sheets[self.screen.index()].arrange(&self.sheet, &filter);
    }

    /// Returns the text of the filter: the one that is being typed, otherwise the last one.
    fn filter(&self) -> String {
        if let Some(input) = self.input.as_ref().filter(|input| input.is_filter) {
            return input.text.clone();
        }
        let texts = self.restrictions.iter().rev().filter_map(|one| match one {
            Restriction::Filter(text) => Some(text.clone()),
            _ => None,
        });
        texts.take(1).collect()
    }

    /// Returns the CPUs to which tasks are limited.
    fn chosen_cpus(&self) -> Option<&CpuSet> {
        self.restrictions.iter().rev().find_map(|one| match one {
            Restriction::Unit(_, cpus) => Some(cpus),
            _ => None,
        })
    }

    /// Limits tasks to a unit, in place of another one; the same unit again undoes it.
    fn restrict_to_unit(&mut self, name: String, cpus: CpuSet) {
        let same = self.chosen_cpus() == Some(&cpus);
        self.restrictions.retain(|one| !matches!(one, Restriction::Unit(..)));
        if !same {
            self.restrictions.push(Restriction::Unit(name, cpus));
        }
        self.refresh();
    }

    /// Returns the table that keys move in, and its rows.
    fn current_table(&mut self) -> (&mut TableState, &dyn TableRows) {
        if self.screen.has_tasks() {
            let (state, rows) = self.tasks.parts();
            return (state, rows);
        }
        (&mut self.sheets[self.screen.index()], &self.sheet)
    }
}

/// Returns the order in which each table begins.
fn sheet_states() -> [TableState; 8] {
    let mut states: [TableState; 8] = Default::default();
    states[ViewScreen::Interrupts.index()] = TableState::sorted_by(1);
    states[ViewScreen::Groups.index()] = TableState::sorted_by(1);
    states
}
