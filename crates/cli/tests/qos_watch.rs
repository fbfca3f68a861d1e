//! Tests of `manycore qos watch` on an imitation of resctrl in a directory, whose counters the tests change.

use crate::common::{
    manycore, text,
    watching::{Watching, resctrl, set},
};
use serde_json::Value;
use std::{
    fs,
    process::{Command, Stdio},
};

fn group<'a>(look: &'a Value, name: &str) -> Option<&'a Value> {
    look["groups"].as_array().unwrap().iter().find(|group| group["name"] == name)
}

#[test]
fn counters_become_rates_while_groups_come_and_go() {
    let folder = resctrl();
    let root = folder.path();
    let history = tempfile::tempdir().unwrap();
    let kept = history.path().join("kept.jsonl");
    let words = ["qos", "watch", "--resctrl", root.to_str().unwrap(), "--history", kept.to_str().unwrap()];
    let mut watching = Watching::start(&words);
    let rate =
        |look: &Value| group(look, "qemu-1-web").and_then(|web| web["memory_bytes_per_second"].as_f64());
    watching.until(|look| rate(look) == Some(0.0) && group(look, "/").is_some());
    set(root, "qemu-1-web", ["5001000", "1001000"]);
    // Both domains count, whether or not they are seen in the same reading.
    let mut bytes = 0.0;
    while bytes < 5_500_000.0 {
        let look = watching.until(|look| rate(look).is_some_and(|rate| rate > 0.0));
        bytes += rate(&look).unwrap() * look["seconds"].as_f64().unwrap();
        assert_eq!(group(&look, "/").unwrap()["memory_bytes_per_second"], 0.0);
    }
    // 6 MB in all. The time of a reading is that of its first group, and each group is read at a time of its
    // own.
    assert!(bytes < 9_000_000.0, "{bytes}");
    set(root, "qemu-1-web", ["5001000", "Unavailable"]);
    let look = watching.until(|look| rate(look).is_none());
    let web = group(&look, "qemu-1-web").unwrap();
    assert_eq!((&web["memory_bytes_per_second"], &web["missing"]), (&Value::Null, &"unavailable".into()));
    assert_eq!(look["all"]["groups_without_rate"], 1);
    set(root, "late", ["7", "7"]);
    let look = watching.until(|look| group(look, "late").is_some());
    assert_eq!(group(&look, "late").unwrap()["memory_bytes_per_second"], Value::Null);
    watching.until(|look| group(look, "late").is_some_and(|late| late["memory_bytes_per_second"] == 0.0));
    fs::remove_dir_all(root.join("late")).unwrap();
    watching.until(|look| group(look, "late").is_none());
    // The counter of a new group is smaller; that must not become a negative rate.
    set(root, "late", ["1", "1"]);
    watching.until(|look| group(look, "late").is_some_and(|late| late["memory_bytes_per_second"].is_null()));
    watching.until(|look| group(look, "late").is_some_and(|late| late["memory_bytes_per_second"] == 0.0));
    // The usual end is Ctrl-C.
    assert_eq!(watching.end(), Some(0));
    let kept = fs::read_to_string(kept).unwrap();
    assert!(
        kept.lines()
            .all(|line| serde_json::from_str::<Value>(line).unwrap()["schema"] == "manycore/qos-watch/1")
    );
    assert!(kept.lines().count() > 5);
}

#[test]
fn lines_are_added_in_a_pipe_and_a_table_is_drawn_on_a_terminal() {
    let folder = resctrl();
    let root = folder.path().to_str().unwrap();
    let words = ["qos", "watch", "--interval", "100ms", "--count", "2", "--resctrl", root];
    let run =
        manycore().args(words).args(["--group", "qemu-1-web", "--group", "qemu-10-web"]).output().unwrap();
    assert_eq!(run.status.code(), Some(0));
    assert!(text(&run.stderr).contains("there is no group \"qemu-10-web\" now"), "{}", text(&run.stderr));
    let out = text(&run.stdout);
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert_eq!(lines[0][..3], ["time", "group", "memory"]);
    assert_eq!(lines[1][1..], ["qemu-1-web", "0.0", "0.0", "128", "0.0", "0.0"]);
    let program = assert_cmd::cargo::cargo_bin!("manycore");
    let drawn = Command::new("script")
        .args(["-qec", &format!("{} {}", program.display(), words.join(" ")), "/dev/null"])
        // That of the caller may be one that cannot move its cursor: tables are then printed one after another.
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .output();
    match drawn {
        Err(_) => eprintln!("SKIPPED: script is not installed"),
        Ok(drawn) => {
            assert_eq!(drawn.status.code(), Some(0), "{}{}", text(&drawn.stdout), text(&drawn.stderr));
            let drawn = text(&drawn.stdout);
            assert_eq!(
                (drawn.matches("\x1b[2J").count(), drawn.matches("\x1b[H").count()),
                (1, 2),
                "{drawn}"
            );
            assert!(drawn.contains("qemu-1-web") && drawn.contains("history"), "{drawn}");
        }
    }
}

#[test]
fn no_group_is_not_the_default_one() {
    for subcommand in [&["show"][..], &["watch", "--count", "1"], &["set", "--bandwidth", "50%"]] {
        let out = manycore().arg("qos").args(subcommand).args(["--group", ""]).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{subcommand:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains("--group"), "{subcommand:?}: {}", text(&out.stderr));
    }
}

#[test]
fn errors_of_watch_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("info")).unwrap();
    fs::write(folder.path().join("schemata"), "MB:0=100\n").unwrap();
    let watch = |more: &[&str]| {
        let run =
            manycore().args(["qos", "watch", "--resctrl"]).arg(folder.path()).args(more).output().unwrap();
        (run.status.code().unwrap(), text(&run.stderr))
    };
    let (code, said) = watch(&[]);
    assert!(code == 3 && said.contains("monitors nothing"), "{said}");
    for wrong in [["--count", "0"], ["--interval", "1ms"], ["--interval", "soon"]] {
        assert_eq!(watch(&wrong).0, 2, "{wrong:?}");
    }
    let (code, said) = watch(&["--history", "/no/such/folder/file"]);
    assert!(code == 3 && said.contains("/no/such/folder/file"), "{said}");
}
