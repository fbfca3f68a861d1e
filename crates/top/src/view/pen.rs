//! Writes text and bars into cells of the terminal, never beyond an area.

use super::theme::Theme;
use ratatui::{buffer::Buffer, layout::Rect, style::Style};
use unicode_width::UnicodeWidthStr;

/// A part of the screen, its colours and characters.
#[derive(Debug)]
pub(super) struct Pen<'a> {
    pub buffer: &'a mut Buffer,
    pub area: Rect,
    pub theme: Theme,
    /// Whether only ASCII characters are written.
    pub is_ascii: bool,
}

impl Pen<'_> {
    /// Returns a pen for a part of the area; the part is cut to it.
    pub fn part(&mut self, area: Rect) -> Pen<'_> {
        let area = area.intersection(self.area);
        Pen { buffer: self.buffer, area, theme: self.theme, is_ascii: self.is_ascii }
    }

    /// Returns a pen for `rows` rows from `top`, counted from 0.
    pub fn rows(&mut self, top: u16, rows: u16) -> Pen<'_> {
        let left = self.area.height.saturating_sub(top);
        let y = self.area.y.saturating_add(top);
        let area = Rect { y, height: rows.min(left), ..self.area };
        if top >= self.area.height {
            return self.part(Rect::default());
        }
        self.part(area)
    }

    /// Returns whether nothing can be written.
    pub fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// Writes a text at a column and row of the area, in at most `width` columns. Returns the column after it.
    pub fn text_within(&mut self, x: u16, y: u16, text: &str, width: u16, style: Style) -> u16 {
        if y >= self.area.height || x >= self.area.width {
            return x;
        }
        let most = width.min(self.area.width - x);
        let (at_x, at_y) = (self.area.x + x, self.area.y + y);
        let (end, _) = if self.is_ascii && !text.is_ascii() {
            self.buffer.set_stringn(at_x, at_y, ascii(text), most.into(), style)
        } else {
            self.buffer.set_stringn(at_x, at_y, text, most.into(), style)
        };
        end - self.area.x
    }

    /// Writes a text up to the end of the row.
    pub fn text(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        self.text_within(x, y, text, u16::MAX, style)
    }

    /// Writes a text that ends at column `end`; cut on its right if it is wider than `width`.
    pub fn text_right(&mut self, end: u16, y: u16, text: &str, width: u16, style: Style) {
        let wide = (text.width() as u16).min(width);
        self.text_within(end.saturating_sub(wide), y, text, wide, style);
    }

    /// Sets the style of a whole row, and of its blanks.
    pub fn fill(&mut self, y: u16, style: Style) {
        if y < self.area.height {
            self.buffer.set_style(Rect { y: self.area.y + y, height: 1, ..self.area }, style);
        }
    }

    /// Writes a bar of `width` columns whose parts have these shares of it. Without colours, parts differ by their
    /// characters.
    pub fn bar(&mut self, x: u16, y: u16, width: u16, parts: &[(f64, char, Style)]) {
        let (mut sum, mut from) = (0.0, 0u16);
        for (share, letter, style) in parts {
            sum += share.max(0.0);
            let to = ((sum * f64::from(width)).round().min(f64::from(width))) as u16;
            let block = if self.theme.is_colored() && !self.is_ascii { '■' } else { *letter };
            for at in from..to {
                self.text(x + at, y, block.encode_utf8(&mut [0; 4]), *style);
            }
            from = to.max(from);
        }
        let dot = if self.is_ascii { "." } else { "·" };
        for at in from..width {
            self.text(x + at, y, dot, self.theme.dim());
        }
    }
}

/// Replaces characters that are not ASCII: those of our own texts by similar ones, those of names by `?`.
fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '≥' => plain.push('>'),
            '│' | '┃' => plain.push('|'),
            '├' | '└' => plain.push('`'),
            '─' | '…' => plain.push('-'),
            '▲' => plain.push('^'),
            '▼' => plain.push('v'),
            '°' => {}
            _ if letter.is_ascii() => plain.push(letter),
            _ => plain.push_str(&"?".repeat(letter.to_string().width())),
        }
    }
    plain
}

/// Characters of heat from none to most.
pub(super) fn heat_letter(share: f64, is_ascii: bool) -> char {
    const PLAIN: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let at = |count: usize| ((share.clamp(0.0, 1.0) * count as f64) as usize).min(count - 1);
    if is_ascii { PLAIN[at(PLAIN.len())] } else { BLOCKS[at(BLOCKS.len())] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::theme::ColorDepth;

    #[test]
    fn text_stays_in_its_area() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 3));
        let theme = Theme { depth: ColorDepth::None, is_light: false };
        let mut pen = Pen { buffer: &mut buffer, area: Rect::new(2, 1, 5, 1), theme, is_ascii: true };
        assert_eq!(pen.text(3, 0, "数据库", Style::new()), 5);
        pen.text(0, 1, "below", Style::new());
        pen.text(9, 0, "right", Style::new());
        pen.text_right(3, 0, "longer", 3, Style::new());
        let rows: Vec<String> = buffer
            .content
            .chunks(10)
            .map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect())
            .collect();
        assert_eq!(rows, ["          ", "  lon??   ", "          "]);
    }
}
