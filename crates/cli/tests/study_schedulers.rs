//! `compare` and `tune` with schedulers, as far as this machine has `sched_ext`. On a kernel that has it, `lab/tests` has
//! the rest.

use crate::common::study::WorkFolder;
use std::path::Path;

#[test]
fn texts_that_are_no_schedulers_are_refused() {
    let work = WorkFolder::new();
    for (scheduler, why) in [
        (
            "sched=cluster:fast",
            "'cluster:fast' is not a scheduler; write kernel, cluster:spread, cluster:pack",
        ),
        ("sched=cluster:auto", "auto changes its policy during a run"),
        ("sched=scx_lavd 'open", "a quote is not closed"),
        ("sched=kernel,sched=kernel", "sched is given twice"),
    ] {
        let said = work.refused(2, &["compare", "--b", scheduler, "--", "touch", "ran"]);
        assert!(said.contains(why), "{scheduler}: {said}");
    }
    let said = work.refused(2, &["tune", "--schedulers", "cluster:fast", "--", "touch", "ran"]);
    assert!(said.contains("is not a scheduler"), "{said}");
    assert!(!work.path("ran").exists());
}

#[test]
fn a_kernel_without_sched_ext_is_refused_before_anything_runs() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        return println!("SKIPPED: this kernel has sched_ext");
    }
    let work = WorkFolder::new();
    for compared in [
        ["compare", "--variant", "base=", "--variant", "sched=cluster:spread"].as_slice(),
        ["compare", "--variant", "sched=kernel", "--variant", "sched=scx_none --fast"].as_slice(),
        ["tune", "--workers", "1", "--place", "free", "--schedulers"].as_slice(),
    ] {
        let said = work.refused(3, &[compared, &["--", "touch", "ran"]].concat());
        assert!(said.contains("this kernel has no sched_ext (/sys/kernel/sched_ext is missing)"), "{said}");
    }
    assert!(!work.path("ran").exists());
}

#[test]
fn the_kernels_own_scheduler_is_a_variant_everywhere() {
    let loaded =
        std::fs::read_to_string("/sys/kernel/sched_ext/state").is_ok_and(|state| state != "disabled\n");
    if loaded {
        return println!("SKIPPED: a sched_ext scheduler is loaded");
    }
    let work = WorkFolder::new();
    work.evaluated(&["compare", "--pairs", "2", "--b", "sched=kernel", "--", "true"]);
    let record = work.record();
    for treatment in record["experiments"][0]["treatments"].as_array().unwrap() {
        assert_eq!(treatment["factors"]["scheduler"], "kernel");
        assert!(treatment["name"].as_str().unwrap().contains("(sched=kernel)"), "{treatment}");
    }
    let parameters = &record["experiments"][0]["parameters"];
    assert_eq!(parameters["same_variants"], "yes");
    assert!(parameters.get("schedulers").is_none(), "{parameters}: nothing was switched");
}
