//! The last row, with the keys; and the row above it, with what limits the table or is being typed.

use super::{Restriction, TextInput, View, ViewKey, ViewScreen, pen::Pen};
use manycore_text::{names::printable, units};
use ratatui::layout::Rect;

/// A key at the foot: what is written, what it does, and the key.
type FootKey = (&'static str, &'static str, ViewKey);

const HELP: FootKey = ("?", "Help", ViewKey::Char('?'));
const QUIT: FootKey = ("q", "Quit", ViewKey::Char('q'));
const PAUSE: FootKey = ("Space", "Pause", ViewKey::Char(' '));
const NEXT: FootKey = ("Tab", "View", ViewKey::Tab);
const BACK: FootKey = ("\u{2190}", "Back in time", ViewKey::Left);

/// In views without rows to select.
const SCROLL: FootKey = ("\u{2193}", "Scroll", ViewKey::Down);

const COLUMNS: FootKey = ("o", "Columns", ViewKey::Char('o'));

const TASKS: [FootKey; 6] = [
    ("/", "Filter", ViewKey::Char('/')),
    ("H", "Threads", ViewKey::Char('H')),
    ("t", "Tree", ViewKey::Char('t')),
    (">", "Sort", ViewKey::Char('>')),
    ("m", "Metric", ViewKey::Char('m')),
    ("d", "Details", ViewKey::Char('d')),
];

const SHEETS: [FootKey; 3] = [
    ("/", "Filter", ViewKey::Char('/')),
    (">", "Sort", ViewKey::Char('>')),
    ("r", "Reverse", ViewKey::Char('r')),
];

impl View {
    pub(super) fn draw_foot(&mut self, pen: &mut Pen<'_>) {
        let mut keys = vec![QUIT, HELP];
        match self.screen {
            _ if self.help.is_some() => keys.push(SCROLL),
            ViewScreen::Cpus => keys.extend(TASKS),
            ViewScreen::Tasks => keys.extend(TASKS.iter().filter(|key| key.0 != "m")),
            ViewScreen::Latency | ViewScreen::Findings => keys.push(SCROLL),
            _ => keys.extend(SHEETS),
        }
        keys.extend([PAUSE, NEXT]);
        keys.extend(Some(COLUMNS).filter(|_| self.screen.has_tasks() && self.help.is_none()));
        keys.push(BACK);
        let (bar, label) = (pen.theme.bar(), pen.theme.strong());
        let mut x = 0;
        for (key, name, press) in keys {
            let key = match press {
                ViewKey::Left if pen.is_ascii => "Left",
                ViewKey::Down if pen.is_ascii => "Down",
                _ => key,
            };
            let name = match (press, self.moment.is_paused, self.tasks.is_by_process) {
                (ViewKey::Char(' '), true, _) => "Go on",
                (ViewKey::Char('H'), _, false) => "Processes",
                _ => name,
            };
            let width = (key.chars().count() + name.len() + 1) as u16;
            if x + width > pen.area.width {
                break;
            }
            let from = x;
            x = pen.text(x, 0, key, label);
            x = pen.text(x, 0, name, bar);
            self.places.keys.push((Rect { x: pen.area.x + from, width: x - from, ..pen.area }, press));
            x += 1;
        }
    }

    /// Returns whether the view has a table with fewer rows because of a restriction.
    fn limits(&self, restriction: &Restriction) -> bool {
        match self.screen {
            ViewScreen::Cpus | ViewScreen::Tasks => true,
            ViewScreen::Findings | ViewScreen::Latency => false,
            _ => matches!(restriction, Restriction::Filter(_)),
        }
    }

    /// Draws what limits the table, the text that is being typed, or what the last key did, in the last row of the area.
    /// Returns the number of rows that this needs.
    pub(super) fn draw_status(&mut self, pen: &mut Pen<'_>) -> u16 {
        let height = pen.area.height;
        let text = self.input.as_ref().map_or_else(|| self.limits_text(), TextInput::prompt);
        if height < 2 || text.is_empty() && self.notice.is_none() {
            return 0;
        }
        let mut line = pen.rows(height - 1, 1);
        let shown =
            if self.screen.has_tasks() { self.tasks.shown() } else { self.current_table().0.order.len() };
        let more = self.notice.clone().unwrap_or_else(|| units::counted(shown, "row"));
        let x = line.text(0, 0, &text, line.theme.warning());
        line.text(x + u16::from(x > 0), 0, &more, line.theme.dim());
        1
    }

    /// Returns what limits the table; empty if nothing does.
    fn limits_text(&self) -> String {
        let limits: Vec<String> =
            self.restrictions.iter().filter(|one| self.limits(one)).map(Restriction::text).collect();
        if limits.is_empty() { String::new() } else { format!("Only {} (Esc: undo)", limits.join(", ")) }
    }
}

impl TextInput {
    fn prompt(&self) -> String {
        let what = if self.is_filter { "Filter" } else { "Search" };
        format!("{what}: {}_ (Enter: keep, Esc: undo)", printable(&self.text))
    }
}

impl Restriction {
    fn text(&self) -> String {
        match self {
            Self::Filter(text) => format!("with \"{}\"", printable(text)),
            Self::Unit(name, cpus) if cpus.len() == 1 => format!("tasks last on {name}"),
            Self::Unit(name, cpus) => format!("tasks last on {name} (CPUs {})", cpus.within(24)),
            Self::Process(pid, name, _) => format!("threads of {pid} {name}"),
        }
    }
}
