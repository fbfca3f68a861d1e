//! Overlapping pinning: claims of different tenants to the same CPU.

use super::{
    BUSY, Claim, Finding, FindingKind,
    facts::AuditFacts,
    severity,
    tenant::{ClaimKind, CpuClaim, Tenant, are_nested, claim, cpu_claims, unclaimed},
    words,
};
use manycore_topology::{CpuId, CpuSet};
use std::collections::{BTreeMap, BTreeSet};

/// Returns a finding for each set of tenants that share the same CPUs.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    let cpu_claims = cpu_claims(facts);
    let mut on_cpu: BTreeMap<CpuId, Vec<&CpuClaim>> = BTreeMap::new();
    for cpu_claim in &cpu_claims {
        cpu_claim.cpus.iter().for_each(|cpu| on_cpu.entry(cpu).or_default().push(cpu_claim));
    }
    let mut conflicts: BTreeMap<Vec<Tenant>, CpuSet> = BTreeMap::new();
    for (cpu, present) in &on_cpu {
        let tenants = conflicting_tenants(present);
        if tenants.len() > 1 {
            conflicts.entry(tenants).or_default().insert(*cpu);
        }
    }
    let free = unclaimed(facts, &cpu_claims);
    conflicts.into_iter().map(|(tenants, cpus)| finding(facts, &cpu_claims, &tenants, cpus, &free)).collect()
}

/// Returns the tenants on one CPU that conflict with an unrelated tenant there.
fn conflicting_tenants(present: &[&CpuClaim]) -> Vec<Tenant> {
    // One claim per tenant and kind is enough; a tenant may have thousands.
    let mut each: Vec<&CpuClaim> = Vec::new();
    for cpu_claim in present {
        if !each.iter().any(|other| other.tenant == cpu_claim.tenant && other.kind == cpu_claim.kind) {
            each.push(cpu_claim);
        }
    }
    let conflict = |a: &CpuClaim, b: &CpuClaim| {
        // A pool is shared on purpose, so a thread in it or a second pool does not conflict with it.
        let group = |cpu_claim: &CpuClaim| matches!(cpu_claim.tenant, Tenant::Group(_));
        let own = a.kind == ClaimKind::Exclusive && b.kind == ClaimKind::Exclusive;
        let pool = a.kind != b.kind && group(a) && group(b);
        (own || pool) && !are_nested(a, b)
    };
    let conflicting: Vec<&CpuClaim> =
        each.iter().copied().filter(|a| each.iter().any(|b| conflict(a, b))).collect();
    // A process within a group that is listed itself is redundant.
    let inside = |cpu_claim: &CpuClaim| {
        matches!(cpu_claim.tenant, Tenant::Processes(_))
            && conflicting
                .iter()
                .any(|other| matches!(other.tenant, Tenant::Group(_)) && are_nested(cpu_claim, other))
    };
    let tenants: BTreeSet<Tenant> = conflicting
        .iter()
        .filter(|cpu_claim| !inside(cpu_claim))
        .map(|cpu_claim| cpu_claim.tenant.clone())
        .collect();
    tenants.into_iter().collect()
}

fn finding(
    facts: &AuditFacts,
    cpu_claims: &[CpuClaim],
    tenants: &[Tenant],
    cpus: CpuSet,
    free: &CpuSet,
) -> Finding {
    let claims: Vec<Claim> = tenants.iter().map(|tenant| claim(cpu_claims, tenant, &cpus)).collect();
    let names: Vec<String> = claims.iter().map(words::owner).collect();
    let headline =
        format!("{} have overlapping pinning on {}", manycore_text::names::list(&names), words::cpus(&cpus));
    let at_work = claims.iter().filter(|claim| claim.busy_cpus >= BUSY).count() > 1;
    Finding {
        severity: severity(at_work),
        headline,
        evidence: claims.iter().map(evidence).collect(),
        fix: fix(facts, &claims, free),
        subject: FindingKind::OverlappingPins { cpus, claims },
    }
}

fn evidence(claim: &Claim) -> String {
    let threads = claim.processes.iter().map(|reference| reference.threads).sum();
    let of = match &claim.group {
        Some(_) if claim.processes.len() > 1 => words::processes(&claim.processes),
        Some(_) => words::count(threads, "thread", "threads"),
        None => words::count(threads, "pinned thread", "pinned threads"),
    };
    format!(
        "{} {} pinned to {}: {of}; used {}",
        words::owner(claim),
        if claim.processes.len() == 1 { "is" } else { "are" },
        words::cpus(&claim.cpus),
        words::use_of_cpu(claim.busy_cpus, claim.cpu_seconds)
    )
}

/// Returns the tenant that should move: one that manycore has pinned, because that can be undone; else one that is
/// busy. A tenant that is idle stays where it is, unless all are.
fn to_move(claims: &[Claim]) -> Option<&Claim> {
    let busy = |claim: &&Claim| claim.busy_cpus >= BUSY;
    let by_manycore = |claim: &&Claim| claim.change.is_some();
    claims
        .iter()
        .rfind(|claim| by_manycore(claim) && busy(claim))
        .or_else(|| claims.iter().rfind(by_manycore))
        .or_else(|| claims.iter().rfind(busy))
        .or_else(|| claims.iter().max_by(|a, b| a.cpu_seconds.total_cmp(&b.cpu_seconds)))
}

/// Suggests to move one tenant with all its processes, to CPUs without claims if there are any.
fn fix(facts: &AuditFacts, claims: &[Claim], free: &CpuSet) -> String {
    let Some(claim) = to_move(claims) else { return String::new() };
    if let Some(undo) = words::undo(facts, &claim.processes) {
        return undo;
    }
    let usable = words::usable(facts, &claim.processes);
    let free = if claim.group.is_some() { free.clone() } else { free.intersection(&usable) };
    if free.is_empty() {
        return format!(
            "every CPU that {} may use has pinned tasks: stop one of them, or remove the pinning so that they share \
             the CPUs: {}",
            words::owner(claim),
            words::taskset(&usable, &words::whole(&claim.processes))
        );
    }
    let place: CpuSet = match &claim.group {
        Some(_) => free,
        None => free.iter().take(claim.busy_threads.max(1)).collect(),
    };
    let unclaimed = format!("CPU{} {place}", if place.len() == 1 { "" } else { "s" });
    let command = match &claim.group {
        Some(name) if name.contains("docker") => format!(
            "docker update --cpuset-cpus {place} {}",
            name.rsplit('/')
                .next()
                .unwrap_or_default()
                .trim_start_matches("docker-")
                .trim_end_matches(".scope")
        ),
        Some(name) => format!("give group {name} other CPUs in its cpuset.cpus, such as {place}"),
        None => words::pin(facts, &claim.processes, &place),
    };
    format!("separate them (no pins on {unclaimed}): {command}")
}
