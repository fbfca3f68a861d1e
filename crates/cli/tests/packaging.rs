//! `make install` and `make uninstall`, and the lists of files of the deb and the rpm.

use crate::common::text;
use assert_cmd::cargo::cargo_bin;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a target of the Makefile that installs below `root`, in /usr. Any program can be in the place of the guard.
fn make(target: &str, root: &Path) -> Output {
    let program = cargo_bin("manycore");
    let mut command = Command::new("make");
    command.args(["--silent", "-C"]).arg(project()).arg(target).arg("PREFIX=/usr");
    command.arg(format!("DESTDIR={}", root.display()));
    for variable in ["MANYCORE", "GUARD"] {
        command.arg(format!("{variable}={}", program.display()));
    }
    command.output().unwrap()
}

fn succeeds(target: &str, root: &Path) {
    let run = make(target, root);
    assert!(run.status.success(), "{target}: {}", text(&run.stderr));
}

/// Returns the files and directories below `root`, without it.
fn tree(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(root).unwrap().to_owned());
            open.extend(path.is_dir().then_some(path));
        }
    }
    found
}

#[test]
fn uninstalling_leaves_what_was_there_before() {
    let root = TempDir::new().unwrap();
    // A directory that stays although it is empty, and a file that install has not put there.
    fs::create_dir_all(root.path().join("usr/share/zsh/site-functions")).unwrap();
    fs::create_dir_all(root.path().join("usr/share/man/man1")).unwrap();
    fs::write(root.path().join("usr/share/man/man1/other.1"), "").unwrap();
    let before = tree(root.path());
    succeeds("install", root.path());
    let installed = tree(root.path());
    assert!(installed.contains(Path::new("usr/bin/manycore-guard")));
    let unit = root.path().join("usr/lib/systemd/system/manycore-guard.service");
    assert!(fs::read_to_string(unit).unwrap().contains("ExecStart=/usr/bin/manycore-guard"));
    // A second time changes nothing, and directories of the first time are still known as ours.
    succeeds("install", root.path());
    assert_eq!(tree(root.path()), installed);
    succeeds("uninstall", root.path());
    assert_eq!(tree(root.path()), before);
    let again = make("uninstall", root.path());
    assert!(!again.status.success() && text(&again.stderr).contains("nothing was installed"));
}

#[test]
fn files_that_an_update_no_longer_has_are_removed_and_foreign_ones_stay() {
    let root = TempDir::new().unwrap();
    succeeds("install", root.path());
    let list = root.path().join("usr/share/manycore/installed");
    let old = root.path().join("usr/share/man/man1/manycore-old.1");
    fs::write(&list, fs::read_to_string(&list).unwrap() + "file /usr/share/man/man1/manycore-old.1\n")
        .unwrap();
    fs::write(&old, "").unwrap();
    succeeds("install", root.path());
    assert!(!old.exists());
    let foreign = root.path().join("usr/share/doc/manycore/notes");
    fs::write(foreign, "").unwrap();
    let run = make("uninstall", root.path());
    assert!(text(&run.stderr).contains("usr/share/doc/manycore is not empty"), "{}", text(&run.stderr));
    let left: Vec<PathBuf> =
        tree(root.path()).into_iter().filter(|path| root.path().join(path).is_file()).collect();
    assert_eq!(left, [Path::new("usr/share/doc/manycore/notes")]);
}

/// Returns the paths in the packages' staging directory, below `usr`, that the metadata of one package lists.
fn sources(manifest: &str, section: &str, prefix: &str) -> Vec<String> {
    let section = manifest.split(&format!("[package.metadata.{section}]")).nth(1).unwrap();
    let assets = section.split("assets = [").nth(1).unwrap().split("\n]").next().unwrap();
    let quoted = assets.lines().filter_map(|line| line.split(&format!("\"{prefix}target/dist/root/")).nth(1));
    quoted.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// Whether a path is the pattern, in which `*` stands for a part of the file's name.
fn is_listed(path: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => path == pattern,
        Some((before, after)) => {
            let name = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            name.is_some_and(|name| !name.contains('/'))
        }
    }
}

#[test]
fn the_packages_contain_every_file_that_is_installed() {
    let root = TempDir::new().unwrap();
    succeeds("install", root.path());
    let manifest = fs::read_to_string(project().join("crates/cli/Cargo.toml")).unwrap();
    for (section, prefix) in [("deb", "../../"), ("generate-rpm", "")] {
        let patterns = sources(&manifest, section, prefix);
        let mut used = BTreeSet::new();
        for path in tree(root.path()).into_iter().filter(|path| root.path().join(path).is_file()) {
            let path = path.to_str().unwrap().to_owned();
            // The list for `make uninstall`; man pages are compressed in packages.
            let packed = if path.ends_with(".1") { format!("{path}.gz") } else { path };
            if packed == "usr/share/manycore/installed" {
                continue;
            }
            let fitting = patterns.iter().find(|pattern| is_listed(&packed, pattern));
            used.insert(fitting.unwrap_or_else(|| panic!("{section} does not list {packed}: {patterns:?}")));
        }
        assert_eq!(used.len(), patterns.len(), "{section} lists files that are not installed");
    }
    for script in ["packaging/rpm/post", "packaging/rpm/preun", "packaging/rpm/postun"] {
        assert!(manifest.contains(script) && project().join(script).is_file(), "{script}");
    }
}
