use super::*;

/// Returns lengths around every number of lanes, and starts at every alignment.
fn shapes() -> impl Iterator<Item = (usize, usize)> {
    (0..=70).chain([255, 256, 257, 1021]).flat_map(|length| (0..8).map(move |start| (length, start)))
}

/// Returns the values of STREAM's arrays after a round. At first, `a` = 1, `b` = 2 and `c` = 0; the scalar is
/// 3.
fn round(values: [f64; 3]) -> [f64; 3] {
    let [a, ..] = values;
    let c = a;
    let b = 3.0 * c;
    let c = a + b;
    [b + 3.0 * c, b, c]
}

#[test]
fn rounds_are_exact_at_every_length_and_alignment() {
    for (name, perform) in available() {
        for stores in [Stores::Ordinary, Stores::NonTemporal] {
            for (length, start) in shapes() {
                let mut arrays = [1.0, 2.0, 0.0].map(|value| vec![value; length + 16]);
                let mut wanted = [1.0, 2.0, 0.0];
                for rounds in 0..3 {
                    for kernel in [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad] {
                        let part = arrays.each_mut().map(|array| &mut array[start..start + length]);
                        perform(kernel, stores, part, 3.0);
                    }
                    fence();
                    wanted = round(wanted);
                    for (array, wanted) in arrays.iter().zip(wanted) {
                        let context = (name, stores, length, start, rounds);
                        assert!(array[start..start + length].iter().all(|&v| v == wanted), "{context:?}");
                    }
                }
                for (array, untouched) in arrays.iter().zip([1.0, 2.0, 0.0]) {
                    let around = array[..start].iter().chain(&array[start + length..]);
                    assert!(around.clone().all(|&value| value == untouched), "{name} {length} {start}");
                }
            }
        }
    }
}

#[test]
fn each_kernel_takes_its_own_arrays() {
    let arrays = || [[2.0; 9], [5.0; 9], [7.0; 9]];
    for (kernel, wanted) in [
        (Kernel::Copy, [2.0, 5.0, 2.0]),
        (Kernel::Scale, [2.0, 21.0, 7.0]),
        (Kernel::Add, [2.0, 5.0, 7.0]),
        (Kernel::Triad, [26.0, 5.0, 7.0]),
        (Kernel::Read, [2.0, 5.0, 7.0]),
    ] {
        for (name, perform) in available() {
            let mut all = arrays();
            if kernel == Kernel::Add {
                all[2] = [0.0; 9];
            }
            perform(kernel, Stores::Ordinary, all.each_mut().map(|array| &mut array[..]), 3.0);
            assert_eq!(all, wanted.map(|value| [value; 9]), "{name} {kernel:?}");
        }
    }
}

#[test]
fn sums_hold_every_element_once() {
    for (name, perform) in available() {
        for (length, start) in shapes() {
            // Squares, so that a missing element or one that is counted twice changes the sum.
            let mut a: Vec<f64> = (0..length + 16).map(|at| (at * at) as f64).collect();
            let wanted: f64 = a[start..start + length].iter().sum();
            let part = [&mut a[start..start + length], &mut [], &mut []];
            assert_eq!(perform(Kernel::Read, Stores::Ordinary, part, 3.0), wanted, "{name} {length} {start}");
        }
    }
}
