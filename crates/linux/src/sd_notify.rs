//! Notifies the service manager of our state (`sd_notify(3)`): a datagram to the socket in `NOTIFY_SOCKET`.

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};
use std::{env, ffi::OsStr, os::fd::OwnedFd, os::unix::ffi::OsStrExt, time::Duration};

/// A connection to the service manager. Sending neither allocates nor blocks.
#[derive(Debug)]
pub struct ServiceManager {
    socket: OwnedFd,
    address: SocketAddrUnix,
    /// Interval of keep-alive messages: half of the manager's watchdog timeout (`WATCHDOG_USEC`), if there is one.
    pub keep_alive_interval: Option<Duration>,
}

impl ServiceManager {
    /// Returns the manager of the environment; `None` if no socket is set.
    pub fn of_environment() -> Option<Self> {
        let beat = env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        // If `WATCHDOG_PID` is set, the watchdog only applies to that process.
        let is_for_other_process =
            env::var("WATCHDOG_PID").is_ok_and(|pid| pid != std::process::id().to_string());
        let beat = beat.filter(|_| !is_for_other_process).map(|us: u64| Duration::from_micros(us / 2));
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
        Some(Self { socket, address, keep_alive_interval: beat })
    }

    /// Sends state, lines such as `READY=1`, `WATCHDOG=1` or `STATUS=...`. Messages that cannot be sent are lost.
    pub fn send(&self, state: &str) {
        let _ =
            sendto(&self.socket, state.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT, &self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn the_service_manager_receives_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        ServiceManager::at(path.as_os_str(), None).unwrap().send("READY=1\nSTATUS=watching");
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1\nSTATUS=watching");
    }

    #[test]
    fn a_name_without_a_socket_is_ignored() {
        assert!(ServiceManager::at(OsStr::new("relative"), None).is_none());
        ServiceManager::at(OsStr::new("/nonexistent/socket"), None).unwrap().send("READY=1");
    }
}
