//! Compares `tune` with an exhaustive search that measures every candidate as often as `tune` measured its
//! finalists: the distance of its answer from the best, relative to the noise, and the number of runs of
//! each.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use manycore_analysis::{Evaluation, TuneResult, rank_treatments};
use manycore_experiment::{
    Record,
    counters::CounterReader,
    engine::{Budget, ExperimentSpec, Rng, Subject, run},
    record::{Method, Treatment},
};
use manycore_linux::clock::now_ns;
use manycore_stats::Estimate;
use manycore_study::{
    candidates::{self, Candidate},
    life::Hooks,
    subject::{CommandSubject, RunSettings},
    tune::Search,
};
use manycore_text::units::percent;
use rand::SeedableRng;
use std::{fs, path::Path, process::Command, rc::Rc};

/// Budget of each search.
const BUDGET: &str = "12s";

/// Numbers of workers. With few candidates, finalists and today's behaviour alone are half of the field.
const WORKERS: &str = "1,2,3,4,6,8,12,16";

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    let lines: Vec<String> = (0..200_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
    fs::write(&text, lines.join("\n")).expect("a file");
    let text = text.display().to_string();
    let hashes = "import hashlib, sys\nfrom concurrent.futures import ThreadPoolExecutor as Pool\n\
                  data = bytes(1 << 20)\nwith Pool(int(sys.argv[1])) as pool:\n \
                  list(pool.map(lambda n: hashlib.sha256(data).digest(), range(24)))";
    let commands: [&[&str]; 5] = [
        &["sysbench", "cpu", "--threads={workers}", "--events=60", "--time=0", "run"],
        &["sysbench", "memory", "--threads={workers}", "--memory-total-size=400M", "run"],
        &["xz", "-T{workers}", "--block-size=128KiB", "-1", "-k", "-c", &text],
        &["sort", "--parallel={workers}", "--buffer-size=8M", &text],
        &["python3", "-c", hashes, "{workers}"],
    ];
    for command in commands {
        one(command, folder.path());
    }
}

fn one(command: &[&str], folder: &Path) {
    let out = folder.join("out");
    let _ = fs::remove_dir_all(&out);
    let out_name = out.display().to_string();
    let start = [
        "tune",
        "--quiet",
        "--budget",
        BUDGET,
        "--workers",
        WORKERS,
        "--seed",
        "1",
        "--out",
        &out_name,
        "--",
    ];
    let line = [&start[..], command].concat();
    let status =
        Command::new(env!("CARGO_BIN_EXE_manycore")).args(&line).stdout(std::process::Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "tune failed on {command:?}");
    let record: Record =
        serde_json::from_slice(&fs::read(out.join("record.json")).expect("a record")).expect("a record");
    let tuning = Evaluation::from_record(&record).tuning.expect("a search");

    let search = Search {
        schedulers: Vec::new(),
        settings: Vec::new(),
        hooks: Hooks::default(),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        workers: WORKERS.split(',').filter_map(|count| count.parse().ok()).collect(),
        place: Vec::new(),
        memory: Vec::new(),
        today: None,
    };
    let machine = common::machine();
    let field = candidates::candidates(&search, None, &machine, &machine.allowed.cpus).expect("candidates");
    let answer =
        tuning.winner.map_or(field[0].name.as_str(), |winner| tuning.finalists[winner].name.as_str());
    exhaustive(command[0], answer, &tuning, &field);
}

/// Measures every candidate as often as the finalists were measured, and prints how far the answer is from
/// the best.
fn exhaustive(name: &str, answer: &str, tuning: &TuneResult, field: &[Candidate]) {
    let confirmed = tuning.finalists.first().map_or(0, |finalist| finalist.verdict.pairs);
    let searched = tuning.candidates.iter().map(|candidate| candidate.trials).max().unwrap_or(0);
    let blocks = searched + confirmed;
    let variants = field.iter().map(|candidate| candidate.variant.clone()).collect();
    let counter_reader = Rc::new(CounterReader::new(&common::machine()));
    let mut subject = CommandSubject::new(variants, RunSettings::default(), None, counter_reader, now_ns())
        .expect("a subject");
    subject.measure(0).expect("it runs");
    let treatment = |candidate: &Candidate| Treatment {
        name: candidate.name.clone(),
        workers: candidate.workers,
        ..Treatment::default()
    };
    let spec = ExperimentSpec {
        metrics: subject.metrics(),
        treatments: field.iter().map(treatment).collect(),
        budget: Budget { seconds: f64::MAX, min_blocks: blocks, max_blocks: blocks },
        ..ExperimentSpec::new("exhaustive", Method::WholeRun, "runs")
    };
    let (experiment, ending) =
        run(spec, &mut subject, &mut Rng::seed_from_u64(2), &mut |_| false, &mut |_| {});
    ending.expect("it is measured to its end");
    let best = rank_treatments(&experiment)[0].0;
    let chosen = experiment.treatment(answer).expect("the answer is a candidate");
    let gap = Estimate::from_samples(&experiment.log_ratios(best, chosen)).expect("pairs").map(f64::exp);
    println!(
        "{name}: tune chose {answer:?}, the exhaustive search {:?}; the answer does {} of the work of the best; runs {} \
         over {}: {:.2}",
        experiment.treatments[best].name,
        common::show(&gap),
        tuning.trials,
        experiment.samples.len(),
        tuning.trials as f64 / experiment.samples.len() as f64
    );
    if gap.interval.is_some_and(|(_, high)| high < 1.0) {
        println!("  certainly behind the best by {}", percent(1.0 - gap.median));
    }
}
