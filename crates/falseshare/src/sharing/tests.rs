//! Findings from observations that are made by hand.

mod attribution;

use super::{fix::Language, *};
use proptest::prelude::*;

const LINE: LineLayout = LineLayout { line_bytes: 64, shift_bytes: 0 };
const SETTINGS: Settings = Settings { threshold: 50 };

/// Returns an access of eight bytes by a thread at a code address.
fn access(thread: usize, code: u64, offset: u32, reads: u64, writes: u64) -> LineAccess {
    LineAccess { thread, code, offset, bytes: 8, reads, writes, of_lock: false }
}

fn line(address: u64, false_transfers: u64, transfers: u64, accesses: &[LineAccess]) -> SharedLine {
    SharedLine { address, false_transfers, transfers, accesses: accesses.to_vec(), ..SharedLine::default() }
}

fn code(address: u64, frames: &[(&str, &str, u32)]) -> Code {
    let frame = |&(function, file, line): &(&str, &str, u32)| Frame {
        function: function.to_owned(),
        file: (!file.is_empty()).then(|| file.to_owned()),
        line: (line > 0).then_some(line),
    };
    let frames = frames.iter().map(frame).collect();
    Code { address, module: "/bin/prog".to_owned(), frames, is_exchange: false }
}

/// Returns a process with a main thread and workers, whose code is at addresses 1 to 5.
fn process(workers: i32, lines: Vec<SharedLine>) -> Process {
    let thread = |tid: i32| Thread { tid, name: if tid == 10 { "prog" } else { "worker" }.to_owned() };
    Process {
        pid: 10,
        program: "/bin/prog".to_owned(),
        threads: (10..=10 + workers).map(thread).collect(),
        modules: vec![MappedFile { start: 0, end: 100, file_offset: 0, path: "/bin/prog".to_owned() }],
        names: Names {
            code: vec![
                code(1, &[("one", "src/main.c", 11)]),
                code(2, &[("two", "src/main.c", 22)]),
                code(
                    3,
                    &[
                        ("fetch_add", "/rustc/abc/library/core/src/sync/atomic.rs", 9),
                        ("three", "src/lib.rs", 33),
                    ],
                ),
                code(4, &[("runtime.lock2", "/usr/local/go/src/runtime/lock.go", 4)]),
                code(5, &[("malloc+0x10", "", 0)]),
            ],
            globals: vec![
                Global { name: "counters".to_owned(), start: 0x1000, bytes: 256 },
                Global { name: "limit".to_owned(), start: 0x2000, bytes: 8 },
            ],
            ..Names::default()
        },
        lines,
        ..Process::default()
    }
}

fn seen(process: Process) -> Observation {
    let layouts = vec![
        LINE,
        LineLayout { line_bytes: 128, shift_bytes: 0 },
        LineLayout { line_bytes: 64, shift_bytes: 32 },
    ];
    Observation { layouts, processes: vec![process], ..Observation::default() }
}

fn findings_of(lines: Vec<SharedLine>) -> Findings {
    Findings::from_observation(&seen(process(3, lines)), SETTINGS)
}

fn in_module(line: SharedLine) -> SharedLine {
    SharedLine { memory: MemoryKind::Module { module: 0 }, ..line }
}

#[test]
fn the_lines_of_one_array_are_one_finding() {
    let lines: Vec<SharedLine> = (0..3)
        .map(|at| {
            let accesses = [access(1, 1, 0, 100, 100), access(2, 1, 8, 100, 100)];
            in_module(line(0x1000 + 64 * at, 40 + at, 41 + at, &accesses))
        })
        .collect();
    let findings = findings_of(lines);
    let [finding] = &findings.false_sharing[..] else { panic!("{findings:#?}") };
    assert_eq!(
        (finding.class, finding.lines, finding.false_transfers, finding.address),
        (SharingClass::False, 3, 123, 0x1080)
    );
    let [site] = &finding.sites[..] else { panic!("{finding:#?}") };
    assert_eq!((site.frame.brief().as_str(), site.threads), ("main.c:11 (one)", 2));
    assert_eq!((site.reads, site.writes, &site.bytes), (600, 600, &vec![(0, 16)]));
    assert_eq!(finding.threads, [ThreadGroup { name: "worker".to_owned(), tids: vec![11, 12] }]);
    assert!(matches!(finding.fix, Fix::PerThread(_)), "{:?}", finding.fix);
}

#[test]
fn share_of_false_transfers_decides_the_class() {
    for (false_transfers, class) in [
        (100, SharingClass::False),
        (80, SharingClass::False),
        (60, SharingClass::Mixed),
        (40, SharingClass::True),
        (0, SharingClass::True),
    ] {
        assert_eq!(SharingClass::from_counts(false_transfers, 100), class, "{false_transfers}");
    }
    let shared = |false_transfers| {
        in_module(line(0x1000, false_transfers, 1000, &[access(1, 1, 0, 9, 9), access(2, 1, 0, 9, 9)]))
    };
    let findings = findings_of(vec![shared(250)]);
    assert!(findings.false_sharing.is_empty() && findings.true_sharing.len() == 1, "{findings:#?}");
    assert!(matches!(findings.true_sharing[0].fix, Fix::PerThread(_)));
    assert_eq!(findings_of(vec![shared(600)]).false_sharing[0].class, SharingClass::Mixed);
}

#[test]
fn few_transfers_are_not_reported() {
    let few = in_module(line(0x1000, 49, 49, &[access(1, 1, 0, 9, 9), access(2, 1, 8, 9, 9)]));
    assert!(findings_of(vec![few.clone()]).false_sharing.is_empty());
    let all = Findings::from_observation(&seen(process(2, vec![few])), Settings { threshold: 49 });
    assert_eq!(all.false_sharing.len(), 1);
    // Many lines with one transfer each are not a finding together.
    let once =
        |at: u64| in_module(line(0x1000 + at * 64, 1, 1, &[access(1, 1, 0, 9, 9), access(2, 1, 8, 9, 9)]));
    assert!(findings_of((0..200).map(once).collect()).false_sharing.is_empty());
}

#[test]
fn read_data_beside_written_data_is_to_be_split() {
    let accesses = [access(1, 1, 0, 500, 0), access(2, 1, 0, 500, 0), access(3, 2, 8, 200, 200)];
    let findings = findings_of(vec![in_module(line(0x1000, 300, 300, &accesses))]);
    let Fix::Split(text) = &findings.false_sharing[0].fix else { panic!("{findings:#?}") };
    assert!(text.contains("bytes 0-7, read at main.c:11") && text.contains("_Alignas(64)"), "{text}");
}

#[test]
fn the_programs_own_frame_and_language_are_reported() {
    let accesses = [access(1, 3, 0, 500, 500), access(2, 3, 8, 500, 500)];
    let findings = findings_of(vec![in_module(line(0x1000, 300, 300, &accesses))]);
    let finding = &findings.false_sharing[0];
    assert_eq!(finding.sites[0].frame.brief(), "lib.rs:33 (three)");
    assert!(finding.fix.text().contains("repr(align(64))"), "{:?}", finding.fix);
    for (file, language) in [
        ("a/b.c", Language::C),
        ("b.hpp", Language::Cpp),
        ("x.rs", Language::Rust),
        ("y.go", Language::Go),
        ("odd.d/name", Language::Other),
    ] {
        assert_eq!(Language::from_file_name(file), language, "{file}");
    }
}

#[test]
fn blocks_of_one_site_are_one_finding_and_adjacent_blocks_are_reported() {
    let block = |start, caller| HeapBlock { start, bytes: 16, callers: vec![6, caller] };
    let heap = |address, blocks: Vec<HeapBlock>| SharedLine {
        memory: MemoryKind::Heap { blocks },
        ..line(address, 60, 60, &[access(1, 1, 0, 9, 9), access(2, 2, 32, 9, 9)])
    };
    // Return addresses follow the call: 3 is a return from a call at 2.
    let findings = findings_of(vec![
        heap(0x5000, vec![block(0x5000, 3), block(0x5010, 3), block(0x5020, 3)]),
        heap(0x6000, vec![block(0x6000, 3), block(0x6020, 3)]),
    ]);
    let [finding] = &findings.false_sharing[..] else { panic!("{findings:#?}") };
    let DataOwner::Heap { blocks } = &finding.data else { panic!("{finding:#?}") };
    assert_eq!((finding.lines, blocks.len()), (2, 2), "only touched blocks count");
    assert!(blocks.iter().all(|block| block.is_own && block.callers[0].line == Some(22)), "{blocks:?}");
    assert!(matches!(&finding.fix, Fix::Allocate(text) if text.contains("aligned_alloc(64")));
}

#[test]
fn libraries_and_runtimes_are_listed_separately() {
    let accesses = |code| [access(1, code, 0, 9, 9), access(2, code, 8, 9, 9)];
    let findings = findings_of(vec![line(0x9000, 90, 90, &accesses(4)), line(0x9100, 80, 80, &accesses(5))]);
    assert!(findings.false_sharing.is_empty(), "{findings:#?}");
    assert_eq!(findings.in_libraries.len(), 2);
}

/// Returns the findings for two threads that access halves of the first global, from the code at `code`;
/// `module` is the path of the file that contains both.
fn global_of(module: &str, code: u64) -> Findings {
    let mut process = process(2, Vec::new());
    process.modules[0].path = module.to_owned();
    let accesses = [access(1, code, 0, 0, 90), access(2, code, 8, 0, 90)];
    process.lines = vec![in_module(line(0x1000, 90, 90, &accesses))];
    Findings::from_observation(&seen(process), SETTINGS)
}

#[test]
fn globals_of_the_programs_own_libraries_count() {
    for module in ["/home/me/plug.so", "/usr/local/lib/libmine.so"] {
        let findings = global_of(module, 1);
        assert_eq!((findings.false_sharing.len(), findings.in_libraries.len()), (1, 0), "{module}");
    }
    let findings = global_of("/usr/lib/x86_64-linux-gnu/libc.so.6", 1);
    assert_eq!((findings.false_sharing.len(), findings.in_libraries.len()), (0, 1));
}

#[test]
fn a_global_that_only_a_library_touches_is_the_programs_own() {
    for code in [4, 5] {
        let findings = global_of("/bin/prog", code);
        assert_eq!((findings.false_sharing.len(), findings.in_libraries.len()), (1, 0), "{code}");
    }
}

#[test]
fn a_block_without_transfers_is_not_a_neighbour() {
    let block = |start| HeapBlock { start, bytes: 16, callers: vec![6, 3] };
    let fix_of = |second: u64| {
        let accesses =
            [access(1, 1, 0, 5000, 5000), access(2, 2, 8, 5000, 5000), access(0, 5, 32, 0, second)];
        let memory = MemoryKind::Heap { blocks: vec![block(0x5000), block(0x5020)] };
        findings_of(vec![SharedLine { memory, ..line(0x5000, 900, 900, &accesses) }]).false_sharing[0]
            .fix
            .clone()
    };
    assert!(matches!(fix_of(1), Fix::Pad(_)), "{:?}", fix_of(1));
    assert!(matches!(fix_of(5000), Fix::Allocate(_)), "{:?}", fix_of(5000));
}

#[test]
fn the_fix_names_the_programs_own_code_that_writes_most() {
    // A runtime accesses the line a few times; the fix names the worker's line of code.
    let accesses = [
        access(0, 4, 0, 90, 90),
        access(3, 4, 8, 90, 90),
        access(1, 1, 0, 9000, 9000),
        access(2, 1, 8, 9000, 9000),
        access(1, 2, 16, 30000, 9),
    ];
    let findings = findings_of(vec![line(0x9000, 900, 900, &accesses)]);
    let text = findings.false_sharing[0].fix.text();
    assert!(text.contains("main.c:11 (one)") && !text.contains("runtime"), "{text}");
}

#[test]
fn latent_sharing_is_reported_once_and_not_where_it_is_real() {
    let accesses = [access(1, 1, 0, 9, 9), access(2, 2, 8, 9, 9)];
    let on = |layout, address| SharedLine { layout, ..in_module(line(address, 70, 70, &accesses)) };
    let real = findings_of(vec![on(0, 0x1000), on(1, 0x1000), on(2, 0x1020)]);
    assert_eq!((real.false_sharing.len(), real.latent.len()), (1, 0), "{real:#?}");
    let latent = findings_of(vec![on(1, 0x1000), on(2, 0x1020)]);
    assert_eq!((latent.false_sharing.len(), latent.latent.len()), (0, 1), "{latent:#?}");
    assert_eq!(latent.latent[0].layout.line_bytes, 128);
}

/// Returns the writes of threads at an offset, from the code at an address.
fn writing(threads: &[usize], code: u64, offset: u32) -> Vec<LineAccess> {
    threads.iter().map(|&thread| access(thread, code, offset, 0, 500)).collect()
}

/// Returns the only finding, of true sharing of a global with 1000 transfers, of which `false_transfers` are false sharing.
fn truly_shared(false_transfers: u64, accesses: &[LineAccess]) -> Finding {
    let mut findings = findings_of(vec![in_module(line(0x1000, false_transfers, 1000, accesses))]);
    assert!(findings.false_sharing.is_empty() && findings.true_sharing.len() == 1, "{findings:#?}");
    findings.true_sharing.remove(0)
}

/// Regression test: for the head and the tail of a queue on one line, no advice was given.
#[test]
fn fields_with_different_writers_are_reported_where_separating_them_saves_transfers() {
    // Thread 3 also reads the other end, and thread 0 has initialized the line once.
    let fill = [LineAccess { bytes: 32, ..access(0, 2, 0, 0, 1) }, access(3, 2, 0, 500, 0)];
    let queue =
        [writing(&[0, 1], 1, 0), writing(&[2, 3], 2, 8), writing(&[2, 3], 2, 24), fill.to_vec()].concat();
    let finding = truly_shared(300, &queue);
    let reported: Vec<_> =
        finding.fields.iter().map(|field| (&field.bytes[..], field.frame.line.unwrap_or(0))).collect();
    assert_eq!(reported, [(&[(0, 8)][..], 11), (&[(8, 16), (24, 32)], 22)]);
    assert!(!finding.fix.text().contains("padding"), "{:?}", finding.fix);
    // Where separation would save little, it is not reported.
    for false_transfers in [49, 99] {
        let finding = truly_shared(false_transfers, &queue);
        assert_eq!(finding.fields, [], "{false_transfers}");
        assert!(finding.fix.text().contains("padding does not help"), "{:?}", finding.fix);
    }
}

#[test]
fn a_lock_is_not_separated_from_its_data() {
    for data in [&[0, 1, 2, 3][..], &[1, 2]] {
        let finding = truly_shared(250, &[writing(&[0, 1, 2, 3], 1, 0), writing(data, 2, 8)].concat());
        assert_eq!(finding.fields, [], "{data:?}");
    }
}

#[test]
fn code_that_cannot_contribute_is_not_significant() {
    let busy = [access(1, 1, 0, 50_000, 50_000), access(2, 1, 8, 50_000, 50_000)];
    let notable = |writes| {
        let accesses = [&busy[..], &[access(0, 2, 16, 0, writes)]].concat();
        let findings = findings_of(vec![in_module(line(0x1000, 1000, 1000, &accesses))]);
        let finding = &findings.false_sharing[0];
        (finding.sites.len(), finding.significant_sites().len())
    };
    assert_eq!(notable(99), (2, 1));
    // Few accesses, but enough for a tenth of the transfers.
    assert_eq!(notable(100), (2, 2));
}

#[test]
fn the_owner_of_a_stack_is_reported_where_there_is_only_one() {
    let accesses = [access(1, 1, 0, 90, 90), access(2, 2, 8, 90, 90)];
    let on = |address, thread| SharedLine {
        memory: MemoryKind::Stack { thread },
        ..line(address, 90, 90, &accesses)
    };
    let data = |lines| {
        let findings = findings_of(lines);
        assert_eq!(findings.false_sharing.len(), 1, "{findings:#?}");
        findings.false_sharing[0].data.clone()
    };
    let stack = |thread: &str, tid| DataOwner::Stack { thread: thread.to_owned(), tid };
    assert_eq!(data(vec![on(0x9000, 0)]), stack("main thread", Some(10)));
    assert_eq!(data(vec![on(0x9000, 2), on(0x9040, 2)]), stack("worker", Some(12)));
    assert_eq!(data(vec![on(0x9000, 2), on(0xa000, 3)]), stack("worker", None));
    assert_eq!(data(vec![on(0x9000, 99)]), stack("", None));
}

#[test]
fn several_processes_are_noted_as_not_compared() {
    let one = seen(process(1, Vec::new()));
    assert_eq!(Findings::from_observation(&one, SETTINGS).notes, [""; 0]);
    let mut two = one.clone();
    two.processes.push(process(1, Vec::new()));
    let notes = Findings::from_observation(&two, SETTINGS).notes;
    assert!(matches!(&notes[..], [note] if note.contains("between processes")), "{notes:?}");
}

#[test]
fn an_observation_is_equal_after_saving_and_loading() {
    let seen = seen(process(2, vec![in_module(line(0x1000, 5, 6, &[access(1, 1, 0, 9, 9)]))]));
    let text = serde_json::to_string(&seen).unwrap();
    assert_eq!(serde_json::from_str::<Observation>(&text).unwrap(), seen);
}

proptest! {
    /// The content of a file need not make sense; evaluating it must not fail.
    #[test]
    fn hostile_observations_are_evaluated(
        numbers in prop::collection::vec(any::<u64>(), 12),
        small in prop::collection::vec(0usize..6, 3),
        offset in any::<u32>(),
        bytes in any::<u32>(),
    ) {
        let access = |at: usize| LineAccess {
            thread: small[at], code: numbers[at] % 7, offset, bytes, reads: numbers[at + 2], writes: numbers[at + 4],
            of_lock: small[at] == 1,
        };
        let mut one = line(numbers[0], numbers[6], numbers[7], &[access(0), access(1)]);
        one.layout = small[2];
        let block = HeapBlock { start: numbers[8], bytes: numbers[9], callers: vec![numbers[10]] };
        let lines = [MemoryKind::Module { module: small[0] }, MemoryKind::Heap { blocks: vec![block] }, MemoryKind::Stack { thread: 9 }]
            .map(|memory| SharedLine { memory, ..one.clone() });
        let _ = findings_of(lines.to_vec());
    }
}
