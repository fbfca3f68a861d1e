//! What the user does, and what the view asks of its caller.

use std::time::Duration;

/// A key or a movement of the mouse, without the library that reads the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewEvent {
    /// A key was pressed.
    Key(ViewKey),
    /// The left button was pressed at a column and a row.
    Click(u16, u16),
    /// The wheel was turned at a column and a row: upwards if true.
    Wheel(u16, u16, bool),
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKey {
    /// A character, upper case with Shift.
    Char(char),
    /// A character with Ctrl.
    Ctrl(char),
    /// A function key.
    F(u8),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
    /// Tab with Shift.
    BackTab,
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewCommand {
    /// End.
    Quit,
    /// Stop the program until it is continued (SIGTSTP).
    Suspend,
    /// Clear the terminal and draw all of it.
    Redraw,
    /// Stop to show new pictures, or go on with the newest.
    Pause(bool),
    /// Use another interval between samples.
    Interval(Duration),
    /// Show the picture that is so many intervals later than the shown one; earlier if negative. Implies a pause.
    Step(i32),
    /// Show the earliest picture that is kept. Implies a pause.
    First,
    /// Show the newest picture, and go on.
    Last,
}

/// Whether the samples are recorded to a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecorderState {
    /// They are not.
    #[default]
    Off,
    /// They are.
    Recording,
    /// The recording ended, for this reason.
    Failed(String),
}

/// Which moment the pictures are of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShownMoment {
    /// Whether new pictures are not shown.
    pub is_paused: bool,
    /// How many seconds the picture is behind the newest one.
    pub behind_seconds: f64,
    /// Name of the recording that is replayed; absent for the running system.
    pub recording: Option<String>,
    /// Number of the picture from 1, and how many there are; absent for the running system.
    pub position: Option<(usize, usize)>,
    /// Whether the samples are recorded.
    pub recorder: RecorderState,
}
