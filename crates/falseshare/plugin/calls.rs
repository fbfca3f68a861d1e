//! Handles system calls of the program that change its memory map, end threads and processes, or execute programs.

use crate::{
    VCPUS, api, buffers, launch, process,
    shadow::{
        ProcessTracker,
        fast_path::LockCalls,
        maps::Mapped,
        region::{ENDED, EXECUTES, RUNS},
        report_protocol::{REPORT, REPORT_ALLOCATED, REPORT_FREED, REPORT_LOCK_CALLS},
        sys, unobserved,
    },
    tracker,
};
use std::{
    ffi::{CStr, c_uint, c_void},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// Numbers of the system calls that are handled.
struct Numbers {
    brk: i64,
    execve: i64,
    execveat: i64,
    exit: i64,
    exit_group: i64,
    madvise: i64,
    mmap: i64,
    mremap: i64,
    munmap: i64,
    prctl: i64,
}

const X86_64: Numbers = Numbers {
    brk: 12,
    execve: 59,
    execveat: 322,
    exit: 60,
    exit_group: 231,
    madvise: 28,
    mmap: 9,
    mremap: 25,
    munmap: 11,
    prctl: 157,
};

const AARCH64: Numbers = Numbers {
    brk: 214,
    execve: 221,
    execveat: 281,
    exit: 93,
    exit_group: 94,
    madvise: 233,
    mmap: 222,
    mremap: 216,
    munmap: 215,
    prctl: 167,
};

const MAP_ANONYMOUS: u64 = 0x20;
const MADV_DONTNEED: u64 = 4;
const PR_SET_NAME: u64 = 15;

static IS_ARM: AtomicBool = AtomicBool::new(false);
/// Current end of the program's heap.
static BREAK: AtomicU64 = AtomicU64::new(0);
/// Arguments of the system call that each emulated CPU is in.
static CURRENT_ARGUMENTS: [[AtomicU64; 6]; VCPUS] = [const { [const { AtomicU64::new(0) }; 6] }; VCPUS];

/// Address of the instruction with which each emulated CPU made its last system call.
static CALLER: [AtomicU64; VCPUS] = [const { AtomicU64::new(0) }; VCPUS];

/// Callback: the instruction at `code` is about to make a system call.
pub extern "C" fn on_call_instruction(vcpu: c_uint, code: *mut c_void) {
    if let Some(caller) = CALLER.get(vcpu as usize) {
        caller.store(code as u64, Relaxed);
    }
}

/// Returns whether the instruction at `code`, which is being translated, makes a system call.
///
/// # Safety
/// The instruction must have `bytes` readable bytes.
pub unsafe fn is_call(code: u64, bytes: usize) -> bool {
    if code >> 47 != 0 {
        // The `vsyscall` page, which cannot be read at its address.
        return false;
    }
    // SAFETY: required of the caller.
    let instruction = unsafe { std::slice::from_raw_parts(code as *const u8, bytes) };
    match instruction {
        // `svc`, with any number.
        [low, _, high, 0xd4] if IS_ARM.load(Relaxed) => low & 0x1f == 1 && high >> 5 == 0,
        _ => !IS_ARM.load(Relaxed) && instruction.ends_with(&[0x0f, 0x05]),
    }
}

/// Selects the system call numbers of the emulated architecture.
pub fn select_architecture(info: &api::Info) {
    // SAFETY: QEMU passes a valid string.
    let target = unsafe { CStr::from_ptr(info.target) };
    IS_ARM.store(target.to_bytes() == b"aarch64", Relaxed);
}

fn numbers() -> &'static Numbers {
    if IS_ARM.load(Relaxed) { &AARCH64 } else { &X86_64 }
}

/// Callback: a system call starts.
#[allow(clippy::too_many_arguments, reason = "the signature is QEMU's")]
pub extern "C" fn on_call(
    _id: u64,
    vcpu: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _g: u64,
    _h: u64,
) {
    let Some(tracker) = tracker() else { return };
    if number == REPORT {
        on_library_report(tracker, vcpu, [a, b, c, d, e]);
        return;
    }
    if let Some(kept) = CURRENT_ARGUMENTS.get(vcpu as usize) {
        for (kept, argument) in kept.iter().zip([a, b, c, d, e, f]) {
            kept.store(argument, Relaxed);
        }
    }
    let numbers = numbers();
    if number == numbers.exit {
        process::thread_ends(tracker, vcpu);
    } else if number == numbers.exit_group {
        process::ends(tracker, ENDED);
    } else if number == numbers.munmap || number == numbers.mremap {
        // This has to happen now: when the kernel has freed the memory, another thread may get it before this
        // call's return is reported.
        if let Some((start, end)) = pages(a, b) {
            tracker.unmapped(start, end);
        }
    } else if number == numbers.execve {
        on_exec(tracker, launch::execveat_path(launch::AT_FDCWD, &sys::peek_text(a, 4096)), b, c);
    } else if number == numbers.execveat {
        on_exec(tracker, launch::execveat_path(a as i32, &sys::peek_text(b, 4096)), c, d);
    } else if number == numbers.prctl && a == PR_SET_NAME {
        let name = sys::peek_text(b, 16);
        if let Some(thread) = process::thread_of(vcpu) {
            tracker.name(thread, &name);
        }
    }
}

/// Callback: a system call has returned `result`.
pub extern "C" fn on_return(_id: u64, vcpu: c_uint, number: i64, result: i64) {
    let Some(tracker) = tracker() else { return };
    let Some(kept) = CURRENT_ARGUMENTS.get(vcpu as usize) else { return };
    let numbers = numbers();
    if number == numbers.execve || number == numbers.execveat {
        // A successful call does not return.
        tracker.slot().escaped.store(0, Relaxed);
        tracker.slot().ended.store(RUNS, Relaxed);
        return;
    }
    let argument = |index: usize| kept[index].load(Relaxed);
    if (-4095..0).contains(&result) {
        let taken = if number == numbers.munmap || number == numbers.mremap {
            pages(argument(0), argument(1))
        } else {
            None
        };
        if let Some((start, end)) = taken {
            process::record_kept_mappings(tracker, start, end);
        }
        return;
    }
    let result = result as u64;
    let code = CALLER.get(vcpu as usize).map_or(0, |code| code.load(Relaxed));
    buffers::record_buffers(tracker, vcpu, code, number, std::array::from_fn(argument), result);
    if number == numbers.mmap {
        tracker.mapped(&mapping(result, round_to_pages(argument(1)), argument(3), argument(4), argument(5)));
    } else if number == numbers.mremap {
        tracker.mapped(&Mapped {
            start: result,
            end: result.saturating_add(round_to_pages(argument(2))),
            offset: 0,
            path: Vec::new(),
        });
    } else if number == numbers.madvise && argument(2) == MADV_DONTNEED {
        tracker.reset_reused(argument(0), argument(0).saturating_add(round_to_pages(argument(1))));
    } else if number == numbers.brk {
        on_brk(tracker, result);
    }
}

/// Rounds a number of bytes up to whole pages.
fn round_to_pages(bytes: u64) -> u64 {
    let page = sys::page_bytes();
    bytes.div_ceil(page).saturating_mul(page)
}

/// Returns the range that `munmap` removes or `mremap` moves; `None` if the kernel rejects it anyway.
fn pages(start: u64, bytes: u64) -> Option<(u64, u64)> {
    let end = start.checked_add(round_to_pages(bytes))?;
    (start % sys::page_bytes() == 0 && start < end && end >> 48 == 0).then_some((start, end))
}

/// Returns the mapping that `mmap` created.
fn mapping(start: u64, bytes: u64, flags: u64, fd: u64, offset: u64) -> Mapped {
    let end = start.saturating_add(bytes);
    if flags & MAP_ANONYMOUS != 0 || fd as i32 == -1 {
        return Mapped { start, end, offset: 0, path: Vec::new() };
    }
    let path = fs::read_link(format!("/proc/self/fd/{}", fd as i32)).unwrap_or_default();
    let path = path.into_os_string().into_encoded_bytes();
    Mapped { start, end, offset, path: if path.starts_with(b"/") { path } else { Vec::new() } }
}

/// Records that the heap now ends at `now`.
fn on_brk(tracker: &ProcessTracker, now: u64) {
    let before = BREAK.swap(now, Relaxed);
    let [start, most] = &tracker.slot().heap;
    if start.load(Relaxed) == 0 {
        start.store(now, Relaxed);
    }
    most.fetch_max(now, Relaxed);
    if before > now {
        tracker.reset_reused(now, before);
    }
}

/// Handles a call that executes the program at `path` with the arguments `words` and the environment
/// `variables`: executes the emulator with that program instead, if possible. Returns if the emulator has to
/// continue with the original call.
fn on_exec(tracker: &ProcessTracker, path: PathBuf, words: u64, variables: u64) {
    process::ends(tracker, EXECUTES);
    let path = launch::resolve_path(path, |pid| tracker.program_of(pid));
    let why = unobserved::unobserved_reason(&path, Path::new(crate::region_path()));
    let escapes = || tracker.record_unobserved(&[path.as_os_str().as_bytes(), why.as_bytes()].join(&0));
    let lists = sys::peek_texts(words).zip(sys::peek_texts(variables));
    let start = lists.and_then(|(words, variables)| {
        launch::ProgramStart { path: path.clone(), words, variables }.in_emulator()
    });
    match start {
        Some((start, true)) => {
            start.execute();
            escapes();
        }
        Some((start, false)) => {
            escapes();
            start.execute();
        }
        None => escapes(),
    }
}

/// Handles a report of the library in the program.
fn on_library_report(tracker: &ProcessTracker, vcpu: c_uint, [what, a, b, c, d]: [u64; 5]) {
    match what {
        REPORT_ALLOCATED => {
            let mut callers = [0_u8; 8 * crate::shadow::heap::CALLERS];
            let wanted = (d as usize).min(crate::shadow::heap::CALLERS) * 8;
            let count = if wanted == 0 { 0 } else { sys::peek(c, &mut callers[..wanted]) / 8 };
            let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
            let callers: Vec<u64> = callers.chunks_exact(8).take(count).map(word).collect();
            tracker.allocated(a, b, &callers);
        }
        REPORT_FREED => tracker.freed(a),
        REPORT_LOCK_CALLS => process::calls_at(vcpu, LockCalls::new(a, (b, c))),
        _ => {}
    }
}
