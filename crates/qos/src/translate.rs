//! Translates a request to the lines of this kernel. All errors are found before anything is written.

use crate::request::{Bandwidth, CacheContents, CachePortion, CacheRequest, DomainSelector, LimitRequest};
use manycore_linux::resctrl::{
    dialect::{AMD_UNIT, Capabilities, ControlLine, Dialect, DomainKind, ValueRange},
    domain_cpus::DomainCpus,
    schemata::{Schemata, SchemataLine},
};
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// One line to be written to `schemata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemataWrite {
    /// The request, for display: `bandwidth 55%`.
    pub requested: String,
    /// The line, with the values to write.
    pub line: SchemataLine,
    /// The value that the kernel will put into force in each domain, as far as its rounding is known.
    pub expected: BTreeMap<u32, u64>,
    /// How the written value differs from the request.
    pub note: Option<String>,
}

/// Why a request cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no such value or domain.
    #[error("{0}")]
    Invalid(String),
    /// This machine, kernel or mount has no such control.
    #[error("{0}")]
    Unsupported(String),
    /// Caches were selected for a line whose domains are NUMA nodes.
    #[error("{line} is set for each node here")]
    PerNode {
        /// Name of the line.
        line: String,
    },
    /// NUMA nodes were selected that share a cache with other nodes.
    #[error("limits apply to a whole {kind}, and {kind} {id} serves CPUs {cpus}, some of other nodes")]
    SharedCache {
        /// What the domains of the line are: `L3 cache`.
        kind: &'static str,
        /// Id of the cache.
        id: u32,
        /// CPUs of the cache.
        cpus: CpuSet,
    },
}

impl RequestError {
    /// Whether this machine, kernel or mount lacks the control.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported(_))
    }
}

/// Returns the lines for `request`, or all reasons why it cannot be met. `others` are the limits of other
/// groups: masks are placed where they overlap least with these.
///
/// # Errors
/// At least one refusal; then nothing must be written.
pub fn translate(
    request: &LimitRequest,
    capabilities: &Capabilities,
    domain_cpus: &DomainCpus,
    others: &[&Schemata],
) -> Result<Vec<SchemataWrite>, Vec<RequestError>> {
    let translator = Translator { request, capabilities, domain_cpus, others };
    let mut results = Vec::new();
    if let Some(bandwidth) = request.bandwidth {
        results.push(translator.bandwidth(bandwidth));
    }
    if let Some(share) = request.min_bandwidth {
        results.push(translator.minimum(share));
    }
    if let Some(on) = request.hard_limit {
        let requested = format!("hardlimit {}", if on { "on" } else { "off" });
        results.push(translator.openeuler_line(
            requested,
            "MBHDL",
            "hard limit of memory bandwidth",
            u64::from(on),
        ));
    }
    if let Some(priority) = request.priority {
        results.push(translator.openeuler_line(
            format!("priority {priority}"),
            "MBPRI",
            "priority of memory bandwidth",
            priority,
        ));
    }
    results.extend(request.caches.iter().flat_map(|cache| translator.cache(cache)));
    let (writes, refusals): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let writes: Vec<SchemataWrite> = writes.into_iter().flatten().collect();
    let refusals: Vec<RequestError> =
        refusals.into_iter().filter_map(Result::err).chain(conflicting_writes(&writes)).collect();
    if refusals.is_empty() { Ok(writes) } else { Err(refusals) }
}

/// Returns a refusal for every two writes of the same line and domain, of which the second would overwrite
/// the first.
fn conflicting_writes(writes: &[SchemataWrite]) -> Vec<RequestError> {
    let mut found = Vec::new();
    for (at, write) in writes.iter().enumerate() {
        let is_same = |other: &&SchemataWrite| {
            let (ours, theirs) = (&write.line, &other.line);
            ours.name == theirs.name && ours.values.keys().any(|domain| theirs.values.contains_key(domain))
        };
        if let Some(earlier) = writes[..at].iter().find(is_same) {
            let (one, other, name) = (&earlier.requested, &write.requested, &write.line.name);
            found.push(RequestError::Invalid(format!(
                "{one} and {other} both set {name}: give only one of them"
            )));
        }
    }
    found
}

/// The inputs of all steps.
struct Translator<'a> {
    request: &'a LimitRequest,
    capabilities: &'a Capabilities,
    domain_cpus: &'a DomainCpus,
    others: &'a [&'a Schemata],
}

impl Translator<'_> {
    fn bandwidth(&self, requested: Bandwidth) -> Result<SchemataWrite, RequestError> {
        let name = if self.capabilities.control("MB").is_none() { "MBMAX" } else { "MB" };
        let control = self.capabilities.control(name).ok_or_else(|| {
            RequestError::Unsupported(format!(
                "memory bandwidth cannot be limited here: schemata has no line MB ({})",
                self.capabilities.dialect.name()
            ))
        })?;
        let (value, note) = self.bandwidth_value(requested, control)?;
        if requested != Bandwidth::Percent(100) {
            self.check_number("bandwidth", value, control)?;
        }
        self.write(format!("bandwidth {requested}"), name, control, |_| value, note)
    }

    /// Returns the number to write for a bandwidth, and a note if it differs from the request.
    fn bandwidth_value(
        &self,
        requested: Bandwidth,
        control: &ControlLine,
    ) -> Result<(u64, Option<String>), RequestError> {
        let wrong = |text: &str| Err(RequestError::Invalid(text.to_owned()));
        match (requested, self.capabilities.dialect) {
            (Bandwidth::Percent(100), _) => Ok((control.unlimited, None)),
            (Bandwidth::Percent(_), Dialect::AmdPqos) => wrong(
                "AMD limits bandwidth in steps of 125 MB/s and does not report the maximum, so percentages are unknown: \
                 give a rate, such as 2000MB/s (100% removes the limit)",
            ),
            (Bandwidth::Percent(_), _) if self.capabilities.megabytes => wrong(
                "resctrl is mounted with mba_MBps, where limits are in MB/s: give a rate, such as 2000MB/s (100% removes the limit)",
            ),
            (Bandwidth::Percent(percent), _) => Ok((percent, None)),
            (Bandwidth::Megabytes(rate), Dialect::AmdPqos) => {
                let units = (rate / AMD_UNIT).max(1);
                let note = (units * AMD_UNIT != rate)
                    .then(|| format!("limits come in steps of {AMD_UNIT} MB/s: {} MB/s", units * AMD_UNIT));
                Ok((units, note))
            }
            (Bandwidth::Megabytes(rate), _) if self.capabilities.megabytes => Ok((rate, None)),
            (Bandwidth::Megabytes(_), Dialect::IntelRdt) => wrong(
                "limits are in percent here; for MB/s, resctrl has to be mounted with mba_MBps: umount it, then mount \
                 -t resctrl resctrl -o mba_MBps /sys/fs/resctrl",
            ),
            (Bandwidth::Megabytes(_), _) => wrong("limits are in percent here, such as 50%"),
        }
    }

    fn minimum(&self, share: u64) -> Result<SchemataWrite, RequestError> {
        if let Some(Bandwidth::Percent(maximum)) = self.request.bandwidth
            && share > maximum
        {
            return Err(RequestError::Invalid(format!(
                "the minimum bandwidth ({share} %) is more than the maximum ({maximum} %)"
            )));
        }
        self.openeuler_line(format!("min-bandwidth {share}%"), "MBMIN", "minimum memory bandwidth", share)
    }

    /// Returns the write of a line that only openEuler has.
    fn openeuler_line(
        &self,
        requested: String,
        line: &str,
        what: &str,
        value: u64,
    ) -> Result<SchemataWrite, RequestError> {
        let control = self.capabilities.control(line).ok_or_else(|| {
            let dialect = self.capabilities.dialect.name();
            RequestError::Unsupported(match self.capabilities.dialect {
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
        self.write(requested, line, control, |_| value, None)
    }

    fn check_number(&self, what: &str, value: u64, control: &ControlLine) -> Result<(), RequestError> {
        let ValueRange::Number { minimum, maximum, .. } = control.bounds else { return Ok(()) };
        // That kernel raises values that are too small, which is reported after the write.
        let raises = self.capabilities.dialect == Dialect::OpenEuler510 && what == "bandwidth";
        let amd = self.capabilities.dialect == Dialect::AmdPqos;
        let shown = |value: u64| if amd { format!("{} MB/s", value * AMD_UNIT) } else { value.to_string() };
        if value > maximum || value < minimum && !raises {
            let (value, minimum, maximum) = (shown(value), shown(minimum), shown(maximum));
            return Err(RequestError::Invalid(format!(
                "{what} {value} is out of range: expected a value from {minimum} to {maximum}"
            )));
        }
        Ok(())
    }

    /// Returns the writes for a portion of a cache. If code and data are separate and neither is named, both are
    /// written.
    fn cache(&self, requested: &CacheRequest) -> Vec<Result<SchemataWrite, RequestError>> {
        let level = format!("L{}", requested.level);
        let parts = [format!("{level}CODE"), format!("{level}DATA")];
        let apart = parts.iter().all(|name| self.capabilities.control(name).is_some());
        let names = match requested.part {
            CacheContents::Both if apart => parts.to_vec(),
            CacheContents::Both if self.capabilities.control(&level).is_none() => vec![format!("{level}PBM")],
            CacheContents::Both => vec![level.clone()],
            CacheContents::Code => vec![parts[0].clone()],
            CacheContents::Data => vec![parts[1].clone()],
        };
        let lacks = |name: &str| {
            let option = match (requested.level, self.capabilities.dialect) {
                (2, _) => "cdpl2",
                (_, Dialect::OpenEuler510) => "cdpl3",
                _ => "cdp",
            };
            RequestError::Unsupported(
                if requested.part != CacheContents::Both && self.capabilities.control(&level).is_some() {
                    format!(
                        "code and data share the {level} here: to separate them, mount resctrl with {option} (umount \
                     it, then mount -t resctrl resctrl -o {option} /sys/fs/resctrl)"
                    )
                } else {
                    let name = name.trim_end_matches("PBM");
                    format!("the {level} cannot be divided here: schemata has no line {name}")
                },
            )
        };
        let write = |name: &String| {
            let control = self.capabilities.control(name).ok_or_else(|| lacks(name))?;
            self.mask(requested, name, control)
        };
        names.iter().map(write).collect()
    }

    fn mask(
        &self,
        requested: &CacheRequest,
        name: &str,
        control: &ControlLine,
    ) -> Result<SchemataWrite, RequestError> {
        let ValueRange::Mask { full, min_bits, sparse } = control.bounds else {
            return Err(RequestError::Unsupported(format!("{name} is not written as a mask here")));
        };
        let all = full.count_ones();
        let wrong = |text: String| Err(RequestError::Invalid(format!("cache {requested}: {text}")));
        let (ways, note) = match requested.portion {
            CachePortion::Mask(mask) => {
                let bits = mask.count_ones();
                return match () {
                    () if mask & !full != 0 => wrong(format!("the mask of all ways is {full:#x}")),
                    () if bits < min_bits => wrong(format!("a mask has at least {min_bits} bits here")),
                    () if !sparse && !is_contiguous(mask) => wrong("gaps are not allowed here".to_owned()),
                    () => self.write(format!("cache {requested}"), name, control, |_| mask, None),
                };
            }
            CachePortion::Ways(ways) if ways > all || ways < min_bits => {
                return wrong(format!("the cache has {all} ways, and the minimum is {min_bits}"));
            }
            CachePortion::Ways(ways) => (ways, None),
            CachePortion::Percent(percent) => {
                let exact = u64::from(all) * percent;
                let nearest = ((exact + 50) / 100) as u32;
                let ways = nearest.max(if percent == 0 { min_bits } else { min_bits.max(1) });
                let is_exact = u64::from(ways) * 100 == exact;
                (ways, (!is_exact).then(|| format!("rounded to {ways} of {all} ways")))
            }
        };
        let pick = |domain: u32| {
            let taken = self.others.iter().filter_map(|other| other.value(name, domain));
            choose_mask(ways, full, &taken.filter(|mask| *mask != full).collect::<Vec<_>>())
        };
        self.write(format!("cache {requested}"), name, control, pick, note)
    }

    fn write(
        &self,
        requested: String,
        name: &str,
        control: &ControlLine,
        value: impl Fn(u32) -> u64,
        note: Option<String>,
    ) -> Result<SchemataWrite, RequestError> {
        let values: BTreeMap<u32, u64> =
            self.domains(name, control)?.into_iter().map(|domain| (domain, value(domain))).collect();
        let expected =
            values.iter().map(|(&domain, &value)| (domain, control.bounds.rounded(value))).collect();
        Ok(SchemataWrite { requested, line: SchemataLine { name: name.to_owned(), values }, expected, note })
    }

    /// Returns the domains of a line that the request selects.
    fn domains(&self, name: &str, control: &ControlLine) -> Result<Vec<u32>, RequestError> {
        let scope = self.capabilities.dialect.domain_kind(name);
        let known: CpuSet = control.domains.iter().copied().collect();
        let among = |list: &CpuSet, what: &str| {
            let absent = list.difference(&known);
            if absent.is_empty() {
                return Ok(list.iter().collect());
            }
            Err(RequestError::Invalid(format!("{name} has no {what} {absent}: there are {known}")))
        };
        match (&self.request.on, scope) {
            (None, _) => Ok(control.domains.clone()),
            (Some(DomainSelector::Nodes(list)), DomainKind::Node) => among(list, "node"),
            (Some(DomainSelector::Caches(list)), DomainKind::Cache(_)) => among(list, scope.label()),
            (Some(DomainSelector::Caches(_)), DomainKind::Node) => {
                Err(RequestError::PerNode { line: name.to_owned() })
            }
            (Some(DomainSelector::Nodes(list)), DomainKind::Cache(level)) => {
                self.caches_of(list, level, scope, &known)
            }
        }
    }

    /// Returns the caches of these NUMA nodes, none of which may serve another node as well.
    fn caches_of(
        &self,
        nodes: &CpuSet,
        level: u32,
        scope: DomainKind,
        known: &CpuSet,
    ) -> Result<Vec<u32>, RequestError> {
        let absent: CpuSet = nodes.iter().filter(|node| !self.domain_cpus.nodes.contains_key(node)).collect();
        if !absent.is_empty() {
            let there: CpuSet = self.domain_cpus.nodes.keys().copied().collect();
            return Err(RequestError::Invalid(format!("there is no node {absent}: there are {there}")));
        }
        let cpus = CpuSet::union_of(nodes.iter().filter_map(|node| self.domain_cpus.nodes.get(&node)));
        let mut found = Vec::new();
        for (&(_, id), its) in self.domain_cpus.caches.iter().filter(|((of, _), _)| *of == level) {
            if !its.intersects(&cpus) || !known.contains(id) {
                continue;
            }
            if !its.is_subset(&cpus) {
                return Err(RequestError::SharedCache { kind: scope.label(), id, cpus: its.clone() });
            }
            found.push(id);
        }
        if found.is_empty() {
            return Err(RequestError::Invalid(format!("no {} of node {nodes} can be set", scope.label())));
        }
        Ok(found)
    }
}

/// Returns a mask of `ways` adjacent bits within `full` that shares the fewest bits with `taken`; the lowest
/// of equal ones.
fn choose_mask(ways: u32, full: u64, taken: &[u64]) -> u64 {
    let piece = if ways >= 64 { u64::MAX } else { (1 << ways) - 1 };
    let last = 64 - full.leading_zeros();
    let masks = (0..=last.saturating_sub(ways)).map(|start| piece << start).filter(|mask| mask & !full == 0);
    let shared = |mask: &u64| taken.iter().map(|other| (other & mask).count_ones()).sum::<u32>();
    masks.min_by_key(shared).unwrap_or(full)
}

/// Whether all bits are adjacent.
fn is_contiguous(mask: u64) -> bool {
    mask == 0 || (mask >> mask.trailing_zeros()).trailing_ones() == mask.count_ones()
}

#[cfg(test)]
mod tests;
