//! The help: all keys.

use super::{View, pen::Pen};
use unicode_width::UnicodeWidthStr;

/// Keys and what they do. A line without a key is a heading.
const HELP: [(&str, &str); 53] = [
    ("", "Views"),
    (
        "1 to 8, Tab, Shift-Tab",
        "CPUs and tasks, tasks, nodes, interrupts, control groups, virtual machines, latency, findings",
    ),
    ("q, F10, Ctrl-C", "quit"),
    ("?, F1, h", "this help: Down and Up scroll it, q ends the program, any other key closes it"),
    ("Esc", "undo the last restriction, search or selection"),
    ("", "Time"),
    ("Space", "pause, go on"),
    ("Left, Right", "one picture back, forth (the last 10 minutes, or the recording)"),
    ("Shift-B, Shift-F", "ten pictures back, forth"),
    ("Home, End", "earliest picture; newest one, and go on"),
    ("+, -", "shorter, longer interval between samples"),
    ("", "The map of CPUs"),
    ("m, M", "next, previous figure: use, wait, steal, frequency, interrupts, temperature"),
    ("u", "level of the units that [ and ] choose: CPU, core, cluster, LLC, node, package"),
    ("[, ]", "only tasks that were last on the previous, next unit"),
    ("click", "only tasks of this CPU, unit, or line; again: all"),
    ("", "Tables"),
    ("Up, Down, Page Up, Page Down", "select a row, or scroll; also the mouse and its wheel"),
    ("g, G", "first row, last row"),
    ("<, >, F6", "previous, next column sorts; also a click on its title"),
    ("r, I", "reverse the order"),
    ("P, W, N, R", "sort by CPU, by wait for a CPU, by PID, by resident memory"),
    ("/, F4", "filter: only rows with this text"),
    ("s, F3; n", "search; next match"),
    ("", "Tasks"),
    ("H", "threads, or processes with the sums of their threads"),
    ("Enter", "threads of the selected process"),
    ("t, F5", "tree"),
    ("K", "with or without kernel threads"),
    ("o", "columns about scheduling, or about memory, pressure and bandwidth"),
    ("d", "memory by node of the selected process"),
    ("", "Columns of tasks"),
    ("CPU%", "time on a CPU, in percent of one CPU"),
    ("WAIT%", "share of the time in which it was runnable but waited for a CPU (run delay)"),
    ("CPU; CLUSTER, LLC or NODE", "where it ran last"),
    ("MIGR/s", "migrations per second; with >= the lower bound that /proc shows"),
    ("IN-CL, X-CL, X-LLC, X-NODE", "the same within a cluster, across clusters, last-level caches, nodes"),
    ("IPC; MISS/s", "instructions per cycle; cache misses per second: where the CPUs have counters"),
    ("SWITCH/s, VOL/s, INVOL/s", "context switches: all, because it blocked, because it was displaced"),
    ("MEMORY", "resident set of the process"),
    ("ALLOWED", "CPUs that it may use"),
    ("", "Columns of the key o"),
    (
        "REMOTE%; BY NODE",
        "memory on other nodes than those where it ran last; memory by node. One process is read per sample",
    ),
    (
        "PSI-CPU, PSI-MEM, PSI-IO",
        "percent of the last 10 s in which a task of its control group waited for CPUs, memory, disks",
    ),
    ("BANDWIDTH; CACHE", "to and from memory per second; in the last-level caches: of its group of resctrl"),
    ("GROUP", "the last part of its control group's path"),
    ("", "Screen"),
    ("L", "dark or light colours"),
    ("c", "colours or characters only"),
    ("a", "ASCII characters only"),
    ("Ctrl-L", "draw again"),
    ("Ctrl-Z", "suspend"),
    ("", ""),
];

impl View {
    /// Draws the help from its first shown line on.
    pub(super) fn draw_help(&mut self, pen: &mut Pen<'_>) {
        let width = pen.area.width;
        let keys = (width / 3).clamp(10, 30);
        let mut lines: Vec<(String, String)> = Vec::new();
        for (key, text) in HELP {
            let room = usize::from(width.saturating_sub(keys + 3).max(1));
            if key.is_empty() {
                lines.push((text.to_owned(), String::new()));
                continue;
            }
            let wrapped = super::draw::broken(text, room);
            let mut names = super::draw::broken(key, usize::from(keys));
            names.resize(names.len().max(wrapped.len()), String::new());
            let rest = wrapped.into_iter().chain(std::iter::repeat(String::new()));
            lines.extend(names.into_iter().zip(rest));
        }
        let most = (lines.len() as u16).saturating_sub(pen.area.height);
        let first = self.help.unwrap_or(0).min(most);
        self.help = self.help.map(|_| first);
        let (label, strong) = (pen.theme.label(), pen.theme.strong());
        for (at, (key, text)) in lines.iter().skip(first.into()).enumerate() {
            let y = at as u16;
            if text.is_empty() && !key.is_empty() && is_heading(key) {
                pen.text(0, y, key, strong);
            } else {
                pen.text_within(2, y, key, keys.max(key.width() as u16), label);
                pen.text(keys + 3, y, text, ratatui::style::Style::new());
            }
        }
    }
}

fn is_heading(text: &str) -> bool {
    HELP.iter().any(|(key, heading)| key.is_empty() && *heading == text)
}
