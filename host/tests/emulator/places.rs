//! What is told of where a line is.

use crate::{Bench, can, needless, process};
use manycore_model::sharing::Place;

#[test]
fn neighbours_on_the_heap_are_told_with_their_callers() {
    let Some(_alone) = can() else { return };
    let bench = Bench::new();
    let source = "__attribute__((noinline)) static long *make(void) { long *p = malloc(24); *p = 0; return p; }\
        int main(void) { long *one = aligned_alloc(64, 24), *other;\
        do { one = make(); other = make(); } while ((unsigned long)one / 64 != (unsigned long)other / 64);\
        both(add, one, other); return 0; }";
    let observation = bench.observe("heap", source, &[]);
    let process = process(&observation, "heap");
    let lines = needless(process);
    let [line] = lines[..] else { panic!("{lines:?}") };
    let Place::Heap { blocks } = &line.place else { panic!("{:?}", line.place) };
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
    let Some(_alone) = can() else { return };
    let bench = Bench::new();
    let source = "static void *volatile given;\
        static void *work(void *p) { for (int i = 0; i < ROUNDS; i++) { turn(); if (i % 2 == (p != 0)) {\
        long *block = malloc(4096); block[100 + 2 * (p != 0)]++; given = block; } turn();\
        if (i % 2 != (p != 0)) free(given); } return 0; }\
        int main(void) { both(work, 0, &given); return 0; }";
    let observation = bench.observe("again", source, &[]);
    let heap = |line: &&&manycore_model::sharing::Line| matches!(line.place, Place::Heap { .. });
    let process = process(&observation, "again");
    let lines = needless(process);
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
fn what_a_thread_lends_of_its_stack_is_told_as_its_stack() {
    let Some(_alone) = can() else { return };
    let bench = Bench::new();
    let source = "int main(void) { struct { long a, b; } counts __attribute__((aligned(64))) = { 0, 0 };\
        both(add, &counts.a, &counts.b); return 0; }";
    let observation = bench.observe("stack", source, &[]);
    let lines = needless(process(&observation, "stack"));
    let [line] = lines[..] else { panic!("{lines:?}") };
    assert_eq!(line.place, Place::Stack { thread: 0 });
}

#[test]
fn thread_local_variables_are_nobody_elses() {
    let Some(_alone) = can() else { return };
    let bench = Bench::new();
    let source = "static __thread long mine[2]; static void *work(void *p) { return add(&mine[p != 0]); }\
        int main(void) { both(work, 0, mine); return 0; }";
    let observation = bench.observe("local", source, &[]);
    assert!(needless(process(&observation, "local")).is_empty());
}

#[test]
fn names_of_threads_are_told() {
    let Some(_alone) = can() else { return };
    let bench = Bench::new();
    let source = "static void *work(void *p) { pthread_setname_np(pthread_self(), p); return 0; }\
        int main(void) { both(work, \"reader\", \"writer\"); return 0; }";
    let observation = bench.observe("names", source, &[]);
    let process = process(&observation, "names");
    let names: Vec<_> = process.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["names", "reader", "writer"]);
}

#[test]
fn a_static_and_a_stripped_program_are_observed() {
    let Some(_alone) = can() else { return };
    let bench = Bench::new();
    let source = "static struct { long a, b; } counts __attribute__((aligned(64)));\
        int main(void) { both(add, &counts.a, &counts.b); return 0; }";
    for (name, option) in [("static", "-static"), ("stripped", "-s")] {
        let observation = bench.observe(name, source, &[option]);
        let process = process(&observation, name);
        let lines = needless(process);
        let [line] = lines[..] else { panic!("{name}: {lines:?}") };
        let Place::Module { module } = line.place else { panic!("{:?}", line.place) };
        assert!(process.modules[module].path.ends_with(name));
    }
}
