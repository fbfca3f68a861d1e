//! Variants of `density` as text: the items of `compare` that are about placement and settings, and some of its own.

use super::hook::VariantHook;
use crate::failure::{Failure, Outcome};
use manycore_control::{measured_group::WEIGHTS, placement::memory_of_workers, setting::Setting};
use manycore_density::{
    instances::{DomainTemplate, InstanceHook, InstanceTuning},
    options::DensityVariant,
};
use manycore_irq::place::{self, Target};
use manycore_placement::{MemoryPlacement, PlacementPlan, Policy, PolicyKind, Reserve};
use manycore_qos::request::Bandwidth;
use manycore_study::{
    compare::VariantSpec,
    variant::{VariantError, VariantText, is_key, set_item, split_items},
};
use manycore_topology::{CpuId, CpuSet, Machine, TopologyDistance};
use std::{collections::BTreeSet, str::FromStr, sync::Arc};

/// The beginnings of items that only `density` has.
const OWN_KEYS: [&str; 5] = ["irq:", "weight=", "observed:weight=", "qos:others=", "vm=plan"];

/// Items of `compare` that are none here, with the reason.
const REFUSED: [(&str, &str); 4] = [
    (
        "nice=",
        "instances are in control groups of their own, where nice has no effect on others: write weight=N",
    ),
    ("sched=", "run all of density under a scheduler: manycore sched run spread -- manycore density ..."),
    ("workers=", "the number of instances is what is searched"),
    ("cmd=", "all variants have the same --service"),
];

/// A variant as it was written.
#[derive(Debug, Default)]
struct Items {
    /// Those of `compare`.
    spec: VariantSpec,
    /// Devices and where their interrupts go.
    interrupts: Vec<(String, String)>,
    observed_weight: Option<u32>,
    others_weight: Option<u32>,
    /// Memory bandwidth of all instances but the observed one together.
    others_bandwidth: Option<Bandwidth>,
    plans_domains: bool,
}

/// What variants are described for.
#[derive(Clone, Copy, Debug)]
pub(super) struct VariantContext<'a> {
    pub(super) machine: &'a Machine,
    /// CPUs of the loads, which instances do not get.
    pub(super) load_cpus: Option<&'a CpuSet>,
    /// The XML of the instances if these are virtual machines.
    pub(super) domain: Option<&'a DomainTemplate>,
    /// CPUs that an instance can use at the same time. A placement that is no list gives it as many neighbouring ones.
    pub(super) width: usize,
}

/// Returns the variant that `[NAME=]ITEM,...` describes, with a note for the user.
///
/// # Errors
/// An item is wrong, or not possible on this machine or for these instances.
pub(super) fn variant(text: &str, context: VariantContext) -> Outcome<(DensityVariant, Option<String>)> {
    let VariantContext { machine, load_cpus, domain, width } = context;
    let wrong = |error: Failure| Failure::input(format!("--variant {text}: {}", error.message()));
    let (name, items) = named(text.trim()).map_err(wrong)?;
    let mut items_of = parse(&items).map_err(wrong)?;
    if items_of.plans_domains && domain.is_none() {
        return Err(Failure::input("--variant vm=plan: only virtual machines (--domain) are planned"));
    }
    let plan = plan(items_of.spec.place.as_ref(), machine, load_cpus)?;
    // A list says what each instance gets.
    let is_list =
        items_of.spec.place.as_ref().is_some_and(|policy| matches!(policy.kind, PolicyKind::Cpus(_)));
    let plan = plan.map(|plan| if is_list { plan } else { plan.widened(machine, width) });
    if plan.is_some() && !items_of.plans_domains && domain.is_some_and(|xml| !xml.has_cpus()) {
        return Err(Failure::input(
            "the CPUs of virtual machines, which a placement and --load-cpus limit, need {cpus} in their XML, such as \
             <vcpu cpuset='{cpus}'>, or vm=plan in the variant",
        ));
    }
    let memory = &items_of.spec.memory;
    let places: Vec<CpuSet> = match &plan {
        Some(plan) => plan.workers.iter().map(|worker| worker.cpus.clone()).collect(),
        // libvirt refuses an empty list of CPUs.
        None if !items_of.plans_domains && domain.is_some_and(DomainTemplate::has_cpus) => {
            vec![machine.usable()]
        }
        None => Vec::new(),
    };
    let memory = match (memory, &plan) {
        (MemoryPlacement::Default, _) => Vec::new(),
        (memory, Some(plan)) => memory_of_workers(machine, plan, memory)?,
        (memory, None) => memory_of_workers(machine, &everywhere(machine)?, memory)?,
    };
    let mut settings = std::mem::take(&mut items_of.spec.settings);
    let mut moved = Vec::new();
    for (device, target) in &items_of.interrupts {
        let target = target_of(device, target, machine, &places, load_cpus).map_err(wrong)?;
        moved.extend(place::planned(device, &target)?);
    }
    settings.extend(moved.iter().map(|(irq, cpus)| Setting::cpus_of_interrupt(*irq, cpus)));
    let irqs: Vec<u32> = moved.iter().map(|(irq, _)| *irq).collect();
    let note = Some(irqs)
        .filter(|irqs| !irqs.is_empty())
        .and_then(|irqs| place::irqbalance_warning(irqs.into_iter()));
    let hook = VariantHook::new(machine, items_of.plans_domains, items_of.others_bandwidth)?;
    let variant = DensityVariant {
        name,
        description: described(&items),
        tuning: InstanceTuning {
            places,
            memory,
            env: items_of.spec.env,
            observed_weight: items_of.observed_weight,
            others_weight: items_of.others_weight,
            hook: hook.map(|hook| Arc::new(hook) as Arc<dyn InstanceHook>),
        },
        settings,
    };
    Ok((variant, note))
}

/// Returns the items with `place=` before a placement that stands for itself.
fn described(items: &str) -> String {
    let items = items.trim();
    match items.parse::<Policy>() {
        Ok(_) => format!("place={items}"),
        Err(_) => items.to_owned(),
    }
}

fn is_own(text: &str) -> bool {
    OWN_KEYS.iter().any(|key| text.trim_start().starts_with(key))
}

fn named(text: &str) -> Outcome<(Option<String>, String)> {
    if is_own(text) {
        return Ok((None, text.to_owned()));
    }
    let named = VariantText::named(text, Vec::new()).map_err(Failure::input)?;
    Ok((named.name, named.items))
}

fn parse(text: &str) -> Outcome<Items> {
    let mut items = Items::default();
    let mut seen = BTreeSet::new();
    for item in split_items(text, &|text| is_key(text) || is_own(text)) {
        let item = item.trim();
        if let Some((key, why)) = REFUSED.iter().find(|(key, _)| item.starts_with(key)) {
            return Err(Failure::input(format!("{key} is not possible: {why}")));
        }
        let key = if is_own(item) {
            set_own(item, &mut items)?
        } else {
            set_item(item, &mut items.spec).map_err(wrong_item)?
        };
        if !seen.insert(key.clone()) {
            return Err(Failure::input(format!("{key} is given twice in one variant")));
        }
    }
    Ok(items)
}

/// Returns the failure of an item of `compare`. For an unknown one, the message says what `density` takes.
fn wrong_item(error: VariantError) -> Failure {
    match error {
        VariantError::Unknown(item) => Failure::input(format!(
            "'{item}' is not a part of a variant; write place=PLACE, memory=MEMORY, irq:DEVICE=PLACE, weight=N, \
             observed:weight=N, qos:others=30%, vm=plan, env:NAME=VALUE or set:FILE=VALUE, and combine them with commas"
        )),
        error => Failure::input(error),
    }
}

/// Sets one item that only `density` has. Returns what it sets.
fn set_own(item: &str, items: &mut Items) -> Outcome<String> {
    let (key, value) = item.split_once('=').unwrap_or((item, ""));
    let value = value.trim();
    let weight = || {
        let weight = u32::from_str(value).ok().filter(|weight| WEIGHTS.contains(weight));
        weight.ok_or_else(|| {
            Failure::input(format!("{item}: write a whole number from 1 to 10000; 100 is usual"))
        })
    };
    match key {
        "weight" => items.others_weight = Some(weight()?),
        "observed:weight" => items.observed_weight = Some(weight()?),
        "qos:others" => {
            let bandwidth = value.parse().map_err(|error| Failure::input(format!("{item}: {error}")))?;
            items.others_bandwidth = Some(bandwidth);
        }
        "vm" if value == "plan" => items.plans_domains = true,
        _ => match key.strip_prefix("irq:") {
            Some(device) if !device.is_empty() && !value.is_empty() => {
                items.interrupts.push((device.to_owned(), value.to_owned()));
            }
            _ => {
                return Err(Failure::input(format!(
                    "{item}: write irq:DEVICE=PLACE, such as irq:eth0=near=eth0"
                )));
            }
        },
    }
    Ok(key.to_owned())
}

/// Returns a plan of as many workers as the policy gives CPUs of their own, without those of the loads; `None` if instances
/// may use all CPUs.
fn plan(
    policy: Option<&Policy>,
    machine: &Machine,
    load_cpus: Option<&CpuSet>,
) -> Outcome<Option<PlacementPlan>> {
    let free = Policy::new(PolicyKind::Free, false);
    let policy = policy.unwrap_or(&free);
    let reserve = load_cpus.map_or(Reserve::Nothing, |cpus| Reserve::Cpus(cpus.clone()));
    if *policy != free {
        let workers = policy.capacity(machine, &reserve).map_err(Failure::input)?;
        return Ok(Some(policy.plan(machine, workers, &reserve).map_err(Failure::input)?));
    }
    let Some(cpus) = load_cpus else { return Ok(None) };
    let mut plan = everywhere(machine)?;
    let left: CpuSet = machine.usable().difference(cpus);
    if left.is_empty() {
        return Err(Failure::input(format!("--load-cpus {cpus} leaves no CPU for the instances")));
    }
    for worker in &mut plan.workers {
        worker.cpus = left.clone();
    }
    Ok(Some(plan))
}

/// Returns a plan of one worker that may use all CPUs.
fn everywhere(machine: &Machine) -> Outcome<PlacementPlan> {
    Policy::new(PolicyKind::Free, false).plan(machine, 1, &Reserve::Nothing).map_err(Failure::input)
}

/// Returns where interrupts go: CPUs, a placement, `local` (near the device) or `beside` (the nearest CPUs to those of the
/// instances).
fn target_of(
    device: &str,
    text: &str,
    machine: &Machine,
    places: &[CpuSet],
    load_cpus: Option<&CpuSet>,
) -> Outcome<Target> {
    let policy = |text: &str| text.parse().map(Target::Policy).map_err(Failure::input);
    match text {
        "local" => policy(&format!("near={device}")),
        "beside" => Ok(Target::OneEach(beside(machine, places, load_cpus)?)),
        _ => match text.parse::<CpuSet>() {
            Ok(cpus) => Ok(Target::Cpus(cpus)),
            Err(_) => policy(text),
        },
    }
}

/// Returns a CPU for each place: the nearest to its first CPU that no place and no load has and that was not chosen before.
/// There are fewer where too few CPUs are left.
fn beside(machine: &Machine, places: &[CpuSet], load_cpus: Option<&CpuSet>) -> Outcome<CpuSet> {
    let taken: CpuSet = places.iter().chain(load_cpus).flat_map(CpuSet::iter).collect();
    let mut left: BTreeSet<CpuId> = machine.usable().difference(&taken).iter().collect();
    let mut found = CpuSet::default();
    for first in places.iter().filter_map(CpuSet::first) {
        let distance = |cpu: CpuId| {
            let distance = TopologyDistance::between(machine, first, cpu);
            (TopologyDistance::ALL.iter().position(|one| *one == distance), cpu.abs_diff(first), cpu)
        };
        let Some(nearest) = left.iter().copied().min_by_key(|&cpu| distance(cpu)) else { break };
        left.remove(&nearest);
        found.insert(nearest);
    }
    if found.is_empty() {
        let why = "beside needs a placement of the instances that leaves CPUs free, such as place=cpus=0,2,4";
        return Err(Failure::input(why));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::SyntheticMachine;

    fn guest() -> Machine {
        SyntheticMachine::guest().record().machine
    }

    fn read(text: &str, machine: &Machine) -> Outcome<(DensityVariant, Option<String>)> {
        variant(text, VariantContext { machine, load_cpus: None, domain: None, width: 1 })
    }

    fn said(text: &str) -> String {
        read(text, &guest()).unwrap_err().message().to_owned()
    }

    #[test]
    fn a_place_that_a_virtual_machine_would_ignore_is_refused() {
        let machine = guest();
        let xml = |rest: &str| {
            DomainTemplate::new(&format!(
                "<domain><name>{{name}}</name><title>{{port}}</title>{rest}</domain>"
            ))
            .unwrap()
        };
        let (without, with) = (xml(""), xml("<vcpu cpuset='{cpus}'>1</vcpu>"));
        let of = |domain: &DomainTemplate, text: &str, load_cpus: Option<&CpuSet>| {
            variant(text, VariantContext { machine: &machine, load_cpus, domain: Some(domain), width: 1 })
                .map(drop)
        };
        let loads = CpuSet::single(1);
        for (text, load_cpus) in [("close", None), ("", Some(&loads))] {
            let said = of(&without, text, load_cpus).unwrap_err();
            assert!(said.message().contains("need {cpus} in their XML"), "{}", said.message());
            assert!(of(&with, text, load_cpus).is_ok());
        }
        assert!(of(&without, "", None).is_ok() && of(&without, "vm=plan,close", None).is_ok());
        let context = VariantContext { machine: &machine, load_cpus: None, domain: Some(&with), width: 1 };
        assert_eq!(variant("free", context).unwrap().0.tuning.places, [machine.usable()]);
    }

    #[test]
    fn a_variant_is_a_placement_with_or_without_a_name() {
        let machine = guest();
        let of = |text: &str| {
            let (variant, _) = read(text, &machine).unwrap();
            (variant.name, variant.description, variant.tuning.places.len())
        };
        assert_eq!(of("free"), (None, "place=free".to_owned(), 0));
        assert_eq!(of("tight=place=cpus=0"), (Some("tight".to_owned()), "place=cpus=0".to_owned(), 1));
        assert_eq!(of("place=close"), (None, "place=close".to_owned(), machine.usable().len()));
        assert_eq!(of("cpus=0").0, None);
        assert_eq!(of("base=").1, "");
        assert!(said("x=nowhere").contains("'nowhere' is not a part of a variant"));
    }

    #[test]
    fn items_are_weights_memory_environment_and_settings() {
        let text = "fast=close,memory=bind,weight=50,observed:weight=400,env:A=1,2,thp=never";
        let (variant, note) = read(text, &guest()).unwrap();
        let tuning = &variant.tuning;
        assert_eq!((tuning.observed_weight, tuning.others_weight), (Some(400), Some(50)));
        assert_eq!(tuning.env, [("A".to_owned(), "1,2".to_owned())]);
        assert_eq!(tuning.memory.len(), tuning.places.len());
        assert_eq!(variant.settings.iter().map(ToString::to_string).collect::<Vec<_>>(), ["thp=never"]);
        assert!(tuning.hook.is_none() && note.is_none());
        assert_eq!(variant.description, text.strip_prefix("fast=").unwrap());
    }

    #[test]
    fn wrong_items_say_what_to_write() {
        assert!(said("nice=5").contains("write weight=N"));
        assert!(said("weight=0").contains("from 1 to 10000"));
        assert!(said("weight=1,weight=2").contains("weight is given twice"));
        assert!(said("irq:=1").contains("irq:DEVICE=PLACE"));
        assert!(said("a=x").contains("qos:others=30%"), "{}", said("a=x"));
        assert!(said("qos:others=much").contains("qos:others=much"));
        assert!(said("vm=plan").contains("only virtual machines"));
        assert!(said("sched=kernel").contains("manycore sched run"));
    }

    #[test]
    fn instances_that_use_several_cpus_get_neighbours() {
        let machine = SyntheticMachine::server().record().machine;
        let places = |text| {
            let context = VariantContext { machine: &machine, load_cpus: None, domain: None, width: 2 };
            variant(text, context).unwrap().0.tuning.places
        };
        assert!(places("free").is_empty());
        assert!(places("cpus=0-5").iter().all(|cpus| cpus.len() == 1), "as it is written");
        for policy in ["close", "spread"] {
            let pairs = places(policy);
            assert!(
                pairs.len() == machine.usable().len() / 2 && pairs.iter().all(|cpus| cpus.len() == 2),
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn beside_is_the_nearest_cpu_that_no_instance_has() {
        let machine = SyntheticMachine::server().record().machine;
        let of = |places: &[&str]| {
            let places: Vec<CpuSet> = places.iter().map(|cpus| cpus.parse().unwrap()).collect();
            beside(&machine, &places, Some(&"5".parse().unwrap())).unwrap().to_string()
        };
        assert_eq!(of(&["0", "2"]), "1,3");
        assert_eq!(of(&["0-1", "3"]), "2,4");
        assert!(!of(&["4"]).contains('5'));
        let all = [machine.usable()];
        assert!(beside(&machine, &all, None).unwrap_err().message().contains("leaves CPUs free"));
    }
}
