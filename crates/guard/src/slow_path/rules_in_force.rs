//! Which rules are in force, and which processes are in the groups that they watch.

use crate::decision::event_line::EventKind;
use crate::event::SlowPathMessage;
use crate::monitor::WatchPlan;
use crate::rules::{Rules, WatchSubject};
use crate::slow_path::{GUARD, SlowPath, SlowPathState};
use manycore_linux::{available_memory::GroupMemory, tasks};
use std::{collections::BTreeSet, fs, path::Path};

impl SlowPath {
    /// Loads the rules again. Keeps the old ones if the new ones are invalid.
    pub(super) fn reload(&mut self, state: &mut SlowPathState) {
        let loaded = Rules::load(self.rules.path.as_deref(), &self.extra_cgroups);
        let opened = loaded.and_then(|rules| {
            let (plan, notes) = WatchPlan::open(&rules)?;
            Ok((rules, plan, notes))
        });
        match opened {
            Ok((rules, plan, notes)) => {
                let names = rules.watches.iter().map(|watch| watch.name.clone());
                state.metrics = state.metrics.renewed(names);
                self.release_all(state);
                let former = std::mem::replace(&mut self.rules, rules);
                self.activate_rules(state, plan, &former);
                for note in notes.into_iter().chain(["the new rules now apply".to_owned()]) {
                    self.report_note(state, GUARD, EventKind::Note, |line| line.note = note);
                }
            }
            Err(failure) => {
                let note = format!("the old rules still apply: {failure}");
                self.report_note(state, GUARD, EventKind::Note, |line| line.note = note);
            }
        }
    }

    /// Reports to the monitor which processes have entered or left a watched group. Opens the group again if
    /// it was created anew.
    pub(super) fn report_membership(&mut self, state: &mut SlowPathState, watch: usize) {
        let Some(WatchSubject::Group { folder, mount }) =
            self.rules.watches.get(watch).map(|watch| &watch.of)
        else {
            return;
        };
        if state.unreadable.contains(&watch) {
            // The open files belong to a removed group of the same name.
            let space = GroupMemory::open(folder, mount);
            if space.is_ok_and(|mut space| space.read(0).is_some()) {
                self.report_note(state, watch, EventKind::Note, |line| {
                    "can be read".clone_into(&mut line.note);
                });
                self.open_again(state);
            }
            return;
        }
        let members = members(folder);
        let before = state.members.insert(watch, members.clone()).unwrap_or_default();
        for pid in members.symmetric_difference(&before) {
            if let Some(start) = tasks::start_time(*pid) {
                self.identify(state, *pid, start);
            }
        }
    }

    /// Opens everything that is watched again, with the same rules.
    fn open_again(&mut self, state: &mut SlowPathState) {
        if let Ok((plan, _)) = WatchPlan::open(&self.rules) {
            self.activate_rules(state, plan, &self.rules);
        }
    }

    /// Puts our rules in force in the monitor.
    fn activate_rules(&self, state: &mut SlowPathState, mut plan: WatchPlan, former: &Rules) {
        state.rules += 1;
        plan.number = state.rules;
        state.former = former.watches.iter().map(|watch| watch.name.clone()).collect();
        state.unreadable.clear();
        state.members.clear();
        self.messages.send(SlowPathMessage::Rules(Box::new(plan)));
    }
}

/// Returns the processes of a control group and of all groups below it.
fn members(folder: &Path) -> BTreeSet<u32> {
    let own = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut all: BTreeSet<u32> = own.lines().filter_map(|line| line.parse().ok()).collect();
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        all.extend(members(&entry.path()));
    }
    all
}
