use super::*;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
use proptest::prelude::*;

const JAVA: &str = include_str!("../../../../tests/metrics/hdr-log.txt");

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    for value in values {
        histogram.record(*value).unwrap();
    }
    histogram
}

fn encoded(histogram: &Histogram<u64>, mut serializer: impl Serializer) -> String {
    let mut bytes = Vec::new();
    assert!(serializer.serialize(histogram, &mut bytes).is_ok());
    STANDARD.encode(bytes)
}

fn refused(text: &str) -> String {
    read(text).err().unwrap()
}

/// The figures are those that Java's `HistogramLogReader` has of the sum of all lines, in milliseconds.
#[test]
fn a_log_of_java_has_the_figures_of_its_own_reader() {
    let log = read(JAVA).unwrap().unwrap();
    assert_eq!((log.divisor, log.all.len()), (1e6, 3000));
    let figures = log.figures();
    let expected = [
        ("p99", 20.627_455),
        ("p50", 1.015_295),
        ("p75", 1.439_743),
        ("p90", 1.963_007),
        ("p99.9", 22.740_991),
        ("latency", 1.371_428),
        ("max", 23.085_055),
    ];
    assert_eq!(figures.len(), expected.len());
    for ((metric, value), (name, of_java)) in figures.iter().zip(expected) {
        assert!(metric.name == name && (value - of_java).abs() < 1e-6, "{name}: {value}");
    }
}

#[test]
fn both_encodings_are_read_and_values_have_the_unit_of_the_log() {
    let values = histogram(&[1000, 2000, 9000]);
    for text in [encoded(&values, V2Serializer::new()), encoded(&values, V2DeflateSerializer::new())] {
        for (max, divisor) in [("9000.0", 1.0), ("9.007", 1e3), ("0.0", 1.0)] {
            let log = read(&format!("#comment\n1.0,1.0,{max},{text}\r\n")).unwrap().unwrap();
            assert_eq!((log.divisor, log.all.len()), (divisor, 3), "{max}");
        }
    }
}

#[test]
fn histograms_of_other_sizes_are_added() {
    let small = Histogram::new_with_bounds(1, 1000, 2).unwrap();
    let text = format!(
        "0.0,1.0,0.0,{}\n1.0,1.0,5e9,{}\nTag=a,1.0,1.0,5.0,{}\n",
        encoded(&small, V2Serializer::new()),
        encoded(&histogram(&[5_000_000_000]), V2Serializer::new()),
        encoded(&histogram(&[5]), V2Serializer::new()),
    );
    let log = read(&text).unwrap().unwrap();
    let names: Vec<String> = log.requests().into_iter().map(|times| times.name).collect();
    assert_eq!((log.all.len(), names), (2, ["", "no tag", "a"].map(str::to_owned).to_vec()));
}

/// Regression test: such lines were left out, and a part of the requests was taken for all.
#[test]
fn a_damaged_line_of_a_log_is_an_error() {
    let line = JAVA.lines().rfind(|line| line.starts_with("Tag=")).unwrap();
    for damaged in [format!("x{line}"), line[..30].to_owned(), line[..20].to_owned()] {
        let said = refused(&format!("{JAVA}{damaged}\n"));
        assert!(said.contains("damaged line"), "{damaged}: {said}");
    }
    assert!(read(&format!("started\n{JAVA}\ndone in 7 s\n")).is_ok());
}

#[test]
fn what_is_no_histogram_is_refused_with_the_reason() {
    let line = |bytes: &[u8]| format!("0.0,1.0,2.0,{}", STANDARD.encode(bytes));
    assert!(read("rate 7\n").unwrap().is_none());
    assert!(refused("0.0,1.0,2.0,???").contains("is not base64"));
    assert!(refused("0.0,1.0,2.0,AAAA").contains("ends after 3 bytes"));
    let empty = encoded(&histogram(&[]), V2Serializer::new());
    assert!(refused(&format!("0.0,1.0,0.0,{empty}")).contains("are empty"));
    let mut many = histogram(&[]);
    many.record_n(5, 1 << 54).unwrap();
    let many = encoded(&many, V2Serializer::new());
    assert!(refused(&format!("0.0,1.0,0.0,{many}")).contains("more than 2^53 values"));
    let mut claims = vec![0x1c, 0x84, 0x93, 0x13, 0xff, 0xff, 0xff, 0xff];
    claims.resize(HEADER, 0);
    assert!(refused(&line(&claims)).contains("claims 4294967295 more"));
    // Another version.
    claims[3..8].fill(0);
    assert!(refused(&line(&claims)).contains("version 2 of the encoding"), "{}", refused(&line(&claims)));
}

#[test]
fn a_histogram_that_grows_beyond_the_limit_is_refused() {
    let mut bytes = [COMPRESSED, [0; 4]].concat();
    let mut packer = flate2::write::ZlibEncoder::new(&mut bytes, flate2::Compression::best());
    std::io::copy(&mut std::io::repeat(0).take(2 * MAX_HISTOGRAM), &mut packer).unwrap();
    packer.finish().unwrap();
    assert!(refused(&format!("0.0,1.0,2.0,{}", STANDARD.encode(bytes))).contains("more than 16 MiB"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_histogram_or_an_error(
        mut bytes in prop::collection::vec(any::<u8>(), HEADER..200),
        is_headed: bool,
    ) {
        if is_headed {
            // Three digits, from 1 to 2^40, a ratio of 1.
            let length = (bytes.len() - HEADER) as u32;
            bytes[..4].copy_from_slice(&[0x1c, 0x84, 0x93, 0x13]);
            bytes[4..8].copy_from_slice(&length.to_be_bytes());
            bytes[8..16].copy_from_slice(&3_u64.to_be_bytes());
            bytes[16..24].copy_from_slice(&1_u64.to_be_bytes());
            bytes[24..32].copy_from_slice(&(1_u64 << 40).to_be_bytes());
            bytes[32..40].copy_from_slice(&1_f64.to_be_bytes());
        }
        let text = format!("0.0,1.0,2.0,{}", STANDARD.encode(bytes));
        if let Ok(Some(log)) = read(&text) {
            prop_assert!(log.figures().iter().all(|(_, value)| value.is_finite()));
        }
    }
}
