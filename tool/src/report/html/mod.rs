//! The report as one page.
use super::Named;
/// Page.
pub fn html(_all: &[Named]) -> String {
    String::new()
}
