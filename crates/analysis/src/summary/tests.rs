//! Lines of synthetic machines whose true behaviour is known.

use super::*;
use crate::Evaluation;
use manycore_experiment::spawning::Work;
use manycore_stats::verdict::Answer;
use manycore_testkit::SyntheticMachine;

fn summaries(record: &Record) -> Vec<SectionSummary> {
    summarize(record, &Evaluation::from_record(record))
}

fn of(record: &Record, section: &str) -> SectionSummary {
    summaries(record).into_iter().find(|one| one.section == section).unwrap()
}

/// Returns mark, line and next command of a section.
fn parts(record: &Record, section: &str) -> (SummaryMark, String, String) {
    let SectionSummary { mark, line, next, .. } = of(record, section);
    (mark, line, next.unwrap_or_default())
}

/// Returns a quiet guest.
fn quiet() -> SyntheticMachine {
    SyntheticMachine { noise: 0.005, steal: 0.0, ..SyntheticMachine::guest() }
}

#[test]
fn a_quiet_server_reads_well() {
    let record = SyntheticMachine::server().record();
    let line = |section: &str| {
        let (mark, line, next) = parts(&record, section);
        format!("{}: {line} [{next}]", mark.name())
    };
    assert_eq!(
        line("conditions"),
        "good: Yes: other work took 0.55 % and the hypervisor took 0.00 % of the CPU time. []"
    );
    assert_eq!(
        line("noise"),
        "good: B over A is 0.9974 (95 %: 0.9854 to 1.0063) with one worker. Effects from 1.5 % on are found. []"
    );
    assert_eq!(
        line("scaling"),
        "attention: 16 workers do 12.33x (95 %: 12.24 to 12.46) the work of one: 77 % of what is possible. \
         [manycore scale -- COMMAND]"
    );
    assert_eq!(line("modes"), "good: Yes: compiled code: 3.87x (95 %: 3.81 to 3.91) with threads. []");
    assert_eq!(
        line("affinity"),
        "attention: Yes: pinned processes do 1.10x (95 %: 1.09 to 1.11) the work of unpinned ones. \
         [manycore tune -- COMMAND]"
    );
    assert_eq!(
        line("latency"),
        "neutral: SMT siblings 9.0 ns (quartiles 9.0 to 9.0); one last-level cache 48 ns (quartiles 48 to 48). []"
    );
    assert_eq!(line("stream"), "neutral: 16 workers of node 0 move 59.7 GB/s (95 %: 59.4 to 60.1; read). []");
    assert_eq!(
        line("contention"),
        "neutral: Relative to the fewest workers, lock (ticket): 16 workers do 0.15x (95 %: 0.15 to 0.15); counter \
         (shared): 16 workers do 0.30x (95 %: 0.30 to 0.30). [manycore falseshare -- COMMAND]"
    );
}

#[test]
fn remote_memory_needs_attention() {
    let (mark, line, next) = parts(&SyntheticMachine::chiplets().record(), "stream");
    assert_eq!(mark, SummaryMark::Attention);
    assert_eq!(
        line,
        "32 workers of node 0 move 60.1 GB/s (95 %: 59.8 to 60.5; read). Remote memory is slower: loads take up to 1.5 \
         times as long (node 0 to node 1), and as little as 60 % of the bandwidth is left (node 0 to node 1)."
    );
    assert_eq!(next, "manycore tune -- COMMAND");
}

#[test]
fn the_mark_of_pinning_follows_the_interval() {
    use SummaryMark::{Attention, Good};
    for (pinned, mark, begin) in
        [(1.1, Attention, "Yes: "), (0.9, Good, "No, it harms: "), (1.0, Good, "No: ")]
    {
        let (found, line, _) = parts(&SyntheticMachine { pinned, ..quiet() }.record(), "affinity");
        assert_eq!(found, mark, "{line}");
        assert!(line.starts_with(begin), "{line}");
    }
    let noisy = SyntheticMachine { noise: 0.2, blocks: 8, ..SyntheticMachine::guest() }.record();
    let (mark, line, next) = parts(&noisy, "affinity");
    assert_eq!(mark, SummaryMark::Neutral);
    assert!(line.starts_with("Inconclusive: ") && line.ends_with("more rounds would decide it."), "{line}");
    assert_eq!(next, "manycore eval --standard --only affinity");
}

#[test]
fn processes_on_other_cpus_are_no_answer() {
    let (mark, line, next) = parts(&SyntheticMachine { off_cpu_checks: 3, ..quiet() }.record(), "affinity");
    assert_eq!(mark, SummaryMark::Attention);
    assert_eq!(
        line,
        "Unknown: in 3 of 4000000 checks a pinned process was on another CPU, so something changes affinities."
    );
    assert_eq!(next, "manycore audit");
}

/// A line is never stronger than its interval, whatever the noise and the true ratio are.
#[test]
fn a_comparison_is_neutral_exactly_where_it_is_inconclusive() {
    let mut seen = [0; 2];
    for seed in 0..30 {
        for (noise, ratio) in [(0.01, 1.0), (0.05, 1.02), (0.1, 1.0), (0.02, 0.97), (0.002, 1.01)] {
            let machine = SyntheticMachine { noise, seed, blocks: 12, ..SyntheticMachine::guest() };
            let record = machine.compare(ratio);
            let evaluation = Evaluation::from_record(&record);
            let answer = evaluation.comparison.as_ref().unwrap().others[0].verdict.answer;
            let one = summarize(&record, &evaluation).remove(0);
            assert_eq!(one.section, "comparison");
            assert_eq!(one.mark == SummaryMark::Neutral, answer == Answer::Inconclusive, "{}", one.line);
            assert_eq!(one.next.is_some(), answer == Answer::Inconclusive, "{one:?}");
            seen[usize::from(answer == Answer::Inconclusive)] += 1;
        }
    }
    assert!(seen.iter().all(|&count| count > 10), "{seen:?}");
}

#[test]
fn an_inconclusive_comparison_is_measured_again_with_enough_pairs() {
    let record = SyntheticMachine { noise: 0.1, blocks: 12, ..SyntheticMachine::guest() }.compare(1.0);
    let (_, line, next) = parts(&record, "comparison");
    let pairs = line.split("; about ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(next, format!("manycore compare --pairs {pairs} --b close -- gzip -9 -k -c big.log"));
}

#[test]
fn another_command_as_b_is_quoted() {
    let mut record = SyntheticMachine { noise: 0.1, blocks: 12, ..SyntheticMachine::guest() }.compare(1.0);
    let again = |b: &str, record: &mut Record| {
        b.clone_into(&mut record.experiments[0].treatments[1].name);
        of(record, "comparison").next
    };
    let vs = again("sh -c 'gzip -1'", &mut record).unwrap();
    assert!(vs.ends_with(r"--vs 'sh -c '\''gzip -1'\''' -- gzip -9 -k -c big.log"), "{vs}");
    assert_eq!(again("GZIP=-1 gzip big.log", &mut record), None, "the environment of B");
    assert_eq!(again("gzip -9 -k -c big.log (close, memory bind)", &mut record), None);
}

/// A record may come from elsewhere: what is copied to a shell must run `manycore`, and nothing else.
#[test]
fn a_hostile_subject_is_not_offered_as_a_command() {
    let machine = SyntheticMachine { noise: 0.1, blocks: 12, ..SyntheticMachine::guest() };
    for subject in ["true; rm -rf /", "$(id)", "a\nb", "`id`", "a & b", "x\u{202e}y"] {
        let mut record = machine.compare(1.0);
        subject.clone_into(&mut record.subject);
        subject.clone_into(&mut record.experiments[0].treatments[0].name);
        assert_eq!(of(&record, "comparison").next, None, "{subject:?}");
    }
    let mut record = SyntheticMachine::server().tune(1.12);
    for treatment in record.experiments.iter_mut().flat_map(|experiment| &mut experiment.treatments) {
        treatment.factors.insert("command".to_owned(), "true; rm -rf /".to_owned());
    }
    assert_eq!(of(&record, "tuning").next, None);
}

#[test]
fn the_winner_of_a_search_is_the_next_command() {
    let (mark, line, next) = parts(&SyntheticMachine::server().tune(1.12), "tuning");
    assert_eq!(mark, SummaryMark::Good);
    assert_eq!(line, "Use 8 workers, spread@llc: 12 % better than today's behaviour (95 %: 11 % to 13 %).");
    assert_eq!(next, "manycore run --place spread@llc -- gzip -9 -k -c big.log");
    let noisy = SyntheticMachine { noise: 0.2, blocks: 8, ..SyntheticMachine::guest() }.tune(1.0);
    assert_eq!(of(&noisy, "tuning").mark, SummaryMark::Neutral);
}

#[test]
fn limits_are_good_only_where_they_are_shown() {
    let machine = SyntheticMachine::server();
    let (mark, line, _) = parts(&machine.prove(0.3), "limits");
    assert_eq!(mark, SummaryMark::Good);
    assert_eq!(line, "The limit is enforced: bandwidth. Rate with over without: 0.30x (95 %: 0.29 to 0.30).");
    assert_eq!(of(&machine.prove(1.0), "limits").mark, SummaryMark::Attention);
    let (mark, line, next) =
        parts(&SyntheticMachine { noise: 0.3, blocks: 8, ..machine }.prove(0.95), "limits");
    assert_eq!(mark, SummaryMark::Neutral, "{line}");
    assert!(line.ends_with("A longer check decides it."), "{line}");
    assert_eq!(next, "sudo manycore qos prove bandwidth --budget 5m");
}

#[test]
fn figures_of_a_disturbed_machine_are_not_good() {
    let calm = SyntheticMachine { oversubscribed: 1.0, ..quiet() };
    assert_eq!(of(&calm.record(), "scaling").mark, SummaryMark::Good);
    let disturbed = SyntheticMachine { steal: 0.2, ..calm }.record();
    let (mark, line, _) = parts(&disturbed, "scaling");
    assert_eq!(mark, SummaryMark::Neutral);
    assert!(line.contains("This is doubtful: the hypervisor took "), "{line}");
    let (mark, line, _) = parts(&disturbed, "conditions");
    assert_eq!(mark, SummaryMark::Attention);
    assert!(
        line.starts_with("No: the hypervisor took ") && line.ends_with("on a quieter machine."),
        "{line}"
    );
}

#[test]
fn light_processes_without_an_error_are_not_good() {
    let (mark, line, _) = parts(&SyntheticMachine::guest().spawn(Work::Idle), "spawn");
    assert_ne!(mark, SummaryMark::Good);
    assert!(line.contains("error unknown: three counts would show it"), "{line}");
}

#[test]
fn the_answer_comes_first_and_every_line_belongs_to_a_question() {
    let record = SyntheticMachine::guest().compare(1.2);
    assert_eq!(summaries(&record)[0].section, "comparison");
    for one in summaries(&SyntheticMachine::large_server().record()) {
        assert_eq!(question(one.section, &[]), Some(one.question.clone()));
        assert!(!one.line.is_empty() && !one.line.contains("NaN"), "{one:?}");
    }
    assert_eq!(question("unknown", &[]), None);
}

/// Regression test: the page asked "Is B better than A?" of three variants, too.
#[test]
fn the_question_of_a_comparison_fits_its_variants() {
    let guest = SyntheticMachine::guest;
    let evaluate = |record: &Record| Evaluation::from_record(record);
    let (pair, three) =
        (evaluate(&guest().compare(1.2)), evaluate(&guest().compare_variants(&[1.0, 1.2, 1.4])));
    let asked = |all: &[&Evaluation]| question("comparison", all).unwrap();
    assert_eq!(asked(&[&pair]), "Is B faster than A?");
    assert_eq!(asked(&[&three]), "Which variant is fastest?");
    assert_eq!(asked(&[&three, &three]), "Which variant is fastest?");
    assert_eq!(asked(&[&pair, &three]), "Which variant is better?");
    assert_eq!(asked(&[]), "Which variant is better?");
    let same = crate::Comparison { same_variants: true, ..pair.comparison.clone().unwrap() };
    let same = Evaluation { comparison: Some(same), ..Evaluation::default() };
    assert_eq!(asked(&[&same]), "How much do identical variants differ?");
}

#[test]
fn an_empty_record_has_only_its_conditions() {
    let all = summaries(&Record::default());
    assert_eq!(
        all.iter().map(|one| (one.section, one.mark)).collect::<Vec<_>>(),
        [("conditions", SummaryMark::Neutral)]
    );
}

#[test]
fn a_record_without_counters_or_with_few_samples_claims_nothing() {
    let mut record = quiet().record();
    for experiment in &mut record.experiments {
        experiment.samples.retain(|sample| sample.block < 2);
        for sample in &mut experiment.samples {
            sample.counters = manycore_experiment::record::CounterDelta::default();
        }
    }
    for one in summaries(&record) {
        assert_eq!(one.mark, SummaryMark::Neutral, "{one:?}");
    }
}

#[test]
fn sections_to_measure_again_are_one_command_and_attention_comes_first() {
    let summary = |section, mark, next: &str| SectionSummary {
        section,
        question: question(section, &[]).unwrap(),
        mark,
        line: String::new(),
        next: (!next.is_empty()).then(|| next.to_owned()),
    };
    let steps = next_steps(&[
        summary("noise", SummaryMark::Neutral, "manycore eval --standard --only noise"),
        summary("scaling", SummaryMark::Neutral, ""),
        summary("affinity", SummaryMark::Attention, "manycore tune -- COMMAND"),
        summary("modes", SummaryMark::Neutral, "manycore eval --standard --only modes"),
        summary("stream", SummaryMark::Attention, "manycore tune -- COMMAND"),
    ]);
    let commands: Vec<&str> = steps.iter().map(|step| step.command.as_str()).collect();
    assert_eq!(commands, ["manycore tune -- COMMAND", "manycore eval --standard --only noise,modes"]);
    assert_eq!(steps[0].why, "searches the best placement of a command");
    assert_eq!(steps[0].questions, ["affinity", "stream"].map(|section| question(section, &[]).unwrap()));
}
