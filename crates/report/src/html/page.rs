//! The layout of a page: the head, the navigation that stays, the first screen, and the sections.

use manycore_analysis::summary::SummaryMark;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// Makes the browser refuse to load anything from elsewhere.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// What a page contains.
pub(super) struct Page {
    /// The title of the document.
    pub(super) title: String,
    /// Its first heading.
    pub(super) heading: String,
    /// The first screen, below the title.
    pub(super) first: Markup,
    /// The sections, in order.
    pub(super) sections: Vec<PageSection>,
}

/// One section.
pub(super) struct PageSection {
    /// Id, for links.
    pub(super) id: String,
    /// Its name in the navigation.
    pub(super) name: String,
    /// Its heading: the question that it answers.
    pub(super) heading: String,
    /// What its answer means.
    pub(super) mark: Option<SummaryMark>,
    /// Everything below the heading. Headings in it begin at the third level.
    pub(super) body: Markup,
}

impl Page {
    /// Renders the document.
    pub(super) fn draw(&self) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(CONTENT_SECURITY_POLICY);
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    (self.navigation())
                    main #content {
                        header #top { h1 { (self.heading) } (self.first) }
                        @for section in &self.sections { (section.draw()) }
                        footer {
                            p {
                                "Rendered by manycore " (env!("CARGO_PKG_VERSION")) " from the record alone. Figures are \
                                 medians where no other figure is named; intervals are at 95 %."
                            }
                        }
                    }
                }
            }
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
pub(super) fn dot(mark: Option<SummaryMark>) -> Markup {
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
