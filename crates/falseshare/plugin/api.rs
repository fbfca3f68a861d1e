//! QEMU's plugin interface, as far as it is used.

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

/// QEMU's description of itself.
#[repr(C)]
pub struct Info {
    /// The architecture that it emulates.
    pub target: *const c_char,
    /// Lowest and highest version of the interface that it supports.
    pub version: [c_int; 2],
}

/// Callback for a memory access.
pub type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Callback for the execution of an instruction.
pub type OnInstruction = extern "C" fn(c_uint, *mut c_void);
/// Callback for a system call, with its number and arguments.
pub type OnCall = extern "C" fn(u64, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
/// Callback for the return of a system call.
pub type OnReturn = extern "C" fn(u64, c_uint, i64, i64);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, function: extern "C" fn(u64, *mut c_void));
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: u64, function: OnCall);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: u64, function: OnReturn);
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        function: OnAccess,
        registers: c_int,
        accesses: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        function: OnInstruction,
        registers: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_tb_n_insns(block: *mut c_void) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *mut c_void, index: usize) -> *mut c_void;
    pub fn qemu_plugin_insn_vaddr(instruction: *mut c_void) -> u64;
    pub fn qemu_plugin_insn_size(instruction: *mut c_void) -> usize;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The interface version that this plugin requires. QEMU reads it when the library is loaded, and refuses
/// versions that it does not support. The functions used here are the same in all versions, so the version is
/// set to the one that the running QEMU has.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Runs when the library is loaded, before QEMU reads the version.
#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = choose_version;

extern "C" fn choose_version() {
    // Functions that were added with a version (`include/qemu/qemu-plugin.h` of QEMU 10.2), latest first.
    let marks = [
        (c"qemu_plugin_write_memory_vaddr", 5),
        (c"qemu_plugin_read_memory_vaddr", 4),
        (c"qemu_plugin_register_vcpu_tb_exec_cond_cb", 3),
        (c"qemu_plugin_scoreboard_new", 2),
    ];
    // SAFETY: a null handle searches all libraries; the names are zero-terminated.
    let has = |name: &std::ffi::CStr| unsafe { !dlsym(ptr::null_mut(), name.as_ptr()).is_null() };
    let version = marks.iter().find(|(name, _)| has(name)).map_or(1, |(_, version)| *version);
    qemu_plugin_version.store(version, Relaxed);
}

/// Returns the path of the emulated program, as it was passed to QEMU.
pub fn program() -> Vec<u8> {
    // SAFETY: the name is zero-terminated.
    let function = unsafe { dlsym(ptr::null_mut(), c"qemu_plugin_path_to_binary".as_ptr()) };
    if function.is_null() {
        return Vec::new();
    }
    // SAFETY: this is the function's type in all versions that have it; it returns a string or null.
    unsafe {
        let function: extern "C" fn() -> *const c_char = std::mem::transmute(function);
        let path = function();
        if path.is_null() { Vec::new() } else { std::ffi::CStr::from_ptr(path).to_bytes().to_vec() }
    }
}
