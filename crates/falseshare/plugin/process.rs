//! Threads, forks, and the mappings of the program at its start.

use crate::{
    TRACKER, UNREGISTERED, VCPU_THREADS, api,
    shadow::{
        ProcessTracker,
        fast_path::LockCalls,
        maps::{self, Mapped},
        sys,
    },
    tracker,
};
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

/// Mappings that existed before the program was loaded.
static QEMU_MAPPINGS: Mutex<Vec<Mapped>> = Mutex::new(Vec::new());
/// Whether the program's first mappings were recorded.
static PROGRAM_STARTED: Once = Once::new();
/// Index plus one of the thread that is forking.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Stores QEMU's own mappings, so that they are not attributed to the program.
pub fn remember_own_maps() {
    if let (Ok(mut own), Ok(text)) = (QEMU_MAPPINGS.lock(), fs::read("/proc/self/maps")) {
        *own = maps::parse(&text);
    }
}

/// Records the name and the mappings of the program when it starts.
fn record_program_start(tracker: &ProcessTracker) {
    let Ok(own) = QEMU_MAPPINGS.lock() else { return };
    let Ok(text) = fs::read("/proc/self/maps") else { return };
    for mapped in maps::parse(&text).iter().filter(|mapped| !own.contains(mapped)) {
        tracker.mapped(mapped);
    }
    let mut path = api::program();
    // Set the thread name as the kernel does: from the name in the command, which may be a link.
    if let Some(Ok(name)) =
        Path::new(OsStr::from_bytes(&path)).file_name().map(|name| CString::new(name.as_bytes()))
    {
        sys::name_thread(&name);
    }
    // A file that has been deleted gets the name that its mappings have.
    let named = OsStr::from_bytes(&path);
    if let Ok(whole) = fs::canonicalize(named).or_else(|_| fs::read_link(named)) {
        path = whole.into_os_string().into_encoded_bytes();
        path.truncate(path.strip_suffix(b" (deleted)").map_or(path.len(), <[u8]>::len));
    }
    tracker.set_program(&path);
}

/// Records the mappings in `start..end` again after the kernel refused to remove them.
pub fn record_kept_mappings(tracker: &ProcessTracker, start: u64, end: u64) {
    let (Ok(own), Ok(text)) = (QEMU_MAPPINGS.lock(), fs::read("/proc/self/maps")) else { return };
    let is_there = |mapped: &Mapped| mapped.start < end && start < mapped.end && !own.contains(mapped);
    for mut mapped in maps::parse(&text).into_iter().filter(is_there) {
        let first = mapped.start.max(start);
        mapped.offset += first - mapped.start;
        (mapped.start, mapped.end) = (first, mapped.end.min(end));
        tracker.mapped(&mapped);
    }
}

/// Registers the calling thread as the one that `vcpu` runs. `address` is its first access, which is on its stack.
#[cold]
pub fn register(tracker: &ProcessTracker, vcpu: c_uint, address: u64) {
    PROGRAM_STARTED.call_once(|| record_program_start(tracker));
    let vcpu_thread = &VCPU_THREADS[vcpu as usize];
    let index = tracker.register(sys::thread_id(), address);
    let fast_path = index.and_then(|index| Some((index, tracker.fast_path(index)?)));
    let thread = fast_path.map_or(UNREGISTERED, |(index, mut fast_path)| {
        // SAFETY: this thread is the one that the emulated CPU runs.
        unsafe {
            fast_path.calls = *vcpu_thread.calls.get();
            (*vcpu_thread.fast_path.get()).write(fast_path);
        }
        index + 1
    });
    vcpu_thread.thread.store(thread, Relaxed);
}

/// Stores where the calling thread, which `vcpu` runs, keeps the lock function call that it is in.
pub fn calls_at(vcpu: c_uint, calls: LockCalls) {
    let Some(vcpu_thread) = VCPU_THREADS.get(vcpu as usize) else { return };
    // SAFETY: the calling thread is the one that the emulated CPU runs.
    unsafe {
        *vcpu_thread.calls.get() = calls;
        if !matches!(vcpu_thread.thread.load(Relaxed), 0 | UNREGISTERED) {
            (*vcpu_thread.fast_path.get()).assume_init_mut().calls = calls;
        }
    }
}

/// Returns the index of the thread that `vcpu` runs.
pub fn thread_of(vcpu: c_uint) -> Option<u32> {
    let thread = VCPU_THREADS.get(vcpu as usize)?.thread.load(Relaxed);
    (thread != UNREGISTERED).then_some(thread)?.checked_sub(1)
}

/// Records that the calling thread exits.
pub fn thread_ends(tracker: &ProcessTracker, vcpu: c_uint) {
    let Some(index) = thread_of(vcpu) else { return };
    let vcpu_thread = &VCPU_THREADS[vcpu as usize];
    vcpu_thread.thread.store(0, Relaxed);
    // SAFETY: the calling thread is the one that the emulated CPU runs.
    unsafe { *vcpu_thread.calls.get() = LockCalls::NONE };
    name_from_kernel(tracker, index);
    if let Some(thread) = tracker.thread(index) {
        thread.ended.store(1, Relaxed);
    }
}

/// Records the names of all threads when the process exits or tries to execute another program.
pub fn ends(tracker: &ProcessTracker, how: u32) {
    for index in 0..tracker.slot().threads.load(Relaxed) {
        if tracker.thread(index).is_some_and(|thread| thread.ended.load(Relaxed) == 0) {
            name_from_kernel(tracker, index);
        }
    }
    tracker.slot().ended.store(how, Relaxed);
}

fn name_from_kernel(tracker: &ProcessTracker, index: u32) {
    let Some(thread) = tracker.thread(index) else { return };
    if let Ok(name) = fs::read(format!("/proc/self/task/{}/comm", thread.tid.load(Relaxed))) {
        tracker.name(index, name.trim_ascii_end());
    }
}

/// Registers handlers that give each forked child a slot of its own.
pub fn follow_forks() {
    sys::at_fork(before, after, in_child);
}

extern "C" fn before() {
    let Some(tracker) = tracker() else { return };
    tracker.before_fork();
    let tid = sys::thread_id();
    let threads = &tracker.slot().thread;
    let caller =
        threads.iter().position(|thread| thread.tid.load(Relaxed) == tid && thread.ended.load(Relaxed) == 0);
    FORKING.store(caller.map_or(0, |caller| caller as u32 + 1), Relaxed);
}

extern "C" fn after() {
    if let Some(tracker) = tracker() {
        tracker.after_fork();
    }
}

extern "C" fn in_child() {
    let Some(tracker) = tracker() else { return };
    let caller = FORKING.load(Relaxed);
    for vcpu_thread in &VCPU_THREADS {
        let thread = vcpu_thread.thread.load(Relaxed);
        if thread != 0 {
            vcpu_thread.thread.store(0, Relaxed);
            if thread != caller {
                // SAFETY: a forked child has a single thread.
                unsafe { *vcpu_thread.calls.get() = LockCalls::NONE };
            }
        }
    }
    if !tracker.in_child(caller.checked_sub(1)) {
        TRACKER.store(ptr::null_mut(), Relaxed);
    }
}
