//! Parses and checks the rules file.

use crate::decision::{
    assessment::{Amount, Thresholds},
    pattern::Pattern,
    process_table::WATCHES,
};
use crate::rules::{
    LastResort, Rules, SlowdownMethod, WatchRule, WatchSubject,
    protect_text::ProtectText,
    value::{Bytes, amount, seconds, share},
};
use manycore_linux::tasks;
use manycore_text::units;
use manycore_topology::{
    SysTree,
    cgroup::{Hierarchies, has_memory},
};
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use toml::Spanned;

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RulesFile {
    machine: Option<Spanned<WatchSettings>>,
    #[serde(default)]
    cgroup: Vec<Spanned<WatchSettings>>,
    #[serde(default)]
    processes: Vec<Spanned<WatchSettings>>,
    protect: Option<Spanned<ProtectText>>,
}

/// An error, and its position in the text if it is known.
pub(super) struct RuleError {
    pub(super) at: Option<usize>,
    pub(super) why: String,
}

impl RuleError {
    /// Returns a constructor of errors at the position of `place`.
    pub(super) fn at<T>(place: &Spanned<T>) -> impl Fn(String) -> Self + use<T> {
        let at = Some(place.span().start);
        move |why| Self { at, why }
    }

    /// Returns an error that has no single position.
    pub(super) fn somewhere(why: String) -> Self {
        Self { at: None, why }
    }

    /// Returns the message, such as `line 3: [machine] does not allow "path"`.
    pub(super) fn message(&self, text: &str) -> String {
        let line = |at: usize| text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1;
        self.at.map_or(String::new(), |at| format!("line {}: ", line(at))) + &self.why
    }
}

/// Settings of one watch. Absent ones have their defaults. All kinds of watches share this type, so that
/// errors carry the line of their key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchSettings {
    /// For a control group.
    path: Option<Spanned<String>>,
    /// For processes of a name.
    name: Option<Spanned<String>>,
    /// For processes of a name.
    limit: Option<Spanned<Bytes>>,
    #[serde(default, deserialize_with = "seconds")]
    warn_before: Option<f64>,
    #[serde(default, deserialize_with = "amount")]
    term_below: Option<Amount>,
    #[serde(default, deserialize_with = "seconds")]
    term_before: Option<f64>,
    #[serde(default, deserialize_with = "amount")]
    kill_below: Option<Amount>,
    #[serde(default, deserialize_with = "seconds")]
    kill_before: Option<f64>,
    #[serde(default, deserialize_with = "share")]
    stalled: Option<f64>,
    #[serde(default, deserialize_with = "seconds")]
    grace: Option<f64>,
    end: Option<End>,
    slow: Option<SlowdownMethod>,
    last_resort: Option<LastResort>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum End {
    Process,
    Cgroup,
}

impl RulesFile {
    /// Returns the rules. The control groups `asked`, from the command line, are watched in addition to what
    /// the text names.
    pub(super) fn rules(self, asked: Vec<(String, WatchSubject)>) -> Result<Rules, RuleError> {
        // Each watch with the position of its table.
        let mut watches: Vec<(WatchRule, Option<usize>)> = Vec::new();
        let is_named = !asked.is_empty() || !self.cgroup.is_empty() || !self.processes.is_empty();
        if let Some(settings) = self.machine {
            watches.push(watch(settings, "[machine]", &[], |_| {
                Ok(("machine".to_owned(), WatchSubject::Machine))
            })?);
        } else if !is_named {
            let machine = WatchSettings::default().watch("machine", WatchSubject::Machine);
            watches.push((machine.map_err(RuleError::somewhere)?, None));
        }
        for settings in self.cgroup {
            let of =
                |settings: &WatchSettings| group(settings.path.as_ref().map_or("", |path| path.get_ref()));
            watches.push(watch(settings, "[[cgroup]]", &["path"], of)?);
        }
        for (name, of) in asked {
            let asked = WatchSettings::default().watch(&name, of);
            watches.push((asked.map_err(RuleError::somewhere)?, None));
        }
        for settings in self.processes {
            watches.push(watch(settings, "[[processes]]", &["name", "limit"], processes)?);
        }
        for (number, (watch, at)) in watches.iter().enumerate() {
            if watches[..number].iter().any(|(other, _)| other.of == watch.of) {
                return Err(RuleError { at: *at, why: format!("{} is watched twice", watch.name) });
            }
        }
        if watches.len() > WATCHES {
            let why = format!("{} watches, but a guard supports at most {WATCHES}", watches.len());
            return Err(RuleError::somewhere(why));
        }
        let protect = ProtectText::protect(self.protect)?;
        Ok(Rules { path: None, watches: watches.into_iter().map(|(watch, _)| watch).collect(), protect })
    }
}

/// Returns the watch of a table. The table must have `keys`, and no other key that names what is watched.
fn watch(
    settings: Spanned<WatchSettings>,
    table: &str,
    keys: &[&str],
    of: impl Fn(&WatchSettings) -> Result<(String, WatchSubject), String>,
) -> Result<(WatchRule, Option<usize>), RuleError> {
    let (start, wrong) = (settings.span().start, RuleError::at(&settings));
    let settings = settings.into_inner();
    settings.have_only(table, keys, start)?;
    let (name, of) = of(&settings).map_err(&wrong)?;
    Ok((settings.watch(&name, of).map_err(&wrong)?, Some(start)))
}

/// Returns what a table of processes watches.
fn processes(settings: &WatchSettings) -> Result<(String, WatchSubject), String> {
    let name = settings.name.as_ref().map_or("", |name| name.get_ref());
    let pattern = Pattern::new(name);
    check_processes(name, &pattern)?;
    let limit = settings.limit.as_ref().map_or(0, |limit| limit.get_ref().0);
    Ok((name.to_owned(), WatchSubject::Processes { name: pattern, limit }))
}

/// Returns a control group from the command line. It must exist.
pub(super) fn cgroup_argument(path: &str) -> Result<(String, WatchSubject), String> {
    let (name, of) = group(path)?;
    match &of {
        WatchSubject::Group { folder, .. } if !folder.is_dir() => {
            Err(format!("cgroup {path:?}: there is no control group {}", folder.display()))
        }
        _ => Ok((name, of)),
    }
}

/// Returns a control group with memory limits, and its name. If it does not exist yet, returns where it would
/// be.
fn group(path: &str) -> Result<(String, WatchSubject), String> {
    let tree = SysTree::open(Path::new("/")).map_err(|error| error.to_string())?;
    let points = Hierarchies::read(&tree).points();
    let below = path.trim_matches('/');
    if below.split('/').any(|part| part == "..") {
        return Err(format!("cgroup {path:?}: a path without \"..\" is expected"));
    }
    let mut coming = None;
    for point in points {
        let mount = Path::new("/").join(point);
        let within = Path::new(path).strip_prefix(&mount).map_or(PathBuf::from(below), Path::to_owned);
        let folder = mount.join(&within);
        if folder == mount {
            continue;
        }
        let name = format!("/{}", within.display().to_string().trim_matches('/'));
        if has_memory(&folder) {
            return Ok((name, WatchSubject::Group { folder, mount }));
        }
        let controls = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
        let is_his = controls.split_whitespace().any(|name| name == "memory") || has_memory(&mount);
        if is_his && !folder.is_dir() {
            coming = Some((name, WatchSubject::Group { folder, mount }));
        }
    }
    coming.ok_or_else(|| format!("cgroup {path:?}: there is no such control group with a memory controller"))
}

/// Checks that processes to be ended by name are not those that the system needs.
fn check_processes(name: &str, pattern: &Pattern) -> Result<(), String> {
    let own = tasks::name(std::process::id());
    for (pid, what) in [
        (Some("systemd".to_owned()), "init"),
        (Some("init".to_owned()), "init"),
        (tasks::name(1), "init"),
        (own, "the guard itself"),
    ] {
        if pid.is_some_and(|name| pattern.matches(name.as_bytes())) {
            return Err(format!("processes {name:?} matches {what}: name the processes that may be ended"));
        }
    }
    if name.is_empty() || name.len() > 15 && !name.contains('*') {
        return Err(format!("processes {name:?}: names have 1 to 15 bytes; shorten it with \"*\""));
    }
    Ok(())
}

impl WatchSettings {
    /// Checks that all of `keys` are present, and no other key that names what is watched. The table begins
    /// at `start`.
    fn have_only(&self, table: &str, keys: &[&str], start: usize) -> Result<(), RuleError> {
        let all = [
            ("path", self.path.as_ref().map(|path| path.span().start)),
            ("name", self.name.as_ref().map(|name| name.span().start)),
            ("limit", self.limit.as_ref().map(|limit| limit.span().start)),
        ];
        for (key, at) in all {
            match (at, keys.contains(&key)) {
                (Some(_), false) => {
                    return Err(RuleError { at, why: format!("{table} does not allow {key:?}") });
                }
                (None, true) => {
                    return Err(RuleError { at: Some(start), why: format!("{table} requires {key:?}") });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn watch(self, name: &str, of: WatchSubject) -> Result<WatchRule, String> {
        let usual = Thresholds::default();
        let limits = Thresholds {
            warn_before: self.warn_before.unwrap_or(usual.warn_before),
            term_below: self.term_below.unwrap_or(usual.term_below),
            term_before: self.term_before.unwrap_or(usual.term_before),
            kill_below: self.kill_below.unwrap_or(usual.kill_below),
            kill_before: self.kill_before.unwrap_or(usual.kill_before),
            stalled: self.stalled.unwrap_or(usual.stalled),
        };
        for total in [1u64 << 30, 1 << 34, 1 << 40] {
            if limits.kill_below.bytes_of(total) > limits.term_below.bytes_of(total) {
                let [kill, term, total] =
                    [limits.kill_below.bytes_of(total), limits.term_below.bytes_of(total), total]
                        .map(units::bytes);
                return Err(format!(
                    "{name}: kill_below is more than term_below ({kill} and {term} of {total}): SIGKILL \
                    would come before SIGTERM"
                ));
            }
        }
        if limits.kill_before > limits.term_before {
            return Err(format!(
                "{name}: kill_before is longer than term_before: SIGKILL would come before SIGTERM"
            ));
        }
        Ok(WatchRule {
            name: name.to_owned(),
            of,
            limits,
            grace: Duration::from_secs_f64(self.grace.unwrap_or(5.0)),
            end_group: self.end == Some(End::Cgroup),
            slow: self.slow.unwrap_or_default(),
            last_resort: self.last_resort.unwrap_or_default(),
        })
    }
}
