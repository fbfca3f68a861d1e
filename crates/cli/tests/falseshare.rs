//! Tests of `manycore falseshare` on programs with known sharing.

use crate::common;
use crate::common::sharing::{
    assert_clean, build, c, falseshare, findings_of, lines, marked, only, plain, source,
};
use serde_json::Value;

#[test]
fn two_fields_of_a_global_are_found_with_their_code() {
    let Some(program) = plain() else { return };
    let (code, findings) = findings_of(&[], program, "false");
    let finding = only(&findings, "false_sharing");
    assert_eq!((code, finding["class"].as_str()), (Some(1), Some("false")), "{findings:#}");
    assert_eq!(lines(finding, "cases.c"), [marked("cases.c", "A"), marked("cases.c", "B")], "{finding:#}");
    assert_eq!(finding["data"]["variables"][0]["name"], "counters");
    let names: Vec<&str> =
        finding["threads"].as_array().unwrap().iter().map(|party| party["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"first") && names.contains(&"second"), "{names:?}");
    let fix = &finding["fix"];
    assert!(fix["kind"] == "pad" && fix["text"].as_str().unwrap().contains("_Alignas(64)"), "{fix}");
}

#[test]
fn padded_read_only_local_locked_and_single_thread_data_is_clean() {
    let Some(program) = plain() else { return };
    for case in ["padded", "readonly", "one", "local", "mutex"] {
        assert_clean(program, case);
    }
}

#[test]
fn true_sharing_is_reported_separately() {
    let Some(program) = plain() else { return };
    let (code, findings) = findings_of(&[], program, "true");
    assert_eq!((code, &findings["false_sharing"]), (Some(0), &Value::Array(vec![])), "{findings:#}");
    let shared = findings["true_sharing"].as_array().unwrap();
    let counter = shared.iter().find(|finding| finding["data"]["variables"][0]["name"] == "together");
    let counter = counter.unwrap_or_else(|| panic!("{findings:#}"));
    assert!(lines(counter, "cases.c").contains(&marked("cases.c", "C")), "{counter:#}");
    assert_eq!(counter["fix"]["kind"], "per_thread");
}

/// Regression test: the advice for a mutex was to move the counters inside the mutex to a local variable, at a line of
/// the C library.
#[test]
fn a_lock_is_named_with_the_line_that_takes_it() {
    let Some(program) = plain() else { return };
    for (case, lock, line) in [("mutex", "guarded", "K"), ("spin", "spun", "L")] {
        let (code, findings) = findings_of(&[], program, case);
        let shared = findings["true_sharing"].as_array().unwrap();
        let finding = shared.iter().find(|finding| finding["data"]["variables"][0]["name"] == lock);
        let finding = finding.unwrap_or_else(|| panic!("{findings:#}"));
        let fix = (finding["fix"]["kind"].as_str(), finding["fix"]["text"].as_str().unwrap());
        assert!(code == Some(0) && fix.0 == Some("lock"), "{case}: {finding:#}");
        assert!(fix.1.contains(lock) && fix.1.contains("cases.c:"), "{case}: {fix:?}");
        assert!(lines(finding, "cases.c").contains(&marked("cases.c", line)), "{case}: {finding:#}");
        assert!(!finding["sites"].to_string().contains("pthread_mutex"), "{case}: {finding:#}");
    }
}

/// Regression test: data that `read(2)` wrote was not seen, although the report said that every access was followed.
#[test]
fn buffers_that_the_kernel_fills_are_followed() {
    let Some(program) = plain() else { return };
    let (code, findings) = findings_of(&[], program, "filled");
    let finding = only(&findings, "false_sharing");
    assert_eq!(
        (code, finding["data"]["variables"][0]["name"].as_str()),
        (Some(1), Some("slots")),
        "{finding:#}"
    );
    // Since glibc 2.41, a function of its own makes the system calls at which a thread can be cancelled.
    let function = finding["sites"][0]["frame"]["function"].as_str().unwrap();
    assert!(function.contains("read") || function == "__syscall_cancel_arch", "{finding:#}");
}

#[test]
fn a_field_that_is_only_read_is_to_be_split_off() {
    let Some(program) = plain() else { return };
    let (code, findings) = findings_of(&[], program, "split");
    let finding = only(&findings, "false_sharing");
    assert_eq!((code, finding["data"]["variables"][0]["name"].as_str()), (Some(1), Some("config")));
    assert_eq!(lines(finding, "cases.c"), [marked("cases.c", "D"), marked("cases.c", "E")], "{finding:#}");
    assert_eq!(finding["fix"]["kind"], "split", "{finding:#}");
}

#[test]
fn elements_of_an_array_belong_to_threads_that_run_the_same_line() {
    let Some(program) = plain() else { return };
    let (_, findings) = findings_of(&[], program, "slots");
    let finding = only(&findings, "false_sharing");
    assert_eq!(lines(finding, "cases.c"), [marked("cases.c", "F")]);
    assert_eq!(finding["data"]["variables"][0]["name"], "slots");
    assert_eq!(finding["fix"]["kind"], "per_thread", "{finding:#}");
}

/// Returns the lines of a source file that a finding names as callers of allocations.
fn allocations(finding: &Value) -> Vec<u64> {
    let blocks = finding["data"]["blocks"].as_array().unwrap_or_else(|| panic!("{finding:#}"));
    blocks.iter().filter_map(|block| block["callers"][0]["line"].as_u64()).collect()
}

#[test]
fn a_block_is_reported_with_the_line_that_allocated_it() {
    let Some(program) = plain() else { return };
    let (code, findings) = findings_of(&[], program, "heap");
    let finding = only(&findings, "false_sharing");
    assert_eq!((code, allocations(finding)), (Some(1), vec![marked("cases.c", "H")]), "{finding:#}");
}

#[test]
fn neighbours_on_the_heap_are_to_be_allocated_separately() {
    let Some(program) = plain() else { return };
    let (code, findings) = findings_of(&[], program, "neighbours");
    let finding = only(&findings, "false_sharing");
    assert_eq!((code, allocations(finding)), (Some(1), vec![marked("cases.c", "G"); 2]), "{finding:#}");
    assert_eq!(finding["fix"]["kind"], "allocate");
}

#[test]
fn a_stack_that_is_shared_with_threads_is_named() {
    let Some(program) = plain() else { return };
    let (code, findings) = findings_of(&[], program, "stack");
    let finding = only(&findings, "false_sharing");
    assert_eq!((code, finding["data"]["kind"].as_str()), (Some(1), Some("stack")), "{finding:#}");
    assert_eq!(lines(finding, "cases.c"), [marked("cases.c", "A"), marked("cases.c", "B")]);
}

#[test]
fn children_and_other_programs_are_observed() {
    let Some(program) = plain() else { return };
    let (code, findings) = findings_of(&[], program, "fork");
    let finding = only(&findings, "false_sharing");
    assert_eq!((code, finding["data"]["variables"][0]["name"].as_str()), (Some(1), Some("counters")));
    assert_eq!(findings["processes"], 2, "{findings:#}");
    let (code, findings) = findings_of(&[], program, "exec");
    assert_eq!((code, &findings["unobserved_processes"]), (Some(1), &0.into()), "{findings:#}");
}

#[test]
fn programs_are_named_however_they_were_built() {
    for (flags, name) in [
        (&["-O0"][..], "slow"),
        (&["-O2", "-static"], "static"),
        (&["-O2", "-no-pie", "-fno-pie"], "fixed"),
        (&["-O2", "-gz=zlib"], "compressed"),
    ] {
        let Some(program) = c(flags, name) else { return };
        let (_, findings) = findings_of(&[], &program, "false");
        let finding = only(&findings, "false_sharing");
        assert_eq!(lines(finding, "cases.c"), [marked("cases.c", "A"), marked("cases.c", "B")], "{name}");
        assert_eq!(finding["data"]["variables"][0]["name"], "counters", "{name}");
    }
}

#[test]
fn without_lines_functions_are_named_and_without_symbols_files() {
    for (flags, name, code) in
        [(&["-O2", "-g0"][..], "lineless", "first+0x"), (&["-O2", "-s"], "stripped", "stripped+0x")]
    {
        let Some(program) = c(flags, name) else { return };
        let (status, findings) = findings_of(&[], &program, "false");
        let finding = only(&findings, "false_sharing");
        let sites = finding["sites"].as_array().unwrap();
        let named = sites.iter().any(|site| site["frame"]["function"].as_str().unwrap().starts_with(code));
        assert!(status == Some(1) && named, "{finding:#}");
        let held = &finding["data"];
        match name {
            "stripped" => assert!(held["path"].as_str().unwrap().ends_with("stripped"), "{held}"),
            _ => assert_eq!(held["variables"][0]["name"], "counters"),
        }
    }
}

#[test]
fn a_separate_debug_file_is_found() {
    let Some(program) = c(&["-O2"], "parted") else { return };
    let debug = program.with_extension("debug");
    let objcopy = |arguments: &[&std::ffi::OsStr]| {
        assert!(std::process::Command::new("objcopy").args(arguments).status().unwrap().success());
    };
    objcopy(&["--only-keep-debug".as_ref(), program.as_ref(), debug.as_ref()]);
    let link = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&["--strip-all".as_ref(), link.as_ref(), program.as_ref()]);
    let (_, findings) = findings_of(&[], &program, "false");
    let finding = only(&findings, "false_sharing");
    assert_eq!(lines(finding, "cases.c"), [marked("cases.c", "A"), marked("cases.c", "B")], "{finding:#}");
    assert_eq!(finding["data"]["variables"][0]["name"], "counters");
}

/// A program in another language than C.
struct Language {
    source: &'static str,
    /// False sharing that has to be found: the case, the lines of code, the kind of memory, and the kind of fix.
    shared: &'static [(&'static str, &'static [&'static str], &'static str, &'static str)],
    clean: &'static [&'static str],
    /// Markers of the allocating lines in the cases `false` and `neighbours`.
    allocations: [&'static str; 2],
    /// The variable that both threads write, and the marker of the code.
    together: (&'static str, &'static str),
    /// A part of the text of the fix.
    fix: &'static str,
}

const CPP: Language = Language {
    source: "cases.cpp",
    shared: &[
        ("false", &["A"], "heap", "per_thread"),
        ("neighbours", &["A"], "heap", "allocate"),
        ("stack", &["A"], "stack", "per_thread"),
    ],
    clean: &["apart", "readonly", "local"],
    allocations: ["B", "C"],
    together: ("together", "A"),
    fix: "hardware_destructive_interference_size",
};

const RUST: Language = Language {
    source: "cases.rs",
    shared: &[
        ("false", &["A", "B"], "heap", "pad"),
        ("neighbours", &["F"], "heap", "allocate"),
        ("stack", &["A", "B"], "stack", "pad"),
    ],
    clean: &["apart", "readonly", "local"],
    allocations: ["C", "D"],
    together: ("cases::TOGETHER", "E"),
    fix: "repr(align(64))",
};

const GO: Language = Language {
    source: "cases.go",
    shared: &[("false", &["A"], "go_heap", "per_thread"), ("neighbours", &["F"], "go_heap", "per_thread")],
    clean: &["apart", "readonly"],
    // Go's allocator is not in a library whose functions could be wrapped.
    allocations: ["", ""],
    together: ("main.together", "E"),
    fix: "[64]byte",
};

/// Checks all cases of a program, each in one run.
fn assert_language(language: &Language, program: &std::path::Path) {
    let Language { source, shared, clean, allocations: allocated, together, fix } = language;
    for (case, marks, kind, cured) in *shared {
        let (code, findings) = findings_of(&[], program, case);
        let finding = only(&findings, "false_sharing");
        let found = (code, finding["data"]["kind"].as_str(), finding["fix"]["kind"].as_str());
        assert_eq!(found, (Some(1), Some(*kind), Some(*cured)), "{case}: {finding:#}");
        // Code of libraries that accesses the same line may follow.
        let own: Vec<u64> = marks.iter().map(|mark| marked(source, mark)).collect();
        let lines = lines(finding, source);
        assert!(own.iter().all(|line| lines.contains(line)), "{case}: {own:?} in {finding:#}");
        let allocator = match *case {
            "false" => allocated[0],
            "neighbours" => allocated[1],
            _ => "",
        };
        if !allocator.is_empty() {
            let callers = allocations(finding);
            assert!(!callers.is_empty(), "{case}: {finding:#}");
            let line = marked(source, allocator);
            assert!(callers.iter().all(|caller| *caller == line), "{case}: {finding:#}");
        }
        if *case == "false" {
            assert!(own.contains(&finding["sites"][0]["frame"]["line"].as_u64().unwrap()), "{finding:#}");
            assert!(finding["fix"]["text"].as_str().unwrap().contains(fix), "{finding:#}");
        }
    }
    for case in *clean {
        assert_clean(program, case);
    }
    let (code, findings) = findings_of(&[], program, "true");
    assert_eq!((code, &findings["false_sharing"]), (Some(0), &Value::Array(vec![])), "{findings:#}");
    let shared = findings["true_sharing"].as_array().unwrap();
    let counter = shared.iter().find(|finding| finding["data"]["variables"][0]["name"] == together.0);
    let counter = counter.unwrap_or_else(|| panic!("{findings:#}"));
    assert_eq!(lines(counter, source), [marked(source, together.1)], "{counter:#}");
}

#[test]
fn findings_in_cpp_use_its_syntax() {
    let source = source(CPP.source);
    let flags = ["-std=c++20", "-O2", "-g", "-pthread", source.to_str().unwrap()];
    let Some(program) = build("g++", &flags, "cpp") else { return };
    assert_language(&CPP, &program);
}

#[test]
fn findings_in_rust_use_its_syntax() {
    let source = source(RUST.source);
    let flags = ["--edition", "2024", "-O", "-g", source.to_str().unwrap()];
    let Some(program) = build("rustc", &flags, "rust") else { return };
    assert_language(&RUST, &program);
}

#[test]
fn findings_in_go_use_its_syntax() {
    if !common::sharing::can_emulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("go");
    let build = std::process::Command::new("go")
        // The language version of Debian 12's Go, whichever version is installed.
        .args([
            "build",
            "-gcflags=-lang=go1.19",
            "-o",
            program.to_str().unwrap(),
            source(GO.source).to_str().unwrap(),
        ])
        .output();
    let Ok(build) = build else { return eprintln!("SKIPPED: go is not installed") };
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    assert_language(&GO, &program);
}

#[test]
fn text_shows_the_line_and_its_fix() {
    let Some(program) = plain() else { return };
    let run = falseshare(&[], program, "false");
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(
        text.contains("1. FALSE SHARING: ") && text.contains("counters (global of 16 bytes in cases)"),
        "{text}"
    );
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(row("first ").ends_with(&format!("  wwwwwwww{}", ".".repeat(56))), "{text}");
    assert!(row("second ").ends_with(&format!("  ........wwwwwwww{}", ".".repeat(48))), "{text}");
    assert!(text.contains("fix: ") && text.contains("1 case of false sharing (threshold: 50 "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    assert_eq!(String::from_utf8(run.stderr).unwrap(), "manycore: 1 case of false sharing\n");
}

#[test]
fn a_saved_observation_is_evaluated_again() {
    let Some(program) = plain() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("seen.json");
    let kept = kept.to_str().unwrap();
    let (code, findings) = findings_of(&["--save", kept], program, "false");
    let again = |arguments: &[&str]| {
        let run = common::manycore()
            .args(["falseshare", "--format", "json", "--from", kept])
            .args(arguments)
            .output()
            .unwrap();
        (run.status.code(), serde_json::from_slice::<Value>(&run.stdout).unwrap())
    };
    assert_eq!(again(&[]), (code, findings));
    common::schema::parse("memory-accesses", std::fs::read(kept).unwrap());
    let (code, few) = again(&["--threshold", "1000000000"]);
    assert_eq!((code, &few["false_sharing"]), (Some(0), &Value::Array(vec![])));
}

#[test]
fn doubled_lines_are_latent_and_count_only_on_request() {
    let Some(program) = plain() else { return };
    assert_clean(program, "padded");
    let (code, findings) = findings_of(&["--latent"], program, "padded");
    let finding = only(&findings, "latent");
    assert_eq!((code, &finding["layout"]["line_bytes"]), (Some(1), &128.into()), "{findings:#}");
    assert_eq!(finding["data"]["variables"][0]["name"], "apart");
}
