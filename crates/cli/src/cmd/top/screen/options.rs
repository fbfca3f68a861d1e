//! What the terminal can show, as its environment says.

use manycore_top::view::{ColorDepth, Theme, ViewOptions};
use std::{env, time::Duration};

/// Returns the options for the terminal on standard output.
pub(super) fn of_terminal(is_colored: bool, interval: Duration) -> ViewOptions {
    of_variables(is_colored, interval, &|name| env::var(name).ok().filter(|value| !value.is_empty()))
}

fn of_variables(
    is_colored: bool,
    interval: Duration,
    variable: &dyn Fn(&str) -> Option<String>,
) -> ViewOptions {
    let theme = Theme { depth: depth(is_colored, variable), is_light: is_light(variable) };
    ViewOptions { theme, is_ascii: !is_utf8(variable), interval, ..ViewOptions::default() }
}

fn depth(is_colored: bool, variable: &dyn Fn(&str) -> Option<String>) -> ColorDepth {
    let has = |name: &str, parts: &[&str]| {
        variable(name).is_some_and(|value| parts.iter().any(|part| value.contains(part)))
    };
    match () {
        () if !is_colored => ColorDepth::None,
        () if has("COLORTERM", &["truecolor", "24bit"]) => ColorDepth::True,
        () if has("TERM", &["256", "direct", "kitty", "alacritty", "foot", "ghostty"]) => ColorDepth::Ansi256,
        () => ColorDepth::Ansi16,
    }
}

/// Returns whether the background is bright: the last number of `COLORFGBG`, which some terminals set, is that of white
/// or grey.
fn is_light(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let number = variable("COLORFGBG").and_then(|value| value.rsplit(';').next()?.parse::<u32>().ok());
    number.is_some_and(|number| number == 7 || number > 8)
}

/// Returns whether the character set of the locale is UTF-8: the first of these variables that is set decides.
fn is_utf8(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable).unwrap_or_default();
    let locale = locale.to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[(&str, &str)]) -> (ColorDepth, bool, bool) {
        let variable =
            |name: &str| list.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        let options = of_variables(true, Duration::from_secs(1), &variable);
        (options.theme.depth, options.theme.is_light, options.is_ascii)
    }

    #[test]
    fn the_environment_says_what_a_terminal_can_show() {
        let utf8 = ("LANG", "de_DE.UTF-8");
        assert_eq!(of(&[("TERM", "xterm-256color"), utf8]), (ColorDepth::Ansi256, false, false));
        assert_eq!(
            of(&[("TERM", "xterm"), ("COLORTERM", "truecolor"), utf8]),
            (ColorDepth::True, false, false)
        );
        assert_eq!(of(&[("TERM", "linux"), ("LC_ALL", "C"), utf8]), (ColorDepth::Ansi16, false, true));
        assert_eq!(of(&[("COLORFGBG", "0;15"), ("LC_CTYPE", "C.utf8")]), (ColorDepth::Ansi16, true, false));
        assert_eq!(of(&[("COLORFGBG", "15;default;0")]), (ColorDepth::Ansi16, false, true));
    }
}
