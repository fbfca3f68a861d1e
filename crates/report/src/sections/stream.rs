//! Memory bandwidth by kernel and number of workers, and bandwidth and latency from node to node.

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_analysis::{MemoryBandwidth, NodeRoute, StreamPoint};
use manycore_render::{
    figure::{ABSENT, factor, interval, optional, times},
    table::Align,
};
use manycore_stats::Estimate;
use manycore_text::units::bytes;

/// Maximum number of nodes for which figures from node to node are shown as a matrix.
const MAX_MATRIX_NODES: usize = 16;

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let Some(streaming) = &named.evaluation.stream else { return Vec::new() };
    let mut tables = vec![kernels(streaming)];
    let sides = streaming.nodes();
    if sides.iter().any(|side| side.len() > 1) && sides.iter().all(|side| side.len() <= MAX_MATRIX_NODES) {
        tables.push(matrix(
            "Read bandwidth from all CPUs of a node to the memory of a node, in GB/s",
            streaming,
            |route| Some(gigabytes(route.rate?.median)),
        ));
        tables.push(matrix("Latency of a load from a random address, idle, in ns", streaming, |route| {
            Some(nanoseconds(route.idle_ns?.median))
        }));
        tables.push(matrix(
            "The same while the other CPUs of the node read from that memory",
            streaming,
            |route| Some(nanoseconds(route.loaded_ns?.median)),
        ));
        tables.push(Table { is_detail: true, ..routes(streaming) });
    } else {
        tables.push(routes(streaming));
    }
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn gigabytes(rate: f64) -> String {
    let rate = rate / 1e9;
    if rate < 99.95 { format!("{rate:.2}") } else { format!("{rate:.1}") }
}

fn nanoseconds(time: f64) -> String {
    format!("{time:.1}")
}

/// Returns a figure and its interval.
fn both(estimate: Option<Estimate>, show: fn(f64) -> String) -> [String; 2] {
    match estimate {
        Some(estimate) => [show(estimate.median), interval(&estimate, show)],
        None => [ABSENT.to_owned(), ABSENT.to_owned()],
    }
}

fn kernels(streaming: &MemoryBandwidth) -> Table {
    let whose = match streaming.measured_nodes {
        Some((from, to)) if from == to => format!(" on the CPUs and the memory of node {from}"),
        Some((from, to)) => format!(" on the CPUs of node {from} and the memory of node {to}"),
        None => String::new(),
    };
    let mut table = Table::numeric(
        format!("GB/s{whose}, by kernel and number of workers"),
        ("kernel, stores", Align::Left),
        &["workers", "GB/s", "95 % interval", "speed-up", "95 % interval"],
    );
    table.rows = streaming.points.iter().map(kernel).collect();
    let size = |array| format!("Each of the three arrays has {}", bytes(array));
    let caches = |caches| format!("; the last-level caches of a node have {}", bytes(caches));
    table.notes.extend(
        streaming.array_bytes.map(|array| {
            format!("{}{}.", size(array), streaming.caches_bytes.map(caches).unwrap_or_default())
        }),
    );
    table
}

fn kernel(point: &StreamPoint) -> Vec<String> {
    let [rate, ends] = both(Some(point.rate), gigabytes);
    let [over, over_ends] = match &point.speedup {
        Some(over) => [times(over.median), interval(over, factor)],
        None => [ABSENT.to_owned(), ABSENT.to_owned()],
    };
    vec![point.title(), point.workers.to_string(), rate, ends, over, over_ends]
}

/// Returns a row for each route from CPUs to memory.
fn routes(streaming: &MemoryBandwidth) -> Table {
    let mut table = Table::numeric(
        "From the CPUs of a node to the memory of a node",
        ("nodes", Align::Left),
        &[
            "CPUs",
            "GB/s",
            "95 % interval",
            "idle ns",
            "95 % interval",
            "loaded ns",
            "95 % interval",
            "at GB/s",
        ],
    );
    table.rows = streaming.routes.iter().map(route).collect();
    table.notes.push(
        "GB/s is the read rate of all CPUs of the node. Idle is the latency of a load from a random address; loaded is \
         the same while the other CPUs of the node read from that memory at the rate in the last column."
            .to_owned(),
    );
    table
}

fn route(route: &NodeRoute) -> Vec<String> {
    let figures =
        [both(route.rate, gigabytes), both(route.idle_ns, nanoseconds), both(route.loaded_ns, nanoseconds)];
    let names = [format!("{} to {}", route.from, route.to), route.workers.to_string()];
    names
        .into_iter()
        .chain(figures.into_iter().flatten())
        .chain([optional(route.loaded_bytes_per_second, gigabytes)])
        .collect()
}

/// Returns one figure of every route: rows are nodes of CPUs, columns nodes of memory.
fn matrix(title: &str, streaming: &MemoryBandwidth, figure: fn(&NodeRoute) -> Option<String>) -> Table {
    let [from, to] = streaming.nodes();
    let heads: Vec<String> = to.iter().map(|node| format!("to {node}")).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::numeric(title, ("CPUs of", Align::Left), &heads);
    let cell =
        |from: u32, to: u32| streaming.route(from, to).and_then(figure).unwrap_or_else(|| ABSENT.to_owned());
    table.rows = from
        .iter()
        .map(|&from| {
            let cells = to.iter().map(|&to| cell(from, to));
            std::iter::once(format!("node {from}")).chain(cells).collect()
        })
        .collect();
    let measured = streaming.routes.iter().any(|route| figure(route).is_some());
    table.rows.retain(|_| measured);
    table
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let text = ("", Align::Left);
    let kernels = compare("GB/s by kernel and workers", text, all, Clone::clone, |named| {
        let points = named.evaluation.stream.iter().flat_map(|stream| &stream.points);
        let cell = |point: &StreamPoint| {
            let name = format!("{}, {:>3}", point.title(), point.workers);
            (name, gigabytes(point.rate.median))
        };
        points.map(cell).collect()
    });
    let routes = compare("From node to node: GB/s, ns idle, ns loaded", text, all, Clone::clone, |named| {
        let routes = named.evaluation.stream.iter().flat_map(|stream| &stream.routes);
        let cell = |route: &NodeRoute| {
            let ns = |time: Option<Estimate>| optional(time.map(|time| time.median), nanoseconds);
            let rate = optional(route.rate.map(|rate| rate.median), gigabytes);
            let cell = format!("{rate}, {}, {}", ns(route.idle_ns), ns(route.loaded_ns));
            (format!("{:>3} to {:>3}", route.from, route.to), cell)
        };
        routes.map(cell).collect()
    });
    vec![kernels, routes]
}
