//! The values of options and arguments.

use super::{Completion, Names, Word, prefixed};
use crate::folder::LATEST;
use clap::Arg;
use manycore_control::setting::{self, KNOWN};
use manycore_experiment::metric::READERS;

/// Placements without parameters.
const PLACEMENTS: [(&str, &str); 8] = [
    ("free", "the kernel chooses"),
    ("close", "CPUs close together"),
    ("spread", "CPUs far apart"),
    ("spread@core", "one worker on each core in turn"),
    ("spread@cluster", "on each cluster in turn"),
    ("spread@llc", "on each last-level cache in turn"),
    ("spread@node", "on each NUMA node in turn"),
    ("spread@package", "on each package in turn"),
];

/// What a value is.
#[derive(Clone, Copy)]
enum ValueKind {
    File,
    Directory,
    Placement,
    Memory,
    Device,
    Domain,
    Group,
    Unit,
    Load,
    Reader,
    Change,
    Result,
    Variant,
    Scheduler,
    Shell,
}

/// The ids of options and arguments with values of a kind, in all subcommands.
const KINDS: [(ValueKind, &[&str]); 14] = [
    (
        ValueKind::File,
        &[
            "machine", "plan", "html", "svg", "save", "from", "xml", "trace", "history", "events", "rules",
            "file", "input", "spec", "record", "replay", "token",
        ],
    ),
    (ValueKind::Directory, &["out", "results", "root", "resctrl", "csv", "scratch", "unixbench_dir"]),
    (ValueKind::Placement, &["place"]),
    (ValueKind::Memory, &["memory"]),
    (ValueKind::Device, &["device"]),
    (ValueKind::Group, &["group", "groups"]),
    (ValueKind::Unit, &["unit"]),
    (ValueKind::Domain, &["domain"]),
    (ValueKind::Reader, &["metric"]),
    (ValueKind::Load, &["name"]),
    (ValueKind::Result, &["records", "baseline"]),
    (ValueKind::Variant, &["a", "b", "variant"]),
    (ValueKind::Scheduler, &["schedulers"]),
    (ValueKind::Shell, &["shell"]),
];

/// Returns what can be the value of an option or argument. `current` is the part that is there already.
pub(super) fn values(path: &[&str], argument: &Arg, current: &str, names: &dyn Names) -> Completion {
    let possible = argument.get_possible_values();
    let words = if possible.is_empty() {
        match kind(path, argument.get_id().as_str()) {
            Some(ValueKind::File) => return Completion::File,
            Some(ValueKind::Directory) => return Completion::Directory,
            // Results are elsewhere, too.
            Some(ValueKind::Result) if results(names).all(|word| !word.text.starts_with(current)) => {
                return Completion::File;
            }
            Some(kind) => of_kind(kind, current, names),
            None => Vec::new(),
        }
    } else {
        let visible = possible.iter().filter(|value| !value.is_hide_set());
        visible.map(|value| Word::new(value.get_name(), super::first_line(value.get_help()))).collect()
    };
    // In a list, only the last item is completed.
    let start = argument.get_value_delimiter().and_then(|delimiter| current.rfind(delimiter));
    Completion::Words(match start {
        Some(at) => prefixed(words, &current[..=at]),
        None => words,
    })
}

/// Returns the kind of an argument's values. A few ids mean different things in different subcommands.
fn kind(path: &[&str], id: &str) -> Option<ValueKind> {
    match (path, id) {
        (["vm", "plan"], "domain") | (["density"], "domain_xml") | (["trace"], "out") => {
            Some(ValueKind::File)
        }
        (["density"], "variant") => Some(ValueKind::Placement),
        (["qos", "clear"], "names") => Some(ValueKind::Group),
        (["undo"], "names") => Some(ValueKind::Change),
        (["qos", "set"], "name") => None,
        _ => KINDS.iter().find(|(_, ids)| ids.contains(&id)).map(|(kind, _)| *kind),
    }
}

fn of_kind(kind: ValueKind, current: &str, names: &dyn Names) -> Vec<Word> {
    let plain = |names: Vec<String>| names.into_iter().map(|name| Word::new(name, "")).collect();
    match kind {
        ValueKind::File | ValueKind::Directory => Vec::new(),
        ValueKind::Placement => placements(current, names),
        ValueKind::Memory => memory(names),
        ValueKind::Device => plain(names.devices()),
        ValueKind::Domain => plain(names.domains()),
        ValueKind::Group => plain(names.groups()),
        ValueKind::Unit => plain(names.units()),
        ValueKind::Change => plain(names.changes()),
        ValueKind::Reader => {
            READERS.iter().map(|reader| Word::new(*reader, "figures of this program")).collect()
        }
        ValueKind::Load => loads(),
        ValueKind::Result => results(names).collect(),
        ValueKind::Variant => {
            [placements(current, names), schedulers(names), settings(current, names)].concat()
        }
        ValueKind::Scheduler => scheduler_words(names),
        ValueKind::Shell => plain(["none", "sh", "bash"].map(str::to_owned).to_vec()),
    }
}

fn results(names: &dyn Names) -> impl Iterator<Item = Word> {
    let names = names.results();
    let latest = (!names.is_empty()).then(|| Word::new(LATEST, "the last result"));
    latest.into_iter().chain(names.into_iter().map(|name| Word::new(name, "")))
}

/// Returns the names of known settings, and their values once a name is there.
fn settings(current: &str, names: &dyn Names) -> Vec<Word> {
    let name = current.split_once('=').map(|(name, _)| name);
    match name.and_then(setting::known) {
        Some(known) => {
            names.settings(known.name).into_iter().map(|setting| Word::new(setting, known.about)).collect()
        }
        None => KNOWN.iter().map(|known| Word::new(format!("{}=", known.name), known.about)).collect(),
    }
}

/// Returns `sched=` with each scheduler.
fn schedulers(names: &dyn Names) -> Vec<Word> {
    let words = scheduler_words(names).into_iter();
    words.map(|word| Word::new(format!("sched={}", word.text), word.about)).collect()
}

/// Returns the schedulers that can be loaded here.
fn scheduler_words(names: &dyn Names) -> Vec<Word> {
    let own = [
        ("kernel", "the kernel's own scheduler"),
        ("cluster:spread", "tasks over idle clusters of cores"),
        ("cluster:pack", "tasks beside the one that wakes them"),
    ];
    let own = own.into_iter().map(|(text, about)| Word::new(text, about));
    let installed = names.schedulers().into_iter().map(|name| Word::new(name, "a sched_ext scheduler"));
    own.chain(installed).collect()
}

fn placements(current: &str, names: &dyn Names) -> Vec<Word> {
    let devices =
        names.devices().into_iter().map(|device| Word::new(format!("near={device}"), "near this device"));
    let nodes =
        names.nodes().into_iter().map(|node| Word::new(format!("near=node{node}"), "near this NUMA node"));
    let mut all: Vec<Word> = PLACEMENTS.iter().map(|(text, about)| Word::new(*text, *about)).collect();
    all.push(Word::new("cpus=", "these CPUs"));
    // The devices of a large machine are many: they follow after `near`.
    if current.starts_with("near") {
        all.extend(nodes.chain(devices));
    } else {
        all.push(Word::new("near=", "near a device or NUMA node"));
    }
    let is_whole = |word: &&Word| word.text == current && !current.ends_with('=') && current != "free";
    if let Some(word) = all.iter().find(is_whole).cloned() {
        all.push(Word::new(format!("{}+nosmt", word.text), "one CPU of each core"));
        all.push(Word::new(format!("{}+isolated", word.text), "isolated CPUs as well"));
    }
    all
}

fn memory(names: &dyn Names) -> Vec<Word> {
    let policies = [
        ("default", "the inherited policy"),
        ("local", "the node of the CPU that first uses a page"),
        ("interleave", "nodes in turn"),
        ("bind", "only the nodes of the plan"),
    ];
    let nodes = names.nodes();
    let of_nodes = nodes.iter().flat_map(|node| {
        ["bind", "interleave"].map(|policy| Word::new(format!("{policy}={node}"), "this node"))
    });
    policies.iter().map(|(text, about)| Word::new(*text, *about)).chain(of_nodes).collect()
}

fn loads() -> Vec<Word> {
    let all = manycore_evaluate::bench::all().map(|section| Word::new(section.name, section.title));
    [Word::new("list", "lists the loads")].into_iter().chain(all).collect()
}
