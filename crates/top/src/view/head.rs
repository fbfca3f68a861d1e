//! The first row: the machine and the moment; and the row with the names of the views.

use super::{RecorderState, View, ViewScreen, pen::Pen};
use manycore_text::{names::printable, units};
use ratatui::{
    layout::Rect,
    style::{Modifier, Style},
};
use unicode_width::UnicodeWidthStr;

/// A part of the head. Those with the largest `drop` are left out first where room is short.
struct HeadPart {
    text: String,
    drop: u8,
    style: Style,
}

impl View {
    pub(super) fn draw_head(&self, pen: &mut Pen<'_>) {
        let bar = pen.theme.bar();
        let mut parts = self.head_parts(bar, pen.theme.chosen());
        let width = |parts: &[HeadPart]| -> usize { parts.iter().map(|part| part.text.width() + 2).sum() };
        while width(&parts) > usize::from(pen.area.width) + 1 && parts.len() > 1 {
            let most = parts.iter().map(|part| part.drop).max().unwrap_or(0);
            let Some(at) = parts.iter().rposition(|part| part.drop == most) else { break };
            parts.remove(at);
        }
        pen.fill(0, bar);
        let mut x = 0;
        for part in parts {
            x = pen.text(x, 0, &part.text, part.style) + 2;
        }
    }

    fn head_parts(&self, bar: Style, chosen: Style) -> Vec<HeadPart> {
        let mut parts = Vec::new();
        let mut add = |text: String, drop, style| parts.push(HeadPart { text, drop, style });
        let picture = &self.picture;
        if let Some(text) = self.moment_text() {
            add(format!(" {text} "), 0, chosen);
        }
        match &self.moment.recorder {
            RecorderState::Off => {}
            RecorderState::Recording => add("recording".to_owned(), 2, bar),
            RecorderState::Failed(why) => add(format!(" RECORDING FAILED: {} ", printable(why)), 0, chosen),
        }
        let host = self.machine.system.hostname.as_deref().map_or("this host".to_owned(), printable);
        add(host, 3, bar.add_modifier(Modifier::BOLD));
        if picture.unix_ms > 0 {
            add(clock(picture.unix_ms, self.options.utc_offset), 3, bar);
        }
        let shares = || picture.cpus.iter().filter_map(|one| one.shares);
        let busy: f64 = shares().map(|shares| shares.busy()).sum();
        if picture.seconds > 0.0 {
            let text = format!("{busy:.1} of {} CPUs", picture.cpus.len());
            add(text, 1, bar.add_modifier(Modifier::BOLD));
        } else {
            add("first sample ...".to_owned(), 1, bar);
        }
        let counts = [(picture.runnable, "runnable", 2), (picture.blocked, "blocked", 7)];
        for (count, name, drop) in counts {
            if let Some(count) = count {
                add(format!("{count} {name}"), drop, bar);
            }
        }
        if let Some(wait) = picture.wait() {
            add(format!("{wait:.1} waiting"), 4, bar);
        }
        if let Some((total, available)) = picture.memory_kib {
            // Two parts, so that the total can be left out.
            add(format!("{} available", units::bytes(available << 10)), 5, bar);
            add(format!("of {}", units::bytes(total << 10)), 9, bar);
        }
        let steal: f64 = shares().map(|shares| shares.steal).sum();
        let of_all = steal / picture.cpus.len().max(1) as f64;
        if picture.seconds > 0.0 {
            add(format!("steal {:.1} %", of_all * 100.0), if of_all >= 0.01 { 2 } else { 8 }, bar);
            add(format!("{} s", (picture.seconds * 10.0).round() / 10.0), 10, bar);
        }
        add(self.options.source.name().to_owned(), 8, bar);
        parts
    }

    /// Returns which moment is shown; `None` for the last interval of the running system.
    fn moment_text(&self) -> Option<String> {
        let moment = &self.moment;
        if self.picture.is_since_boot {
            return Some("MEANS SINCE BOOT".to_owned());
        }
        let mut text = String::new();
        if let Some(name) = &moment.recording {
            text.push_str("REPLAY ");
            text.push_str(&printable(name));
            if let Some((at, count)) = moment.position {
                text.push_str(&format!(" {at}/{count}"));
            }
        }
        if moment.is_paused {
            text.push_str(if text.is_empty() { "PAUSED" } else { " PAUSED" });
        }
        if moment.behind_seconds >= 0.5 {
            text.push_str(&format!(" -{:.0} s", moment.behind_seconds));
        }
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn draw_tabs(&mut self, pen: &mut Pen<'_>) {
        let found = match self.findings.len() {
            0 => String::new(),
            count => format!(" ({count})"),
        };
        let names: usize = ViewScreen::ALL.iter().map(|screen| "1 ".len() + screen.name().len()).sum();
        let room = usize::from(pen.area.width).checked_sub(names + found.len());
        let gaps = ViewScreen::ALL.len() - 1;
        let is_short = room.is_none_or(|room| room < gaps);
        let gap = if room.is_some_and(|room| (gaps..2 * gaps).contains(&room)) { 1 } else { 2 };
        let mut x = 0;
        for (at, screen) in ViewScreen::ALL.into_iter().enumerate() {
            let is_shown = self.screen == screen;
            let style = if is_shown { pen.theme.chosen() } else { pen.theme.label() };
            let from = x;
            let mark = if screen == ViewScreen::Findings { found.as_str() } else { "" };
            let text = if is_short && !is_shown {
                format!("{}{mark}", at + 1)
            } else {
                format!("{} {}{mark}", at + 1, screen.name())
            };
            let style = if mark.is_empty() || is_shown { style } else { pen.theme.warning() };
            x = pen.text(x, 0, &text, style);
            let place = Rect { x: pen.area.x + from, width: x - from, ..pen.area };
            self.places.tabs.push((place, screen));
            x = (x + gap).min(pen.area.width);
        }
    }
}

/// Formats a moment as time of day.
fn clock(unix_ms: u64, utc_offset: i32) -> String {
    let seconds = (unix_ms / 1000).saturating_add_signed(utc_offset.into()) % 86_400;
    let zone = if utc_offset == 0 { " UTC" } else { "" };
    format!("{:02}:{:02}:{:02}{zone}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
