//! `manycore qos watch`.

use super::{files, ours, system};
use crate::{
    cli::{Format, QosWatch},
    failure::{Failure, Outcome},
    live::{History, Rounds, Screen},
    output,
};
use manycore_linux::resctrl::{
    state::Owner,
    watch::{Look, Moment},
};
use manycore_linux::{
    clock::utc,
    resctrl::{Files, Sampler},
};
use manycore_qos::watch_text::{self, Courses};
use std::collections::BTreeMap;

/// Prints the usage of groups at regular intervals.
///
/// # Errors
/// [`Failure::Missing`] if resctrl is not mounted or has no monitors.
pub fn run(args: &QosWatch) -> Outcome {
    let files = files(&system()?, &args.resctrl)?;
    let is_wanted = |name: &str| {
        let title = if name.is_empty() { "/" } else { name };
        args.groups.is_empty() || args.groups.iter().any(|group| group == title || group == name)
    };
    let mut history = History::open(args.history.as_deref())?;
    let mut sampler = Sampler::new(&files);
    let mut rounds = Rounds::new(args.interval, args.count)?;
    let mut before = sampler.look(is_wanted);
    greet(args, &files, &before)?;
    let mut page = Page::new(args, &files);
    while rounds.wait()? {
        let now = sampler.look(is_wanted);
        let mut moment = Moment::between(utc(), &before, &now, is_wanted);
        page.own(&mut moment);
        history.keep(&moment, args.format)?;
        if args.format == Format::Text {
            page.show(&moment)?;
        }
        before = now;
    }
    Ok(())
}

/// Reports requested groups that do not exist yet, before the first figures.
fn greet(args: &QosWatch, files: &Files, first: &Look) -> Outcome {
    let names = files.names();
    for group in &args.groups {
        if !names.iter().any(|name| name == group.trim_start_matches('/')) {
            output::note(&format!(
                "manycore: there is no group {group:?} now; it is shown as soon as it exists"
            ));
        }
    }
    if args.groups.is_empty() && first.is_empty() {
        let root = files.root().display();
        return Err(Failure::missing(format!(
            "{root} monitors nothing: no group has a readable file below mon_data (the CPU or the kernel does not \
             support monitoring)"
        )));
    }
    Ok(())
}

/// Output of readings as text.
struct Page {
    root: String,
    screen: Option<Screen>,
    courses: Courses,
    /// The header that was printed last.
    head: String,
    owners: BTreeMap<String, Owner>,
}

impl Page {
    fn new(args: &QosWatch, files: &Files) -> Self {
        let screen = if args.format == Format::Text { Screen::of_terminal() } else { None };
        let root = files.root().display().to_string();
        Self { root, screen, courses: Courses::default(), head: String::new(), owners: BTreeMap::new() }
    }

    /// Sets the owners of the groups. The journals are read only when a new group appears.
    fn own(&mut self, moment: &mut Moment) {
        if moment.groups.iter().any(|group| !self.owners.contains_key(&group.name)) {
            let ours = ours();
            let root = self.root.trim_end_matches('/');
            let owner = |name: &str| {
                let folder = format!("{root}/{}", name.trim_start_matches('/'));
                let journal = ours.get(std::path::Path::new(&folder)).map(String::as_str);
                Owner::of(name.trim_start_matches('/'), journal)
            };
            self.owners =
                moment.groups.iter().map(|group| (group.name.clone(), owner(&group.name))).collect();
        }
        for group in &mut moment.groups {
            if let Some(owner) = self.owners.get(&group.name) {
                group.owner = owner.clone();
            }
        }
    }

    fn show(&mut self, moment: &Moment) -> Outcome {
        if let Some(screen) = &mut self.screen {
            self.courses.add(moment);
            return screen.show(&watch_text::table(moment, &self.courses, &self.root));
        }
        let head = watch_text::head(moment);
        let shown = if head == self.head { "" } else { &head };
        output::print(&format!("{shown}{}", watch_text::lines(moment)))?;
        self.head = head;
        Ok(())
    }
}
