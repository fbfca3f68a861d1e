//! Parses and checks the table `[protect]`.

use crate::decision::pattern::Pattern;
use crate::rules::{
    protect::{MAX_LOOKUP_RULES, NameRule, ProtectRules},
    text::RuleError,
};
use serde::Deserialize;
use std::{fs, path::PathBuf};
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProtectText {
    names: Vec<Spanned<NameText>>,
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

/// A name, or a name and further requirements.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a name in quotes is expected, or { name, user, unit, exe }")]
enum NameText {
    Bare(String),
    With(NameTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NameTable {
    name: String,
    user: Option<User>,
    unit: Option<String>,
    exe: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "the name or the number of a user is expected")]
enum User {
    Id(u32),
    Name(String),
}

impl ProtectText {
    /// Returns what is protected, or an error with its position.
    pub(super) fn protect(text: Option<Spanned<Self>>) -> Result<ProtectRules, RuleError> {
        let mut protect = ProtectRules::default();
        let mut has_defaults = true;
        if let Some(text) = text {
            let wrong = RuleError::at(&text);
            let text = text.into_inner();
            has_defaults = text.defaults;
            protect = text.patterns(wrong)?;
        }
        if has_defaults {
            protect.names.extend(ProtectRules::defaults());
        }
        if protect.names.iter().filter(|name| name.needs_lookup()).count() > MAX_LOOKUP_RULES {
            return Err(RuleError::somewhere(format!(
                "protect.names: at most {MAX_LOOKUP_RULES} names may require a unit or an exe, including the \
                default ones"
            )));
        }
        Ok(protect)
    }

    fn patterns(self, wrong: impl Fn(String) -> RuleError) -> Result<ProtectRules, RuleError> {
        let checked = self.names.into_iter().map(|name| {
            let wrong = RuleError::at(&name);
            name.into_inner().named().map_err(wrong)
        });
        let names = checked.collect::<Result<_, _>>()?;
        self.units.iter().try_for_each(|unit| check_unit(unit)).map_err(&wrong)?;
        self.cgroups.iter().try_for_each(|path| check_group(path)).map_err(&wrong)?;
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
        let users = self.users.into_iter().map(User::id).collect::<Result<_, _>>();
        Ok(ProtectRules {
            names,
            units: patterns(&self.units),
            groups: patterns(&self.cgroups),
            users: users.map_err(wrong)?,
        })
    }
}

impl NameText {
    fn named(self) -> Result<NameRule, String> {
        let table = match self {
            Self::Bare(name) => NameTable { name, user: None, unit: None, exe: None },
            Self::With(table) => table,
        };
        matches_some("names", &table.name)?;
        check_name("protect.names", &table.name)?;
        if let Some(unit) = &table.unit {
            check_unit(unit)?;
        }
        if let Some(exe) = table.exe.as_ref().filter(|exe| !exe.is_absolute()) {
            return Err(format!(
                "protect.names: exe {:?}: an absolute path is expected",
                exe.display().to_string()
            ));
        }
        Ok(NameRule {
            name: Pattern::new(&table.name),
            user: table.user.map(User::id).transpose()?,
            unit: table.unit.as_deref().map(Pattern::new),
            exe: table.exe,
        })
    }
}

/// Checks that a pattern matches something, but not everything.
fn matches_some(kind: &str, text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!("protect.{kind} \"\" matches nothing"));
    }
    if text.bytes().all(|byte| byte == b'*') {
        return Err(format!(
            "protect.{kind} {text:?} matches everything: the guard could not end any process"
        ));
    }
    Ok(())
}

fn check_unit(unit: &str) -> Result<(), String> {
    matches_some("units", unit)?;
    if unit.contains(['.', '*']) {
        return Ok(());
    }
    Err(format!("protect.units {unit:?}: a unit with its suffix is expected: \"{unit}.service\""))
}

fn check_group(path: &str) -> Result<(), String> {
    matches_some("cgroups", path)?;
    if path.trim_matches('/').is_empty() {
        return Err(format!(
            "protect.cgroups {path:?} matches everything: the guard could not end any process"
        ));
    }
    if path.starts_with(['/', '*']) {
        return Ok(());
    }
    Err(format!("protect.cgroups {path:?}: an absolute path is expected: \"/{path}\""))
}

/// Checks that a process name can match the pattern.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    match name.bytes().filter(|&byte| byte != b'*').count() {
        1..=15 => Ok(()),
        0 => Err(format!("{what} {name:?} is not a name")),
        _ => Err(format!(
            "{what} {name:?}: the kernel keeps only 15 bytes of a name; shorten it and end it with \"*\""
        )),
    }
}

impl User {
    /// Returns the user id, from `/etc/passwd`.
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
