//! What tests share although each of them may run in a process of its own: locks, and ports.
//!
//! The locks are those of `flock(2)` on files below the directory for temporary files. They exclude threads as well as
//! processes, and the kernel removes them with their process. The files stay: they are empty.

use manycore_linux::port::is_used;
use rustix::process::getuid;
use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process,
};

/// Ports from which the kernel takes none for outgoing connections (`net.ipv4.ip_local_port_range` begins at 32768).
const PORTS: std::ops::Range<u16> = 2_000..32_000;

/// Excludes other tests with a lock of the same name until it is dropped.
#[derive(Debug)]
#[must_use = "the lock ends with this value"]
pub struct Alone {
    _lock: File,
}

/// Waits until no other test has the lock of this name, and takes it.
///
/// # Errors
/// The file cannot be created or locked.
pub fn alone(name: &str) -> io::Result<Alone> {
    let lock = lock_file(name)?;
    lock.lock()?;
    Ok(Alone { _lock: lock })
}

/// Opens the file of a lock. That of another user could not be opened.
fn lock_file(name: &str) -> io::Result<File> {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    File::options().create(true).append(true).open(folder.join(name))
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("manycore-test-locks-{}", getuid().as_raw()))
}

/// A port of 127.0.0.1 that no socket uses, and that no other test gets until this is dropped.
#[derive(Debug)]
pub struct FreePort {
    port: u16,
    _lock: File,
}

impl FreePort {
    /// Finds one.
    ///
    /// # Errors
    /// The file of a lock cannot be created; [`io::ErrorKind::AddrInUse`] if there is none.
    pub fn find() -> io::Result<Self> {
        Self::find_with(Self::take)
    }

    /// Returns the first of so many ports in a row that no other test gets until this process ends.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_run(count: u16) -> io::Result<u16> {
        Self::find_with(|first| {
            let end = first.saturating_add(count);
            if end > PORTS.end {
                return Ok(None);
            }
            let mut run = Vec::new();
            for port in first..end {
                let Some(free) = Self::take(port)? else { return Ok(None) };
                run.push(free);
            }
            run.into_iter().for_each(std::mem::forget);
            Ok(Some(first))
        })
    }

    /// Returns what `find` returns for the first port for which it returns anything.
    fn find_with<T>(find: impl Fn(u16) -> io::Result<Option<T>>) -> io::Result<T> {
        // Tests that run at the same time begin at different ports, and so seldom open the files of each other.
        let begin = PORTS.start + (process::id() * 37 % u32::from(PORTS.end - PORTS.start)) as u16;
        for port in (begin..PORTS.end).chain(PORTS.start..begin) {
            if let Some(found) = find(port)? {
                return Ok(found);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Takes this port, if it is free.
    fn take(port: u16) -> io::Result<Option<Self>> {
        let is_used = || is_used((Ipv4Addr::LOCALHOST, port).into());
        if is_used() {
            return Ok(None);
        }
        let lock = lock_file(&format!("port-{port}"))?;
        let is_ours = lock.try_lock().is_ok() && !is_used();
        Ok(is_ours.then_some(Self { port, _lock: lock }))
    }

    /// Returns its number.
    pub fn number(&self) -> u16 {
        self.port
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    #[test]
    fn a_lock_excludes_threads_of_the_same_name_only() {
        let name = format!("own-{}", process::id());
        let first = alone(&name).unwrap();
        assert!(lock_file(&name).unwrap().try_lock().is_err());
        let _other = alone(&format!("{name}-other")).unwrap();
        let second = thread::spawn({
            let name = name.clone();
            move || alone(&name).unwrap()
        });
        drop(first);
        drop(second.join().unwrap());
        for name in [name.clone(), format!("{name}-other")] {
            fs::remove_file(folder().join(name)).unwrap();
        }
    }

    #[test]
    fn ports_are_different_and_can_be_used() {
        let ports = [FreePort::find().unwrap(), FreePort::find().unwrap()];
        assert_ne!(ports[0].number(), ports[1].number());
        for port in &ports {
            assert!(PORTS.contains(&port.number()));
            TcpListener::bind(port.address()).unwrap();
        }
        let run = FreePort::find_run(3).unwrap();
        assert!((run..run + 3).all(|port| FreePort::take(port).unwrap().is_none()));
        assert!(ports.iter().all(|port| !(run..run + 3).contains(&port.number())));
    }
}
