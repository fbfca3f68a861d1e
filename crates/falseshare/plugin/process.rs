//! Threads, forks, and what is mapped when the program begins.

use crate::shadow::{
    Shadow,
    lane::Calls,
    maps::{self, Mapped},
    sys,
};
use crate::{RUNS, SHADOW, STRANGER, api, shadow};
use std::{
    ffi::{CString, OsStr, c_uint},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::{
        Mutex, Once,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// What was mapped before the program was.
static OWN: Mutex<Vec<Mapped>> = Mutex::new(Vec::new());
/// Whether the program's first mappings are recorded.
static BEGUN: Once = Once::new();
/// The thread that forks, plus one.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Remembers what QEMU itself has mapped, so that it is not taken for the program's.
pub fn remember_own_maps() {
    if let (Ok(mut own), Ok(text)) = (OWN.lock(), fs::read("/proc/self/maps")) {
        *own = maps::parse(&text);
    }
}

/// The program begins: records its name and what it has mapped.
fn begin(shadow: &Shadow) {
    let Ok(own) = OWN.lock() else { return };
    let Ok(text) = fs::read("/proc/self/maps") else { return };
    for mapped in maps::parse(&text).iter().filter(|mapped| !own.contains(mapped)) {
        shadow.mapped(mapped);
    }
    let mut path = api::program();
    // As the kernel does: by the name that it was started under, which may be a link's.
    if let Some(Ok(name)) =
        Path::new(OsStr::from_bytes(&path)).file_name().map(|name| CString::new(name.as_bytes()))
    {
        sys::name_thread(&name);
    }
    // A file that has no name any more is called as its mappings are.
    let named = OsStr::from_bytes(&path);
    if let Ok(whole) = fs::canonicalize(named).or_else(|_| fs::read_link(named)) {
        path = whole.into_os_string().into_encoded_bytes();
        path.truncate(path.strip_suffix(b" (deleted)").map_or(path.len(), <[u8]>::len));
    }
    shadow.set_program(&path);
}

/// The kernel refused to take `start..end` away: records what is mapped there again.
pub fn still_maps(shadow: &Shadow, start: u64, end: u64) {
    let (Ok(own), Ok(text)) = (OWN.lock(), fs::read("/proc/self/maps")) else { return };
    let is_there = |mapped: &Mapped| mapped.start < end && start < mapped.end && !own.contains(mapped);
    for mut mapped in maps::parse(&text).into_iter().filter(is_there) {
        let first = mapped.start.max(start);
        mapped.offset += first - mapped.start;
        (mapped.start, mapped.end) = (first, mapped.end.min(end));
        shadow.mapped(&mapped);
    }
}

/// Registers the calling thread as what `vcpu` runs; `address` is what it touches first, which is its stack.
#[cold]
pub fn register(shadow: &Shadow, vcpu: c_uint, address: u64) {
    BEGUN.call_once(|| begin(shadow));
    let runs = &RUNS[vcpu as usize];
    let index = shadow.register(sys::thread_id(), address);
    let lane = index.and_then(|index| Some((index, shadow.lane(index)?)));
    let thread = lane.map_or(STRANGER, |(index, mut lane)| {
        // SAFETY: this thread is the one that the emulated CPU runs.
        unsafe {
            lane.calls = *runs.calls.get();
            (*runs.lane.get()).write(lane);
        }
        index + 1
    });
    runs.thread.store(thread, Relaxed);
}

/// The calling thread, which `vcpu` runs, keeps there which call of a lock's function it is in.
pub fn calls_at(vcpu: c_uint, calls: Calls) {
    let Some(runs) = RUNS.get(vcpu as usize) else { return };
    // SAFETY: the calling thread is the one that the emulated CPU runs.
    unsafe {
        *runs.calls.get() = calls;
        if !matches!(runs.thread.load(Relaxed), 0 | STRANGER) {
            (*runs.lane.get()).assume_init_mut().calls = calls;
        }
    }
}

/// The number of the thread that `vcpu` runs.
pub fn thread_of(vcpu: c_uint) -> Option<u32> {
    let thread = RUNS.get(vcpu as usize)?.thread.load(Relaxed);
    (thread != STRANGER).then_some(thread)?.checked_sub(1)
}

/// The calling thread ends.
pub fn thread_ends(shadow: &Shadow, vcpu: c_uint) {
    let Some(index) = thread_of(vcpu) else { return };
    let runs = &RUNS[vcpu as usize];
    runs.thread.store(0, Relaxed);
    // SAFETY: the calling thread is the one that the emulated CPU runs.
    unsafe { *runs.calls.get() = Calls::NONE };
    name_from_kernel(shadow, index);
    if let Some(thread) = shadow.thread(index) {
        thread.ended.store(1, Relaxed);
    }
}

/// The process ends, or tries to become another program: takes note of the names of its threads.
pub fn ends(shadow: &Shadow, how: u32) {
    for index in 0..shadow.slot().threads.load(Relaxed) {
        if shadow.thread(index).is_some_and(|thread| thread.ended.load(Relaxed) == 0) {
            name_from_kernel(shadow, index);
        }
    }
    shadow.slot().ended.store(how, Relaxed);
}

fn name_from_kernel(shadow: &Shadow, index: u32) {
    let Some(thread) = shadow.thread(index) else { return };
    if let Ok(name) = fs::read(format!("/proc/self/task/{}/comm", thread.tid.load(Relaxed))) {
        shadow.name(index, name.trim_ascii_end());
    }
}

/// Has children of fork begin in a slot of their own.
pub fn follow_forks() {
    sys::at_fork(before, after, in_child);
}

extern "C" fn before() {
    let Some(shadow) = shadow() else { return };
    shadow.before_fork();
    let tid = sys::thread_id();
    let threads = &shadow.slot().thread;
    let caller =
        threads.iter().position(|thread| thread.tid.load(Relaxed) == tid && thread.ended.load(Relaxed) == 0);
    FORKING.store(caller.map_or(0, |caller| caller as u32 + 1), Relaxed);
}

extern "C" fn after() {
    if let Some(shadow) = shadow() {
        shadow.after_fork();
    }
}

extern "C" fn in_child() {
    let Some(shadow) = shadow() else { return };
    let caller = FORKING.load(Relaxed);
    for runs in &RUNS {
        let thread = runs.thread.load(Relaxed);
        if thread != 0 {
            runs.thread.store(0, Relaxed);
            if thread != caller {
                // SAFETY: a child of fork has one thread.
                unsafe { *runs.calls.get() = Calls::NONE };
            }
        }
    }
    if !shadow.in_child(caller.checked_sub(1)) {
        SHADOW.store(ptr::null_mut(), Relaxed);
    }
}
