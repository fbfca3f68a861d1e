//! Reports newly created processes and threads as soon as the kernel announces them.
//!
//! The kernel's process events connector (`CONFIG_PROC_EVENTS`, `linux/cn_proc.h`) sends a message for each
//! creation on the machine. Only listeners in the initial network and process namespaces receive it, before
//! Linux 6.6 only root. Elsewhere the last field of `/proc/loadavg` is polled. It is the most recently
//! assigned id, and shows that a process or thread was created, but not which.
#![allow(unsafe_code, reason = "sockets of the connector family have no safe wrapper")]

use crate::clock::now_ns;
use std::{
    fs::File,
    io,
    mem::size_of_val,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::fs::FileExt,
    },
};

/// The creation of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskCreated {
    /// The parent process; for a thread, the parent of its process.
    pub parent: u32,
    /// The process that it belongs to; its own id if it is a process.
    pub pid: u32,
    /// Its thread id.
    pub tid: u32,
    /// Time of the creation, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
}

/// Creations since the last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcEventBatch {
    /// Exactly these were created.
    Created(Vec<TaskCreated>),
    /// Something may have been created. The caller must find out what.
    Unknown,
    /// Nothing was created.
    None,
}

/// A source of creations on the whole machine.
#[derive(Debug)]
pub enum ProcEvents {
    /// The process events connector.
    Connector(Connector),
    /// Polling of the last id.
    Polled(LastId),
}

impl ProcEvents {
    /// Uses the connector if the kernel provides it here, otherwise polling.
    pub fn subscribe() -> Self {
        Connector::open().map_or_else(|_| Self::poll(), Self::Connector)
    }

    /// Uses polling in any case.
    pub fn poll() -> Self {
        Self::Polled(LastId::default())
    }

    /// Returns the creations since the last call. The first call returns [`ProcEventBatch::Unknown`].
    pub fn next_batch(&mut self) -> ProcEventBatch {
        match self {
            Self::Connector(connector) => connector.news(),
            Self::Polled(id) => {
                if id.has_changed() {
                    ProcEventBatch::Unknown
                } else {
                    ProcEventBatch::None
                }
            }
        }
    }

    /// Returns the descriptor that becomes readable when there are creations; `None` for polling.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Connector(connector) => Some(connector.socket.as_fd()),
            Self::Polled(_) => None,
        }
    }
}

/// `/proc/loadavg`, whose last field is the most recently assigned id. It is kept open because it is read
/// many times a second.
#[derive(Debug)]
pub struct LastId {
    file: Option<File>,
    last: Option<u64>,
}

impl Default for LastId {
    fn default() -> Self {
        Self { file: File::open("/proc/loadavg").ok(), last: None }
    }
}

impl LastId {
    /// Whether the id has changed since the last call. True at the first call, and if the file cannot be
    /// read.
    fn has_changed(&mut self) -> bool {
        let last = self.read();
        let changed = last.is_none() || last != self.last;
        self.last = last;
        changed
    }

    fn read(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.split_whitespace().last()?.parse().ok()
    }
}

/// A socket of the process events connector.
#[derive(Debug)]
pub struct Connector {
    socket: OwnedFd,
    begun: bool,
}

/// `struct nlmsghdr` and `struct cn_msg` before each event.
const HEADERS: usize = 16 + 20;
/// `PROC_EVENT_FORK` of `enum what`; also sent for threads.
const FORK: u32 = 1;
/// `what`, `cpu` and `timestamp_ns` of `struct proc_event`, then the four ids of a creation.
const EVENT: usize = 16 + 16;
/// `CN_IDX_PROC` and `CN_VAL_PROC`.
const PROCESSES: u32 = 1;
/// Size of the receive buffer in bytes.
const BACKLOG: libc::c_int = 8 << 20;

impl Connector {
    /// # Errors
    /// Not root, another network namespace, or a kernel without the connector.
    fn open() -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: this is a new descriptor without another owner.
        let socket = unsafe {
            let raw = checked(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR))?;
            OwnedFd::from_raw_fd(raw)
        };
        drop_other_events(&socket)?;
        // Refused without CAP_NET_ADMIN; the default buffer has to suffice then.
        let _ = set_option(&socket, libc::SO_RCVBUFFORCE, &BACKLOG);
        // SAFETY: all bits zero is a valid address.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = PROCESSES;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is valid for the given length.
        checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
        let connector = Self { socket, begun: false };
        connector.send(LISTEN)?;
        connector.try_out()?;
        Ok(connector)
    }

    /// Checks that events arrive. In another network namespace all calls succeed, but no event ever arrives.
    /// In another process namespace the ids are those of the initial one.
    fn try_out(&self) -> io::Result<()> {
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let tid = thread.join().map_err(|_| io::Error::other("a thread has panicked"))?;
        let mut buffer = [0; 1024];
        while let Some(length) = self.receive(&mut buffer)? {
            if creation(&buffer[..length])
                .is_some_and(|task| task.tid == tid && task.pid == std::process::id())
            {
                return Ok(());
            }
        }
        Err(io::Error::other("the kernel delivers no process events here"))
    }

    fn send(&self, word: u32) -> io::Result<()> {
        let message = request(word);
        // SAFETY: the kernel reads the message of that length.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        checked(sent as libc::c_int).map(drop)
    }

    fn news(&mut self) -> ProcEventBatch {
        let mut unknown = !std::mem::replace(&mut self.begun, true);
        let (mut created, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match self.receive(&mut buffer) {
                Ok(Some(length)) => created.extend(creation(&buffer[..length])),
                Ok(None) => break,
                // The buffer has overflowed: some events are lost.
                Err(_) => unknown = true,
            }
        }
        match (unknown, created.is_empty()) {
            (true, _) => ProcEventBatch::Unknown,
            (false, true) => ProcEventBatch::None,
            (false, false) => ProcEventBatch::Created(created),
        }
    }

    /// Returns the length of the next message; `None` if there is none.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: the kernel writes at most as much as the buffer holds.
        let length =
            unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if length >= 0 {
            return Ok(Some(length as usize));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        }
    }
}

impl Drop for Connector {
    /// Old kernels count listeners, and go on sending while the count is not zero.
    fn drop(&mut self) {
        let _ = self.send(IGNORE);
    }
}

/// `PROC_CN_MCAST_LISTEN` and `PROC_CN_MCAST_IGNORE`.
const LISTEN: u32 = 1;
/// See [`LISTEN`].
const IGNORE: u32 = 2;

/// Returns `nlmsghdr`, `cn_msg` and a word, in the machine's byte order.
fn request(word: u32) -> Vec<u8> {
    let length = (HEADERS + 4) as u32;
    let mut message = Vec::with_capacity(length as usize);
    message.extend(length.to_ne_bytes());
    message.extend((libc::NLMSG_DONE as u16).to_ne_bytes());
    message.extend(0_u16.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(std::process::id().to_ne_bytes());
    message.extend(PROCESSES.to_ne_bytes());
    message.extend(PROCESSES.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(4_u16.to_ne_bytes());
    message.extend(0_u16.to_ne_bytes());
    message.extend(word.to_ne_bytes());
    message
}

/// Returns the creation that a message announces.
fn creation(message: &[u8]) -> Option<TaskCreated> {
    let event = message.get(HEADERS..HEADERS + EVENT)?;
    let number = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
    (number(0)? == FORK).then_some(())?;
    let sent_ns = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
    // parent_pid (a thread), parent_tgid, child_pid (a thread), child_tgid.
    Some(TaskCreated {
        parent: number(20)?,
        pid: number(28)?,
        tid: number(24)?,
        at_ns: sent_ns.min(now_ns()),
    })
}

/// Makes the kernel drop all events but creations. Otherwise each event would wake us up.
fn drop_other_events(socket: &OwnedFd) -> io::Result<()> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let compare = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let finish = (libc::BPF_RET | libc::BPF_K) as u16;
    // Loads are in network byte order.
    let program = [
        libc::sock_filter { code: load, jt: 0, jf: 0, k: HEADERS as u32 },
        libc::sock_filter { code: compare, jt: 0, jf: 1, k: FORK.to_be() },
        libc::sock_filter { code: finish, jt: 0, jf: 0, k: u32::MAX },
        libc::sock_filter { code: finish, jt: 0, jf: 0, k: 0 },
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set_option(socket, libc::SO_ATTACH_FILTER, &filter)
}

fn set_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of_val(value) as libc::socklen_t;
    // SAFETY: the kernel reads a value of that length, and copies what a filter points to.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    })
    .map(drop)
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own_thread() -> u32 {
        let tid = || rustix::thread::gettid().as_raw_nonzero().get() as u32;
        std::thread::spawn(tid).join().unwrap()
    }

    #[test]
    fn new_threads_are_found_by_polling() {
        let mut events = ProcEvents::poll();
        assert_eq!(events.next_batch(), ProcEventBatch::Unknown);
        own_thread();
        assert_eq!(events.next_batch(), ProcEventBatch::Unknown);
        assert!(events.descriptor().is_none());
    }

    #[test]
    fn new_threads_are_reported_by_the_connector() {
        let mut events = match Connector::open() {
            Ok(connector) => ProcEvents::Connector(connector),
            Err(error) => return eprintln!("SKIPPED: no process connector here: {error}"),
        };
        assert_eq!(events.next_batch(), ProcEventBatch::Unknown);
        let before = now_ns();
        let (tid, own) = (own_thread(), std::process::id());
        let ProcEventBatch::Created(reported) = events.next_batch() else { panic!("a thread was started") };
        let task = reported.iter().find(|task| task.tid == tid).unwrap();
        assert_eq!((task.pid, Some(task.parent)), (own, crate::tasks::parent(own)));
        assert!((before..=now_ns()).contains(&task.at_ns));
    }

    proptest! {
        #[test]
        fn any_message_is_a_creation_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            prop_assert!(creation(&bytes).is_none_or(|task| task.at_ns <= now_ns()));
        }
    }
}
