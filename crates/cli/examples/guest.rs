//! `manycore` for the guests of `lab/`, which hold no shared libraries: `lab/run` links it statically.
//!
//! It is an example because cargo compiles examples with the dependencies that tests have, down to their features:
//! after `cargo test` only this file is left to compile.
#![forbid(unsafe_code)]

#[path = "../src/main.rs"]
mod program;

fn main() -> std::process::ExitCode {
    program::main()
}
