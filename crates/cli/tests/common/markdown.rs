//! Reads the Markdown of README and book: code blocks, headings and links.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// Returns the directory of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the Markdown files below a directory, sorted.
pub fn markdown_files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { markdown_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    files.sort();
    files
}

/// Returns README, its translation and all pages of the book.
pub fn documents() -> Vec<PathBuf> {
    let root = repository();
    let mut files = markdown_files(&root.join("docs/src"));
    let readmes = ["README.md", "README.zh-CN.md"].map(|name| root.join(name));
    files.extend(readmes.into_iter().filter(|path| path.exists()));
    files
}

/// A fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// The text behind the opening fence, such as `console measured`.
    pub info: String,
    /// The lines between the fences.
    pub lines: Vec<String>,
    /// The line number of the opening fence, from 1.
    pub at: usize,
}

impl CodeBlock {
    /// Returns the first word of the info string, the language.
    pub fn language(&self) -> &str {
        self.info.split(' ').next().unwrap_or_default()
    }

    /// Returns what follows the language.
    pub fn attribute(&self) -> &str {
        self.info.split_once(' ').map_or("", |(_, rest)| rest)
    }
}

/// Returns the fenced code blocks of a page.
pub fn code_blocks(page: &str) -> Vec<CodeBlock> {
    let (mut blocks, mut open) = (Vec::new(), None::<CodeBlock>);
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(info), None) => {
                open = Some(CodeBlock { info: info.to_owned(), lines: Vec::new(), at: index + 1 });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push(line.to_owned());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert_eq!(open, None, "a code block is not closed");
    blocks
}

/// Returns the page without fenced and indented code blocks, HTML comments and code spans.
fn prose(page: &str) -> String {
    let (mut text, mut fenced) = (String::new(), false);
    for line in page.lines() {
        let fence = line.starts_with("```");
        if !fence && !fenced && !line.starts_with("    ") {
            text.push_str(line);
            text.push('\n');
        }
        fenced ^= fence;
    }
    text
}

/// Returns the headings of a page: level and text.
pub fn headings(page: &str) -> Vec<(usize, String)> {
    let text = prose(page);
    let headings = text.lines().filter_map(|line| {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        (level > 0).then(|| Some((level, title.strip_prefix(' ')?.trim().to_owned())))?
    });
    headings.collect()
}

/// Returns the anchors of a page's headings, as GitHub and `mdBook` name them.
pub fn anchors(page: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    headings(page)
        .into_iter()
        .map(|(_, title)| {
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let name: String =
                kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase();
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
        })
        .collect()
}

/// Returns the targets of a page's links and images, also of HTML images.
pub fn links(page: &str) -> Vec<String> {
    let text = prose(page);
    let mut targets = Vec::new();
    for (opening, closing) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')] {
        let after = text.split(opening).skip(1);
        targets.extend(after.filter_map(|rest| Some(rest.split_once(closing)?.0.to_owned())));
    }
    targets
}
