//! System calls of the program that tell where its memory is, who ends, and what it becomes.

use crate::{VCPUS, api, process, shadow};
use manycore_shadow::{
    Shadow,
    calls::{TELL, TELL_ALLOCATED, TELL_FREED},
    escape,
    maps::Mapped,
    region::{BECOMES, ENDED, RUNS},
    sys,
};
use std::{
    ffi::{CStr, c_uint},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// Numbers of the system calls that matter.
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
/// Where the program's heap ends now.
static BREAK: AtomicU64 = AtomicU64::new(0);
/// Arguments of the call that each emulated CPU is in.
static UNDER_WAY: [[AtomicU64; 6]; VCPUS] = [const { [const { AtomicU64::new(0) }; 6] }; VCPUS];

/// Takes the numbers of the architecture that is emulated.
pub fn choose(info: &api::Info) {
    // SAFETY: QEMU gives a text.
    let target = unsafe { CStr::from_ptr(info.target) };
    IS_ARM.store(target.to_bytes() == b"aarch64", Relaxed);
}

fn numbers() -> &'static Numbers {
    if IS_ARM.load(Relaxed) { &AARCH64 } else { &X86_64 }
}

/// A system call begins.
#[allow(clippy::too_many_arguments, reason = "it is what QEMU gives")]
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
    let Some(shadow) = shadow() else { return };
    if number == TELL {
        told(shadow, [a, b, c, d, e]);
        return;
    }
    if let Some(kept) = UNDER_WAY.get(vcpu as usize) {
        for (kept, argument) in kept.iter().zip([a, b, c, d, e, f]) {
            kept.store(argument, Relaxed);
        }
    }
    let numbers = numbers();
    if number == numbers.exit {
        process::thread_ends(shadow, vcpu);
    } else if number == numbers.exit_group {
        process::ends(shadow, ENDED);
    } else if number == numbers.munmap || number == numbers.mremap {
        // Now: once the kernel has freed it, another thread may be given it before we hear of the end of this call.
        if let Some((start, end)) = pages(a, b) {
            shadow.unmapped(start, end);
        }
    } else if number == numbers.execve {
        becomes(shadow, &sys::peek_text(a, 4096));
    } else if number == numbers.execveat {
        let path = sys::peek_text(b, 4096);
        let opened = || fs::read_link(format!("/proc/self/fd/{a}")).unwrap_or_default();
        if path.is_empty() {
            becomes(shadow, opened().as_os_str().as_bytes())
        } else {
            becomes(shadow, &path)
        }
    } else if number == numbers.prctl && a == PR_SET_NAME {
        let name = sys::peek_text(b, 16);
        if let Some(thread) = process::thread_of(vcpu) {
            shadow.name(thread, &name);
        }
    }
}

/// A system call has returned `result`.
pub extern "C" fn on_return(_id: u64, vcpu: c_uint, number: i64, result: i64) {
    let Some(shadow) = shadow() else { return };
    let Some(kept) = UNDER_WAY.get(vcpu as usize) else { return };
    let numbers = numbers();
    if number == numbers.execve || number == numbers.execveat {
        // Where it succeeds, it does not return.
        shadow.slot().escaped.store(0, Relaxed);
        shadow.slot().ended.store(RUNS, Relaxed);
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
            process::still_maps(shadow, start, end);
        }
        return;
    }
    let result = result as u64;
    if number == numbers.mmap {
        shadow.mapped(&mapping(result, whole(argument(1)), argument(3), argument(4), argument(5)));
    } else if number == numbers.mremap {
        shadow.mapped(&Mapped {
            start: result,
            end: result.saturating_add(whole(argument(2))),
            offset: 0,
            path: Vec::new(),
        });
    } else if number == numbers.madvise && argument(2) == MADV_DONTNEED {
        shadow.renew(argument(0), argument(0).saturating_add(whole(argument(1))));
    } else if number == numbers.brk {
        broke(shadow, result);
    }
}

/// As many bytes as the pages that hold `bytes` bytes.
fn whole(bytes: u64) -> u64 {
    let page = sys::page_bytes();
    bytes.div_ceil(page).saturating_mul(page)
}

/// The pages that `munmap` takes away, and those that `mremap` moves; `None` where the kernel refuses anyway.
fn pages(start: u64, bytes: u64) -> Option<(u64, u64)> {
    let end = start.checked_add(whole(bytes))?;
    (start % sys::page_bytes() == 0 && start < end && end >> 48 == 0).then_some((start, end))
}

/// What `mmap` made.
fn mapping(start: u64, bytes: u64, flags: u64, fd: u64, offset: u64) -> Mapped {
    let end = start.saturating_add(bytes);
    if flags & MAP_ANONYMOUS != 0 || fd as i32 == -1 {
        return Mapped { start, end, offset: 0, path: Vec::new() };
    }
    let path = fs::read_link(format!("/proc/self/fd/{}", fd as i32)).unwrap_or_default();
    let path = path.into_os_string().into_encoded_bytes();
    Mapped { start, end, offset, path: if path.starts_with(b"/") { path } else { Vec::new() } }
}

/// The heap ends at `now`.
fn broke(shadow: &Shadow, now: u64) {
    let before = BREAK.swap(now, Relaxed);
    let [start, most] = &shadow.slot().heap;
    if start.load(Relaxed) == 0 {
        start.store(now, Relaxed);
    }
    most.fetch_max(now, Relaxed);
    if before > now {
        shadow.renew(now, before);
    }
}

/// The process wants to be another program: it is seen further only where that is run by this emulator.
fn becomes(shadow: &Shadow, path: &[u8]) {
    let own = fs::canonicalize("/proc/self/exe").ok();
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    process::ends(shadow, BECOMES);
    if own.is_none() || fs::canonicalize(path).ok() != own {
        let why = escape::why(path, Path::new(crate::region_path()));
        shadow.escapes(&[path.as_os_str().as_bytes(), why.as_bytes()].join(&0));
    }
}

/// What the library in the program tells.
fn told(shadow: &Shadow, [what, a, b, c, d]: [u64; 5]) {
    match what {
        TELL_ALLOCATED => {
            let mut callers = [0_u8; 8 * manycore_shadow::heap::CALLERS];
            let wanted = (d as usize).min(manycore_shadow::heap::CALLERS) * 8;
            let count = if wanted == 0 { 0 } else { sys::peek(c, &mut callers[..wanted]) / 8 };
            let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
            let callers: Vec<u64> = callers.chunks_exact(8).take(count).map(word).collect();
            shadow.allocated(a, b, &callers);
        }
        TELL_FREED => shadow.freed(a),
        _ => {}
    }
}
