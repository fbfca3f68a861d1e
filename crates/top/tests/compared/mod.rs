//! Samples that were encoded and decoded, beside the first ones.

use manycore_top::{ProcessSample, Sample};

/// Returns a sample as it is after decoding: rounded as the documentation of the codec says.
fn rounded(sample: &Sample) -> Sample {
    let mut sample = sample.clone();
    sample.at_ns -= sample.at_ns % 1000;
    for task in sample.tasks.iter_mut() {
        task.run_ns -= task.run_ns % 100_000;
        task.wait_ns = task.wait_ns.map(|ns| ns - ns % 100_000);
    }
    for ns in sample.latency.iter_mut().flat_map(|latency| &mut latency.run_ns) {
        *ns -= *ns % 100_000;
    }
    sample
}

/// Checks that two samples are the same up to the rounding, and CPU times of processes up to 0.3 ms.
pub fn assert_same(found: &Sample, sample: &Sample) {
    let wanted = rounded(sample);
    for (found, wanted) in found.processes.iter().zip(&wanted.processes) {
        match (found.cpu_ns, wanted.cpu_ns) {
            (Some(a), Some(b)) => assert!(a.abs_diff(b) <= 300_000, "{found:?} {wanted:?}"),
            (a, b) => assert_eq!(a, b),
        }
        assert_eq!(ProcessSample { cpu_ns: wanted.cpu_ns, ..*found }, *wanted);
    }
    assert_eq!(found.processes.len(), wanted.processes.len());
    let without = |sample: &Sample| Sample { processes: Vec::new(), ..sample.clone() };
    assert_eq!(without(found), without(&wanted));
}
