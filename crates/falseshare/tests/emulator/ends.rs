//! How programs exit, which programs they start, and what cannot be observed.

use super::{ProgramFolder, emulator_lock, false_transfers, process, request, run};
use manycore_falseshare::{Error, emulator::observe, sharing::CommandEnd};
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

const APART: &str = "static struct { long a, b; } counts __attribute__((aligned(64)));";

#[test]
fn accesses_before_a_crash_are_reported() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = format!(
        "{APART} int main(void) {{ both(add, &counts.a, &counts.b); *(volatile int *)8 = 1; return 0; }}"
    );
    let observation = programs.observe("crash", &source, &[]);
    assert_eq!(observation.end, CommandEnd::Signal(11));
    assert_eq!(false_transfers(process(&observation, "crash")).len(), 1);
}

#[test]
fn a_program_that_does_not_exit_is_stopped_and_reported() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let done = programs.path().join("done");
    let source = format!(
        "{APART} int main(void) {{ both(add, &counts.a, &counts.b); fclose(fopen(\"{}\", \"w\")); for (;;) pause(); }}",
        done.display()
    );
    let path = programs.program("endless", &source, &[]);
    let mut asked = request(&[path.to_str().unwrap()]);
    // On a busy machine, the time limit may come before the end of the work.
    let observation = [15, 120].into_iter().find_map(|seconds| {
        asked.timeout = Some(Duration::from_secs(seconds));
        let observation = observe(&asked, &|| false).unwrap();
        done.exists().then_some(observation)
    });
    let observation = observation.unwrap();
    assert_eq!(observation.end, CommandEnd::Timeout);
    assert_eq!(false_transfers(process(&observation, "endless")).len(), 1);
    fs::remove_file(&done).unwrap();
    asked.timeout = None;
    let observation = observe(&asked, &|| done.exists()).unwrap();
    assert_eq!(observation.end, CommandEnd::Interrupted);
    assert_eq!(false_transfers(process(&observation, "endless")).len(), 1);
}

#[test]
fn a_forked_child_is_a_process_of_its_own() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = format!(
        "{APART} int main(void) {{ long *block = malloc(64); int child = fork();\
        if (!child) both(add, &counts.a, &counts.b); else waitpid(child, 0, 0); free(block); return 0; }}"
    );
    let observation = programs.observe("parent", &source, &[]);
    let found: Vec<_> = observation.processes.iter().map(|process| false_transfers(process).len()).collect();
    assert_eq!(found, [0, 1]);
    let [parent, child] = &observation.processes[..] else { panic!() };
    assert!(parent.pid != child.pid && child.program == parent.program && child.threads.len() == 3);
}

#[test]
fn programs_that_programs_start_are_observed() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let source = format!("{APART} int main(void) {{ both(add, &counts.a, &counts.b); return 0; }}");
    let path = programs.program("inner", &source, &[]);
    let inner = path.to_str().unwrap();
    let script = programs.path().join("script");
    fs::write(&script, format!("#!/bin/sh\n{inner}\nexec {inner}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let observation = run(&[script.to_str().unwrap()]).unwrap();
    assert_eq!(observation.end, CommandEnd::Status(0));
    let inners: Vec<_> = observation.processes.iter().filter(|process| process.program == inner).collect();
    assert_eq!(inners.len(), 2, "{observation:?}");
    assert!(inners.iter().all(|process| false_transfers(process).len() == 1));
    assert!(observation.notes.iter().any(|note| note.contains("is a script")), "{:?}", observation.notes);

    let spawns = "#include <spawn.h>\n\
        int main(int n, char **words) { extern char **environ; int pid, status = 1;\
        if (posix_spawn(&pid, words[1], 0, 0, words + 1, environ)) return 9; waitpid(pid, &status, 0);\
        char *none[] = { 0 }; execve(words[1], words + 1, none); return 8; }";
    let outer = programs.program("outer", spawns, &[]);
    let observation = run(&[outer.to_str().unwrap(), inner]).unwrap();
    assert_eq!(observation.end, CommandEnd::Status(0));
    let inners = observation.processes.iter().filter(|process| process.program == inner);
    assert_eq!(inners.filter(|process| false_transfers(process).len() == 1).count(), 2);
}

#[test]
fn programs_executed_by_a_static_program_are_observed() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    // A static program has none of our functions, so its system call is seen instead.
    let source = "int main(void) { execl(\"/bin/true\", \"true\", (char *)0); return 1; }";
    let observation = programs.observe("escapes", source, &["-static"]);
    assert_eq!(observation.end, CommandEnd::Status(0));
    let programs: Vec<_> = observation.processes.iter().map(|process| &process.program).collect();
    assert!(
        programs.iter().any(|program| program.ends_with("/true")),
        "{programs:?} {:?}",
        observation.notes
    );
    assert!(observation.notes.is_empty(), "{:?}", observation.notes);
}

#[test]
fn a_program_in_another_root_runs_unobserved_with_a_note() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    programs.program("inner", "int main(void) { return 7; }", &["-static"]);
    let source = "int main(int n, char **words) { int status; if (fork()) { wait(&status);\
        return WEXITSTATUS(status); }\
        if (chroot(words[1]) || chdir(\"/\")) return 77; execl(\"/inner\", \"inner\", (char *)0); return 8; }";
    let outer = programs.program("outer", source, &[]);
    let observation = run(&[outer.to_str().unwrap(), programs.path().to_str().unwrap()]).unwrap();
    if observation.end == CommandEnd::Status(77) {
        return eprintln!("SKIPPED: chroot(2) needs root");
    }
    assert_eq!(observation.end, CommandEnd::Status(7));
    let reported =
        observation.notes.iter().any(|note| note.contains("/inner") && note.contains("not observed"));
    assert!(reported, "{:?}", observation.notes);
}

#[test]
fn files_that_cannot_be_observed_are_refused() {
    let Some(_alone) = emulator_lock() else { return };
    let programs = ProgramFolder::new();
    let file = |name: &str, contents: &[u8], mode| {
        let path = programs.path().join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    assert!(matches!(run(&["/no/such/program"]), Err(Error::NotFound(name)) if name == "/no/such/program"));
    assert!(matches!(run(&["no-such-program-anywhere"]), Err(Error::NotFound(_))));
    let text = file("text", b"hello", 0o755);
    assert!(matches!(run(&[&text]), Err(Error::NotExecutable { .. })));
    let plain = file("plain", b"#!/bin/sh\n", 0o644);
    assert!(matches!(run(&[&plain]), Err(Error::NotExecutable { .. })));
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header[16] = 2;
    header[18] = 243;
    let riscv = file("riscv", &header, 0o755);
    let refused = run(&[&riscv]).unwrap_err();
    assert!(matches!(&refused, Error::OtherArchitecture { found, .. } if found == "RISC-V"), "{refused}");
    assert!(matches!(run(&[]), Err(Error::Request(_))));
}
