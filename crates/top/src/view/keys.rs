//! What keys do.

use super::{
    CpuMetric, Restriction, TextInput, View, ViewCommand, ViewEvent, ViewKey, ViewScreen,
    task_rows::ColumnKind, theme::ColorDepth,
};
use manycore_text::names::printable;
use std::time::Duration;

/// Intervals between samples that `+` and `-` step through, in milliseconds.
const INTERVALS: [u64; 8] = [200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 30_000];

/// Longest text of a filter or a search, in characters.
const MOST_TEXT: usize = 80;

impl View {
    /// Does what an event means.
    pub fn handle(&mut self, event: ViewEvent) {
        match event {
            ViewEvent::Key(key) => self.handle_key(key),
            ViewEvent::Click(x, y) => self.handle_click(x, y),
            ViewEvent::Wheel(x, y, is_up) => self.handle_wheel(x, y, is_up),
        }
    }

    pub(super) fn handle_key(&mut self, key: ViewKey) {
        self.notice = None;
        if key == ViewKey::Ctrl('c') {
            self.commands.push(ViewCommand::Quit);
        } else if self.input.is_some() {
            self.handle_text(key);
        } else if self.help.is_some() {
            self.handle_help(key);
        } else if !(self.handle_common(key) || self.handle_table(key)) && self.screen.has_tasks() {
            self.handle_tasks(key);
        }
    }

    fn handle_text(&mut self, key: ViewKey) {
        let Some(input) = &mut self.input else { return };
        match key {
            ViewKey::Char(letter) if input.text.chars().count() < MOST_TEXT => input.text.push(letter),
            ViewKey::Backspace => drop(input.text.pop()),
            ViewKey::Enter => return self.end_text(),
            ViewKey::Esc => self.input = None,
            ViewKey::Up | ViewKey::Down => {
                self.end_text();
                return self.handle_key(key);
            }
            _ => return,
        }
        match &self.input {
            Some(input) if !input.is_filter => {
                self.searched.clone_from(&input.text);
                self.search(false);
            }
            _ => self.refresh(),
        }
    }

    fn end_text(&mut self) {
        let Some(input) = self.input.take() else { return };
        if input.is_filter {
            self.restrictions.retain(|one| !matches!(one, Restriction::Filter(_)));
            if !input.text.is_empty() {
                self.restrictions.push(Restriction::Filter(input.text));
            }
        }
        self.refresh();
    }

    /// Selects the next row with the text that was searched last.
    fn search(&mut self, is_next: bool) {
        let text = self.searched.clone();
        if text.is_empty() {
            return;
        }
        let (state, rows) = self.current_table();
        match state.find(rows, &text, is_next) {
            Some(at) => (state.cursor, state.is_following) = (Some(at), true),
            None => self.notice = Some(format!("No row has \"{}\"", printable(&text))),
        }
    }

    fn handle_help(&mut self, key: ViewKey) {
        let first = self.help.unwrap_or(0);
        self.help = match key {
            ViewKey::Down => Some(first.saturating_add(1)),
            ViewKey::PageDown => Some(first.saturating_add(10)),
            ViewKey::Up => Some(first.saturating_sub(1)),
            ViewKey::PageUp => Some(first.saturating_sub(10)),
            _ => None,
        };
        if key == ViewKey::Char('q') || key == ViewKey::F(10) {
            self.commands.push(ViewCommand::Quit);
        }
    }

    /// Does what keys of all views do; returns false for other keys.
    fn handle_common(&mut self, key: ViewKey) -> bool {
        match key {
            ViewKey::Char('q') | ViewKey::F(10) => self.commands.push(ViewCommand::Quit),
            ViewKey::Ctrl('z') => self.commands.push(ViewCommand::Suspend),
            ViewKey::Ctrl('l') => self.commands.push(ViewCommand::Redraw),
            ViewKey::Char('?' | 'h') | ViewKey::F(1) => self.help = Some(0),
            ViewKey::Char(digit @ '1'..='8') => self.show(ViewScreen::ALL[digit as usize - '1' as usize]),
            ViewKey::Tab => self.show(ViewScreen::ALL[(self.screen.index() + 1) % 8]),
            ViewKey::BackTab => self.show(ViewScreen::ALL[(self.screen.index() + 7) % 8]),
            ViewKey::Char(' ') => self.commands.push(ViewCommand::Pause(!self.moment.is_paused)),
            ViewKey::Left => self.commands.push(ViewCommand::Step(-1)),
            ViewKey::Right => self.commands.push(ViewCommand::Step(1)),
            ViewKey::Char('B') => self.commands.push(ViewCommand::Step(-10)),
            ViewKey::Char('F') => self.commands.push(ViewCommand::Step(10)),
            ViewKey::Home => self.commands.push(ViewCommand::First),
            ViewKey::End => self.commands.push(ViewCommand::Last),
            ViewKey::Char('+' | '=') => self.change_interval(false),
            ViewKey::Char('-') => self.change_interval(true),
            ViewKey::Char('L') => self.options.theme.is_light ^= true,
            ViewKey::Char('a') => self.options.is_ascii ^= true,
            ViewKey::Char('c') => self.switch_colors(),
            ViewKey::Esc => self.undo(),
            _ => return false,
        }
        true
    }

    fn switch_colors(&mut self) {
        let is_colored = self.options.theme.is_colored();
        self.options.theme.depth = if is_colored { ColorDepth::None } else { ColorDepth::Ansi256 };
    }

    fn change_interval(&mut self, is_longer: bool) {
        let now = self.options.interval.as_millis() as u64;
        let other = if is_longer {
            INTERVALS.into_iter().find(|&ms| ms > now)
        } else {
            INTERVALS.into_iter().rev().find(|&ms| ms < now)
        };
        if let Some(ms) = other {
            self.options.interval = Duration::from_millis(ms);
            self.commands.push(ViewCommand::Interval(self.options.interval));
            self.notice = Some(format!("Interval: {} s", ms as f64 / 1e3));
        }
    }

    /// Undoes the last restriction; without one, the selection.
    fn undo(&mut self) {
        if let Some(undone) = self.restrictions.pop() {
            if let Restriction::Process(_, _, true) = undone {
                self.tasks.is_by_process = true;
            }
            self.stepped = self.stepped.filter(|_| self.chosen_cpus().is_some());
            self.refresh();
        } else if self.screen.has_tasks() {
            self.tasks.deselect();
        } else {
            self.current_table().0.cursor = None;
        }
    }

    /// Does what keys of all tables do; returns false for other keys.
    fn handle_table(&mut self, key: ViewKey) -> bool {
        let (state, _) = self.current_table();
        let (page, all) = (state.page.max(1) as isize, isize::MAX);
        match key {
            ViewKey::Up => self.move_cursor(-1),
            ViewKey::Down => self.move_cursor(1),
            ViewKey::PageUp => self.move_cursor(-page),
            ViewKey::PageDown => self.move_cursor(page),
            ViewKey::Char('g') => self.move_cursor(-all),
            ViewKey::Char('G') => self.move_cursor(all),
            ViewKey::Char('/') | ViewKey::F(4) => self.begin_text(true),
            ViewKey::Char('s') | ViewKey::F(3) => self.begin_text(false),
            ViewKey::Char('n') => self.search(true),
            ViewKey::Char('>' | '.') | ViewKey::F(6) => self.sort_by_next(1),
            ViewKey::Char('<' | ',') => self.sort_by_next(-1),
            ViewKey::Char('r' | 'I') => {
                self.current_table().0.is_reversed ^= true;
                self.refresh();
            }
            _ => return false,
        }
        true
    }

    fn begin_text(&mut self, is_filter: bool) {
        let text = if is_filter { self.filter() } else { String::new() };
        self.input = Some(TextInput { is_filter, text });
    }

    fn move_cursor(&mut self, by: isize) {
        match self.screen {
            ViewScreen::Findings => {
                let last = self.findings.len().saturating_sub(1);
                self.skipped_findings = self.skipped_findings.saturating_add_signed(by).min(last);
            }
            // Drawing limits it.
            ViewScreen::Latency => self.skipped_rows = self.skipped_rows.saturating_add_signed(by),
            _ => self.current_table().0.move_cursor(by),
        }
    }

    fn sort_by_next(&mut self, by: isize) {
        let shown: Vec<usize> = self.places.table.columns.iter().map(|place| place.column).collect();
        let sort = self.current_table().0.sort;
        let at = shown.iter().position(|&column| Some(column) == sort);
        let count = shown.len() as isize;
        if count > 0 {
            let to = at.map_or(0, |at| (at as isize + by).rem_euclid(count));
            self.sort_by(shown[to as usize]);
        }
    }

    /// Sorts the table by a column; by the same again reverses it.
    pub(super) fn sort_by(&mut self, column: usize) {
        if self.screen.has_tasks() {
            self.tasks.sort_by(column);
        } else {
            self.current_table().0.sort_by(column);
        }
        self.refresh();
    }

    fn handle_tasks(&mut self, key: ViewKey) {
        match key {
            ViewKey::Char('m') => self.set_metric(self.metric().next(1)),
            ViewKey::Char('M') => self.set_metric(self.metric().next(CpuMetric::ALL.len() - 1)),
            ViewKey::Char('d') => self.has_memory_by_node ^= true,
            ViewKey::Char('u') => self.step_level(),
            ViewKey::Char('[') => self.step_unit(-1),
            ViewKey::Char(']') => self.step_unit(1),
            ViewKey::Enter => return self.enter(),
            ViewKey::Char('H') => self.tasks.is_by_process ^= true,
            ViewKey::Char('t') | ViewKey::F(5) => self.tasks.is_tree ^= true,
            ViewKey::Char('K') => self.tasks.has_no_kernel ^= true,
            ViewKey::Char('o') => self.tasks.columns = self.tasks.columns.other(),
            ViewKey::Char('P') => self.tasks.sort_by_kind(ColumnKind::Run),
            ViewKey::Char('W') => self.tasks.sort_by_kind(ColumnKind::Wait),
            ViewKey::Char('N') => self.tasks.sort_by_kind(ColumnKind::Pid),
            ViewKey::Char('R') => self.tasks.sort_by_kind(ColumnKind::Resident),
            _ => return,
        }
        self.refresh();
    }

    /// Shows the threads of the selected process.
    pub(super) fn enter(&mut self) {
        let Some(row) = self.tasks.selected() else { return };
        let (pid, name) = (row.pid, row.name.printable());
        if !self.restrictions.iter().any(|one| matches!(one, Restriction::Process(..))) {
            let was_by_process = std::mem::take(&mut self.tasks.is_by_process);
            self.restrictions.push(Restriction::Process(pid, name, was_by_process));
            self.refresh();
        }
    }

    /// Chooses the next outer level for `[` and `]`, from CPUs on.
    fn step_level(&mut self) {
        let last = self.levels.levels.len() - 1;
        let level = self.stepped.map_or(last, |(level, _)| level);
        self.choose_unit(if level == 0 { last } else { level - 1 }, 0);
    }

    fn step_unit(&mut self, by: isize) {
        match self.stepped {
            Some((level, unit)) => {
                let count = self.levels.levels[level].units.len() as isize;
                self.choose_unit(level, (unit as isize + by).rem_euclid(count) as usize);
            }
            None => self.choose_unit(self.levels.levels.len() - 1, 0),
        }
    }

    fn choose_unit(&mut self, level: usize, unit: usize) {
        self.stepped = Some((level, unit));
        let level = &self.levels.levels[level];
        let Some(cpus) = level.units.get(unit).cloned() else { return };
        let name = level.unit_name(unit);
        self.restrictions.retain(|one| !matches!(one, Restriction::Unit(..)));
        self.restrictions.push(Restriction::Unit(name, cpus));
    }
}
