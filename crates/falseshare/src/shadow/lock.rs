//! A lock that can be held across a fork.

use crate::shadow::sys;
use std::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// A lock for data that is seldom accessed: waiting threads yield. It is [taken](Lock::lock_raw) before a fork
/// and [released](Lock::unlock_raw) in the parent and in the child.
#[derive(Debug, Default)]
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that holds the lock accesses the value.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Access to the value while the lock is held.
#[derive(Debug)]
pub struct LockGuard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// Creates a lock for `value`.
    pub const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the lock, and releases it when the result is dropped.
    pub fn lock(&self) -> LockGuard<'_, T> {
        self.lock_raw();
        LockGuard(self)
    }

    /// Takes the lock until [`Lock::unlock_raw`] is called.
    pub fn lock_raw(&self) {
        while self.held.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            sys::yield_now();
        }
    }

    /// Releases the lock after [`Lock::lock_raw`].
    pub fn unlock_raw(&self) {
        self.held.store(false, Release);
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and this guard has no other borrows.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        self.0.unlock_raw();
    }
}
