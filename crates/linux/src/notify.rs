//! Telling a service manager how we are (`sd_notify(3)`): a datagram to the socket in `NOTIFY_SOCKET`.

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};
use std::{env, ffi::OsStr, os::fd::OwnedFd, os::unix::ffi::OsStrExt, time::Duration};

/// The way to the service manager. Sending neither allocates nor waits.
#[derive(Debug)]
pub struct Manager {
    socket: OwnedFd,
    address: SocketAddrUnix,
    /// Half of the time after which the manager takes us for dead, if it does (`WATCHDOG_USEC`).
    pub beat: Option<Duration>,
}

impl Manager {
    /// That of the environment; `None` where nobody wants to know.
    pub fn of_environment() -> Option<Self> {
        let beat = env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        // Where it names a process, it is meant for that one alone.
        let is_meant = env::var("WATCHDOG_PID").is_ok_and(|pid| pid != std::process::id().to_string());
        let beat = beat.filter(|_| !is_meant).map(|us: u64| Duration::from_micros(us / 2));
        Self::at(&env::var_os("NOTIFY_SOCKET")?, beat)
    }

    fn at(name: &OsStr, beat: Option<Duration>) -> Option<Self> {
        let name = name.as_bytes();
        let address = match name {
            [b'@', abstract_name @ ..] => SocketAddrUnix::new_abstract_name(abstract_name).ok()?,
            [b'/', ..] => SocketAddrUnix::new(name).ok()?,
            _ => return None,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?;
        Some(Self { socket, address, beat })
    }

    /// Tells it: `READY=1`, `WATCHDOG=1`, `STATUS=...`, lines of them. What it does not take is lost.
    pub fn tell(&self, state: &str) {
        let _ =
            sendto(&self.socket, state.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT, &self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_manager_hears_what_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Manager::at(path.as_os_str(), None).unwrap().tell("READY=1\nSTATUS=watching");
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1\nSTATUS=watching");
    }

    #[test]
    fn a_name_that_is_no_socket_is_nobody() {
        assert!(Manager::at(OsStr::new("relative"), None).is_none());
        Manager::at(OsStr::new("/nonexistent/socket"), None).unwrap().tell("READY=1");
    }
}
