//! The file as people write it, and what is wrong with it.

use super::{LastResort, Of, Protect, Rules, Slow, Watch};
use manycore_host::{
    Tree,
    cgroup::{Hierarchies, has_memory},
    tasks,
};
use manycore_model::{
    guard::{
        pattern::Pattern,
        stage::{Amount, Limits},
        table::WATCHES,
    },
    units,
};
use serde::{Deserialize, Deserializer, de::Error};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Programs without which nobody gets in to look, unless the file says otherwise.
const DEFAULTS: [&str; 9] =
    ["sshd*", "systemd*", "dbus-*", "login", "agetty", "getty", "containerd*", "dockerd", "libvirtd"];

/// Longest time that a rule may name, in seconds.
const LONGEST: f64 = 86_400.0;

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    machine: Option<Settings>,
    #[serde(default)]
    cgroup: Vec<Settings>,
    #[serde(default)]
    processes: Vec<Settings>,
    #[serde(default)]
    protect: ProtectText,
}

/// Of one watch; what is absent has its default. One for all kinds, so that errors have the line of their key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Of a control group.
    path: Option<String>,
    /// Of processes.
    name: Option<String>,
    /// Likewise.
    #[serde(default, deserialize_with = "bytes")]
    limit: Option<u64>,
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
    slow: Option<Slow>,
    last_resort: Option<LastResort>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum End {
    Process,
    Cgroup,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProtectText {
    names: Vec<String>,
    units: Vec<String>,
    cgroups: Vec<String>,
    users: Vec<User>,
    defaults: bool,
}

impl Default for ProtectText {
    fn default() -> Self {
        Self { names: Vec::new(), units: Vec::new(), cgroups: Vec::new(), users: Vec::new(), defaults: true }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "the name or the number of a user is expected")]
enum User {
    Id(u32),
    Name(String),
}

fn said<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text in quotes is expected: \"30s\", \"512M\" or \"5%\"")]
    enum Said {
        Text(String),
        Number(u64),
    }
    Ok(match Said::deserialize(from)? {
        Said::Text(text) => text,
        Said::Number(number) => number.to_string(),
    })
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let text = said(from)?;
    let duration: humantime::Duration = text
        .parse()
        .map_err(|_| D::Error::custom(format!("{text:?} is no time: write \"30s\" or \"2min\"")))?;
    let seconds = duration.as_secs_f64();
    if seconds > LONGEST {
        return Err(D::Error::custom(format!("{text:?} is longer than a day")));
    }
    Ok(Some(seconds))
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = said(from)?;
    parse_bytes(&text)
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("{text:?} is no size: write \"512M\" or \"4G\"")))
}

fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Amount>, D::Error> {
    let text = said(from)?;
    let percent = parse_percent(&text).map(Amount::Percent);
    let amount = percent.or_else(|| parse_bytes(&text).map(Amount::Bytes));
    let what = || D::Error::custom(format!("{text:?} is no part of memory: write \"5%\" or \"512M\""));
    amount.map(Some).ok_or_else(what)
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let text = said(from)?;
    let share = parse_percent(&text).map(|percent| percent / 100.0);
    share.map(Some).ok_or_else(|| D::Error::custom(format!("{text:?} is no share of time: write \"40%\"")))
}

fn parse_percent(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (percent > 0.0 && percent <= 100.0).then_some(percent)
}

/// `512M`, `4GiB`, `1048576`: powers of 1024 in any case, from one MiB on.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let unit = text[digits..].trim().to_ascii_lowercase();
    let power = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    let size = text[..digits].parse::<f64>().ok()? * 1024f64.powi(power);
    // Less is meant to have a unit.
    (size >= 1_048_576.0 && size < (1u64 << 60) as f64).then_some(size as u64)
}

impl Text {
    /// The rules, if they can be kept. The control groups `asked` are watched beside what the text says.
    pub(super) fn rules(self, asked: Vec<(String, Of)>) -> Result<Rules, String> {
        let mut watches = Vec::new();
        let is_named = !asked.is_empty() || !self.cgroup.is_empty() || !self.processes.is_empty();
        let machine = self.machine.or_else(|| (!is_named).then(Settings::default));
        if let Some(settings) = machine {
            settings.have_only("[machine]", [])?;
            watches.push(settings.watch("machine", Of::Machine)?);
        }
        for settings in self.cgroup {
            settings.have_only("[[cgroup]]", ["path"])?;
            let (name, of) = group(settings.path.as_deref().unwrap_or_default())?;
            watches.push(settings.watch(&name, of)?);
        }
        for (name, of) in asked {
            watches.push(Settings::default().watch(&name, of)?);
        }
        for settings in self.processes {
            settings.have_only("[[processes]]", ["name", "limit"])?;
            let name = settings.name.clone().unwrap_or_default();
            let pattern = Pattern::new(&name);
            check_processes(&name, &pattern)?;
            let limit = settings.limit.unwrap_or(0);
            watches.push(settings.watch(&name, Of::Processes { name: pattern, limit })?);
        }
        for (at, watch) in watches.iter().enumerate() {
            if watches[..at].iter().any(|other: &Watch| other.of == watch.of) {
                return Err(format!("{} is watched twice", watch.name));
            }
        }
        if watches.len() > WATCHES {
            return Err(format!("{} watches, but one guard keeps {WATCHES} at most", watches.len()));
        }
        Ok(Rules { path: None, watches, protect: self.protect.protect()? })
    }
}

/// A control group that somebody names now, and that has to be there.
pub(super) fn asked(path: &str) -> Result<(String, Of), String> {
    let (name, of) = group(path)?;
    match &of {
        Of::Group { folder, .. } if !folder.is_dir() => {
            Err(format!("cgroup {path:?}: there is no control group {}", folder.display()))
        }
        _ => Ok((name, of)),
    }
}

/// A control group with memory limits, and its name; one that is not there yet, where it would be.
fn group(path: &str) -> Result<(String, Of), String> {
    let tree = Tree::open(Path::new("/")).map_err(|error| error.to_string())?;
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
            return Ok((name, Of::Group { folder, mount }));
        }
        let controls = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
        let is_his = controls.split_whitespace().any(|name| name == "memory") || has_memory(&mount);
        if is_his && !folder.is_dir() {
            coming = Some((name, Of::Group { folder, mount }));
        }
    }
    coming.ok_or_else(|| format!("cgroup {path:?}: there is no such group with a memory controller"))
}

/// Processes that are to be ended for their name must not be those that everything needs.
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
        return Err(format!(
            "processes {name:?}: the kernel keeps names of 1 to 15 bytes; shorten it with \"*\""
        ));
    }
    Ok(())
}

/// A pattern that no name can match protects nobody.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    match name.bytes().filter(|&byte| byte != b'*').count() {
        1..=15 => Ok(()),
        0 => Err(format!("{what} {name:?} is no name")),
        _ => Err(format!(
            "{what} {name:?}: the kernel keeps 15 bytes of a name; shorten it, with \"*\" at its end"
        )),
    }
}

impl Settings {
    /// Whether all of `keys` are there, and no other that names what is watched.
    fn have_only<const N: usize>(&self, table: &str, keys: [&str; N]) -> Result<(), String> {
        let all =
            [("path", self.path.is_some()), ("name", self.name.is_some()), ("limit", self.limit.is_some())];
        for (key, is_there) in all {
            match (is_there, keys.contains(&key)) {
                (true, false) => return Err(format!("{table} has no {key:?}")),
                (false, true) => return Err(format!("a {table} lacks {key:?}")),
                _ => {}
            }
        }
        Ok(())
    }

    fn watch(self, name: &str, of: Of) -> Result<Watch, String> {
        let usual = Limits::default();
        let limits = Limits {
            warn_before: self.warn_before.unwrap_or(usual.warn_before),
            term_below: self.term_below.unwrap_or(usual.term_below),
            term_before: self.term_before.unwrap_or(usual.term_before),
            kill_below: self.kill_below.unwrap_or(usual.kill_below),
            kill_before: self.kill_before.unwrap_or(usual.kill_before),
            stalled: self.stalled.unwrap_or(usual.stalled),
        };
        for total in [1u64 << 30, 1 << 34, 1 << 40] {
            if limits.kill_below.of(total) > limits.term_below.of(total) {
                let [kill, term, total] =
                    [limits.kill_below.of(total), limits.term_below.of(total), total].map(units::bytes);
                return Err(format!(
                    "{name}: kill_below is more than term_below ({kill} and {term} of {total}): nobody would be asked first"
                ));
            }
        }
        if limits.kill_before > limits.term_before {
            return Err(format!(
                "{name}: kill_before is longer than term_before: nobody would be asked first"
            ));
        }
        Ok(Watch {
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

impl ProtectText {
    fn protect(self) -> Result<Protect, String> {
        let everybody = |kind: &str, texts: &[String]| {
            texts.iter().find(|text| text.bytes().all(|byte| byte == b'*') || text.is_empty()).map(|text| {
                format!(
                    "protect.{kind} {text:?} matches {}",
                    if text.is_empty() { "nobody" } else { "everybody: the guard could do nothing" }
                )
            })
        };
        for (kind, texts) in [("names", &self.names), ("units", &self.units), ("cgroups", &self.cgroups)] {
            if let Some(why) = everybody(kind, texts) {
                return Err(why);
            }
        }
        if let Some(path) = self.cgroups.iter().find(|path| path.trim_matches('/').is_empty()) {
            return Err(format!("protect.cgroups {path:?} matches everybody: the guard could do nothing"));
        }
        if let Some(path) = self.cgroups.iter().find(|path| !path.starts_with(['/', '*'])) {
            return Err(format!("protect.cgroups {path:?}: a path from the root is expected: \"/{path}\""));
        }
        if let Some(unit) = self.units.iter().find(|unit| !unit.contains(['.', '*'])) {
            return Err(format!(
                "protect.units {unit:?}: a unit with its ending is expected: \"{unit}.service\""
            ));
        }
        self.names.iter().try_for_each(|name| check_name("protect.names", name))?;
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>();
        let mut names = patterns(&self.names);
        if self.defaults {
            names.extend(DEFAULTS.map(Pattern::new));
        }
        Ok(Protect {
            names,
            units: patterns(&self.units),
            groups: patterns(&self.cgroups),
            users: self.users.into_iter().map(User::id).collect::<Result<_, _>>()?,
        })
    }
}

impl User {
    /// The number, by `/etc/passwd`.
    fn id(self) -> Result<u32, String> {
        let name = match self {
            Self::Id(id) => return Ok(id),
            Self::Name(name) => name,
        };
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let of = |line: &str| {
            let mut fields = line.split(':');
            (fields.next() == Some(&name)).then(|| fields.nth(1)?.parse().ok()).flatten()
        };
        users
            .lines()
            .find_map(of)
            .ok_or_else(|| format!("protect.users {name:?}: there is no such user in /etc/passwd"))
    }
}
