//! UnixBench: the report that `Run` prints.
//!
//! Tested with the format of published reports of version 5.1.3 only, not with the program itself.

use crate::metric::{
    figures::{Figure, Figures, higher, not_output_of, slug},
    number,
};

/// Titles in the report, and UnixBench's own names of the tests.
const TESTS: [(&str, &str); 13] = [
    ("Dhrystone 2 using register variables", "dhry2reg"),
    ("Double-Precision Whetstone", "whetstone-double"),
    ("Execl Throughput", "execl"),
    ("File Copy 1024 bufsize 2000 maxblocks", "fstime"),
    ("File Copy 256 bufsize 500 maxblocks", "fsbuffer"),
    ("File Copy 4096 bufsize 8000 maxblocks", "fsdisk"),
    ("Pipe Throughput", "pipe"),
    ("Pipe-based Context Switching", "context1"),
    ("Process Creation", "spawn"),
    ("Shell Scripts (1 concurrent)", "shell1"),
    ("Shell Scripts (8 concurrent)", "shell8"),
    ("Shell Scripts (16 concurrent)", "shell16"),
    ("System Call Overhead", "syscall"),
];

/// Reads the index (primary if there is one) and the rate of each test. With several passes, each name starts
/// with the number of copies: `copies8.index`.
pub(super) fn read(text: &str) -> Result<Figures, String> {
    let mut passes: Vec<(&str, &str)> = Vec::new();
    let mut rest = text;
    while let Some((_, pass)) = rest.split_once("; running ") {
        let (copies, after) = pass.split_once(" parallel cop").unwrap_or(("", pass));
        passes.push((copies, after.split_once("; running ").map_or(after, |(this, _)| this)));
        rest = after;
    }
    let several = passes.len() > 1;
    let mut figures = Figures::new();
    for (copies, report) in passes {
        for (mut metric, value) in pass(report) {
            if several {
                metric.name = format!("copies{copies}.{}", metric.name);
            }
            figures.push((metric, value));
        }
    }
    if figures.is_empty() {
        let expected = "\"running N parallel copies of tests\" with results";
        return Err(not_output_of("UnixBench", expected, text));
    }
    Ok(figures)
}

fn pass(report: &str) -> Figures {
    let index = report.lines().find_map(|line| {
        let score = line.trim().strip_prefix("System Benchmarks Index Score")?;
        number::plain(score.trim().trim_start_matches("(Partial Only)").trim())
    });
    let index = index.map(|value| higher("index", "", value));
    index.into_iter().chain(report.lines().filter_map(test)).collect()
}

/// Reads a line `Execl Throughput   4334.0 lps   (29.8 s, 2 samples)`.
fn test(line: &str) -> Option<Figure> {
    let line = line.trim().strip_suffix(" samples)")?;
    let mut words = line.rsplit_once(" (")?.0.split_whitespace().rev();
    let (unit, value) = (words.next()?, number::plain(words.next()?)?);
    let mut title: Vec<&str> = words.collect();
    title.reverse();
    let title = title.join(" ");
    let name = TESTS.iter().find(|(known, _)| *known == title).map(|(_, name)| (*name).to_owned());
    Some(higher(&name.unwrap_or_else(|| slug(&title)), unit, value))
}
