//! Prints the HTML page of saved records: `cargo run -p manycore-report --example page record.json > page.html`.

use manycore_report::{NamedEvaluation, html};
use std::{fs, process::ExitCode};

fn main() -> ExitCode {
    let named = |path: String| {
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let record = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
        Ok::<_, String>((path, record))
    };
    match std::env::args().skip(1).map(named).collect::<Result<Vec<_>, String>>() {
        Ok(all) if !all.is_empty() => {
            print!("{}", html(&NamedEvaluation::side_by_side(all, &[])));
            ExitCode::SUCCESS
        }
        Ok(_) => {
            eprintln!("page: name at least one record");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("page: {error}");
            ExitCode::from(2)
        }
    }
}
