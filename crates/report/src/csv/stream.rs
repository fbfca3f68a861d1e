//! Rows of memory bandwidth by kernel and number of workers, and from node to node.

use crate::{
    NamedEvaluation,
    csv::{cell, estimate},
};
use manycore_analysis::{NodeRoute, StreamPoint};

pub(super) fn kernels(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let row = |point: &StreamPoint| {
        let start =
            [point.kernel.clone(), point.stores.clone().unwrap_or_default(), point.workers.to_string()];
        start.into_iter().chain(estimate(Some(&point.rate))).chain(estimate(point.speedup.as_ref())).collect()
    };
    named.evaluation.stream.iter().flat_map(|stream| &stream.points).map(row).collect()
}

pub(super) fn nodes(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let row = |route: &NodeRoute| {
        let start = [route.from.to_string(), route.to.to_string(), route.workers.to_string()];
        let figures = [&route.rate, &route.idle_ns, &route.loaded_ns];
        let figures = figures.into_iter().flat_map(|figure| estimate(figure.as_ref()));
        start.into_iter().chain(figures).chain([cell(route.loaded_bytes_per_second)]).collect()
    };
    named.evaluation.stream.iter().flat_map(|stream| &stream.routes).map(row).collect()
}
