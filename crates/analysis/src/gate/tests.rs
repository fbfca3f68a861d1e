use super::*;
use proptest::prelude::*;

fn figure(name: &str, better: Direction, interval: Option<(f64, f64)>) -> GatedFigure {
    let ratio = interval.map_or(1.0, |(low, high)| (low * high).sqrt());
    let metric = Metric { name: name.to_owned(), unit: String::new(), better };
    GatedFigure {
        what: "B against A".to_owned(),
        metric,
        is_primary: true,
        ratio,
        interval,
        no_interval: "too few samples for an interval".to_owned(),
        is_worse_otherwise: false,
    }
}

/// Regression test: a gate passed beside "a trade-off: the mean of B is 87 % worse".
#[test]
fn a_trade_off_with_a_worse_mean_is_not_passed() {
    let gate: Gate = "slower > 3%".parse().unwrap();
    let decided = |ends| {
        let figure = GatedFigure { is_worse_otherwise: true, ..figure("wall", Direction::Lower, Some(ends)) };
        decide(std::slice::from_ref(&gate), &[figure], false).unwrap().remove(0)
    };
    let faster = decided((0.9, 0.95));
    assert_eq!(faster.outcome, GateOutcome::Inconclusive);
    assert!(faster.text.contains("counts as passed, because of a trade-off; B against A"), "{}", faster.text);
    assert_eq!(decided((1.1, 1.2)).outcome, GateOutcome::Failed);
}

fn outcome(gate: &str, better: Direction, interval: (f64, f64)) -> GateOutcome {
    let gate: Gate = gate.parse().unwrap();
    let name = gate.metric.clone().unwrap_or_else(|| "wall".to_owned());
    decide(&[gate], &[figure(&name, better, Some(interval))], false).unwrap()[0].outcome
}

#[test]
fn a_gate_is_decided_only_where_the_whole_interval_is_on_one_side() {
    use Direction::{Higher, Lower};
    use GateOutcome::{Failed, Inconclusive, Passed};
    for (gate, better, interval, expected) in [
        ("slower > 3%", Lower, (1.04, 1.08), Failed),
        ("slower > 3%", Lower, (1.02, 1.08), Inconclusive),
        ("slower > 3%", Lower, (1.01, 1.029), Passed),
        ("slower > 3%", Lower, (0.5, 0.6), Passed),
        // A rate of 1/1.03 is 3 % slower.
        ("slower > 3%", Higher, (0.90, 0.96), Failed),
        ("slower > 3%", Higher, (0.96, 0.99), Inconclusive),
        ("slower > 3%", Higher, (0.98, 1.2), Passed),
        ("p99 > 10%", Lower, (1.11, 1.5), Failed),
        ("p99 > 10%", Lower, (0.9, 1.1), Passed),
        ("requests < -5%", Higher, (0.8, 0.94), Failed),
        ("requests < -5%", Higher, (0.94, 0.96), Inconclusive),
        ("requests < -5%", Higher, (0.96, 2.0), Passed),
        ("slower > 0%", Lower, (1.001, 1.002), Failed),
        ("slower > 0%", Lower, (f64::NAN, f64::NAN), Inconclusive),
    ] {
        assert_eq!(outcome(gate, better, interval), expected, "{gate} {better:?} {interval:?}");
    }
}

#[test]
fn an_inconclusive_gate_counts_as_was_decided_beforehand() {
    let gates: Vec<Gate> = vec!["slower>3%".parse().unwrap()];
    let figures = [figure("wall", Direction::Lower, Some((0.98, 1.08)))];
    let of = |fails: bool, figures: &[GatedFigure]| decide(&gates, figures, fails).unwrap().remove(0);
    assert_eq!([of(false, &figures).is_failure, of(true, &figures).is_failure], [false, true]);
    let text = of(true, &figures).text;
    assert!(text.starts_with("Gate 'slower>3%' is inconclusive and counts as failed, because its interval contains 3.0 %; B against A: it takes "), "{text}");
    let none = of(false, &[figure("wall", Direction::Lower, None)]);
    assert!(
        none.outcome == GateOutcome::Inconclusive && none.text.contains("too few samples"),
        "{}",
        none.text
    );
}

#[test]
fn a_gate_names_a_metric_of_the_right_direction() {
    let figures = [figure("wall", Direction::Lower, None), figure("requests", Direction::Higher, None)];
    let refused = |gate: &str| decide(&[gate.parse().unwrap()], &figures, false).unwrap_err();
    assert_eq!(
        refused("p98 > 5%"),
        "the gate 'p98 > 5%' names no metric: there is no p98 here; there is wall, requests"
    );
    assert!(refused("requests > 5%").ends_with("write 'requests < -5%'"));
    assert!(refused("wall < -5%").ends_with("write 'wall > 5%'"));
    let memory = [figure("memory", Direction::Lower, None)];
    assert_eq!(decide(&["rss > 5%".parse().unwrap()], &memory, false).unwrap()[0].metric, "memory");
    let gates = ["rss > 5%".parse().unwrap(), "slower > 1%".parse().unwrap()];
    let metric = |name: &str, better| Metric { name: name.to_owned(), unit: String::new(), better };
    let lower = |name: &str| metric(name, Direction::Lower);
    assert!(check(&gates, &[lower("wall"), lower("memory")]).is_ok());
    assert!(check(&gates, &[lower("wall")]).unwrap_err().contains("there is no rss here"));
    let rate = ["rate > 5%".parse().unwrap()];
    let said = check(&rate, &[metric("rate", Direction::Higher)]).unwrap_err();
    assert!(said.contains("write 'rate < -5%'"), "{said}");
}

#[test]
fn other_forms_are_refused_with_those_that_there_are() {
    for wrong in [
        "",
        "slower",
        "slower 3%",
        "slower > 3",
        "slower > x%",
        "> 3%",
        "slower < -3%",
        "p99 > -3%",
        "rate < 5%",
        "rate < -100%",
    ] {
        let said = wrong.parse::<Gate>().unwrap_err();
        assert!(said.ends_with(GATE_FORMS), "{wrong}: {said}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_gate_or_refused(given in "\\PC{0,12}[<>]?\\PC{0,6}%?") {
        if let Ok(gate) = given.parse::<Gate>() {
            prop_assert!(gate.limit > 0.0 && gate.limit.is_finite());
        }
    }
}
