//! Lines through points with intervals.

use crate::chart::{Axis, WIDTH, at, colour, labels::Obstacles, line, small_width, svg, text, tick_label};
use maud::{Markup, html};

const HEIGHT: f64 = 290.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;

/// A chart of lines.
pub struct LineChart<'a> {
    /// Id of the drawing.
    pub id: &'a str,
    /// Description for screen readers.
    pub label: &'a str,
    /// Name of the horizontal axis.
    pub x_name: &'a str,
    /// Name of the vertical axis, with the unit.
    pub y_name: &'a str,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// A vertical line and its name.
    pub vertical_line: Option<(f64, String)>,
    /// The series. Later ones are drawn above earlier ones.
    pub series: Vec<Series>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Points joined by a line, with their intervals.
    Measured,
    /// A dashed line without points.
    Fit,
    /// A faint dotted line without points.
    Ideal,
}

impl Style {
    /// Returns the class of the line.
    fn class(self) -> &'static str {
        match self {
            Self::Measured => "curve",
            Self::Fit => "fit",
            Self::Ideal => "reference",
        }
    }
}

/// A series of points.
pub struct Series {
    /// Index of the colour.
    pub colour: usize,
    /// Shape of the points.
    pub mark: Mark,
    /// How it is drawn.
    pub style: Style,
    /// The points, ascending in `x`.
    pub points: Vec<Point>,
}

/// One point.
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// 95 % interval of `y`.
    pub interval: Option<(f64, f64)>,
    /// Label of the point; empty for none.
    pub label: String,
}

impl LineChart<'_> {
    /// Draws the chart.
    pub fn draw(&self) -> Markup {
        let inside = html! {
            (self.frame())
            @for series in &self.series { g class=(colour(series.colour)) { (self.series(series)) } }
            (self.labels())
        };
        svg(self.id, self.label, HEIGHT, &inside)
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let across = LEFT + self.x.position(x) * (WIDTH - LEFT - RIGHT);
        let down = HEIGHT - BOTTOM - self.y.position(y) * (HEIGHT - TOP - BOTTOM);
        (across, down.clamp(TOP - 4.0, HEIGHT - BOTTOM))
    }

    fn frame(&self) -> Markup {
        let (left, right, bottom) = (LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM);
        html! {
            @for &tick in self.y.ticks() {
                @let y = bottom - self.y.position(tick) * (bottom - TOP);
                (line("grid", (left, y), (right, y)))
                (text(left - 7.0, y + 4.5, "end", "soft", &self.y.label(tick)))
            }
            @for &tick in self.x.ticks() {
                @let x = left + self.x.position(tick) * (right - left);
                (line("axis", (x, bottom), (x, bottom + 4.0)))
                (tick_label(x, bottom + 18.0, &self.x.label(tick)))
            }
            @if let Some((x, name)) = &self.vertical_line {
                @let x = left + self.x.position(*x) * (right - left);
                @let half = small_width(name) / 2.0;
                // The name of the vertical axis is to the left of it.
                @let least = small_width(self.y_name) * 1.15 + 10.0 + half;
                (line("reference", (x, TOP), (x, bottom)))
                (text(x.max(least).min(WIDTH - half), TOP - 8.0, "middle", "small soft", name))
            }
            (line("axis", (left, bottom), (right, bottom)))
            (text(right, HEIGHT - 8.0, "end", "soft", self.x_name))
            (text(2.0, 12.0, "start", "soft", self.y_name))
        }
    }

    fn series(&self, series: &Series) -> Markup {
        let places: Vec<(f64, f64)> =
            series.points.iter().map(|point| self.place(point.x, point.y)).collect();
        let path: Vec<String> = places.iter().map(|&(x, y)| format!("{},{}", at(x), at(y))).collect();
        html! {
            polyline class=(series.style.class()) points=(path.join(" ")) {}
            @if series.style == Style::Measured {
                @for (point, &(x, _)) in series.points.iter().zip(&places) {
                    @if let Some((low, high)) = point.interval {
                        @let ends = [self.place(point.x, low).1, self.place(point.x, high).1];
                        (line("whisker", (x, ends[0]), (x, ends[1])))
                        @for end in ends { (line("whisker", (x - 5.0, end), (x + 5.0, end))) }
                    }
                }
                @for &(x, y) in &places { (series.mark.draw(x, y)) }
            }
        }
    }

    /// Draws the labels of points that have a tick; the others lack space.
    fn labels(&self) -> Markup {
        let (left, right, bottom) = (LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut obstacles = Obstacles { ends: (TOP - 8.0, bottom - 2.0), ..Obstacles::default() };
        obstacles.horizontal =
            self.y.ticks().iter().map(|&tick| bottom - self.y.position(tick) * (bottom - TOP)).collect();
        obstacles.vertical =
            self.vertical_line.iter().map(|(x, _)| left + self.x.position(*x) * (right - left)).collect();
        for series in &self.series {
            let places: Vec<(f64, f64)> =
                series.points.iter().map(|point| self.place(point.x, point.y)).collect();
            obstacles.add_curve(&places);
            if series.style == Style::Measured {
                obstacles.areas.extend(places.iter().map(|&(x, y)| [x - 5.0, y - 5.0, x + 5.0, y + 5.0]));
            }
        }
        let points = self.series.iter().flat_map(|series| &series.points);
        let labels: Vec<Markup> = points
            .filter(|point| self.x.ticks().contains(&point.x))
            .filter_map(|point| {
                let (low, high) = point.interval.unwrap_or((point.y, point.y));
                let (x, top) = self.place(point.x, high.max(point.y));
                obstacles.place(x, (top, self.place(point.x, low.min(point.y)).1), &point.label)
            })
            .collect();
        html! { @for label in &labels { (label) } }
    }
}

/// The shape of a point, which distinguishes series without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// ●
    Circle,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ◆
    Diamond,
    /// ▼
    TriangleDown,
}

impl Mark {
    /// Returns the shape of series `index`.
    pub fn of_series(index: usize) -> Self {
        [Self::Circle, Self::Square, Self::Triangle, Self::Diamond, Self::TriangleDown][index % 5]
    }

    /// Draws the shape around a position.
    pub fn draw(self, x: f64, y: f64) -> Markup {
        let corners: &[(f64, f64)] = match self {
            Self::Circle => return html! { circle class="mark" cx=(at(x)) cy=(at(y)) r="4.5" {} },
            Self::Square => &[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)],
            Self::Triangle => &[(0.0, -5.5), (5.0, 4.0), (-5.0, 4.0)],
            Self::Diamond => &[(0.0, -6.0), (5.0, 0.0), (0.0, 6.0), (-5.0, 0.0)],
            Self::TriangleDown => &[(0.0, 5.5), (5.0, -4.0), (-5.0, -4.0)],
        };
        let points: Vec<String> =
            corners.iter().map(|&(dx, dy)| format!("{},{}", at(x + dx), at(y + dy))).collect();
        html! { polygon class="mark" points=(points.join(" ")) {} }
    }
}

/// Draws the sample of a series for a legend.
pub fn legend_sample(style: Style, mark: Mark, colour_of: usize) -> Markup {
    html! {
        svg viewBox="0 0 32 16" aria-hidden="true" {
            g class=(colour(colour_of)) {
                (line(style.class(), (1.0, 8.0), (31.0, 8.0)))
                @if style == Style::Measured { (mark.draw(16.0, 8.0)) }
            }
        }
    }
}
