use super::*;
use std::os::unix::fs::PermissionsExt;

/// Returns the error for a text, without the path.
fn wrong(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let Err(error @ Error::InvalidRules { .. }) = Rules::read(Some(file.path()), &[]) else {
        panic!("{text:?} is accepted")
    };
    error.to_string().replace(&file.path().display().to_string(), "FILE")
}

fn read(text: &str) -> Rules {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    Rules::read(Some(file.path()), &[]).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn misplaced_key_is_reported_with_its_line() {
    assert_eq!(
        wrong("[machine]\ngrace = \"2s\"\npath = \"/a\"\n"),
        "FILE: line 3: [machine] does not allow \"path\""
    );
    assert_eq!(wrong("\n[machine]\nlimit = \"2G\"\n"), "FILE: line 3: [machine] does not allow \"limit\"");
    assert_eq!(
        wrong("[[cgroup]]\nname = \"x\"\npath = \"/x\"\n"),
        "FILE: line 2: [[cgroup]] does not allow \"name\""
    );
    let both = "[[processes]]\nname = \"x\"\nlimit = \"1G\"\n\n[[processes]]\nname = \"y\"\n";
    assert_eq!(wrong(both), "FILE: line 5: [[processes]] requires \"limit\"");
    assert_eq!(wrong("# rules\n[[cgroup]]\ngrace = \"1s\"\n"), "FILE: line 2: [[cgroup]] requires \"path\"");
    // Keys outside of any table, and keys of another table.
    assert!(wrong("[machine]\n\nnames = [\"x\"]\n").contains("line 3"));
    assert!(wrong("[protect]\nterm_below = \"5%\"\n").contains("line 2"));
}

#[test]
fn contradiction_is_reported_with_its_line() {
    let late = "[machine]\n[[processes]]\nname = \"x\"\nlimit = \"1G\"\nkill_before = \"9s\"\nterm_before = \"5s\"\n";
    assert!(
        wrong(late).starts_with("FILE: line 2: x: kill_before is longer than term_before"),
        "{}",
        wrong(late)
    );
    let names = "[protect]\nnames = [\n \"a\",\n \"*\",\n]\n";
    assert!(
        wrong(names).starts_with("FILE: line 4: protect.names \"*\" matches everything"),
        "{}",
        wrong(names)
    );
    assert!(
        wrong("[protect]\nunits = [\"ssh\"]\n")
            .contains("a unit with its suffix is expected: \"ssh.service\"")
    );
    assert!(
        wrong("[protect]\nnames = [{ name = \"a\", user = \"no-such-user\" }]\n")
            .contains("there is no such user")
    );
    assert!(wrong("[protect]\nnames = [{ name = \"a\", exe = \"bin/a\" }]\n").contains("an absolute path"));
    assert!(
        wrong("[protect]\nnames = [{ name = \"a\", cgroup = \"/a\" }]\n")
            .contains("{ name, user, unit, exe }")
    );
}

#[test]
fn name_rule_can_require_more() {
    let rules = read(
        "[protect]\nnames = [\"a*\", { name = \"b\", user = 70, unit = \"b.service\", exe = \"/usr/bin/b\" }]\n\
         defaults = false\n",
    );
    let words: Vec<String> = rules.protect.names.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["a*", "b (user 70, unit b.service, exe /usr/bin/b)"]);
    assert!(rules.protect.names[0].is_name_only() && !rules.protect.names[1].is_name_only());
    assert!(read("").protect.names.iter().all(|name| !name.is_name_only()), "no default is a bare name");
}

#[test]
fn file_that_others_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.toml");
    fs::write(&path, "[machine]\n").unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let load = || Rules::load(Some(&path), &[]);
    mode(&path, 0o644);
    assert!(load().is_ok());
    mode(&path, 0o666);
    let Err(Error::UntrustedRules(why)) = load() else {
        panic!("a file that all users can write is accepted")
    };
    assert!(why.contains("others can write it"), "{why}");
    assert!(Rules::read(Some(&path), &[]).is_ok(), "it can be checked");
    mode(&path, 0o644);
    mode(folder.path(), 0o777);
    assert!(matches!(load(), Err(Error::UntrustedRules(_))), "its folder can be written");
    assert!(matches!(Rules::load(Some(Path::new("/nonexistent/x")), &[]), Err(Error::System { .. })));
}
