//! Colours, for terminals with different numbers of them and of either brightness.

use ratatui::style::{Color, Modifier, Style};

/// The colours that a terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorDepth {
    /// None: heat is shown by characters, other meanings by bold, dim and inverse text.
    #[default]
    None,
    /// The 16 that users can change.
    Ansi16,
    /// The palette of 256.
    Ansi256,
    /// 24 bits.
    True,
}

/// The colours of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// The colours of the terminal.
    pub depth: ColorDepth,
    /// Whether its background is bright.
    pub is_light: bool,
}

/// Red, green and blue.
type Rgb = [u8; 3];

/// Heat from none to most, on a dark and on a bright background. Brightness changes steadily, so that the scale is one
/// for people who do not distinguish red and green.
const HEAT: [[Rgb; 5]; 2] = [
    [[38, 50, 66], [25, 105, 125], [62, 160, 90], [225, 180, 50], [240, 80, 60]],
    [[218, 228, 236], [150, 200, 215], [110, 185, 120], [235, 175, 45], [215, 50, 40]],
];

/// The same as text, which needs more contrast to the background.
const HEAT_TEXT: [[Rgb; 5]; 2] = [
    [[110, 125, 145], [70, 170, 195], [90, 200, 110], [235, 195, 70], [255, 105, 85]],
    [[120, 130, 140], [10, 110, 140], [20, 125, 50], [160, 100, 0], [190, 25, 20]],
];

impl Theme {
    /// Returns whether heat is shown by colours.
    pub fn is_colored(self) -> bool {
        self.depth != ColorDepth::None
    }

    fn color(self, rgb: Rgb) -> Color {
        match self.depth {
            ColorDepth::True => Color::Rgb(rgb[0], rgb[1], rgb[2]),
            _ => Color::Indexed(nearest(rgb)),
        }
    }

    /// Returns a colour between the five, by a share from 0 to 1.
    fn heat_color(self, scale: &[[Rgb; 5]; 2], share: f64) -> Color {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        if self.depth == ColorDepth::Ansi16 {
            let colors = [Color::DarkGray, Color::Cyan, Color::Green, Color::Yellow, Color::Red];
            return colors[((share * 5.0) as usize).min(4)];
        }
        let stops = &scale[usize::from(self.is_light)];
        let at = (share * 4.0).min(3.999);
        let (from, to) = (stops[at as usize], stops[at as usize + 1]);
        let mixed = |i: usize| f64::from(from[i]) + (f64::from(to[i]) - f64::from(from[i])) * at.fract();
        self.color(std::array::from_fn(|i| mixed(i).round() as u8))
    }

    /// Returns the style of a cell whose background is its heat.
    pub fn heat_cell(self, share: f64) -> Style {
        if !self.is_colored() {
            return if share >= 0.8 { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        }
        let back = self.heat_color(&HEAT, share);
        let is_dark = if self.is_light { share >= 0.95 } else { share < 0.4 };
        Style::new().bg(back).fg(if is_dark { Color::White } else { Color::Black })
    }

    /// Returns the style of a text or a bar whose colour is its heat.
    pub fn heat_text(self, share: f64) -> Style {
        if !self.is_colored() {
            return if share >= 0.8 { self.strong() } else { Style::new() };
        }
        Style::new().fg(self.heat_color(&HEAT_TEXT, share))
    }

    fn with(self, dark: Rgb, light: Rgb, basic: Color) -> Style {
        match self.depth {
            ColorDepth::None => Style::new(),
            ColorDepth::Ansi16 => Style::new().fg(basic),
            _ => Style::new().fg(self.color(if self.is_light { light } else { dark })),
        }
    }

    /// Returns the style of what matters most.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Returns the style of what matters least.
    pub fn dim(self) -> Style {
        match self.depth {
            ColorDepth::None => Style::new().add_modifier(Modifier::DIM),
            _ => self.with([125, 135, 150], [105, 115, 125], Color::DarkGray),
        }
    }

    /// Returns the style of names of units and of keys.
    pub fn label(self) -> Style {
        self.with([120, 190, 230], [0, 85, 140], Color::Cyan)
    }

    /// Returns the style of a warning.
    pub fn warning(self) -> Style {
        self.with([255, 140, 90], [180, 60, 0], Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Returns the style of a bar at the head of a table or the foot of the screen.
    pub fn bar(self) -> Style {
        match self.depth {
            ColorDepth::None => Style::new().add_modifier(Modifier::REVERSED),
            ColorDepth::Ansi16 => Style::new().fg(Color::Black).bg(Color::Cyan),
            _ if self.is_light => Style::new().fg(self.color([20, 40, 60])).bg(self.color([190, 212, 228])),
            _ => Style::new().fg(self.color([215, 228, 240])).bg(self.color([35, 62, 88])),
        }
    }

    /// Returns the style of the part of a bar that is chosen: the column that sorts, the view that is shown.
    pub fn chosen(self) -> Style {
        match self.depth {
            ColorDepth::None => self.bar().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            ColorDepth::Ansi16 => Style::new().fg(Color::Black).bg(Color::Green),
            _ if self.is_light => Style::new().fg(Color::White).bg(self.color([0, 95, 150])),
            _ => Style::new().fg(Color::Black).bg(self.color([120, 200, 235])),
        }
    }

    /// Returns the style of the selected row.
    pub fn selected(self) -> Style {
        match self.depth {
            ColorDepth::None => Style::new().add_modifier(Modifier::REVERSED),
            ColorDepth::Ansi16 => Style::new().fg(Color::White).bg(Color::Blue),
            _ if self.is_light => Style::new().fg(Color::Black).bg(self.color([255, 225, 150])),
            _ => Style::new().fg(Color::White).bg(self.color([75, 75, 110])),
        }
    }

    /// Returns the styles of the parts of a CPU's time: user, kernel, interrupts, stolen.
    pub fn parts(self) -> [Style; 4] {
        [
            self.with([90, 190, 110], [20, 125, 50], Color::Green),
            self.with([225, 100, 80], [190, 25, 20], Color::Red),
            self.with([230, 190, 70], [160, 100, 0], Color::Yellow),
            self.with([200, 120, 220], [130, 40, 150], Color::Magenta),
        ]
    }
}

/// Returns the nearest colour of the fixed part of the palette of 256: a cube of 6 levels, and 24 greys.
fn nearest(rgb: Rgb) -> u8 {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let level = |value: u8| -> u8 {
        let distance = |&at: &u8| LEVELS[usize::from(at)].abs_diff(value);
        (0..6).min_by_key(distance).unwrap_or(0)
    };
    let [r, g, b] = rgb.map(level);
    let cube = [r, g, b].map(|at| LEVELS[usize::from(at)]);
    let mean = rgb.iter().map(|&value| u32::from(value)).sum::<u32>() / 3;
    let step = (mean.saturating_sub(3) / 10).min(23) as u8;
    let grey = [8 + 10 * step; 3];
    let far = |other: Rgb| -> u32 { (0..3).map(|i| u32::from(other[i].abs_diff(rgb[i])).pow(2)).sum() };
    if far(grey) < far(cube) { 232 + step } else { 16 + 36 * r + 6 * g + b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_of_the_palette_are_found() {
        assert_eq!([nearest([0, 0, 0]), nearest([255, 255, 255]), nearest([255, 0, 0])], [16, 231, 196]);
        assert_eq!([nearest([128, 128, 128]), nearest([95, 135, 175])], [244, 67]);
    }

    #[test]
    fn heat_has_a_colour_at_any_share() {
        for depth in [ColorDepth::Ansi16, ColorDepth::Ansi256, ColorDepth::True] {
            let theme = Theme { depth, is_light: false };
            let colors =
                [f64::NAN, -1.0, 0.0, 0.5, 1.0, f64::INFINITY].map(|share| theme.heat_cell(share).bg);
            assert!(colors[0] == colors[2] && colors[1] == colors[2] && colors[4] == colors[5], "{colors:?}");
            assert!(colors[2] != colors[3] && colors[3] != colors[4], "{colors:?}");
        }
        assert_eq!(Theme { depth: ColorDepth::None, is_light: false }.heat_cell(0.5), Style::new());
    }
}
