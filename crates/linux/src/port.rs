//! Ports of TCP.

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt::set_socket_reuseaddr},
};
use std::net::{Ipv4Addr, SocketAddr};

/// Returns whether a server could not listen on this address because another socket uses it.
///
/// The address is tried with a socket that never listens. A process that another thread forks at this moment has a copy of it
/// until it executes its program: a copy of one that listens would keep the address in use.
pub fn is_used(address: SocketAddr) -> bool {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .and_then(|socket| {
            set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &address)
        })
        .is_err_and(|error| error == Errno::ADDRINUSE)
}

/// Returns the first of `candidates` from which on `count` consecutive ports of 127.0.0.1 are not used.
pub fn first_unused(candidates: impl IntoIterator<Item = u16>, count: u16) -> Option<u16> {
    let is_unused = |port: u16| !is_used((Ipv4Addr::LOCALHOST, port).into());
    let are_unused = |&first: &u16| (0..count).all(|index| first.checked_add(index).is_some_and(is_unused));
    candidates.into_iter().find(are_unused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::getsockname;
    use std::net::TcpListener;

    #[test]
    fn an_address_is_used_while_a_socket_listens() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let listener = match TcpListener::bind(any) {
                Ok(listener) => listener,
                Err(error) => {
                    eprintln!("SKIPPED: {any}: {error}");
                    continue;
                }
            };
            let address = listener.local_addr().unwrap();
            assert!(is_used(address));
            drop(listener);
        }
    }

    #[test]
    fn used_ports_are_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let used = listener.local_addr().unwrap().port();
        assert_eq!(first_unused([used], 1), None);
        assert_eq!(first_unused([used - 1], 2), None);
        assert_eq!(first_unused([used], 0), Some(used));
    }

    #[test]
    fn a_copy_of_the_socket_that_tried_an_address_does_not_use_it() {
        let copy = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        set_socket_reuseaddr(&copy, true).unwrap();
        bind(&copy, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = getsockname(&copy).unwrap().try_into().unwrap();
        assert!(!is_used(address));
        TcpListener::bind(address).unwrap();
    }
}
