//! Runs the examples of README and book: blocks of the language `console`, in which a line that begins with `$ ` is
//! a command, and the lines below it are what it prints. CONTRIBUTING.md describes what is compared.

use crate::common::markdown::{CodeBlock, code_blocks, documents, repository};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Separates the outputs of the commands of a block; no program prints it.
const MARK: char = '\u{1}';

/// How the output of a block is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// `console`: it is the same.
    Exact,
    /// `console figures`: it is the same after each figure with its unit is replaced.
    Figures,
    /// `console measured`: headings and first cells of tables occur, in this order.
    Labels,
    /// `console (reason)`: the block does not run.
    NotRun,
}

impl Comparison {
    fn of(block: &CodeBlock) -> Self {
        match block.attribute() {
            "" => Self::Exact,
            "figures" => Self::Figures,
            "measured" => Self::Labels,
            reason if reason.starts_with('(') && reason.ends_with(')') && reason.len() > 8 => Self::NotRun,
            other => panic!("line {}: `console {other}` is not known: see CONTRIBUTING.md", block.at),
        }
    }
}

/// A command of a block, with the output that the page shows.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    output: Vec<String>,
}

/// Returns the commands of a block. A line that ends with a backslash is continued by the next one.
fn steps(block: &CodeBlock) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for line in &block.lines {
        if continued {
            let step = steps.last_mut().unwrap();
            step.command = format!("{}\n{}", step.command, line.strip_prefix("> ").unwrap_or(line));
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), output: Vec::new() });
        } else {
            let Some(step) = steps.last_mut() else { panic!("line {}: no command first", block.at) };
            step.output.push(line.clone());
            continue;
        }
        continued = line.ends_with('\\');
    }
    steps
}

/// Runs commands one after the other in one shell. Returns what each printed, on both streams, and its exit status.
fn run(steps: &[Step], directory: &Path) -> Vec<(i32, String)> {
    let mut script = String::from("exec 2>&1\n");
    for step in steps {
        script += &step.command;
        script += &format!("\nstatus=$?; printf '{MARK}%s{MARK}' $status; (exit $status)\n");
    }
    let binary = PathBuf::from(assert_cmd::cargo::cargo_bin!("manycore"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let file = directory.join(".commands");
    fs::write(&file, script).unwrap();
    let output = Command::new("sh")
        .arg(file)
        .current_dir(directory)
        .env("PATH", path)
        .env("HOME", directory)
        .env("MANYCORE_STATE", directory.join("state"))
        // Measurements are short: no figure of theirs is compared.
        .env("MANYCORE_BUDGET", "3s")
        .envs([("COLUMNS", "100"), ("NO_COLOR", "1"), ("LC_ALL", "C.UTF-8")])
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let parts: Vec<&str> = output.split(MARK).collect();
    assert_eq!(parts.len(), 2 * steps.len() + 1, "{output}");
    parts.chunks_exact(2).map(|part| (part[1].parse().unwrap(), part[0].to_owned())).collect()
}

/// Replaces each figure, with the unit behind it, by `#`, and blanks by one blank.
fn without_figures(line: &str) -> String {
    const UNITS: [&str; 22] = [
        "%", "s", "ms", "us", "µs", "ns", "min", "h", "K", "k", "M", "G", "T", "B", "KiB", "MiB", "GiB",
        "TiB", "MB", "GB", "GB/s", "MB/s",
    ];
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let mut replaced = String::new();
        for c in word.chars() {
            let inside = replaced.ends_with('#');
            match c {
                '0'..='9' if inside => {}
                '0'..='9' => replaced.push('#'),
                _ => replaced.push(c),
            }
        }
        while replaced.contains("#.#") || replaced.contains("#,#") {
            replaced = replaced.replace("#.#", "#").replace("#,#", "#");
        }
        let bare = replaced.trim_end_matches([',', ';', '.', ')', ':']);
        let after_figure = words.last().is_some_and(|last| last.ends_with('#'));
        if after_figure && UNITS.contains(&bare) {
            let rest = replaced[bare.len()..].to_owned();
            words.last_mut().unwrap().push_str(&rest);
        } else {
            words.push(replaced);
        }
    }
    words.join(" ")
}

/// Returns the parts of measured output that do not depend on the machine: headings in capitals, and the first cells
/// of rows of tables (lines with two gaps of two blanks or more).
fn labels(lines: &[String]) -> Vec<String> {
    let label = |line: &String| {
        let cells: Vec<&str> = line.trim().split("  ").filter(|cell| !cell.trim().is_empty()).collect();
        let first = without_unit_of_time(&without_figures(cells.first()?));
        let heading = first.chars().all(|c| c.is_ascii_uppercase() || c == ' ' || c == '-');
        (heading && cells.len() == 1 || cells.len() > 2).then_some(first)
    };
    lines.iter().filter_map(label).collect()
}

/// Returns the first cell of a row without its unit, if that is one of time: it follows from the figures.
fn without_unit_of_time(cell: &str) -> String {
    let units = [" in s", " in ms", " in \u{b5}s", " in ns"];
    units.iter().find_map(|unit| cell.strip_suffix(unit)).unwrap_or(cell).to_owned()
}

/// Returns whether the lines are those of the pattern, in which a line `...` stands for any lines.
fn matches(pattern: &[String], lines: &[String]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..]))
        }
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, lines)| line == first && matches(rest, lines))
        }
    }
}

/// Returns whether all labels occur in this order.
fn contains_in_order(lines: &[String], labels: &[String]) -> bool {
    let mut lines = lines.iter();
    labels.iter().all(|label| lines.any(|line| line == label))
}

/// Returns the lines without blanks at their ends and without empty lines at the end.
fn trimmed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Returns whether a command printed what the page shows.
fn agrees(comparison: Comparison, expected: &[String], output: &str) -> bool {
    let expected = trimmed(expected.iter().map(String::as_str));
    let printed = trimmed(output.lines());
    let replaced = |lines: &[String]| lines.iter().map(|line| without_figures(line)).collect::<Vec<_>>();
    match comparison {
        Comparison::Exact => matches(&expected, &printed),
        Comparison::Figures => matches(&replaced(&expected), &replaced(&printed)),
        Comparison::Labels => contains_in_order(&labels(&printed), &labels(&expected)),
        Comparison::NotRun => true,
    }
}

/// Returns what is wrong with the examples of a page. Its files are written, and its blocks run in one directory.
fn wrong_examples(page: &Path, text: &str) -> Vec<String> {
    let directory = TempDir::new().unwrap();
    std::os::unix::fs::symlink(repository().join("fixtures"), directory.path().join("fixtures")).unwrap();
    let mut wrong = Vec::new();
    for block in code_blocks(text) {
        if block.language() != "console" && !block.attribute().is_empty() {
            fs::write(directory.path().join(block.attribute()), block.lines.join("\n") + "\n").unwrap();
        }
        if block.language() != "console" || Comparison::of(&block) == Comparison::NotRun {
            continue;
        }
        let (comparison, steps) = (Comparison::of(&block), steps(&block));
        let results = run(&steps, directory.path());
        for (index, (step, (status, output))) in steps.iter().zip(&results).enumerate() {
            let shown = steps.get(index + 1).is_some_and(|next| next.command == "echo $?");
            if *status != 0 && !shown || !agrees(comparison, &step.output, output) {
                let place = format!("{}:{}", page.display(), block.at);
                wrong.push(format!("{place}: $ {}\nexit status {status}, printed:\n{output}", step.command));
            }
        }
    }
    wrong
}

/// Returns why this machine cannot run the examples of a page: the programs that it has not got.
fn missing_programs(text: &str) -> Vec<String> {
    let run = code_blocks(text).into_iter().filter(|block| block.language() == "console");
    let commands =
        run.filter(|block| Comparison::of(block) != Comparison::NotRun).flat_map(|block| steps(&block));
    let text: String = commands.map(|step| step.command + "\n").collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_missing = |program: &str| {
        Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output()
            .is_ok_and(|found| !found.status.success())
    };
    let mut missing: Vec<String> =
        ["sysbench", "gcc", "python3", "gzip", "redis-server", "nginx", "wrk", "xz", "jq"]
            .into_iter()
            .filter(|program| words.contains(program) && is_missing(program))
            .map(|program| format!("{program} is not installed"))
            .collect();
    if words.contains(&"falseshare") {
        missing.extend(manycore_falseshare::emulator::find().err().map(|error| error.to_string()));
    }
    missing
}

#[test]
fn examples_print_what_the_pages_show() {
    let pages = documents().into_iter().filter(|page| !page.to_string_lossy().contains("zh-CN"));
    // The pages do not depend on each other; most of their time is waiting for a measurement.
    let results: Vec<Vec<String>> = pages
        .map(|page| {
            let text = fs::read_to_string(&page).unwrap();
            let missing = missing_programs(&text);
            if missing.is_empty() {
                return wrong_examples(&page, &text);
            }
            println!("SKIPPED: examples of {}: {}", page.display(), missing.join("; "));
            Vec::new()
        })
        .collect();
    let wrong = results.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

mod rules {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn figures_are_replaced_with_their_units() {
        assert_eq!(without_figures("  1,641 of 1.5 GB/s,  95 %: 2.2 to 4"), "# of #, #: # to #");
        assert_eq!(without_figures("1.031x in 12 pairs (70 s)"), "#x in # pairs (#)");
        assert_eq!(without_figures("no figure"), "no figure");
    }

    #[test]
    fn an_ellipsis_stands_for_any_lines() {
        assert!(matches(&lines("a\n...\nd"), &lines("a\nb\nc\nd")));
        assert!(matches(&lines("a\n...\nd"), &lines("a\nd")));
        assert!(!matches(&lines("a\n...\nd"), &lines("a\nb")));
        assert!(!matches(&lines("a"), &lines("a\nb")));
    }

    #[test]
    fn labels_are_headings_and_first_cells() {
        let text =
            "RUN TIMES\nWARNING  Other work took 12 %.\n  variant  runs  median\n  A          12   1.2 s\n";
        assert_eq!(labels(&lines(text)), ["RUN TIMES", "variant", "A"]);
        assert!(contains_in_order(&lines("a\nb\nc"), &lines("a\nc")));
        assert!(!contains_in_order(&lines("a\nb\nc"), &lines("c\na")));
    }

    #[test]
    fn commands_have_the_lines_below_them() {
        let block = code_blocks("```console figures\n$ a \\\n    b\nout\n$ echo $?\n0\n```\n").remove(0);
        assert_eq!((block.at, Comparison::of(&block)), (1, Comparison::Figures));
        let step = |command: &str, output: &str| Step { command: command.to_owned(), output: lines(output) };
        assert_eq!(steps(&block), [step("a \\\n    b", "out"), step("echo $?", "0")]);
    }
}
