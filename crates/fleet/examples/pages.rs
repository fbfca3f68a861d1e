//! Writes what is shown of an invented fleet.
//!
//!   cargo run --release -p manycore-fleet --example pages -- NODES|hostile|too-few [html|text|csv|drain|prometheus]
#![allow(clippy::unwrap_used, reason = "an example may stop anywhere")]

#[path = "../tests/invented/mod.rs"]
mod invented;

use manycore_fleet::render;
use manycore_render::{document::Extent, terminal::Terminal};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let evaluation = match word(0) {
        "hostile" => invented::hostile(),
        "too-few" => invented::too_few(),
        count => invented::fleet(count.parse().unwrap()),
    };
    let text = match word(1) {
        "text" => render::document(&evaluation, Extent::Brief { hint: "see fleet.html" })
            .text(Terminal::new(80, false)),
        "csv" => render::csv(&evaluation),
        "drain" => render::drain(&evaluation).lines.join("\n") + "\n",
        "prometheus" => render::prometheus(&evaluation),
        _ => render::page(&evaluation, "an invented fleet"),
    };
    print!("{text}");
}
