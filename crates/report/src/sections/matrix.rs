//! GFLOPS by size, on one core and on all cores.

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_analysis::MatrixPoint;
use manycore_render::{
    figure::{factor, interval, number, optional, percent, times, with_interval},
    table::Align,
};

const SIZE: (&str, Align) = ("size", Align::Right);

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let points = &named.evaluation.matrix;
    let Some(last) = points.last() else { return Vec::new() };
    let mut one = Table::numeric("One process on one core, in GFLOPS", SIZE, &["GFLOPS", "95 % interval"]);
    let mut all = Table::numeric(
        format!("{} processes at once, one on each core, in GFLOPS", last.processes),
        SIZE,
        &["GFLOPS", "95 % interval", "speed-up", "95 % interval"],
    );
    for point in points {
        let size = point.size.to_string();
        one.rows.push(vec![
            size.clone(),
            number(point.one_gflops.median),
            interval(&point.one_gflops, number),
        ]);
        if let Some((together, speedup)) = point.all_gflops.as_ref().zip(point.speedup.as_ref()) {
            all.rows.push(vec![
                size,
                number(together.median),
                interval(together, number),
                times(speedup.median),
                interval(speedup, factor),
            ]);
        }
    }
    if last.peak_gflops.is_some() {
        let heads = ["core's peak", "of the peak"].map(|head| (head.to_owned(), Align::Right));
        one.head.extend(heads);
        for (row, point) in one.rows.iter_mut().zip(points) {
            row.push(optional(point.peak_gflops, number));
            row.push(optional(point.peak_gflops.map(|peak| point.one_gflops.median / peak), percent));
        }
        one.notes.push("The peak is the maximum of the core's SIMD units at the measured clock.".to_owned());
    } else {
        one.notes.push(
            "The core's peak is unknown: the CPU is not in manycore's table, its clock was not measured (section \
             scaling), or a product was faster than the computed peak."
                .to_owned(),
        );
    }
    vec![one, all].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let column = |title: &str, cell: fn(&MatrixPoint) -> Option<String>| {
        compare(title, SIZE, all, usize::to_string, |named| {
            named.evaluation.matrix.iter().filter_map(|point| Some((point.size, cell(point)?))).collect()
        })
    };
    vec![
        column("One process on one core, in GFLOPS (95 % interval)", |point| {
            Some(with_interval(&point.one_gflops, number, number))
        }),
        column("Share of the core's theoretical peak", |point| {
            point.peak_gflops.map(|peak| percent(point.one_gflops.median / peak))
        }),
        column("One process on each core, in GFLOPS (95 % interval)", |point| {
            point.all_gflops.as_ref().map(|all| with_interval(all, number, number))
        }),
        column("Speed-up of all cores over one (95 % interval)", |point| {
            point.speedup.as_ref().map(|speedup| with_interval(speedup, times, factor))
        }),
    ]
}
