//! Findings: problems that the picture shows, and how to mend them.

use crate::{
    findings::Finding,
    view::{draw::broken, pen::Pen},
};
use manycore_text::units;
use unicode_width::UnicodeWidthStr;

/// Draws findings from the `skipped`-th on; each takes the rows that its text needs.
pub fn draw_findings(pen: &mut Pen<'_>, findings: &[Finding], skipped: usize) {
    let width = usize::from(pen.area.width.saturating_sub(2).clamp(10, 120));
    let mut y = 0;
    for finding in findings.iter().skip(skipped) {
        let text = format!("{} (for {})", finding.text, units::duration(finding.seconds));
        for (at, line) in broken(&text, width).into_iter().enumerate() {
            if at == 0 {
                pen.text(0, y, "!", pen.theme.warning());
            }
            pen.text(2, y, &line, pen.theme.strong());
            y += 1;
        }
        if let Some(fix) = &finding.fix {
            for (x, line) in fix_lines(fix, width) {
                pen.text(x, y, &line, pen.theme.label());
                y += 1;
            }
        }
        y += 1;
    }
}

/// Returns the lines of a fix, and where each begins. One that is too long for a line has its command on a line of its own, to be copied.
fn fix_lines(fix: &str, width: usize) -> Vec<(u16, String)> {
    const COMMAND: &str = "manycore ";
    let from = fix.find(&format!(": {COMMAND}")).filter(|_| fix.width() > width);
    let (reason, command) = from.map_or((None, fix), |at| (Some(&fix[..=at]), &fix[at + 2..]));
    let command = if command.width() <= width {
        vec![command.to_owned()]
    } else {
        broken(command, width.saturating_sub(2))
    };
    let indented = command.into_iter().enumerate().map(|(at, line)| (if at == 0 { 2 } else { 6 }, line));
    reason.into_iter().flat_map(|text| broken(text, width)).map(|line| (2, line)).chain(indented).collect()
}

#[cfg(test)]
mod tests {
    use super::fix_lines;

    #[test]
    fn a_command_is_not_broken_if_a_line_has_room_for_it() {
        let lines =
            |fix, width| -> Vec<String> { fix_lines(fix, width).into_iter().map(|(_, line)| line).collect() };
        let fix = "separate them (nothing is pinned there): manycore pin --pid 17656 --place cpus=0 --once";
        assert_eq!(lines(fix, 120), [fix]);
        let command = "manycore pin --pid 17656 --place cpus=0 --once";
        assert_eq!(lines(fix, 78), ["separate them (nothing is pinned there):", command]);
        assert_eq!(lines(fix, 46), ["separate them (nothing is pinned there):", command]);
        assert_eq!(lines(command, 30), ["manycore pin --pid 17656", "--place cpus=0 --once"]);
    }
}
