//! The port at which a node listens on this machine. It is taken from epmd, and accepted only if the kernel
//! shows that this process listens there: another process can register any name, or run an epmd of its own.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

/// Port of epmd (`epmd(1)`).
const EPMD: u16 = 4369;

/// An epmd that does not answer is given up after this time.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Largest number of open files of a process that are examined.
const MOST_FILES: usize = 1 << 16;

/// Returns the port of the node of this name, if `pid` itself listens there.
///
/// # Errors
/// A message: epmd has no such name, or another process listens there.
pub(crate) fn of(pid: u32, alive: &str) -> Result<u16, String> {
    let port = registered(alive).map_err(|error| format!("epmd on this machine: {error}"))?;
    let port = port.ok_or_else(|| format!("epmd on this machine has no node named {alive}"))?;
    let listening = listening(port);
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| format!("process {pid}: {error}"))?;
    let is_its_own = files.flatten().take(MOST_FILES).any(|file| {
        let link = fs::read_link(file.path()).unwrap_or_default();
        let inode =
            link.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        inode.is_some_and(|inode: u64| listening.contains(&inode))
    });
    if is_its_own {
        Ok(port)
    } else {
        Err(format!(
            "process {pid} does not listen on port {port}, which epmd on this machine names for {alive}"
        ))
    }
}

/// Returns the port registered with epmd on this machine (`PORT_PLEASE2_REQ`, chapter "Distribution Protocol"
/// of ERTS).
fn registered(alive: &str) -> std::io::Result<Option<u16>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, EPMD));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let length = (alive.len() + 1) as u16;
    stream.write_all(&[&length.to_be_bytes(), &b"z"[..], alive.as_bytes()].concat())?;
    let mut answer = [0; 4];
    match stream.read_exact(&mut answer) {
        // 119: PORT2_RESP; 0: the name is registered.
        Ok(()) if answer[..2] == [119, 0] => Ok(Some(u16::from_be_bytes([answer[2], answer[3]]))),
        Ok(()) => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the inodes of the sockets that listen on a port (`proc_net_tcp(5)`), in our network namespace.
fn listening(port: u16) -> BTreeSet<u64> {
    let tables =
        ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).filter_map(|line| parse(line, port)).collect()
}

/// Returns the inode in a line of the table, if the socket listens on `port`.
fn parse(line: &str, port: u16) -> Option<u64> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, at) = words.get(1)?.rsplit_once(':')?;
    // TCP_LISTEN
    let is_it = u16::from_str_radix(at, 16) == Ok(port) && words.get(3) == Some(&"0A");
    words.get(9)?.parse().ok().filter(|_| is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_socket_is_found_by_port() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 27864 1 0";
        assert_eq!((parse(line, 8080), parse(line, 8081)), (Some(27864), None));
        assert_eq!(parse(&line.replace(" 0A ", " 01 "), 8080), None, "a connection");
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(listening(listener.local_addr().unwrap().port()).len(), 1);
    }
}
