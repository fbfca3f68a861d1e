//! Runtimes with more workers than CPUs.

use super::*;
use crate::{Go, Program};
use std::collections::BTreeMap;

/// A process under a quota, with threads of these names, each with the given CPU time in seconds.
fn quota(cpus: f64, name: &str, threads: &[(&str, usize, f64)], program: Program) -> AuditFacts {
    let mut process = process(10, name, &["0-7"]);
    process.threads[0].cpu_seconds = Some(1.0);
    for (name, count, seconds) in threads {
        for _ in 0..*count {
            let tid = 10 + process.threads.len() as u32;
            let thread = Thread {
                tid,
                name: (*name).to_owned(),
                cpus: set("0-7"),
                cpu_seconds: Some(*seconds),
                ..Thread::default()
            };
            process.threads.push(thread);
        }
    }
    process.limits.quota_cpus = Some(cpus);
    process.limits.quota_file = "/cg/cpu.max".to_owned();
    process.program = Some(program);
    eight(vec![process])
}

fn line(words: &str) -> Program {
    Program { arguments: words.split(' ').map(str::to_owned).collect(), ..Program::default() }
}

fn library(path: &str, environment: &[(&str, &str)]) -> Program {
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Program { libraries: vec![path.to_owned()], environment, ..Program::default() }
}

#[test]
fn erlang_with_too_many_schedulers_is_found() {
    let threads = [("1_scheduler", 1, 5.0), ("8_scheduler", 7, 0.0)];
    let finding = only(&quota(1.0, "beam.smp", &threads, line("beam.smp -S 8:8 -- -root /usr")));
    assert_eq!(finding.headline, "Erlang of beam.smp (pid 10) runs 8 workers on 1 CPU");
    assert_eq!(finding.fix, "lower it: +S 1:1");
    assert_eq!(finding.evidence[1], "/cg/cpu.max allows 1 CPU; the machine has 8");
    // Schedulers that are offline do not run; arguments after -- belong to the program.
    assert!(find(&quota(1.0, "beam.smp", &threads, line("beam.smp -- -S 8:8"))).is_empty());
    assert!(find(&quota(1.0, "beam.smp", &threads, line("beam.smp -S 8:1 --"))).is_empty());
    let old = [("erts_sched_1", 8, 2.0)];
    assert_eq!(only(&quota(1.0, "beam.smp", &old, line("beam.smp --"))).fix, "start it with: +S 1:1");
}

#[test]
fn a_jvm_is_found_by_its_option_or_by_collectors_that_ran() {
    let jvm = |arguments: &str| Program {
        libraries: vec!["/opt/jdk/lib/server/libjvm.so".into()],
        ..line(arguments)
    };
    let lazy = [("GC Thread#0", 1, 1.0), ("VM Thread", 1, 1.0)];
    assert!(find(&quota(2.0, "java", &lazy, jvm("java -jar x.jar"))).is_empty());
    let finding = only(&quota(2.0, "java", &lazy, jvm("java -XX:ActiveProcessorCount=8 -jar x.jar")));
    assert_eq!(finding.fix, "lower it: -XX:ActiveProcessorCount=2");
    assert!(find(&quota(2.0, "java", &lazy, jvm("java -XX:ActiveProcessorCount=2 X"))).is_empty());
    let all = [("GC Thread#0", 8, 1.0)];
    let finding = only(&quota(2.0, "java", &all, jvm("java -XX:-UseContainerSupport X")));
    assert_eq!(finding.fix, "start it with: -XX:ActiveProcessorCount=2");
    let mut configured = jvm("java X");
    configured.environment =
        BTreeMap::from([("JAVA_TOOL_OPTIONS".into(), "-Xmx1g -XX:ParallelGCThreads=8".into())]);
    assert!(
        only(&quota(2.0, "java", &lazy, configured)).evidence[0]
            .starts_with("set by -XX:ParallelGCThreads=8;")
    );
}

#[test]
fn go_before_1_25_ignores_quotas() {
    let go = |version: &str| Go { version: version.to_owned(), ..Go::default() };
    let program = |go| Program { go: Some(go), ..Program::default() };
    let threads = [("server", 8, 0.5)];
    let find_go = |program| find(&quota(2.0, "server", &threads, program));
    assert!(find_go(program(go("go1.24.2")))[0].fix.contains("GOMAXPROCS=2"));
    assert_eq!(find_go(program(Go::default())).len(), 1);
    for aware in ["go1.25", "go1.25.1", "go1.30rc1"] {
        assert!(find_go(program(go(aware))).is_empty(), "{aware}");
    }
    assert!(find_go(program(Go { automaxprocs: true, ..go("go1.20") })).is_empty());
    assert_eq!(find_go(program(Go { ignores_quota: true, ..go("go1.26") })).len(), 1);
    let set = |count: &str| Program {
        environment: BTreeMap::from([("GOMAXPROCS".to_owned(), count.to_owned())]),
        ..program(go("go1.26"))
    };
    assert_eq!(find_go(set("8")).len(), 1);
    assert!(find_go(set("2")).is_empty());
}

#[test]
fn libraries_count_existing_threads() {
    let blas = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3";
    let python = |count, program| quota(1.0, "python3", &[("python3", count, 0.2)], program);
    assert_eq!(only(&python(7, library(blas, &[]))).fix, "start it with: OPENBLAS_NUM_THREADS=1");
    let set = &[("OMP_NUM_THREADS", "4,2")];
    assert_eq!(
        only(&python(3, library(blas, set))).evidence[0],
        "set by OMP_NUM_THREADS=4,2; 4 threads named like workers"
    );
    // A library that starts no more workers than there are CPUs.
    assert_eq!(
        only(&python(3, library(blas, &[("OMP_NUM_THREADS", "64")]))).headline,
        "OpenBLAS of python3 (pid 10) runs 4 workers on 1 CPU"
    );
    // Workers not started yet, a fitting number, and a server with a hundred threads.
    assert!(find(&python(0, library(blas, set))).is_empty());
    assert!(find(&python(7, library(blas, &[("OPENBLAS_NUM_THREADS", "1")]))).is_empty());
    assert!(find(&python(100, library(blas, &[]))).is_empty());
    assert_eq!(
        only(&python(7, library("/usr/lib/libgomp.so.1", &[]))).fix,
        "start it with: OMP_NUM_THREADS=1"
    );
}

#[test]
fn programs_without_a_runtime_may_have_any_threads() {
    assert!(find(&quota(1.0, "server", &[("server", 7, 9.0)], Program::default())).is_empty());
}

#[test]
fn slightly_more_workers_are_not_reported() {
    for (workers, cpus, clearly) in
        [(2, 1.0, true), (1, 0.5, false), (2, 1.5, false), (3, 2.0, true), (64, 48.0, false)]
    {
        assert_eq!(super::super::clearly_more(workers, cpus), clearly, "{workers} on {cpus}");
    }
}
