//! System V semaphores and message queues, with the operations of stress-ng's stressors.
//!
//! They live in the kernel until they are removed. Their creators remove them when they are dropped. For the
//! case that the creator is killed, [`SharedObject::kernel_objects`] lists them for a cleanup process.
#![allow(unsafe_code, reason = "system calls for which only the C library has functions")]

use super::{Member, Role, SharedObject, Team, errno, number};
use crate::Load;
use std::io;

/// Names of the roles.
pub(super) const SEMAPHORE: &str = "sem-sysv";
pub(super) const SENDER: &str = "msg-send";
pub(super) const RECEIVER: &str = "msg-take";

/// Waits and signals per tick, and messages per tick.
const PER_TICK: u64 = 4;

/// Bytes of a message.
const MESSAGE: usize = 4;

/// The owner may read and write.
const MODE: i32 = 0o600;

/// Removes an object that [`SharedObject::kernel_objects`] listed. Returns whether it existed.
///
/// # Errors
/// `InvalidInput` if `object` is not in that notation.
pub fn remove(object: &str) -> io::Result<bool> {
    match object.split_once(':') {
        Some(("sem", id)) => {
            let id = number(id)?;
            // SAFETY: the arguments are numbers.
            Ok(unsafe { libc::semctl(id, 0, libc::IPC_RMID) } == 0)
        }
        Some(("msg", id)) => {
            let id = number(id)?;
            // SAFETY: as above; the pointer is not used by this command.
            Ok(unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) } == 0)
        }
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// One semaphore for all workers, which are processes.
pub struct SysvSemaphore {
    id: i32,
    workers: usize,
}

impl SysvSemaphore {
    /// Names of the variants.
    pub const VARIANTS: &[&str] = &["processes"];

    /// Creates a semaphore that one of `workers` workers can hold at a time.
    ///
    /// # Errors
    /// Those of `semget(2)`: `ENOSPC` if the system's limit is reached, `ENOSYS` if the kernel has no
    /// semaphores.
    pub fn new(workers: usize) -> io::Result<Self> {
        // SAFETY: the arguments are numbers.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, libc::IPC_CREAT | MODE) };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        let made = Self { id, workers };
        // SAFETY: as above; the value is passed as an int, the first member of `union semun`.
        if unsafe { libc::semctl(id, 0, libc::SETVAL, 1) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(made)
    }
}

impl Drop for SysvSemaphore {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedObject for SysvSemaphore {
    fn members(&self) -> Vec<Member> {
        (0..self.workers).map(|_| Member::Process { name: SEMAPHORE, object: self.id.to_string() }).collect()
    }

    fn team(&self, _: usize, workers: usize) -> Team {
        Team { workers: (0..workers).collect(), ..Team::default() }
    }

    fn per_tick(&self) -> u64 {
        PER_TICK
    }

    fn kernel_objects(&self) -> Vec<String> {
        vec![format!("sem:{}", self.id)]
    }

    fn close(&self) {
        self.kernel_objects().iter().for_each(|object| drop(remove(object)));
    }
}

/// Returns the role of a process that shares the semaphore `object`.
pub(super) fn open_semaphore(object: &str) -> io::Result<Role> {
    Ok(Role::Worker(Box::new(SemaphoreUser { id: number(object)?, broken: None })))
}

struct SemaphoreUser {
    id: i32,
    broken: Option<i32>,
}

impl SemaphoreUser {
    /// Does one operation. As in stress-ng, it has `SEM_UNDO`: the kernel undoes the operations of a worker
    /// that was killed.
    fn operate(&self, change: i16) -> Result<(), i32> {
        let mut operation = libc::sembuf { sem_num: 0, sem_op: change, sem_flg: libc::SEM_UNDO as i16 };
        // SAFETY: the kernel reads one operation.
        while unsafe { libc::semop(self.id, &raw mut operation, 1) } != 0 {
            match errno() {
                libc::EINTR => {}
                error => return Err(error),
            }
        }
        Ok(())
    }
}

impl Load for SemaphoreUser {
    fn prepare(&mut self, _: u64) {}

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        for _ in 0..PER_TICK {
            if let Err(error) = self.operate(-1).and_then(|()| self.operate(1)) {
                self.broken = Some(error);
                return;
            }
        }
    }

    fn error(&self) -> Option<i32> {
        self.broken
    }
}

/// A message queue for each worker, which sends; another process receives.
pub struct Messages {
    ids: Vec<i32>,
}

impl Messages {
    /// Names of the variants.
    pub const VARIANTS: &[&str] = &["processes"];

    /// Creates queues for `workers` workers.
    ///
    /// # Errors
    /// Those of `msgget(2)`: `ENOSPC` if the system's limit is reached, `ENOSYS` if the kernel has no message
    /// queues.
    pub fn new(workers: usize) -> io::Result<Self> {
        // After an error, the queues created so far are removed when this value is dropped.
        let mut made = Self { ids: Vec::new() };
        for _ in 0..workers {
            // SAFETY: the arguments are numbers.
            let id = unsafe { libc::msgget(libc::IPC_PRIVATE, libc::IPC_CREAT | MODE) };
            if id < 0 {
                return Err(io::Error::last_os_error());
            }
            made.ids.push(id);
        }
        Ok(made)
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedObject for Messages {
    fn members(&self) -> Vec<Member> {
        let all = |name| self.ids.iter().map(move |id| Member::Process { name, object: id.to_string() });
        all(SENDER).chain(all(RECEIVER)).collect()
    }

    fn team(&self, _: usize, workers: usize) -> Team {
        let servers = (self.ids.len()..self.ids.len() + workers).collect();
        Team { workers: (0..workers).collect(), servers, parameter: 0 }
    }

    fn per_tick(&self) -> u64 {
        PER_TICK
    }

    fn kernel_objects(&self) -> Vec<String> {
        self.ids.iter().map(|id| format!("msg:{id}")).collect()
    }

    fn close(&self) {
        self.kernel_objects().iter().for_each(|object| drop(remove(object)));
    }
}

/// A message in the layout of msgsnd(2).
#[repr(C)]
struct Message {
    kind: libc::c_long,
    value: u32,
}

/// Returns the role of a process that sends to the queue `object`.
pub(super) fn open_sender(object: &str) -> io::Result<Role> {
    Ok(Role::Worker(Box::new(Sender { id: number(object)?, value: 0, broken: None })))
}

struct Sender {
    id: i32,
    value: u32,
    broken: Option<i32>,
}

impl Load for Sender {
    fn prepare(&mut self, _: u64) {}

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        for _ in 0..PER_TICK {
            let message = Message { kind: 1, value: self.value };
            // SAFETY: the kernel reads the kind and as many bytes as given, which the message has.
            while unsafe { libc::msgsnd(self.id, (&raw const message).cast(), MESSAGE, 0) } != 0 {
                match errno() {
                    libc::EINTR => {}
                    error => {
                        self.broken = Some(error);
                        return;
                    }
                }
            }
            self.value = self.value.wrapping_add(1);
        }
    }

    fn error(&self) -> Option<i32> {
        self.broken
    }
}

/// Returns the role of a process that receives from the queue `object`, until it is removed.
pub(super) fn open_receiver(object: &str) -> io::Result<Role> {
    let id = number(object)?;
    Ok(Role::Server(Box::new(move || {
        let mut message = Message { kind: 0, value: 0 };
        loop {
            // SAFETY: the kernel writes the kind and at most as many bytes as given, which the message has.
            let taken = unsafe { libc::msgrcv(id, (&raw mut message).cast(), MESSAGE, 0, 0) };
            if taken < 0 && errno() != libc::EINTR {
                return;
            }
        }
    })))
}
