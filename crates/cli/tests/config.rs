//! A user's defaults on the real binary: the file, the variables, and `manycore config`.

use crate::common::{schema, text, write};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::PathBuf,
    process::{Command, Output},
};
use tempfile::TempDir;

/// A home directory with a configuration.
struct Home(TempDir);

impl Home {
    fn with(config: &str) -> Self {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.path().join(".config/manycore")).unwrap();
        write(&home.path().join(".config/manycore"), "config.toml", config.as_bytes());
        Self(home)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join(".config/manycore/config.toml")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("HOME", self.0.path())
            .env_remove("XDG_CONFIG_HOME");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

fn settings(run: &Output) -> Value {
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    schema::parse("config", &run.stdout)
}

fn setting<'a>(config: &'a Value, name: &str) -> &'a Value {
    config["settings"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

#[test]
fn settings_come_from_the_command_line_then_variables_then_the_file() {
    let home = Home::with("results = \"kept\"\nquiet = true\nformat = \"json\"\n[compare]\npairs = 1\n");
    let measure = ["compare", "true", "true"];
    let run = home.run(&measure);
    assert!(run.status.success() && run.stderr.is_empty(), "{}", text(&run.stderr));
    assert!(serde_json::from_slice::<Value>(&run.stdout).is_ok());
    assert!(home.0.path().join("kept/latest").exists() && !home.0.path().join("manycore-results").exists());

    let run = home
        .command(&measure)
        .env("MANYCORE_FORMAT", "text")
        .env("MANYCORE_RESULTS", "other")
        .output()
        .unwrap();
    assert!(run.status.success() && serde_json::from_slice::<Value>(&run.stdout).is_err());
    assert!(home.0.path().join("other/latest").exists());
    let arguments = [&measure[..], &["--format", "json", "--results", "third"]].concat();
    let run =
        home.command(&arguments).env("MANYCORE_FORMAT", "text").env("MANYCORE_QUIET", "0").output().unwrap();
    assert!(text(&run.stderr).contains("report.html"), "not quiet");
    assert!(serde_json::from_slice::<Value>(&run.stdout).is_ok());
    assert!(home.0.path().join("third/latest").exists());
    // An option of the program itself.
    let config =
        home.command(&["config", "--format", "json"]).env("MANYCORE_COLOR", "always").output().unwrap();
    assert_eq!(setting(&settings(&config), "color")["values"][0], "always");
}

#[test]
fn config_shows_each_setting_and_where_it_comes_from() {
    let home = Home::with("budget = \"5m\"\n\n[qos.prove]\nbudget = 90\n");
    let run = home.command(&["config", "--format", "json"]).env("MANYCORE_SEED", "7").output().unwrap();
    let config = settings(&run);
    assert_eq!(
        (&config["file_state"], &config["file"]),
        (&"read".into(), &home.file().to_str().unwrap().into())
    );
    let budget = setting(&config, "budget");
    assert_eq!((&budget["values"][0], &budget["source"]), (&"5m".into(), &"file".into()));
    assert!(budget["place"].as_str().unwrap().ends_with("config.toml:1"), "{budget}");
    let seed = setting(&config, "seed");
    assert_eq!((&seed["values"][0], &seed["place"]), (&"7".into(), &"MANYCORE_SEED".into()));
    let results = setting(&config, "results");
    assert_eq!((&results["values"][0], &results["source"]), (&"manycore-results".into(), &"default".into()));
    let nested = config["settings"].as_array().unwrap().last().unwrap();
    assert_eq!((&nested["subcommand"], &nested["values"][0]), (&"qos prove".into(), &"90".into()));
    let shown = text(&home.run(&["config"]).stdout);
    assert!(shown.contains("--budget") && shown.contains("5m") && shown.contains("config.toml:1"), "{shown}");
    let example = text(&home.run(&["config", "--example"]).stdout);
    assert!(example.lines().filter(|line| !line.is_empty()).all(|line| line.starts_with('#')), "{example}");
}

#[test]
fn wrong_settings_are_refused_with_file_and_line() {
    for (config, line, words) in [
        ("bugdet = 5", 1, "unknown setting 'bugdet'; similar: budget"),
        ("\nbudget = \"fast\"", 2, "expected a duration such as 10, 10s or 5m"),
        ("quiet = \"maybe\"", 1, "expected true or false"),
        ("format = \"yaml\"", 1, "text"),
        ("[eval]\nonly = [\"noise\", \"nosie\"]", 2, "nosie"),
        ("[compare]\nservice = \"reboot\"", 2, "unknown setting 'service'"),
        ("budget = [", 1, ""),
    ] {
        let home = Home::with(config);
        for arguments in [&["config"][..], &["topo"]] {
            let run = home.run(arguments);
            let said = text(&run.stderr);
            let place = format!("{}:{line}: ", home.file().display());
            assert!(
                run.status.code() == Some(2) && said.contains(&place) && said.contains(words),
                "{config}: {said}"
            );
        }
        // What repairs and explains works in any case.
        for arguments in [&["undo", "--list"][..], &["schema"], &["eval", "--help"], &["completions", "bash"]]
        {
            assert_eq!(home.run(arguments).status.code(), Some(0), "{arguments:?}");
        }
    }
    let home = Home::with("");
    let run = home.command(&["topo"]).env("MANYCORE_FORMAT", "yaml").output().unwrap();
    assert!(
        run.status.code() == Some(2) && text(&run.stderr).contains("MANYCORE_FORMAT: "),
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn files_that_others_can_change_are_not_used() {
    let home = Home::with("format = \"json\"");
    fs::set_permissions(home.file(), fs::Permissions::from_mode(0o666)).unwrap();
    let run = home.run(&["topo"]);
    let said = text(&run.stderr);
    assert!(run.status.success() && said.contains("are not used") && said.contains("chmod go-w"), "{said}");
    assert!(serde_json::from_slice::<Value>(&run.stdout).is_err());
    let config = settings(&home.run(&["config", "--format", "json"]));
    assert_eq!(config["file_state"], "ignored");

    fs::set_permissions(home.file(), fs::Permissions::from_mode(0o644)).unwrap();
    if chown(home.file(), Some(65534), None).is_ok() {
        let said = text(&home.run(&["topo"]).stderr);
        assert!(said.contains("belongs to user 65534"), "{said}");
    }
    fs::remove_file(home.file()).unwrap();
    fs::create_dir(home.file()).unwrap();
    let said = text(&home.run(&["topo"]).stderr);
    assert!(said.contains("not a regular file"), "{said}");
}

#[test]
fn no_home_is_fine() {
    let home = Home::with("");
    let run = home.command(&["config", "--format", "json"]).env_remove("HOME").output().unwrap();
    assert_eq!(settings(&run)["file_state"], "absent");
    let run = home.command(&["topo"]).env_clear().output().unwrap();
    assert!(run.status.success() && run.stderr.is_empty(), "{}", text(&run.stderr));
}

/// A budget on the command line is kept; a user's default gives way to the six pairs that an interval needs.
#[test]
fn a_default_budget_gives_way_to_a_result() {
    let home = Home::with("budget = \"100ms\"\n");
    let measure = ["compare", "--quiet", "--format", "csv", "sleep 0.03", "true"];
    let run = home.run(&measure);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let run = home.run(&[&measure[..], &["--budget", "100ms"]].concat());
    assert!(
        run.status.code() == Some(2) && text(&run.stderr).contains("too few runs fit"),
        "{}",
        text(&run.stderr)
    );
}
