//! `manycore fleet audit`: the findings of many hosts.

use super::outputs::{collected, hosts_in_words};
use crate::{cli::FleetAudit, failure::Outcome, output};
use manycore_render::{
    document::{Document, Item},
    terminal::{Mark, Terminal},
};
use manycore_text::{names::printable, units::counted};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is shown of a finding: its headline and its remedy.
type Shown = (String, String);

/// Shows each finding once, with the hosts that have it.
///
/// # Errors
/// Those of collecting; [`crate::failure::Failure::Check`] where a host has no result.
pub fn run(args: &FleetAudit, terminal: Terminal) -> Outcome {
    let arguments = ["audit", "--format", "json"].map(str::to_owned).to_vec();
    let mut found = collected(&args.hosts, arguments, None, true)?;
    let audits = found.values(|_| Ok(true));
    let mut findings: BTreeMap<Shown, Vec<String>> = BTreeMap::new();
    for (host, audit) in &audits {
        for shown in audit["findings"].as_array().into_iter().flatten().map(shown) {
            findings.entry(shown).or_default().push(host.clone());
        }
    }
    let without =
        audits.iter().filter(|(host, _)| !findings.values().flatten().any(|with| with == host)).count();
    let mut sorted: Vec<(Shown, Vec<String>)> = findings.into_iter().collect();
    sorted.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    let mut document = Document::new();
    let extent = args.extent.extent();
    for ((headline, fix), hosts) in sorted.iter().take(extent.findings()) {
        let item = Item::new(String::new(), Some(Mark::Warning), headline.clone());
        let item = item.with_detail("on", hosts_in_words(hosts));
        document.item(if fix.is_empty() { item } else { item.with_detail("fix", fix.clone()) });
    }
    document.left_out(sorted.len().saturating_sub(extent.findings()), extent);
    if !audits.is_empty() {
        document.paragraph(format!("{} of {} have no finding.", without, counted(audits.len(), "host")));
    }
    output::document(&document, terminal)?;
    found.end()
}

fn shown(finding: &Value) -> Shown {
    let text = |name: &str| printable(finding[name].as_str().unwrap_or_default());
    (text("headline"), text("fix"))
}
