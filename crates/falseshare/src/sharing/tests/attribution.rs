//! Which code and data belongs to the program, to its runtime or to a lock.

use super::*;

/// Regression test: `completed.0`, which the C runtime writes at exit, was reported as shared, and the thread that
/// wrote it was listed.
#[test]
fn accesses_of_the_c_runtime_at_exit_are_ignored() {
    let mut process = process(2, Vec::new());
    process.names.code.push(code(6, &[("__do_global_dtors_aux+0x1d", "", 0)]));
    process.names.globals = vec![
        Global { name: "completed.0".to_owned(), start: 0x1000, bytes: 1 },
        Global { name: "counters".to_owned(), start: 0x1008, bytes: 56 },
    ];
    let line =
        line(0x1000, 100, 100, &[access(1, 1, 8, 90, 90), access(2, 2, 16, 90, 90), access(0, 6, 0, 1, 1)]);
    process.lines = vec![SharedLine { memory: MemoryKind::Module { module: 0 }, ..line }];
    let findings = Findings::from_observation(&seen(process), SETTINGS);
    let finding = &findings.false_sharing[0];
    let DataOwner::Globals { variables } = &finding.data else { panic!("{finding:?}") };
    assert_eq!(variables.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["counters"]);
    assert!(finding.threads.iter().all(|party| party.name == "worker"), "{:?}", finding.threads);
    assert_eq!((finding.sites.len(), finding.accesses.len()), (2, 2));
}

/// Regression test: reference counts of an interpreter were reported as the program's false sharing, with exit code 1.
#[test]
fn data_of_an_interpreter_belongs_to_the_runtime() {
    let line = line(0x1000, 100, 100, &[access(1, 1, 0, 90, 90), access(2, 2, 8, 90, 90)]);
    let mut process = process(2, vec![SharedLine { memory: MemoryKind::Module { module: 0 }, ..line }]);
    assert_eq!(Findings::from_observation(&seen(process.clone()), SETTINGS).false_sharing.len(), 1);
    process.names.runtimes = vec!["/bin/prog".to_owned()];
    let findings = Findings::from_observation(&seen(process), SETTINGS);
    assert_eq!((findings.false_sharing.len(), findings.in_libraries.len()), (0, 1));
}

/// Regression test: all code that was generated at run time was attributed to the runtime.
#[test]
fn generated_code_is_the_programs_by_its_name() {
    let findings_for = |name: &str, is_java: bool| {
        let accesses = [access(1, 9, 0, 90, 90), access(2, 9, 8, 90, 90)];
        let memory = MemoryKind::Mapping { start: 0, bytes: 1 << 20 };
        let mut process = process(2, vec![SharedLine { memory, ..line(0x9000, 100, 100, &accesses) }]);
        let module = if name.is_empty() { "" } else { GENERATED };
        process.names.code.push(Code { module: module.to_owned(), ..code(9, &[(name, "", 0)]) });
        if is_java {
            process.names.runtimes = vec!["/opt/jdk/lib/server/libjvm.so".to_owned()];
        }
        let findings = Findings::from_observation(&seen(process), SETTINGS);
        (findings.false_sharing.len(), findings.in_libraries.len(), findings.possibly_own)
    };
    for (name, is_java) in [
        ("void App.work(java.lang.Object)", true),
        ("java.lang.Object com.example.Box.get()", true),
        ("Lcom/example/Box;::get", true),
        ("wasm-function[12]", false),
        ("LazyCompile:*work /app/main.js:10", false),
    ] {
        assert_eq!(findings_for(name, is_java), (1, 0, 0), "{name}");
    }
    for (name, is_java) in [
        ("StubRoutines (1)", true),
        ("monitorenter Runtime1 stub", true),
        ("boolean java.util.HashMap.containsKey(java.lang.Object)", true),
        ("Ljava/lang/String;::hashCode", true),
        ("Builtin:ArrayPush", false),
        ("void [System.Private.CoreLib] System.Threading.Monitor::Enter(object)[Optimized]", false),
    ] {
        assert_eq!(findings_for(name, is_java), (0, 1, 0), "{name}");
    }
    assert_eq!(findings_for("", true), (0, 1, 1));
}

/// Regression test: counters of Java objects were attributed to the runtime if their methods had not been
/// compiled in time, and counters of JavaScript behind `Atomics` always.
#[test]
fn lines_that_an_interpreter_accesses_most_may_be_the_programs() {
    const NODE: &str = "/usr/bin/node";
    let findings_for = |module: &str, name: &str, by_runtime: u64| {
        let runtimes = access(3, 10, 0, by_runtime, 0);
        let accesses = [access(1, 9, 0, 90, 90), access(2, 9, 8, 90, 90), runtimes];
        let memory = MemoryKind::Mapping { start: 0, bytes: 1 << 20 };
        let mut process = process(3, vec![SharedLine { memory, ..line(0x9000, 100, 100, &accesses) }]);
        process.names.runtimes = vec![NODE.to_owned()];
        let known = |address, module: &str, name| Code {
            module: module.to_owned(),
            ..code(address, &[(name, "", 0)])
        };
        process
            .names
            .code
            .extend([known(9, module, name), known(10, NODE, "v8::internal::Heap::Scavenge()")]);
        let findings = Findings::from_observation(&seen(process), SETTINGS);
        assert_eq!((findings.false_sharing.len(), findings.in_libraries.len()), (0, 1), "{name}");
        findings.possibly_own
    };
    for name in ["Interpreter", "BytecodeHandler:Add", "Builtin:AtomicsAdd"] {
        assert_eq!((findings_for(GENERATED, name, 20), findings_for(GENERATED, name, 400)), (1, 0), "{name}");
    }
    for name in [
        "Builtins_AtomicsAdd+0x64e",
        "Builtins_StaNamedPropertyHandler",
        "Builtins_StoreFastElementIC_Standard+0x1",
    ] {
        assert_eq!((findings_for(NODE, name, 20), findings_for(NODE, name, 400)), (1, 0), "{name}");
    }
    assert_eq!(findings_for(NODE, "Builtins_ArrayPush", 20), 0);
}

/// Regression test: the advice for a mutex was to move the counters inside the mutex to a local variable.
#[test]
fn a_shared_lock_is_to_be_held_for_less_time() {
    let lock = |thread: usize| LineAccess { of_lock: true, ..access(thread, 1, 0, 500, 500) };
    let line = |false_transfers| {
        line(
            0x1000,
            false_transfers,
            100,
            &[lock(1), lock(2), access(1, 2, 8, 90, 90), access(2, 2, 8, 90, 90)],
        )
    };
    let of = |false_transfers| {
        let process = process(
            2,
            vec![SharedLine { memory: MemoryKind::Module { module: 0 }, ..line(false_transfers) }],
        );
        Findings::from_observation(&seen(process), SETTINGS)
    };
    let findings = of(0);
    assert!(
        matches!(&findings.true_sharing[0].fix, Fix::Lock(text) if text.contains("counters") && text.contains("main.c:11"))
    );
    assert!(findings.true_sharing[0].sites[0].is_lock);
}

/// Regression test: the advice for a barrier of the C library was to count in a local variable.
#[test]
fn counters_of_a_library_get_no_advice_to_count_locally() {
    let accesses = [access(1, 5, 0, 100, 100), access(2, 5, 0, 100, 100)];
    let mut process = process(
        2,
        vec![SharedLine { memory: MemoryKind::Module { module: 0 }, ..line(0x1000, 0, 100, &accesses) }],
    );
    for code in &mut process.names.code {
        code.is_exchange = true;
        if code.address == 5 {
            code.module = "/lib/libc.so.6".to_owned();
        }
    }
    let findings = Findings::from_observation(&seen(process), SETTINGS);
    assert!(matches!(findings.true_sharing[0].fix, Fix::ReduceSharing(_)), "{findings:?}");
}
