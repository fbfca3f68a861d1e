//! Busy tenants with pinned threads whose pinning is no problem, and why: an audit that finds nothing has still seen
//! them.

use super::{
    BUSY, Claim, Finding,
    facts::AuditFacts,
    tenant::{CpuClaim, Tenant, claim, cpu_claims, unclaimed},
    words,
};
use manycore_topology::CpuSet;
use serde::Serialize;
use std::collections::BTreeSet;

/// A busy tenant whose pinning is no problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PinnedTenant {
    /// Its processes and CPUs.
    #[serde(flatten)]
    pub claim: Claim,
    /// Why its pinning is no problem.
    pub why: String,
    /// How it gets more CPUs; absent unless its busy threads share CPUs.
    pub more: Option<String>,
}

/// Returns the busy tenants with pinned threads that no finding is about, those whose threads share CPUs first.
pub fn find(facts: &AuditFacts, findings: &[Finding]) -> Vec<PinnedTenant> {
    let found: BTreeSet<u32> =
        findings.iter().flat_map(|finding| finding.subject.processes()).map(|process| process.pid).collect();
    let cpu_claims = cpu_claims(facts);
    let free = unclaimed(facts, &cpu_claims);
    let tenants: BTreeSet<&Tenant> =
        cpu_claims.iter().filter(|claim| claim.part.thread.is_some()).map(|claim| &claim.tenant).collect();
    let mut pinned: Vec<PinnedTenant> = tenants
        .into_iter()
        .map(|tenant| claim(&cpu_claims, tenant, &facts.online))
        .filter(|claim| claim.busy_cpus >= BUSY && !claim.is_about(&found))
        .map(|claim| {
            let why = why(&claim, &cpu_claims);
            PinnedTenant { why, more: more(facts, &claim, &free), claim }
        })
        .collect();
    pinned.sort_by(|a, b| {
        let sharing = |tenant: &PinnedTenant| tenant.more.is_some();
        sharing(b).cmp(&sharing(a)).then(b.claim.busy_cpus.total_cmp(&a.claim.busy_cpus))
    });
    pinned
}

fn why(claim: &Claim, cpu_claims: &[CpuClaim]) -> String {
    let is_shared = cpu_claims.iter().any(|other| {
        other.cpus.intersects(&claim.cpus)
            && !claim.processes.iter().any(|process| process.pid == other.part.process.pid)
    });
    match (claim.cpus.len(), is_shared) {
        (1, false) => "no other tenant is pinned to this CPU".to_owned(),
        (_, false) => "no other tenant is pinned to these CPUs".to_owned(),
        (_, true) => "it shares them on purpose".to_owned(),
    }
}

/// Returns how a tenant with more busy threads than CPUs gets more of them.
fn more(facts: &AuditFacts, claim: &Claim, free: &CpuSet) -> Option<String> {
    let missing = claim.busy_threads.checked_sub(claim.cpus.len()).filter(|missing| *missing > 0)?;
    let cpus = words::count(claim.cpus.len(), "CPU", "CPUs");
    let share = format!("its {} busy threads share {cpus}", claim.busy_threads);
    if let Some(undo) = words::undo(facts, &claim.processes) {
        return Some(format!("{share}; to give them more, {undo}"));
    }
    let free: CpuSet =
        free.intersection(&words::usable(facts, &claim.processes)).iter().take(missing).collect();
    if free.is_empty() || claim.group.is_some() {
        return Some(share);
    }
    let command = words::pin(facts, &claim.processes, &claim.cpus.union(&free));
    Some(format!("{share}; to give them more: {command}"))
}
