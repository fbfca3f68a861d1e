//! Keys and the mouse, as events of the view. The example `view` of `manycore-top` includes this file.

use manycore_top::view::{ViewEvent, ViewKey};
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

/// Returns the event; `None` for one that means nothing to the view.
pub(super) fn translate(event: &Event) -> Option<ViewEvent> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => translate_key(key).map(ViewEvent::Key),
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => Some(ViewEvent::Click(mouse.column, mouse.row)),
            MouseEventKind::ScrollUp => Some(ViewEvent::Wheel(mouse.column, mouse.row, true)),
            MouseEventKind::ScrollDown => Some(ViewEvent::Wheel(mouse.column, mouse.row, false)),
            _ => None,
        },
        _ => None,
    }
}

fn translate_key(key: &KeyEvent) -> Option<ViewKey> {
    Some(match key.code {
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(letter) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            ViewKey::Ctrl(letter.to_ascii_lowercase())
        }
        KeyCode::Char(letter) => ViewKey::Char(letter),
        KeyCode::F(number) => ViewKey::F(number),
        KeyCode::Enter => ViewKey::Enter,
        KeyCode::Esc => ViewKey::Esc,
        KeyCode::Backspace => ViewKey::Backspace,
        KeyCode::Tab => ViewKey::Tab,
        KeyCode::BackTab => ViewKey::BackTab,
        KeyCode::Up => ViewKey::Up,
        KeyCode::Down => ViewKey::Down,
        KeyCode::Left => ViewKey::Left,
        KeyCode::Right => ViewKey::Right,
        KeyCode::Home => ViewKey::Home,
        KeyCode::End => ViewKey::End,
        KeyCode::PageUp => ViewKey::PageUp,
        KeyCode::PageDown => ViewKey::PageDown,
        _ => return None,
    })
}
