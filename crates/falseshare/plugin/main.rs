//! The part of manycore that lives in the emulator: QEMU tells it each access and each system call.
//!
//! QEMU's interface for plugins is C; the few functions that are used are declared by hand (`api`). Addresses of
//! the emulated program are addresses of this process: QEMU in user mode places it so wherever it can, and
//! [`api::install`] is not gone on with otherwise.

#[path = "../src/shadow/mod.rs"]
mod shadow;

mod api;
mod buffers;
mod calls;
mod launch;
mod process;

use crate::shadow::{Kind, Lane, Shadow, lane::Calls, region::Region};
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

/// Most emulated CPUs at a time, which is threads of the program.
const VCPUS: usize = 8192;

/// What is kept of this process; null where there was no room for it.
static SHADOW: AtomicPtr<Shadow> = AtomicPtr::new(ptr::null_mut());

/// The thread that an emulated CPU runs.
#[repr(align(128))]
struct Runs {
    /// Its number plus one; 0 where it did not register yet.
    thread: AtomicU32,
    /// Valid where there is a thread; only that reads and writes it.
    lane: UnsafeCell<MaybeUninit<Lane>>,
    /// Which call the thread is in; only that writes it.
    calls: UnsafeCell<Calls>,
}

// SAFETY: each emulated CPU is one thread at a time.
unsafe impl Sync for Runs {}

/// There are too many threads for this one.
const STRANGER: u32 = u32::MAX;

static RUNS: [Runs; VCPUS] = [const {
    Runs {
        thread: AtomicU32::new(0),
        lane: UnsafeCell::new(MaybeUninit::uninit()),
        calls: UnsafeCell::new(Calls::NONE),
    }
}; VCPUS];

/// Where the region is.
static REGION: OnceLock<String> = OnceLock::new();

/// Where the region is, as the emulator was told.
fn region_path() -> &'static str {
    REGION.get().map_or("", String::as_str)
}

/// What is kept of this process.
#[inline]
fn shadow() -> Option<&'static Shadow> {
    // SAFETY: it is set once to memory that is never freed.
    unsafe { SHADOW.load(Acquire).as_ref() }
}

/// An access: `code` is the address of the instruction.
extern "C" fn on_access(vcpu: c_uint, info: u32, address: u64, code: *mut c_void) {
    let (code, does) = (code as u64, info >> 16 & 3);
    let Some(runs) = RUNS.get(vcpu as usize) else { return };
    if !matches!(runs.thread.load(Relaxed), 0 | STRANGER) {
        // SAFETY: the lane was made when the thread registered, and a fork makes it register anew.
        let quick = unsafe {
            (*runs.lane.get()).assume_init_ref().quick(code, address, does & 1 != 0, does & 2 != 0)
        };
        if quick {
            return;
        }
    }
    on_other_access(vcpu, info, address, code);
}

/// An access of which something is new.
#[inline(never)]
fn on_other_access(vcpu: c_uint, info: u32, address: u64, code: u64) {
    let Some(shadow) = shadow() else { return };
    let runs = &RUNS[vcpu as usize];
    if runs.thread.load(Relaxed) == 0 {
        process::register(shadow, vcpu, address);
    }
    let thread = runs.thread.load(Relaxed);
    if thread == STRANGER {
        shadow.slot().strangers.fetch_add(1, Relaxed);
        return;
    }
    let kind = match info >> 16 & 3 {
        1 => Kind::Read,
        2 => Kind::Write,
        _ => Kind::Update,
    };
    // SAFETY: it looks at the number only.
    let bytes = 1 << unsafe { api::qemu_plugin_mem_size_shift(info) }.min(6);
    // SAFETY: the thread is registered.
    let code = unsafe { (*runs.lane.get()).assume_init_ref().code(code) };
    shadow.access(thread - 1, code, address, bytes, kind);
}

/// A piece of the program is translated: its accesses are to be told.
extern "C" fn on_translation(_id: u64, block: *mut c_void) {
    // SAFETY: QEMU gives a block that is valid during this call, and instructions of it.
    unsafe {
        for index in 0..api::qemu_plugin_tb_n_insns(block) {
            let instruction = api::qemu_plugin_tb_get_insn(block, index);
            let code = api::qemu_plugin_insn_vaddr(instruction);
            // One function for both: QEMU 7 tells an access of its helpers to the first function only.
            api::qemu_plugin_register_vcpu_mem_cb(instruction, on_access, 0, 3, code as *mut c_void);
            if calls::is_call(code, api::qemu_plugin_insn_size(instruction)) {
                let data = code as *mut c_void;
                api::qemu_plugin_register_vcpu_insn_exec_cb(instruction, calls::on_call_instruction, 0, data);
            }
        }
    }
}

/// QEMU calls this first.
///
/// # Safety
/// `arguments` are `count` texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const api::Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU gives as many texts.
    let argument = |index: usize| unsafe { std::ffi::CStr::from_ptr(*arguments.add(index)) }.to_str().ok();
    let path = (0..count.max(0) as usize).filter_map(argument).find_map(|text| text.strip_prefix("region="));
    let Some(path) = path else {
        eprintln!("manycore: the plugin was not told its region");
        return 1;
    };
    // QEMU's texts may go with this call.
    let path: &str = REGION.get_or_init(|| path.to_owned());
    let shadow = match Region::open(path).and_then(Shadow::new) {
        Ok(Some(shadow)) => Box::new(shadow),
        // More processes than slots: the observer counts them.
        Ok(None) => return 0,
        Err(error) => {
            eprintln!("manycore: cannot keep what this program does in {path}: {error}");
            return 1;
        }
    };
    // SAFETY: QEMU gives its own description.
    calls::choose(unsafe { &*info });
    launch::remember();
    process::remember_own_maps();
    SHADOW.store(Box::into_raw(shadow), Release);
    process::follow_forks();
    // SAFETY: the functions stay as long as the process.
    unsafe {
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        api::qemu_plugin_register_vcpu_syscall_cb(id, calls::on_call);
        api::qemu_plugin_register_vcpu_syscall_ret_cb(id, calls::on_return);
    }
    0
}
