//! Tests of `manycore falseshare` with invalid commands, failing programs, missing emulators, and time limits.

use crate::common::{
    manycore,
    sharing::{build, can_emulate, falseshare, findings_of, only, plain, source},
    text, write,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Runs `manycore falseshare ARGUMENTS`; returns the exit code and standard error.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let run = manycore().args(["falseshare", "--quiet"]).args(arguments).output().unwrap();
    (run.status.code(), text(&run.stderr))
}

#[test]
fn an_invalid_command_is_refused() {
    let (code, said) = refused(&[]);
    assert!(code == Some(2) && said.contains("COMMAND"), "{said}");
    for wrong in [
        &["--threshold", "0"][..],
        &["--line-bytes", "48"],
        &["--budget", "0s"],
        &["--memory-limit", "much"],
        &["--memory-limit", "64K"],
        &["--threshold", "-1"],
        &["--budget", "-1"],
    ] {
        let (code, said) = refused(&[wrong, &["--", "true"]].concat());
        assert!(code == Some(2) && said.contains(&format!("'{} <", wrong[0])), "{wrong:?}: {said}");
        assert!(said.contains(&format!("invalid value '{}'", wrong[1])), "{wrong:?}: {said}");
    }
    if !can_emulate() {
        return;
    }
    let (code, said) = refused(&["--", "no-such-program"]);
    assert!(code == Some(3) && said.contains("no-such-program"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let plain = write(folder.path(), "plain", b"text");
    let (code, said) = refused(&["--", plain.to_str().unwrap()]);
    assert!(code == Some(3) && said.contains("plain"), "{said}");
}

#[test]
fn a_file_that_is_not_an_observation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (contents, words) in [
        (&b""[..], "the file is empty"),
        (b"{}", "it has no \"schema\""),
        (b"{\"schema\": \"manycore/record/1\"}", "manycore/record/1"),
        (b"{\"schema\": \"manycore/memory-accesses/1\", \"layouts\": 7}", "damaged"),
    ] {
        let path = write(folder.path(), "seen.json", contents);
        let (code, said) = refused(&["--from", path.to_str().unwrap()]);
        assert!(code == Some(2) && said.contains(words) && said.contains("falseshare --save"), "{said}");
    }
    let (code, said) = refused(&["--from", "/no/such.json"]);
    assert!(code == Some(2) && said.contains("/no/such.json"), "{said}");
}

#[test]
fn a_missing_emulator_is_named_with_its_package() {
    if !can_emulate() {
        return;
    }
    // The usual folders are searched too, so the emulator is hidden there, in a mount namespace of our own.
    let script = "for qemu in $(type -aP qemu-$(uname -m)); do mount --bind /dev/null $qemu || exit 77; done; \
                  exec \"$0\" falseshare --engine emulation -- /bin/true";
    let program = assert_cmd::cargo::cargo_bin!("manycore");
    let run = Command::new("unshare").args(["--mount", "bash", "-c", script]).arg(program).output();
    let run = match run {
        Ok(run) if run.status.code() != Some(77) && !text(&run.stderr).starts_with("unshare") => run,
        _ => return eprintln!("SKIPPED: hiding the emulator needs root"),
    };
    let said = text(&run.stderr);
    assert!(run.status.code() == Some(3) && said.contains("qemu-user"), "{said}");
}

/// Regression test: with the qemu-user of Debian 13, the advice was to install qemu-user.
#[test]
fn an_emulator_without_plugins_is_not_to_be_installed_again() {
    let folder = tempfile::tempdir().unwrap();
    let emulator = folder.path().join(format!("qemu-{}", std::env::consts::ARCH));
    fs::write(&emulator, "#!/bin/sh\necho usage: no such option\n").unwrap();
    fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let ran = |arguments: &[&str]| {
        let run = manycore().args(arguments).env("PATH", &path).output().unwrap();
        (run.status.code(), text(&run.stderr), text(&run.stdout))
    };
    let (code, said, _) = ran(&["falseshare", "--engine", "emulation", "--", "/bin/true"]);
    if said.contains("built without its QEMU plugin") {
        return println!("SKIPPED: {said}");
    }
    assert_eq!(code, Some(3), "{said}");
    for words in ["was built without plugins", "--enable-plugins", "PATH", "--engine sampling"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (_, _, doctor) = ran(&["doctor", "--verbose"]);
    let doctor = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(doctor.contains("was built without plugins") && doctor.contains("--enable-plugins"), "{doctor}");
}

#[test]
fn sampling_without_hardware_names_the_files() {
    if fs::exists("/sys/bus/event_source/devices/cpu/events/mem-loads").unwrap()
        || fs::exists("/sys/bus/event_source/devices/ibs_op").unwrap()
    {
        return eprintln!("SKIPPED: this CPU can sample addresses of loads");
    }
    let (code, said) = refused(&["--engine", "sampling", "--", "true"]);
    assert!(
        code == Some(3) && said.contains("events/mem-loads") && said.contains("--engine emulation"),
        "{said}"
    );
}

#[test]
fn a_note_names_sampling_where_the_machine_supports_it() {
    let Some(program) = plain() else { return };
    // A fake PMU that can sample, in a mount namespace of our own.
    let script = "cd /sys/bus/event_source/devices && mount -t tmpfs none . && mkdir $PWD/ibs_op || exit 77; \
                  echo 11 > $PWD/ibs_op/type; exec \"$0\" falseshare $2 -- \"$1\" one";
    for (arguments, notes) in [("--engine auto", 1), ("--engine emulation", 0), ("--quiet", 0)] {
        let manycore = assert_cmd::cargo::cargo_bin!("manycore");
        let run = Command::new("unshare")
            .args(["--mount", "bash", "-c", script])
            .arg(manycore)
            .arg(program)
            .arg(arguments)
            .output();
        let run = match run {
            Ok(run) if run.status.code() != Some(77) && !text(&run.stderr).starts_with("unshare") => run,
            _ => return eprintln!("SKIPPED: a fake PMU needs root"),
        };
        let said = text(&run.stderr);
        assert_eq!(
            (run.status.code(), said.matches("--engine sampling").count()),
            (Some(0), notes),
            "{said}"
        );
        assert_eq!(said.lines().count(), notes, "{said}");
    }
}

#[test]
fn a_program_for_another_machine_is_refused() {
    let name = if cfg!(target_arch = "x86_64") { "aarch64-linux-gnu-gcc" } else { "x86_64-linux-gnu-gcc" };
    let source = source("cases.c");
    let Some(program) = build(name, &["-pthread", source.to_str().unwrap()], "foreign") else { return };
    let (code, said) = refused(&["--", program.to_str().unwrap(), "false"]);
    assert!(code == Some(2) && said.contains("foreign"), "{said}");
}

#[test]
fn scripts_are_observed_with_what_they_start() {
    let Some(program) = plain() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = format!("#!/bin/sh\n{} false\n", program.display());
    let path = write(folder.path(), "script", script.as_bytes());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, findings) = findings_of(&[], &path, "");
    let finding = only(&findings, "false_sharing");
    assert_eq!((code, finding["data"]["variables"][0]["name"].as_str()), (Some(1), Some("counters")));
}

#[test]
fn a_crash_and_a_failure_are_reported_with_what_was_seen() {
    let Some(program) = plain() else { return };
    let run = falseshare(&[], program, "crash");
    let out = text(&run.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(run.status.code() == Some(1) && out.contains("counters") && out.contains("signal 11"), "{out}");
    let run = falseshare(&[], program, "fail");
    let (out, said) = (text(&run.stdout), text(&run.stderr));
    assert!(run.status.code() == Some(4) && out.contains("no false sharing"), "{out}");
    assert!(said.contains("status 7"), "{said}");
}

#[test]
fn an_endless_program_is_ended_at_the_timeout() {
    let Some(program) = plain() else { return };
    // On a busy machine, the threads need longer to get that far.
    let mut runs = ["2s", "8s", "32s"]
        .into_iter()
        .map(|timeout| findings_of(&["--budget", timeout], program, "endless"));
    let (code, findings) = runs.find(|(code, _)| *code == Some(1)).expect("the sharing is found within 32 s");
    assert_eq!((code, findings["end"].as_str()), (Some(1), Some("timeout")), "{findings:#}");
    assert_eq!(only(&findings, "false_sharing")["data"]["variables"][0]["name"], "counters");
}

#[test]
fn an_interrupted_run_reports_its_findings() {
    let Some(program) = plain() else { return };
    let mut run = Command::new(assert_cmd::cargo::cargo_bin!("manycore"))
        .args(["falseshare", "--quiet", "--format", "json", "--"])
        .arg(program)
        .arg("endless")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(run.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "shared\n");
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    let mut json = String::new();
    run.stdout.take().unwrap().read_to_string(&mut json).unwrap();
    let findings: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(findings["end"], "interrupted");
    assert_eq!(only(&findings, "false_sharing")["data"]["variables"][0]["name"], "counters");
    assert_eq!(run.wait().unwrap().code(), Some(1));
}

/// Runs `manycore falseshare -- WORDS` on a new terminal, from which it also reads.
fn on_a_terminal(words: &str) -> Option<Child> {
    if !can_emulate() {
        return None;
    }
    let program = assert_cmd::cargo::cargo_bin!("manycore");
    // `exec`, because a waiting shell such as dash would be ended by Ctrl-C itself.
    let line = format!("exec {} falseshare --quiet --format json --budget 60s -- {words}", program.display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    match script.spawn() {
        Ok(run) => Some(run),
        Err(_) => {
            eprintln!("SKIPPED: script is not installed (bsdutils, util-linux-script)");
            None
        }
    }
}

#[test]
fn a_program_may_read_the_terminal() {
    let Some(mut run) = on_a_terminal("head -1") else { return };
    let mut keys = run.stdin.take().unwrap();
    keys.write_all(b"hello\n").unwrap();
    let mut out = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_to_string(&mut out).unwrap();
    // Once from the terminal's echo and once from head.
    assert_eq!(out.matches("hello\r\n").count(), 2, "{out}");
    assert!(out.contains("\"status\": 0"), "{out}");
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn ctrl_c_on_a_terminal_reports_the_findings() {
    let Some(program) = plain() else { return };
    let Some(mut run) = on_a_terminal(&format!("{} endless", program.display())) else { return };
    let mut out = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "shared\r\n");
    let mut keys = run.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    let mut json = String::new();
    out.read_to_string(&mut json).unwrap();
    assert!(json.contains("\"end\": \"interrupted\"") && json.contains("counters"), "{json}");
    assert_eq!(run.wait().unwrap().code(), Some(1), "{json}");
}

#[test]
fn observed_processes_end_when_manycore_is_killed() {
    if !can_emulate() {
        return;
    }
    // A forked child, and an orphan.
    let script = "(sleep 1000 & (sleep 1000 & echo $!); echo $!; wait) & wait";
    let mut run = Command::new(assert_cmd::cargo::cargo_bin!("manycore"))
        .args(["falseshare", "--quiet", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let pids: Vec<u32> = lines.take(2).map(|line| line.unwrap().parse().unwrap()).collect();
    run.kill().unwrap();
    run.wait().unwrap();
    let late = Instant::now() + Duration::from_mins(1);
    let runs = |pid: &u32| {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ") && !state.contains(") X ")
    };
    while pids.iter().any(runs) {
        assert!(Instant::now() < late, "{pids:?} outlive manycore");
        std::thread::yield_now();
    }
}

#[test]
fn an_endless_file_is_no_observation_and_standard_input_can_be_one() {
    let (code, said) = refused(&["--from", "/dev/zero"]);
    assert!(code == Some(2) && said.contains("/dev/zero: it is not a regular file"), "{said}");
    let run = manycore().args(["falseshare", "--from", "-"]).write_stdin("").output().unwrap();
    assert!(
        run.status.code() == Some(2) && text(&run.stderr).contains("-: the file is empty"),
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn a_script_that_cannot_be_run_is_reported_with_the_reason() {
    if !can_emulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (contents, words) in [("echo\n", "run it as: sh "), ("#!/no/such\n", "its interpreter /no/such")] {
        let path = write(folder.path(), "script", contents.as_bytes());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let path = path.to_str().unwrap();
        let (code, said) = refused(&["--", path]);
        assert!(code == Some(3) && said.contains(words) && said.contains(path), "{said}");
    }
    let (code, said) = refused(&["--", ""]);
    assert!(code == Some(2) && said.contains("empty word"), "{said}");
}

#[test]
fn nothing_is_run_if_the_output_cannot_be_written() {
    let Some(program) = plain() else { return };
    let run = falseshare(&["--save", "/no/such/folder/seen.json"], program, "false");
    let (out, said) = (text(&run.stdout), text(&run.stderr));
    assert_eq!((run.status.code(), out.as_str()), (Some(3), ""), "{said}");
    assert!(said.contains("/no/such/folder/seen.json") && !said.contains(".manycore-"), "{said}");
}

/// Regression test: accesses that were not followed were ignored, and the program was reported as clean.
#[test]
fn accesses_beyond_the_memory_limit_prevent_a_clean_verdict() {
    let Some(program) = plain() else { return };
    let run = falseshare(&["--memory-limit", "16M"], program, "vast");
    let (out, said) = (text(&run.stdout), text(&run.stderr));
    assert_eq!(run.status.code(), Some(3), "{out}\n{said}");
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        out.contains("as the memory for that was used up") && said.contains("--memory-limit"),
        "{out}\n{said}"
    );
    assert!(out.contains("no false sharing among the accesses that were followed"), "{out}");
}

/// Regression test: the program's output was mixed with ours, so that the output was not valid JSON.
#[test]
fn json_is_alone_on_standard_output() {
    if !can_emulate() {
        return;
    }
    let run = manycore()
        .args(["falseshare", "--format", "json", "--quiet", "--", "echo", "words"])
        .output()
        .unwrap();
    let found: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(found["false_sharing"], serde_json::json!([]));
    assert!(text(&run.stderr).contains("words"), "{}", text(&run.stderr));
}
