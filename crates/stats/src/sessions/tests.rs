use super::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn values(all: &[f64]) -> Vec<SessionValue> {
    all.iter().map(|&value| SessionValue { value, within: Some((1e-6, 11.0)), speed: None }).collect()
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
    let noisy = [SessionValue { value: 0.1, within: Some((0.01, 3.0)), speed: None }];
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
    let unknown = [SessionValue::default()];
    assert_eq!(SessionDifference::between(&unknown, &values(&[0.0]), None), None);
    assert_eq!(SessionDifference::between(&[], &values(&[0.0]), None), None);
    assert_eq!(SessionDifference::between(&unknown, &values(&[f64::NAN]), None), None);
    // Several sessions are values themselves.
    let several = [0.0, 0.01, 0.02].map(|value| SessionValue { value, ..SessionValue::default() });
    assert!(SessionDifference::between(&several, &several, None).is_some());
    let same = SessionDifference::between(&several, &several, None).unwrap();
    assert_eq!((same.difference, same.p()), (0.0, 1.0));
}

#[test]
fn sessions_without_scatter_give_numbers() {
    let found = between(&[0.0, 0.0, 0.0], &[0.0, 0.0, 0.0], None);
    assert!(found.error.is_finite() && found.freedom.is_finite() && found.p() == 1.0);
    let exact = [0.0; 3].map(|value| SessionValue { value, ..SessionValue::default() });
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
        SessionValue { value: shift + sd * normal, within: Some((1e-7, 11.0)), speed: None }
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

fn with_speeds(values: &[f64], speeds: &[f64]) -> Vec<SessionValue> {
    let one = |(&value, &speed): (&f64, &f64)| SessionValue { value, within: None, speed: Some(speed) };
    values.iter().zip(speeds).map(one).collect()
}

#[test]
fn sessions_are_compared_at_the_same_speed() {
    // By hand: about the means, x = (-3, -1, 1, 3)/100 on both sides, y = x with residuals (1, -1, -1, 1)/1000.
    let speeds = [0.0, 0.02, 0.04, 0.06];
    let values = [0.001, 0.019, 0.039, 0.061];
    let later = speeds.map(|speed| speed + 0.03);
    let slower = values.map(|value| value + 0.03 + 0.05);
    let found =
        SessionDifference::between(&with_speeds(&values, &speeds), &with_speeds(&slower, &later), None)
            .unwrap();
    let speed = found.speed.unwrap();
    assert!((speed.slope - 1.0).abs() < 1e-9 && (speed.shift - 0.03).abs() < 1e-9, "{speed:?}");
    // Of the difference of 0.08, 0.03 are those of the speed. Residuals 8e-6 with 5 degrees of freedom; sum of squares of
    // the speeds 0.004.
    let error = (8e-6_f64 / 5.0 * (0.5 + 0.0009 / 0.004)).sqrt();
    assert!((found.difference - 0.05).abs() < 1e-9 && (found.error - error).abs() < 1e-9, "{found:?}");
    assert_eq!(found.freedom, 5.0);
}

#[test]
fn speeds_count_only_where_all_sessions_have_one_and_they_differ() {
    let values = [0.0, 0.01, 0.02, 0.03];
    let of = |speeds: &[f64]| with_speeds(&values, speeds);
    let plain = between(&values, &values, None);
    let same = SessionDifference::between(&of(&[7.0; 4]), &of(&[7.0; 4]), None).unwrap();
    assert_eq!((same.speed, same.error, same.freedom), (None, plain.error, plain.freedom));
    let mut partly = of(&[0.0, 0.1, 0.2, 0.3]);
    partly[2].speed = None;
    assert_eq!(SessionDifference::between(&partly, &of(&[0.0, 0.1, 0.2, 0.3]), None).unwrap().speed, None);
    let three = &of(&[0.0, 0.1, 0.2, 0.3])[..3];
    assert_eq!(SessionDifference::between(three, three, None).unwrap().speed, None);
}

#[test]
fn identical_sides_at_the_same_speed_differ_in_at_most_one_of_twenty() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(12);
    let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    for slope in [0.0, 0.8] {
        let mut side = |shift: f64| -> Vec<SessionValue> {
            let one = |_| {
                let speed = 0.02 * normal();
                let value = shift + slope * speed + 0.01 * normal();
                SessionValue { value, within: Some((1e-6, 11.0)), speed: Some(speed + 0.003 * normal()) }
            };
            (0..5).map(one).collect()
        };
        let mut claimed = |shift: f64| {
            let is_claimed = |_: &usize| {
                let (low, high) =
                    SessionDifference::between(&side(0.0), &side(shift), None).unwrap().interval(0.05);
                low > 0.0 || high < 0.0
            };
            (0..2000).filter(is_claimed).count()
        };
        let (wrong, found) = (claimed(0.0), claimed(1.05_f64.ln()));
        assert!(wrong <= 125 && found >= 1900, "slope {slope}: {wrong} false claims, {found} found");
    }
}
