//! Which pairs of CPUs stand for all of a machine.

use manycore_testkit::SyntheticMachine;
use manycore_topology::{
    CpuSet, Machine,
    pairs::{possible, select},
};
use proptest::prelude::*;

#[test]
fn all_pairs_are_taken_where_they_fit() {
    let machine = SyntheticMachine::server().record().machine;
    let choice = select(&machine, &machine.usable(), 120);
    assert_eq!((choice.pairs.len(), choice.possible, choice.rule), (120, 120, None));
}

#[test]
fn siblings_are_the_first_to_be_left_out() {
    let machine = SyntheticMachine::server().record().machine;
    let choice = select(&machine, &machine.usable(), 119);
    // Eight cores with each other, and the two CPUs of each.
    assert_eq!((choice.pairs.len(), choice.possible), (28 + 8, 120));
    assert!(choice.rule.unwrap().starts_with("the first CPU of each core with the first of every other"));
    assert!(choice.pairs.contains(&[0, 1]) && choice.pairs.contains(&[0, 14]));
    assert!(!choice.pairs.contains(&[1, 3]));
}

#[test]
fn pairs_of_a_machine_without_groups_are_thinned_evenly() {
    let cpus = "0-99".parse().unwrap();
    let choice = select(&Machine::default(), &cpus, 1000);
    assert!(choice.pairs.len() <= 1000 && choice.pairs.len() > 900, "{}", choice.pairs.len());
    assert!(choice.rule.unwrap().ends_with("and one in 6 pairs of CPUs 0-99"));
    let few = select(&Machine::default(), &cpus, 50);
    assert_eq!((few.pairs.len(), few.rule.unwrap().as_str()), (50, "one in 99, evenly spaced"));
}

proptest! {
    // A case has up to 20,000 pairs.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chosen_pairs_fit_and_are_pairs(cpus in 0u32..200, smt in any::<bool>(), most in 1usize..3000) {
        let machine = SyntheticMachine { cpus: cpus.max(2) / 2 * 2, smt, blocks: 0, ..SyntheticMachine::server() }.record().machine;
        let usable: CpuSet = (0..cpus).collect();
        let choice = select(&machine, &usable, most);
        prop_assert!(choice.pairs.len() <= most);
        prop_assert_eq!(choice.possible, possible(cpus as usize));
        prop_assert_eq!(choice.rule.is_none(), choice.pairs.len() == choice.possible);
        prop_assert!(cpus < 2 || !choice.pairs.is_empty());
        prop_assert!(choice.pairs.iter().all(|[a, b]| a < b && usable.contains(*b)));
    }
}
