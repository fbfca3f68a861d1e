//! Completions and man pages, which are generated from the definition of the command line.

use assert_cmd::cargo::cargo_bin;
use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

fn manycore(arguments: &[&str]) -> String {
    let run = Command::new(cargo_bin("manycore")).args(arguments).output().unwrap();
    assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// Completes a line in bash as readline does, with the script that packages install.
fn completed(line: &str) -> Vec<String> {
    let program = cargo_bin("manycore");
    let script = manycore(&["completions", "bash"]);
    let mut bash = Command::new("bash")
        .arg("-s")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Readline splits the line at these characters; the last part is replaced.
    let part = line.rsplit([' ', '=', ':']).next().unwrap();
    let ask = format!(
        "compopt() {{ :; }}\n{script}\nCOMP_LINE='{line}' COMP_POINT={} COMP_WORDS=({line}) COMP_CWORD=1\n_manycore {} '{part}' \
         ''\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        line.len(),
        program.display(),
    );
    bash.stdin.take().unwrap().write_all(ask.as_bytes()).unwrap();
    let run = bash.wait_with_output().unwrap();
    assert!(run.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_and_sections() {
    assert!(completed("manycore ev").contains(&"eval".to_owned()));
    assert!(completed("manycore eval --st").contains(&"--standard".to_owned()));
    assert!(completed("manycore spawn --ru").contains(&"--runtime".to_owned()));
    assert!(completed("manycore vm to").contains(&"top".to_owned()));
    assert!(completed("manycore qos watch --hi").contains(&"--history".to_owned()));
    assert_eq!(completed("manycore eval --only noise,la"), ["noise,latency"]);
    assert_eq!(completed("manycore run --place spread@n"), ["spread@node"]);
    // Only the part after = is replaced.
    assert_eq!(completed("manycore run --place=spread@n"), ["spread@node"]);
}

#[test]
fn completion_never_fails() {
    for arguments in [
        &["complete"][..],
        &["complete", "--line", "manycore 'open", "--word", "x"],
        &["complete", "--", "manycore", "no-such", "\u{1b}[31m", ""],
        &["complete", "--", "manycore", "irq", "show", "--device", ""],
    ] {
        let run = Command::new(cargo_bin("manycore")).args(arguments).env_clear().output().unwrap();
        assert!(run.status.success() && run.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn every_shell_has_completions() {
    for shell in ["elvish", "powershell"] {
        assert!(manycore(&["completions", shell]).contains("standard"), "{shell}");
    }
    // The scripts of the others ask the program; their syntax is checked where the shell is installed.
    for shell in ["bash", "zsh", "fish"] {
        let script = manycore(&["completions", shell]);
        assert!(script.contains("complete --") || script.contains("complete --line"), "{shell}");
        let Ok(mut check) =
            Command::new(shell).arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()
        else {
            println!("SKIPPED: {shell} is not installed");
            continue;
        };
        check.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let run = check.wait_with_output().unwrap();
        assert!(
            run.status.success() && run.stderr.is_empty(),
            "{shell}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
    }
}

/// The subcommands with a man page, sorted.
const SUBCOMMANDS: [&str; 27] = [
    "audit",
    "bench",
    "compare",
    "completions",
    "config",
    "density",
    "doctor",
    "eval",
    "falseshare",
    "fleet",
    "guard",
    "irq",
    "pin",
    "plan",
    "qos",
    "report",
    "run",
    "scale",
    "sched",
    "schema",
    "spawn",
    "top",
    "topo",
    "trace",
    "tune",
    "undo",
    "vm",
];

/// Words of man pages: of the options and of the examples.
const MAN_PAGE_WORDS: [(&str, &[&str]); 9] = [
    ("manycore-bench.1", &["--unixbench", "manycore bench counter"]),
    ("manycore-eval.1", &["--standard", "Examples"]),
    ("manycore-guard.1", &["GUARD CHECK", "GUARD WHY", "--dry-run", "manycore guard why 812"]),
    (
        "manycore-spawn.1",
        &["--test-capacity", "erlang-base", "manycore spawn --runtime beam --counts 1e5,1e6"],
    ),
    ("manycore-vm.1", &["VM LIST", "VM TOP", "--vcpus", "manycore vm top --sort wait"]),
    ("manycore-qos.1", &["QOS WATCH", "--history", "manycore qos watch --interval 5s --count 12"]),
    (
        "manycore-vm.1",
        &["VM PLAN", "--machine", "VM CHECK", "--guest", "manycore vm plan web1.xml --xml planned.xml"],
    ),
    (
        "manycore-irq.1",
        &["IRQ SHOW", "--budget", "IRQ PLACE", "--one-each", "manycore irq place --device eth0"],
    ),
    ("manycore-sched.1", &["SCHED SHOW", "--root", "manycore sched show --root host7"]),
];

#[test]
fn man_pages_are_written_and_man_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    manycore(&["man", folder.path().to_str().unwrap()]);
    let mut pages: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let expected: Vec<String> =
        SUBCOMMANDS.iter().map(|subcommand| format!("manycore-{subcommand}.1")).collect();
    assert_eq!(pages[..pages.len() - 1], expected);
    assert_eq!(pages.last().unwrap(), "manycore.1");
    for (page, words) in MAN_PAGE_WORDS {
        match Command::new("man").arg("-l").arg(folder.path().join(page)).env("MANWIDTH", "100").output() {
            Ok(run) => {
                // man breaks and fills lines, so white space is normalised.
                let text = String::from_utf8_lossy(&run.stdout);
                let text: Vec<&str> = text.split_whitespace().collect();
                let text = text.join(" ");
                assert!(run.status.success() && words.iter().all(|word| text.contains(word)), "{text}");
            }
            Err(_) => eprintln!("SKIPPED: man is not installed"),
        }
    }
}
