//! Overlapping pinning: claims of different tenants to the same CPU.

use super::{
    BUSY, Claim, Finding, FindingKind,
    facts::{AuditFacts, ProcessRef},
    severity,
    tenant::{ClaimKind, CpuClaim, Tenant, are_nested, cpu_claims},
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
    let claimed = CpuSet::union_of(cpu_claims.iter().map(|cpu_claim| &cpu_claim.cpus));
    let free = facts.online.difference(&claimed).difference(&facts.isolated);
    conflicts.into_iter().map(|(tenants, cpus)| finding(&cpu_claims, &tenants, cpus, &free)).collect()
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

fn finding(cpu_claims: &[CpuClaim], tenants: &[Tenant], cpus: CpuSet, free: &CpuSet) -> Finding {
    let claims: Vec<Claim> = tenants.iter().map(|tenant| claim(cpu_claims, tenant, &cpus)).collect();
    let names: Vec<String> = claims.iter().map(claim_owner).collect();
    let headline =
        format!("{} have overlapping pinning on {}", manycore_text::names::list(&names), words::cpus(&cpus));
    let evidence = claims.iter().map(|claim| {
        let threads = claim.processes.iter().map(|reference| reference.threads).sum();
        let of = match &claim.group {
            Some(_) => words::processes(&claim.processes),
            None => words::count(threads, "pinned thread", "pinned threads"),
        };
        let used = words::use_of_cpu(claim.busy_cpus, claim.cpu_seconds);
        format!("{} is pinned to {}: {of}; used {used}", claim_owner(claim), words::cpus(&claim.cpus))
    });
    let at_work = claims.iter().filter(|claim| claim.busy_cpus >= BUSY).count() > 1;
    Finding {
        severity: severity(at_work),
        headline,
        evidence: evidence.collect(),
        fix: fix(&claims, free),
        subject: FindingKind::OverlappingPins { cpus, claims },
    }
}

/// Returns the claim of one tenant, with the CPU time of its threads on the shared CPUs.
fn claim(cpu_claims: &[CpuClaim], tenant: &Tenant, shared: &CpuSet) -> Claim {
    let of_tenant = || cpu_claims.iter().filter(|cpu_claim| cpu_claim.tenant == *tenant);
    let cpus = CpuSet::union_of(of_tenant().map(|cpu_claim| &cpu_claim.cpus));
    let mut references: BTreeMap<u32, ProcessRef> = BTreeMap::new();
    let (mut cpu_seconds, mut busy_cpus) = (0.0, 0.0);
    for cpu_claim in of_tenant().filter(|cpu_claim| cpu_claim.cpus.intersects(shared)) {
        let process = cpu_claim.part.process;
        let reference = references.entry(process.pid).or_insert_with(|| process.reference(0));
        let whole = matches!(tenant, Tenant::Group(_));
        if whole && reference.threads > 0 {
            continue;
        }
        reference.threads = if whole { process.threads.len() } else { reference.threads + 1 };
        let thread = cpu_claim.part.thread.filter(|_| !whole);
        cpu_seconds += thread.map_or(process.cpu_seconds, |thread| thread.cpu_seconds.unwrap_or(0.0));
        busy_cpus += thread.map_or(process.busy_cpus, |thread| thread.busy_cpus).unwrap_or(0.0);
    }
    let group = match tenant {
        Tenant::Group(name) => Some(name.clone()),
        Tenant::Processes(_) => None,
    };
    Claim { group, processes: references.into_values().collect(), cpus, cpu_seconds, busy_cpus }
}

fn claim_owner(claim: &Claim) -> String {
    match &claim.group {
        Some(name) => format!("group {name}"),
        None => words::processes(&claim.processes),
    }
}

/// Suggests to move the last tenant, to CPUs without claims if there are any.
fn fix(claims: &[Claim], free: &CpuSet) -> String {
    let Some(last) = claims.last() else { return String::new() };
    if free.is_empty() {
        return "every CPU has pinned tasks: stop one of them, or remove the pinning so that they share the CPUs"
            .to_owned();
    }
    let place = free.to_string();
    let unclaimed = if free.len() == 1 { "no pinning on this CPU" } else { "no pinning on these CPUs" };
    let command = match (&last.group, last.processes.first()) {
        (Some(name), _) if name.contains("docker") => format!(
            "docker update --cpuset-cpus {place} {}",
            name.rsplit('/')
                .next()
                .unwrap_or_default()
                .trim_start_matches("docker-")
                .trim_end_matches(".scope")
        ),
        (Some(name), _) => format!("give group {name} other CPUs in its cpuset.cpus, such as {place}"),
        (None, Some(reference)) => format!("taskset -acp {place} {}", reference.pid),
        (None, None) => String::new(),
    };
    format!("separate them: {command} ({unclaimed})")
}
