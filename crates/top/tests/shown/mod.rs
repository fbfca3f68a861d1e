//! A view, and what it draws.
#![allow(dead_code, reason = "each test uses a part")]

use crate::pictures;
use manycore_top::view::{View, ViewEvent, ViewKey, ViewOptions};
use manycore_topology::Machine;
use ratatui::{buffer::Buffer, layout::Rect};
use unicode_width::UnicodeWidthStr;

pub fn view_of(machine: &Machine, options: ViewOptions) -> View {
    let mut view = View::new(machine, options);
    let mut picture = pictures::picture(machine, 200, 7);
    pictures::add_resources(&mut picture, machine);
    view.update(picture.clone());
    view.update(picture);
    view
}

pub fn server() -> View {
    view_of(&pictures::server(2, 2), ViewOptions::default())
}

pub fn buffer(view: &mut View, width: u16, height: u16) -> Buffer {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    view.draw(&mut buffer, area);
    buffer
}

/// Returns the screen as text, without blanks at the ends of rows.
pub fn screen(view: &mut View, width: u16, height: u16) -> String {
    let buffer = buffer(view, width, height);
    let mut text = String::new();
    for row in buffer.content.chunks(width.into()) {
        let mut line = String::new();
        let mut hidden = 0;
        for cell in row {
            if hidden == 0 {
                line.push_str(cell.symbol());
                hidden = cell.symbol().width().saturating_sub(1);
            } else {
                hidden -= 1;
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub fn press(view: &mut View, keys: &str) {
    keys.chars().for_each(|key| view.handle(ViewEvent::Key(ViewKey::Char(key))));
}

pub fn key(view: &mut View, key: ViewKey) {
    view.handle(ViewEvent::Key(key));
}

/// Returns the place of a text on the screen.
pub fn place_of(text: &str, what: &str) -> (u16, u16) {
    let (y, line) = text.lines().enumerate().find(|(_, line)| line.contains(what)).unwrap();
    let x = line.split(what).next().unwrap().width();
    (x as u16, y as u16)
}

/// Returns the rows of the table of tasks below its titles.
pub fn task_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|line| line.contains("NAME") && line.contains("CPU%")).unwrap();
    lines[head + 1..lines.len() - 1].iter().copied().filter(|line| !line.trim().is_empty()).collect()
}
