//! Composes the screen, and remembers where everything is for the mouse.

use super::{
    ShownMoment, View, ViewKey, ViewScreen,
    map::{MapContent, draw_legend},
    pen::Pen,
    sheets,
    table::{self, TablePlace},
};
use ratatui::{buffer::Buffer, layout::Rect};

/// Where things were drawn last.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub table: TablePlace,
    /// Names of the views.
    pub tabs: Vec<(Rect, ViewScreen)>,
    /// Names of keys at the foot.
    pub keys: Vec<(Rect, ViewKey)>,
    /// The row of the legend, which changes the metric.
    pub legend: Rect,
}

/// Rows from which on the names of the views have their own row.
const TABS_FROM: u16 = 14;

impl View {
    /// Draws everything into an area.
    pub fn draw(&mut self, buffer: &mut Buffer, area: Rect) {
        let area = area.intersection(buffer.area);
        let mut pen = Pen { buffer, area, theme: self.options.theme, is_ascii: self.options.is_ascii };
        self.places = Places::default();
        if pen.is_empty() {
            return;
        }
        self.draw_head(&mut pen.rows(0, 1));
        let mut top = 1;
        if area.height >= TABS_FROM {
            self.draw_tabs(&mut pen.rows(1, 1));
            top = 2;
        }
        let foot = u16::from(area.height >= 4);
        if foot > 0 {
            self.draw_foot(&mut pen.rows(area.height - 1, 1));
        }
        let rows = area.height.saturating_sub(top + foot);
        let mut body = pen.rows(top, rows);
        if self.help.is_some() {
            self.draw_help(&mut body);
            return;
        }
        let notes = self.draw_status(&mut body);
        let rows = rows.saturating_sub(notes);
        let mut body = body.rows(0, rows);
        match self.screen {
            ViewScreen::Cpus => self.draw_cpus(&mut body),
            ViewScreen::Tasks => self.draw_tasks(&mut body),
            ViewScreen::Latency => self.draw_latency(&mut body),
            ViewScreen::Findings => self.draw_findings(&mut body),
            _ => self.draw_sheet(&mut body),
        }
    }

    fn draw_cpus(&mut self, pen: &mut Pen<'_>) {
        let (width, height) = (pen.area.width, pen.area.height);
        let legend = u16::from(height >= 8);
        // A table needs its titles and some rows.
        let most = if height < 8 { height.saturating_sub(3).max(1) } else { (height - legend) * 11 / 20 };
        let rows = self.map.rows(&self.levels, width, most);
        let chosen = self.chosen_cpus().cloned();
        let content = MapContent {
            levels: &self.levels,
            values: &self.values,
            picture: &self.picture,
            chosen: chosen.as_ref(),
        };
        if legend > 0 {
            let mut line = pen.rows(0, 1);
            self.places.legend = line.area;
            let without_values = match self.moment.recording {
                Some(_) => ": not in the recording",
                None if self.moment.is_paused => ": not read at this time",
                None if self.pictures < 2 => ": being read",
                None => ": not available on this machine",
            };
            draw_legend(&mut line, &self.map, &content, without_values);
        }
        self.map.draw(&mut pen.rows(legend, rows), &content);
        self.draw_tasks(&mut pen.rows(legend + rows, height.saturating_sub(legend + rows)));
    }

    fn draw_tasks(&mut self, pen: &mut Pen<'_>) {
        let height = pen.area.height;
        let details = if height < 6 { 0 } else { self.detail_rows(height) };
        self.places.table = self.tasks.draw(&mut pen.rows(0, height - details));
        if self.picture.tasks.is_empty() && self.picture.seconds > 0.0 {
            let text = empty_text(self.screen, self.pictures < 2, &self.moment);
            draw_notes(&mut pen.rows(1, height.saturating_sub(1)), &[text.to_owned()]);
        }
        if details > 0 {
            self.draw_details(&mut pen.rows(height - details, details));
        }
    }

    fn draw_latency(&mut self, pen: &mut Pen<'_>) {
        let used = draw_notes(pen, &sheets::latency_notes(&self.machine, &self.picture));
        let left = pen.area.height.saturating_sub(used + 1);
        self.sheets[ViewScreen::Latency.index()].page = left.into();
        self.skipped_rows =
            sheets::draw_latency(&mut pen.rows(used + 1, left), &self.picture, self.skipped_rows);
    }

    fn draw_findings(&mut self, pen: &mut Pen<'_>) {
        self.skipped_findings = self.skipped_findings.min(self.findings.len().saturating_sub(1));
        if self.findings.is_empty() {
            draw_notes(pen, &["No findings.".to_owned()]);
        }
        sheets::draw_findings(pen, &self.findings, self.skipped_findings);
    }

    /// Draws a table of a few rows, and what belongs to it below.
    fn draw_sheet(&mut self, pen: &mut Pen<'_>) {
        let state = &mut self.sheets[self.screen.index()];
        if self.sheet.rows.is_empty() {
            let text = empty_text(self.screen, self.pictures < 2, &self.moment);
            draw_notes(pen, &[text.to_owned()]);
            return;
        }
        let height = pen.area.height;
        if self.screen != ViewScreen::Nodes {
            self.places.table = table::draw(pen, &self.sheet, state, &|_| String::new());
            return;
        }
        let rows = (self.sheet.rows.len() as u16 + 1).min(height);
        self.places.table = table::draw(&mut pen.rows(0, rows), &self.sheet, state, &|_| String::new());
        let mut below = pen.rows(rows + 1, height.saturating_sub(rows + 1));
        let used = sheets::draw_distances(&mut below, &self.machine);
        let left = below.area.height.saturating_sub(used);
        let shown = &self.places.table.columns;
        let is_shown = |title: &str| shown.iter().any(|one| self.sheet.columns[one.column].title == title);
        draw_notes(&mut below.rows(used, left), &sheets::node_notes(&self.picture, is_shown));
    }
}

/// Returns what is said in place of an empty table.
const fn empty_text(screen: ViewScreen, is_reading: bool, moment: &ShownMoment) -> &'static str {
    let is_replay = moment.recording.is_some();
    match screen {
        ViewScreen::Cpus | ViewScreen::Tasks => "None of the chosen tasks exists at this time.",
        ViewScreen::Interrupts if is_replay => {
            "The recording has no interrupts here: they are recorded with --show interrupts."
        }
        ViewScreen::Groups if is_replay => {
            "The recording has no control groups here: they are recorded with --show groups."
        }
        ViewScreen::Nodes if is_replay => "The recording has no nodes.",
        ViewScreen::Guests if is_replay => "The recording has no virtual machines here.",
        _ if moment.is_paused => "Nothing at this time. What only this view shows is read while it is open.",
        _ if is_reading => "Being read: rates need two samples.",
        ViewScreen::Nodes => "This kernel reports no nodes.",
        ViewScreen::Interrupts => "No interrupts were counted.",
        ViewScreen::Groups => {
            "No control groups: neither version 2 nor the controllers cpu and memory of version 1 are mounted."
        }
        ViewScreen::Guests => {
            "No virtual machines are running (processes of QEMU, which libvirt or users started)."
        }
        ViewScreen::Latency | ViewScreen::Findings => "",
    }
}

/// Writes sentences, broken at blanks. Returns the number of rows.
pub(super) fn draw_notes(pen: &mut Pen<'_>, notes: &[String]) -> u16 {
    let mut y = 0;
    let dim = pen.theme.dim();
    for note in notes {
        for line in broken(note, usize::from(pen.area.width.min(120))) {
            pen.text(0, y, &line, dim);
            y += 1;
        }
    }
    y
}

/// Breaks a text at blanks into lines of at most `width` columns, where its words allow it.
pub(super) fn broken(text: &str, width: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| line.width() + 1 + word.width() <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}
