//! How results look in terminals of several widths, with and without colours, and in other formats.

use crate::common;
use crate::common::{manycore, save, stolen_guest};
use manycore_experiment::Record;
use manycore_render::wrap::columns_of;
use manycore_testkit::SyntheticMachine;
use tempfile::TempDir;

/// The widths of which snapshots are kept: the narrowest that is laid out for, that of a small terminal and that of a
/// large one.
const WIDTHS: [usize; 3] = [60, 80, 140];

fn out(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let run = manycore().args(arguments).envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{arguments:?}: {said}");
    String::from_utf8(run.stdout).unwrap()
}

fn report(name: &str, record: &Record, more: &[&str], variables: &[(&str, &str)]) -> String {
    let folder = TempDir::new().unwrap();
    let path = save(&folder, name, record);
    out(&[&["report", path.to_str().unwrap()], more].concat(), variables)
}

fn comparison() -> Record {
    SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }.compare(1.31)
}

fn topology(name: &str) -> [String; 3] {
    let path = format!("{}/../../fixtures/machines/{name}.machine", env!("CARGO_MANIFEST_DIR"));
    ["topo".to_owned(), "--root".to_owned(), path]
}

fn assert_fits(text: &str, columns: usize) {
    let long: Vec<&str> = text.lines().filter(|line| columns_of(line) > columns).collect();
    assert!(long.is_empty(), "more than {columns} columns: {long:#?}");
}

#[test]
fn reports_fit_the_terminal() {
    for columns in WIDTHS {
        let width = columns.to_string();
        let width = [("COLUMNS", width.as_str())];
        for (name, record) in [("eval", stolen_guest()), ("compare", comparison())] {
            let text = report(name, &record, &[], &width);
            assert_fits(&text, columns);
            insta::assert_snapshot!(format!("{name}_{columns}"), text);
        }
        let arguments = topology("server-64cpu");
        let text = out(&arguments.each_ref().map(String::as_str), &width);
        assert_fits(&text, columns);
        insta::assert_snapshot!(format!("topo_{columns}"), text);
    }
}

#[test]
fn a_report_of_a_large_machine_fits_any_width() {
    let record = SyntheticMachine { blocks: 6, ..SyntheticMachine::large_server() }.record();
    for columns in [60, 61, 79, 100, 133, 200] {
        assert_fits(&report("giant", &record, &["--verbose"], &[("COLUMNS", &columns.to_string())]), columns);
    }
    // Fewer columns than can be laid out for.
    assert_fits(&report("giant", &record, &[], &[("COLUMNS", "20")]), 60);
}

#[test]
fn five_findings_are_shown_and_all_with_verbose() {
    let record = stolen_guest();
    let findings = |text: &str| {
        let kinds = ["  ANSWER ", "  WARNING ", "  advice ", "  found ", "  doubtful "];
        text.lines().filter(|line| kinds.iter().any(|kind| line.starts_with(kind))).count()
    };
    let brief = report("guest", &record, &[], &[]);
    let all = report("guest", &record, &["--verbose"], &[]);
    assert_eq!(findings(&brief), 5, "{brief}");
    let more = format!("{} more findings: --verbose\n", findings(&all) - 5);
    assert!(brief.contains(&more) && !all.contains("more findings"), "{brief}");
}

#[test]
fn the_answer_comes_first_and_the_machine_last() {
    let text = report("compare", &comparison(), &[], &[]);
    let at = |words: &str| text.find(words).unwrap();
    assert!(text.lines().nth(1).unwrap().starts_with("  ANSWER "), "{text}");
    assert!(at("ANSWER") < at("B AGAINST A") && at("B AGAINST A") < at("Debian GNU/Linux 13"), "{text}");
}

#[test]
fn colors_are_for_those_who_want_them() {
    let record = comparison();
    let colored = |more: &[&str], variables: &[(&str, &str)]| {
        report("compare", &record, more, variables).contains('\u{1b}')
    };
    assert!(!colored(&[], &[]), "standard output is no terminal");
    assert!(colored(&["--color", "always"], &[]) && colored(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    let text = report("compare", &record, &["--color", "always"], &[]);
    let plain = report("compare", &record, &[], &[]);
    // Only styles are added: bold, a colour of the palette, and their end.
    let mut bare = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    for color in [28, 31, 130, 161] {
        bare = bare.replace(&format!("\u{1b}[38;5;{color}m"), "");
    }
    assert_eq!(bare, plain);
    assert!(text.contains("\u{1b}[38;5;28mbetter"), "{text}");
}

#[test]
fn help_has_the_same_choice_of_colors() {
    assert!(out(&["--color", "always", "--help"], &[]).contains('\u{1b}'));
    assert!(!out(&["--color", "never", "eval", "--help"], &[("CLICOLOR_FORCE", "1")]).contains('\u{1b}'));
}

#[test]
fn tables_are_written_as_markdown_and_csv() {
    let record = comparison();
    insta::assert_snapshot!("markdown", report("compare", &record, &["--format", "markdown"], &[]));
    insta::assert_snapshot!("csv", report("compare", &record, &["--format", "csv"], &[]));
    let arguments = topology("hybrid-16cpu");
    let [topo, root, path] = arguments.each_ref().map(String::as_str);
    let csv = out(&[topo, root, path, "--format", "csv"], &[]);
    assert!(csv.contains("\nunit,CPUs\n") && csv.contains("CPUs 0-11"), "{csv}");
    let markdown = out(&[topo, root, path, "--format", "markdown"], &[]);
    assert!(markdown.contains("- **Processor**: ") && markdown.contains("```text\npackage 0"), "{markdown}");
}

#[test]
fn chinese_names_are_aligned_in_any_locale() {
    let mut record = SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }.compare(0.8);
    for (treatment, name) in
        record.experiments[0].treatments.iter_mut().zip(["\u{6570}\u{636e}\u{5e93}", "\u{1f680} go"])
    {
        name.clone_into(&mut treatment.name);
    }
    record.machine.system.hostname = Some("\u{6570}\u{636e}\u{5e93}".to_owned());
    let texts: Vec<String> = [("LANG", "C"), ("LANG", "zh_CN.UTF-8")]
        .map(|locale| report("\u{6570}\u{636e}\u{5e93}", &record, &[], &[locale, ("COLUMNS", "80")]))
        .to_vec();
    assert_eq!(texts[0], texts[1]);
    assert_fits(&texts[0], 80);
    assert!(texts[0].contains("\u{6570}\u{636e}\u{5e93}"), "{}", texts[0]);
}

#[test]
fn a_format_that_makes_no_sense_is_refused() {
    for arguments in [["qos", "watch"], ["vm", "plan"]] {
        let more = if arguments == ["vm", "plan"] {
            &["web1.xml", "--format", "csv"][..]
        } else {
            &["--format", "markdown"]
        };
        let run = manycore().args(arguments).args(more).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(
            run.status.code() == Some(2) && said.contains("use --format text or --format json"),
            "{said}"
        );
        assert!(run.stdout.is_empty() && said.lines().count() == 1, "{said}");
    }
}

/// Runs a command line on a terminal of so many columns, and returns all that it wrote there. `None` if script(1) is
/// not installed.
fn on_terminal(line: &str, columns: usize, term: &str) -> Option<String> {
    let line = format!("stty cols {columns} rows 40; {} {line}", common::program().display());
    let run =
        std::process::Command::new("script").args(["-qec", &line, "/dev/null"]).env("TERM", term).output();
    let Ok(run) = run else {
        println!("SKIPPED: script is not installed");
        return None;
    };
    Some(String::from_utf8(run.stdout).unwrap())
}

/// Returns the lines that are left on the screen: what a carriage return and `ESC [ K` remove is gone.
fn left_on_screen(written: &str) -> Vec<String> {
    let lines = written.split('\n').map(|line| line.trim_end_matches('\r'));
    lines.map(|line| line.rsplit("\r\u{1b}[K").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_bar_is_drawn_and_removed() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().display();
    let line = format!("compare --pairs 8 --out {out}/NAME -- sleep 0.05");
    let Some(written) = on_terminal(&line.replace("NAME", "a"), 72, "xterm-256color") else { return };
    assert!(written.contains(" elapsed, ") && written.contains(" left: pairs of A and B"), "{written:?}");
    let drawn = written.split(['\r', '\n']).filter(|line| line.contains(" elapsed, "));
    assert!(drawn.clone().all(|line| columns_of(line.trim_end_matches("\u{1b}[K")) < 72), "{written:?}");
    let screen = left_on_screen(&written);
    assert!(!screen.iter().any(|line| line.contains(" elapsed, ")), "{screen:#?}");
    assert!(screen.iter().any(|line| line.contains("FINDINGS")), "{screen:#?}");
    // Without a terminal that can clear a line, and with --quiet, there is none.
    for (name, term) in [("b", "dumb"), ("c", "")] {
        let Some(plain) = on_terminal(&line.replace("NAME", name), 72, term) else { return };
        assert!(!plain.contains('\u{1b}') && plain.contains("measuring: pairs of A and B"), "{plain:?}");
    }
    let quiet = format!("{} --quiet", line.replace("NAME", "d").replace(" -- sleep 0.05", ""));
    let Some(quiet) = on_terminal(&format!("{quiet} -- sleep 0.05"), 72, "xterm-256color") else { return };
    assert!(!quiet.contains(" elapsed, "), "{quiet:?}");
}

#[test]
fn a_terminal_of_twenty_columns_is_used() {
    let arguments = topology("guest-2cpu");
    let [_, _, path] = arguments.each_ref().map(String::as_str);
    for (columns, expected) in [(20, 60), (80, 80), (250, 200)] {
        let Some(written) = on_terminal(&format!("topo --root {path}"), columns, "xterm-256color") else {
            return;
        };
        assert!(written.contains("Processor"), "{written:?}");
        assert_fits(&written.replace(['\r'], ""), expected);
    }
}
