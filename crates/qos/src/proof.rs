//! Which limits are proven, and where they have to hold.

use super::{
    told::Told,
    wish::{Bandwidth, On},
};
use manycore_analysis::limits::LimitProof;
use manycore_linux::resctrl::{
    dialect::{Bounds, Dialect, Offer, Scope},
    domains::Places,
};
use manycore_topology::CpuSet;
use serde::Serialize;

/// Version of the JSON format of [`Proof`]s.
pub const PROOF_SCHEMA: &str = "manycore/qos-proof/1";

/// A limit, and what a load of memory showed of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// What was measured.
    #[serde(flatten)]
    pub measured: LimitProof,
    /// The limits in force during the measurement.
    pub limits: Vec<Told>,
}

/// Returns the default limit of the check `bandwidth`: a tenth, or the minimum if that is higher. Absent if
/// limits are rates, since the unlimited rate has to be measured first.
pub fn usual_limit(offer: &Offer) -> Option<Bandwidth> {
    if offer.megabytes || offer.dialect == Dialect::AmdPqos {
        return None;
    }
    let least = match offer.control("MB").or_else(|| offer.control("MBMAX")).map(|control| &control.bounds) {
        Some(Bounds::Number { least, .. }) => *least,
        _ => 0,
    };
    Some(Bandwidth::Percent(least.max(10)))
}

/// Returns the domains in which limits must be set so that they apply to a load on `cpus` of NUMA node
/// `node`: an L3 may serve several nodes, or a part of one. `None` (everywhere) if the topology is unknown.
pub fn reach(offer: &Offer, places: &Places, node: Option<u32>, cpus: &CpuSet) -> Option<On> {
    match offer.dialect.scope("MB") {
        Scope::Node => node.map(|node| On::Nodes(CpuSet::single(node))),
        Scope::Cache(level) => {
            let serves = |((of, _), its): &(&(u32, u32), &CpuSet)| *of == level && its.intersects(cpus);
            let caches: CpuSet = places.caches.iter().filter(serves).map(|((_, id), _)| *id).collect();
            (!caches.is_empty()).then_some(On::Caches(caches))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        translate::{Refusal, translate},
        wish::Wish,
    };
    use manycore_linux::resctrl::{dialect::Info, schemata::Schemata};

    fn offer(dialect: Dialect, least: u64, options: &[&str]) -> Offer {
        let info = Info { least: Some(least), step: Some(1), ..Info::default() };
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        Offer::new(dialect, &options, &Schemata::parse("MB:0=100;1=100"), &[("MB".to_owned(), info)].into())
    }

    #[test]
    fn the_usual_limit_is_one_that_can_be_set() {
        assert_eq!(usual_limit(&offer(Dialect::IntelRdt, 10, &[])), Some(Bandwidth::Percent(10)));
        assert_eq!(usual_limit(&offer(Dialect::Mpam, 13, &[])), Some(Bandwidth::Percent(13)));
        assert_eq!(usual_limit(&offer(Dialect::OpenEuler66, 1, &[])), Some(Bandwidth::Percent(10)));
        assert_eq!(usual_limit(&offer(Dialect::AmdPqos, 0, &[])), None);
        assert_eq!(usual_limit(&offer(Dialect::IntelRdt, 10, &["mba_MBps"])), None);
    }

    #[test]
    fn limits_reach_the_whole_cache_that_several_nodes_share() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let places = Places {
            nodes: [(0, "0-3"), (1, "4-7"), (2, "8-11")].map(|(node, list)| (node, cpus(list))).into(),
            caches: [((2, 0), "0-1"), ((3, 0), "0-7"), ((3, 1), "8-11")]
                .map(|(cache, list)| (cache, cpus(list)))
                .into(),
        };
        let intel = offer(Dialect::IntelRdt, 10, &[]);
        let on = reach(&intel, &places, Some(1), &cpus("4-7"));
        assert_eq!(on, Some(On::Caches(cpus("0"))));
        let wish = Wish { bandwidth: usual_limit(&intel), on, ..Wish::default() };
        let writes = translate(&wish, &intel, &places, &[]);
        let lines = writes.map(|writes| writes.iter().map(|write| write.line.to_string()).collect());
        assert_eq!(lines, Ok::<Vec<String>, Vec<Refusal>>(vec!["MB:0=10".to_owned()]));
        let euler = offer(Dialect::OpenEuler66, 1, &[]);
        assert_eq!(reach(&euler, &places, Some(1), &cpus("4-7")), Some(On::Nodes(cpus("1"))));
        assert_eq!(reach(&intel, &Places::default(), None, &cpus("4-7")), None);
    }
}
