//! Translates a request to the lines of this kernel. All errors are found before anything is written.

use super::wish::{Bandwidth, CacheWish, On, Part, Portion, Wish};
use manycore_linux::resctrl::{
    dialect::{AMD_UNIT, Bounds, Control, Dialect, Offer, Scope},
    domains::Places,
    schemata::{Line, Schemata},
};
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// One line to be written to `schemata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The request, as on the command line: `bandwidth 55%`.
    pub asked: String,
    /// Name of the line.
    pub line: Line,
    /// The value that the kernel will put into force in each domain, as far as its rounding is known.
    pub expected: BTreeMap<u32, u64>,
    /// How the written value differs from the request.
    pub note: Option<String>,
}

/// Why a request cannot be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such value or domain.
    Wrong(String),
    /// This machine, kernel or mount has no such control.
    Lacks(String),
}

impl Refusal {
    /// Returns the reason.
    pub fn text(&self) -> &str {
        match self {
            Self::Wrong(text) | Self::Lacks(text) => text,
        }
    }
}

/// Returns the lines for `wish`, or all reasons why it cannot be met. `others` are the limits of other
/// groups: masks are placed where they overlap least with these.
///
/// # Errors
/// At least one refusal; then nothing must be written.
pub fn translate(
    wish: &Wish,
    offer: &Offer,
    places: &Places,
    others: &[&Schemata],
) -> Result<Vec<Write>, Vec<Refusal>> {
    let desk = Desk { wish, offer, places, others };
    let mut results = Vec::new();
    if let Some(bandwidth) = wish.bandwidth {
        results.push(desk.bandwidth(bandwidth));
    }
    if let Some(share) = wish.min_bandwidth {
        results.push(desk.minimum(share));
    }
    if let Some(on) = wish.hard_limit {
        let asked = format!("hardlimit {}", if on { "on" } else { "off" });
        results.push(desk.extra(asked, "MBHDL", "hard limit of memory bandwidth", u64::from(on)));
    }
    if let Some(priority) = wish.priority {
        results.push(desk.extra(
            format!("priority {priority}"),
            "MBPRI",
            "priority of memory bandwidth",
            priority,
        ));
    }
    results.extend(wish.caches.iter().flat_map(|cache| desk.cache(cache)));
    let (writes, refusals): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let writes: Vec<Write> = writes.into_iter().flatten().collect();
    let refusals: Vec<Refusal> =
        refusals.into_iter().filter_map(Result::err).chain(clashes(&writes)).collect();
    if refusals.is_empty() { Ok(writes) } else { Err(refusals) }
}

/// Returns a refusal for every two writes of the same line and domain, of which the second would overwrite
/// the first.
fn clashes(writes: &[Write]) -> Vec<Refusal> {
    let mut found = Vec::new();
    for (at, write) in writes.iter().enumerate() {
        let is_same = |other: &&Write| {
            let (ours, theirs) = (&write.line, &other.line);
            ours.name == theirs.name && ours.values.keys().any(|domain| theirs.values.contains_key(domain))
        };
        if let Some(earlier) = writes[..at].iter().find(is_same) {
            let (one, other, name) = (&earlier.asked, &write.asked, &write.line.name);
            found.push(Refusal::Wrong(format!("{one} and {other} both set {name}: give only one of them")));
        }
    }
    found
}

/// The inputs of all steps.
struct Desk<'a> {
    wish: &'a Wish,
    offer: &'a Offer,
    places: &'a Places,
    others: &'a [&'a Schemata],
}

impl Desk<'_> {
    fn bandwidth(&self, asked: Bandwidth) -> Result<Write, Refusal> {
        let name = if self.offer.control("MB").is_none() { "MBMAX" } else { "MB" };
        let control = self.offer.control(name).ok_or_else(|| {
            Refusal::Lacks(format!(
                "memory bandwidth cannot be limited here: schemata has no line MB ({})",
                self.offer.dialect.name()
            ))
        })?;
        let (value, note) = self.bandwidth_value(asked, control)?;
        if asked != Bandwidth::Percent(100) {
            self.check_number("bandwidth", value, control)?;
        }
        self.write(format!("bandwidth {asked}"), name, control, |_| value, note)
    }

    /// Returns the number to write for a bandwidth, and a note if it differs from the request.
    fn bandwidth_value(&self, asked: Bandwidth, control: &Control) -> Result<(u64, Option<String>), Refusal> {
        let wrong = |text: &str| Err(Refusal::Wrong(text.to_owned()));
        match (asked, self.offer.dialect) {
            (Bandwidth::Percent(100), _) => Ok((control.open, None)),
            (Bandwidth::Percent(_), Dialect::AmdPqos) => wrong(
                "AMD limits bandwidth in steps of 125 MB/s and does not report the maximum, so percentages are unknown: \
                 give a rate, such as --bandwidth 2000MB/s (100% removes the limit)",
            ),
            (Bandwidth::Percent(_), _) if self.offer.megabytes => wrong(
                "resctrl is mounted with mba_MBps, where limits are in MB/s: give a rate, such as --bandwidth \
                 2000MB/s (100% removes the limit)",
            ),
            (Bandwidth::Percent(percent), _) => Ok((percent, None)),
            (Bandwidth::Megabytes(rate), Dialect::AmdPqos) => {
                let units = (rate / AMD_UNIT).max(1);
                let note = (units * AMD_UNIT != rate)
                    .then(|| format!("limits come in steps of {AMD_UNIT} MB/s: {} MB/s", units * AMD_UNIT));
                Ok((units, note))
            }
            (Bandwidth::Megabytes(rate), _) if self.offer.megabytes => Ok((rate, None)),
            (Bandwidth::Megabytes(_), Dialect::IntelRdt) => wrong(
                "limits are in percent here; for MB/s, resctrl has to be mounted with mba_MBps: umount it, then mount \
                 -t resctrl resctrl -o mba_MBps /sys/fs/resctrl",
            ),
            (Bandwidth::Megabytes(_), _) => wrong("limits are in percent here, such as --bandwidth 50%"),
        }
    }

    fn minimum(&self, share: u64) -> Result<Write, Refusal> {
        if let Some(Bandwidth::Percent(most)) = self.wish.bandwidth
            && share > most
        {
            return Err(Refusal::Wrong(format!(
                "the minimum bandwidth ({share} %) is more than the maximum ({most} %)"
            )));
        }
        self.extra(format!("min-bandwidth {share}%"), "MBMIN", "minimum memory bandwidth", share)
    }

    /// Returns the write of a line that only openEuler has.
    fn extra(&self, asked: String, line: &str, what: &str, value: u64) -> Result<Write, Refusal> {
        let control = self.offer.control(line).ok_or_else(|| {
            let dialect = self.offer.dialect.name();
            Refusal::Lacks(match self.offer.dialect {
                Dialect::OpenEuler510 => {
                    let option = match line {
                        "MBMIN" => "mbMin",
                        "MBHDL" => "mbHdl",
                        _ => "mbPrio",
                    };
                    format!(
                        "{dialect} has a {what} only where resctrl is mounted with {option}: umount it, then mount -t \
                         resctrl resctrl -o {option} /sys/fs/resctrl"
                    )
                }
                _ => format!("{dialect} has no {what}; it needs MPAM with a kernel of openEuler"),
            })
        })?;
        self.check_number(what, value, control)?;
        self.write(asked, line, control, |_| value, None)
    }

    fn check_number(&self, what: &str, value: u64, control: &Control) -> Result<(), Refusal> {
        let Bounds::Number { least, most, .. } = control.bounds else { return Ok(()) };
        // That kernel raises values that are too small, which is reported after the write.
        let raises = self.offer.dialect == Dialect::OpenEuler510 && what == "bandwidth";
        let amd = self.offer.dialect == Dialect::AmdPqos;
        let shown = |value: u64| if amd { format!("{} MB/s", value * AMD_UNIT) } else { value.to_string() };
        if value > most || value < least && !raises {
            let (value, least, most) = (shown(value), shown(least), shown(most));
            return Err(Refusal::Wrong(format!(
                "{what} {value} is out of range: expected a value from {least} to {most}"
            )));
        }
        Ok(())
    }

    /// Returns the writes for a portion of a cache. If code and data are separate and neither is named, both are
    /// written.
    fn cache(&self, asked: &CacheWish) -> Vec<Result<Write, Refusal>> {
        let level = format!("L{}", asked.level);
        let parts = [format!("{level}CODE"), format!("{level}DATA")];
        let apart = parts.iter().all(|name| self.offer.control(name).is_some());
        let names = match asked.part {
            Part::Both if apart => parts.to_vec(),
            Part::Both if self.offer.control(&level).is_none() => vec![format!("{level}PBM")],
            Part::Both => vec![level.clone()],
            Part::Code => vec![parts[0].clone()],
            Part::Data => vec![parts[1].clone()],
        };
        let lacks = |name: &str| {
            let option = match (asked.level, self.offer.dialect) {
                (2, _) => "cdpl2",
                (_, Dialect::OpenEuler510) => "cdpl3",
                _ => "cdp",
            };
            Refusal::Lacks(if asked.part != Part::Both && self.offer.control(&level).is_some() {
                format!(
                    "code and data share the {level} here: to separate them, mount resctrl with {option} (umount \
                     it, then mount -t resctrl resctrl -o {option} /sys/fs/resctrl)"
                )
            } else {
                let name = name.trim_end_matches("PBM");
                format!("the {level} cannot be divided here: schemata has no line {name}")
            })
        };
        let write = |name: &String| {
            let control = self.offer.control(name).ok_or_else(|| lacks(name))?;
            self.mask(asked, name, control)
        };
        names.iter().map(write).collect()
    }

    fn mask(&self, asked: &CacheWish, name: &str, control: &Control) -> Result<Write, Refusal> {
        let Bounds::Mask { full, least_bits, sparse } = control.bounds else {
            return Err(Refusal::Lacks(format!("{name} is not written as a mask here")));
        };
        let all = full.count_ones();
        let wrong = |text: String| Err(Refusal::Wrong(format!("--cache {asked}: {text}")));
        let (ways, note) = match asked.portion {
            Portion::Mask(mask) => {
                let bits = mask.count_ones();
                return match () {
                    () if mask & !full != 0 => wrong(format!("the mask of all ways is {full:#x}")),
                    () if bits < least_bits => wrong(format!("a mask has at least {least_bits} bits here")),
                    () if !sparse && !is_contiguous(mask) => wrong("gaps are not allowed here".to_owned()),
                    () => self.write(format!("cache {asked}"), name, control, |_| mask, None),
                };
            }
            Portion::Ways(ways) if ways > all || ways < least_bits => {
                return wrong(format!("the cache has {all} ways, and the minimum is {least_bits}"));
            }
            Portion::Ways(ways) => (ways, None),
            Portion::Percent(percent) => {
                let exact = u64::from(all) * percent;
                let nearest = ((exact + 50) / 100) as u32;
                let ways = nearest.max(if percent == 0 { least_bits } else { least_bits.max(1) });
                let is_exact = u64::from(ways) * 100 == exact;
                (ways, (!is_exact).then(|| format!("rounded to {ways} of {all} ways")))
            }
        };
        let pick = |domain: u32| {
            let taken = self.others.iter().filter_map(|other| other.value(name, domain));
            place(ways, full, &taken.filter(|mask| *mask != full).collect::<Vec<_>>())
        };
        self.write(format!("cache {asked}"), name, control, pick, note)
    }

    fn write(
        &self,
        asked: String,
        name: &str,
        control: &Control,
        value: impl Fn(u32) -> u64,
        note: Option<String>,
    ) -> Result<Write, Refusal> {
        let values: BTreeMap<u32, u64> =
            self.domains(name, control)?.into_iter().map(|domain| (domain, value(domain))).collect();
        let expected =
            values.iter().map(|(&domain, &value)| (domain, control.bounds.rounded(value))).collect();
        Ok(Write { asked, line: Line { name: name.to_owned(), values }, expected, note })
    }

    /// Returns the domains of a line that `--on` selects.
    fn domains(&self, name: &str, control: &Control) -> Result<Vec<u32>, Refusal> {
        let scope = self.offer.dialect.scope(name);
        let known: CpuSet = control.domains.iter().copied().collect();
        let among = |list: &CpuSet, what: &str| {
            let absent = list.difference(&known);
            if absent.is_empty() {
                return Ok(list.iter().collect());
            }
            Err(Refusal::Wrong(format!("{name} has no {what} {absent}: there are {known}")))
        };
        match (&self.wish.on, scope) {
            (None, _) => Ok(control.domains.clone()),
            (Some(On::Nodes(list)), Scope::Node) => among(list, "node"),
            (Some(On::Caches(list)), Scope::Cache(_)) => among(list, scope.word()),
            (Some(On::Caches(_)), Scope::Node) => {
                Err(Refusal::Wrong(format!("{name} is set for each node here: write --on node=LIST")))
            }
            (Some(On::Nodes(list)), Scope::Cache(level)) => self.caches_of(list, level, scope, &known),
        }
    }

    /// Returns the caches of these NUMA nodes, none of which may serve another node as well.
    fn caches_of(
        &self,
        nodes: &CpuSet,
        level: u32,
        scope: Scope,
        known: &CpuSet,
    ) -> Result<Vec<u32>, Refusal> {
        let absent: CpuSet = nodes.iter().filter(|node| !self.places.nodes.contains_key(node)).collect();
        if !absent.is_empty() {
            let there: CpuSet = self.places.nodes.keys().copied().collect();
            return Err(Refusal::Wrong(format!("there is no node {absent}: there are {there}")));
        }
        let cpus = CpuSet::union_of(nodes.iter().filter_map(|node| self.places.nodes.get(&node)));
        let mut found = Vec::new();
        for (&(_, id), its) in self.places.caches.iter().filter(|((of, _), _)| *of == level) {
            if !its.intersects(&cpus) || !known.contains(id) {
                continue;
            }
            if !its.is_subset(&cpus) {
                let word = scope.word();
                return Err(Refusal::Wrong(format!(
                    "limits apply to a whole {word}, and {word} {id} serves CPUs {its}, some of other nodes: write \
                     --on cache={id}"
                )));
            }
            found.push(id);
        }
        if found.is_empty() {
            return Err(Refusal::Wrong(format!("no {} of node {nodes} can be set", scope.word())));
        }
        Ok(found)
    }
}

/// Returns a mask of `ways` adjacent bits within `full` that shares the fewest bits with `taken`; the lowest
/// of equal ones.
fn place(ways: u32, full: u64, taken: &[u64]) -> u64 {
    let piece = if ways >= 64 { u64::MAX } else { (1 << ways) - 1 };
    let last = 64 - full.leading_zeros();
    let places = (0..=last.saturating_sub(ways)).map(|start| piece << start).filter(|mask| mask & !full == 0);
    let shared = |mask: &u64| taken.iter().map(|other| (other & mask).count_ones()).sum::<u32>();
    places.min_by_key(shared).unwrap_or(full)
}

/// Whether all bits are adjacent.
fn is_contiguous(mask: u64) -> bool {
    mask == 0 || (mask >> mask.trailing_zeros()).trailing_ones() == mask.count_ones()
}

#[cfg(test)]
mod tests;
