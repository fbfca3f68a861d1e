//! Tests of the sequences with a fake area and a signal handler that acts as the kernel, so that every path
//! runs on any machine, under emulation, and with any kernel and C library.
//!
//! The handler does what the kernel does to a thread that it preempts and moves to another CPU. If the thread
//! is in the sequence that `rseq_cs` names, it resumes at the abort handler; `rseq_cs` is cleared, and the
//! CPU changes. Then the handler adds in the row of that CPU as well, as a thread that ran in between would.
#![allow(clippy::unwrap_used, reason = "a test that cannot run fails")]
#![allow(clippy::incompatible_msrv, reason = "tests are built with the workspace's Rust")]

use super::{add, cpu_id};
use crate::{
    area::{Area, Cells},
    engine::Registration,
};
use std::{
    ffi::c_void,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

const CPUS: u32 = 4;

/// `struct rseq` up to `flags`, and its alignment.
#[repr(C, align(32))]
struct FakeRseqArea {
    cpu_id_start: AtomicU32,
    cpu_id: AtomicU32,
    rseq_cs: AtomicU64,
    flags: AtomicU32,
}

/// `struct rseq_cs`.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: u64,
    length: u64,
    abort: u64,
}

impl FakeRseqArea {
    fn on(cpu: u32) -> Self {
        Self { cpu_id_start: cpu.into(), cpu_id: cpu.into(), rseq_cs: 0.into(), flags: 0.into() }
    }

    /// Returns an area with rows for four CPUs, for this thread only.
    fn area(&self) -> Area {
        let offset = std::ptr::from_ref(self).addr().wrapping_sub(thread_pointer()).cast_signed();
        Area::new(1, Registration { offset, cpus: CPUS })
    }
}

fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: x86-64 stores the thread pointer in the word that it points to; AArch64 has it in a register.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// Returns the values of the four CPU rows, and the sum, which includes the shards.
fn rows(cells: &Cells) -> ([i64; 4], i64) {
    // SAFETY: the rows of these CPUs.
    let row = |cpu| unsafe { &*cells.first.wrapping_byte_add(cpu * cells.stride) }.load(Relaxed);
    ([row(0), row(1), row(2), row(3)], cells.sum())
}

#[test]
fn an_add_goes_to_the_row_of_the_cpu_and_leaves_its_descriptor_behind() {
    let made = FakeRseqArea::on(0);
    let area = made.area();
    let cells = area.cells(0);
    for cpu in 0..CPUS {
        made.cpu_id.store(cpu, SeqCst);
        made.rseq_cs.store(0, SeqCst);
        cells.add(10 + i64::from(cpu));
        let descriptor = made.rseq_cs.load(SeqCst) as *const Descriptor;
        assert!(descriptor.is_aligned());
        // SAFETY: an aligned descriptor that the sequence has announced.
        let descriptor = unsafe { &*descriptor };
        assert_eq!((descriptor.version, descriptor.flags), (0, 0));
        assert!((12..64).contains(&descriptor.length), "{}", descriptor.length);
        assert!(!(descriptor.start..descriptor.start + descriptor.length).contains(&descriptor.abort));
        assert_eq!(signature(descriptor), SIGNATURE);
    }
    assert_eq!(rows(&cells), ([10, 11, 12, 13], 46));
    assert_eq!((made.cpu_id_start.load(SeqCst), made.flags.load(SeqCst)), (0, 0));
}

#[test]
fn an_add_without_registration_is_in_the_sum_and_writes_nothing_to_the_area() {
    // Uninitialised, refused, and a CPU number beyond the rows.
    for cpu in [-1_i32 as u32, -2_i32 as u32, CPUS, i32::MAX as u32] {
        let made = FakeRseqArea::on(cpu);
        let area = made.area();
        let cells = area.cells(0);
        assert_eq!(cpu_id(cells.offset), cpu);
        cells.add(5);
        cells.add(-7);
        assert_eq!(rows(&cells), ([0; 4], -2));
        assert_eq!(made.rseq_cs.load(SeqCst), 0);
    }
}

#[test]
fn an_add_that_finds_itself_on_another_cpu_takes_the_other_path() {
    let made = FakeRseqArea::on(1);
    let area = made.area();
    let cells = area.cells(0);
    // SAFETY: the area is this thread's. The thread is on CPU 1, and the sequence is called for CPU 0.
    let new = unsafe { add(&cells, 0, 3) };
    assert_eq!(new, 3);
    // SAFETY: as above.
    let new = unsafe { add(&cells, 0, 4) };
    assert_eq!(new, 7);
    assert_eq!(rows(&cells), ([0; 4], 7));
}

#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;

/// Returns the four bytes before the abort handler.
fn signature(of: &Descriptor) -> u32 {
    // SAFETY: four readable bytes of code.
    unsafe { ((of.abort - 4) as *const u32).read_unaligned() }
}

/// The fake area and the cells of the running test, for the handler. One test runs at a time.
static AREA: AtomicPtr<FakeRseqArea> = AtomicPtr::new(std::ptr::null_mut());
static CELLS: AtomicPtr<Cells> = AtomicPtr::new(std::ptr::null_mut());
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
static HANDLED: AtomicU64 = AtomicU64::new(0);
static BROKEN_OFF: AtomicU64 = AtomicU64::new(0);

/// Does what the kernel does before it resumes an interrupted thread, and adds as another thread on that CPU
/// would.
fn interrupt(context: *mut c_void) {
    let (made, cells) = (AREA.load(SeqCst), CELLS.load(SeqCst));
    if made.is_null() {
        return;
    }
    // SAFETY: the test that set these runs on this thread, and resets them before they are dropped.
    let (made, cells) = unsafe { (&*made, &*cells) };
    // SAFETY: the kernel has created the context for this handler.
    let pc = unsafe { program_counter(context) };
    let descriptor = made.rseq_cs.swap(0, SeqCst) as *const Descriptor;
    // SAFETY: null, or announced by a sequence of this crate.
    let entered = unsafe { descriptor.as_ref() };
    if let Some(descriptor) = entered.filter(|it| pc.wrapping_sub(it.start) < it.length) {
        if signature(descriptor) != SIGNATURE {
            std::process::abort();
        }
        *pc = descriptor.abort;
        BROKEN_OFF.fetch_add(1, SeqCst);
    }
    let cpu = (made.cpu_id.load(SeqCst) + 1) % CPUS;
    made.cpu_id_start.store(cpu, SeqCst);
    made.cpu_id.store(cpu, SeqCst);
    // Adds to all rows, so also to the one that the interrupted thread has read.
    for _ in 0..CPUS {
        cells.add(1);
        made.cpu_id.store((made.cpu_id.load(SeqCst) + 1) % CPUS, SeqCst);
    }
    HANDLED.fetch_add(1, SeqCst);
}

unsafe fn program_counter<'a>(context: *mut c_void) -> &'a mut u64 {
    // SAFETY: by the contract of a handler with SA_SIGINFO.
    let machine = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the register is a 64-bit number.
    return unsafe { &mut *(&raw mut machine.gregs[libc::REG_RIP as usize]).cast::<u64>() };
    #[cfg(target_arch = "aarch64")]
    return &mut machine.pc;
}

fn on_signal(signal: i32, handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void)) {
    // SAFETY: zeroes are a valid `sigaction` without flags; the handler has the signature of SA_SIGINFO, and
    // only does what is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Runs `test` with the handler acting on its area. Returns the number of interrupts, and how many of them
/// aborted a sequence.
fn interrupted(test: impl FnOnce(&Cells)) -> (u64, u64) {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let mut made = FakeRseqArea::on(0);
    let area = made.area();
    let mut cells = area.cells(0);
    HANDLED.store(0, SeqCst);
    BROKEN_OFF.store(0, SeqCst);
    CELLS.store(&raw mut cells, SeqCst);
    AREA.store(&raw mut made, SeqCst);
    test(&cells);
    AREA.store(std::ptr::null_mut(), SeqCst);
    (HANDLED.load(SeqCst), BROKEN_OFF.load(SeqCst))
}

extern "C" fn storm(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    interrupt(context);
}

/// Another thread interrupts this one as fast as it can, at arbitrary instructions.
#[test]
fn a_storm_of_interrupts_loses_nothing() {
    on_signal(libc::SIGUSR1, storm);
    // SAFETY: returns the id of this thread.
    let this = unsafe { libc::pthread_self() } as usize;
    let stop = AtomicBool::new(false);
    let begin = std::time::Instant::now();
    // On a busy machine, the other thread seldom runs at the same time.
    let is_enough = || {
        let seconds = begin.elapsed().as_secs();
        BROKEN_OFF.load(SeqCst) >= if seconds < 20 { 300 } else { 1 } || seconds >= 240
    };
    let mut added = 0;
    let mut sum = 0;
    let (handled, broken_off) = interrupted(|cells| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    let before = HANDLED.load(SeqCst);
                    // SAFETY: the thread lives until this one has been joined.
                    unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGUSR1) };
                    // Waits until it has been handled: otherwise signals would leave no time for adds.
                    while HANDLED.load(SeqCst) == before && !stop.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                }
            });
            while !is_enough() {
                for _ in 0..1000 {
                    cells.add(3);
                }
                added += 3000;
            }
            stop.store(true, SeqCst);
        });
        sum = cells.sum();
    });
    assert_eq!(sum, added + i64::from(CPUS) * handled.cast_signed(), "after {handled} interrupts");
    assert!(broken_off > 0, "none of {handled} interrupts was within a sequence");
}

/// Interrupts an add at every instruction, one after the other, by single-stepping through it.
#[cfg(target_arch = "x86_64")]
mod stepped {
    use super::*;

    static STEP: AtomicU64 = AtomicU64::new(0);
    static AT: AtomicU64 = AtomicU64::new(0);

    /// The trap flag of the flags register: a SIGTRAP after each instruction.
    const TRAP: u64 = 1 << 8;

    extern "C" fn step(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
        if STEP.fetch_add(1, SeqCst) == AT.load(SeqCst) {
            interrupt(context);
        }
    }

    #[inline(never)]
    fn step_through(cells: &Cells, n: i64) {
        // SAFETY: sets and clears the trap flag through the stack. The red zone is not used, because the
        // block is not declared `nostack`.
        unsafe {
            std::arch::asm!("pushfq", "or qword ptr [rsp], {}", "popfq", const TRAP);
        }
        cells.add(n);
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !TRAP as i32);
        }
    }

    #[test]
    fn an_interrupt_at_any_instruction_loses_nothing() {
        on_signal(libc::SIGTRAP, step);
        let (mut instructions, mut broken_off) = (0, 0);
        for at in 0.. {
            assert!(at < 10_000, "stepping does not end");
            let (handled, broken) = interrupted(|cells| {
                cells.add(500);
                STEP.store(0, SeqCst);
                AT.store(at, SeqCst);
                step_through(cells, 40);
                assert_eq!(
                    cells.sum(),
                    540 + i64::from(CPUS) * HANDLED.load(SeqCst).cast_signed(),
                    "at {at}"
                );
                assert!((cells.sum() - cells.approx()).abs() <= cells.approx_error(), "at {at}");
            });
            if handled == 0 {
                break;
            }
            instructions += 1;
            broken_off += broken;
        }
        // cmp, jne, imul, add, load, add and store.
        assert_eq!(broken_off, 7, "of {instructions} instructions");
        assert!(instructions > 12, "{instructions} instructions");
    }
}
