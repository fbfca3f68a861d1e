//! Messages from the slow path.

use crate::decision::table::{Held, Table};
use crate::event::{Answer, Fact, What};
use crate::watcher::{Plan, Room, Watcher};
use manycore_linux::clock::now_ns;
use rustix::io::read;

impl Watcher {
    /// Processes all messages of the slow path. Returns whether one of them calls for action at once.
    pub fn take_facts(&mut self) -> bool {
        let mut is_urgent = false;
        let _ = read(&self.wake, &mut [0u8; 8]);
        while let Ok(fact) = self.facts.try_recv() {
            is_urgent |= matches!(fact, Fact::Holdings(_) | Fact::Rules(_) | Fact::Stop);
            match fact {
                Fact::Group { pid, start, group, watches, shield, proof } => {
                    let Self { plan, table, .. } = self;
                    if let Some(process) = table.find_mut(pid).filter(|process| process.seen.start == start) {
                        process.is_known = true;
                        process.group = group;
                        process.watches = process.watches & !plan.group_watches | watches;
                        (process.group_shield, process.proof) = (shield, proof);
                        plan.judge(process);
                    }
                }
                Fact::Shared { pid, start, kib } => {
                    let found = self.table.find_mut(pid).filter(|process| process.seen.start == start);
                    if let Some(process) = found {
                        process.shared_kib = kib;
                    }
                }
                Fact::Holdings(held) => self.take_holdings(&held),
                Fact::NoHoldings => self.can_seek = false,
                Fact::Room(room) => self.take_room(*room),
                Fact::Why(pid) => self.answer(pid),
                Fact::Rules(plan) => self.take_rules(plan),
                Fact::Stop => self.is_over = true,
            }
        }
        is_urgent
    }

    /// Stores the memory that processes hold in addition to their pages. Earlier results are discarded.
    fn take_holdings(&mut self, all: &[((u32, u64), Held)]) {
        for process in self.table.all_mut() {
            process.held = Held::default();
        }
        for ((pid, start), held) in all {
            if let Some(process) = self.table.find_mut(*pid).filter(|process| process.seen.start == *start) {
                process.held = *held;
            }
        }
        (self.held_ns, self.sought_ns) = (now_ns(), None);
        for watch in &mut self.plan.watches {
            watch.seeking_ns = None;
        }
    }

    /// Continues with a larger table.
    fn take_room(&mut self, mut room: Room) {
        if room.capacity() > self.table.capacity() {
            room.table.take_over(&self.table);
            (self.table, self.chooser) = (room.table, room.chooser);
            self.surveyed_ns = 0;
        }
    }

    /// Applies new rules. What is known of growth is kept, and so are processes that were sent a signal.
    fn take_rules(&mut self, mut plan: Box<Plan>) {
        for watch in &mut plan.watches {
            let old = self.plan.watches.iter_mut().find(|old| old.name == watch.name);
            if let Some(old) = old.filter(|old| old.target.is_some()) {
                watch.target = old.target.take();
                watch.incident = std::mem::take(&mut old.incident);
            }
        }
        self.plan = plan;
        self.table.forget();
        self.table.forget_rules();
        let Self { plan, table, .. } = self;
        table.all_mut().iter_mut().for_each(|process| plan.judge(process));
        (self.surveyed_ns, self.who_next) = (0, 0);
        self.ask_who();
    }

    /// Reports what would happen to a process now, for each watch.
    fn answer(&mut self, pid: u32) {
        self.refresh();
        for at in 0..self.plan.watches.len() {
            let finding = self.find(at);
            let watch = &self.plan.watches[at];
            let process = self.table.find(pid).copied();
            let least = watch.reading.total / 10;
            let window = self.table.recent(at, &watch.reading, least);
            let growth = process.zip(window).map(|(process, window)| {
                let age = watch.reading.at_ns.saturating_sub(window.from_ns);
                (Table::growth(&process, &window), window.fall, age)
            });
            let is_watched = process.is_some_and(|process| process.watches >> at & 1 == 1);
            self.tell(at, &What::Answer(Answer { process, growth, is_watched, finding }));
        }
    }
}
