//! The first screen: the answer, what to do next, one line for each section, and the conditions.

use crate::{
    NamedEvaluation,
    html::{page::dot, with_hard_spaces},
    record_text::{self, SIDE_BY_SIDE},
    sections::differences::headlines,
};
use manycore_analysis::summary::{SectionSummary, SummaryMark, conclusions, next_steps};
use manycore_experiment::record::{GateDecision, GateOutcome};
use maud::{Markup, html};

/// Maximum number of commands.
const MAX_COMMANDS: usize = 3;

pub(super) fn first_screen(all: &[NamedEvaluation], summaries: &[SectionSummary]) -> Markup {
    html! {
        @for named in all { (conditions(named, all.len() > 1)) }
        @if let [one] = all {
            (answer(one))
            (next(summaries))
            (lines(one, summaries))
        } @else {
            section.answer aria-label="What differs" {
                @for headline in headlines(all) { p { (with_hard_spaces(&headline)) } }
            }
            p.aside { (SIDE_BY_SIDE) }
            @for named in all { (answer_of(named)) }
        }
    }
}

fn conditions(named: &NamedEvaluation, several: bool) -> Markup {
    let [machine, run] = record_text::summary(&named.record);
    html! {
        p.conditions { @if several { strong { (named.name) } " " } (machine) "; " (run) }
    }
}

/// Shows the answer, and what A and B of a comparison are.
fn answer(named: &NamedEvaluation) -> Markup {
    let variants = named.record.variants();
    html! {
        section.answer aria-label="The answer" {
            @for conclusion in conclusions(&named.record, &named.evaluation) {
                p { (with_hard_spaces(&conclusion)) }
            }
            (gates(named.gates()))
            @if !variants.is_empty() {
                dl.variants { @for (label, what) in &variants { dt { (label) } dd { code { (what) } } } }
            }
        }
    }
}

/// Lists the decisions of gates in the words of the terminal.
fn gates(decided: &[GateDecision]) -> Markup {
    let mark = |gate: &GateDecision| match gate.outcome {
        _ if gate.is_failure => SummaryMark::Attention,
        GateOutcome::Inconclusive => SummaryMark::Neutral,
        GateOutcome::Passed | GateOutcome::Failed => SummaryMark::Good,
    };
    html! {
        @if !decided.is_empty() {
            ul.gates aria-label="Gates" {
                @for gate in decided { li { (dot(Some(mark(gate)))) span { (with_hard_spaces(&gate.text)) } } }
            }
        }
    }
}

fn answer_of(named: &NamedEvaluation) -> Markup {
    html! {
        h2.label { (named.name) }
        (answer(named))
    }
}

/// Lists the commands that follow, each with the sections from which it follows: those that need attention first.
fn next(summaries: &[SectionSummary]) -> Markup {
    let steps = next_steps(summaries);
    html! {
        @if !steps.is_empty() {
            section.next aria-labelledby="next-heading" {
                h2.label id="next-heading" { "What to do next" }
                ul {
                    @for step in steps.iter().take(MAX_COMMANDS) {
                        li { code { (step.command) } span.why { (step.why) } }
                    }
                }
            }
        }
    }
}

/// Lists the sections, without those whose line is the answer above.
fn lines(named: &NamedEvaluation, summaries: &[SectionSummary]) -> Markup {
    let answers = conclusions(&named.record, &named.evaluation);
    let others: Vec<&SectionSummary> =
        summaries.iter().filter(|summary| !answers.contains(&summary.line)).collect();
    html! {
        @if !others.is_empty() {
            section.lines aria-labelledby="lines-heading" {
                h2.label id="lines-heading" { "Section by section" }
                ul {
                    @for summary in others {
                        li {
                            (dot(Some(summary.mark)))
                            a href={ "#" (summary.section) } { (summary.question) }
                            p { (with_hard_spaces(&summary.line)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{NamedEvaluation, document, html};
    use manycore_experiment::{Record, record::CounterDelta};
    use manycore_render::document::Extent;
    use manycore_testkit::SyntheticMachine;

    /// Returns the text of a record's report, and the first screen of its page.
    fn both(record: Record) -> (String, String) {
        let all = [NamedEvaluation::new("it".to_owned(), record)];
        let page = html(&all);
        let end = page.find("</header>").unwrap_or(page.len());
        (document(&all, Extent::Full).to_string(), page[..end].to_owned())
    }

    fn machine() -> SyntheticMachine {
        SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }
    }

    /// Regression test: the page named only the command of A, and hid the rest in the closed answer.
    #[test]
    fn the_first_screen_and_the_text_name_both_variants() {
        let (text, page) = both(machine().compare(1.3));
        assert!(page.contains(
            "<title>manycore compare: A is gzip -9 -k -c big.log, B is gzip -9 -k -c big.log (close)</title>"
        ));
        assert!(page.contains("<dt>B</dt><dd><code>gzip -9 -k -c big.log (close)</code></dd>"), "{page}");
        let run = "compare (A: gzip -9 -k -c big.log; B: gzip -9 -k -c big.log (close))";
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = one_line(&text);
        assert!(page.contains(run) && words.contains(run), "{text}");
        let (text, page) = both(machine().compare_service(0.7));
        let b =
            "redis-server --port 7777 (cpus=0), load: redis-benchmark -p 7777 -q -t get -n 20000 (CPUs 1)";
        assert!(page.contains(&format!("<dt>B</dt><dd><code>{b}</code></dd>")), "{page}");
        assert!(one_line(&text).contains(&format!("- B: {b}")), "{text}");
    }

    /// Regression test: on a disturbed machine the text had an answer, and the page the same answer with a grey mark and
    /// "This is doubtful".
    #[test]
    fn text_and_page_qualify_an_answer_in_the_same_way() {
        let mut record = machine().compare(1.3);
        for sample in record.experiments.iter_mut().flat_map(|experiment| &mut experiment.samples) {
            let ticks = (sample.wall_ns / 10_000_000) as u32;
            sample.counters = CounterDelta {
                span_ns: sample.wall_ns,
                cpu_ns: Some(sample.wall_ns / 2),
                busy_ticks: vec![ticks; 2],
                steal_ticks: vec![0; 2],
                ..CounterDelta::default()
            };
        }
        let (text, page) = both(record);
        let taken = "other work took 75 % of the CPU time (limit for advice 10 %)";
        assert!(text.contains("ANSWER   B is faster than A") && text.contains(taken), "{text}");
        assert!(page.contains("<p>B is faster than A"), "{page}");
        for rendered in [&text, &page] {
            assert!(!rendered.contains("doubtful"), "{rendered}");
        }
        assert!(page.contains("class=\"dot good\""), "{page}");
    }
}
