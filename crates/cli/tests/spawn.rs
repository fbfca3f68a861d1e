//! Tests of `manycore spawn` in the installed runtimes: its records, and its refusals.

use crate::common::study::{WorkFolder, has, words};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

/// All runtimes, with the programs that each needs.
const RUNTIMES: [(&str, &[&str]); 6] = [
    ("beam", &["erl", "erlc"]),
    ("go", &["go"]),
    ("jvm", &["java", "javac"]),
    ("tokio", &[]),
    ("threads", &[]),
    ("processes", &[]),
];

fn is_here(programs: &[&str]) -> bool {
    programs.iter().all(|program| has(program))
}

/// Runs the command, which must succeed, and returns the only spawning of the record.
fn spawned(arguments: &[&str]) -> Value {
    let work = WorkFolder::new();
    let run = work.run(&[&["spawn"], arguments].concat());
    assert_eq!(run.status.code(), Some(0), "{arguments:?}: {}", words(&run));
    let record = work.record();
    assert_eq!(record["subcommand"], "spawn");
    let again = work.run(&["report", "out/record.json"]);
    assert_eq!(again.status.code(), Some(0), "{}", words(&again));
    record["light_processes"][0].clone()
}

fn grown(run: &Value, figure: &str) -> Option<f64> {
    let of = |moment: &str| run[moment][figure].as_f64();
    Some((of("held")? - of("before")?) / run["alive"].as_f64()?)
}

#[test]
fn every_runtime_starts_holds_and_ends_its_light_processes() {
    for (runtime, programs) in RUNTIMES {
        if !is_here(programs) {
            continue;
        }
        let spawning = spawned(&["--runtime", runtime, "--counts", "200,1k"]);
        assert_eq!((&spawning["runtime"], &spawning["work"]), (&runtime.into(), &"idle".into()));
        let runs = spawning["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for (run, count) in runs.iter().zip([200, 1000]) {
            assert_eq!(
                (run["requested"].as_u64(), run["alive"].as_u64()),
                (Some(count), Some(count)),
                "{run}"
            );
            assert_eq!(run["ending"]["kind"], "clean", "{runtime}: {run}");
            let (start, own) =
                (run["start_seconds"].as_f64().unwrap(), run["reported_start_seconds"].as_f64().unwrap());
            assert!(own > 0.0 && own <= start, "its own time is not part of the measured time: {run}");
            assert!(run["end_seconds"].as_f64().unwrap() > 0.0);
        }
        let bytes = grown(&runs[1], "rss_bytes").unwrap();
        assert!(bytes > 100.0, "{runtime}: {bytes} bytes each");
    }
}

#[test]
fn figures_agree_with_the_runtime() {
    for (runtime, programs, count) in [("beam", &["erl", "erlc"][..], "100000"), ("go", &["go"], "100000")] {
        if !is_here(programs) {
            continue;
        }
        // What our start time has beside its own is a message, which waits for a CPU in one run or another.
        let are_near = (0..5).any(|_| {
            let run = &spawned(&["--runtime", runtime, "--counts", count])["runs"][0];
            if let Some(ours) = grown(run, "pss_bytes") {
                let ratio = ours / grown(run, "reported_bytes").unwrap();
                assert!((0.95..1.05).contains(&ratio), "{runtime}: {ratio} {run}");
            } else {
                eprintln!("SKIPPED: no smaps_rollup here");
            }
            let [ours, own] =
                ["start_seconds", "reported_start_seconds"].map(|name| run[name].as_f64().unwrap());
            assert!(ours >= own, "{runtime}: {run}");
            ours < 1.05 * own + 0.5
        });
        assert!(are_near, "{runtime}: in each of five runs, starting took longer than by its own account");
    }
}

#[test]
fn erlang_is_started_with_more_processes_than_its_default() {
    if !is_here(&["erl", "erlc"]) {
        return;
    }
    // The default of Erlang is 262,144.
    let spawning = spawned(&["--runtime", "beam", "--counts", "300_000"]);
    assert_eq!(spawning["runs"][0]["ending"]["kind"], "clean");
    let limit = spawning["limits"].as_array().unwrap().iter().find(|limit| limit["name"] == "+P").unwrap();
    assert!((500_000..524_288).contains(&limit["max_count"].as_u64().unwrap()), "{limit}");
}

#[test]
fn spin_work_loads_the_cpus() {
    for (runtime, programs) in RUNTIMES {
        if !is_here(programs) {
            continue;
        }
        let spawning =
            spawned(&["--runtime", runtime, "--counts", "100", "--work", "spin", "--work-time", "600ms"]);
        let spin = &spawning["runs"][0]["spin"];
        let busy = spin["busy"].as_array().unwrap();
        let (rows, columns) = (busy.len(), spin["cpus"].as_array().unwrap().len());
        // There are fewer intervals if this process had to wait for a CPU.
        assert!((1..=6).contains(&rows) && rows == spin["stolen"].as_array().unwrap().len(), "{spin}");
        let sum: f64 = busy.iter().flat_map(|row| row.as_array().unwrap()).filter_map(Value::as_f64).sum();
        let busy = sum / (rows * columns) as f64;
        let stolen: f64 = spin["stolen"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
        // The kernel counts whole ticks: a tick that was stolen in part may be in both, and a hypervisor that takes a CPU
        // makes it miss some. What computes is runnable all the same, until it ends.
        let running = spin["running"].as_array().unwrap().iter().filter_map(Value::as_u64).max();
        let is_loaded = busy + stolen / rows as f64 >= 0.5 || running >= Some(columns as u64);
        assert!(busy <= 1.01 && is_loaded, "{runtime}: {busy} of the CPUs: {spin}");
    }
}

#[test]
fn io_work_leaves_no_files() {
    for (runtime, programs) in RUNTIMES {
        if !is_here(programs) {
            continue;
        }
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().to_str().unwrap();
        let arguments = ["--counts", "50", "--work", "io", "--work-time", "300ms", "--scratch", place];
        let spawning = spawned(&[&["--runtime", runtime][..], &arguments].concat());
        let io = &spawning["runs"][0]["io"];
        let counted = |pair: &Value| pair[1].as_u64();
        let sum: u64 = io["latency"].as_array().unwrap().iter().filter_map(counted).sum();
        assert!(sum >= 50 && io["operations"].as_u64() == Some(sum), "{runtime}: {sum} rounds, {io}");
        assert!(io["seconds"].as_f64().unwrap() >= 0.3 && io["file_system"].as_str().is_some());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "{runtime} leaves files");
    }
}

#[test]
fn open_file_limit_is_reported() {
    let work = WorkFolder::new();
    let line = format!(
        "ulimit -n 40; exec {} spawn --out out --runtime threads --counts 200 --work io --work-time 300ms",
        assert_cmd::cargo::cargo_bin!("manycore").display()
    );
    let run =
        std::process::Command::new("bash").args(["-c", &line]).current_dir(work.0.path()).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    let record = work.record();
    // With two CPUs, forty files are rarely open at once, unless something slows the threads down.
    let notes = record["notes"].to_string();
    assert!(notes == "null" || notes.contains("ulimit -n"), "{notes}");
    assert!(record["light_processes"][0]["limits"].to_string().contains("NOFILE"), "{record}");
}

#[test]
fn a_count_that_does_not_fit_is_refused_with_the_arithmetic() {
    let said = WorkFolder::new().refused(2, &["spawn", "--runtime", "tokio", "--counts", "1000,1e11"]);
    for part in ["tokio: 1e11 tasks x", "may be used", "at most", "--beyond-memory"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = WorkFolder::new().refused(2, &["spawn", "--runtime", "threads", "--counts", "9_000_000"]);
    assert!(said.contains("threads") && (said.contains("pid_max") || said.contains("may be used")), "{said}");
    if is_here(&["erl", "erlc"]) {
        let said = WorkFolder::new().refused(2, &["spawn", "--runtime", "beam", "--counts", "1e9"]);
        assert!(said.contains("the largest +P of Erlang allows at most 1.34e8"), "{said}");
    }
    let run =
        WorkFolder::new().run(&["spawn", "--runtime", "tokio", "--counts", "1e4", "--test-capacity=900T"]);
    let said = words(&run);
    if run.status.code() == Some(3) && said.contains("control group") {
        return eprintln!("SKIPPED: {said}");
    }
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("--test-capacity") && said.contains("choose a smaller limit"), "{said}");
}

#[test]
fn bad_counts_are_refused() {
    for (count, why) in [
        ("0", "0 leaves nothing to measure"),
        ("-5", "expected a whole number"),
        ("NaN", "expected a whole number"),
        ("1.5", "expected a whole number"),
        ("many", "1e5, 100000, 100_000, 100k or 1M"),
        ("1e99", "is the most"),
        ("1e4,,1e5", "expected a whole number"),
    ] {
        let said = WorkFolder::new().refused(2, &["spawn", "--runtime", "tokio", "--counts", count]);
        assert!(said.contains(why), "{count}: {said}");
    }
    let said = WorkFolder::new().refused(2, &["spawn", "--runtime", "ruby"]);
    assert!(said.contains("beam") && said.contains("processes"), "{said}");
}

/// Runs the command with an empty PATH.
fn without_programs(work: &WorkFolder, arguments: &[&str]) -> std::process::Output {
    let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
    run.arg("spawn")
        .args(["--out", "out"])
        .args(arguments)
        .current_dir(work.0.path())
        .env("PATH", work.path("none"));
    run.output().unwrap()
}

#[test]
fn a_runtime_that_is_not_installed_is_named_with_its_package() {
    for (runtime, package) in [("beam", "erlang-base"), ("go", "golang-go"), ("jvm", "default-jdk-headless")]
    {
        let work = WorkFolder::new();
        let run = without_programs(&work, &["--runtime", runtime, "--counts", "10"]);
        assert_eq!(run.status.code(), Some(3), "{}", words(&run));
        assert!(words(&run).contains(package) && !work.path("out").exists(), "{}", words(&run));
    }
    // If the user named no runtime, all available runtimes are measured.
    let work = WorkFolder::new();
    let run = without_programs(&work, &["--counts", "10,1e11"]);
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    let record = work.record();
    let light_processes = record["light_processes"].as_array().unwrap();
    assert_eq!(
        (light_processes.len(), record["not_measured"].as_array().unwrap().len()),
        (3, 6),
        "{}",
        record["not_measured"]
    );
    assert!(light_processes.iter().all(|spawning| spawning["runs"].as_array().unwrap().len() == 1));
    assert!(record["not_measured"].to_string().contains("golang-go"));
}

fn programs(folder: &Path) -> Vec<std::path::PathBuf> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("beam-")).collect()
}

#[test]
fn cache_is_reused_and_repaired() {
    if !is_here(&["erl", "erlc"]) {
        return;
    }
    let work = WorkFolder::new();
    let cache = work.path("cache");
    let run = || {
        let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        run.args(["spawn", "--force", "--out", "out", "--runtime", "beam", "--counts", "10"])
            .current_dir(work.0.path());
        let run = run.env("XDG_CACHE_HOME", &cache).output().unwrap();
        assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    };
    run();
    let folder = cache.join("manycore");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let [entry] = &programs(&folder)[..] else { panic!("{folder:?} has not one entry") };
    let program = entry.join("manycore_light.beam");
    let made = || fs::metadata(&program).unwrap().modified().unwrap();
    let first = made();
    run();
    assert_eq!(made(), first, "compiled again");
    fs::write(&program, "no code at all").unwrap();
    run();
    assert!(fs::read(&program).unwrap().starts_with(b"FOR1"), "still damaged");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "something else is left there");
}

#[test]
fn world_writable_cache_is_not_used() {
    if !is_here(&["erl", "erlc"]) {
        return;
    }
    let work = WorkFolder::new();
    let open = work.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    symlink(&open, work.path("link")).unwrap();
    for home in ["open", "link"] {
        let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        run.args(["spawn", "--force", "--out", "out", "--runtime", "beam", "--counts", "10"])
            .current_dir(work.0.path());
        let run = run.env("XDG_CACHE_HOME", work.path(home)).output().unwrap();
        assert_eq!(run.status.code(), Some(0), "{}", words(&run));
        assert!(programs(&open.join("manycore")).is_empty());
    }
}

#[test]
fn limit_is_reached_as_predicted() {
    let work = WorkFolder::new();
    let run = work.run(&["spawn", "--runtime", "tokio", "--counts", "1000", "--test-capacity=128M"]);
    if run.status.code() == Some(3) && words(&run).contains("control group") {
        return eprintln!("SKIPPED: {}", words(&run));
    }
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    let record = work.record();
    let runs = record["light_processes"][0]["runs"].as_array().unwrap();
    let purposes: Vec<&str> = runs.iter().map(|run| run["purpose"].as_str().unwrap()).collect();
    assert_eq!(purposes, ["pilot", "pilot", "count", "capacity_test"]);
    let reached = &runs[3];
    assert_eq!(reached["ending"]["kind"], "killed");
    assert_eq!(reached["memory_limit_bytes"], 128 << 20);
    // One and a half times the predicted count is requested.
    let share = reached["alive"].as_f64().unwrap() / (reached["requested"].as_f64().unwrap() / 1.5);
    assert!((0.85..1.15).contains(&share), "{share}: {reached}");
    // The report predicts from the pilots as well: a thousand tasks need less than the granularity of the
    // group's charge.
    assert!(!words(&run).contains("WARNING  tokio: with 134 MB"), "{}", words(&run));
}

#[test]
fn processes_compute_while_they_are_watched() {
    if !has("taskset") {
        return eprintln!("SKIPPED: no taskset");
    }
    let work = WorkFolder::new();
    let mut run = std::process::Command::new("taskset");
    let cpu = manycore_linux::affinity::allowed().unwrap().iter().next().unwrap().to_string();
    run.args(["-c", &cpu]).arg(assert_cmd::cargo::cargo_bin!("manycore"));
    run.args(["spawn", "--runtime", "processes", "--counts", "50", "--work", "spin", "--work-time", "1s"]);
    let run = run.args(["--out", "out"]).current_dir(work.0.path()).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    let spin = &work.record()["light_processes"][0]["runs"][0]["spin"];
    let busy: Vec<f64> =
        spin["busy"].as_array().unwrap().iter().map(|row| row[0].as_f64().unwrap()).collect();
    let stolen: f64 = spin["stolen"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
    let mean = (busy.iter().sum::<f64>() + stolen) / busy.len() as f64;
    // Regression: the processes had ended before the first reading when they were started one after the
    // other. The kernel may miss ticks of a CPU that the hypervisor takes; 50 processes are runnable all the same.
    let running = spin["running"].as_array().unwrap().iter().filter_map(Value::as_u64).max();
    assert!(mean > 0.4 || running >= Some(40), "{mean}: {spin}");
}

/// Runs the command with the settings of a user in `environment`.
fn of_a_user(runtime: &str, environment: &[(&str, &Path)]) {
    let work = WorkFolder::new();
    let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
    run.args(["spawn", "--runtime", runtime, "--counts", "10", "--out", "out"]).current_dir(work.0.path());
    run.env_remove("XDG_CACHE_HOME").env_remove("GOCACHE").envs(environment.iter().copied());
    let run = run.output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{runtime}: {}", words(&run));
}

#[test]
fn foreign_home_is_ignored() {
    for (runtime, programs) in [("beam", &["erl", "erlc"][..]), ("go", &["go"])] {
        if is_here(programs) {
            of_a_user(runtime, &[("HOME", Path::new("/dev/null"))]);
        }
    }
}

#[test]
fn output_of_user_settings_is_ignored() {
    if is_here(&["erl", "erlc"]) {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".erlang"), "io:format(\"welcome~n\").\n").unwrap();
        of_a_user("beam", &[("HOME", home.path())]);
    }
    if is_here(&["java", "javac"]) {
        of_a_user("jvm", &[("JAVA_TOOL_OPTIONS", Path::new("-Xlog:all=info:stdout"))]);
    }
}
