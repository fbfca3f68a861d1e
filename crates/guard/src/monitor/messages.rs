//! Messages from the slow path.

use crate::decision::process_table::{ExtraMemory, ProcessTable};
use crate::event::{EventDetail, QueryAnswer, SlowPathMessage};
use crate::monitor::{Monitor, TableSpace, WatchPlan};
use manycore_linux::clock::now_ns;

impl Monitor {
    /// Processes all messages of the slow path. Returns whether one of them calls for action at once.
    pub fn receive_messages(&mut self) -> bool {
        let mut is_urgent = false;
        self.wake_up.clear();
        while let Ok(message) = self.messages.try_recv() {
            is_urgent |= matches!(
                message,
                SlowPathMessage::ExtraMemory(_) | SlowPathMessage::Rules(_) | SlowPathMessage::Stop
            );
            match message {
                SlowPathMessage::Group { pid, start, group, watches, protection, met_rules } => {
                    let Self { plan, table, .. } = self;
                    if let Some(process) =
                        table.find_mut(pid).filter(|process| process.reading.start == start)
                    {
                        process.is_known = true;
                        process.group = group;
                        process.watches = process.watches & !plan.group_watches | watches;
                        (process.group_protection, process.met_rules) = (protection, met_rules);
                        plan.apply_rules(process);
                    }
                }
                SlowPathMessage::Shared { pid, start, kib } => {
                    let found = self.table.find_mut(pid).filter(|process| process.reading.start == start);
                    if let Some(process) = found {
                        process.shared_kib = kib;
                    }
                }
                SlowPathMessage::ExtraMemory(held) => self.store_extra_memory(&held),
                SlowPathMessage::NoSearch => self.can_search = false,
                SlowPathMessage::Space(space) => self.replace_table(*space),
                SlowPathMessage::Query(pid) => self.answer(pid),
                SlowPathMessage::Rules(plan) => self.replace_rules(plan),
                SlowPathMessage::Stop => self.is_over = true,
            }
        }
        is_urgent
    }

    /// Stores the memory that processes hold in addition to their pages. Earlier results are discarded.
    fn store_extra_memory(&mut self, all: &[((u32, u64), ExtraMemory)]) {
        for process in self.table.all_mut() {
            process.held = ExtraMemory::default();
        }
        for ((pid, start), held) in all {
            if let Some(process) = self.table.find_mut(*pid).filter(|process| process.reading.start == *start)
            {
                process.held = *held;
            }
        }
        (self.extra_memory_ns, self.search_started_ns) = (now_ns(), None);
        for watch in &mut self.plan.watches {
            watch.holder_wait_ns = None;
        }
    }

    /// Continues with a larger table.
    fn replace_table(&mut self, mut space: TableSpace) {
        if space.capacity() > self.table.capacity() {
            space.table.copy_from(&self.table);
            (self.table, self.finder) = (space.table, space.finder);
            self.surveyed_ns = 0;
        }
    }

    /// Applies new rules. What is known of growth is kept, and so are processes that were sent a signal.
    fn replace_rules(&mut self, mut plan: Box<WatchPlan>) {
        for watch in &mut plan.watches {
            let old = self.plan.watches.iter_mut().find(|old| old.name == watch.name);
            if let Some(old) = old.filter(|old| old.target.is_some()) {
                watch.target = old.target.take();
                watch.shortage = std::mem::take(&mut old.shortage);
            }
        }
        self.plan = plan;
        self.table.discard_marks();
        self.table.discard_rules();
        let Self { plan, table, .. } = self;
        table.all_mut().iter_mut().for_each(|process| plan.apply_rules(process));
        (self.surveyed_ns, self.next_group_pid) = (0, 0);
        self.request_groups();
    }

    /// Reports what would happen to a process now, for each watch.
    fn answer(&mut self, pid: u32) {
        self.refresh_table();
        // It may have started, or executed another program, since the survey.
        let Self { plan, table, scanner, .. } = self;
        scanner.scan_one(table, pid, now_ns(), |process| plan.apply_rules(process));
        for at in 0..self.plan.watches.len() {
            let finding = self.find_cause(at);
            let watch = &self.plan.watches[at];
            let process = self.table.find(pid).copied();
            let least = watch.reading.total_bytes / 10;
            let window = self.table.recent_window(at, &watch.reading, least);
            let growth = process.zip(window).map(|(process, window)| {
                let age = watch.reading.at_ns.saturating_sub(window.start_ns);
                (ProcessTable::growth(&process, &window), window.decrease, age)
            });
            let is_watched = process.is_some_and(|process| process.watches >> at & 1 == 1);
            self.send_event(at, &EventDetail::Answer(QueryAnswer { process, growth, is_watched, finding }));
        }
    }
}
