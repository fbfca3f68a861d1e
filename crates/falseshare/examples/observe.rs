//! Runs a command in the emulator and prints the observation as JSON: `observe COMMAND ARGUMENT...`.

use manycore_falseshare::{
    emulator::{Request, observe},
    sharing::LineLayout,
};
use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let request = Request {
        command: env::args_os().skip(1).collect(),
        layouts: vec![LineLayout { line_bytes: 64, shift_bytes: 0 }],
        memory_limit_bytes: 1 << 30,
        timeout: None,
        cleanup: None,
    };
    match observe(&request, &|| false).map(|observation| serde_json::to_string_pretty(&observation)) {
        Ok(Ok(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => {
            eprintln!("observe: {error}");
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("observe: {error}");
            ExitCode::from(3)
        }
    }
}
