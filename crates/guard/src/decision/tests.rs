//! Tests of the selection, on scenarios of a simulated machine.

use super::{
    choice::{Among, Chooser, Finding, Kin, belongs},
    holdings::Kind,
    stage::Reading,
    table::{Held, Seen, Shield, Table},
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// A simulated machine with 1,000 MiB. Each process uses what the test gives it.
struct World {
    table: Table,
    now: Reading,
    seconds: u64,
    files: u64,
    /// MiB that no process and no file holds.
    hidden: u64,
}

/// Id, session, parent, MiB.
type One = (u32, u32, u32, u64);

impl World {
    fn new() -> Self {
        Self { table: Table::new(64), now: Reading::default(), seconds: 0, files: 0, hidden: 0 }
    }

    fn look(&mut self, processes: &[One]) {
        self.seconds += 1;
        let at = self.seconds * SECOND;
        self.table.begin();
        for &(pid, session, parent, mib) in processes {
            let start =
                if self.table.find(pid).is_some() { self.table.find(pid).unwrap().seen.start } else { at };
            let seen = Seen { pid, start, parent, session, kib: (mib * 1024) as u32, ..Seen::default() };
            self.table.see(seen, seen.kib, at, at - start);
            let process = self.table.find_mut(pid).unwrap();
            process.watches = 1;
            process.group = 1;
        }
        self.table.end();
        let used = processes.iter().map(|one| one.3).sum::<u64>() + self.files + self.hidden;
        self.now = Reading {
            at_ns: at,
            available: (1000 - used) * MIB,
            total: 1000 * MIB,
            shmem: self.files * MIB,
            ..Reading::default()
        };
        self.table.mark(at, &[self.now]);
    }

    fn choose(&self) -> Finding {
        self.choose_but(&[])
    }

    fn choose_but(&self, except: &[(u32, u64)]) -> Finding {
        Chooser::new(64).choose(&self.table, &self.now, &Among { watch: 0, except })
    }
}

fn pid(finding: &Finding) -> Option<u32> {
    match finding {
        Finding::Process(suspect) => Some(suspect.process.seen.pid),
        _ => None,
    }
}

#[test]
fn the_one_that_grew_is_chosen_not_the_biggest() {
    let mut world = World::new();
    for grown in 0..9 {
        world.look(&[(10, 10, 1, 500), (11, 11, 1, 10 + 50 * grown), (12, 12, 1, 20 + grown)]);
    }
    let Finding::Process(suspect) = world.choose() else { panic!("{:?}", world.choose()) };
    assert_eq!((suspect.process.seen.pid, suspect.bytes), (11, 410 * MIB));
    assert!(suspect.growth >= 100 * MIB && suspect.score > 1.5, "{suspect:?}");
}

#[test]
fn who_takes_the_last_of_it_quickly_is_worse_than_who_took_more_long_ago() {
    let mut world = World::new();
    world.look(&[(10, 10, 1, 10), (11, 11, 1, 10)]);
    world.look(&[(10, 10, 1, 600), (11, 11, 1, 10)]);
    (0..4).for_each(|_| world.look(&[(10, 10, 1, 600), (11, 11, 1, 10)]));
    world.look(&[(10, 10, 1, 600), (11, 11, 1, 330)]);
    assert_eq!(pid(&world.choose()), Some(11));
}

#[test]
fn nobody_dies_on_a_machine_that_is_always_full() {
    let mut world = World::new();
    (0..5).for_each(|_| world.look(&[(10, 10, 1, 900), (11, 11, 1, 60)]));
    assert_eq!(world.choose(), Finding::Nobody);
}

#[test]
fn a_little_growth_on_a_machine_that_is_always_full_is_no_cause() {
    let mut world = World::new();
    (0..8).for_each(|grown| world.look(&[(10, 10, 1, 900), (11, 11, 1, 60 + grown)]));
    assert_eq!(world.choose(), Finding::Nobody, "7 of 1,000 MiB");
}

#[test]
fn small_eaters_of_one_session_are_a_family_with_who_makes_them() {
    let mut world = World::new();
    world.look(&[(10, 10, 1, 400), (20, 20, 1, 5)]);
    let mut all = vec![(10, 10, 1, 400), (20, 20, 1, 5)];
    for child in 30..60 {
        all.push((child, 20, 20, 15));
        world.look(&all);
    }
    let Finding::Family(suspect, kin) = world.choose() else { panic!("{:?}", world.choose()) };
    assert_eq!((kin, suspect.process.seen.pid), (Kin::Session(20), 20), "the parent represents the family");
    let recent = |pid| belongs(world.table.find(pid).unwrap(), kin, &suspect);
    assert!(
        recent(59) && recent(30) && recent(20) && !recent(10),
        "those created before the last tenth was lost belong to it, too"
    );
}

#[test]
fn those_that_were_there_when_the_guard_began_are_no_family_of_those_that_come() {
    let mut world = World::new();
    let mut all: Vec<One> = vec![(20, 20, 1, 5), (21, 20, 20, 300), (22, 20, 20, 10)];
    world.look(&all);
    for child in 30..60 {
        all.push((child, 20, 22, 15));
        world.look(&all);
    }
    let Finding::Family(suspect, kin) = world.choose() else { panic!("{:?}", world.choose()) };
    let is_one = |pid| belongs(world.table.find(pid).unwrap(), kin, &suspect);
    assert!(is_one(22) && is_one(30) && !is_one(21) && !is_one(20), "{suspect:?}");
}

#[test]
fn a_copy_of_a_big_process_has_not_taken_its_memory() {
    let mut world = World::new();
    let mut all: Vec<One> = vec![(10, 10, 1, 300), (11, 11, 1, 10)];
    for grown in 0..6 {
        all[1].3 = 10 + 40 * grown;
        world.look(&all);
    }
    all.push((12, 10, 10, 300));
    world.look(&all);
    assert_eq!(Table::growth(world.table.find(12).unwrap(), &world.table.whole(0, &world.now).unwrap()), 0);
    assert_ne!(pid(&world.choose()), Some(12));
}

#[test]
fn shared_memory_is_the_growth_of_who_was_found_to_hold_it_and_of_no_other_that_maps_it() {
    let mut world = World::new();
    for size in 0..8 {
        world.files = 60 * size;
        world.look(&[(10, 10, 1, 400), (11, 11, 1, 10)]);
        // It reads what the other process writes.
        world.table.find_mut(10).unwrap().seen.shmem_kib = (60 * size * 1024) as u32;
    }
    assert!(matches!(world.choose(), Finding::Files(_)), "{:?}", world.choose());
    let held = Held { growth_kib: 400 << 10, kind: Kind::Shared, stays: false };
    world.table.find_mut(11).unwrap().held = held;
    let Finding::Process(suspect) = world.choose() else { panic!("{:?}", world.choose()) };
    assert_eq!((suspect.process.seen.pid, suspect.bytes), (11, 410 * MIB));
    assert!(suspect.growth <= 180 * MIB, "at most the growth of shared memory counts: {suspect:?}");
}

#[test]
fn one_that_took_a_little_is_not_the_cause_of_what_nobody_is_shown_to_have_taken() {
    let mut world = World::new();
    for size in 0..8u64 {
        // Pipes and sockets.
        world.hidden = 52 * size;
        world.look(&[(10, 10, 1, 300), (11, 11, 1, 10 + 8 * size)]);
    }
    assert_eq!(world.choose(), Finding::Nobody);
    let held = Held { growth_kib: 400 << 10, kind: Kind::Pipe, stays: false };
    world.table.find_mut(10).unwrap().held = held;
    assert_eq!(pid(&world.choose()), Some(10));
}

#[test]
fn small_eaters_with_a_session_each_are_a_family_by_their_control_group() {
    let mut world = World::new();
    let mut all: Vec<One> = vec![(10, 10, 1, 400)];
    world.look(&all);
    for child in 30..60 {
        all.push((child, child, 1, 15));
        world.look(&all);
    }
    assert!(matches!(world.choose(), Finding::Family(_, Kin::Group(1))), "{:?}", world.choose());
}

#[test]
fn files_in_memory_belong_to_nobody() {
    let mut world = World::new();
    for size in 0..8 {
        world.files = 60 * size;
        world.look(&[(10, 10, 1, 400), (11, 11, 1, 10 + size)]);
    }
    assert!(matches!(world.choose(), Finding::Files(bytes) if bytes >= 100 * MIB), "{:?}", world.choose());
}

#[test]
fn those_that_were_tried_already_are_left_out() {
    let mut world = World::new();
    for grown in 0..8 {
        world.look(&[(10, 10, 1, 10 + 60 * grown), (11, 11, 1, 10 + 40 * grown)]);
    }
    assert_eq!(pid(&world.choose()), Some(10));
    assert_eq!(pid(&world.choose_but(&[(10, SECOND)])), Some(11));
}

proptest! {
    #[test]
    fn a_shielded_process_is_never_chosen(
        sizes in prop::collection::vec(prop::collection::vec(0u64..60, 8), 2..12), shielded in 0usize..8,
    ) {
        let mut world = World::new();
        for sizes in &sizes {
            let all: Vec<One> = (10u32..).zip(sizes).map(|(pid, &mib)| (pid, 5, 9, mib)).collect();
            world.look(&all);
        }
        let shielded = shielded as u32 + 10;
        world.table.find_mut(shielded).unwrap().shield = Some(Shield::Rule(0));
        match world.choose() {
            Finding::Process(suspect) | Finding::Family(suspect, _) => {
                prop_assert_ne!(suspect.process.seen.pid, shielded);
            }
            Finding::Files(_) | Finding::Nobody => {}
        }
    }
}
