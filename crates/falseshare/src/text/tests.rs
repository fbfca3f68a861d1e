use super::*;
use crate::sharing::{
    Code, Global, LineAccess, LineLayout, MappedFile, MemoryKind, Names, Observation, Process, Settings,
    SharedLine, Thread,
};

fn access(thread: usize, code: u64, offset: u32, reads: u64, writes: u64) -> LineAccess {
    LineAccess { thread, code, offset, bytes: 8, reads, writes, of_lock: false }
}

/// Renders the report for the given lines, which two producers and two consumers of a queue and of a stack share.
fn text_of(lines: Vec<SharedLine>, processes: usize) -> String {
    let thread = |(tid, name): (i32, &str)| Thread { tid, name: name.to_owned() };
    let code = |address, function: &str, line: Option<u32>| Code {
        address,
        module: "/home/me/queue".to_owned(),
        frames: vec![Frame {
            function: function.to_owned(),
            file: line.map(|_| "src/queue.c".to_owned()),
            line,
        }],
        is_exchange: false,
    };
    let threads = [(40, "queue"), (41, "producer"), (42, "producer"), (43, "consumer"), (44, "consumer")];
    let process = Process {
        pid: 40,
        program: "/home/me/queue".to_owned(),
        threads: threads.map(thread).to_vec(),
        modules: vec![MappedFile { start: 0, end: 100, file_offset: 0, path: "/home/me/queue".to_owned() }],
        names: Names {
            code: vec![
                code(1, "push", Some(11)),
                code(2, "pop", Some(22)),
                code(3, "_int_free+0x10", None),
                code(4, "_int_free+0x18", None),
            ],
            globals: vec![Global { name: "queue".to_owned(), start: 0x1000, bytes: 16 }],
            runtimes: Vec::new(),
        },
        accesses: 6007,
        lines,
        ..Process::default()
    };
    let seen = Observation {
        engine: Engine::Emulator { version: "qemu-x86_64 version 7.2.22".to_owned() },
        seconds: 1.25,
        end: CommandEnd::Status(0),
        layouts: vec![LineLayout { line_bytes: 64, shift_bytes: 0 }],
        processes: vec![process; processes],
        ..Observation::default()
    };
    render(&Findings::from_observation(&seen, Settings { threshold: 50 }), Extent::Full).to_string()
}

#[test]
fn a_queue_whose_ends_are_on_one_line() {
    let sides = [(1, 1, 0), (2, 1, 0), (3, 2, 8), (4, 2, 8)];
    let accesses = sides.map(|(thread, code, offset)| access(thread, code, offset, 0, 1500)).to_vec();
    let queue = SharedLine {
        address: 0x1000,
        transfers: 4000,
        false_transfers: 1300,
        accesses,
        memory: MemoryKind::Module { module: 0 },
        ..SharedLine::default()
    };
    let text = text_of(vec![queue], 2);
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn a_stack_whose_sharers_free_blocks_at_the_end() {
    let accesses = vec![
        access(1, 1, 0, 0, 100_000),
        access(3, 2, 8, 0, 100_000),
        access(1, 3, 0, 3, 0),
        access(3, 4, 8, 2, 2),
    ];
    let stack = SharedLine {
        address: 0x9000,
        transfers: 4000,
        false_transfers: 4000,
        accesses,
        memory: MemoryKind::Stack { thread: 0 },
        ..SharedLine::default()
    };
    let text = text_of(vec![stack], 1);
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}
