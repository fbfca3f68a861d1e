//! Invented evaluations of fleets, which differ only by what they are asked for.
#![allow(dead_code, reason = "each user of this module takes a part of it")]

use manycore_fleet::evaluation::{
    Change, Drift, FLEET_SCHEMA, FleetEvaluation, Kind, KindFigure, MissingNode, Node, NodeFigure, Verdict,
};

/// Topic, name, unit, whether more is better, median, and standard deviation between nodes.
const FIGURES: [(&str, &str, &str, bool, f64, f64); 7] = [
    ("matrix", "product, 2000 on one core", "flop/s", true, 81.3e9, 0.004),
    ("matrix", "product, 2000 on all cores", "flop/s", true, 9.42e12, 0.006),
    ("stream", "triad, one worker", "B/s", true, 18.2e9, 0.005),
    ("stream", "triad, all workers", "B/s", true, 412.0e9, 0.007),
    ("latency", "pairs that share a cluster", "ns", false, 28.4, 0.008),
    ("latency", "pairs of different packages", "ns", false, 203.0, 0.010),
    ("latency", "idle memory", "ns", false, 96.1, 0.009),
];

const LEAST: f64 = 0.03;

/// Hostile text: markup, escapes, a change of direction, quotes, commas, a shell's characters.
pub const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[2J\u{202e}\"'`$(reboot);&,\\n\n=1+1|{}";

/// Random numbers, the same ones for the same seed (`SplitMix64`).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to 1.
    fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, standard deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

fn kind(name: &str, nodes: usize) -> Kind {
    let figure =
        |&(topic, what, unit, higher_is_better, median, spread): &(&str, &str, &str, bool, f64, f64)| {
            KindFigure {
                topic: topic.to_owned(),
                what: what.to_owned(),
                unit: unit.to_owned(),
                higher_is_better,
                nodes,
                median,
                spread,
                node_error: spread / 3.0,
                ..KindFigure::default()
            }
        };
    let mut figures: Vec<KindFigure> = FIGURES.iter().map(figure).collect();
    for figure in &mut figures {
        figure.detectable = Some(LEAST + 3.0 * figure.spread);
    }
    Kind { name: name.to_owned(), nodes, figures, ..Kind::default() }
}

/// Returns a node that is slower by `shift` in the figures of stream, with an error of `error` in all.
fn node(random: &mut Random, name: String, kind: usize, shift: f64, error: f64) -> Node {
    let mut figures = Vec::new();
    for (topic, _, _, higher, median, spread) in FIGURES {
        let shift = if topic == "stream" { shift } else { 0.0 };
        let deficit = shift + spread * random.normal();
        let value = if higher { median * (1.0 - deficit) } else { median * (1.0 + deficit) };
        let half = 2.0 * (spread.powi(2) + error.powi(2)).sqrt();
        let interval = (deficit - half, deficit + half);
        let verdict = match deficit {
            _ if interval.0 > LEAST => Verdict::Slow,
            _ if error > 0.02 && interval.1 > 3.0 * LEAST => Verdict::Inconclusive,
            _ if interval.1 < -LEAST => Verdict::Fast,
            _ => Verdict::Typical,
        };
        figures.push(Some(NodeFigure {
            value,
            deficit,
            interval,
            p: (-(deficit / half).powi(2) * 8.0).exp(),
            verdict,
        }));
    }
    let worst = |wanted| figures.iter().flatten().any(|one| one.verdict == wanted);
    let verdict = [Verdict::Slow, Verdict::Inconclusive].into_iter().find(|&one| worst(one));
    Node {
        page: Some(format!("nodes/{name}/report.html")),
        name,
        kind,
        started: format!("2026-11-26T{:02}:{:02}:07Z", 9 + random.bits() % 3, random.bits() % 60),
        verdict: verdict.unwrap_or_default(),
        mean_deficit: figures.iter().flatten().map(|one| one.deficit).sum::<f64>() / FIGURES.len() as f64,
        figures,
        causes: Vec::new(),
        properties: [("governor".to_owned(), "performance".to_owned())].into(),
    }
}

/// Returns a fleet of so many nodes with a record. About one in a hundred is slow and one in two hundred inconclusive; the
/// first one is always slow.
pub fn fleet(count: usize) -> FleetEvaluation {
    let mut random = Random(count as u64);
    let newer = if count >= 300 { count / 4 } else { 0 };
    let mut kinds =
        vec![kind("AMD EPYC 9654, 192 CPUs, 768 GiB, Linux 6.8.0, microcode 0xa101148", count - newer)];
    kinds.extend(
        (newer > 0)
            .then(|| kind("Intel Xeon 8592+, 128 CPUs, 512 GiB, Linux 6.8.0, microcode 0x21000240", newer)),
    );
    let mut nodes = Vec::new();
    for at in 0..count {
        let (shift, error) = match at {
            _ if at % 97 == 0 => (0.06 + 0.08 * random.share(), 0.004),
            _ if at % 211 == 1 && count > 4 => (0.05, 0.05),
            _ => (0.0, 0.004),
        };
        let mut node =
            node(&mut random, format!("n{:04}", at + 1), usize::from(at >= count - newer), shift, error);
        if node.verdict == Verdict::Slow {
            node.causes = causes(at);
            node.properties.insert("governor".to_owned(), "powersave".to_owned());
        }
        nodes.push(node);
    }
    let missing = (0..count / 75 + usize::from(count > 4)).map(|at| missing(count + at + 1)).collect();
    let drift = drift(&nodes, kinds.len());
    FleetEvaluation {
        schema: FLEET_SCHEMA.to_owned(),
        false_discovery_level: 0.05,
        least_deficit: LEAST,
        kinds,
        nodes,
        missing,
        drift,
        changes: if count > 4 { changes() } else { Vec::new() },
        dated_runs: Vec::new(),
    }
}

fn causes(at: usize) -> Vec<String> {
    match at % 3 {
        0 => vec![
            "stress-ng used 1.9 CPUs during the measurement".to_owned(),
            "governor: powersave instead of performance".to_owned(),
        ],
        1 => vec!["2 of 12 memory channels are empty".to_owned()],
        _ => Vec::new(),
    }
}

fn missing(number: usize) -> MissingNode {
    let (state, why) = match number % 3 {
        0 => ("down", "Slurm: Not responding"),
        1 => ("late", "did not get its turn within 30 min"),
        _ => ("failed", "manycore ended there with exit code 2: no space left on device"),
    };
    MissingNode { name: format!("n{number:04}"), state: state.to_owned(), why: why.to_owned() }
}

fn drift(nodes: &[Node], kinds: usize) -> Vec<Drift> {
    let is_slow = |at: usize| nodes[at].verdict == Verdict::Slow;
    let mut all = Vec::new();
    for kind in 0..kinds {
        let of_kind = || (0..nodes.len()).filter(|&at| nodes[at].kind == kind);
        let (slow, others) = of_kind().partition(|&at| is_slow(at));
        let (third, rest) = of_kind().partition(|&at| at % 3 == 1);
        all.push(drift_of(kind, "governor", 2.4e-6, [("performance", others), ("powersave", slow)]));
        all.push(drift_of(kind, "transparent_hugepage", 0.71, [("madvise", rest), ("always", third)]));
    }
    all.retain(|drift| drift.values.iter().all(|(_, nodes)| !nodes.is_empty()));
    all
}

fn drift_of(kind: usize, property: &str, p: f64, values: [(&str, Vec<usize>); 2]) -> Drift {
    let values = values.map(|(value, nodes)| (value.to_owned(), nodes)).to_vec();
    Drift { kind, property: property.to_owned(), values, slow_p: Some(p) }
}

fn changes() -> Vec<Change> {
    let change = |node: &str, deficit: f64, properties: &[(&str, &str, &str)]| Change {
        node: node.to_owned(),
        kind: "AMD EPYC 9654".to_owned(),
        what: "triad, all workers".to_owned(),
        between: ("2026-03-13T02:00:00Z".to_owned(), "2026-03-14T02:00:00Z".to_owned()),
        deficit,
        interval: (deficit - 0.01, deficit + 0.01),
        p: 0.001,
        properties: properties.iter().map(|&(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())).collect(),
    };
    vec![
        change("", 0.021, &[("kernel", "6.8.0-31", "6.8.0-35"), ("microcode", "0xa101144", "0xa101148")]),
        change("n0001", 0.112, &[("governor", "performance", "powersave")]),
        change("n0098", -0.04, &[]),
    ]
}

/// Returns a fleet in which nodes chose every text themselves, and some figures are no numbers.
pub fn hostile() -> FleetEvaluation {
    let mut fleet = fleet(12);
    let text = || HOSTILE.to_owned();
    fleet.kinds[0].name = text();
    let figure = &mut fleet.kinds[0].figures[2];
    (figure.topic, figure.what, figure.unit) = (text(), text(), text());
    for figure in &mut fleet.kinds[0].figures[4..6] {
        figure.what = format!("{}{}", "long ".repeat(50), figure.what);
    }
    let node = &mut fleet.nodes[0];
    (node.name, node.started, node.page) = (text(), text(), Some(format!("nodes/{HOSTILE}/report.html")));
    node.causes = vec![text(), "x".repeat(5000)];
    node.properties.insert(text(), text());
    fleet.nodes[1].figures[0] = Some(NodeFigure {
        value: f64::NAN,
        deficit: f64::INFINITY,
        interval: (f64::NAN, f64::INFINITY),
        p: f64::NAN,
        verdict: Verdict::Slow,
    });
    fleet.nodes[1].mean_deficit = f64::NAN;
    fleet.nodes[2].figures.clear();
    fleet.nodes[3].kind = 99;
    fleet.nodes[4].page = Some("javascript:alert(1)".to_owned());
    fleet.missing.push(MissingNode { name: text(), state: text(), why: text() });
    fleet.drift.push(Drift {
        kind: 99,
        property: text(),
        values: vec![(text(), vec![0, 999])],
        slow_p: Some(f64::NAN),
    });
    fleet.drift.push(Drift::default());
    let change =
        Change { node: text(), kind: text(), what: text(), between: (text(), text()), ..Change::default() };
    fleet.changes.push(Change { properties: vec![(text(), text(), text())], ..change });
    fleet
}

/// Returns a fleet of three nodes, which are too few.
pub fn too_few() -> FleetEvaluation {
    let mut fleet = fleet(3);
    fleet.kinds[0].not_judged = Some("3 nodes are too few: at least 4 are needed".to_owned());
    for node in &mut fleet.nodes {
        node.verdict = Verdict::NotJudged;
        node.causes.clear();
        for figure in node.figures.iter_mut().flatten() {
            figure.verdict = Verdict::NotJudged;
        }
    }
    fleet.drift.clear();
    fleet
}

/// Returns a fleet without a slow node.
pub fn all_well() -> FleetEvaluation {
    let mut fleet = fleet(96);
    fleet.nodes.retain(|node| node.verdict == Verdict::Typical);
    fleet.drift.clear();
    fleet
}
