//! The findings of `falseshare` as text: for each finding the variable or memory that holds the bytes, a
//! picture of the line, the code that accesses it, and the fix.

#[cfg(test)]
mod tests;

use crate::sharing::{
    Allocation, CodeSite, CommandEnd, DataOwner, Engine, Finding, Findings, Frame, SeparableField,
    SharingClass, ThreadAccess, ThreadGroup, Variable, format_byte_ranges,
};
use manycore_render::{
    figure::grouped,
    table::paragraph,
    table::{Align, Table},
};
use manycore_text::{
    names::{printable, printable_text},
    units::{self, counted},
};
use std::collections::BTreeMap;

/// Width of the picture of a line, in columns.
const COLUMNS: u32 = 64;

/// Maximum number of threads in a picture, and of lines of code in a table.
const MAX_ROWS: usize = 8;

/// Maximum number of thread ids, variables or blocks in one list.
const MAX_NAMED: usize = 4;

/// Indentation of the details of a finding, in columns.
const INDENT: usize = 3;

/// Renders the findings as text, in lines of at most 100 columns; tables may be a little wider.
pub fn render(findings: &Findings) -> String {
    let mut text = String::new();
    for (at, finding) in findings.false_sharing.iter().enumerate() {
        render_finding(finding, &format!("{}. {}", at + 1, heading(finding)), true, &mut text);
    }
    section(&findings.latent, LATENT, true, &mut text);
    section(&findings.in_libraries, LIBRARIES, false, &mut text);
    section(&findings.true_sharing, TRUE, false, &mut text);
    for note in &findings.notes {
        paragraph("not seen: ", note, 0, &mut text);
    }
    paragraph("", &timing(&findings.engine), 0, &mut text);
    paragraph("", &summary(findings), 0, &mut text);
    // Names of programs, threads and functions come from the observed program and may contain control characters.
    printable_text(&text)
}

const LATENT: &str =
    "LATENT: no problem with this machine's lines, but with longer ones, or if the data moves by some bytes:";

const LIBRARIES: &str = "In libraries or in the language's runtime, which this program cannot change:";

const TRUE: &str = "True sharing: threads use the same bytes; padding helps only where a finding says so:";

fn section(findings: &[Finding], title: &str, at_length: bool, text: &mut String) {
    if findings.is_empty() {
        return;
    }
    paragraph("", title, 0, text);
    for finding in findings {
        render_finding(finding, &format!("- {}", heading(finding)), at_length, text);
    }
    if !at_length {
        text.push('\n');
    }
}

fn heading(finding: &Finding) -> String {
    let (kind, of) = match finding.class {
        SharingClass::False => ("FALSE SHARING", true),
        SharingClass::Mixed => ("FALSE SHARING and true sharing", true),
        SharingClass::True => ("", false),
    };
    let lines = counted(finding.lines, "line");
    let layout = match (finding.layout.line_bytes, finding.layout.shift_bytes) {
        (bytes, 0) => format!("{lines} of {bytes} bytes"),
        (bytes, shift) => format!("{lines} of {bytes} bytes, shifted by {shift}"),
    };
    let transfers = grouped(finding.transfers as f64);
    if of {
        let false_transfers = grouped(finding.false_transfers as f64);
        format!("{kind}: {false_transfers} false-sharing transfers (of {transfers} in all) on {layout}")
    } else {
        format!("{} cache-line transfers on {layout}: {}", transfers, describe_memory(finding))
    }
}

fn render_finding(finding: &Finding, heading: &str, at_length: bool, text: &mut String) {
    paragraph("", heading, 0, text);
    if !at_length {
        let sites: Vec<String> = finding.sites.iter().take(2).map(|site| site.frame.brief()).collect();
        paragraph("by ", &sites.join(", "), INDENT, text);
        if !finding.fields.is_empty() {
            paragraph("false in part: ", &describe_separable(finding), INDENT, text);
        }
        if finding.class == SharingClass::True {
            paragraph("fix: ", finding.fix.text(), INDENT, text);
        }
        return;
    }
    paragraph("memory   ", &describe_memory(finding), INDENT, text);
    paragraph("threads  ", &threads(&finding.threads), INDENT, text);
    text.push_str(&picture(finding));
    text.push_str(&sites(finding));
    paragraph("fix: ", finding.fix.text(), INDENT, text);
    text.push('\n');
}

/// Describes how many transfers separate lines would save where the rest is true sharing.
fn describe_separable(finding: &Finding) -> String {
    let field = |field: &SeparableField| {
        format!("{} (written at {})", format_byte_ranges(&field.bytes), field.frame.brief())
    };
    format!(
        "{} of {} transfers are between different bytes; a separate line for each of these fields would save them: {}",
        grouped(finding.false_transfers as f64),
        grouped(finding.transfers as f64),
        list(&finding.fields, field)
    )
}

/// Names the variables, blocks or memory that hold the bytes.
fn describe_memory(finding: &Finding) -> String {
    let place = match &finding.data {
        DataOwner::Globals { variables } => list(variables, variable),
        DataOwner::Heap { blocks } if blocks.is_empty() => "the heap".to_owned(),
        DataOwner::Heap { blocks } => format!("the heap: {}", list(blocks, allocation)),
        DataOwner::Module { path } => format!("data of {path}"),
        DataOwner::Stack { thread, .. } if thread.is_empty() => "the stack of a thread".to_owned(),
        DataOwner::Stack { thread, tid: Some(tid) } => {
            format!("the stack or thread-local data of {thread} ({tid})")
        }
        DataOwner::Stack { thread, tid: None } => {
            format!("stacks or thread-local data of several {thread} threads")
        }
        DataOwner::GoHeap => "the Go heap".to_owned(),
        DataOwner::Mapping { bytes } => format!("mapped memory of {}", units::bytes(*bytes)),
        DataOwner::Unknown => "memory of unknown origin".to_owned(),
    };
    match finding.pids.len() {
        0 | 1 => place,
        several => format!("{place} (in {several} processes)"),
    }
}

fn variable(variable: &Variable) -> String {
    let module = variable.module.rsplit('/').next().unwrap_or_default();
    format!("{} (global of {} in {module})", variable.name, counted(variable.bytes as usize, "byte"))
}

fn allocation(block: &Allocation) -> String {
    let callers: Vec<String> = block.callers.iter().map(Frame::brief).collect();
    let size = counted(block.bytes as usize, "byte");
    if callers.is_empty() { size } else { format!("{size} from {}", callers.join(", from ")) }
}

fn list<T>(items: &[T], name: impl Fn(&T) -> String) -> String {
    let mut named: Vec<String> = items.iter().take(MAX_NAMED).map(name).collect();
    if items.len() > MAX_NAMED {
        named.push(format!("{} more", items.len() - MAX_NAMED));
    }
    named.join("; ")
}

/// Lists threads by name, such as `8 threads named worker (41, 42, 43, 44, ...); main thread (40)`.
fn threads(parties: &[ThreadGroup]) -> String {
    let named = |party: &ThreadGroup| {
        let ids: Vec<String> = party.tids.iter().take(MAX_NAMED).map(i32::to_string).collect();
        let more = if party.tids.len() > MAX_NAMED { ", ..." } else { "" };
        match party.tids.len() {
            1 => format!("{} ({})", party.name, ids[0]),
            several => format!("{several} threads named {} ({}{more})", party.name, ids.join(", ")),
        }
    };
    list(parties, named)
}

/// Draws the bytes of the worst line, one row for each thread: `w` for written bytes, `r` for bytes that are only read.
fn picture(finding: &Finding) -> String {
    let mut rows: BTreeMap<(i32, &str), Vec<&ThreadAccess>> = BTreeMap::new();
    for touch in &finding.accesses {
        rows.entry((touch.tid, &touch.name)).or_default().push(touch);
    }
    let line = finding.layout.line_bytes;
    let scale = line.div_ceil(COLUMNS).max(1);
    let label =
        |(tid, name): (i32, &str)| format!("{} {tid}", printable(name).chars().take(16).collect::<String>());
    let width = rows.keys().map(|key| label(*key).chars().count()).max().unwrap_or(0);
    let marks: Vec<String> =
        (0..line / scale).step_by(8).map(|column| format!("{:<8}", column * scale)).collect();
    let ruler = marks.concat();
    let mut text = format!("\n{:INDENT$}{:width$}  {}\n", "", "", ruler.trim_end());
    let more = rows.len().saturating_sub(MAX_ROWS);
    for (key, touches) in rows.into_iter().take(MAX_ROWS) {
        let cells: String = (0..line / scale).map(|column| cell(column * scale, scale, &touches)).collect();
        text.push_str(&format!("{:INDENT$}{:<width$}  {cells}\n", "", label(key)));
    }
    if more > 0 {
        text.push_str(&format!("{:INDENT$}and {more} more threads\n", ""));
    }
    text.push('\n');
    text
}

/// Returns the letter for a range of bytes: `w` if the thread writes to them, `r` if it only reads, else `.`.
fn cell(first: u32, bytes: u32, touches: &[&ThreadAccess]) -> char {
    let here = touches.iter().filter(|touch| {
        touch.offset < first + bytes && first < touch.offset.saturating_add(touch.bytes.max(1))
    });
    here.map(|touch| if touch.writes > 0 { 'w' } else { 'r' }).max().unwrap_or('.')
}

/// Renders the table of the code that accesses the lines.
fn sites(finding: &Finding) -> String {
    let mut table = Table::numeric("", ("code", Align::Left), &["threads", "reads", "writes"]);
    table.head.insert(1, ("on the worst line".to_owned(), Align::Left));
    let notable = finding.significant_sites();
    for site in shown_sites(&notable) {
        let touched = if site.bytes.is_empty() { "-".to_owned() } else { format_byte_ranges(&site.bytes) };
        let [reads, writes] = [site.reads, site.writes].map(|count| grouped(count as f64));
        table.rows.push(vec![site.frame.brief(), touched, site.threads.to_string(), reads, writes]);
    }
    let mut text = table.text().lines().fold(String::new(), |text, line| format!("{text} {line}\n"));
    let [more, left_out] = [notable.len().saturating_sub(MAX_ROWS), finding.sites.len() - notable.len()];
    if more > 0 {
        text.push_str(&format!("   and {more} more lines of code\n"));
    }
    if left_out > 0 {
        let lines = counted(left_out, "line");
        text.push_str(&format!(
            "   not shown: {lines} of code with less than 0.1 % of the accesses of the busiest line of code\n"
        ));
    }
    text
}

/// Returns the busiest lines of code. Where none of them writes, the one that writes most takes the last
/// position, since writes are what moves the line between caches.
fn shown_sites<'a>(sites: &[&'a CodeSite]) -> Vec<&'a CodeSite> {
    let mut shown: Vec<&CodeSite> = sites.iter().take(MAX_ROWS).copied().collect();
    if shown.len() == MAX_ROWS && shown.iter().all(|site| site.writes == 0) {
        shown.pop();
        shown.extend(sites.iter().skip(MAX_ROWS - 1).copied().max_by_key(|site| site.writes));
    }
    shown
}

/// Describes what the engine measured, and its limits.
fn timing(engine: &Engine) -> String {
    match engine {
        Engine::Emulator { version } => format!(
            "Every access of the program's instructions was followed in an emulator ({version}), and the accesses of \
             system calls that move data (read, recv, write, send and similar; data that other calls write is not \
             seen). Which lines, bytes and code are shared is exact. The number of transfers is that of this run, \
             because threads do not run at their native relative speed. The cost of a transfer is not measured."
        ),
        Engine::Sampling { events, lost } => format!(
            "The hardware sampled some of the accesses ({}; {} samples lost). Transfers are counted among samples \
             only, and the width of an access is unknown.",
            events.join(", "),
            grouped(*lost as f64)
        ),
    }
}

fn summary(findings: &Findings) -> String {
    let found = match findings.false_sharing.len() {
        0 if findings.unfollowed_accesses > 0 => {
            "no false sharing among the accesses that were followed".to_owned()
        }
        0 if findings.unobserved_processes > 0 => {
            "no false sharing in the programs that were observed".to_owned()
        }
        0 if findings.possibly_own > 0 => "no false sharing in the program's named code".to_owned(),
        0 => "no false sharing".to_owned(),
        1 => "1 case of false sharing".to_owned(),
        several => format!("{several} cases of false sharing"),
    };
    let end = match findings.end {
        CommandEnd::Status(0) => "exited with status 0".to_owned(),
        CommandEnd::Status(status) => format!("exited with status {status}"),
        CommandEnd::Signal(signal) => format!("was ended by signal {signal}"),
        CommandEnd::Timeout => "was stopped at the time limit".to_owned(),
        CommandEnd::Interrupted => "was interrupted".to_owned(),
    };
    let processes =
        if findings.processes == 1 { String::new() } else { format!(" of {} processes", findings.processes) };
    format!(
        "{found} (threshold: {} false-sharing transfers); the program {end} after {:.1} s; followed {}{processes} and \
         {} accesses",
        findings.threshold,
        findings.seconds,
        counted(findings.threads, "thread"),
        grouped(findings.accesses as f64)
    )
}
