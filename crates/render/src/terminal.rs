//! Where text is shown: the width of its lines, and its colours.
//!
//! Colours come from the fixed part of the palette of 256 colours, since users choose the first 16 themselves: each
//! of ours has a contrast of at least 4 to 1 on black and on white. No meaning is in the colour alone: what is
//! coloured is a word that says the same.

use anstyle::{Ansi256Color, Color, Style};
use unicode_width::UnicodeWidthStr;

/// The meaning of a word, which gives it weight and colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A title, the head of a table, the answer, or a verdict without a direction.
    Strong,
    /// Better, ok.
    Good,
    /// Worse, a problem.
    Bad,
    /// A warning, a risk, something doubtful.
    Warning,
    /// Equivalent, or an advice.
    Info,
}

impl Mark {
    /// All marks.
    pub const ALL: [Self; 5] = [Self::Strong, Self::Good, Self::Bad, Self::Warning, Self::Info];

    /// Returns the style of the mark: always bold, with a colour unless it is [`Mark::Strong`].
    pub const fn style(self) -> Style {
        let bold = Style::new().bold();
        match self.color() {
            Some(color) => bold.fg_color(Some(Color::Ansi256(color))),
            None => bold,
        }
    }

    /// Returns the colour: green, crimson, brown, blue.
    const fn color(self) -> Option<Ansi256Color> {
        match self {
            Self::Strong => None,
            Self::Good => Some(Ansi256Color(28)),
            Self::Bad => Some(Ansi256Color(161)),
            Self::Warning => Some(Ansi256Color(130)),
            Self::Info => Some(Ansi256Color(31)),
        }
    }

    /// Returns the mark of a verdict in a column of verdicts.
    pub fn of_verdict(word: &str) -> Option<Self> {
        Some(match word {
            "better" | "ok" | "holds" => Self::Good,
            "worse" | "NO" | "PROBLEM" => Self::Bad,
            "risk" | "WARNING" | "doubtful" | "partial" | "missing" => Self::Warning,
            "equivalent" => Self::Info,
            "inconclusive" => Self::Strong,
            _ => return None,
        })
    }
}

/// A terminal, or what a file gets in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    columns: usize,
    is_colored: bool,
}

impl Terminal {
    /// Fewer columns are not laid out for: the terminal breaks such lines itself.
    pub const MIN_COLUMNS: usize = 60;

    /// More columns are not used.
    pub const MAX_COLUMNS: usize = 200;

    /// Columns of a file or a pipe.
    pub const FILE_COLUMNS: usize = 100;

    /// Maximum width of a sentence: longer lines are hard to read.
    pub const MAX_SENTENCE: usize = 100;

    /// Returns a terminal of so many columns, limited to those that can be laid out for.
    pub fn new(columns: usize, is_colored: bool) -> Self {
        Self { columns: columns.clamp(Self::MIN_COLUMNS, Self::MAX_COLUMNS), is_colored }
    }

    /// Whether it gets colours.
    pub fn is_colored(self) -> bool {
        self.is_colored
    }

    /// Width of a table, in columns.
    pub fn columns(self) -> usize {
        self.columns
    }

    /// Width of a sentence, in columns.
    pub fn sentence_columns(self) -> usize {
        self.columns.min(Self::MAX_SENTENCE)
    }

    /// Returns `text` in the style of its mark. Without colours, the text is unchanged.
    pub fn paint(self, mark: Option<Mark>, text: &str) -> String {
        match mark.filter(|_| self.is_colored && !text.is_empty()) {
            Some(mark) => {
                let style = mark.style();
                format!("{style}{text}{style:#}")
            }
            None => text.to_owned(),
        }
    }
}

impl Default for Terminal {
    /// A file: 100 columns, no colours.
    fn default() -> Self {
        Self::new(Self::FILE_COLUMNS, false)
    }
}

/// Pads `text` with spaces to `columns` of a terminal.
pub fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of a colour of the 6 x 6 x 6 cube, as WCAG 2 defines it.
    fn luminance(color: Ansi256Color) -> f64 {
        let at = usize::from(color.0 - 16);
        let levels = [0.0, 95.0, 135.0, 175.0, 215.0, 255.0];
        let linear = |level: usize| ((levels[level] / 255.0 + 0.055) / 1.055_f64).powf(2.4);
        let linear = |level: usize| if level == 0 { 0.0 } else { linear(level) };
        0.2126 * linear(at / 36) + 0.7152 * linear(at / 6 % 6) + 0.0722 * linear(at % 6)
    }

    #[test]
    fn colors_are_legible_on_black_and_on_white() {
        for mark in Mark::ALL {
            let Some(color) = mark.color() else { continue };
            let light = luminance(color);
            let (on_white, on_black) = (1.05 / (light + 0.05), (light + 0.05) / 0.05);
            assert!(on_white >= 4.0 && on_black >= 4.0, "{mark:?}: {on_white:.2}, {on_black:.2}");
        }
    }

    #[test]
    fn paint_adds_escapes_with_colors_only() {
        let (plain, colored) = (Terminal::new(80, false), Terminal::new(80, true));
        assert_eq!(plain.paint(Some(Mark::Bad), "worse"), "worse");
        assert_eq!(colored.paint(Some(Mark::Bad), "worse"), "\u{1b}[1m\u{1b}[38;5;161mworse\u{1b}[0m");
        assert_eq!(colored.paint(None, "worse"), "worse");
    }

    #[test]
    fn columns_have_limits_and_sentences_a_lower_one() {
        let columns = |columns| {
            let terminal = Terminal::new(columns, false);
            [terminal.columns(), terminal.sentence_columns()]
        };
        assert_eq!(
            [0, 20, 80, 140, 999].map(columns),
            [[60, 60], [60, 60], [80, 80], [140, 100], [200, 100]]
        );
    }

    #[test]
    fn padding_counts_columns() {
        assert_eq!(padded("\u{6570}\u{636e}\u{5e93}", 8), "\u{6570}\u{636e}\u{5e93}  ");
        assert_eq!(padded("\u{1f600}", 4), "\u{1f600}  ");
    }
}
