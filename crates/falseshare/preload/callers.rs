//! Finds the calls that led to an allocation. Unwinding is expensive, and even more so in an emulator.
//! Results are therefore cached with the stack positions of the return addresses. If the stack pointer is the
//! same and the same addresses are at the same positions, the calls are the same.

use crate::shadow::heap::CALLERS;
use std::{
    cell::UnsafeCell,
    ffi::{c_char, c_int, c_void},
    ptr,
    sync::atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

const SETS: usize = 2048;
const WAYS: usize = 4;
/// Maximum number of frames that are unwound; some of them are in this library.
const MAX_FRAMES: usize = CALLERS + 8;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void)
    -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn dl_iterate_phdr(
        visit: extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// `struct dl_phdr_info` of `link.h`, as far as it is used.
#[repr(C)]
struct Object {
    base: usize,
    name: *const c_char,
    segments: *const Segment,
    count: u16,
}

/// `Elf64_Phdr` of `elf.h`.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    physical: usize,
    file_bytes: usize,
    bytes: usize,
    align: usize,
}

/// `PT_LOAD`.
const LOAD: u32 = 1;

/// Return addresses, and their positions on the stack.
struct Calls {
    height: usize,
    count: usize,
    addresses: [u64; CALLERS],
    places: [usize; CALLERS],
}

struct Entry {
    held: AtomicBool,
    calls: UnsafeCell<Calls>,
}

// SAFETY: an entry is only accessed by the thread that holds it.
unsafe impl Sync for Entry {}

static CACHE: [[Entry; WAYS]; SETS] = [const {
    [const {
        Entry {
            held: AtomicBool::new(false),
            calls: UnsafeCell::new(Calls {
                height: 0,
                count: 0,
                addresses: [0; CALLERS],
                places: [0; CALLERS],
            }),
        }
    }; WAYS]
}; SETS];
static NEXT_WAY: AtomicUsize = AtomicUsize::new(0);

/// Calls `use_them` with the return addresses of the calls that led here, innermost first.
#[inline(never)]
pub fn with_callers(use_them: impl FnOnce(&[u64])) {
    let here = 0_u8;
    let height = std::hint::black_box(&raw const here) as usize;
    let set = &CACHE[(height >> 4 ^ height >> 15) % SETS];
    for entry in set {
        if entry.held.swap(true, Acquire) {
            continue;
        }
        // SAFETY: the entry is held.
        let calls = unsafe { &*entry.calls.get() };
        if is_same(calls, height) {
            let (addresses, count) = (calls.addresses, calls.count);
            entry.held.store(false, Release);
            use_them(&addresses[..count]);
            return;
        }
        entry.held.store(false, Release);
    }
    let calls = unwind(height);
    use_them(&calls.addresses[..calls.count]);
    if calls.count > 0 && calls.places[..calls.count].iter().all(|place| *place != 0) {
        let entry = &set[NEXT_WAY.fetch_add(1, Relaxed) % WAYS];
        if !entry.held.swap(true, Acquire) {
            // SAFETY: the entry is held.
            unsafe { *entry.calls.get() = calls };
            entry.held.store(false, Release);
        }
    }
}

/// Returns whether the cached calls are the current ones. Checks from the innermost frame outwards, so that
/// only existing frames are read.
fn is_same(calls: &Calls, height: usize) -> bool {
    calls.height == height
        && calls.places[..calls.count].iter().zip(&calls.addresses).all(|(place, address)| {
            // SAFETY: the inner frame has the expected return address, so this position is on the stack.
            unsafe { ptr::read_volatile(*place as *const u64) == *address }
        })
}

struct UnwindState {
    calls: Calls,
    frames: usize,
}

#[inline(never)]
fn unwind(height: usize) -> Calls {
    let calls = Calls { height, count: 0, addresses: [0; CALLERS], places: [0; CALLERS] };
    let mut walk = UnwindState { calls, frames: 0 };
    // SAFETY: `walk` outlives the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    walk.calls
}

/// Returns whether `code` is in this library. The library's address range is looked up once, because `dladdr`
/// would search all symbols of the object that contains the address, of which some programs have many.
fn is_own(code: usize) -> bool {
    static SPAN: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    if SPAN[1].load(Acquire) == 0 {
        let (start, end) = span_of(is_own as *const () as usize);
        SPAN[0].store(start, Relaxed);
        SPAN[1].store(end, Release);
    }
    (SPAN[0].load(Relaxed)..SPAN[1].load(Acquire)).contains(&code)
}

/// A function to find, and the range of the object that contains it.
struct SpanSearch {
    function: usize,
    found: (usize, usize),
}

/// Returns the address range (end exclusive) of the object that contains a function; zeros if none does.
pub fn span_of(function: usize) -> (usize, usize) {
    let mut wanted = SpanSearch { function, found: (0, 0) };
    // SAFETY: it calls `span` for each loaded object, with a pointer to `wanted`.
    unsafe { dl_iterate_phdr(span, (&raw mut wanted).cast()) };
    wanted.found
}

extern "C" fn span(object: *const Object, _size: usize, to: *mut c_void) -> c_int {
    // SAFETY: the loader passes an object that is valid during the call, and `span_of` passes a valid `wanted`.
    let (object, wanted) = unsafe { (&*object, &mut *to.cast::<SpanSearch>()) };
    // SAFETY: the loader passes the number of segments.
    let segments = unsafe { std::slice::from_raw_parts(object.segments, usize::from(object.count)) };
    let loaded = segments.iter().filter(|segment| segment.kind == LOAD);
    let spans = loaded.map(|segment| {
        let start = object.base.wrapping_add(segment.address);
        (start, start.wrapping_add(segment.bytes))
    });
    let whole = spans.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    match whole.filter(|(start, end)| (*start..*end).contains(&wanted.function)) {
        Some(found) => {
            wanted.found = found;
            1
        }
        None => 0,
    }
}

extern "C" fn visit(context: *mut c_void, data: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const STOP: c_int = 4;
    // SAFETY: `unwind` passes a pointer to its `walk`.
    let walk = unsafe { &mut *data.cast::<UnwindState>() };
    // SAFETY: the unwinder passes a valid context.
    let (address, frame) = unsafe { (_Unwind_GetIP(context), _Unwind_GetCFA(context)) };
    walk.frames += 1;
    if address == 0 || walk.frames > MAX_FRAMES || walk.calls.count == CALLERS {
        return STOP;
    }
    if walk.calls.count == 0 && is_own(address) {
        return GO_ON;
    }
    let place = frame.wrapping_sub(8);
    // SAFETY: the word below the frame's address is on the stack.
    let is_there =
        frame % 8 == 0 && frame > walk.calls.height && unsafe { ptr::read(place as *const usize) } == address;
    let count = walk.calls.count;
    walk.calls.addresses[count] = address as u64;
    walk.calls.places[count] = if is_there { place } else { 0 };
    walk.calls.count += 1;
    GO_ON
}
