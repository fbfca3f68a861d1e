//! README and book: every page is listed, every link leads somewhere, the pages of subcommands are what `--help`
//! prints, and the Chinese pages have the structure of the English ones.
//!
//! `UPDATE_DOCS=1 cargo test -p manycore book::` rewrites the pages of subcommands.

use crate::common::markdown::{anchors, code_blocks, documents, headings, links, markdown_files, repository};
use clap::CommandFactory;
use manycore::cli::Cli;
use std::{fs, path::Path};

/// First line of a page that is not written by hand.
const GENERATED: &str = "<!-- Written by UPDATE_DOCS=1 cargo test -p manycore book::. Do not edit. -->";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{}: {error}", path.display()))
}

#[test]
fn the_summary_lists_every_page_once() {
    let source = repository().join("docs/src");
    let mut listed: Vec<_> =
        links(&read(&source.join("SUMMARY.md"))).iter().map(|link| source.join(link)).collect();
    listed.push(source.join("SUMMARY.md"));
    listed.sort();
    assert_eq!(listed, markdown_files(&source));
}

/// Returns what is wrong with a link of a page.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.starts_with("https://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { page.to_owned() } else { page.parent()?.join(path) };
    let Ok(target) = target.canonicalize() else { return Some(format!("there is no {path}")) };
    let book = repository().join("docs/src");
    if page.starts_with(&book) && !target.starts_with(&book) {
        return Some(format!("{path} is not a part of the book"));
    }
    let anchor = anchor?;
    (!anchors(&read(&target)).iter().any(|name| name == anchor))
        .then(|| format!("{link} has no such heading"))
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in documents() {
        for link in links(&read(&page)) {
            count += 1;
            wrong.extend(broken(&page, &link).map(|problem| format!("{}: {problem}", page.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 50, "{count}");
}

#[test]
fn a_broken_link_is_found() {
    let page = repository().join("docs/src/glossary.md");
    assert_eq!(broken(&page, "limits.md#measuring"), None);
    assert_eq!(broken(&page, "limits.md#no-heading").unwrap(), "limits.md#no-heading has no such heading");
    assert_eq!(broken(&page, "no-page.md").unwrap(), "there is no no-page.md");
    assert!(broken(&page, "../../README.md").unwrap().contains("not a part of the book"));
}

#[test]
fn headings_start_with_the_title_and_skip_no_level() {
    for page in documents() {
        if page.ends_with("SUMMARY.md") {
            continue;
        }
        let levels: Vec<usize> = headings(&read(&page)).into_iter().map(|(level, _)| level).collect();
        assert_eq!(levels.first(), Some(&1), "{}", page.display());
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{}", page.display());
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{}: {levels:?}", page.display());
    }
}

/// Returns what a command prints for `--help`, without blanks at the ends of lines.
fn help_of(words: &[String]) -> String {
    let run = std::process::Command::new(assert_cmd::cargo::cargo_bin!("manycore"))
        .args(words)
        .arg("--help")
        .env("COLUMNS", "80")
        .env("NO_COLOR", "1")
        .env_remove("XDG_CONFIG_HOME")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Returns the page of a subcommand, with a section for each of its own subcommands.
fn page_of(command: &clap::Command) -> String {
    let mut words: Vec<String> =
        if command.get_name() == "manycore" { Vec::new() } else { vec![command.get_name().to_owned()] };
    let title = |words: &[String]| [&["manycore".to_owned()], words].concat().join(" ");
    let mut page = format!("{GENERATED}\n\n# `{}`\n\n```text\n{}\n```\n", title(&words), help_of(&words));
    if !words.is_empty() {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            words.push(inner.get_name().to_owned());
            page += &format!("\n## `{}`\n\n```text\n{}\n```\n", title(&words), help_of(&words));
            words.pop();
        }
    }
    page
}

#[test]
fn pages_of_subcommands_are_what_help_prints() {
    let directory = repository().join("docs/src/commands");
    let command = Cli::command();
    let visible = |inner: &&clap::Command| !inner.is_hide_set() && inner.get_name() != "help";
    let pages: Vec<_> = std::iter::once(&command)
        .chain(command.get_subcommands().filter(visible))
        .map(|command| (directory.join(format!("{}.md", command.get_name())), page_of(command)))
        .collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::remove_dir_all(&directory).ok();
        fs::create_dir_all(&directory).unwrap();
        for (path, page) in &pages {
            fs::write(path, page).unwrap();
        }
    }
    let names: Vec<_> = pages.iter().map(|(path, _)| path.clone()).collect();
    let unexpected: Vec<_> =
        markdown_files(&directory).into_iter().filter(|file| !names.contains(file)).collect();
    assert!(unexpected.is_empty(), "pages without a subcommand: {unexpected:?}");
    let update = "UPDATE_DOCS=1 cargo test -p manycore book::";
    for (path, page) in pages {
        assert_eq!(read(&path), page, "{} is not what --help prints; {update}", path.display());
    }
}

/// Returns the parts of a page that a translation keeps: the levels of headings, and code without comments.
fn structure(page: &str) -> (Vec<usize>, Vec<String>) {
    let uncommented = |line: &String| {
        let code = line.split_once("# ").map_or(line.as_str(), |(code, _)| code);
        code.split_once("// ").map_or(code, |(code, _)| code).trim_end().to_owned()
    };
    let levels = headings(page).into_iter().map(|(level, _)| level).collect();
    let code = code_blocks(page)
        .iter()
        .map(|block| block.lines.iter().map(uncommented).collect::<Vec<_>>().join("\n"))
        .collect();
    (levels, code)
}

#[test]
fn chinese_pages_have_the_structure_of_the_english_ones() {
    let source = repository().join("docs/src");
    let translated = source.join("zh-CN");
    let mut pairs: Vec<_> = markdown_files(&translated)
        .into_iter()
        .map(|page| (source.join(page.strip_prefix(&translated).unwrap()), page))
        .collect();
    pairs.push((repository().join("README.md"), repository().join("README.zh-CN.md")));
    let tutorials = markdown_files(&source.join("tutorial"));
    assert_eq!(pairs.len(), tutorials.len() + 1, "each tutorial has a translation");
    for (english, chinese) in pairs {
        assert_eq!(
            structure(&read(&chinese)),
            structure(&read(&english)),
            "{} and {}",
            chinese.display(),
            english.display()
        );
    }
}

#[test]
fn a_picture_has_colours_and_its_text_as_description() {
    let run = std::process::Command::new(repository().join("scripts/picture"))
        .args(["terminal", "-", "--hide", "secret", "--", "printf", r"\033[31mred\033[0m secret 绑核\n"])
        .output();
    let run = match run {
        Ok(run) if run.status.code() != Some(127) => run,
        _ => return println!("SKIPPED: python3 is not installed"),
    };
    let picture = String::from_utf8(run.stdout).unwrap();
    assert!(picture.contains(r#"class="c1">red</text>"#), "{picture}");
    assert!(picture.contains("red 绑核</desc>"), "{picture}");
}
