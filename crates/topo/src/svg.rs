//! Draws the machine as nested boxes in one SVG file that any browser shows, in light and dark mode.

use crate::{
    device_text,
    layout::{Block, GAP, LINE_HEIGHT, Shape, balanced, best_columns, flow, grid, stack, text_width},
    worker_labels::WorkerLabels,
};
use manycore_placement::PlacementPlan;
use manycore_text::{names::printable_text, units};
use manycore_topology::{
    CpuId, CpuSet, Machine,
    machine::CacheKind,
    topology_tree::{Part, TopologyTree, TopologyUnit, kind_of},
};
use maud::{PreEscaped, html};

/// Preferred ratio of width to height when many boxes are arranged.
const ASPECT: f64 = 1.7;
/// The same for cores. They are few, and rows of them are easier to read than columns.
const CORES_ASPECT: f64 = 2.6;
/// Up to this many CPUs, every core shows its caches. Above, a caption describes the caches of all cores
/// once.
const MAX_DETAILED_CPUS: usize = 40;
/// A title widens its box up to this width; longer titles are wrapped.
const MAX_TITLE_WIDTH: f64 = 300.0;
/// Minimum width, so that the headline fits however small the machine is.
const MIN_WIDTH: f64 = 520.0;
/// Space around the picture.
const MARGIN: f64 = 16.0;

const STYLE: &str = "\
:root{--page:#fbfaf7;--ink:#20242a;--soft:#666c75;--line:#b9b6ab;--package:#f1eee4;--node:#e3ecf4;--die:#ece6f2;\
--cache:#f6e7c8;--cluster:#e3efdd;--core:#ffffff;--cpu:#cfe3d3;--efficiency:#d4def3;--memory:#dce8f3;\
--device:#f3dfd8;--off:#dedbd3;--worker:#8fcf9d;--shared:#f0b56e;--idle:#f4f3ee}\
@media(prefers-color-scheme:dark){:root{--page:#16181c;--ink:#e8e6e1;--soft:#9aa0a8;--line:#4b5058;\
--package:#202329;--node:#1f2b37;--die:#2b2635;--cache:#3c3320;--cluster:#24301f;--core:#191b20;--cpu:#2e4a36;\
--efficiency:#2d3a58;--memory:#22384d;--device:#4a2f27;--off:#2b2d31;--worker:#2f7a45;--shared:#9a5f1d;--idle:#1e2126}}\
.page{fill:var(--page)}text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:var(--ink)}\
.title{font-weight:600}.head{font-size:19px;font-weight:600}.soft{fill:var(--soft)}.middle{text-anchor:middle}\
text.cpu,text.efficiency,text.denied,text.off,text.worker,text.shared,text.idle{font-size:12px}\
text.below{font-weight:600}rect{stroke:var(--line);stroke-width:1}\
rect.package{fill:var(--package)}rect.node{fill:var(--node)}rect.die{fill:var(--die)}rect.cache{fill:var(--cache)}\
rect.cluster{fill:var(--cluster)}rect.core{fill:var(--core)}rect.cpu{fill:var(--cpu)}\
rect.efficiency{fill:var(--efficiency)}rect.worker{fill:var(--worker)}rect.shared{fill:var(--shared)}\
rect.idle{fill:var(--idle)}text.idle{fill:var(--soft)}rect.memory{fill:var(--memory)}rect.device{fill:var(--device)}\
rect.denied{fill:url(#hatch)}rect.off{fill:var(--off);stroke-dasharray:3 2}text.denied,text.off{fill:var(--soft)}";

/// Draws the whole picture. With a plan, the CPUs of workers are labelled and the others are pale.
pub fn render(machine: &Machine, plan: Option<&PlacementPlan>) -> String {
    let block = picture(machine, plan);
    let (w, h) = ((block.w + 2.0 * MARGIN).ceil(), (block.h + 2.0 * MARGIN).ceil());
    let shapes = block.shapes.iter().map(draw).collect::<String>();
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (w) " " (h) } width=(w) height=(h) role="img" {
            title { (headline(machine)) }
            style { (PreEscaped(STYLE)) }
            defs {
                pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    path d="M0 0V6" stroke="var(--line)" stroke-width="2" {}
                }
            }
            rect class="page" width=(w) height=(h) stroke="none" {}
            g transform={ "translate(" (MARGIN) " " (MARGIN) ")" } { (PreEscaped(shapes)) }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", printable_text(&svg.into_string()))
}

fn draw(shape: &Shape) -> String {
    let round = |value: f64| (value * 10.0).round() / 10.0;
    let svg = match shape {
        Shape::Box { x, y, w, h, class, hint } => html! {
            rect class=(class) x=(round(*x)) y=(round(*y)) width=(round(*w)) height=(round(*h)) rx="4" {
                @if !hint.is_empty() { title { (hint) } }
            }
        },
        Shape::Text { x, y, class, text } => {
            html! { text class=(class) x=(round(*x)) y=(round(*y)) { (text) } }
        }
    };
    svg.into_string() + "\n"
}

/// Arranges the headline, the properties, the nested boxes and the legend.
fn picture(machine: &Machine, plan: Option<&PlacementPlan>) -> Block {
    let root = TopologyTree::new(machine).root;
    let detailed = machine.online.len() <= MAX_DETAILED_CPUS;
    let marks = plan.map(|plan| WorkerLabels::new(plan, detailed));
    let widest = machine.online.last().unwrap_or(0).to_string();
    let label = text_width(&widest, "cpu").max(marks.as_ref().map_or(0.0, WorkerLabels::width));
    let cpu_width = (label + 2.0 * GAP).max(34.0);
    let body = TopologyDrawing { machine, detailed, cpu_width, marks: marks.as_ref() }.contents(&root);
    let width = body.w.max(MIN_WIDTH);
    let lines = |text: &str, class: &str, height: f64| -> Vec<Block> {
        wrap(text, class, width).iter().map(|line| Block { h: height, ..Block::text(line, class) }).collect()
    };
    let mut blocks = lines(&headline(machine), "head", LINE_HEIGHT + 6.0);
    blocks.extend(plan.iter().flat_map(|plan| lines(&plan_line(plan), "title", LINE_HEIGHT)));
    blocks.extend(facts(machine).iter().flat_map(|fact| lines(fact, "soft", LINE_HEIGHT)));
    blocks.push(body);
    if !machine.offline.is_empty() {
        let tiles =
            machine.offline.iter().map(|cpu| Block::tile(&cpu.to_string(), "off", 34.0, "offline")).collect();
        blocks.push(stack(vec![Block::text("offline CPUs", "title"), flow(tiles, width, 3.0)], 2.0));
    }
    blocks.push(legend(machine, marks.as_ref(), width));
    stack(blocks, 4.0)
}

fn headline(machine: &Machine) -> String {
    let system = &machine.system;
    let name = system.hostname.as_ref().or(system.hardware.as_ref()).map(|name| format!("{name}: "));
    let model = system.cpu_model.as_ref().or(system.cpu_id.as_ref()).map(|model| format!(", {model}"));
    let count = machine.online.len();
    format!(
        "{}{count} CPU{}{}",
        name.unwrap_or_default(),
        if count == 1 { "" } else { "s" },
        model.unwrap_or_default()
    )
}

fn plan_line(plan: &PlacementPlan) -> String {
    let count = plan.workers.len();
    format!("{count} worker{}, {}", if count == 1 { "" } else { "s" }, plan.policy)
}

fn facts(machine: &Machine) -> Vec<String> {
    let system = &machine.system;
    let memory = system.memory_bytes.map(|bytes| format!("{} of memory", units::bytes(bytes)));
    let guest = system.hypervisor.as_ref().map(|name| format!("guest of {name}"));
    let kernel = system.kernel.as_ref().map(|release| format!("Linux {release}"));
    let first =
        [memory, system.os.clone(), kernel, guest].into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let mut facts = vec![first];
    if machine.allowed.effective_limit != "nothing" {
        facts.push(format!(
            "this process may use {}: {}",
            machine.allowed.cpus, machine.allowed.effective_limit
        ));
    }
    facts.retain(|fact| !fact.is_empty());
    facts
}

/// Wraps a text at spaces so that no line is wider than `width`.
fn wrap(text: &str, class: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| text_width(line, class) + text_width(word, class) + 8.0 <= width)
        {
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Explains the colours and the hatching that occur in the picture.
fn legend(machine: &Machine, marks: Option<&WorkerLabels>, width: f64) -> Block {
    let mut tiles = Vec::new();
    let mut entry = |class: &str, text: &str| tiles.push(Block::tile(text, class, 34.0, ""));
    let hybrid = machine.core_kinds.len() > 1;
    match marks {
        Some(marks) => {
            marks.legend(&machine.online).into_iter().for_each(|(class, text)| entry(class, text));
        }
        None if hybrid => {
            entry("cpu", "CPU, performance core");
            entry("efficiency", "CPU, other core");
        }
        None => entry("cpu", "CPU"),
    }
    if machine.allowed.cpus != machine.online {
        entry("denied", "not allowed for this process");
    }
    if !machine.offline.is_empty() {
        entry("off", "offline");
    }
    if machine.nodes.iter().any(|node| node.memory_only) {
        entry("memory", "memory without CPUs");
    }
    if machine.devices.iter().any(device_text::is_relevant) {
        entry("device", "PCI device");
    }
    flow(tiles, width, GAP)
}

struct TopologyDrawing<'a> {
    machine: &'a Machine,
    detailed: bool,
    /// Width of a CPU's box. All boxes have the same width, so that equal units look equal.
    cpu_width: f64,
    marks: Option<&'a WorkerLabels>,
}

impl TopologyDrawing<'_> {
    /// Draws a unit with its frame and title.
    fn unit(&self, unit: &TopologyUnit) -> Block {
        if unit.children.is_empty() && (unit.is_core() || unit.cpus.len() <= 1) {
            return self.core(unit);
        }
        let title = unit.parts.iter().map(|part| part.label(self.machine)).collect::<Vec<_>>().join(" · ");
        let contents = self.contents(unit);
        let width = contents.w.max(text_width(&title, "title").min(MAX_TITLE_WIDTH));
        let mut blocks: Vec<Block> =
            wrap(&title, "title", width).iter().map(|line| Block::text(line, "title")).collect();
        blocks.push(contents);
        stack(blocks, 3.0).framed(class(unit), &format!("{title}: CPUs {}", unit.cpus))
    }

    /// Draws the contents of a unit: memory and devices first, then its children, run by run.
    fn contents(&self, unit: &TopologyUnit) -> Block {
        let mut blocks = Vec::new();
        // Runs are stacked vertically, so the more runs there are, the flatter each may be.
        let aspect = ASPECT * unit.runs().count() as f64;
        for run in unit.runs() {
            let small = run[0].children.is_empty();
            let drawn: Vec<Block> = run.iter().map(|child| self.unit(child)).collect();
            if small && !self.detailed {
                let caption = self.caption(run);
                let best = best_columns(&drawn, aspect.max(CORES_ASPECT), 3.0);
                // Use as many full rows as fit into the width of the caption: this costs no width and saves
                // height.
                let most = (caption.w / (drawn[0].w + 3.0)) as usize;
                let columns =
                    (best..=most).rev().find(|columns| drawn.len().is_multiple_of(*columns)).unwrap_or(best);
                blocks.extend([caption, grid(drawn, columns, 3.0)]);
            } else {
                let (aspect, gap) = if small { (aspect.max(CORES_ASPECT), 3.0) } else { (aspect, GAP) };
                blocks.push(balanced(drawn, aspect, gap));
            }
        }
        let loose = unit.cpus_without_child();
        if !loose.is_empty() {
            blocks.push(balanced(loose.iter().map(|cpu| self.cpu(cpu)).collect(), ASPECT, 3.0));
        }
        // Large units that differ a little, such as packages, are arranged in one grid.
        let large = unit.children.iter().all(|child| !child.children.is_empty()) && loose.is_empty();
        let inner = if large && blocks.len() > 1 {
            balanced(unit.children.iter().map(|child| self.unit(child)).collect(), ASPECT, GAP)
        } else {
            stack(blocks, GAP)
        };
        let chips = self.attached_boxes(unit);
        if chips.is_empty() {
            return inner;
        }
        let widest = chips.iter().map(|chip| chip.w).fold(0.0, f64::max);
        let width = inner.w.max(widest).max(220.0);
        stack(vec![flow(chips, width, 4.0), inner], GAP)
    }

    /// Draws the memory-only nodes and the relevant devices of a unit.
    fn attached_boxes(&self, unit: &TopologyUnit) -> Vec<Block> {
        let memory = unit.memory.iter().map(|&at| {
            let node = &self.machine.nodes[at];
            let tier = node.tier.map(|tier| format!(", tier {tier}")).unwrap_or_default();
            let size = units::bytes(node.memory_bytes.unwrap_or(0));
            Block::tile(&format!("node {} · {size}{tier}", node.id), "memory", 0.0, "NUMA node without CPUs")
        });
        let devices = unit
            .devices
            .iter()
            .map(|&at| &self.machine.devices[at])
            .filter(|device| device_text::is_relevant(device));
        let devices = devices.map(|device| {
            let name =
                if device.names.is_empty() { device.class_name.clone() } else { device.names.join(", ") };
            Block::tile(&name, "device", 0.0, &device_text::line(device))
        });
        memory.chain(devices).collect()
    }

    /// Draws a caption such as `8 cores of 2 CPUs · L2 1 MiB · L1d 48 KiB`.
    fn caption(&self, run: &[TopologyUnit]) -> Block {
        let unit = &run[0];
        let kind = kind_of(self.machine, &unit.cpus).map(|kind| format!("{kind} ")).unwrap_or_default();
        let threads =
            if unit.cpus.len() > 1 { format!(" of {} CPUs", unit.cpus.len()) } else { String::new() };
        let name = match (unit.is_core(), run.len()) {
            (true, 1) => format!("1 {kind}core{threads}"),
            (true, count) => format!("{count} {kind}cores{threads}"),
            (false, count) => format!(
                "{count} × {}",
                unit.parts.first().map(|part| part.kind(self.machine)).unwrap_or_default()
            ),
        };
        let mut lines = vec![name];
        lines.extend(caches(unit).iter().map(|part| part.kind_and_size(self.machine)));
        // Two lines, so that a narrow cluster stays narrow.
        let (head, tail) = lines.split_at(1);
        let lines = [head.join(""), tail.join(" · ")];
        stack(
            lines.iter().filter(|line| !line.is_empty()).map(|line| Block::text(line, "soft")).collect(),
            0.0,
        )
    }

    /// Draws a core: its CPUs, and its caches if there is space for them.
    fn core(&self, unit: &TopologyUnit) -> Block {
        let mut cpus: Vec<Block> = unit.cpus.iter().map(|cpu| self.cpu(cpu)).collect();
        let columns = cpus.len().min(4);
        let cpus = if columns == 1 { cpus.remove(0) } else { grid(cpus, columns, 2.0) };
        let title = unit.parts.iter().map(|part| part.label(self.machine)).collect::<Vec<_>>().join(" · ");
        let mut rows = Vec::new();
        if self.detailed {
            let kind = kind_of(self.machine, &unit.cpus).map(|kind| format!("{kind} ")).unwrap_or_default();
            let outer: Vec<String> = unit
                .parts
                .iter()
                .filter(|part| !matches!(part, Part::Cache(_)))
                .map(|part| match part {
                    Part::Core(_) => format!("{kind}core"),
                    part => part.label(self.machine),
                })
                .collect();
            rows.extend((!outer.is_empty()).then(|| Block::text(&outer.join(" · "), "title")));
            for part in caches(unit).iter().filter(|part| self.is_outer_cache(**part)) {
                rows.push(Block::tile(&part.kind_and_size(self.machine), "cache", 0.0, ""));
            }
            let first: Vec<String> = caches(unit)
                .iter()
                .filter(|part| !self.is_outer_cache(**part))
                .map(|part| part.kind_and_size(self.machine))
                .collect();
            rows.extend((!first.is_empty()).then(|| Block::tile(&first.join(" · "), "cache", 0.0, "")));
        }
        rows.push(cpus);
        stack(rows, 3.0).framed("core", &format!("{title}: CPUs {}", unit.cpus))
    }

    fn is_outer_cache(&self, part: Part) -> bool {
        matches!(part, Part::Cache(at) if self.machine.caches[at].level > 1 || self.machine.caches[at].kind == CacheKind::Unified)
    }

    fn cpu(&self, cpu: CpuId) -> Block {
        let is_allowed = self.machine.allowed.cpus.contains(cpu);
        if let Some(marks) = self.marks {
            let (label, class) = (marks.label(cpu), marks.class(cpu));
            let class = if class == "idle" && !is_allowed { "denied" } else { class };
            let hint = format!("CPU {cpu}: {}", if label.is_empty() { "no worker" } else { &label });
            return Block::tile_of_two(&cpu.to_string(), &label, class, self.cpu_width, &hint);
        }
        let set = CpuSet::single(cpu);
        let kind = kind_of(self.machine, &set);
        let first_kind = self.machine.core_kinds.first().map(|kind| kind.name.as_str());
        let class = match () {
            () if !is_allowed => "denied",
            () if kind.is_some() && kind != first_kind => "efficiency",
            () => "cpu",
        };
        Block::tile(&cpu.to_string(), class, self.cpu_width, &format!("CPU {cpu}"))
    }
}

fn caches(unit: &TopologyUnit) -> Vec<Part> {
    unit.parts.iter().copied().filter(|part| matches!(part, Part::Cache(_))).collect()
}

/// Returns the class that colours a unit, which is that of its outermost part.
fn class(unit: &TopologyUnit) -> &'static str {
    match unit.parts.first() {
        Some(Part::Package(_)) | None => "package",
        Some(Part::Node(_)) => "node",
        Some(Part::Die(_)) => "die",
        Some(Part::Cache(_)) => "cache",
        Some(Part::Cluster(_)) => "cluster",
        Some(Part::Core(_)) => "core",
    }
}
