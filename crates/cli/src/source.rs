//! Reads the machine that the command line names: a live or copied tree, a saved capture, or Machine JSON.

use crate::{
    cli::Source,
    failure::{Failure, Outcome},
};
use manycore_placement::{MAX_WORKERS, PLAN_SCHEMA, PlacementPlan, Policy};
use manycore_topology::{Machine, machine::MACHINE_SCHEMA};
use manycore_topology::{
    SysTree,
    capture::{CAPTURE_SCHEMA, Capture},
};
use std::path::Path;

/// Size limit for Machine JSON, in bytes; that of 4,096 CPUs takes two megabytes.
const LARGEST_JSON: u64 = 64 << 20;

/// Limit for the number of CPUs in a file. Linux supports up to 8,192; the limit bounds the memory that a
/// file can make us allocate.
const MOST_CPUS: usize = 1 << 20;

/// Reads the machine that `--root` or `--machine` names, or else this one.
///
/// # Errors
/// [`Failure::Input`] if the folder or file does not describe a machine.
pub fn machine(source: &Source) -> Outcome<Machine> {
    match source.machine.as_deref() {
        Some(path) if !is_capture(path) => from_json(path),
        _ => read(&tree(source)?),
    }
}

/// Reads the machine that this program runs on.
///
/// # Errors
/// [`Failure::Input`] if its sysfs or procfs cannot be read.
pub fn live() -> Outcome<Machine> {
    read(&SysTree::open(Path::new("/")).map_err(Failure::input)?)
}

/// Like [`machine`], and also returns all files that were read. They are enough to read the machine again
/// elsewhere.
///
/// # Errors
/// Those of [`machine`]. Also [`Failure::Input`] if the machine comes from JSON, for which no files are read.
pub fn machine_and_files(source: &Source) -> Outcome<(Machine, Capture)> {
    if let Some(path) = source.machine.as_deref().filter(|path| path.exists() && !is_capture(path)) {
        return Err(Failure::input(format!(
            "{} is not a capture: --save stores the kernel's files, and Machine JSON has none",
            path.display()
        )));
    }
    let tree = tree(source)?.with_recording();
    let machine = read(&tree)?;
    Ok((machine, tree.recording().unwrap_or_default()))
}

fn tree(source: &Source) -> Outcome<SysTree> {
    SysTree::open(source.machine.as_ref().unwrap_or(&source.root)).map_err(Failure::input)
}

fn read(tree: &SysTree) -> Outcome<Machine> {
    manycore_topology::read(tree).map_err(Failure::input)
}

/// Reads a plan from a file and checks that it fits this machine.
///
/// # Errors
/// [`Failure::Input`] if it is not a plan, is for another machine, or names CPUs that are offline or may not
/// be used here.
pub fn plan(path: &Path, machine: &Machine) -> Outcome<PlacementPlan> {
    let shown = path.display();
    let text =
        read_whole(path).map_err(|problem| Failure::input(format!("cannot read {shown}: {problem}")))?;
    let plan =
        parse_plan(&text).map_err(|problem| Failure::input(format!("{shown} is not a plan: {problem}")))?;
    if plan.machine != machine.fingerprint() {
        return Err(Failure::input(format!(
            "{shown} is for another machine (fingerprint {}, this one has {}): make a plan here with 'manycore plan'",
            plan.machine,
            machine.fingerprint()
        )));
    }
    let offline = plan.cpus().difference(&machine.online);
    if !offline.is_empty() {
        return Err(Failure::input(format!("{shown} has CPUs {} that are not online here", offline.brief())));
    }
    let denied = plan.cpus().difference(&machine.pinnable_cpus());
    if denied.is_empty() {
        return Ok(plan);
    }
    Err(Failure::input(format!(
        "{shown} has CPUs {} that may not be used here: only {} may ({})",
        denied.brief(),
        machine.usable().brief(),
        machine.allowed.effective_limit
    )))
}

fn parse_plan(text: &str) -> Result<PlacementPlan, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(PLAN_SCHEMA) => {}
        other => return Err(format!("schema is {}, expected {PLAN_SCHEMA:?}", other.unwrap_or("absent"))),
    }
    let plan: PlacementPlan = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let workers = plan.workers.len();
    if workers == 0 || workers > MAX_WORKERS {
        return Err(format!("it has {workers} workers, expected 1 to {MAX_WORKERS}"));
    }
    if plan.workers.iter().any(|worker| worker.cpus.is_empty()) {
        return Err("it has workers without CPUs".to_owned());
    }
    plan.place.parse::<Policy>().map_err(|error| format!("its place is invalid: {error}"))?;
    Ok(plan)
}

/// Returns whether a file starts like a capture, of any version.
fn is_capture(path: &Path) -> bool {
    use std::io::Read;
    let mark = CAPTURE_SCHEMA.trim_end_matches(|c: char| c.is_ascii_digit());
    let mut start = vec![0; mark.len()];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == mark.as_bytes()
}

fn from_json(path: &Path) -> Outcome<Machine> {
    let shown = path.display();
    let text = read_whole(path).map_err(|problem| {
        Failure::input(format!("cannot read {shown}: {problem}; expected a file that 'manycore topo' wrote"))
    })?;
    parse(&text).map_err(|problem| Failure::input(format!("{shown} is not a machine: {problem}")))
}

/// Returns the text of a file or a pipe; fails above [`LARGEST_JSON`] bytes.
fn read_whole(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(LARGEST_JSON + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST_JSON {
        Err(format!("it is larger than {LARGEST_JSON} bytes"))
    } else {
        Ok(text)
    }
}

/// Parses Machine JSON of the version that this program supports. Checks the schema before the rest, so that
/// the error for another kind of file names that kind.
fn parse(text: &str) -> Result<Machine, String> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| format!("neither '{CAPTURE_SCHEMA}' nor JSON ({error})"))?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(MACHINE_SCHEMA) => {
            serde_json::from_value(value).map_err(|error| error.to_string()).and_then(plausible)
        }
        Some(other) if other.starts_with("manycore/machine/") => {
            Err(format!("schema {other} is newer than this program, which reads {MACHINE_SCHEMA}"))
        }
        Some(other) => Err(format!("schema is {other:?}, expected {MACHINE_SCHEMA:?}")),
        None => Err(format!("it has no \"schema\", expected {MACHINE_SCHEMA:?}")),
    }
}

/// Checks the number of CPUs. A list of four thousand million CPUs takes only twelve characters.
fn plausible(machine: Machine) -> Result<Machine, String> {
    let count = machine.online.len().max(machine.offline.len());
    match count {
        0 => Err("it has no CPUs".to_owned()),
        1..=MOST_CPUS => Ok(machine),
        _ => Err(format!("it has {count} CPUs, more than {MOST_CPUS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topo::{svg, text};
    use proptest::{prelude::*, sample::select};
    use serde_json::{Value, json};

    fn guest() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines/hybrid-16cpu.machine");
        let machine = read(&SysTree::open(Path::new(path)).unwrap()).unwrap();
        serde_json::to_value(machine).unwrap()
    }

    /// Renders and draws every machine that loads; none of it may panic.
    fn render(text: &str) {
        if let Ok(machine) = parse(text) {
            let _ = (text::render(&machine), svg::render(&machine, None));
        }
    }

    /// Replaces the `nth` value that is not a list or an object.
    fn with_leaf(value: &mut Value, nth: usize, other: &Value) {
        fn leaves<'a>(value: &'a mut Value, out: &mut Vec<&'a mut Value>) {
            match value {
                Value::Array(all) => all.iter_mut().for_each(|value| leaves(value, out)),
                Value::Object(all) => {
                    all.iter_mut()
                        .filter(|(name, _)| *name != "schema")
                        .for_each(|(_, value)| leaves(value, out));
                }
                leaf => out.push(leaf),
            }
        }
        let mut all = Vec::new();
        leaves(value, &mut all);
        let count = all.len();
        *all[nth % count] = other.clone();
    }

    fn cpus() -> impl Strategy<Value = Value> {
        prop_oneof![
            4 => select(vec!["", "0", "1", "0-3", "2-5", "4-7", "0-7", "0,2,4,6", "8-15", "0-1999", "4294967294"]),
            1 => select(vec!["0-4294967294", "3-1", "x", "4294967295"]),
        ]
        .prop_map(Value::from)
    }

    fn number() -> impl Strategy<Value = Value> {
        select(vec![json!(0), json!(1), json!(3), json!(10), json!(1024), json!(u32::MAX)])
    }

    fn wide() -> impl Strategy<Value = Value> {
        select(vec![Value::Null, json!(0), json!(1), json!(1000), json!(48 << 10), json!(u64::MAX)])
    }

    fn id() -> impl Strategy<Value = Value> {
        select(vec![Value::Null, json!(-1), json!(0), json!(7), json!(i64::MAX), json!(i64::MIN)])
    }

    fn word() -> impl Strategy<Value = Value> {
        prop_oneof![
            select(vec!["", "all", "performance", "<b>&\"", "nothing", "a b c"]).prop_map(Value::from),
            "\\PC{0,90}".prop_map(Value::from),
        ]
    }

    fn groups() -> impl Strategy<Value = Value> {
        list((id(), cpus()).prop_map(|(id, cpus)| json!({"id": id, "cpus": cpus})))
    }

    fn list(of: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        prop::collection::vec(of, 0..5).prop_map(Value::from)
    }

    /// Generates JSON in the shape of a machine whose parts need not fit together.
    fn odd() -> impl Strategy<Value = Value> {
        let kind = select(vec!["data", "instruction", "unified"]);
        let cache = (number(), kind, wide(), cpus()).prop_map(|(level, kind, size, cpus)| {
            json!({"level": level, "kind": kind, "size_bytes": size, "line_bytes": size, "ways": null, "cpus": cpus})
        });
        let node = (number(), cpus(), any::<bool>(), wide(), list(number())).prop_map(
            |(id, cpus, bare, memory, distances)| {
                json!({"id": id, "cpus": cpus, "memory_only": bare, "memory_bytes": memory,
                    "distances": distances, "tier": id})
            },
        );
        let kind = (word(), cpus(), wide()).prop_map(
            |(name, cpus, khz)| json!({"name": name, "cpus": cpus, "capacity": null, "max_khz": khz}),
        );
        let device = (word(), number(), number(), cpus(), list(word())).prop_map(
            |(name, class, node, cpus, names)| {
                json!({"address": name, "class": class, "class_name": name, "id": null, "driver": name,
                    "node": node, "cpus": cpus, "names": names})
            },
        );
        let allowed = (cpus(), word()).prop_map(
            |(cpus, limit)| json!({"cpus": cpus, "quota_cpus": 1e-300, "effective_limit": limit, "limits": []}),
        );
        let system = (word(), wide()).prop_map(|(name, memory)| {
            json!({"hostname": name, "cpu_model": name, "cpu_flags": [], "memory_bytes": memory})
        });
        let sets = (cpus(), cpus(), cpus());
        let parts = (groups(), groups(), groups(), groups());
        let rest = (list(cache), list(node), list(kind), list(device), allowed, system);
        (sets, parts, rest).prop_map(|(sets, parts, rest)| {
            json!({
                "schema": MACHINE_SCHEMA, "online": sets.0, "offline": sets.1, "isolated": sets.2,
                "packages": parts.0, "dies": parts.1, "clusters": parts.2, "cores": parts.3,
                "caches": rest.0, "nodes": rest.1, "core_kinds": rest.2, "devices": rest.3,
                "allowed": rest.4, "system": rest.5,
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_cut_machine_is_refused(share in 0.0f64..1.0) {
            let text = guest().to_string();
            let end = (share * text.len() as f64) as usize;
            prop_assert!(text.is_char_boundary(end) && parse(&text[..end]).is_err());
        }

        #[test]
        fn absurd_values_never_panic(
            changes in prop::collection::vec((any::<usize>(), prop_oneof![cpus(), number(), wide(), id(), word()]), 1..6)
        ) {
            let mut value = guest();
            for (nth, other) in &changes {
                with_leaf(&mut value, *nth, other);
            }
            render(&value.to_string());
        }

        #[test]
        fn damaged_texts_never_panic(
            changes in prop::collection::vec((any::<usize>(), 0x20u8..0x7f), 1..4)
        ) {
            let mut bytes = guest().to_string().into_bytes();
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            render(&String::from_utf8_lossy(&bytes));
        }
    }

    proptest! {
        #[test]
        fn parts_that_do_not_fit_never_panic(value in odd()) {
            render(&value.to_string());
        }
    }

    #[test]
    fn machines_of_odd_parts_do_load() {
        use proptest::{strategy::ValueTree, test_runner::TestRunner};
        let mut runner = TestRunner::deterministic();
        let loaded =
            (0..200).filter(|_| parse(&odd().new_tree(&mut runner).unwrap().current().to_string()).is_ok());
        assert!(loaded.count() > 5, "otherwise the property tests nothing");
    }

    #[test]
    fn other_files_are_called_what_they_are() {
        for (text, problem) in [
            ("x", "neither '# manycore/capture/1' nor JSON (expected value at line 1 column 1)"),
            ("{}", "it has no \"schema\", expected \"manycore/machine/1\""),
            (
                r#"{"schema": "manycore/machine/2"}"#,
                "schema manycore/machine/2 is newer than this program, which reads manycore/machine/1",
            ),
            (
                r#"{"schema": "manycore/record/1"}"#,
                "schema is \"manycore/record/1\", expected \"manycore/machine/1\"",
            ),
            (r#"{"schema": "manycore/machine/1"}"#, "missing field `system`"),
        ] {
            assert_eq!(parse(text).unwrap_err(), problem);
        }
    }
}
