//! Rows of memory bandwidth by kernel and number of workers, and from node to node.

use crate::Named;
use crate::csv::{cell, estimate};
use manycore_analysis::{Route, StreamPoint};

pub(super) fn kernels(named: &Named) -> Vec<Vec<String>> {
    let row = |point: &StreamPoint| {
        let start =
            [point.kernel.clone(), point.stores.clone().unwrap_or_default(), point.workers.to_string()];
        start
            .into_iter()
            .chain(estimate(Some(&point.rate)))
            .chain(estimate(point.over_one.as_ref()))
            .collect()
    };
    named.evaluation.stream.iter().flat_map(|stream| &stream.points).map(row).collect()
}

pub(super) fn nodes(named: &Named) -> Vec<Vec<String>> {
    let row = |route: &Route| {
        let start = [route.from.to_string(), route.to.to_string(), route.workers.to_string()];
        let figures = [&route.rate, &route.idle_ns, &route.loaded_ns];
        let figures = figures.into_iter().flat_map(|figure| estimate(figure.as_ref()));
        start.into_iter().chain(figures).chain([cell(route.load)]).collect()
    };
    named.evaluation.stream.iter().flat_map(|stream| &stream.routes).map(row).collect()
}
