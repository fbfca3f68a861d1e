//! Tests of `manycore falseshare` on programs that change their user, go into the background, are for another
//! architecture, or are truncated.

use crate::common::{
    manycore,
    sharing::{build, c, can_emulate, findings_of, only, plain, source},
    text,
};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};
use tempfile::TempDir;

/// Returns a folder that all users may enter.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Writes an executable file with these bytes.
fn program(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs `manycore falseshare --format json -- WORDS` in `folder`.
fn run(folder: &Path, words: &[&str]) -> Output {
    manycore()
        .current_dir(folder)
        .args(["falseshare", "--quiet", "--format", "json", "--"])
        .args(words)
        .timeout(Duration::from_mins(5))
        .output()
        .unwrap()
}

/// Returns the exit code, the notes and standard error.
fn noted(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let run = run(folder, words);
    let found: Value = serde_json::from_slice(&run.stdout).unwrap_or_default();
    (run.status.code(), found["notes"].to_string(), text(&run.stderr))
}

/// Regression test: programs that were started as another user or in another namespace were not run at all.
#[test]
fn programs_of_another_user_or_namespace_run_unobserved_with_a_note() {
    let Some(cases) = plain() else { return };
    let folder = open_folder();
    program(folder.path(), "two", &fs::read(cases).unwrap());
    for (starter, why) in [
        (&["setpriv", "--reuid", "65534", "--clear-groups"][..], "it was started as another user"),
        (&["unshare", "-p", "-f", "--mount-proc"], "it was started in another PID namespace"),
    ] {
        let words = [starter, &["./two", "fail"]].concat();
        let bare = Command::new(words[0]).args(&words[1..]).current_dir(folder.path()).status();
        if bare.is_err() || bare.is_ok_and(|status| status.code() != Some(7)) {
            eprintln!("SKIPPED: {} cannot do that here", starter[0]);
            continue;
        }
        let (code, notes, said) = noted(folder.path(), &words);
        assert!(code == Some(4) && said.contains("ended with status 7"), "{starter:?}: {said}");
        assert!(notes.contains("./two, which ") && notes.contains(why), "{starter:?}: {notes}");
        assert!(!said.contains("ld.so"), "{starter:?}: {said}");
    }
}

/// Regression test: a program that was not observed was reported as clean.
#[test]
fn an_unobserved_program_is_not_reported_as_clean() {
    let Some(cases) = plain() else { return };
    let folder = open_folder();
    program(folder.path(), "two", &fs::read(cases).unwrap());
    let words = ["setpriv", "--reuid", "65534", "--clear-groups", "./two", "one"];
    if !Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder.path())
        .status()
        .is_ok_and(|status| status.success())
    {
        return eprintln!("SKIPPED: setpriv cannot do that here");
    }
    let (code, _, said) = noted(folder.path(), &words);
    assert!(code == Some(3) && said.contains("but 1 ran unobserved"), "{said}");
}

/// Regression test: a process in the background was reported under the emulator's name, without advice.
#[test]
fn a_background_process_is_reported_by_name_with_advice() {
    if !can_emulate() {
        return;
    }
    let folder = open_folder();
    symlink("/bin/sh", folder.path().join("daemon")).unwrap();
    let script = "mkfifo up hold; ./daemon -c 'echo up > up; exec 3<> hold; read line <&3' & read line < up";
    let (code, notes, said) = noted(folder.path(), &["sh", "-c", script]);
    assert_eq!(code, Some(0), "{said}");
    assert!(notes.contains("daemon was still running") && notes.contains("in the foreground"), "{notes}");
}

/// Returns a minimal program for 32-bit x86, which exits with status 7.
fn m32() -> Vec<u8> {
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    let words: [u32; 15] = [
        // e_version, e_entry, e_phoff, e_shoff, e_flags
        1,
        0x0804_8054,
        52,
        0,
        0,
        // e_ehsize and e_phentsize, e_phnum and e_shentsize, e_shnum and e_shstrndx
        0x0020_0034,
        1,
        0,
        // PT_LOAD at the start of the file, readable and executable.
        1,
        0,
        0x0804_8000,
        0x0804_8000,
        96,
        96,
        5,
    ];
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0".to_vec();
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    file.extend(4096_u32.to_le_bytes());
    file.extend(code);
    file
}

/// Regression test: a program for another architecture that a shell started was not reported.
#[test]
fn a_32_bit_program_started_by_a_shell_is_reported() {
    if !can_emulate() {
        return;
    }
    let folder = open_folder();
    let path = program(folder.path(), "m32", &m32());
    if Command::new(&path).status().map_or(true, |status| status.code() != Some(7)) {
        return eprintln!("SKIPPED: this kernel runs no programs for 32-bit x86");
    }
    for script in ["./m32", "./m32; exit 7", "exec ./m32"] {
        let (code, notes, said) = noted(folder.path(), &["sh", "-c", script]);
        assert!(code == Some(4) && said.contains("status 7"), "{script}: {said}");
        assert!(notes.contains("./m32, which ") && notes.contains("for 32-bit x86"), "{script}: {notes}");
    }
}

/// Regression test: a truncated program was started in the emulator, whose error message did not mention the cause.
#[test]
fn a_truncated_program_is_reported_as_truncated() {
    if !can_emulate() {
        return;
    }
    let folder = open_folder();
    let whole = fs::read("/bin/true").unwrap();
    for bytes in [18, 100, 5000] {
        let path = program(folder.path(), "short", &whole[..bytes]);
        let run = run(folder.path(), &[path.to_str().unwrap()]);
        let said = text(&run.stderr);
        assert!(run.status.code() == Some(3) && said.contains("cut short"), "{bytes}: {said}");
        assert!(said.contains(&format!("of {bytes} bytes")) && said.contains("short: "), "{bytes}: {said}");
    }
}

/// Regression test: where the address space was limited, the first failing operation was reported instead of the limit.
#[test]
fn an_address_space_limit_is_named() {
    if !can_emulate() {
        return;
    }
    let manycore = assert_cmd::cargo::cargo_bin!("manycore");
    let script = "ulimit -v 2000000; exec \"$0\" falseshare --quiet -- true";
    let run = Command::new("sh").args(["-c", script]).arg(manycore).output().unwrap();
    let said = text(&run.stderr);
    assert!(run.status.code() == Some(3) && said.contains("ulimit -v unlimited"), "{said}");
}

/// Regression test: the reason why heap blocks had no names was not reported.
#[test]
fn a_static_program_is_reported_without_allocations() {
    let Some(program) = c(&["-O2", "-static"], "static-heap") else { return };
    let note = "static-heap (process ";
    let (code, findings) = findings_of(&[], &program, "heap");
    let notes = findings["notes"].to_string();
    assert_eq!(code, Some(1), "{findings:#}");
    assert!(notes.contains(note) && notes.contains("linked statically"), "{notes}");
    // Here the shared data has a name.
    let (_, findings) = findings_of(&[], &program, "false");
    assert!(!findings["notes"].to_string().contains("linked statically"), "{findings:#}");
    let Some(program) = plain() else { return };
    let (_, findings) = findings_of(&[], program, "heap");
    assert!(!findings["notes"].to_string().contains("linked statically"), "{findings:#}");
}

/// Regression test: redis-server, a link to redis-check-rdb, was reported under that name.
#[test]
fn a_program_has_the_name_by_which_it_was_started() {
    let Some(program) = c(&["-O2", "-static"], "check-rdb") else { return };
    let folder = open_folder();
    let link = folder.path().join("server");
    symlink(&program, &link).unwrap();
    let (_, findings) = findings_of(&[], &link, "heap");
    let notes = findings["notes"].to_string();
    assert!(notes.contains("/server (process ") && !notes.contains("check-rdb"), "{notes}");
}

/// Ways in which a process can execute another program. Regression test: those that did not use `execve(3)`,
/// `execv(3)` and the like ran unobserved, and `/proc/self/exe` even without a note and with exit code 0.
const ROUTES: [&str; 12] = [
    "execl", "execlp", "execle", "syscall", "execveat", "fexecve", "memfd", "self", "link", "vfork", "spawn",
    "shell",
];

#[test]
fn every_route_to_another_program_is_followed_from_static_programs_too() {
    let source = source("routes.c");
    for (flags, name) in [(&["-O2"][..], "routes"), (&["-O2", "-static"], "routes-static")] {
        let flags = [flags, &["-g", "-pthread", source.to_str().unwrap()]].concat();
        let Some(program) = build("gcc", &flags, name) else { return };
        for route in ROUTES {
            let (code, findings) = findings_of(&[], &program, route);
            let finding = only(&findings, "false_sharing");
            assert_eq!(
                (code, &findings["unobserved_processes"]),
                (Some(1), &0.into()),
                "{name} {route}: {findings:#}"
            );
            // The file with the names no longer exists.
            let named = if route == "memfd" { Value::Null } else { "shared".into() };
            assert_eq!(finding["data"]["variables"][0]["name"], named, "{name} {route}: {finding:#}");
        }
    }
}

/// Removes the map that the process of a finding left in /tmp.
fn remove_map(finding: &Value) {
    let _ = fs::remove_file(format!("/tmp/perf-{}.map", finding["pids"][0]));
}

/// Regression test: code that was generated at run time was attributed to the runtime, with exit code 0.
#[test]
fn generated_code_is_classified_by_name_and_unnamed_code_prevents_a_clean_verdict() {
    if cfg!(not(target_arch = "x86_64")) {
        return eprintln!("SKIPPED: the program generates code for x86-64");
    }
    let source = source("generated.c");
    let Some(program) = build("gcc", &["-O2", "-g", "-pthread", source.to_str().unwrap()], "generated")
    else {
        return;
    };
    let (code, findings) = findings_of(&[], &program, "App.count()");
    let finding = only(&findings, "false_sharing");
    remove_map(finding);
    assert_eq!(
        (code, &finding["sites"][0]["frame"]["function"]),
        (Some(1), &"App.count()".into()),
        "{finding:#}"
    );
    // A name as of a builtin of V8.
    let (code, findings) = findings_of(&[], &program, "Builtin:Add");
    remove_map(&findings["in_libraries"][0]);
    assert_eq!((code, &findings["possibly_own"]), (Some(0), &0.into()), "{findings:#}");
    let (code, findings) = findings_of(&[], &program, "");
    assert_eq!((code, &findings["possibly_own"]), (Some(3), &1.into()), "{findings:#}");
}

/// A virtual machine's own code shares lines too, but does not belong to the program.
#[test]
fn methods_of_java_are_named() {
    if !can_emulate() {
        return;
    }
    let folder = open_folder();
    fs::copy(source("Shared.java"), folder.path().join("Shared.java")).unwrap();
    match Command::new("javac").arg("Shared.java").current_dir(folder.path()).output() {
        Err(_) => return eprintln!("SKIPPED: javac is not installed"),
        Ok(build) => assert!(build.status.success(), "{}", text(&build.stderr)),
    }
    // Compile the methods before they first run, however slow the machine is; the rest is interpreted.
    let compiled = ["-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Shared.*"];
    let map = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"];
    let run_java = |options: &[&str]| run(folder.path(), &[&["java"], options, &["Shared"]].concat());
    let run = run_java(&[compiled.as_slice(), &map].concat());
    let said = text(&run.stderr);
    if said.contains("Unrecognized VM option") {
        return eprintln!("SKIPPED: this Java writes no map of its code: {said}");
    }
    let findings: Value = serde_json::from_slice(&run.stdout).unwrap();
    remove_map(&findings["false_sharing"][0]);
    let sites = findings["false_sharing"][0]["sites"].to_string();
    assert!(run.status.code() == Some(1) && sites.contains("void Shared.first()"), "{findings:#}\n{said}");
    // Nothing is compiled: the interpreter shares for the program. Regression test: this was attributed to the runtime.
    let run = run_java(&[["-Xint"].as_slice(), &map].concat());
    let findings: Value = serde_json::from_slice(&run.stdout).unwrap();
    remove_map(&findings["in_libraries"][0]);
    let possibly_own = findings["possibly_own"].as_u64();
    assert!(run.status.code() == Some(3) && possibly_own > Some(0), "{findings:#}\n{}", text(&run.stderr));
}
