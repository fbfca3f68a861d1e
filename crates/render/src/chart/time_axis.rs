//! An axis of time whose ticks have texts, such as times of day.

use crate::chart::{WIDTH, line, small_width, text};
use maud::{Markup, html};

/// An axis of time from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeAxis {
    /// Its name.
    pub name: String,
    /// Its length.
    pub length: f64,
    /// Places and texts of its ticks. Those behind its end are not drawn.
    pub ticks: Vec<(f64, String)>,
}

impl TimeAxis {
    /// Returns the place of a time between the ends of a drawing.
    pub(super) fn across(&self, (left, right): (f64, f64), time: f64) -> f64 {
        left + (time / self.length.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) * (right - left)
    }

    /// Draws the ticks and the name below `y`.
    pub(super) fn draw(&self, ends: (f64, f64), y: f64) -> Markup {
        html! {
            @for (tick, label) in self.ticks.iter().filter(|(tick, _)| (0.0..=self.length).contains(tick)) {
                @let (x, half) = (self.across(ends, *tick), small_width(label) / 2.0);
                (line("axis", (x, y), (x, y + 4.0)))
                (text(x.clamp(half, WIDTH - half), y + 16.0, "middle", "small soft", label))
            }
            (text(WIDTH / 2.0, y + 32.0, "middle", "small soft", &self.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_drawn_up_to_the_end() {
        let ticks =
            [(5.0, "10:00"), (10.0, "10:05"), (11.0, "10:06")].map(|(at, text)| (at, text.to_owned()));
        let axis = TimeAxis { name: "time of day".to_owned(), length: 10.0, ticks: ticks.into() };
        assert_eq!(
            [0.0, 5.0, 10.0, 99.0].map(|time| axis.across((20.0, 120.0), time)),
            [20.0, 70.0, 120.0, 120.0]
        );
        let drawn = axis.draw((20.0, 120.0), 0.0).into_string();
        assert!(drawn.contains("10:00") && drawn.contains("10:05") && !drawn.contains("10:06"), "{drawn}");
        assert!(TimeAxis { length: 0.0, ..axis }.across((0.0, 1.0), 0.0).is_finite());
    }
}
