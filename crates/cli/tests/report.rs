//! `manycore report` on the real binary: its output, its files, and how it rejects bad input.

use crate::common::{interrupted, manycore, save, stolen_guest, write};
use manycore_experiment::{record::Record, spawning::Work};
use manycore_testkit::SyntheticMachine;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};
use tempfile::TempDir;

fn text(paths: &[&Path]) -> String {
    let output = manycore().arg("report").args(paths).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

/// Runs `report` on a file with these bytes. Expects exit code 2 and returns the only message, which names
/// the file.
fn refused(name: &str, bytes: &[u8]) -> String {
    let folder = TempDir::new().unwrap();
    let path = write(folder.path(), name, bytes);
    let output = manycore().arg("report").arg(&path).assert().code(2).stdout("");
    let message = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    message.replace(path.to_str().unwrap(), name)
}

#[test]
fn a_guest_with_a_slow_baseline_reads_well() {
    let folder = TempDir::new().unwrap();
    insta::assert_snapshot!(text(&[&save(&folder, "guest", &stolen_guest())]));
}

#[test]
fn records_side_by_side_read_well() {
    let folder = TempDir::new().unwrap();
    let server = SyntheticMachine { blocks: 12, ..SyntheticMachine::server() }.record();
    let paths = [save(&folder, "server", &server), save(&folder, "half", &interrupted())];
    insta::assert_snapshot!(text(&[&paths[0], &paths[1]]));
}

#[test]
fn preempted_fifo_waiters_read_well() {
    let folder = TempDir::new().unwrap();
    let record = SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }.bench("lock");
    insta::assert_snapshot!(text(&[&save(&folder, "lock", &record)]));
}

#[test]
fn light_processes_read_well() {
    let folder = TempDir::new().unwrap();
    let guest = SyntheticMachine::guest();
    for (name, work) in [("idle", Work::Idle), ("spin", Work::Spin), ("io", Work::Io)] {
        let text = text(&[&save(&folder, name, &guest.spawn(work))]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!(format!("spawn_{name}"), text);
    }
    let beside = ["idle", "spin"].map(|name| folder.path().join(format!("{name}.json")));
    insta::assert_snapshot!("spawn_beside", text(&[&beside[0], &beside[1]]));
}

#[test]
fn light_processes_have_tables_for_other_programs() {
    let folder = TempDir::new().unwrap();
    let record = save(&folder, "idle", &SyntheticMachine::guest().spawn(Work::Idle));
    let spin = save(&folder, "spin", &SyntheticMachine::guest().spawn(Work::Spin));
    let tables = folder.path().join("tables");
    manycore().arg("report").args([record, spin]).arg("--csv").arg(&tables).assert().success();
    for name in ["spawn", "spawn_capacity", "spawn_cpus"] {
        let table = fs::read_to_string(tables.join(format!("{name}.csv"))).unwrap();
        // Commas between quotes are part of a name.
        let commas = |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum();
        let columns: Vec<usize> = table.lines().map(commas).collect();
        assert!(columns.iter().all(|&count| count == columns[0]), "{name}: {table}");
        let some: Vec<&str> = table.lines().take(12).collect();
        insta::assert_snapshot!(format!("csv_{name}"), some.join("\n"));
    }
}

#[test]
fn light_processes_are_evaluated_as_json() {
    let folder = TempDir::new().unwrap();
    let record = save(&folder, "idle", &SyntheticMachine::guest().spawn(Work::Idle));
    let output = manycore().arg("report").arg(record).args(["--format", "json"]).assert().success();
    let judged: serde_json::Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let beam = &judged["light_processes"][0];
    assert_eq!(
        (&beam["runtime"], &beam["capacity"]["lowest_limit"]["kind"]),
        (&"beam".into(), &"limit".into())
    );
    let bytes = beam["capacity"]["line"]["bytes_each"].as_f64().unwrap();
    assert!((bytes - 2677.0).abs() < 1.0, "{bytes}");
}

#[test]
fn impossible_light_processes_are_rejected() {
    let mut record = SyntheticMachine::guest().spawn(Work::Spin);
    record.light_processes[0].runs[0].spin.as_mut().unwrap().busy[3].pop();
    assert_eq!(
        refused("r.json", &serde_json::to_vec(&record).unwrap()),
        "manycore: r.json: damaged record: light processes of beam: run 0: busy has 1 shares for 2 CPUs\n"
    );
}

#[test]
fn every_line_fits_a_hundred_columns() {
    let folder = TempDir::new().unwrap();
    let mut paths: Vec<_> = (1..6)
        .map(|seed| {
            save(
                &folder,
                &format!("run-{seed}"),
                &SyntheticMachine { seed, blocks: 8, ..SyntheticMachine::guest() }.record(),
            )
        })
        .collect();
    paths.push(save(
        &folder,
        "giant",
        &SyntheticMachine { blocks: 8, ..SyntheticMachine::large_server() }.record(),
    ));
    let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
    let report = text(&paths);
    let long: Vec<&str> = report.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn csv_tables_are_as_expected() {
    let folder = TempDir::new().unwrap();
    let record = save(&folder, "guest", &stolen_guest());
    let tables = folder.path().join("new/folder");
    manycore().arg("report").arg(record).arg("--csv").arg(&tables).assert().success();
    let read = |name: &str| fs::read_to_string(tables.join(name)).unwrap();
    let scaling = read("scaling.csv");
    assert!(scaling.starts_with("threads,total_events,events_per_second,avg_latency_ms,speedup,"));
    for name in [
        "scaling",
        "noise",
        "modes",
        "matrix",
        "verdicts",
        "sysbench",
        "contention",
        "stream",
        "stream_nodes",
    ] {
        insta::assert_snapshot!(format!("csv_{name}"), read(&format!("{name}.csv")));
    }
    for name in ["cpus.csv", "affinity.csv", "samples.csv"] {
        let table = read(name);
        // Commas between quotes are part of a name.
        let commas = |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum();
        let columns: Vec<usize> = table.lines().map(commas).collect();
        assert!(columns.iter().all(|&count| count == columns[0]), "{name}");
    }
    let samples: usize = stolen_guest().experiments.iter().map(|experiment| experiment.samples.len()).sum();
    assert_eq!(read("samples.csv").lines().count(), 1 + samples);
}

#[test]
fn json_is_one_evaluation_or_an_array() {
    let folder = TempDir::new().unwrap();
    let path = save(&folder, "guest", &stolen_guest());
    let json = |paths: &[&Path]| -> serde_json::Value {
        let output = manycore().args(["report", "--format", "json"]).args(paths).assert().success();
        serde_json::from_slice(&output.get_output().stdout).unwrap()
    };
    let one = json(&[&path]);
    assert_eq!(one["schema"], "manycore/evaluation/1");
    assert_eq!(one["record"], "guest");
    assert_eq!(one["findings"][0]["kind"], "warning");
    let two = json(&[&path, &path]);
    assert!(two[1]["record"].as_str().unwrap().ends_with("guest #2"));
}

#[test]
fn files_that_are_not_records_are_rejected() {
    let cut = serde_json::to_vec(&stolen_guest()).unwrap();
    for (name, bytes, expected) in [
        ("empty.json", &b""[..], "empty.json: the file is empty"),
        ("cut.json", &cut[..cut.len() / 2], "cut.json: the record is truncated"),
        ("noise.bin", &[0x7f, b'E', b'L', b'F', 0xff], "noise.bin: not JSON"),
        ("list.json", b"[1, 2]", "list.json: JSON, but not a record: it has no \"schema\""),
        (
            "newer.json",
            br#"{"schema": "manycore/record/2"}"#,
            "newer.json: the record has schema \"manycore/record/2\", written by a newer manycore (this one reads \"manycore/record/1\"); update this one",
        ),
        (
            "machine.json",
            br#"{"schema": "manycore/machine/1"}"#,
            "machine.json: this is a machine (\"manycore/machine/1\"); expected a record (\"manycore/record/1\")",
        ),
        ("other.json", br#"{"schema": "else"}"#, "other.json: unknown schema \"else\""),
        ("bare.json", br#"{"schema": "manycore/record/1"}"#, "bare.json: damaged record: missing field"),
    ] {
        let message = refused(name, bytes);
        assert!(message.starts_with(&format!("manycore: {expected}")), "{message}");
    }
}

#[test]
fn absurd_values_are_refused_with_their_place() {
    let broken = |change: fn(&mut Record)| {
        let mut record = stolen_guest();
        change(&mut record);
        refused("r.json", &serde_json::to_vec(&record).unwrap())
    };
    assert_eq!(
        broken(|record| record.experiments[2].samples[5].wall_ns = 0),
        "manycore: r.json: damaged record: experiment \"scaling\": sample 5: wall_ns is 0\n"
    );
    assert_eq!(
        broken(|record| record.experiments[0].samples[0].treatment = 7),
        "manycore: r.json: damaged record: experiment \"noise\": sample 0: treatment index is 7, expected less than 4\n"
    );
}

#[test]
fn a_record_without_samples_is_rendered_as_empty() {
    let folder = TempDir::new().unwrap();
    let mut record = stolen_guest();
    record.experiments.iter_mut().for_each(|experiment| experiment.samples.clear());
    let report = text(&[&save(&folder, "void", &record)]);
    assert!(report.contains("not in this record"), "{report}");
}

#[test]
fn a_missing_file_is_named() {
    let output = manycore().args(["report", "/nonexistent/record.json"]).assert().code(2);
    let message = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(message.contains("cannot read /nonexistent/record.json: No such file"), "{message}");
}

#[test]
fn targets_that_cannot_be_written_are_named_and_nothing_is_left() {
    let folder = TempDir::new().unwrap();
    let record = save(&folder, "guest", &stolen_guest());
    let page = folder.path().join("absent/page.html");
    let output = manycore().arg("report").arg(&record).arg("--html").arg(&page).assert().code(3).stdout("");
    assert!(String::from_utf8_lossy(&output.get_output().stderr).contains("absent/page.html"));
    // A file exists where the folder should be, so not even root can write there.
    let file = write(folder.path(), "file", b"kept");
    let output = manycore().arg("report").arg(&record).arg("--csv").arg(&file).assert().code(3).stdout("");
    assert!(String::from_utf8_lossy(&output.get_output().stderr).contains(file.to_str().unwrap()));
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_page_is_readable_by_others() {
    let folder = TempDir::new().unwrap();
    let record = save(&folder, "guest", &interrupted());
    let page = folder.path().join("page.html");
    manycore().arg("report").arg(record).arg("--html").arg(&page).assert().success();
    assert_eq!(fs::metadata(page).unwrap().permissions().mode() & 0o777, 0o644);
}

/// A record may come from elsewhere: it must not run scripts in a browser or control a terminal.
#[test]
fn hostile_strings_are_harmless() {
    let folder = TempDir::new().unwrap();
    let mut record = stolen_guest();
    let hostile = "<script>alert(1)</script>\"'&\u{1b}]0;gone\u{7}\u{202e}";
    record.machine.system.hostname = Some(hostile.to_owned());
    record.machine.system.cpu_model = Some(hostile.to_owned());
    record.machine.allowed.effective_limit = hostile.to_owned();
    for experiment in &mut record.experiments {
        experiment.parameters.values_mut().for_each(|value| hostile.clone_into(value));
        experiment.unit = hostile.to_owned();
    }
    let path = save(&folder, "hostile", &record);
    let page = folder.path().join("page.html");
    let output = manycore().arg("report").args([&path, &path]).arg("--html").arg(&page).assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("<script"), "escaped everywhere");
    assert!(page.contains("&lt;script&gt;") && !page.contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn a_page_names_no_outside_resource() {
    let folder = TempDir::new().unwrap();
    let record = save(&folder, "guest", &stolen_guest());
    let page = folder.path().join("page.html");
    manycore().arg("report").arg(record).arg("--html").arg(&page).assert().success();
    let page = fs::read_to_string(page).unwrap().replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}
