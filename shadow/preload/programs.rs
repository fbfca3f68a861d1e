//! The functions that start programs: what can be observed, is.

use crate::{
    launch::{Rewritten, rewrite},
    next::{Next, set_errno},
};
use manycore_shadow::program;
use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
};

type Texts = *const *const c_char;
type Execve = unsafe extern "C" fn(*const c_char, Texts, Texts) -> c_int;
type Fexecve = unsafe extern "C" fn(c_int, Texts, Texts) -> c_int;
type Spawn =
    unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, Texts, Texts) -> c_int;

static EXECVE: Next = Next::new(c"execve");
static EXECVPE: Next = Next::new(c"execvpe");
static FEXECVE: Next = Next::new(c"fexecve");
static SPAWN: Next = Next::new(c"posix_spawn");
static SPAWNP: Next = Next::new(c"posix_spawnp");

const ENOSYS: c_int = 38;

unsafe extern "C" {
    static environ: Texts;
}

/// The file of the PATH that `name` stands for; `None` where there is none, or it is a path itself.
unsafe fn in_path(name: *const c_char) -> Option<CString> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller gives a text.
    let name = unsafe { CStr::from_ptr(name) };
    let file = OsStr::from_bytes(name.to_bytes());
    if program::is_path(file) || name.is_empty() {
        return Some(name.to_owned());
    }
    CString::new(program::in_path(file)?.into_os_string().into_encoded_bytes()).ok()
}

unsafe fn run(rewritten: &Rewritten) -> Option<c_int> {
    let (words, variables) = rewritten.lists();
    // SAFETY: this is the function's type, and the lists live as long as the call.
    unsafe { EXECVE.get::<Execve>().map(|next| next(rewritten.path(), words.as_ptr(), variables.as_ptr())) }
}

fn missing() -> c_int {
    set_errno(ENOSYS);
    -1
}

/// `execve(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, words: Texts, variables: Texts) -> c_int {
    // SAFETY: the caller gives what the function takes, as below.
    unsafe {
        if let Some(result) = rewrite(path, words, variables).and_then(|rewritten| run(&rewritten)) {
            return result;
        }
        EXECVE.get::<Execve>().map_or_else(missing, |next| next(path, words, variables))
    }
}

/// `execv(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, words: Texts) -> c_int {
    // SAFETY: as above.
    unsafe { execve(path, words, environ) }
}

/// `execvpe(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(name: *const c_char, words: Texts, variables: Texts) -> c_int {
    // SAFETY: as above.
    unsafe {
        let rewritten = in_path(name).and_then(|path| rewrite(path.as_ptr(), words, variables));
        if let Some(result) = rewritten.and_then(|rewritten| run(&rewritten)) {
            return result;
        }
        EXECVPE.get::<Execve>().map_or_else(missing, |next| next(name, words, variables))
    }
}

/// `execvp(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(name: *const c_char, words: Texts) -> c_int {
    // SAFETY: as above.
    unsafe { execvpe(name, words, environ) }
}

/// `fexecve(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, words: Texts, variables: Texts) -> c_int {
    // SAFETY: as above.
    unsafe {
        let path = CString::new(format!("/proc/self/fd/{fd}")).ok();
        // By its own name: the emulator closes nothing, but a script's interpreter needs a name that stays.
        let real = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
        let real = real.and_then(|real| CString::new(real.into_os_string().into_encoded_bytes()).ok());
        for path in [real, path].into_iter().flatten() {
            if let Some(result) =
                rewrite(path.as_ptr(), words, variables).and_then(|rewritten| run(&rewritten))
            {
                return result;
            }
        }
        FEXECVE.get::<Fexecve>().map_or_else(missing, |next| next(fd, words, variables))
    }
}

/// `posix_spawn(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut c_int,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    words: Texts,
    variables: Texts,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let Some(next) = SPAWN.get::<Spawn>() else { return ENOSYS };
        match rewrite(path, words, variables) {
            Some(rewritten) => {
                let (words, variables) = rewritten.lists();
                next(pid, rewritten.path(), actions, attributes, words.as_ptr(), variables.as_ptr())
            }
            None => next(pid, path, actions, attributes, words, variables),
        }
    }
}

/// `posix_spawnp(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut c_int,
    name: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    words: Texts,
    variables: Texts,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        if let Some(path) = in_path(name) {
            return posix_spawn(pid, path.as_ptr(), actions, attributes, words, variables);
        }
        SPAWNP.get::<Spawn>().map_or(ENOSYS, |next| next(pid, name, actions, attributes, words, variables))
    }
}
