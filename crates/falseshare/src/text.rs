//! The findings of `falseshare` for reading: for each finding the variable or memory that holds the bytes, a
//! picture of the line, the code that accesses it, and the fix.

mod picture;
#[cfg(test)]
mod tests;

use crate::sharing::{
    Allocation, CodeSite, CommandEnd, DataOwner, Engine, Finding, Findings, Frame, SeparableField,
    SharingClass, ThreadGroup, Variable, format_byte_ranges,
};
use manycore_render::{
    document::{Document, Extent, Item},
    figure::grouped,
    table::{Align, Table},
    terminal::Mark,
};
use manycore_text::units::{self, counted};

/// Maximum number of threads in a picture, and of lines of code in a table.
const MAX_ROWS: usize = 8;

/// Maximum number of thread ids, variables or blocks in one list.
const MAX_NAMED: usize = 4;

/// Indentation of the details of a finding, in columns.
const INDENT: usize = 3;

/// Returns the findings. A brief result has the most important ones, and of true sharing and of sharing in libraries
/// only how much there is.
pub fn render(findings: &Findings, extent: Extent) -> Document {
    let mut document = Document::new();
    let (mark, found) = conclusion(findings);
    document.item(Item::new(found, Some(mark), summary(findings)));
    document.gap();
    let mut left = extent.findings();
    let mut shown = |all: &[Finding]| {
        let count = all.len().min(left);
        left -= count;
        count
    };
    for (at, finding) in findings.false_sharing[..shown(&findings.false_sharing)].iter().enumerate() {
        at_length(finding, &format!("{}.", at + 1), &mut document);
    }
    let others = [
        (&findings.latent, LATENT, true),
        (&findings.in_libraries, LIBRARIES, false),
        (&findings.true_sharing, TRUE, false),
    ];
    for (all, title, is_long) in others {
        section(&all[..shown(all)], title, is_long, &mut document);
    }
    let count = findings.false_sharing.len() + others.iter().map(|(all, ..)| all.len()).sum::<usize>();
    document.left_out(count, extent);
    for note in &findings.notes {
        document.item(Item::new("not seen:", Some(Mark::Warning), note));
    }
    document.paragraph(timing(&findings.engine));
    document
}

const LATENT: &str =
    "LATENT: no problem with this machine's lines, but with longer ones, or if the data moves by some bytes:";

const LIBRARIES: &str = "In libraries or in the language's runtime, which this program cannot change:";

const TRUE: &str = "True sharing: threads use the same bytes; padding helps only where a finding says so:";

fn section(findings: &[Finding], title: &str, is_long: bool, document: &mut Document) {
    if findings.is_empty() {
        return;
    }
    document.strong(title);
    for finding in findings {
        if is_long {
            at_length(finding, "-", document);
        } else {
            in_brief(finding, document);
        }
    }
    if !is_long {
        document.gap();
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

fn in_brief(finding: &Finding, document: &mut Document) {
    let sites: Vec<String> = finding.sites.iter().take(2).map(|site| site.frame.brief()).collect();
    let mut item = Item::new("-", None, heading(finding)).with_detail("by", sites.join(", "));
    if !finding.fields.is_empty() {
        item = item.with_detail("false in part", describe_separable(finding));
    }
    if finding.class == SharingClass::True {
        item = item.with_detail("fix", finding.fix.text());
    }
    document.item(item);
}

fn at_length(finding: &Finding, number: &str, document: &mut Document) {
    let mark = if finding.class == SharingClass::True { None } else { Some(Mark::Bad) };
    document.item(Item {
        label_columns: INDENT - 1,
        is_answer: true,
        ..Item::new(number, mark, heading(finding))
    });
    for (name, value) in [("memory", describe_memory(finding)), ("threads", threads(&finding.threads))] {
        document.item(Item { indent: INDENT, label_columns: 8, ..Item::new(name, None, value) });
    }
    document.gap();
    document.picture(picture::pictures(finding));
    document.gap();
    sites(finding, document);
    document.item(Item { indent: INDENT, ..Item::new("fix:", Some(Mark::Strong), finding.fix.text()) });
    document.gap();
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

/// Adds the table of the code that accesses the lines.
fn sites(finding: &Finding, document: &mut Document) {
    let mut table = Table::numeric("", ("code", Align::Left), &["threads", "reads", "writes"]);
    table.head.insert(1, ("on the worst line".to_owned(), Align::Left));
    let notable = finding.significant_sites();
    for site in shown_sites(&notable) {
        let touched = if site.bytes.is_empty() { "-".to_owned() } else { format_byte_ranges(&site.bytes) };
        let [reads, writes] = [site.reads, site.writes].map(|count| grouped(count as f64));
        table.rows.push(vec![site.frame.brief(), touched, site.threads.to_string(), reads, writes]);
    }
    let [more, left_out] = [notable.len().saturating_sub(MAX_ROWS), finding.sites.len() - notable.len()];
    if more > 0 {
        table.notes.push(format!("and {more} more lines of code"));
    }
    if left_out > 0 {
        let lines = counted(left_out, "line");
        table.notes.push(format!(
            "not shown: {lines} of code with less than 0.1 % of the accesses of the busiest line of code"
        ));
    }
    document.table(table);
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

/// Returns what was found.
fn conclusion(findings: &Findings) -> (Mark, String) {
    let (mark, found) = match findings.false_sharing.len() {
        0 if findings.unfollowed_accesses > 0 => {
            (Mark::Warning, "no false sharing among the accesses that were followed")
        }
        0 if findings.unobserved_processes > 0 => {
            (Mark::Warning, "no false sharing in the programs that were observed")
        }
        0 if findings.possibly_own > 0 => (Mark::Warning, "no false sharing in the program's named code"),
        0 => (Mark::Good, "no false sharing"),
        1 => (Mark::Bad, "1 case of false sharing"),
        several => return (Mark::Bad, format!("{several} cases of false sharing")),
    };
    (mark, found.to_owned())
}

/// Returns what was observed.
fn summary(findings: &Findings) -> String {
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
        "(threshold: {} false-sharing transfers); the program {end} after {:.1} s; followed {}{processes} and {} \
         accesses",
        findings.threshold,
        findings.seconds,
        counted(findings.threads, "thread"),
        grouped(findings.accesses as f64)
    )
}
