//! Which memory a shared line is attributed to.

use super::{ProgramFolder, emulator_lock, false_transfers, process};
use manycore_falseshare::sharing::MemoryKind;

#[test]
fn adjacent_heap_blocks_are_reported_with_their_callers() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "__attribute__((noinline)) static long *make(void) { long *p = malloc(24); *p = 0; return p; }\
        int main(void) { long *one = aligned_alloc(64, 24), *other;\
        do { one = make(); other = make(); } while ((unsigned long)one / 64 != (unsigned long)other / 64);\
        both(add, one, other); return 0; }";
    let observation = programs.observe("heap", source, &[]);
    let process = process(&observation, "heap");
    let lines = false_transfers(process);
    let [line] = lines[..] else { panic!("{lines:?}") };
    let MemoryKind::Heap { blocks } = &line.memory else { panic!("{:?}", line.memory) };
    let ours: Vec<_> = blocks.iter().filter(|block| block.bytes == 24).collect();
    assert!(ours.len() >= 2, "{blocks:?}");
    let program = process.modules.iter().filter(|module| module.path.ends_with("/heap"));
    let ranges: Vec<_> = program.map(|module| module.start..module.end).collect();
    for block in ours {
        assert!(block.callers.len() >= 2, "{block:?}");
        assert!(ranges.iter().any(|range| range.contains(&block.callers[0])), "{block:?}");
    }
}

#[test]
fn a_block_that_is_freed_and_given_to_another_thread_is_not_false_sharing() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static void *volatile given;\
        static void *work(void *p) { for (int i = 0; i < ROUNDS; i++) { turn(); if (i % 2 == (p != 0)) {\
        long *block = malloc(4096); block[100 + 2 * (p != 0)]++; given = block; } turn();\
        if (i % 2 != (p != 0)) free(given); } return 0; }\
        int main(void) { both(work, 0, &given); return 0; }";
    let observation = programs.observe("again", source, &[]);
    let heap =
        |line: &&&manycore_falseshare::sharing::SharedLine| matches!(line.memory, MemoryKind::Heap { .. });
    let process = process(&observation, "again");
    let lines = false_transfers(process);
    let ours: Vec<_> = lines
        .iter()
        .filter(heap)
        .filter(|line| {
            line.accesses.iter().any(|access| access.writes > 0 && access.bytes == 8 && access.reads > 90)
        })
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn shared_memory_on_a_stack_is_reported_with_its_thread() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "int main(void) { struct { long a, b; } counts __attribute__((aligned(64))) = { 0, 0 };\
        both(add, &counts.a, &counts.b); return 0; }";
    let observation = programs.observe("stack", source, &[]);
    let lines = false_transfers(process(&observation, "stack"));
    let [line] = lines[..] else { panic!("{lines:?}") };
    assert_eq!(line.memory, MemoryKind::Stack { thread: 0 });
}

#[test]
fn thread_local_variables_belong_to_their_thread() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static __thread long mine[2]; static void *work(void *p) { return add(&mine[p != 0]); }\
        int main(void) { both(work, 0, mine); return 0; }";
    let observation = programs.observe("local", source, &[]);
    assert!(false_transfers(process(&observation, "local")).is_empty());
}

#[test]
fn names_of_threads_are_reported() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static void *work(void *p) { pthread_setname_np(pthread_self(), p); return 0; }\
        int main(void) { both(work, \"reader\", \"writer\"); return 0; }";
    let observation = programs.observe("names", source, &[]);
    let process = process(&observation, "names");
    let mut names: Vec<_> = process.threads.iter().map(|thread| thread.name.as_str()).collect();
    // Threads are numbered as they begin to run, which need not be the order in which they were created.
    names.sort_unstable();
    assert_eq!(names, ["names", "reader", "writer"]);
}

#[test]
fn a_static_and_a_stripped_program_are_observed() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "static struct { long a, b; } counts __attribute__((aligned(64)));\
        int main(void) { both(add, &counts.a, &counts.b); return 0; }";
    for (name, option) in [("static", "-static"), ("stripped", "-s")] {
        let observation = programs.observe(name, source, &[option]);
        let process = process(&observation, name);
        let lines = false_transfers(process);
        let [line] = lines[..] else { panic!("{name}: {lines:?}") };
        let MemoryKind::Module { module } = line.memory else { panic!("{:?}", line.memory) };
        assert!(process.modules[module].path.ends_with(name));
    }
}

#[test]
fn a_block_that_could_not_grow_is_still_reported() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "int main(void) { long *p = aligned_alloc(64, 64); volatile size_t much = -1UL / 2 - 4096;\
        if (realloc(p, much)) return 1; both(add, p, p + 1); return 0; }";
    let observation = programs.observe("grow", source, &[]);
    let lines = false_transfers(process(&observation, "grow"));
    let [line] = lines[..] else { panic!("{lines:?}") };
    let MemoryKind::Heap { blocks } = &line.memory else { panic!("{:?}", line.memory) };
    let [block] = &blocks[..] else { panic!("{blocks:?}") };
    assert!(block.start == line.address && block.bytes >= 64 && block.callers.len() >= 2, "{block:?}");
}

#[test]
fn blocks_of_valloc_and_pvalloc_are_reported() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "#include <malloc.h>\n\
        int main(void) { long *p = valloc(24), *q = pvalloc(40); both(add, p, p + 1); both(add, q, q + 1);\
        return 0; }";
    let observation = programs.observe("pages", source, &[]);
    let lines = false_transfers(process(&observation, "pages"));
    let bytes = |line: &&manycore_falseshare::sharing::SharedLine| match &line.memory {
        MemoryKind::Heap { blocks } => blocks.iter().map(|block| block.bytes).collect(),
        _ => Vec::new(),
    };
    let mut found: Vec<u64> = lines.iter().flat_map(bytes).collect();
    found.sort_unstable();
    assert_eq!(found, [24, 40], "{lines:?}");
}

#[test]
fn a_mapping_that_could_not_be_moved_or_unmapped_is_still_reported() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = "#include <sys/mman.h>\n\
        int main(void) { char *p = mmap(0, 3 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\
        char *one = p + (1 << 16);\
        if (mremap(one, 1 << 16, 1 << 30, 0) != MAP_FAILED || !munmap(one + 8, 1 << 16)) return 1;\
        both(add, one, one + 8); return 0; }";
    let observation = programs.observe("stays", source, &[]);
    assert_eq!(observation.end, manycore_falseshare::sharing::CommandEnd::Status(0));
    let lines = false_transfers(process(&observation, "stays"));
    let [line] = lines[..] else { panic!("{lines:?}") };
    let MemoryKind::Mapping { start, bytes } = line.memory else { panic!("{:?}", line.memory) };
    assert!((start..start + bytes).contains(&line.address) && bytes >= 1 << 16);
}
