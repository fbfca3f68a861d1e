//! Tables and the list of nodes, with links to their pages, and the search.

use super::{HINT, ROWS, hard};
use crate::{
    evaluation::Node,
    render::{
        tables::{self, value},
        view::{View, figures},
        words::{deficit_of, figure_name, short, verdict},
    },
};
use manycore_render::figure::{grouped, percent};
use manycore_report::page::linked_table_html;
use maud::{Markup, html};
use std::fmt::Write as _;

/// Longest name of a node.
const NAME: usize = 80;
/// Figures and causes of a node.
const LINES: usize = 4;

/// Returns the field that searches nodes. The script shows it.
pub(super) fn search() -> Markup {
    html! {
        div.find #find role="search" hidden {
            label for="find-text" { "Find a node" }
            input #find-text type="search" autocomplete="off" spellcheck="false" placeholder="name, or a verdict such as slow";
            span.faint #find-count role="status" {}
            ul.names #found {}
        }
    }
}

/// Returns the name of a node, linked to its page where it has one.
pub(super) fn name(node: &Node) -> Markup {
    let name = short(&node.name, NAME);
    html! {
        @if let Some(page) = link(node) { a href=(page) { (name) } } @else { (name) }
    }
}

/// Returns the link to the page of a node, if it has one.
pub(super) fn link(node: &Node) -> Option<String> {
    node.page.as_deref().and_then(href)
}

/// Returns a relative path as a link. `None` for other paths: a link must stay within the folder of the fleet.
fn href(path: &str) -> Option<String> {
    let is_inside = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let mut link = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => link.push(byte as char),
            _ => {
                let _infallible = write!(link, "%{byte:02x}");
            }
        }
    }
    is_inside.then_some(link)
}

/// Returns the table of slow or inconclusive nodes.
pub(super) fn flagged(view: &View, nodes: &[&Node], has_causes: bool) -> Markup {
    let label = if has_causes { "Slow nodes" } else { "Inconclusive nodes" };
    html! {
        div.block {
            div.table tabindex="0" role="region" aria-label=(label) {
                table.flagged {
                    thead {
                        tr {
                            th scope="col" .words { "node" }
                            th scope="col" .words { "figure" }
                            @for head in ["slower by", "value", "median"] { th scope="col" .figure { (head) } }
                        }
                    }
                    @for node in nodes.iter().take(ROWS) { tbody { (rows(view, node, has_causes)) } }
                }
            }
            @if nodes.len() > ROWS { p.note { (grouped((nodes.len() - ROWS) as f64)) " more: " (HINT) } }
        }
    }
}

/// Returns the rows of a node: one for each of its figures with its verdict, and one with the causes.
fn rows(view: &View, node: &Node, has_causes: bool) -> Markup {
    let mut all: Vec<_> =
        figures(view.evaluation, node).filter(|(_, one)| one.verdict == node.verdict).collect();
    all.sort_by(|a, b| b.1.deficit.total_cmp(&a.1.deficit));
    let shown = &all[..all.len().min(LINES)];
    let lines = shown.len().max(1);
    html! {
        @for at in 0..lines {
            tr {
                @if at == 0 {
                    th scope="rowgroup" rowspan=(lines + usize::from(has_causes)) .words { (name(node)) }
                }
                @if let Some((figure, one)) = shown.get(at) {
                    td.words {
                        (figure_name(figure))
                        @if at + 1 == LINES && all.len() > LINES { span.faint { " and " (all.len() - LINES) " more" } }
                    }
                    td.figure { (hard(&deficit_of(*one))) }
                    td.figure { (value(one.value, &figure.unit)) }
                    td.figure { (value(figure.median, &figure.unit)) }
                } @else { td.words colspan="4" { "–" } }
            }
        }
        @if has_causes { tr { td.words.causes colspan="4" { (causes(node)) } } }
    }
}

fn causes(node: &Node) -> Markup {
    html! {
        div.faint { "likely causes" }
        @for cause in node.causes.iter().take(LINES) { div { (hard(&short(cause, 160))) } }
        @if node.causes.is_empty() { div { "unknown" } }
    }
}

/// Returns the nodes at each end of the ranking.
pub(super) fn ranking(view: &View, ends: usize) -> Markup {
    let places: Vec<usize> = tables::places(view, ends).collect();
    let page = |row: usize| link(view.ranking[places[row]]);
    let is_name = |column: usize| column == tables::RANKING_NAME;
    linked_table_html(&tables::ranking(view, ends), true, &|row, column| {
        page(row).filter(|_| is_name(column))
    })
}

/// Returns the list of all nodes, which is also what the search finds.
pub(super) fn all(view: &View) -> Markup {
    let evaluation = view.evaluation;
    let mut nodes: Vec<&Node> = evaluation.nodes.iter().collect();
    nodes.sort_by_cached_key(|node| natural(&node.name));
    let by = |node: &Node| {
        if node.mean_deficit.is_finite() { format!(" {}", percent(node.mean_deficit)) } else { String::new() }
    };
    html! {
        p.aside { "Each with its verdict and its mean deficit over all figures: negative is faster." }
        details {
            summary { (grouped((nodes.len() + evaluation.missing.len()) as f64)) " nodes by name" }
            ul.names #all-nodes {
                @for node in nodes {
                    li { (name(node)) span { " " (verdict(node.verdict)) (hard(&by(node))) } }
                }
                @for node in &evaluation.missing {
                    li { (short(&node.name, NAME)) span { " missing: " (short(&node.state, NAME)) } }
                }
            }
        }
    }
}

/// Returns a key that sorts `n2` before `n10`.
fn natural(name: &str) -> (String, u128, String) {
    let at = name.find(|letter: char| letter.is_ascii_digit()).unwrap_or(name.len());
    let digits: String = name[at..].chars().take_while(char::is_ascii_digit).take(30).collect();
    (name[..at].to_owned(), digits.parse().unwrap_or(0), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_in_the_folder() {
        assert_eq!(href("nodes/n1/report.html").as_deref(), Some("nodes/n1/report.html"));
        assert_eq!(href("nodes/%3ax/a\"b").as_deref(), Some("nodes/%253ax/a%22b"));
        assert_eq!(href("javascript:alert(1)").as_deref(), Some("javascript%3aalert%281%29"));
        for path in ["/etc/passwd", "//evil", "nodes/../../x", "", "nodes//x"] {
            assert_eq!(href(path), None, "{path}");
        }
    }

    #[test]
    fn names_are_sorted_as_people_count() {
        let mut names = ["n10", "n2", "m", "n1", "n02"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["m", "n1", "n02", "n2", "n10"]);
    }
}
