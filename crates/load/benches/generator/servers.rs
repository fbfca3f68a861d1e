//! Servers: redis and nginx on a CPU, and one whose replies have known times.

use hdrhistogram::Histogram;
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
        Arc, Mutex, MutexGuard, PoisonError,
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
    /// Begins to measure its replies anew, after some time.
    fn measure(&self, _after: Duration) {}
    /// Mean, p50 and p99 of its replies in milliseconds, if it measures them.
    fn measured(&self) -> Option<[f64; 3]> {
        None
    }
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
    times: Arc<Mutex<ReplyTimes>>,
    thread: Option<JoinHandle<()>>,
}

impl Known {
    pub fn start(cpu: CpuId, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stop, tid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let times = Arc::new(Mutex::new(ReplyTimes::since(Instant::now())));
        let (seen, told, measured) = (Arc::clone(&stop), Arc::clone(&tid), Arc::clone(&times));
        let thread = thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            restrict(own, &CpuSet::from_iter([cpu])).expect("an affinity");
            told.store(own, Ordering::Release);
            serve(&listener, behaviour, &seen, &measured);
        });
        while tid.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        Self { address, tid: tid.load(Ordering::Acquire), stop, times, thread: Some(thread) }
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

    fn measure(&self, after: Duration) {
        *lock(&self.times) = ReplyTimes::since(Instant::now() + after);
    }

    fn measured(&self) -> Option<[f64; 3]> {
        let times = &lock(&self.times).times;
        let quantile = |q| times.value_at_quantile(q) as f64;
        Some([times.mean(), quantile(0.5), quantile(0.99)].map(|ns| ns / 1e6))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Largest time of a reply that the histogram holds, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// What replies took in nanoseconds: from reading the request to writing the reply, with what delayed the server.
struct ReplyTimes {
    since: Instant,
    times: Histogram<u64>,
}

impl ReplyTimes {
    fn since(since: Instant) -> Self {
        Self { since, times: Histogram::new_with_max(LONGEST, 4).expect("a precision") }
    }

    fn record(&mut self, read: Instant) {
        if read >= self.since {
            self.times.saturating_record(read.elapsed().as_nanos() as u64);
        }
    }
}

fn lock(times: &Mutex<ReplyTimes>) -> MutexGuard<'_, ReplyTimes> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reply to the connection of that index, whose request was read at a time.
struct Due {
    read: Instant,
    connection: usize,
    text: &'static str,
}

fn serve(listener: &TcpListener, behaviour: Behaviour, stop: &AtomicBool, times: &Mutex<ReplyTimes>) {
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
                due.push_back(Due { read: Instant::now(), connection, text });
            } else {
                // Closing removes it from epoll.
                connections[connection] = None;
                open -= 1;
            }
        }
        while due.front().is_some_and(|reply| reply.read.elapsed() >= behaviour.delay)
            && let Some(reply) = due.pop_front()
        {
            let stream = connections[reply.connection].as_mut();
            lock(times).record(reply.read);
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
