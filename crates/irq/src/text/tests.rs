use super::*;
use crate::report::{INTERRUPTS_SCHEMA, MOVES_SCHEMA};
use manycore_render::{terminal::Terminal, wrap::columns_of};
use proptest::prelude::*;

fn cpus(list: &str) -> Option<CpuSet> {
    list.parse().ok()
}

fn queue(irq: u32, counts: &[(CpuId, u64)]) -> Interrupt {
    Interrupt {
        irq,
        name: format!("eth0-TxRx-{irq}"),
        device: Some("0000:03:00.0".to_owned()),
        device_names: vec!["eth0".to_owned()],
        node: Some(1),
        allowed: cpus("0-7"),
        handled_on: cpus("3"),
        unmovable: irq == 2,
        counts: counts.iter().copied().collect(),
    }
}

fn sample_interrupts() -> Interrupts {
    Interrupts {
        schema: INTERRUPTS_SCHEMA.to_owned(),
        seconds: Some(2.0),
        devices: vec![
            queue(1, &[(0, 6), (1, 4000), (2, 10), (3, 2), (6, 1)]),
            queue(2, &[(3, 50)]),
            Interrupt { irq: 4, name: "ttyS0".to_owned(), ..Interrupt::default() },
        ],
        architecture: vec![ArchitectureInterrupt {
            name: "LOC".to_owned(),
            description: "Local timer interrupts".to_owned(),
            counts: BTreeMap::from([(0, 500), (1, 2000)]),
        }],
        cpus: vec![
            CpuInterrupts { cpu: 0, devices: 6, architecture: 500 },
            CpuInterrupts { cpu: 1, devices: 4000, architecture: 2000 },
        ],
    }
}

#[test]
fn all_interrupts_with_their_cpus() {
    insta::assert_snapshot!(interrupts(&sample_interrupts(), &Machine::default(), None));
}

#[test]
fn interrupts_of_one_device_since_boot() {
    let all = Interrupts { seconds: None, architecture: Vec::new(), ..sample_interrupts() };
    insta::assert_snapshot!(interrupts(&all, &Machine::default(), Some("eth0")));
}

#[test]
fn moves_show_the_cpus_in_force() {
    let moved = |irq, allowed, handled, refused: Option<&str>| InterruptMove {
        irq,
        name: format!("eth0-TxRx-{irq}"),
        requested: CpuSet::single(5),
        before: cpus("0-7"),
        allowed: cpus(allowed),
        handled_on: cpus(handled),
        refused: refused.map(str::to_owned),
    };
    let all = InterruptMoves {
        schema: MOVES_SCHEMA.to_owned(),
        device: "eth0".to_owned(),
        moves: vec![
            moved(1, "5", "5", None),
            moved(2, "5", "3", None),
            moved(3, "0-7", "3", Some("the kernel manages it, so it cannot be moved")),
        ],
        journal: Some("irq-812".to_owned()),
    };
    insta::assert_snapshot!(moves(&all));
    let unchanged = InterruptMoves { moves: vec![moved(1, "5", "5", None)], journal: None, ..all };
    assert!(moves(&unchanged).to_string().ends_with("nothing was changed.\n"));
}

proptest! {
    #[test]
    fn no_line_is_too_long(
        name in "\\PC{0,120}",
        irq in any::<u32>(),
        counts in prop::collection::btree_map(any::<CpuId>(), any::<u64>(), 0..9),
        seconds in prop::option::of(1e-3..1e6),
        columns in 60usize..200,
    ) {
        let odd = Interrupt { name, counts, ..queue(irq, &[]) };
        let text = interrupts(&Interrupts { devices: vec![odd], seconds, ..sample_interrupts() }, &Machine::default(), None);
        for line in text.text(Terminal::new(columns, false)).lines() {
            prop_assert!(columns_of(line) <= columns, "{}", line);
        }
    }
}
