//! The QEMU plugin of manycore, which handles each memory access and each system call of the program.
//!
//! QEMU's plugin interface is in C; the few functions that are used are declared by hand (`api`). Addresses
//! of the emulated program are addresses of this process: QEMU's user mode maps the program that way wherever
//! it can. Otherwise [`api::install`] does not continue.

#[path = "../src/shadow/mod.rs"]
mod shadow;

mod api;
mod buffers;
mod calls;
mod launch;
mod process;

use crate::shadow::{AccessKind, ProcessTracker, ThreadFastPath, fast_path::LockCalls, region::Region};
use std::{
    cell::UnsafeCell,
    ffi::{c_char, c_int, c_uint, c_void},
    mem::MaybeUninit,
    ptr,
    sync::{
        OnceLock,
        atomic::{
            AtomicPtr, AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// Maximum number of emulated CPUs at a time. Each runs one thread of the program.
const VCPUS: usize = 8192;

/// The state of this process; null if there was no space for it.
static TRACKER: AtomicPtr<ProcessTracker> = AtomicPtr::new(ptr::null_mut());

/// The thread that an emulated CPU runs.
#[repr(align(128))]
struct VcpuThread {
    /// Its index plus one; 0 before it is registered.
    thread: AtomicU32,
    /// Initialized if there is a thread. Only that thread reads and writes it.
    fast_path: UnsafeCell<MaybeUninit<ThreadFastPath>>,
    /// The lock function call that the thread is in. Only that thread writes it.
    calls: UnsafeCell<LockCalls>,
}

// SAFETY: each emulated CPU runs one thread at a time, and only that thread accesses its fields.
unsafe impl Sync for VcpuThread {}

/// Value of [`VcpuThread::thread`] if there are too many threads for this one.
const UNREGISTERED: u32 = u32::MAX;

static VCPU_THREADS: [VcpuThread; VCPUS] = [const {
    VcpuThread {
        thread: AtomicU32::new(0),
        fast_path: UnsafeCell::new(MaybeUninit::uninit()),
        calls: UnsafeCell::new(LockCalls::NONE),
    }
}; VCPUS];

/// Path of the region.
static REGION: OnceLock<String> = OnceLock::new();

/// Returns the path of the region, as passed to the emulator.
fn region_path() -> &'static str {
    REGION.get().map_or("", String::as_str)
}

/// Returns the state of this process.
#[inline]
fn tracker() -> Option<&'static ProcessTracker> {
    // SAFETY: the pointer is set once, to memory that is never freed.
    unsafe { TRACKER.load(Acquire).as_ref() }
}

/// Callback: a memory access. `code` is the address of the instruction.
extern "C" fn on_access(vcpu: c_uint, info: u32, address: u64, code: *mut c_void) {
    let (code, does) = (code as u64, info >> 16 & 3);
    let Some(vcpu_thread) = VCPU_THREADS.get(vcpu as usize) else { return };
    if !matches!(vcpu_thread.thread.load(Relaxed), 0 | UNREGISTERED) {
        // SAFETY: the fast path was initialized when the thread registered, and a fork resets the registration.
        let quick = unsafe {
            (*vcpu_thread.fast_path.get()).assume_init_ref().try_record(
                code,
                address,
                does & 1 != 0,
                does & 2 != 0,
            )
        };
        if quick {
            return;
        }
    }
    on_slow_access(vcpu, info, address, code);
}

/// Handles an access that changes more than a counter.
#[inline(never)]
fn on_slow_access(vcpu: c_uint, info: u32, address: u64, code: u64) {
    let Some(tracker) = tracker() else { return };
    let vcpu_thread = &VCPU_THREADS[vcpu as usize];
    if vcpu_thread.thread.load(Relaxed) == 0 {
        process::register(tracker, vcpu, address);
    }
    let thread = vcpu_thread.thread.load(Relaxed);
    if thread == UNREGISTERED {
        tracker.slot().overflow_accesses.fetch_add(1, Relaxed);
        return;
    }
    let kind = match info >> 16 & 3 {
        1 => AccessKind::Read,
        2 => AccessKind::Write,
        _ => AccessKind::Update,
    };
    // SAFETY: the function only reads the number.
    let bytes = 1 << unsafe { api::qemu_plugin_mem_size_shift(info) }.min(6);
    // SAFETY: the thread is registered.
    let code = unsafe { (*vcpu_thread.fast_path.get()).assume_init_ref().code(code) };
    tracker.access(thread - 1, code, address, bytes, kind);
}

/// Callback: a block of the program is translated. Registers the callbacks for its accesses and system calls.
extern "C" fn on_translation(_id: u64, block: *mut c_void) {
    // SAFETY: QEMU passes a block that is valid during this call, with its instructions.
    unsafe {
        for index in 0..api::qemu_plugin_tb_n_insns(block) {
            let instruction = api::qemu_plugin_tb_get_insn(block, index);
            let code = api::qemu_plugin_insn_vaddr(instruction);
            // One function for reads and writes: QEMU 7 reports an access of its helpers to the first function only.
            api::qemu_plugin_register_vcpu_mem_cb(instruction, on_access, 0, 3, code as *mut c_void);
            if calls::is_call(code, api::qemu_plugin_insn_size(instruction)) {
                let data = code as *mut c_void;
                api::qemu_plugin_register_vcpu_insn_exec_cb(instruction, calls::on_call_instruction, 0, data);
            }
        }
    }
}

/// Entry point, called by QEMU.
///
/// # Safety
/// `arguments` must be `count` valid strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const api::Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes `count` strings.
    let argument = |index: usize| unsafe { std::ffi::CStr::from_ptr(*arguments.add(index)) }.to_str().ok();
    let path = (0..count.max(0) as usize).filter_map(argument).find_map(|text| text.strip_prefix("region="));
    let Some(path) = path else {
        eprintln!("manycore: the plugin needs an argument region=PATH");
        return 1;
    };
    // QEMU may free its strings after this call.
    let path: &str = REGION.get_or_init(|| path.to_owned());
    let tracker = match Region::open(path).and_then(ProcessTracker::new) {
        Ok(Some(tracker)) => Box::new(tracker),
        // There are more processes than slots; the observer counts them.
        Ok(None) => return 0,
        Err(error) => {
            eprintln!("manycore: cannot record this program's accesses in {path}: {error}");
            return 1;
        }
    };
    // SAFETY: QEMU passes a valid description of itself.
    calls::select_architecture(unsafe { &*info });
    launch::store_paths();
    process::remember_own_maps();
    TRACKER.store(Box::into_raw(tracker), Release);
    process::follow_forks();
    // SAFETY: the functions remain valid as long as the process runs.
    unsafe {
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        api::qemu_plugin_register_vcpu_syscall_cb(id, calls::on_call);
        api::qemu_plugin_register_vcpu_syscall_ret_cb(id, calls::on_return);
    }
    0
}
