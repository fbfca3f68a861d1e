//! The terminal while the view is shown: its state is restored on every way out.

use manycore_top::view::View;
use ratatui::{
    backend::{Backend, CrosstermBackend},
    buffer::Buffer,
    crossterm::{
        cursor, execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
    layout::Rect,
};
use std::{
    io::{self, BufWriter, Stdout, Write, stdout},
    mem, panic,
    sync::Once,
};

/// Reports presses of buttons and the wheel, with coordinates beyond 223; not movements.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";

/// The terminal in raw mode with its alternate screen, and what is on it.
///
/// Not a `ratatui::Terminal`: that one asks for the position of the cursor whenever it clears the screen, and waits two
/// seconds for terminals that do not answer.
pub(super) struct ScreenGuard {
    backend: CrosstermBackend<BufWriter<Stdout>>,
    shown: Buffer,
    next: Buffer,
}

impl ScreenGuard {
    /// Takes the terminal.
    pub fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let report = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                let _ = restore();
                report(info);
            }));
        });
        let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 16, stdout()));
        let mut guard = Self { backend, shown: Buffer::default(), next: Buffer::default() };
        guard.enter_again()?;
        Ok(guard)
    }

    /// Takes the terminal again, and forgets what is on it. The modes are set even if they seem to be: a shell changes them
    /// while this process is stopped. In the background, that stops this process until it is continued in the foreground.
    pub fn enter_again(&mut self) -> io::Result<()> {
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        stdout().write_all(MOUSE_ON)?;
        stdout().flush()?;
        self.shown = Buffer::default();
        Ok(())
    }

    /// Gives the terminal back.
    pub fn leave() -> io::Result<()> {
        restore()
    }

    /// Draws the view: writes the cells that have changed; all of them after a change of the size.
    pub fn draw(&mut self, view: &mut View) -> io::Result<()> {
        let area = Rect::from(((0, 0).into(), self.backend.size()?));
        if self.shown.area != area {
            self.shown = Buffer::empty(area);
            self.backend.clear()?;
        }
        self.next.resize(area);
        self.next.reset();
        view.draw(&mut self.next, area);
        self.backend.draw(self.shown.diff(&self.next).into_iter())?;
        Backend::flush(&mut self.backend)?;
        mem::swap(&mut self.shown, &mut self.next);
        Ok(())
    }
}

impl Drop for ScreenGuard {
    fn drop(&mut self) {
        let _ = restore();
    }
}

fn restore() -> io::Result<()> {
    let modes = disable_raw_mode();
    stdout().write_all(MOUSE_OFF)?;
    execute!(stdout(), LeaveAlternateScreen, cursor::Show)?;
    modes
}
