//! Tests of the selection, on scenarios of a simulated machine.

use super::{
    assessment::MemoryReading,
    cause::{Candidates, CauseFinder, CauseFinding, FamilyKey, is_family_member},
    memory_objects::ObjectKind,
    process_table::{ExtraMemory, ProcessReading, ProcessTable, Protection},
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// A simulated machine with 1,000 MiB. Each process uses what the test gives it.
struct World {
    table: ProcessTable,
    now: MemoryReading,
    seconds: u64,
    files: u64,
    /// MiB that no process and no file holds.
    hidden: u64,
}

/// Id, session, parent, MiB.
type One = (u32, u32, u32, u64);

impl World {
    fn new() -> Self {
        Self { table: ProcessTable::new(64), now: MemoryReading::default(), seconds: 0, files: 0, hidden: 0 }
    }

    fn look(&mut self, processes: &[One]) {
        self.seconds += 1;
        let at = self.seconds * SECOND;
        self.table.begin_survey();
        for &(pid, session, parent, mib) in processes {
            let start =
                if self.table.find(pid).is_some() { self.table.find(pid).unwrap().reading.start } else { at };
            let seen = ProcessReading {
                pid,
                start,
                parent,
                session,
                kib: (mib * 1024) as u32,
                ..ProcessReading::default()
            };
            self.table.update(seen, seen.kib, at, at - start);
            let process = self.table.find_mut(pid).unwrap();
            process.watches = 1;
            process.group = 1;
        }
        self.table.end_survey();
        let used = processes.iter().map(|one| one.3).sum::<u64>() + self.files + self.hidden;
        self.now = MemoryReading {
            at_ns: at,
            available_bytes: (1000 - used) * MIB,
            total_bytes: 1000 * MIB,
            shmem_bytes: self.files * MIB,
            ..MemoryReading::default()
        };
        self.table.mark(at, &[self.now]);
    }

    fn find_cause(&self) -> CauseFinding {
        self.choose_but(&[])
    }

    fn choose_but(&self, excluded: &[(u32, u64)]) -> CauseFinding {
        CauseFinder::new(64).find_cause(&self.table, &self.now, &Candidates { watch: 0, excluded })
    }
}

fn pid(finding: &CauseFinding) -> Option<u32> {
    match finding {
        CauseFinding::Process(suspect) => Some(suspect.process.reading.pid),
        _ => None,
    }
}

#[test]
fn growing_process_is_selected_not_the_largest() {
    let mut world = World::new();
    for grown in 0..9 {
        world.look(&[(10, 10, 1, 500), (11, 11, 1, 10 + 50 * grown), (12, 12, 1, 20 + grown)]);
    }
    let CauseFinding::Process(suspect) = world.find_cause() else { panic!("{:?}", world.find_cause()) };
    assert_eq!((suspect.process.reading.pid, suspect.bytes), (11, 410 * MIB));
    assert!(suspect.growth >= 100 * MIB && suspect.score > 1.5, "{suspect:?}");
}

#[test]
fn recent_growth_outweighs_older_growth() {
    let mut world = World::new();
    world.look(&[(10, 10, 1, 10), (11, 11, 1, 10)]);
    world.look(&[(10, 10, 1, 600), (11, 11, 1, 10)]);
    (0..4).for_each(|_| world.look(&[(10, 10, 1, 600), (11, 11, 1, 10)]));
    world.look(&[(10, 10, 1, 600), (11, 11, 1, 330)]);
    assert_eq!(pid(&world.find_cause()), Some(11));
}

#[test]
fn always_full_machine_has_no_cause() {
    let mut world = World::new();
    (0..5).for_each(|_| world.look(&[(10, 10, 1, 900), (11, 11, 1, 60)]));
    assert_eq!(world.find_cause(), CauseFinding::NoCause);
}

#[test]
fn little_growth_on_an_always_full_machine_is_no_cause() {
    let mut world = World::new();
    (0..8).for_each(|grown| world.look(&[(10, 10, 1, 900), (11, 11, 1, 60 + grown)]));
    assert_eq!(world.find_cause(), CauseFinding::NoCause, "7 of 1,000 MiB");
}

#[test]
fn small_hogs_of_one_session_form_a_family_with_their_parent() {
    let mut world = World::new();
    world.look(&[(10, 10, 1, 400), (20, 20, 1, 5)]);
    let mut all = vec![(10, 10, 1, 400), (20, 20, 1, 5)];
    for child in 30..60 {
        all.push((child, 20, 20, 15));
        world.look(&all);
    }
    let CauseFinding::Family(suspect, family) = world.find_cause() else {
        panic!("{:?}", world.find_cause())
    };
    assert_eq!(
        (family, suspect.process.reading.pid),
        (FamilyKey::Session(20), 20),
        "the parent represents the family"
    );
    let recent = |pid| is_family_member(world.table.find(pid).unwrap(), family, &suspect);
    assert!(
        recent(59) && recent(30) && recent(20) && !recent(10),
        "those created before the last tenth was lost belong to it, too"
    );
}

#[test]
fn older_processes_do_not_belong_to_a_new_family() {
    let mut world = World::new();
    let mut all: Vec<One> = vec![(20, 20, 1, 5), (21, 20, 20, 300), (22, 20, 20, 10)];
    world.look(&all);
    for child in 30..60 {
        all.push((child, 20, 22, 15));
        world.look(&all);
    }
    let CauseFinding::Family(suspect, family) = world.find_cause() else {
        panic!("{:?}", world.find_cause())
    };
    let is_one = |pid| is_family_member(world.table.find(pid).unwrap(), family, &suspect);
    assert!(is_one(22) && is_one(30) && !is_one(21) && !is_one(20), "{suspect:?}");
}

#[test]
fn fork_of_a_large_process_has_not_grown() {
    let mut world = World::new();
    let mut all: Vec<One> = vec![(10, 10, 1, 300), (11, 11, 1, 10)];
    for grown in 0..6 {
        all[1].3 = 10 + 40 * grown;
        world.look(&all);
    }
    all.push((12, 10, 10, 300));
    world.look(&all);
    assert_eq!(
        ProcessTable::growth(
            world.table.find(12).unwrap(),
            &world.table.whole_window(0, &world.now).unwrap()
        ),
        0
    );
    assert_ne!(pid(&world.find_cause()), Some(12));
}

#[test]
fn shared_memory_counts_for_its_holder_only() {
    let mut world = World::new();
    for size in 0..8 {
        world.files = 60 * size;
        world.look(&[(10, 10, 1, 400), (11, 11, 1, 10)]);
        // It reads what the other process writes.
        world.table.find_mut(10).unwrap().reading.shmem_kib = (60 * size * 1024) as u32;
    }
    assert!(matches!(world.find_cause(), CauseFinding::Files(_)), "{:?}", world.find_cause());
    let held = ExtraMemory { growth_kib: 400 << 10, kind: ObjectKind::Shared, is_persistent: false };
    world.table.find_mut(11).unwrap().held = held;
    let CauseFinding::Process(suspect) = world.find_cause() else { panic!("{:?}", world.find_cause()) };
    assert_eq!((suspect.process.reading.pid, suspect.bytes), (11, 410 * MIB));
    assert!(suspect.growth <= 180 * MIB, "at most the growth of shared memory counts: {suspect:?}");
}

#[test]
fn little_growth_does_not_explain_hidden_memory() {
    let mut world = World::new();
    for size in 0..8u64 {
        // Pipes and sockets.
        world.hidden = 52 * size;
        world.look(&[(10, 10, 1, 300), (11, 11, 1, 10 + 8 * size)]);
    }
    assert_eq!(world.find_cause(), CauseFinding::NoCause);
    let held = ExtraMemory { growth_kib: 400 << 10, kind: ObjectKind::Pipe, is_persistent: false };
    world.table.find_mut(10).unwrap().held = held;
    assert_eq!(pid(&world.find_cause()), Some(10));
}

#[test]
fn small_hogs_with_own_sessions_form_a_family_by_control_group() {
    let mut world = World::new();
    let mut all: Vec<One> = vec![(10, 10, 1, 400)];
    world.look(&all);
    for child in 30..60 {
        all.push((child, child, 1, 15));
        world.look(&all);
    }
    assert!(
        matches!(world.find_cause(), CauseFinding::Family(_, FamilyKey::Group(1))),
        "{:?}",
        world.find_cause()
    );
}

#[test]
fn files_in_memory_belong_to_no_process() {
    let mut world = World::new();
    for size in 0..8 {
        world.files = 60 * size;
        world.look(&[(10, 10, 1, 400), (11, 11, 1, 10 + size)]);
    }
    assert!(
        matches!(world.find_cause(), CauseFinding::Files(bytes) if bytes >= 100 * MIB),
        "{:?}",
        world.find_cause()
    );
}

#[test]
fn tried_processes_are_excluded() {
    let mut world = World::new();
    for grown in 0..8 {
        world.look(&[(10, 10, 1, 10 + 60 * grown), (11, 11, 1, 10 + 40 * grown)]);
    }
    assert_eq!(pid(&world.find_cause()), Some(10));
    assert_eq!(pid(&world.choose_but(&[(10, SECOND)])), Some(11));
}

proptest! {
    #[test]
    fn protected_process_is_never_selected(
        sizes in prop::collection::vec(prop::collection::vec(0u64..60, 8), 2..12), shielded in 0usize..8,
    ) {
        let mut world = World::new();
        for sizes in &sizes {
            let all: Vec<One> = (10u32..).zip(sizes).map(|(pid, &mib)| (pid, 5, 9, mib)).collect();
            world.look(&all);
        }
        let shielded = shielded as u32 + 10;
        world.table.find_mut(shielded).unwrap().protection = Some(Protection::Rule(0));
        match world.find_cause() {
            CauseFinding::Process(suspect) | CauseFinding::Family(suspect, _) => {
                prop_assert_ne!(suspect.process.reading.pid, shielded);
            }
            CauseFinding::Files(_) | CauseFinding::NoCause => {}
        }
    }
}
