//! Exports for Kubernetes: the kubelet's configuration (`kubelet.config.k8s.io/v1beta1`) and a pod.
//!
//! A pod requests numbers of CPUs, and the kubelet's static CPU manager chooses which ones, packed as
//! closely as possible. Its options and the topology manager's policy influence that choice, but specific
//! CPUs cannot be requested. Comments in the output say how close it comes to the plan. See "Control CPU
//! Management Policies on the Node" in the Kubernetes documentation.

use super::{Export, comments};
use crate::{Level, MemoryPlacement, PlannedWorker, PolicyKind};
use manycore_topology::CpuSet;

pub(super) fn text(export: &Export) -> String {
    let demand = PodRequest::new(export);
    let mut lines = vec![
        format!("{}. Kubernetes cannot name CPUs: a pod requests", export.title()),
        format!(
            "numbers of CPUs, and the kubelet chooses which ones. The plan's CPUs are {}.",
            export.plan.cpus()
        ),
    ];
    lines.extend(comments_on_losses(export, &demand));
    let mut text = comments(&lines);
    text.push('\n');
    text.push_str(&kubelet(export, &demand));
    text.push_str("---\n");
    text + &pod(&demand)
}

/// The CPUs that containers request.
struct PodRequest {
    /// CPUs of each container: one container for all workers, or one per worker if each worker has a group
    /// of CPUs.
    containers: Vec<usize>,
    /// Whether each container gets CPUs that no other container has.
    exclusive: bool,
    /// CPUs requested for each CPU that is used: includes its SMT siblings if they are to stay idle.
    threads: usize,
}

impl PodRequest {
    fn new(export: &Export) -> Self {
        let (plan, machine) = (export.plan, export.machine);
        let widest = machine.cores.iter().map(|core| core.cpus.len()).max().unwrap_or(1);
        let threads = if export.policy.nosmt { widest.max(1) } else { 1 };
        let exclusive = export.policy.kind != PolicyKind::Free && plan.check_exclusive().is_ok();
        let one_each = matches!(export.policy.kind, PolicyKind::SpreadAt(_));
        let containers = if exclusive && one_each {
            let share = |worker: &PlannedWorker| {
                let with = plan.workers.iter().filter(|other| other.cpus == worker.cpus).count();
                worker.cpus.len() / with.max(1) * threads
            };
            plan.workers.iter().map(share).collect()
        } else {
            vec![plan.workers.len().min(plan.cpus().len()) * threads]
        };
        Self { containers, exclusive, threads }
    }
}

/// Returns comments on what the plan loses in Kubernetes.
fn comments_on_losses(export: &Export, demand: &PodRequest) -> Vec<String> {
    let mut lines = Vec::new();
    if !demand.exclusive {
        lines.push(
            "Workers share CPUs, so no CPU is exclusive: the default CPU manager is sufficient.".to_owned(),
        );
    } else if demand.containers.len() == 1 && demand.containers[0] > 1 {
        lines.push(
            "A worker may use all CPUs of its container: pin it there, for example with taskset.".to_owned(),
        );
    }
    if demand.threads > 1 {
        let count = demand.threads;
        lines.push(format!(
            "To have one worker per core, all {count} CPUs of each core are requested: start as many"
        ));
        lines.push(format!("workers as the plan has, not {count} times as many."));
    }
    if export.policy.kind == PolicyKind::Spread && demand.exclusive {
        lines.push(
            "The kubelet spreads a container over nodes only if one node has too few CPUs for it.".to_owned(),
        );
    }
    if matches!(export.policy.kind, PolicyKind::Near(_)) {
        lines.push(
            "CPUs are near the device only if the pod also requests it through a device plugin.".to_owned(),
        );
    }
    match export.memory {
        MemoryPlacement::Default | MemoryPlacement::Local => {}
        MemoryPlacement::Bind(_) => {
            lines.push(
                "bind: memoryManagerPolicy: Static with reservedMemory binds containers to nodes.".to_owned(),
            );
        }
        MemoryPlacement::Interleave(_) => {
            lines.push("interleave: put numactl before the command in the container, and add the capability SYS_NICE.".to_owned());
        }
    }
    lines
}

/// Returns the kubelet's configuration.
fn kubelet(export: &Export, demand: &PodRequest) -> String {
    let mut text = comments(&[
        "Part of the kubelet's configuration. The flags --cpu-manager-policy, --cpu-manager-policy-options,"
            .to_owned(),
        "--topology-manager-policy and --reserved-cpus are equivalent. To change it: drain the node, stop"
            .to_owned(),
        "the kubelet, remove /var/lib/kubelet/cpu_manager_state, start the kubelet.".to_owned(),
    ]);
    text.push_str("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n");
    if !demand.exclusive {
        return text + "cpuManagerPolicy: none\n";
    }
    text.push_str("cpuManagerPolicy: static\n");
    let options = options(export, demand);
    if options.iter().any(|option| ALPHA.contains(option)) {
        text.push_str(&comments(&["The option is an alpha feature, which needs this gate.".to_owned()]));
        text.push_str("featureGates:\n  CPUManagerPolicyAlphaOptions: true\n");
    }
    if !options.is_empty() {
        let options = options.iter().map(|option| format!("  {option}: \"true\"\n"));
        text.push_str(&format!("cpuManagerPolicyOptions:\n{}", options.collect::<String>()));
    }
    text.push_str(&format!(
        "topologyManagerPolicy: {}\ntopologyManagerScope: container\n",
        alignment(export)
    ));
    // The kubelet counts nodes without CPUs as well.
    let nodes = export.machine.nodes.len();
    if alignment(export) != "none" && nodes > MOST_NODES {
        text.push_str(&comments(&[
            "With more than 8 NUMA nodes, the kubelet does not start without this option (Kubernetes 1.31 and".to_owned(),
            "later). The admission of pods takes longer.".to_owned(),
        ]));
        text.push_str(&format!("topologyManagerPolicyOptions:\n  max-allowable-numa-nodes: \"{nodes}\"\n"));
    }
    if export.reserved.is_empty() {
        text + &comments(&[
            "The static policy does not start without reserved CPUs: reserve CPUs in the plan, or set"
                .to_owned(),
            "kubeReserved. reservedSystemCPUs: \"LIST\"".to_owned(),
        ])
    } else {
        text + &format!("reservedSystemCPUs: \"{}\"\n", export.reserved)
    }
}

/// Most NUMA nodes with which the topology manager starts without an option (KEP-4622).
const MOST_NODES: usize = 8;
/// Options behind a feature gate, as of Kubernetes 1.34.
const ALPHA: [&str; 2] = [BY_SOCKET, ACROSS_CORES];
const BY_SOCKET: &str = "align-by-socket";
const ACROSS_CORES: &str = "distribute-cpus-across-cores";
const WHOLE_CORES: &str = "full-pcpus-only";

/// Returns the options of the static policy that bring its choice closer to the placement.
fn options(export: &Export, demand: &PodRequest) -> Vec<&'static str> {
    let machine = export.machine;
    let cpus = export.plan.cpus();
    let whole = machine.cores.iter().all(|core| !core.cpus.intersects(&cpus) || core.cpus.is_subset(&cpus));
    let widest = machine.cores.iter().map(|core| core.cpus.len()).max().unwrap_or(1).max(1);
    let even = demand.containers.iter().all(|count| count.is_multiple_of(widest));
    let full = machine.has_smt() && even && (whole || export.policy.nosmt);
    let mut options = Vec::new();
    match &export.policy.kind {
        // distribute-cpus-across-cores excludes distribute-cpus-across-numa and full-pcpus-only.
        PolicyKind::Spread if nodes_of(export) > 1 => {
            options.push("distribute-cpus-across-numa");
            options.extend(full.then_some(WHOLE_CORES));
        }
        PolicyKind::Spread if machine.has_smt() && !full => options.push(ACROSS_CORES),
        PolicyKind::SpreadAt(Level::Package) => {
            options.push(BY_SOCKET);
            options.extend(full.then_some(WHOLE_CORES));
        }
        PolicyKind::SpreadAt(Level::Llc) => {
            options.push("prefer-align-cpus-by-uncorecache");
            options.extend(full.then_some(WHOLE_CORES));
        }
        _ => options.extend(full.then_some(WHOLE_CORES)),
    }
    options
}

/// Returns the topology manager's policy: as few nodes as possible, unless the workers are to be spread.
fn alignment(export: &Export) -> &'static str {
    match &export.policy.kind {
        PolicyKind::Free => "none",
        PolicyKind::Spread if nodes_of(export) > 1 => "none",
        PolicyKind::SpreadAt(Level::Package) => "restricted",
        PolicyKind::SpreadAt(_) => "single-numa-node",
        _ if nodes_of(export) > 1 => "restricted",
        _ => "single-numa-node",
    }
}

/// Returns the number of NUMA nodes that the plan's CPUs are on.
fn nodes_of(export: &Export) -> usize {
    let cpus: CpuSet = export.plan.cpus();
    let nodes = export.machine.nodes.iter().filter(|node| !node.memory_only);
    nodes.filter(|node| node.cpus.intersects(&cpus)).count()
}

/// Returns the pod. The static policy requires requests and limits that are equal and whole numbers of
/// CPUs.
fn pod(demand: &PodRequest) -> String {
    let mut text = comments(&["Replace the names, the image and the memory.".to_owned()]);
    text.push_str("apiVersion: v1\nkind: Pod\nmetadata:\n  name: workers\nspec:\n  containers:\n");
    for (at, cpus) in demand.containers.iter().enumerate() {
        text.push_str(&format!(
            "    - name: worker-{at}\n      image: IMAGE\n      resources:\n        \
             requests: {{cpu: \"{cpus}\", memory: 1Gi}}\n        limits: {{cpu: \"{cpus}\", memory: 1Gi}}\n"
        ));
    }
    text
}
