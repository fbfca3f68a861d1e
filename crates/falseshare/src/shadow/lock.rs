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

/// A lock for what is touched seldom: who waits, yields. Before a fork it is [taken](Lock::hold), and
/// [given back](Lock::release) on both sides.
#[derive(Debug, Default)]
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: whoever has the lock is alone with the value.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, as long as the lock is had.
#[derive(Debug)]
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// A lock for `value`.
    pub const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits until the lock is had.
    pub fn lock(&self) -> Guard<'_, T> {
        self.hold();
        Guard(self)
    }

    /// Takes the lock until [`Lock::release`].
    pub fn hold(&self) {
        while self.held.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            sys::yield_now();
        }
    }

    /// Gives back what [`Lock::hold`] took.
    pub fn release(&self) {
        self.held.store(false, Release);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is had.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is had, and nobody else borrows from this guard.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.release();
    }
}
