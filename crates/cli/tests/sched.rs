//! Tests of `manycore sched` with the real binary: on saved machines, and on this one.

use crate::common::{manycore, schema, text};
use std::fs;

fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/schedulers/{name}.machine", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_saved_machine_is_shown_and_written() {
    let root = fixture("kernel-7.2-16cpu");
    let json = manycore().args(["sched", "show", "--format", "json", "--root", &root]).assert().success();
    let json = schema::parse("scheduler", &json.get_output().stdout);
    assert_eq!(json["clusters"]["are_domain"], true);
    assert_eq!(json["domains"]["levels"][0]["groups"], serde_json::json!(["0-3", "4-7", "8-11", "12-15"]));
    for columns in ["80", "140"] {
        let shown =
            manycore().args(["sched", "show", "--root", &root]).env("COLUMNS", columns).assert().success();
        let shown = text(&shown.get_output().stdout);
        assert!(shown.contains("EEVDF") && shown.contains("CLS"), "{shown}");
    }
}

#[test]
fn this_machine_is_shown_without_files_that_it_may_lack() {
    let json = manycore().args(["sched", "show", "--format", "json"]).assert().success();
    let json = schema::parse("scheduler", &json.get_output().stdout);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(json["kernel"], release.trim());
    assert_eq!(json["live"], true);
}

#[test]
fn a_missing_directory_is_refused() {
    let run = manycore().args(["sched", "show", "--root", "/nonexistent"]).assert().code(2);
    assert!(text(&run.get_output().stderr).contains("/nonexistent"));
}
