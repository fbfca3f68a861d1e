//! Servers: redis and nginx on a CPU, and one whose replies have known times.

use manycore_linux::{
    affinity::restrict,
    clock::{cpu_ns, process_cpu_ns},
};
use manycore_topology::{CpuId, CpuSet};
use rustix::{event::epoll, time::Timespec};
use std::{
    collections::VecDeque,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A server that runs.
pub trait Server {
    fn address(&self) -> SocketAddr;
    /// Its CPU time in nanoseconds.
    fn cpu_ns(&self) -> u64;
    /// Whether it is a process of its own.
    fn is_program(&self) -> bool;
}

/// A server of another program, which ends with the value.
pub struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    /// Starts redis on a CPU. `None` if it is not installed.
    pub fn redis(cpu: CpuId) -> Option<Self> {
        let port = free().port().to_string();
        Self::start(
            cpu,
            &["redis-server", "--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
            &port,
        )
    }

    /// Starts nginx on a CPU, with one small file. `None` if it is not installed.
    pub fn nginx(cpu: CpuId) -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generator-nginx");
        let (port, config) = (free().port().to_string(), folder.join("nginx.conf"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("index.html"), "hello\n").expect("a page");
        let folder = folder.display();
        let text = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log /dev/null;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; keepalive_requests 1000000000;\n\
             server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
        );
        fs::write(&config, text).expect("a configuration");
        Self::start(cpu, &["nginx", "-c", &config.display().to_string()], &port)
    }

    fn start(cpu: CpuId, words: &[&str], port: &str) -> Option<Self> {
        let address = format!("127.0.0.1:{port}").parse().expect("an address");
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string()]).args(words).stdout(Stdio::null()).stderr(Stdio::null());
        let mut program = Self { child: command.spawn().ok()?, address };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            let has_ended = program.child.try_wait().expect("a child").is_some();
            if has_ended || begin.elapsed() > Duration::from_secs(10) {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
        Some(program)
    }
}

impl Server for Program {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn cpu_ns(&self) -> u64 {
        process_cpu_ns(self.child.id()).unwrap_or(0)
    }

    fn is_program(&self) -> bool {
        true
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

/// When a known server replies.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// From the arrival of a request to its reply.
    pub delay: Duration,
    /// How often it stalls, and for how long.
    pub stall: Option<(Duration, Duration)>,
}

impl Behaviour {
    /// Returns the latency at a quantile in milliseconds, of requests at equal distances. What the server and the network
    /// need besides is not in it.
    pub fn quantile(self, q: f64) -> f64 {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let stalled = self.stall.map_or(0.0, |(period, length)| ms(length) - (1.0 - q) * ms(period));
        ms(self.delay) + stalled.max(0.0)
    }
}

/// A server in a thread that never sleeps while it has connections, so that its times are exact. It speaks as much of redis and HTTP as generators
/// need. It ends with the value.
pub struct Known {
    address: SocketAddr,
    tid: u32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Known {
    pub fn start(cpu: CpuId, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stop, tid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (seen, told) = (Arc::clone(&stop), Arc::clone(&tid));
        let thread = thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            restrict(own, &CpuSet::from_iter([cpu])).expect("an affinity");
            told.store(own, Ordering::Release);
            serve(&listener, behaviour, &seen);
        });
        while tid.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        Self { address, tid: tid.load(Ordering::Acquire), stop, thread: Some(thread) }
    }
}

impl Server for Known {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn cpu_ns(&self) -> u64 {
        cpu_ns(self.tid).unwrap_or(0)
    }

    fn is_program(&self) -> bool {
        false
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A reply that is due at a time, to the connection of that index.
struct Due {
    at: Instant,
    connection: usize,
    text: &'static str,
}

fn serve(listener: &TcpListener, behaviour: Behaviour, stop: &AtomicBool) {
    const LISTENER: u64 = u64::MAX;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let add = |socket: &dyn std::os::fd::AsFd, index| {
        epoll::add(&poll, socket.as_fd(), epoll::EventData::new_u64(index), epoll::EventFlags::IN)
            .expect("a socket");
    };
    add(listener, LISTENER);
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let (mut due, mut events) = (VecDeque::<Due>::new(), Vec::with_capacity(256));
    let (now, later) = (Timespec::default(), Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
    let mut open = 0;
    let mut stalls = behaviour.stall.map(|(period, length)| (Instant::now() + period, period, length));
    while !stop.load(Ordering::Acquire) {
        if let Some((begin, period, length)) = &mut stalls
            && Instant::now() >= *begin
        {
            while begin.elapsed() < *length {
                std::hint::spin_loop();
            }
            *begin += *period;
        }
        events.clear();
        let timeout = if open > 0 { &now } else { &later };
        // It may be interrupted. Then there are no events.
        let _count = epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(timeout));
        for event in &events {
            let index = event.data.u64();
            if index == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).expect("a stream");
                    add(&stream, connections.len() as u64);
                    connections.push(Some(stream));
                    open += 1;
                }
                continue;
            }
            let connection = index as usize;
            let text = connections[connection].as_mut().and_then(request);
            if let Some(text) = text {
                due.push_back(Due { at: Instant::now() + behaviour.delay, connection, text });
            } else {
                // Closing removes it from epoll.
                connections[connection] = None;
                open -= 1;
            }
        }
        while due.front().is_some_and(|reply| reply.at <= Instant::now())
            && let Some(reply) = due.pop_front()
        {
            let stream = connections[reply.connection].as_mut();
            let _gone = stream.map(|stream| stream.write_all(reply.text.as_bytes()));
        }
    }
}

/// Reads a request, which is short and comes in one piece, and returns the reply. `None` at the end of the connection.
fn request(stream: &mut TcpStream) -> Option<&'static str> {
    let mut bytes = [0; 1024];
    let length = stream.read(&mut bytes).ok().filter(|length| *length > 0)?;
    let is_ping = bytes[..length].ends_with(b"PING\r\n");
    Some(match bytes[0] {
        b'*' if is_ping => "+PONG\r\n",
        // redis-benchmark reads the configuration first, and goes on without it.
        b'*' => "-ERR unknown command\r\n",
        _ => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n",
    })
}
