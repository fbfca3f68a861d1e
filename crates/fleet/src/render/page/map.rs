//! Figures by node: a table whose cells are coloured by deficit, blue for faster and orange for slower. Slow and inconclusive
//! nodes have rows of their own; others are joined in bands of nodes with similar mean deficits.

use super::{compared, hard, nodes};
use crate::{
    evaluation::{FleetEvaluation, Kind, Node, NodeFigure, Verdict},
    render::{
        tables::{counted_nodes, kind_title, value},
        view::View,
        words::{deficit_of, figure_name, p_value, verdict},
    },
};
use manycore_render::figure::{grouped, percent, percent_number};
use maud::{Markup, html};

/// Most rows of single nodes on the page.
const SINGLE: usize = 240;
/// Nodes of a kind from which those that are neither slow nor inconclusive are joined.
const FEW: usize = 60;
/// Bands of a kind.
const BANDS: usize = 20;
/// Kinds, and figures of a kind.
const KINDS: usize = 12;
const FIGURES: usize = 40;
/// Steps of the colours on each side, as multiples of the least deficit that counts.
const STEPS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// A row of nodes.
struct Band<'a> {
    nodes: Vec<&'a Node>,
    is_single: bool,
}

/// Draws the map of each kind.
pub(super) fn maps(view: &View) -> Markup {
    let evaluation = view.evaluation;
    let mut room = SINGLE;
    let kinds: Vec<(usize, &Kind)> = compared(evaluation).collect();
    let maps: Vec<Markup> =
        kinds.iter().take(KINDS).map(|&(at, _)| map(evaluation, at, &rows(view, at, &mut room))).collect();
    html! {
        (legend(evaluation.least_deficit))
        p.aside {
            "Each cell is the deficit relative to the median of the kind, in per cent: positive is slower. ▲ is slow, ? is \
             inconclusive. The figures themselves are shown when the pointer rests on a cell."
        }
        @for map in &maps { (map) }
        @if kinds.len() > KINDS { p.note { (kinds.len() - KINDS) " more kinds have no map." } }
    }
}

/// Returns the rows of a kind: nodes of their own first, the slowest first, then bands.
fn rows<'a>(view: &View<'a>, kind: usize, room: &mut usize) -> Vec<Band<'a>> {
    let is_flagged = |node: &&&Node| matches!(node.verdict, Verdict::Slow | Verdict::Inconclusive);
    let flagged = view.slow.iter().chain(&view.inconclusive).filter(|node| node.kind == kind);
    let single: Vec<&Node> = flagged.copied().take(*room).collect();
    *room -= single.len();
    let others = view.evaluation.nodes.iter().filter(|node| node.kind == kind);
    let mut others: Vec<&Node> = others.filter(|node| !is_flagged(&node)).collect();
    others.sort_by(|a, b| b.mean_deficit.total_cmp(&a.mean_deficit));
    let left = view.slow.iter().chain(&view.inconclusive).filter(|node| node.kind == kind).skip(single.len());
    let left: Vec<&Node> = left.copied().collect();
    let alone = |node: &&'a Node| Band { nodes: vec![*node], is_single: true };
    let joined = |nodes: &[&'a Node]| Band { nodes: nodes.to_vec(), is_single: false };
    let mut rows: Vec<Band> = single.iter().map(alone).collect();
    if !left.is_empty() {
        rows.extend(left.chunks(left.len().div_ceil(BANDS)).map(joined));
    }
    if others.len() <= FEW {
        rows.extend(others.iter().map(alone));
    } else {
        rows.extend(others.chunks(others.len().div_ceil(BANDS)).map(joined));
    }
    rows
}

fn map(evaluation: &FleetEvaluation, at: usize, rows: &[Band]) -> Markup {
    let (kind, least) = (&evaluation.kinds[at], evaluation.least_deficit);
    let title = kind_title(evaluation, at);
    let shown = kind.figures.len().min(FIGURES);
    html! {
        div.block {
            h3 { (title) }
            div.table tabindex="0" role="region" aria-label={ "Map of " (title) } {
                table.heat {
                    thead {
                        tr {
                            th scope="col" .words { "node" }
                            @for figure in &kind.figures[..shown] { th scope="col" { (figure_name(figure)) } }
                        }
                    }
                    tbody {
                        @for row in rows {
                            tr {
                                th scope="row" .words { (heading(row)) }
                                @for column in 0..shown { (cell(kind, row, column, least)) }
                            }
                        }
                    }
                }
            }
            @if kind.figures.len() > FIGURES { p.note { (kind.figures.len() - FIGURES) " more figures." } }
        }
    }
}

fn heading(row: &Band) -> Markup {
    let ends = || {
        let means = || row.nodes.iter().map(|node| node.mean_deficit).filter(|mean| mean.is_finite());
        Some((means().reduce(f64::min)?, means().reduce(f64::max)?))
    };
    html! {
        @if let (true, [node]) = (row.is_single, row.nodes.as_slice()) { (nodes::name(node)) } @else {
            span.faint {
                (counted_nodes(row.nodes.len()))
                @if let Some((low, high)) = ends() {
                    span.range { ", mean " (percent_number(low)) " to " (hard(&percent(high))) }
                }
            }
        }
    }
}

fn cell(kind: &Kind, row: &Band, column: usize, least: f64) -> Markup {
    let of = |node: &&Node| node.figures.get(column).copied().flatten().filter(|one| one.deficit.is_finite());
    let mut found: Vec<NodeFigure> = row.nodes.iter().filter_map(of).collect();
    found.sort_by(|a, b| a.deficit.total_cmp(&b.deficit));
    let Some(&middle) = found.get(found.len() / 2) else { return html! { td.none { "–" } } };
    let figure = &kind.figures[column];
    let (sign, title) = if row.is_single {
        let sign = match middle.verdict {
            Verdict::Slow => "▲ ",
            Verdict::Inconclusive => "? ",
            _ => "",
        };
        let words = format!(
            "{}: {}, median {}; deficit {}, p {}; {}",
            figure_name(figure),
            value(middle.value, &figure.unit),
            value(figure.median, &figure.unit),
            deficit_of(middle),
            p_value(middle.p),
            verdict(middle.verdict)
        );
        (sign, words)
    } else {
        let ends = (found[0].deficit, found[found.len() - 1].deficit);
        let words = format!(
            "{}: median of {} {}, from {} to {}",
            figure_name(figure),
            grouped(found.len() as f64),
            percent(middle.deficit),
            percent_number(ends.0),
            percent(ends.1)
        );
        ("", words)
    };
    html! { td class=(class(middle.deficit, least)) title=(title) { (sign) (percent_number(middle.deficit)) } }
}

/// Returns the class of the colour of a deficit: `h0` around zero, `slower1` to `slower4`, `faster1` to `faster4`.
fn class(deficit: f64, least: f64) -> String {
    let least = if least > 0.0 { least } else { 0.01 };
    match STEPS.iter().filter(|&&step| deficit.abs() >= step * least).count() {
        0 => "h0".to_owned(),
        step if deficit > 0.0 => format!("slower{step}"),
        step => format!("faster{step}"),
    }
}

fn legend(least: f64) -> Markup {
    let least = if least > 0.0 { least } else { 0.01 };
    let ends = STEPS.map(|step| percent(step * least));
    html! {
        ul.scale aria-label="Colours" {
            @for step in (1..=STEPS.len()).rev() {
                li class={ "faster" (step) } {
                    @if step == STEPS.len() { "faster by " } (hard(&ends[step - 1])) @if step == STEPS.len() { " or more" }
                }
            }
            li.h0 { "less" }
            @for step in 1..=STEPS.len() {
                li class={ "slower" (step) } {
                    @if step == STEPS.len() { "slower by " } (hard(&ends[step - 1])) @if step == STEPS.len() { " or more" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn colours_are_symmetric() {
        for (deficit, expected) in [
            (0.0, "h0"),
            (0.009, "h0"),
            (0.011, "slower1"),
            (-0.011, "faster1"),
            (0.021, "slower2"),
            (-0.05, "faster3"),
            (0.5, "slower4"),
            (-9.0, "faster4"),
            (f64::INFINITY, "slower4"),
        ] {
            assert_eq!(class(deficit, 0.02), expected, "{deficit}");
        }
        assert_eq!(class(0.02, 0.0), "slower3");
    }
}
