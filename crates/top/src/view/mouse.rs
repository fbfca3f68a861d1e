//! What the mouse does.

use super::{View, ViewKey, ViewScreen};

/// Rows that one step of the wheel scrolls.
const WHEEL: isize = 3;

impl View {
    pub(super) fn handle_click(&mut self, x: u16, y: u16) {
        let at = (x, y).into();
        if let Some((_, key)) = self.places.keys.iter().find(|(place, _)| place.contains(at)) {
            return self.handle_key(*key);
        }
        if let Some((_, screen)) = self.places.tabs.iter().find(|(place, _)| place.contains(at)) {
            let screen = *screen;
            self.help = None;
            return self.show(screen);
        }
        if self.help.is_some() {
            self.help = None;
        } else if self.places.legend.contains(at) {
            self.handle_key(ViewKey::Char('m'));
        } else if let Some(column) = self.places.table.column_at(x, y) {
            self.sort_by(column);
        } else if let Some(line) = self.places.table.row_at(x, y) {
            self.click_row(line);
        } else if self.screen == ViewScreen::Cpus
            && let Some((name, cpus)) = self.map.unit_at(&self.levels, x, y)
        {
            self.stepped = None;
            self.restrict_to_unit(name, cpus);
        }
    }

    /// Selects a row; a second click on a process shows its threads.
    fn click_row(&mut self, line: usize) {
        let (state, _) = self.current_table();
        let position = state.offset + line;
        if position >= state.order.len() {
            return;
        }
        let is_again = state.cursor == Some(position);
        state.cursor = Some(position);
        state.is_following = true;
        if is_again && self.screen.has_tasks() {
            self.enter();
        }
    }

    pub(super) fn handle_wheel(&mut self, x: u16, y: u16, is_up: bool) {
        let by = if is_up { -1 } else { 1 };
        if let Some(first) = self.help {
            self.help = Some(first.saturating_add_signed(by));
        } else if self.screen == ViewScreen::Cpus && self.map.place.contains((x, y).into()) {
            self.handle_key(ViewKey::Char(if is_up { 'M' } else { 'm' }));
        } else if matches!(self.screen, ViewScreen::Latency | ViewScreen::Findings) {
            self.handle_key(if is_up { ViewKey::Up } else { ViewKey::Down });
        } else {
            self.current_table().0.scroll(by as isize * WHEEL);
        }
    }
}
