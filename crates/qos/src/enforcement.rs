//! Results of checks whether limits are enforced, and where such a limit has to be set.

use crate::{
    limit_outcome::LimitOutcome,
    request::{Bandwidth, DomainSelector},
};
use manycore_analysis::limits::{LimitCheck, LimitProof, LimitResult};
use manycore_linux::resctrl::{
    dialect::{Capabilities, Dialect, DomainKind, ValueRange},
    domain_cpus::DomainCpus,
};
use manycore_topology::{CpuId, CpuSet};
use serde::Serialize;

/// Value of [`EnforcementReport::schema`] that this version writes.
pub const ENFORCEMENT_SCHEMA: &str = "manycore/qos-proof/1";

/// The results of all checks.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnforcementReport {
    /// Always [`ENFORCEMENT_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = ENFORCEMENT_SCHEMA)))]
    pub schema: String,
    /// The dialect of the kernel.
    pub dialect: Dialect,
    /// NUMA node whose memory was loaded; absent if the kernel has no NUMA nodes.
    pub node: Option<u32>,
    /// CPUs of the load.
    pub cpus: Vec<CpuId>,
    /// The checks.
    pub proofs: Vec<EnforcementCheck>,
    /// What can be set; needed to print the values.
    #[serde(skip)]
    pub capabilities: Capabilities,
}

impl EnforcementReport {
    /// Returns the names of the checks whose limits are not enforced.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self.proofs.iter().filter(|check| matches!(check.measured.shown, LimitResult::Fails(_)));
        failed.map(|check| check.measured.check.name()).collect()
    }

    /// Whether at least one limit is enforced.
    pub fn any_holds(&self) -> bool {
        self.proofs.iter().any(|check| check.measured.shown == LimitResult::Holds)
    }
}

/// A limit, and what a load of memory showed of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnforcementCheck {
    /// What was measured.
    #[serde(flatten)]
    pub measured: LimitProof,
    /// The limits in force during the measurement.
    pub limits: Vec<LimitOutcome>,
}

impl EnforcementCheck {
    /// Returns a check that was not measured, and why.
    pub(crate) fn not_measurable(check: LimitCheck, why: String) -> Self {
        Self { measured: LimitProof::not_measured(check, why), limits: Vec::new() }
    }
}

/// Returns the default limit of the check `bandwidth`: a tenth, or the minimum if that is higher. Absent if
/// limits are rates, since the unlimited rate has to be measured first.
pub(crate) fn default_limit(capabilities: &Capabilities) -> Option<Bandwidth> {
    if capabilities.megabytes || capabilities.dialect == Dialect::AmdPqos {
        return None;
    }
    let minimum = match capabilities
        .control("MB")
        .or_else(|| capabilities.control("MBMAX"))
        .map(|control| &control.bounds)
    {
        Some(ValueRange::Number { minimum, .. }) => *minimum,
        _ => 0,
    };
    Some(Bandwidth::Percent(minimum.max(10)))
}

/// Returns the domains in which limits must be set so that they apply to a load on `cpus` of NUMA node
/// `node`: an L3 may serve several nodes, or a part of one. `None` (everywhere) if the topology is unknown.
pub(crate) fn domains_of_load(
    capabilities: &Capabilities,
    domain_cpus: &DomainCpus,
    node: Option<u32>,
    cpus: &CpuSet,
) -> Option<DomainSelector> {
    match capabilities.dialect.domain_kind("MB") {
        DomainKind::Node => node.map(|node| DomainSelector::Nodes(CpuSet::single(node))),
        DomainKind::Cache(level) => {
            let serves = |((of, _), its): &(&(u32, u32), &CpuSet)| *of == level && its.intersects(cpus);
            let caches: CpuSet = domain_cpus.caches.iter().filter(serves).map(|((_, id), _)| *id).collect();
            (!caches.is_empty()).then_some(DomainSelector::Caches(caches))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        request::LimitRequest,
        translate::{RequestError, translate},
    };
    use manycore_linux::resctrl::{dialect::Info, schemata::Schemata};

    fn capabilities(dialect: Dialect, minimum: u64, options: &[&str]) -> Capabilities {
        let info = Info { minimum: Some(minimum), step: Some(1), ..Info::default() };
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        Capabilities::new(
            dialect,
            &options,
            &Schemata::parse("MB:0=100;1=100"),
            &[("MB".to_owned(), info)].into(),
        )
    }

    #[test]
    fn the_default_limit_can_be_set() {
        assert_eq!(default_limit(&capabilities(Dialect::IntelRdt, 10, &[])), Some(Bandwidth::Percent(10)));
        assert_eq!(default_limit(&capabilities(Dialect::Mpam, 13, &[])), Some(Bandwidth::Percent(13)));
        assert_eq!(default_limit(&capabilities(Dialect::OpenEuler66, 1, &[])), Some(Bandwidth::Percent(10)));
        assert_eq!(default_limit(&capabilities(Dialect::AmdPqos, 0, &[])), None);
        assert_eq!(default_limit(&capabilities(Dialect::IntelRdt, 10, &["mba_MBps"])), None);
    }

    #[test]
    fn limits_reach_the_whole_cache_that_several_nodes_share() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let domain_cpus = DomainCpus {
            nodes: [(0, "0-3"), (1, "4-7"), (2, "8-11")].map(|(node, list)| (node, cpus(list))).into(),
            caches: [((2, 0), "0-1"), ((3, 0), "0-7"), ((3, 1), "8-11")]
                .map(|(cache, list)| (cache, cpus(list)))
                .into(),
        };
        let intel = capabilities(Dialect::IntelRdt, 10, &[]);
        let on = domains_of_load(&intel, &domain_cpus, Some(1), &cpus("4-7"));
        assert_eq!(on, Some(DomainSelector::Caches(cpus("0"))));
        let request = LimitRequest { bandwidth: default_limit(&intel), on, ..LimitRequest::default() };
        let writes = translate(&request, &intel, &domain_cpus, &[]);
        let lines = writes.map(|writes| writes.iter().map(|write| write.line.to_string()).collect());
        assert_eq!(lines, Ok::<Vec<String>, Vec<RequestError>>(vec!["MB:0=10".to_owned()]));
        let euler = capabilities(Dialect::OpenEuler66, 1, &[]);
        assert_eq!(
            domains_of_load(&euler, &domain_cpus, Some(1), &cpus("4-7")),
            Some(DomainSelector::Nodes(cpus("1")))
        );
        assert_eq!(domains_of_load(&intel, &DomainCpus::default(), None, &cpus("4-7")), None);
    }
}
