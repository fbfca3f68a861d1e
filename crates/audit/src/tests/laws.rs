//! Properties that hold on every machine.

use super::*;
use proptest::prelude::*;

fn mask() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0-7".to_owned()),
        (0u32..8, 0u32..8).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)))
    ]
}

fn any_process() -> impl Strategy<Value = Process> {
    (1u32..40, 0u32..40, prop::collection::vec((mask(), 0.0f64..1.0), 1..4)).prop_map(
        |(pid, parent, threads)| {
            let masks: Vec<&str> = threads.iter().map(|(mask, _)| mask.as_str()).collect();
            Process { parent, ..busy(process(pid * 10, "p", &masks), threads[0].1) }
        },
    )
}

proptest! {
    /// A process that may run on all CPUs is never part of a finding, however busy it is.
    #[test]
    fn free_processes_are_never_found(shares in prop::collection::vec(0.0f64..1.0, 0..20)) {
        let processes = shares.iter().zip(1u32..).map(|(share, n)| busy(process(n * 10, "p", &["0-7"]), *share));
        prop_assert!(find(&eight(processes.collect())).is_empty());
    }

    /// The findings do not depend on the order of the processes, and every finding has a headline.
    #[test]
    fn order_does_not_matter(mut processes in prop::collection::vec(any_process(), 0..12)) {
        processes.sort_by_key(|process| process.pid);
        processes.dedup_by_key(|process| process.pid);
        let mut there = headlines(&eight(processes.clone()));
        processes.reverse();
        let mut back = headlines(&eight(processes));
        there.sort();
        back.sort();
        prop_assert_eq!(&there, &back);
        prop_assert!(there.iter().all(|line| !line.is_empty()));
    }
}
