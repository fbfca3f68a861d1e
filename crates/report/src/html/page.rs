//! The layout of a page: the head, the navigation that stays, the first screen, and the sections.

use manycore_analysis::summary::SummaryMark;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// Makes the browser refuse to load anything from elsewhere.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// What a page contains.
pub struct Page {
    /// The title of the document.
    pub title: String,
    /// Its first heading.
    pub heading: String,
    /// The first screen, below the title.
    pub first: Markup,
    /// The sections, in order.
    pub sections: Vec<PageSection>,
    /// What figures are, at its end.
    pub footer: &'static str,
    /// What it has beside the common style.
    pub addition: Option<PageAddition>,
}

/// Style and script of one kind of page.
#[derive(Clone, Copy, Debug)]
pub struct PageAddition {
    /// CSS, after the common one.
    pub style: &'static str,
    /// A script, at the end of the page. The page must be complete without it.
    pub script: &'static str,
    /// `sha256-` and the hash of the script in base64. The browser runs no other script.
    pub script_hash: &'static str,
}

/// One section.
pub struct PageSection {
    /// Id, for links.
    pub id: String,
    /// Its name in the navigation.
    pub name: String,
    /// Its heading: the question that it answers.
    pub heading: String,
    /// What its answer means.
    pub mark: Option<SummaryMark>,
    /// Everything below the heading. Headings in it begin at the third level.
    pub body: Markup,
}

impl Page {
    /// Renders the document.
    pub fn draw(&self) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(self.policy());
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) @if let Some(also) = &self.addition { (PreEscaped(also.style)) } }
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    (self.navigation())
                    main #content {
                        header #top { h1 { (self.heading) } (self.first) }
                        @for section in &self.sections { (section.draw()) }
                        footer {
                            p { "Rendered by manycore " (env!("CARGO_PKG_VERSION")) " " (self.footer) }
                        }
                    }
                    @if let Some(also) = &self.addition { script { (PreEscaped(also.script)) } }
                }
            }
        }
    }

    fn policy(&self) -> String {
        match &self.addition {
            Some(also) => format!("{CONTENT_SECURITY_POLICY}; script-src '{}'", also.script_hash),
            None => CONTENT_SECURITY_POLICY.to_owned(),
        }
    }

    fn navigation(&self) -> Markup {
        html! {
            nav aria-label="Sections" {
                ul {
                    li { a href="#top" { (dot(None)) "Summary" } }
                    @for section in &self.sections {
                        li { a href={ "#" (section.id) } { (dot(section.mark)) (section.name) } }
                    }
                }
            }
        }
    }
}

impl PageSection {
    fn draw(&self) -> Markup {
        html! {
            section id=(self.id) aria-labelledby={ (self.id) "-heading" } {
                p.topic { (self.name) }
                h2 id={ (self.id) "-heading" } { (self.heading) }
                (self.body)
            }
        }
    }
}

/// Draws a mark. Its shape differs as well as its colour, and it has a name.
pub fn dot(mark: Option<SummaryMark>) -> Markup {
    let Some(mark) = mark else { return html! { span.dot.none aria-hidden="true" {} } };
    let shape = match mark {
        SummaryMark::Good => html! { path d="M3 8.5l3.2 3.2L13 5" {} },
        SummaryMark::Neutral => html! { path d="M3.5 8h9" {} },
        SummaryMark::Attention => html! { path d="M8 3v6.5M8 12v1.6" {} },
    };
    html! {
        svg class={ "dot " (mark.name()) } viewBox="0 0 16 16" role="img" aria-label=(mark.name()) {
            circle cx="8" cy="8" r="8" {}
            (shape)
        }
    }
}
