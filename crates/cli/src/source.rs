//! Reads the machine that the command line names: a live or copied tree, a saved capture, or Machine JSON.

use crate::{
    cli::Source,
    failure::{Failure, Outcome},
};
use manycore_linux::input_file::{self, ContentProblem, FileKind};
use manycore_placement::{MAX_WORKERS, PLAN_SCHEMA, PlacementPlan, Policy};
use manycore_topology::{
    Machine, SysTree,
    capture::{CAPTURE_SCHEMA, Capture},
    machine::MACHINE_SCHEMA,
};
use std::path::Path;

/// JSON written by `topo`; that of 4,096 CPUs takes two megabytes.
const MACHINE: FileKind = FileKind {
    name: "machine",
    schema: MACHINE_SCHEMA,
    origin: "written by 'manycore topo --format json', or a capture written by 'manycore topo --save'",
    max_bytes: 64 << 20,
};

/// A placement of workers.
const PLAN: FileKind = FileKind {
    name: "plan",
    schema: PLAN_SCHEMA,
    origin: "written by 'manycore plan --format json' or 'manycore tune'",
    max_bytes: 64 << 20,
};

/// Limit for the number of CPUs in a file. Linux supports up to 8,192; the limit bounds the memory that a
/// file can make us allocate.
const MAX_CPUS: usize = 1 << 20;

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
    SysTree::open(source.machine.as_ref().unwrap_or(&source.root)).map_err(|error| match error {
        manycore_topology::Error::NotACapture { .. } => {
            Failure::input(format!("{error} ('manycore topo --save' writes captures)"))
        }
        error => Failure::input(error),
    })
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
    let plan: PlacementPlan = input_file::load(path, &PLAN)?;
    check_plan(&plan).map_err(|why| ContentProblem::damaged(&PLAN, &why).in_file(path))?;
    if plan.machine_fingerprint != machine.fingerprint() {
        return Err(Failure::input(format!(
            "{shown} is for another machine (fingerprint {}, this one has {}): make a plan here with 'manycore plan'",
            plan.machine_fingerprint,
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

fn check_plan(plan: &PlacementPlan) -> Result<(), String> {
    let workers = plan.workers.len();
    if workers == 0 || workers > MAX_WORKERS {
        return Err(format!("it has {workers} workers, expected 1 to {MAX_WORKERS}"));
    }
    if plan.workers.iter().any(|worker| worker.cpus.is_empty()) {
        return Err("it has workers without CPUs".to_owned());
    }
    plan.policy.parse::<Policy>().map_err(|error| format!("its place is invalid: {error}"))?;
    Ok(())
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
    let bytes = input_file::read(path, MACHINE.max_bytes)?;
    Ok(parse_machine(&bytes).map_err(|problem| problem.in_file(path))?)
}

/// Parses a machine and checks the number of its CPUs. A list of four thousand million CPUs takes only
/// twelve characters.
fn parse_machine(bytes: &[u8]) -> Result<Machine, ContentProblem> {
    let machine: Machine = input_file::parse(bytes, &MACHINE)?;
    match machine.online.len().max(machine.offline.len()) {
        0 => Err(ContentProblem::damaged(&MACHINE, "it has no CPUs")),
        1..=MAX_CPUS => Ok(machine),
        count => {
            Err(ContentProblem::damaged(&MACHINE, &format!("it has {count} CPUs, more than {MAX_CPUS}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topo::{svg, text};
    use proptest::{prelude::*, sample::select};
    use serde_json::{Value, json};

    fn parse_text(text: &str) -> Result<Machine, String> {
        parse_machine(text.as_bytes()).map_err(|problem| problem.to_string())
    }

    fn guest() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines/hybrid-16cpu.machine");
        let machine = read(&SysTree::open(Path::new(path)).unwrap()).unwrap();
        serde_json::to_value(machine).unwrap()
    }

    /// Renders and draws every machine that loads; none of it may panic.
    fn render(text: &str) {
        if let Ok(machine) = parse_text(text) {
            let _ = (text::render(&machine).to_string(), svg::render(&machine, None));
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
            prop_assert!(text.is_char_boundary(end) && parse_text(&text[..end]).is_err());
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
        let loaded = (0..200)
            .filter(|_| parse_text(&odd().new_tree(&mut runner).unwrap().current().to_string()).is_ok());
        assert!(loaded.count() > 5, "otherwise the property tests nothing");
    }

    #[test]
    fn files_of_other_kinds_are_named_in_errors() {
        for (text, problem) in [
            (
                "x",
                "not JSON (expected value at line 1 column 1); expected a machine (\"manycore/machine/1\"): written by",
            ),
            ("{}", "JSON, but not a machine: it has no \"schema\" (expected \"manycore/machine/1\")"),
            (
                r#"{"schema": "manycore/machine/2"}"#,
                "the machine has schema \"manycore/machine/2\", written by a newer manycore",
            ),
            (
                r#"{"schema": "manycore/record/1"}"#,
                "this is a record (\"manycore/record/1\"); expected a machine",
            ),
            (r#"{"schema": "manycore/machine/1"}"#, "damaged machine: missing field `system`"),
        ] {
            let found = parse_text(text).unwrap_err();
            assert!(found.starts_with(problem), "{found}");
        }
    }
}
