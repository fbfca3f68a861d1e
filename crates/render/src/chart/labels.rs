//! Places for the labels of points, where no line of the grid, no curve and no other label crosses them.

use crate::chart::{WIDTH, small_width, text};
use maud::Markup;

/// Height of a label above and below its baseline.
const ABOVE: f64 = 9.5;
const BELOW: f64 = 2.5;

/// Distances of the baseline from the point's upper end, and from its lower end, nearest first.
const UP: std::ops::RangeInclusive<i32> = 8..=26;
const DOWN: std::ops::RangeInclusive<i32> = 16..=32;

/// A rectangle: left, top, right, bottom.
type Area = [f64; 4];

/// What labels must not touch.
#[derive(Default)]
pub(super) struct Obstacles {
    /// Positions of horizontal lines.
    pub(super) horizontal: Vec<f64>,
    /// Positions of vertical lines.
    pub(super) vertical: Vec<f64>,
    /// Points along curves.
    pub(super) curves: Vec<(f64, f64)>,
    /// Labels, marks and whiskers that are already placed.
    pub(super) areas: Vec<Area>,
    /// The upper and lower end of the drawing.
    pub(super) ends: (f64, f64),
}

impl Obstacles {
    /// Returns the label of a point at `x` whose mark and whisker reach from `top` to `bottom`. `None` where there is
    /// no free place: a label across a line is harder to read than the table.
    pub(super) fn place(&mut self, x: f64, (top, bottom): (f64, f64), words: &str) -> Option<Markup> {
        if words.is_empty() {
            return None;
        }
        let heights = || UP.map(|up| top - f64::from(up)).chain(DOWN.map(|down| bottom + f64::from(down)));
        let sides = [("middle", 0.0), ("end", -7.0), ("start", 7.0)];
        let places =
            || sides.iter().flat_map(|&(anchor, aside)| heights().map(move |y| (anchor, x + aside, y)));
        let width = small_width(words);
        let area = |(anchor, x, y): (&str, f64, f64)| {
            let left = match anchor {
                "start" => x,
                "end" => x - width,
                _ => x - width / 2.0,
            };
            [left, y - ABOVE, left + width, y + BELOW]
        };
        let free = |curves: bool| places().find(|&place| self.is_free(area(place), curves));
        let (anchor, x, y) = free(true).or_else(|| free(false))?;
        self.areas.push(area((anchor, x, y)));
        Some(text(x, y, anchor, "small halo", words))
    }

    fn is_free(&self, area: Area, curves: bool) -> bool {
        let [left, top, right, bottom] = area;
        let crosses = |&[x0, y0, x1, y1]: &Area| left < x1 && x0 < right && top < y1 && y0 < bottom;
        left >= 0.0
            && right <= WIDTH
            && top >= self.ends.0
            && bottom <= self.ends.1
            && !self.horizontal.iter().any(|&y| top <= y && y <= bottom)
            && !self.vertical.iter().any(|&x| left <= x && x <= right)
            && !self.areas.iter().any(crosses)
            && !(curves
                && self.curves.iter().any(|&(x, y)| left <= x && x <= right && top <= y && y <= bottom))
    }

    /// Adds a curve through these points.
    pub(super) fn add_curve(&mut self, places: &[(f64, f64)]) {
        const STEP: f64 = 3.0;
        for ends in places.windows(2) {
            let ((x0, y0), (x1, y1)) = (ends[0], ends[1]);
            let steps = ((x1 - x0).hypot(y1 - y0) / STEP).ceil().max(1.0);
            let along = (0..=steps as usize).map(|step| step as f64 / steps);
            self.curves.extend(along.map(|share| (x0 + (x1 - x0) * share, y0 + (y1 - y0) * share)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obstacles() -> Obstacles {
        Obstacles { ends: (0.0, 300.0), ..Obstacles::default() }
    }

    fn y_of(label: &Markup) -> f64 {
        let text = label.clone().into_string();
        text.split(" y=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .and_then(|y| y.parse().ok())
            .unwrap()
    }

    #[test]
    fn a_label_stands_above_its_point_where_nothing_is_in_the_way() {
        let label = obstacles().place(100.0, (150.0, 150.0), "1.97").unwrap();
        assert_eq!(y_of(&label), 142.0);
    }

    #[test]
    fn no_line_of_the_grid_crosses_a_label() {
        for line in 100..200 {
            let mut with_line = Obstacles { horizontal: vec![f64::from(line)], ..obstacles() };
            let y = y_of(&with_line.place(100.0, (150.0, 150.0), "1.97").unwrap());
            let line = f64::from(line);
            assert!(line < y - ABOVE || line > y + BELOW, "line {line}, label at {y}");
        }
    }

    #[test]
    fn labels_do_not_overlap_and_give_up_where_there_is_no_space() {
        let mut all = obstacles();
        let placed: Vec<Markup> = (0..20).filter_map(|_| all.place(100.0, (150.0, 150.0), "1.97")).collect();
        assert!(placed.len() >= 3 && placed.len() < 20, "{}", placed.len());
        for (index, a) in all.areas.iter().enumerate() {
            for b in &all.areas[..index] {
                assert!(a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1], "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_label_stands_beside_a_vertical_line_through_its_point() {
        let mut all = Obstacles { vertical: vec![100.0], ..obstacles() };
        let label = all.place(100.0, (150.0, 150.0), "55.8").unwrap().into_string();
        assert!(label.contains("text-anchor=\"end\""), "{label}");
    }
}
