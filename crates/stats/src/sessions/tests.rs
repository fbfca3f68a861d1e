use super::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn values(all: &[f64]) -> Vec<SessionValue> {
    all.iter().map(|&value| SessionValue { value, within: Some((1e-6, 11.0)) }).collect()
}

fn between(first: &[f64], second: &[f64], known: Option<KnownSpread>) -> SessionDifference {
    SessionDifference::between(&values(first), &values(second), known).unwrap()
}

#[test]
fn several_sessions_on_both_sides_are_compared_by_their_own_scatter() {
    // Welch's test of these by hand: variances 0.00025 each, error 0.01, 8 degrees of freedom.
    let first = [-0.02, -0.01, 0.0, 0.01, 0.02];
    let second = first.map(|value| value + 0.05);
    let found = between(&first, &second, None);
    assert_eq!(found.source, SpreadSource::Repeated);
    assert!((found.difference - 0.05).abs() < 1e-12 && (found.error - 0.01).abs() < 1e-12, "{found:?}");
    assert!((found.freedom - 8.0).abs() < 1e-9);
    let (low, high) = found.interval(0.05);
    assert!((low - (0.05 - 0.02306)).abs() < 1e-5 && (high - (0.05 + 0.02306)).abs() < 1e-5);
    // The p-value is the level at which the interval ends at 0.
    assert!(found.interval(found.p()).0.abs() < 1e-6, "{}", found.p());
}

#[test]
fn a_single_session_scatters_as_those_of_the_other_side() {
    let found = between(&[-0.01, 0.0, 0.01], &[0.1], None);
    assert_eq!((found.source, found.freedom), (SpreadSource::Repeated, 2.0));
    assert!((found.error - SINGLE * 0.01 * (1.0_f64 / 3.0 + 1.0).sqrt()).abs() < 1e-9, "{found:?}");
    // A noisier one counts with its own scatter.
    let noisy = [SessionValue { value: 0.1, within: Some((0.01, 3.0)) }];
    let wider = SessionDifference::between(&values(&[-0.01, 0.0, 0.01]), &noisy, None).unwrap();
    assert!(wider.error > 0.1 && wider.freedom > 3.0, "{wider:?}");
}

#[test]
fn single_sessions_use_earlier_ones_or_the_assumption() {
    let known = KnownSpread { sd: 0.01, freedom: 6.0 };
    let found = between(&[0.0], &[0.1], Some(known));
    assert_eq!((found.source, found.sd), (SpreadSource::Known, 0.01));
    assert!(
        (found.error - SINGLE * 0.01 * 2.0_f64.sqrt()).abs() < 1e-9 && (found.freedom - 6.0).abs() < 1e-6
    );
    let assumed = between(&[0.0], &[0.1], None);
    assert_eq!((assumed.source, assumed.sd), (SpreadSource::Assumed, ASSUMED_SD));
    let (low, high) = assumed.interval(0.05);
    assert!(low < 0.0 && high - low > 0.27, "10 % of one session each shows nothing: {low} {high}");
    // Two sessions that scatter more than is assumed count with their scatter.
    let scattered = between(&[-0.2, 0.2], &[0.1], None);
    assert!(scattered.sd > 0.2 && scattered.source == SpreadSource::Assumed, "{scattered:?}");
}

#[test]
fn nothing_is_said_of_sessions_with_too_few_samples() {
    let unknown = [SessionValue { value: 0.0, within: None }];
    assert_eq!(SessionDifference::between(&unknown, &values(&[0.0]), None), None);
    assert_eq!(SessionDifference::between(&[], &values(&[0.0]), None), None);
    assert_eq!(SessionDifference::between(&unknown, &values(&[f64::NAN]), None), None);
    // Several sessions are values themselves.
    let several = [0.0, 0.01, 0.02].map(|value| SessionValue { value, within: None });
    assert!(SessionDifference::between(&several, &several, None).is_some());
    let same = SessionDifference::between(&several, &several, None).unwrap();
    assert_eq!((same.difference, same.p()), (0.0, 1.0));
}

#[test]
fn sessions_without_scatter_give_numbers() {
    let found = between(&[0.0, 0.0, 0.0], &[0.0, 0.0, 0.0], None);
    assert!(found.error.is_finite() && found.freedom.is_finite() && found.p() == 1.0);
    let exact = [0.0; 3].map(|value| SessionValue { value, within: None });
    let found = SessionDifference::between(&exact, &exact, None).unwrap();
    assert_eq!((found.interval(0.05), found.p()), ((0.0, 0.0), 1.0));
}

#[test]
fn the_scatter_of_groups_is_pooled() {
    let groups: [&[f64]; 3] = [&[0.0, 0.02], &[1.0, 1.02, 1.04], &[5.0]];
    let known = KnownSpread::of_groups(groups).unwrap();
    assert_eq!(known.freedom, 3.0);
    assert!((known.sd - (0.0010_f64 / 3.0).sqrt()).abs() < 1e-9, "{known:?}");
    assert_eq!(KnownSpread::of_groups([&[0.0, 0.1][..], &[0.0, 0.1]]), None);
}

/// The rates of `examples/sessions.rs`, with fewer runs.
#[test]
fn repeated_sessions_hold_their_level_and_find_five_percent() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(17);
    let mut session = |shift: f64, sd: f64| {
        let normal = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        SessionValue { value: shift + sd * normal, within: Some((1e-7, 11.0)) }
    };
    for counts in [(5, 5), (3, 3), (2, 6), (1, 5), (5, 1)] {
        let claims = |session: &mut dyn FnMut(f64, f64) -> SessionValue, shift: f64| {
            let different = (0..2000).filter(|_| {
                let first: Vec<_> = (0..counts.0).map(|_| session(0.0, 0.02)).collect();
                let second: Vec<_> = (0..counts.1).map(|_| session(shift, 0.02)).collect();
                let (low, high) = SessionDifference::between(&first, &second, None).unwrap().interval(0.05);
                low > 0.0 || high < 0.0
            });
            different.count()
        };
        let false_claims = claims(&mut session, 0.0);
        assert!(false_claims <= 125, "{counts:?}: {false_claims} of 2000");
        if counts == (5, 5) {
            let found = claims(&mut session, 1.05_f64.ln());
            assert!(found >= 1750, "{found} of 2000 slow-downs of 5 %");
        }
    }
}
