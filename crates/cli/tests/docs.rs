//! Completions and man pages, which are generated from the definition of the command line.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

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

#[test]
fn bash_completes_verbs_and_sections() {
    let script = manycore(&["completions", "bash"]);
    let complete = |words: &str, index: usize| {
        let mut bash =
            Command::new("bash").arg("-s").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let ask = format!(
            "{script}\nCOMP_WORDS=({words})\nCOMP_CWORD={index}\n_manycore manycore '' ''\necho \"${{COMPREPLY[@]}}\"\n"
        );
        bash.stdin.take().unwrap().write_all(ask.as_bytes()).unwrap();
        String::from_utf8(bash.wait_with_output().unwrap().stdout).unwrap()
    };
    assert!(complete("manycore ev", 1).contains("eval"));
    assert!(complete("manycore eval --st", 2).contains("--standard"));
    assert!(complete("manycore spawn --ru", 2).contains("--runtime"));
    assert!(complete("manycore vm to", 2).contains("top"));
    assert!(complete("manycore qos watch --hi", 3).contains("--history"));
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(manycore(&["completions", shell]).contains("standard"), "{shell}");
    }
}

/// The subcommands with a man page, sorted.
const SUBCOMMANDS: [&str; 20] = [
    "audit",
    "bench",
    "compare",
    "completions",
    "eval",
    "falseshare",
    "guard",
    "irq",
    "pin",
    "plan",
    "qos",
    "report",
    "run",
    "scale",
    "schema",
    "spawn",
    "topo",
    "tune",
    "undo",
    "vm",
];

/// Words of man pages: of the options and of the examples.
const MAN_PAGE_WORDS: [(&str, &[&str]); 8] = [
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
        &["IRQ SHOW", "--budget", "IRQ PLACE", "--spread", "manycore irq place --device eth0"],
    ),
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
