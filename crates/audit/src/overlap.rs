//! Overlapping pinning: claims of different tenants to the same CPU.

use super::{
    BUSY, Claim, Finding, Subject,
    facts::{Facts, Holder},
    severity,
    tenant::{Stake, Strength, Tenant, related, stakes},
    words,
};
use manycore_topology::{CpuId, CpuSet};
use std::collections::{BTreeMap, BTreeSet};

/// Returns a finding for each set of tenants that share the same CPUs.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let stakes = stakes(facts);
    let mut on_cpu: BTreeMap<CpuId, Vec<&Stake>> = BTreeMap::new();
    for stake in &stakes {
        stake.cpus.iter().for_each(|cpu| on_cpu.entry(cpu).or_default().push(stake));
    }
    let mut meetings: BTreeMap<Vec<Tenant>, CpuSet> = BTreeMap::new();
    for (cpu, present) in &on_cpu {
        let rivals = rivals(present);
        if rivals.len() > 1 {
            meetings.entry(rivals).or_default().insert(*cpu);
        }
    }
    let claimed = CpuSet::union_of(stakes.iter().map(|stake| &stake.cpus));
    let free = facts.online.difference(&claimed).difference(&facts.isolated);
    meetings.into_iter().map(|(rivals, cpus)| finding(&stakes, &rivals, cpus, &free)).collect()
}

/// Returns the tenants on one CPU that conflict with an unrelated tenant there.
fn rivals(present: &[&Stake]) -> Vec<Tenant> {
    // One stake per tenant and strength is enough; a tenant may have thousands.
    let mut each: Vec<&Stake> = Vec::new();
    for stake in present {
        if !each.iter().any(|other| other.tenant == stake.tenant && other.strength == stake.strength) {
            each.push(stake);
        }
    }
    let meet = |a: &Stake, b: &Stake| {
        // A pool is shared on purpose, so a thread in it or a second pool does not conflict with it.
        let group = |stake: &Stake| matches!(stake.tenant, Tenant::Group(_));
        let own = a.strength == Strength::Own && b.strength == Strength::Own;
        let pool = a.strength != b.strength && group(a) && group(b);
        (own || pool) && !related(a, b)
    };
    let meeting: Vec<&Stake> = each.iter().copied().filter(|a| each.iter().any(|b| meet(a, b))).collect();
    // A process within a group that is listed itself is redundant.
    let inside = |stake: &Stake| {
        matches!(stake.tenant, Tenant::Processes(_))
            && meeting.iter().any(|other| matches!(other.tenant, Tenant::Group(_)) && related(stake, other))
    };
    let rivals: BTreeSet<Tenant> =
        meeting.iter().filter(|stake| !inside(stake)).map(|stake| stake.tenant.clone()).collect();
    rivals.into_iter().collect()
}

fn finding(stakes: &[Stake], rivals: &[Tenant], cpus: CpuSet, free: &CpuSet) -> Finding {
    let claims: Vec<Claim> = rivals.iter().map(|tenant| claim(stakes, tenant, &cpus)).collect();
    let names: Vec<String> = claims.iter().map(who).collect();
    let headline =
        format!("{} have overlapping pinning on {}", manycore_text::names::list(&names), words::cpus(&cpus));
    let evidence = claims.iter().map(|claim| {
        let threads = claim.processes.iter().map(|holder| holder.threads).sum();
        let of = match &claim.group {
            Some(_) => words::processes(&claim.processes),
            None => words::count(threads, "pinned thread", "pinned threads"),
        };
        let used = words::use_of_cpu(claim.busy_cpus, claim.cpu_seconds);
        format!("{} is pinned to {}: {of}; used {used}", who(claim), words::cpus(&claim.cpus))
    });
    let at_work = claims.iter().filter(|claim| claim.busy_cpus >= BUSY).count() > 1;
    Finding {
        severity: severity(at_work),
        headline,
        evidence: evidence.collect(),
        cure: cure(&claims, free),
        subject: Subject::OverlappingPins { cpus, claims },
    }
}

/// Returns the claim of one tenant, with the CPU time of its threads on the shared CPUs.
fn claim(stakes: &[Stake], tenant: &Tenant, shared: &CpuSet) -> Claim {
    let of_tenant = || stakes.iter().filter(|stake| stake.tenant == *tenant);
    let cpus = CpuSet::union_of(of_tenant().map(|stake| &stake.cpus));
    let mut holders: BTreeMap<u32, Holder> = BTreeMap::new();
    let (mut cpu_seconds, mut busy_cpus) = (0.0, 0.0);
    for stake in of_tenant().filter(|stake| stake.cpus.intersects(shared)) {
        let process = stake.part.process;
        let holder = holders.entry(process.pid).or_insert_with(|| process.holder(0));
        let whole = matches!(tenant, Tenant::Group(_));
        if whole && holder.threads > 0 {
            continue;
        }
        holder.threads = if whole { process.threads.len() } else { holder.threads + 1 };
        let thread = stake.part.thread.filter(|_| !whole);
        cpu_seconds += thread.map_or(process.cpu_seconds, |thread| thread.cpu_seconds.unwrap_or(0.0));
        busy_cpus += thread.map_or(process.busy_cpus, |thread| thread.busy_cpus).unwrap_or(0.0);
    }
    let group = match tenant {
        Tenant::Group(name) => Some(name.clone()),
        Tenant::Processes(_) => None,
    };
    Claim { group, processes: holders.into_values().collect(), cpus, cpu_seconds, busy_cpus }
}

fn who(claim: &Claim) -> String {
    match &claim.group {
        Some(name) => format!("group {name}"),
        None => words::processes(&claim.processes),
    }
}

/// Suggests to move the last tenant, to CPUs without claims if there are any.
fn cure(claims: &[Claim], free: &CpuSet) -> String {
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
        (None, Some(holder)) => format!("taskset -acp {place} {}", holder.pid),
        (None, None) => String::new(),
    };
    format!("separate them: {command} ({unclaimed})")
}
