//! The part of manycore that lives in the emulator: QEMU tells it each access and each system call.
//!
//! QEMU's interface for plugins is C; the few functions that are used are declared by hand (`api`). Addresses of
//! the emulated program are addresses of this process: QEMU in user mode places it so wherever it can, and
//! [`api::install`] is not gone on with otherwise.

mod api;
mod calls;
mod process;

use manycore_shadow::{Kind, Shadow, region::Region};
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Most emulated CPUs at a time, which is threads of the program.
const VCPUS: usize = 8192;

/// What is kept of this process; null where there was no room for it.
static SHADOW: AtomicPtr<Shadow> = AtomicPtr::new(ptr::null_mut());

/// The thread that each emulated CPU runs, plus one; 0 where it did not register yet.
static THREAD: [AtomicU32; VCPUS] = [const { AtomicU32::new(0) }; VCPUS];

/// What is kept of this process.
#[inline]
fn shadow() -> Option<&'static Shadow> {
    // SAFETY: it is set once to memory that is never freed.
    unsafe { SHADOW.load(Acquire).as_ref() }
}

/// The thread that an emulated CPU runs. `address` is what it touches now.
#[inline]
fn thread(shadow: &Shadow, vcpu: c_uint, address: u64) -> Option<u32> {
    match THREAD.get(vcpu as usize)?.load(Relaxed) {
        0 => process::register(shadow, vcpu, address),
        u32::MAX => None,
        known => Some(known - 1),
    }
}

/// An access: `code` is the address of the instruction.
extern "C" fn on_access(vcpu: c_uint, info: u32, address: u64, code: *mut c_void) {
    let Some(shadow) = shadow() else { return };
    let Some(thread) = thread(shadow, vcpu, address) else {
        shadow.slot().strangers.fetch_add(1, Relaxed);
        return;
    };
    let kind = match info >> 16 & 3 {
        1 => Kind::Read,
        2 => Kind::Write,
        _ => Kind::Update,
    };
    // SAFETY: it looks at the number only.
    let bytes = 1 << unsafe { api::qemu_plugin_mem_size_shift(info) }.min(6);
    shadow.access(thread, code as u64, address, bytes, kind);
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
