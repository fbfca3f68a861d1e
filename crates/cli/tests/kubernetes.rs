//! The manifest for Kubernetes, against the types of its API.

use k8s_openapi::{
    Metadata, Resource,
    api::{apps::v1::DaemonSet, core::v1::Namespace},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

const MANIFEST: &str = include_str!("../../../packaging/kubernetes/fleet.yaml");

/// Reads a document as a resource. Says what its type does not take: a server ignores unknown fields, or refuses them.
fn read<T: Resource + DeserializeOwned + Serialize>(document: &Value) -> Result<T, String> {
    if document["apiVersion"] != T::API_VERSION || document["kind"] != T::KIND {
        return Err(format!("expected {} {}: {document}", T::API_VERSION, T::KIND));
    }
    let resource: T = serde_json::from_value(document.clone()).map_err(|error| error.to_string())?;
    let known = serde_json::to_value(&resource).unwrap();
    let [known, written] = [&known, document].map(|value| serde_json::to_string_pretty(value).unwrap());
    if known == written {
        return Ok(resource);
    }
    let only = |this: &str, other: &str| {
        let line = this.lines().find(|line| !other.contains(line.trim_end_matches(',')));
        line.unwrap_or_default().trim().to_owned()
    };
    Err(format!("not in the API: '{}', missing: '{}'", only(&written, &known), only(&known, &written)))
}

fn manifest(text: &str) -> Result<(Namespace, DaemonSet), String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let [namespace, daemons] = &documents[..] else { return Err(format!("{} documents", documents.len())) };
    Ok((read(namespace)?, read(daemons)?))
}

#[test]
fn the_manifest_is_what_the_api_takes() {
    let (namespace, daemons) = manifest(MANIFEST).unwrap();
    assert_eq!(daemons.metadata().namespace, namespace.metadata().name);
    let spec = daemons.spec.unwrap();
    let labels = spec.template.metadata.and_then(|metadata: ObjectMeta| metadata.labels).unwrap();
    assert_eq!(spec.selector.match_labels.unwrap(), labels, "the pods are those that are selected");
    let pod = spec.template.spec.unwrap();
    let names: Vec<String> = pod.volumes.unwrap().into_iter().map(|volume| volume.name).collect();
    for container in pod.init_containers.unwrap().iter().chain(&pod.containers) {
        let resources = container.resources.as_ref().unwrap();
        assert_eq!(resources.requests, resources.limits, "{}: the class Guaranteed", container.name);
        let cpus = &resources.limits.as_ref().unwrap()["cpu"].0;
        assert!(cpus.parse::<u32>().is_ok(), "{}: whole CPUs", container.name);
        for mount in container.volume_mounts.iter().flatten() {
            assert!(names.contains(&mount.name), "{}: no volume {}", container.name, mount.name);
        }
    }
}

#[test]
fn misspelt_and_misplaced_fields_are_found() {
    for (right, wrong, said) in [
        ("hostPID: true", "hostPid: true", "hostPid"),
        ("readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true", "readOnlyRootFileSystem"),
        ("      hostPID: true", "  hostPID: true", "expected"),
        ("runAsUser: 65532", "runAsUser: nobody", "invalid type"),
        ("  template:\n", "  templates:\n", "\"templates\""),
        ("  selector:\n    matchLabels:\n      app: manycore-fleet\n", "", "missing: '\"selector\""),
        ("kind: DaemonSet", "kind: Daemonset", "expected apps/v1 DaemonSet"),
        (
            "            - name: tmp\n              mountPath",
            "            - name: tmp\n              mountpath",
            "mount",
        ),
        ("  selector:\n", "  minReadySeconds: 1\n  updateStrategies: {}\n  selector:\n", "updateStrategies"),
    ] {
        assert!(MANIFEST.contains(right), "{right}");
        let error = manifest(&MANIFEST.replacen(right, wrong, 1)).unwrap_err();
        assert!(error.contains(said), "{wrong}: {error}");
    }
}
