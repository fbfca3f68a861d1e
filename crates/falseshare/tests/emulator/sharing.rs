//! Which shared lines are reported.

use super::{ProgramFolder, emulator_lock, false_transfers, hot, process, request};
use manycore_falseshare::{
    emulator::observe,
    sharing::{CommandEnd, Engine, LineLayout, MemoryKind},
};

#[test]
fn false_sharing_is_reported_with_threads_and_code() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static struct { long a, b; } counts __attribute__((aligned(64)));\
        int main(void) { both(add, &counts.a, &counts.b); printf(\"%ld\\n\", counts.a + counts.b); return 3; }";
    let observation = programs.observe("apart", source, &[]);
    assert_eq!(observation.end, CommandEnd::Status(3));
    assert!(matches!(&observation.engine, Engine::Emulator { version } if version.contains(" version ")));
    let process = process(&observation, "apart");
    let lines = false_transfers(process);
    let [line] = lines[..] else { panic!("{lines:?}") };
    assert_eq!(line.address % 64, 0);
    for (thread, offset) in [(1, 0), (2, 8)] {
        let of = line.accesses.iter().filter(|access| access.thread == thread);
        let (reads, writes) = of.clone().fold((0, 0), |sum, one| (sum.0 + one.reads, sum.1 + one.writes));
        // All accesses except those from before the line was followed.
        assert!((1900..=2000).contains(&reads) && (1900..=2000).contains(&writes), "{line:?}");
        assert!(of.clone().all(|access| access.offset == offset && access.bytes == 8), "{line:?}");
        let in_program = |code| {
            let module = process.modules.iter().find(|module| (module.start..module.end).contains(&code));
            module.is_some_and(|module| module.path.ends_with("/apart"))
        };
        assert!(of.clone().all(|access| in_program(access.code)));
    }
    let MemoryKind::Module { module } = line.memory else { panic!("{:?}", line.memory) };
    assert!(process.modules[module].path.ends_with("/apart"));
}

#[test]
fn true_sharing_is_not_false_sharing() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static long count __attribute__((aligned(64)));\
        int main(void) { both(add, &count, &count); return 0; }";
    let observation = programs.observe("together", source, &[]);
    let process = process(&observation, "together");
    assert!(false_transfers(process).is_empty(), "{:?}", false_transfers(process));
    assert!(hot(process).iter().any(|line| line.accesses.iter().any(|access| access.writes > 1000)));
}

#[test]
fn a_reader_beside_a_writer_is_false_sharing_too() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static struct { long a, b; } counts __attribute__((aligned(64)));\
        static void *work(void *p) { return p == &counts.a ? add(p) : look(p); }\
        int main(void) { both(work, &counts.a, &counts.b); return 0; }";
    let observation = programs.observe("beside", source, &[]);
    assert_eq!(false_transfers(process(&observation, "beside")).len(), 1);
}

#[test]
fn padded_and_read_only_data_is_not_reported() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let padded = "static struct { long a, pad[15], b; } counts __attribute__((aligned(64)));\
        int main(void) { both(add, &counts.a, &counts.b); return 0; }";
    let read = "static struct { long a, b; } counts __attribute__((aligned(64))) = { 1, 2 };\
        int main(void) { both(look, &counts.a, &counts.b); return counts.a; }";
    for (name, source) in [("padded", padded), ("only_read", read)] {
        let observation = programs.observe(name, source, &[]);
        let lines = false_transfers(process(&observation, name));
        assert!(lines.is_empty(), "{name}: {lines:?}");
    }
}

#[test]
fn a_single_thread_shares_nothing() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "int main(void) { long n = 0; for (int i = 0; i < 1000; i++) { char *p = malloc(i + 1);\
        memset(p, i, i + 1); n += p[i]; free(p); } printf(\"%ld\\n\", n); return 0; }";
    let observation = programs.observe("single", source, &[]);
    let process = process(&observation, "single");
    assert!(process.lines.is_empty() && process.accesses > 10_000, "{process:?}");
}

#[test]
fn stacks_that_many_short_threads_get_in_turn_are_no_false_sharing() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static void *work(void *p) { volatile char space[4096];\
        for (int i = 0; i < 4096; i++) space[i] = i; return p; }\
        int main(void) { for (int i = 0; i < 200; i++) both(work, 0, 0); return 0; }";
    let observation = programs.observe("short", source, &[]);
    let process = process(&observation, "short");
    assert_eq!(process.threads.len(), 401);
    // Threads share data of the C library as well, in some versions falsely. The stacks are in no file.
    let is_data =
        |address| process.modules.iter().any(|module| (module.start..module.end).contains(&address));
    let lines: Vec<_> = false_transfers(process).into_iter().filter(|line| !is_data(line.address)).collect();
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn lines_of_other_layouts_are_reported_on_request() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static struct { long pad[7], a, b; } counts __attribute__((aligned(128)));\
        int main(void) { both(add, &counts.a, &counts.b); return 0; }";
    let path = programs.program("layouts", source, &[]);
    let mut request = request(&[path.to_str().unwrap()]);
    request.layouts.push(LineLayout { line_bytes: 128, shift_bytes: 0 });
    request.layouts.push(LineLayout { line_bytes: 64, shift_bytes: 32 });
    let observation = observe(&request, &|| false).unwrap();
    let lines = false_transfers(process(&observation, "layouts"));
    let mut layouts: Vec<_> = lines.iter().map(|line| (line.layout, line.address % 64)).collect();
    layouts.sort_unstable();
    assert_eq!(layouts, [(1, 0), (2, 32)]);
}
