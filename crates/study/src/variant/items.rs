//! One variant as text: items between commas.

use super::VariantError as Error;
use crate::{compare::VariantSpec, life::Hooks, split_command};
use manycore_control::setting::{KNOWN, Setting, SettingError};
use manycore_text::names::misspelt;
use std::collections::BTreeSet;

/// The beginnings of items.
const KEYS: [&str; 7] = ["place=", "memory=", "workers=", "nice=", "sched=", "env:", "cmd="];

/// Placements that are items without `place=`, and what begins others.
const PLACES: [&str; 3] = ["free", "close", "spread"];
const PLACE_KEYS: [&str; 2] = ["cpus=", "near="];

/// Longest name of a variant.
const MAX_NAME: usize = 40;

/// A variant as it was written, in which `{name}` stands for a parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariantText {
    /// The user's name.
    pub name: Option<String>,
    /// Program and arguments, unless an item is a command.
    pub command: Vec<String>,
    /// Items between commas: `place=close,nice=10`. Empty for the command as it is.
    pub items: String,
    /// Commands around its runs.
    pub hooks: Hooks,
}

impl VariantText {
    /// Reads `[NAME=]ITEMS`.
    ///
    /// # Errors
    /// The text before the first `=` cannot be a name, or is a misspelt key. Items are not checked.
    pub fn named(text: &str, command: Vec<String>) -> Result<Self, Error> {
        let Some((name, items)) = text.split_once('=').filter(|_| !is_key(text)) else {
            return Ok(Self { command, items: text.to_owned(), ..Self::default() });
        };
        let name = name.trim();
        let keys = KEYS.iter().chain(&PLACE_KEYS).map(|key| key.trim_end_matches(['=', ':']));
        let keys = keys.chain(KNOWN.iter().map(|known| known.name));
        if let Some(nearest) = misspelt(keys, name) {
            return Err(Error::NearlyKey { name: name.to_owned(), nearest });
        }
        check_name(name)?;
        Ok(Self { name: Some(name.to_owned()), command, items: items.to_owned(), ..Self::default() })
    }

    /// Returns the variant. Items without a value of their own, such as the number of workers, have that of `base`.
    ///
    /// # Errors
    /// An item is not one, or occurs twice.
    pub fn parse(&self, base: &VariantSpec) -> Result<VariantSpec, Error> {
        let (command, hooks) = (self.command.clone(), self.hooks.clone());
        let mut spec = VariantSpec { name: self.name.clone(), command, hooks, ..base.clone() };
        let mut seen = BTreeSet::new();
        for item in split_items(&self.items, &is_key) {
            let key = set_item(item.trim(), &mut spec)?;
            if !seen.insert(key.clone()) {
                return Err(Error::Twice(key));
            }
        }
        Ok(spec)
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_alphanumeric() || "_-.@".contains(c);
    let is_name = name.starts_with(char::is_alphabetic) && name.chars().all(plain);
    if is_name && name.chars().count() <= MAX_NAME { Ok(()) } else { Err(Error::Name(name.to_owned())) }
}

/// Returns whether a text begins with an item.
pub fn is_key(text: &str) -> bool {
    let text = text.trim_start();
    let is_place = |place: &str| {
        text.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '+', '@']))
    };
    Setting::is_meant(text)
        || KEYS.iter().chain(&PLACE_KEYS).any(|key| text.starts_with(key))
        || PLACES.iter().any(|place| is_place(place))
}

/// Splits items at commas. A comma begins a new item only where one that `is_item` knows follows, because lists of CPUs and
/// values of variables contain commas as well; `\,` never does.
pub fn split_items(text: &str, is_item: &dyn Fn(&str) -> bool) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut items = vec![String::new()];
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (taken, width) = match next {
            '\\' if rest[1..].starts_with(',') => (Some(','), 2),
            ',' if is_item(&rest[1..]) => (None, 1),
            other => (Some(other), other.len_utf8()),
        };
        match (taken, items.last_mut()) {
            (Some(letter), Some(item)) => item.push(letter),
            _ => items.push(String::new()),
        }
        rest = &rest[width..];
    }
    items
}

/// Sets one item. Returns what it sets: `place`, `env:LANG`.
///
/// # Errors
/// It is no item, or its value is wrong.
pub fn set_item(item: &str, spec: &mut VariantSpec) -> Result<String, Error> {
    if Setting::is_meant(item) {
        let setting: Setting =
            item.parse().map_err(|error: SettingError| Error::Setting(error.to_string()))?;
        spec.settings.push(setting);
        return Ok(item.split_once('=').map_or(item, |(name, _)| name).to_owned());
    }
    let (key, value) = KEYS
        .iter()
        .find_map(|key| Some((*key, item.strip_prefix(key)?)))
        .or_else(|| is_key(item).then_some(("place=", item)))
        .ok_or_else(|| Error::Unknown(item.to_owned()))?;
    let wrong = |error: fn(String) -> Error| move || error(value.to_owned());
    match key {
        "place=" => spec.place = Some(value.parse()?),
        "memory=" => spec.memory = value.parse()?,
        "workers=" => spec.workers = Some(number(value, 1..=65_536).ok_or_else(wrong(Error::Workers))?),
        "nice=" => spec.nice = Some(number(value, -20..=19).ok_or_else(wrong(Error::Nice))?),
        "sched=" => spec.scheduler = Some(value.parse()?),
        "cmd=" => {
            let words = split_command(value);
            spec.command = words.map_err(|why| Error::Command(value.to_owned(), why.to_string()))?;
        }
        _ => {
            let variable = value.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, text) = variable.ok_or_else(wrong(Error::Environment))?;
            spec.env.push((name.to_owned(), text.to_owned()));
            return Ok(format!("env:{name}"));
        }
    }
    Ok(key.trim_end_matches('=').to_owned())
}

fn number<N: std::str::FromStr + PartialOrd>(text: &str, range: std::ops::RangeInclusive<N>) -> Option<N> {
    text.trim().parse().ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_placement::MemoryPlacement;
    use proptest::prelude::*;

    fn spec(text: &str) -> Result<VariantSpec, Error> {
        VariantText::named(text, vec!["sort".to_owned()])?.parse(&VariantSpec::default())
    }

    #[test]
    fn items_are_combined_with_commas() {
        let all = spec("fast=place=spread@llc,env:LC_ALL=C,memory=interleave=0-1,nice=-5,workers=4").unwrap();
        assert_eq!(all.name.as_deref(), Some("fast"));
        assert_eq!(all.place, Some("spread@llc".parse().unwrap()));
        assert_eq!(all.env, [("LC_ALL".to_owned(), "C".to_owned())]);
        assert_eq!(all.memory, "interleave=0-1".parse::<MemoryPlacement>().unwrap());
        assert_eq!((all.nice, all.workers, all.command), (Some(-5), Some(4), vec!["sort".to_owned()]));
        assert_eq!(spec("cmd=sort -r 'a b'").unwrap().command, ["sort", "-r", "a b"]);
        let base = spec("base=").unwrap();
        assert_eq!((base.name.as_deref(), base.place, base.env.len()), (Some("base"), None, 0));
    }

    #[test]
    fn a_placement_stands_for_itself() {
        for place in ["free", "close", "spread+nosmt", "spread@llc", "cpus=0-3,8", "near=eth0"] {
            for text in
                [place.to_owned(), format!("place={place}"), format!("nice=5,{place}"), format!("p={place}")]
            {
                assert_eq!(spec(&text).unwrap().place, Some(place.parse().unwrap()), "{text}");
            }
        }
    }

    #[test]
    fn a_comma_begins_an_item_only_where_one_follows() {
        let split = |text: &str| split_items(text, &is_key);
        assert_eq!(split("cpus=0-3,8,nice=1"), ["cpus=0-3,8", "nice=1"]);
        assert_eq!(split("env:OMP_PLACES={0,1},{2,3},close"), ["env:OMP_PLACES={0,1},{2,3}", "close"]);
        assert_eq!(split("env:X=closer,spreading,place=close"), ["env:X=closer,spreading", "place=close"]);
        assert_eq!(split(r"env:X=a\,close\,b\c"), ["env:X=a,close,b\\c"]);
        assert!(split(" ").is_empty());
    }

    #[test]
    fn settings_are_items() {
        let both = spec("set:kernel.numa_balancing=0,thp=never,set:/proc/irq/9/smp_affinity_list=0,2,close")
            .unwrap();
        let settings: Vec<String> = both.settings.iter().map(ToString::to_string).collect();
        assert_eq!(settings, ["kernel.numa_balancing=0", "thp=never", "/proc/irq/9/smp_affinity_list=0,2"]);
        assert_eq!(both.place, Some("close".parse().unwrap()));
        assert_eq!(spec("packed=thp=never").unwrap().name.as_deref(), Some("packed"));
        let said = |text: &str| spec(text).unwrap_err().to_string();
        assert!(said("set:kernel.x").contains("it has no value"));
        assert!(said("turbo=1").contains("turbo cannot be '1'"));
        assert!(said("thp=never,thp=always").contains("thp is given twice"));
        assert!(said("set:/etc/passwd=x").contains("not below /sys"));
        assert!(
            said("govenor=performance").contains("did you mean governor=?"),
            "{}",
            said("govenor=performance")
        );
    }

    #[test]
    fn schedulers_are_items_with_options() {
        let label = |text: &str| spec(text).unwrap().scheduler.map(|scheduler| scheduler.to_string());
        assert_eq!(label("close"), None);
        assert_eq!(label("sched=kernel").as_deref(), Some("kernel"));
        assert_eq!(label("fast=close,sched=cluster:spread,nice=1").as_deref(), Some("cluster:spread"));
        let lavd = spec("sched=scx_lavd --performance --cpus 0,1,close").unwrap();
        assert_eq!(lavd.scheduler.unwrap().to_string(), "scx_lavd --performance --cpus 0,1");
        assert_eq!(lavd.place, Some("close".parse().unwrap()));
        let said = |text: &str| spec(text).unwrap_err().to_string();
        assert!(said("sched=kernel,sched=scx_lavd").contains("sched is given twice"));
        assert!(said("sched=cluster:fast").contains("write kernel, cluster:spread"));
        assert!(said("shed=kernel").contains("did you mean sched=?"), "{}", said("shed=kernel"));
    }

    #[test]
    fn wrong_items_say_what_to_write() {
        let said = |text: &str| spec(text).unwrap_err().to_string();
        assert!(said("nice=20").contains("-20 (most CPU time) to 19"), "{}", said("nice=20"));
        assert!(said("workers=0").contains("from 1 to 65536"));
        assert!(said("env:LANG").contains("write env:NAME=VALUE"));
        assert!(said("env:=x").contains("write env:NAME=VALUE"));
        assert!(said("place=clos").contains("'clos' is not a placement"));
        assert!(said("memory=all").contains("is not a memory policy"));
        assert!(said("cmd='open").contains("is not a command: a quote is not closed"));
        assert!(said("closed").contains("'closed' is not a part of a variant; write place=PLACE"));
        assert!(said("close,spread").contains("place is given twice"));
        assert!(said("env:X=1,env:X=2").contains("env:X is given twice"));
        assert!(said("palce=close").contains("did you mean place=?"), "{}", said("palce=close"));
        assert!(said("two words=close").contains("cannot be the name"));
        assert!(said("=close").contains("cannot be the name"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_variant_or_an_error(text in ".{0,60}") {
            let _ = spec(&text);
        }
    }
}
