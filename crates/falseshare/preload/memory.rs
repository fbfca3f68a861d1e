//! Wrappers of the allocator's functions, which call the originals and report to the plugin.

use crate::{
    callers,
    next::{NextFunction, report},
    shadow::report_protocol::{REPORT_ALLOCATED, REPORT_FREED},
};
use std::{
    cell::{Cell, UnsafeCell},
    ffi::{c_int, c_void},
    ptr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Aligned = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

type Usable = unsafe extern "C" fn(*mut c_void) -> usize;

static MALLOC: NextFunction = NextFunction::new(c"malloc");
static CALLOC: NextFunction = NextFunction::new(c"calloc");
static REALLOC: NextFunction = NextFunction::new(c"realloc");
static FREE: NextFunction = NextFunction::new(c"free");
static MEMALIGN: NextFunction = NextFunction::new(c"memalign");
static ALIGNED_ALLOC: NextFunction = NextFunction::new(c"aligned_alloc");
static POSIX_MEMALIGN: NextFunction = NextFunction::new(c"posix_memalign");
static VALLOC: NextFunction = NextFunction::new(c"valloc");
static PVALLOC: NextFunction = NextFunction::new(c"pvalloc");
static USABLE: NextFunction = NextFunction::new(c"malloc_usable_size");

thread_local! {
    /// Whether this thread is inside one of the wrappers: allocations within them are not reported.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, unless this thread is already inside a wrapper.
fn outermost(work: impl FnOnce()) {
    let _ = INSIDE.try_with(|inside| {
        if !inside.replace(true) {
            work();
            inside.set(false);
        }
    });
}

/// Memory for allocations while the allocator's functions are being looked up.
struct EarlyHeap(UnsafeCell<[u8; EARLY]>);

// SAFETY: each part is given out once.
unsafe impl Sync for EarlyHeap {}

const EARLY: usize = 64 << 10;
static EARLY_MEMORY: EarlyHeap = EarlyHeap(UnsafeCell::new([0; EARLY]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

fn allocate_early(bytes: usize) -> *mut c_void {
    let bytes = bytes.next_multiple_of(16);
    let at = EARLY_USED.fetch_add(bytes, Relaxed);
    let base = EARLY_MEMORY.0.get().cast::<u8>();
    let shift = base.align_offset(16);
    if at + bytes + shift > EARLY {
        return ptr::null_mut();
    }
    // SAFETY: the result is inside the memory.
    unsafe { base.add(at + shift).cast() }
}

fn is_early(block: *mut c_void) -> bool {
    let base = EARLY_MEMORY.0.get() as usize;
    (base..base + EARLY).contains(&(block as usize))
}

/// Returns the original function; `None` while this thread is looking it up, and if there is none.
///
/// # Safety
/// `F` must be the function's type.
unsafe fn function<F: Copy>(next: &NextFunction) -> Option<F> {
    if LOOKING.try_with(Cell::get).unwrap_or(true) {
        return None;
    }
    let _ = LOOKING.try_with(|looking| looking.set(true));
    // SAFETY: required of the caller.
    let found = unsafe { next.get() };
    let _ = LOOKING.try_with(|looking| looking.set(false));
    found
}

#[inline(never)]
fn allocated(block: *mut c_void, bytes: usize) -> *mut c_void {
    if !block.is_null() {
        outermost(|| {
            callers::with_callers(|callers| {
                report(
                    REPORT_ALLOCATED,
                    block as u64,
                    bytes as u64,
                    callers.as_ptr() as u64,
                    callers.len() as u64,
                );
            });
        });
    }
    block
}

fn freed(block: *mut c_void) {
    outermost(|| report(REPORT_FREED, block as u64, 0, 0, 0));
}

/// `malloc(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: these are the function's type and arguments, as below.
    match unsafe { function::<Malloc>(&MALLOC) } {
        Some(next) => allocated(unsafe { next(bytes) }, bytes),
        None => allocate_early(bytes),
    }
}

/// `calloc(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: as above. Early memory is given out only once, so it is zero.
    match unsafe { function::<Calloc>(&CALLOC) } {
        Some(next) => allocated(unsafe { next(count, bytes) }, count.saturating_mul(bytes)),
        None => allocate_early(count.saturating_mul(bytes)),
    }
}

/// `realloc(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if is_early(block) {
        // SAFETY: only memory up to the end of the early memory is copied.
        unsafe {
            let new = malloc(bytes);
            let left = EARLY_MEMORY.0.get() as usize + EARLY - block as usize;
            if !new.is_null() {
                ptr::copy(block.cast::<u8>(), new.cast::<u8>(), bytes.min(left));
            }
            return new;
        }
    }
    // SAFETY: as above.
    let Some(next) = (unsafe { function::<Realloc>(&REALLOC) }) else { return allocate_early(bytes) };
    // Report before the original runs: afterwards, another thread may already have been given the block.
    if !block.is_null() {
        freed(block);
    }
    // SAFETY: as above.
    let new = unsafe { next(block, bytes) };
    if new.is_null() && bytes != 0 && !block.is_null() {
        // The old block remains allocated; its size is what the allocator reports.
        if let Some(usable) = unsafe { function::<Usable>(&USABLE) } {
            allocated(block, unsafe { usable(block) });
        }
        return new;
    }
    allocated(new, bytes)
}

/// `free(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() || is_early(block) {
        return;
    }
    freed(block);
    // SAFETY: as above.
    if let Some(next) = unsafe { function::<Free>(&FREE) } {
        unsafe { next(block) }
    }
}

/// `memalign(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: as above.
    match unsafe { function::<Calloc>(&MEMALIGN) } {
        Some(next) => allocated(unsafe { next(alignment, bytes) }, bytes),
        None => ptr::null_mut(),
    }
}

/// `aligned_alloc(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: as above.
    match unsafe { function::<Calloc>(&ALIGNED_ALLOC) } {
        Some(next) => allocated(unsafe { next(alignment, bytes) }, bytes),
        None => ptr::null_mut(),
    }
}

/// `valloc(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    // SAFETY: as above.
    match unsafe { function::<Malloc>(&VALLOC) } {
        Some(next) => allocated(unsafe { next(bytes) }, bytes),
        None => ptr::null_mut(),
    }
}

/// `pvalloc(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    // SAFETY: as above.
    match unsafe { function::<Malloc>(&PVALLOC) } {
        Some(next) => allocated(unsafe { next(bytes) }, bytes),
        None => ptr::null_mut(),
    }
}

/// `posix_memalign(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(block: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    const ENOMEM: c_int = 12;
    // SAFETY: as above.
    let Some(next) = (unsafe { function::<Aligned>(&POSIX_MEMALIGN) }) else { return ENOMEM };
    // SAFETY: as above; on success, the function has written the pointer.
    let result = unsafe { next(block, alignment, bytes) };
    if result == 0 {
        allocated(unsafe { *block }, bytes);
    }
    result
}
