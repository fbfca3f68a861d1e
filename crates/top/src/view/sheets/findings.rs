//! Findings: problems that the picture shows, and how to mend them.

use crate::{
    findings::Finding,
    view::{draw::broken, pen::Pen},
};
use manycore_text::units;

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
            for (at, line) in broken(fix, width.saturating_sub(2)).into_iter().enumerate() {
                pen.text(if at == 0 { 2 } else { 6 }, y, &line, pen.theme.label());
                y += 1;
            }
        }
        y += 1;
    }
}
