//! Horizontal bars with intervals, in groups.

use crate::chart::{Axis, WIDTH, colour, line, rect, shortened, small_width, span, svg, text, tick_label};
use maud::{Markup, html};

const LEFT: f64 = 112.0;
/// Space for figures to the right of the axis, where no line of the grid crosses them.
const RIGHT: f64 = 158.0;
const BAR: f64 = 16.0;
const STEP: f64 = 23.0;
const HEADING: f64 = 24.0;
const FOOT: f64 = 40.0;

/// A chart of bars from 0.
pub struct BarChart<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// Name of the axis, with the unit.
    pub axis_name: &'a str,
    /// Groups of bars.
    pub groups: Vec<Group>,
    /// A vertical line across all bars, and its name.
    pub reference: Option<(f64, String)>,
}

/// Bars under one heading.
pub struct Group {
    /// Heading; empty for none.
    pub name: String,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

/// One bar.
pub struct Bar {
    /// Name, to the left of the bar.
    pub name: String,
    /// Length.
    pub value: f64,
    /// 95 % interval of the length.
    pub interval: Option<(f64, f64)>,
    /// Text to the right of the bar.
    pub words: String,
    /// Index of the colour.
    pub colour: usize,
}

impl BarChart<'_> {
    /// Draws the chart.
    pub fn draw(&self) -> Markup {
        let lengths = self
            .groups
            .iter()
            .flat_map(|group| &group.bars)
            .map(|bar| bar.interval.map_or(bar.value, |(_, high)| high.max(bar.value)));
        let always = [0.0, self.reference.as_ref().map_or(0.0, |reference| reference.0)];
        let axis = Axis::linear(lengths, &always, 4.0);
        let across = |value: f64| LEFT + axis.position(value).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
        let mut y = if self.reference.is_some() { 20.0 } else { 4.0 };
        let top = y;
        // Text is drawn last, above every line.
        let (mut rows, mut words, mut headings) = (Vec::new(), Vec::new(), Vec::new());
        for group in &self.groups {
            if !group.name.is_empty() {
                let name = shortened(&group.name, 64);
                headings.push((y, text(2.0, y + HEADING - 8.0, "start", "", &name)));
                y += HEADING;
            }
            for bar in &group.bars {
                rows.push(shape(bar, y, across));
                words.push(names(bar, y));
                y += STEP;
            }
            y += 4.0;
        }
        let inside = html! {
            @for &tick in axis.ticks() {
                @for (from, to) in between(&headings, top, y) {
                    (line("grid", (across(tick), from), (across(tick), to)))
                }
                (tick_label(across(tick), y + 16.0, &axis.label(tick)))
            }
            (line("axis", (LEFT, top), (LEFT, y)))
            @for row in &rows { (row) }
            @if let Some((value, name)) = &self.reference {
                @for (from, to) in between(&headings, top, y) {
                    (line("reference", (across(*value), from), (across(*value), to)))
                }
                @let half = small_width(name) / 2.0;
                (text(across(*value).clamp(half, WIDTH - half), 13.0, "middle", "small soft", name))
            }
            @for words in &words { (words) }
            @for (_, heading) in &headings { (heading) }
            (text(LEFT, y + 34.0, "start", "soft", self.axis_name))
        };
        svg(self.id, self.label, y + FOOT, &inside)
    }
}

/// Returns the parts of a vertical line from `top` to `end` that do not cross a heading.
fn between(headings: &[(f64, Markup)], top: f64, end: f64) -> Vec<(f64, f64)> {
    let starts = [top].into_iter().chain(headings.iter().map(|(y, _)| y + HEADING));
    let ends = headings.iter().map(|(y, _)| *y).chain([end]);
    starts.zip(ends).filter(|(from, to)| to > from).collect()
}

fn shape(bar: &Bar, y: f64, across: impl Fn(f64) -> f64) -> Markup {
    let middle = y + BAR / 2.0 + 2.0;
    html! {
        g class=(colour(bar.colour)) {
            (rect("bar", (LEFT, y + 2.0), (across(bar.value) - LEFT, BAR), 0.75))
            @if let Some((low, high)) = bar.interval {
                (span(["over"; 2], (across(low), across(high)), middle, 4.0))
            }
        }
    }
}

fn names(bar: &Bar, y: f64) -> Markup {
    let middle = y + BAR / 2.0 + 2.0;
    html! {
        (text(LEFT - 7.0, middle + 4.5, "end", "", &shortened(&bar.name, 16)))
        (text(WIDTH - RIGHT + 12.0, middle + 4.0, "start", "small", &bar.words))
    }
}
