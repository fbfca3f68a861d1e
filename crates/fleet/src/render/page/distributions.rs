//! Nodes by figure: a histogram of the deficits of all nodes of a kind, on which slow and inconclusive nodes are marked.

use super::compared;
use crate::{
    evaluation::{FleetEvaluation, Kind, KindFigure, Node, Verdict},
    render::{
        tables::{counted_nodes, kind_title, value},
        view::of_kind,
        words::{figure_name, short, slower},
    },
};
use manycore_render::{
    chart::WIDTH,
    figure::{percent, percent_number},
};
use manycore_report::page::{ChartFigure, figure_html};
use maud::{Markup, html};

/// Kinds, and figures of a kind.
const KINDS: usize = 12;
const FIGURES: usize = 24;
/// Marks of a figure.
const MARKS: usize = 60;

/// Horizontal ends of the histograms, in units of the drawing.
const LEFT: f64 = 10.0;
const RIGHT: f64 = WIDTH - 10.0;
/// Heights of the heading of a row, of its bars, and of the marks below them.
const HEADING: f64 = 20.0;
const BARS: f64 = 34.0;
const FOOT: f64 = 18.0;
const STEP: f64 = HEADING + BARS + FOOT;
/// Height of the axis.
const AXIS: f64 = 38.0;
const BINS: usize = 60;
/// Letters of a heading.
const LETTERS: usize = 65;

/// The horizontal axis of a chart: deficits.
struct Span {
    low: f64,
    high: f64,
    tick: f64,
}

/// A node in a figure.
struct Mark<'a> {
    node: &'a Node,
    deficit: f64,
    verdict: Verdict,
}

/// Draws a chart for each kind.
pub(super) fn charts(evaluation: &FleetEvaluation) -> Markup {
    let kinds: Vec<(usize, &Kind)> = compared(evaluation).collect();
    let drawn = kinds.iter().take(KINDS).map(|&(at, kind)| figure_html(&chart(evaluation, at, kind)));
    html! {
        div.row.charts { @for chart in drawn { (chart) } }
        @if kinds.len() > KINDS { p.note { (kinds.len() - KINDS) " more kinds are not drawn." } }
    }
}

fn chart(evaluation: &FleetEvaluation, at: usize, kind: &Kind) -> ChartFigure {
    let title = kind_title(evaluation, at);
    let figures = &kind.figures[..kind.figures.len().min(FIGURES)];
    let marks: Vec<Vec<Mark>> = (0..figures.len()).map(|column| marks(evaluation, at, column)).collect();
    let span = Span::of(marks.iter().flatten().map(|mark| mark.deficit), evaluation.least_deficit);
    let rows: Vec<Markup> = figures
        .iter()
        .zip(&marks)
        .enumerate()
        .map(|(row, (figure, marks))| {
            strip(figure, marks, &span, row as f64 * STEP, evaluation.least_deficit)
        })
        .collect();
    let bottom = figures.len() as f64 * STEP;
    let id = format!("distribution-{at}");
    let drawing = html! {
        svg id=(id) role="img" aria-labelledby={ (id) "-title" } xmlns="http://www.w3.org/2000/svg"
            viewBox={ "0 0 " (WIDTH) " " (bottom + AXIS) } {
            title id={ (id) "-title" } { "Deficits of the nodes of " (title) ", by figure" }
            @for row in &rows { (row) }
            (axis(&span, bottom))
        }
    };
    let caption = "At the right: the median, and the spread. Bars: number of nodes. Below them, ▲ slow and ○ inconclusive nodes, \
                   at most 60. The band is the least deficit that counts, to both sides; nodes beyond the ends are at the ends.";
    ChartFigure { title, caption: caption.to_owned(), legend: Vec::new(), drawing }
}

/// Returns the nodes with a figure, the slowest first.
fn marks(evaluation: &FleetEvaluation, kind: usize, column: usize) -> Vec<Mark<'_>> {
    let of = |node: &Node| node.figures.get(column).copied().flatten().filter(|one| one.deficit.is_finite());
    let nodes = of_kind(evaluation, kind).filter_map(|node| Some((node, of(node)?)));
    let mut marks: Vec<Mark> =
        nodes.map(|(node, one)| Mark { node, deficit: one.deficit, verdict: one.verdict }).collect();
    marks.sort_by(|a, b| b.deficit.total_cmp(&a.deficit));
    marks
}

/// Draws the nodes of one figure.
fn strip(figure: &KindFigure, marks: &[Mark], span: &Span, top: f64, least: f64) -> Markup {
    let base = top + HEADING + BARS;
    let mut counts = [0_usize; BINS];
    let width = (RIGHT - LEFT) / BINS as f64;
    for mark in marks {
        counts[(((span.across(mark.deficit) - LEFT) / width) as usize).min(BINS - 1)] += 1;
    }
    let highest = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let flagged = marks.iter().filter(|mark| matches!(mark.verdict, Verdict::Slow | Verdict::Inconclusive));
    let median = short(&value(figure.median, &figure.unit), 20);
    let words = format!("{median}, spread {}", percent(figure.spread));
    let name = short(&figure_name(figure), LETTERS - words.chars().count());
    let (from, to) = (span.across(-least), span.across(least));
    html! {
        text x=(LEFT) y=(at(top + 14.0)) class="small" { (name) }
        text x=(RIGHT) y=(at(top + 14.0)) text-anchor="end" class="small soft" { (words) }
        rect class="zone" x=(at(from)) y=(at(top + HEADING)) width=(at(to - from)) height=(at(BARS)) {}
        line class="equal" x1=(at(span.across(0.0))) x2=(at(span.across(0.0))) y1=(at(top + HEADING)) y2=(at(base)) {}
        g.s0 {
            @for (bin, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                @let tall = (BARS * count as f64 / highest).max(1.5);
                rect class="bar" x=(at(LEFT + bin as f64 * width)) y=(at(base - tall)) width=(at(width - 0.6)) height=(at(tall)) {
                    title { (counted_nodes(count)) }
                }
            }
        }
        line class="axis" x1=(LEFT) x2=(RIGHT) y1=(at(base)) y2=(at(base)) {}
        @for mark in flagged.take(MARKS) { (sign(mark, span.across(mark.deficit), base + 7.0)) }
    }
}

/// Draws a slow node as a triangle and an inconclusive one as a ring.
fn sign(mark: &Mark, x: f64, y: f64) -> Markup {
    let title = html! { title { (short(&mark.node.name, 80)) ": " (slower(mark.deficit)) } };
    html! {
        @if mark.verdict == Verdict::Slow {
            path class="mark s1" d={ "M" (at(x)) " " (at(y - 5.0)) "l5 9h-10z" } { (title) }
        } @else {
            circle class="whisker s3" cx=(at(x)) cy=(at(y)) r="3.5" { (title) }
        }
    }
}

fn axis(span: &Span, top: f64) -> Markup {
    html! {
        @for tick in span.ticks() {
            line class="axis" x1=(at(span.across(tick))) x2=(at(span.across(tick))) y1=(at(top)) y2=(at(top + 4.0)) {}
            text x=(at(span.across(tick))) y=(at(top + 16.0)) text-anchor="middle" class="small soft" { (label(tick)) }
        }
        text x=(at(f64::midpoint(LEFT, RIGHT))) y=(at(top + 33.0)) text-anchor="middle" class="small soft" {
            "slower by, in per cent: negative is faster"
        }
    }
}

fn label(tick: f64) -> String {
    let words = percent_number(tick);
    words.strip_suffix(".0").unwrap_or(&words).to_owned()
}

/// Returns a coordinate without invisible digits.
fn at(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

impl Span {
    /// Returns an axis from the fastest to the slowest node, without those far away from all others.
    fn of(deficits: impl Iterator<Item = f64>, least: f64) -> Self {
        let mut all: Vec<f64> = deficits.collect();
        all.sort_by(f64::total_cmp);
        let least = if least > 0.0 { least } else { 0.01 };
        let at = |share: f64| all.get((share * all.len() as f64) as usize).copied().unwrap_or(0.0).abs();
        let far = (6.0 * least).max(3.0 * at(0.02)).max(3.0 * at(0.98)).min(2.0);
        let ends = (all.first().copied().unwrap_or(0.0), all.last().copied().unwrap_or(0.0));
        let (low, high) = (ends.0.clamp(-far, -1.5 * least), ends.1.clamp(1.5 * least, far));
        let rough = (high - low) / 6.0;
        let power = 10_f64.powf(rough.log10().floor());
        let tick = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|&step| step >= rough);
        Self { low, high, tick: tick.unwrap_or(rough) }
    }

    fn across(&self, deficit: f64) -> f64 {
        LEFT + ((deficit - self.low) / (self.high - self.low)).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn ticks(&self) -> Vec<f64> {
        let (first, last) = ((self.low / self.tick).ceil() as i64, (self.high / self.tick).floor() as i64);
        (first..=last).map(|step| step as f64 * self.tick).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_a_few_ticks_whatever_the_deficits() {
        for deficits in [
            vec![],
            vec![0.0],
            vec![-0.01, 0.02],
            vec![0.9, 0.0, -50.0],
            vec![f64::MAX, -f64::MAX],
            vec![1e-9; 99],
        ] {
            let span = Span::of(deficits.iter().copied(), 0.03);
            let ticks = span.ticks();
            assert!((3..=9).contains(&ticks.len()), "{deficits:?}: {ticks:?}");
            for one in deficits {
                assert!((LEFT..=RIGHT).contains(&span.across(one)));
            }
        }
        let span = Span::of([-0.02, 0.3].into_iter().chain([0.001; 200]), 0.03);
        assert!(span.high < 0.2, "one node does not hide the others: {}", span.high);
        assert_eq!(label(0.05), "5");
        assert_eq!(label(0.0), "0");
    }
}
