//! Tests of the public interface, with this machine's kernel and C library.
#![allow(clippy::unwrap_used, reason = "a test that cannot run fails")]

use manycore_percpu::{Engine, PerCpuCounter, PerCpuCounters, engine};
use std::{
    process::Command,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
    thread,
};

#[path = "common/mod.rs"]
mod common;
use common::{move_to, on_signal, rseq, symbol, tid};

/// Returns the number of adds of the large test, which is smaller under emulation.
fn adds() -> u64 {
    std::env::var("PERCPU_ADDS").map_or(1_000_000_000, |adds| adds.parse().unwrap())
}

static STORM: PerCpuCounter = PerCpuCounter::new();
static BY_HANDLERS: AtomicI64 = AtomicI64::new(0);

extern "C" fn add_in_handler(_: i32) {
    STORM.add_local(7);
    BY_HANDLERS.fetch_add(7, SeqCst);
}

/// Threads on all CPUs add while they are migrated by another thread and interrupted by signals whose
/// handlers add, too.
#[test]
fn a_billion_adds_among_migrations_and_signals_are_all_counted() {
    // Allocates the memory, which a handler must not do.
    assert_eq!(STORM.sum(), 0);
    on_signal(libc::SIGUSR2, add_in_handler);
    let cpus = thread::available_parallelism().unwrap().get();
    let (threads, stop) = (2 * cpus as u64, AtomicBool::new(false));
    let each = adds() / threads;
    let (moved, signalled) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let adders: Vec<_> = (0..threads)
            .map(|_| {
                let tell = tell.clone();
                scope.spawn(move || {
                    tell.send(tid()).unwrap();
                    (0..each).for_each(|_| STORM.add_local(1));
                })
            })
            .collect();
        let targets: Vec<i32> = told.iter().take(adders.len()).collect();
        let (stop, moved, signalled) = (&stop, &moved, &signalled);
        scope.spawn(move || {
            for turn in 0.. {
                for (index, target) in targets.iter().enumerate() {
                    // A thread that has ended is neither moved nor signalled.
                    moved.fetch_add(u64::from(move_to(*target, (turn + index) % cpus)), SeqCst);
                    signalled.fetch_add(u64::from(common::signal(*target, libc::SIGUSR2)), SeqCst);
                }
                if stop.load(SeqCst) {
                    break;
                }
            }
        });
        for adder in adders {
            adder.join().unwrap();
        }
        stop.store(true, SeqCst);
    });
    let expected = (each * threads).cast_signed() + BY_HANDLERS.load(SeqCst);
    assert!(BY_HANDLERS.load(SeqCst) > 0 && signalled.load(SeqCst) > 0 && moved.load(SeqCst) > 0);
    assert_eq!(STORM.sum(), expected, "{moved:?} moves, {signalled:?} signals, {}", engine());
    assert!((STORM.approx() - STORM.sum()).abs() <= STORM.approx_error());
}

#[test]
fn resets_beside_adds_lose_nothing_and_sums_do_not_shrink_between_them() {
    for counter in [PerCpuCounter::new(), PerCpuCounter::with_atomics()] {
        let done = AtomicBool::new(false);
        let returned = thread::scope(|scope| {
            let resetters: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut returned = 0;
                        while !done.load(SeqCst) {
                            let taken = counter.reset();
                            assert!(taken >= 0, "only positive amounts were added");
                            returned += taken;
                        }
                        returned
                    })
                })
                .collect();
            let adders: Vec<_> =
                (0..3).map(|_| scope.spawn(|| (0..300_000).for_each(|_| counter.add_local(2)))).collect();
            for adder in adders {
                adder.join().unwrap();
            }
            done.store(true, SeqCst);
            resetters.into_iter().map(|resetter| resetter.join().unwrap()).sum::<i64>()
        });
        assert_eq!(returned + counter.sum(), 3 * 600_000, "{}", counter.engine());
    }
}

#[test]
fn sums_that_are_read_beside_adds_never_shrink() {
    let counter = PerCpuCounter::new();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = 0;
            while !done.load(SeqCst) {
                let sum = counter.sum();
                assert!(sum >= last);
                last = sum;
            }
        });
        let adders: Vec<_> =
            (0..3).map(|_| scope.spawn(|| (0..500_000).for_each(|_| counter.add_local(1)))).collect();
        for adder in adders {
            adder.join().unwrap();
        }
        done.store(true, SeqCst);
        reader.join().unwrap();
    });
    assert_eq!(counter.sum(), 1_500_000);
}

/// Regression test: the base was read after the shared value, so a reset in between was subtracted without
/// the adds that it belonged to.
#[test]
fn approx_beside_resets_never_takes_one_off_twice() {
    let counter = PerCpuCounter::new();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3_000_000 {
                counter.add_local(100_000);
                counter.reset();
            }
            done.store(true, SeqCst);
        });
        // An add in progress may be missing.
        let least = -(counter.approx_error() + 1024 + 100_000);
        while !done.load(SeqCst) {
            let seen = counter.approx();
            assert!(seen >= least, "{seen}");
        }
    });
}

#[test]
fn approx_is_within_its_bound_whatever_was_added() {
    let counter = PerCpuCounter::new();
    let mut sum = 0_i64;
    for n in [1, -1, 511, 1, 512, -2000, 1024, 5, i64::MAX, i64::MAX, 3, i64::MIN, -1] {
        counter.add_local(n);
        sum = sum.wrapping_add(n);
        assert_eq!(counter.sum(), sum);
        let error = counter.approx().wrapping_sub(sum).unsigned_abs();
        assert!(error <= counter.approx_error().unsigned_abs(), "{error} after {n}");
    }
    counter.sub_local(i64::MIN);
    assert_eq!(counter.sum(), sum.wrapping_sub(i64::MIN));
    assert!(counter.reset() == sum.wrapping_sub(i64::MIN) && counter.sum() == 0);
}

#[test]
fn many_counters_share_rows_and_nothing_else() {
    let counters = PerCpuCounters::new(1000);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100_000).for_each(|n| counters.add_local(n % 1000, n as i64 % 7)));
        }
    });
    for (index, counter) in counters.iter().enumerate() {
        let expected: i64 = (index..100_000).step_by(1000).map(|n| n as i64 % 7).sum();
        assert_eq!(counter.sum(), 4 * expected, "counter {index}");
    }
    assert_eq!((counters.len(), counters.sums().len(), counters.get(1000).is_none()), (1000, 1000, true));
    assert!(counters.bytes() < 1000 * PerCpuCounter::new().bytes() / 10);
}

#[test]
#[should_panic(expected = "counter 3 of 3")]
fn an_index_beyond_the_counters_panics() {
    PerCpuCounters::new(3).add_local(3, 1);
}

#[test]
fn counters_of_statics_are_allocated_once_by_threads_that_use_them_first_together() {
    static ONE: PerCpuCounter = PerCpuCounter::new();
    static MANY: PerCpuCounters = PerCpuCounters::new(40);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                ONE.add_local(1);
                MANY.add_local(39, 2);
                MANY.sub_local(0, 1);
            });
        }
    });
    let mut sums = Vec::new();
    for counter in &MANY {
        sums.push(counter.sum());
    }
    assert_eq!((ONE.sum(), sums[0], sums[39], sums.iter().sum::<i64>()), (8, -8, 16, 8));
    assert_eq!((MANY.iter().next_back().unwrap().sum(), MANY.iter().len()), (16, 40));
}

#[test]
#[should_panic(expected = "exceed the address space")]
fn counters_that_no_address_space_holds_panic_at_their_first_use() {
    PerCpuCounters::new(usize::MAX).add_local(0, 1);
}

#[test]
fn threads_that_end_leave_their_adds() {
    let counter = PerCpuCounter::new();
    for _ in 0..300 {
        thread::scope(|scope| {
            scope.spawn(|| counter.add_local(3));
        });
    }
    assert_eq!(counter.sum(), 900);
}

#[test]
fn parent_and_child_of_a_fork_count_on_their_own() {
    let counter = PerCpuCounter::new();
    counter.add_local(10);
    // SAFETY: the child adds, reads and exits at once, which is allowed after a fork of a process with
    // threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        (0..1000).for_each(|_| counter.add_local(1));
        let right = counter.sum() == 1010 && Engine::of_thread() == engine();
        // SAFETY: ends the child without running exit handlers of the parent.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    (0..500).for_each(|_| counter.add_local(1));
    let mut status = 0;
    // SAFETY: the status is written for a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((status, counter.sum()), (0, 510));
}

/// A thread unregisters its area while other threads are registered.
#[test]
fn a_thread_without_registration_is_counted_beside_those_that_have_it() {
    if engine() == Engine::Atomics {
        println!("SKIPPED: no thread is registered here ({})", engine());
        return;
    }
    let counter = PerCpuCounter::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..200_000).for_each(|_| counter.add_local(1)));
        }
        scope.spawn(|| {
            assert!(rseq(1), "glibc's registration can be taken back");
            assert_eq!(Engine::of_thread(), Engine::Atomics);
            (0..200_000).for_each(|_| counter.add_local(1));
            assert!(rseq(0), "and made again");
            assert_eq!(Engine::of_thread(), Engine::Rseq);
            (0..200_000).for_each(|_| counter.add_local(1));
        });
    });
    assert_eq!(counter.sum(), 800_000);
}

/// Run by itself, and by the tests below in other environments, which set the expected engine.
#[test]
fn the_engine_is_the_one_that_the_c_library_offers() {
    let registered = symbol(c"__rseq_size").is_some_and(|size| size > 0);
    let expected = if registered { Engine::Rseq } else { Engine::Atomics };
    let expected = std::env::var("PERCPU_EXPECTED").unwrap_or_else(|_| expected.to_string());
    assert_eq!(engine().to_string(), expected);
    let counter = PerCpuCounter::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20_000).for_each(|_| counter.add_local(1)));
        }
    });
    assert_eq!(counter.sum(), 80_000);
    assert!((counter.approx() - 80_000).abs() <= counter.approx_error());
    println!("counted with {}", counter.engine());
}

/// Runs the test above in the way that `command` starts it, and expects atomics.
fn counts_with_atomics(mut command: Command) {
    let output = command
        .args(["--exact", "the_engine_is_the_one_that_the_c_library_offers", "--nocapture"])
        .env("PERCPU_EXPECTED", Engine::Atomics.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("counted with sharded atomics"), "{said}");
}

#[test]
fn switched_off_by_the_user_it_counts_with_atomics() {
    if std::env::var_os("PERCPU_EMULATED").is_some() {
        println!("SKIPPED: the program is emulated and cannot start itself");
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    counts_with_atomics(command);
}

#[test]
fn refused_by_a_seccomp_filter_it_counts_with_atomics() {
    if std::env::var_os("PERCPU_EMULATED").is_some() {
        println!("SKIPPED: the program is emulated, and a filter would apply to the emulator");
        return;
    }
    for error in [libc::EPERM, libc::ENOSYS] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        common::refuse_rseq(&mut command, error);
        counts_with_atomics(command);
    }
}

#[test]
fn under_valgrind_it_counts_with_atomics() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("SKIPPED: valgrind is not installed");
        return;
    }
    if cfg!(target_feature = "crt-static") || std::env::var_os("PERCPU_EMULATED").is_some() {
        println!("SKIPPED: valgrind supports neither static programs nor emulated ones");
        return;
    }
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=9"]).arg(std::env::current_exe().unwrap());
    counts_with_atomics(command);
}

/// `dlclose` does not unload the library, so that the kernel can read descriptors in it at any time.
#[test]
fn a_library_with_counters_stays_after_it_was_closed() {
    let folder = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    let library = folder.join("libplugin.so");
    if !library.exists() {
        println!("SKIPPED: {} was not built (cargo test builds it with the examples)", library.display());
        return;
    }
    common::loaded_and_closed(&library);
}
