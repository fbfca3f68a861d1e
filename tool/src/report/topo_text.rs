//! The machine as a tree of text.
use manycore_model::Machine;
/// x
pub fn render(_machine: &Machine) -> String {
    String::new()
}
