//! One connection of a load.

use crate::{
    generator::{Job, Shared},
    run::connect,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::{collections::VecDeque, io, rc::Rc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    select,
};

/// One connection. It is made again after a failure.
pub(crate) struct Connection {
    shared: Rc<Shared>,
    index: usize,
    stream: Option<TcpStream>,
    random: Xoshiro256PlusPlus,
    /// What is not sent yet.
    output: Vec<u8>,
    /// What is received of replies that are not complete.
    input: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(shared: Rc<Shared>, index: usize, stream: TcpStream) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(shared.request.seed.wrapping_add(1 + index as u64));
        Self { shared, index, stream: Some(stream), random, output: Vec::new(), input: Vec::new() }
    }

    /// Sends requests until the end, and reads their replies.
    pub(crate) async fn run(mut self) {
        let shared = Rc::clone(&self.shared);
        while let Some(job) = shared.next().await {
            self.add(job);
            while self.unanswered() > 0 {
                if let Err(error) = self.exchange().await {
                    self.fail(&error);
                }
            }
        }
    }

    /// Whether the server has not closed the connection while it was idle, as web servers do after some seconds.
    fn is_open(&mut self, stream: &TcpStream) -> bool {
        match stream.try_read_buf(&mut self.input) {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    fn unanswered(&self) -> usize {
        self.shared.unanswered.borrow()[self.index].len()
    }

    /// Adds a request to those that are sent.
    fn add(&mut self, job: Job) {
        self.shared.unanswered.borrow_mut()[self.index].push_back(job);
        self.shared.took();
        self.write();
    }

    /// Adds the bytes of a request to the output.
    fn write(&mut self) {
        self.shared.request.template.write(|below| self.random.random_range(0..below), &mut self.output);
    }

    /// Sends what is to be sent, and reads replies, until none is missing. Meanwhile takes further requests, as many as the
    /// connection may have at a time.
    async fn exchange(&mut self) -> io::Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) if self.is_open(&stream) => stream,
            _ => connect(self.shared.request.address).await?,
        };
        let shared = Rc::clone(&self.shared);
        let (mut receiver, mut sender) = stream.split();
        let mut has_ended = false;
        while self.unanswered() > 0 {
            let has_room = !has_ended && self.unanswered() < shared.request.pipeline;
            select! {
                biased;
                written = sender.write(&self.output), if !self.output.is_empty() => {
                    self.output.drain(..written?);
                }
                bytes = receiver.read_buf(&mut self.input) => {
                    let at_end = bytes? == 0;
                    if self.take_replies(at_end)? {
                        return self.reconnect().await;
                    }
                    if at_end {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
                    }
                }
                job = shared.next(), if has_room => match job {
                    Some(job) => self.add(job),
                    None => has_ended = true,
                },
            }
        }
        self.stream = Some(stream);
        Ok(())
    }

    /// Takes the replies that are complete; `at_end`: the server has closed the connection. Returns whether the server closes
    /// the connection after the last of them.
    fn take_replies(&mut self, at_end: bool) -> io::Result<bool> {
        let malformed = |_| io::Error::new(io::ErrorKind::InvalidData, "the server sent no valid reply");
        let protocol = self.shared.request.template.protocol;
        while let Some(reply) = protocol.reply(&self.input, at_end).map_err(malformed)? {
            let begin = || {
                String::from_utf8_lossy(&self.input[..reply.length]).lines().next().unwrap_or("").to_owned()
            };
            let error = reply.is_error.then(begin);
            let Some(job) = self.shared.unanswered.borrow_mut()[self.index].pop_front() else {
                return Err(malformed(crate::protocol::Malformed));
            };
            self.shared.ended(job, error);
            self.input.drain(..reply.length);
            if reply.closes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Connects again after a reply that closes the connection, and sends the requests again to which the server has not
    /// replied.
    async fn reconnect(&mut self) -> io::Result<()> {
        self.clear();
        if self.unanswered() == 0 {
            return Ok(());
        }
        self.stream = Some(connect(self.shared.request.address).await?);
        for _ in 0..self.unanswered() {
            self.write();
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.stream = None;
        self.output.clear();
        self.input.clear();
    }

    /// Counts all requests without a reply as failed.
    fn fail(&mut self, error: &io::Error) {
        self.clear();
        let jobs: VecDeque<Job> = std::mem::take(&mut self.shared.unanswered.borrow_mut()[self.index]);
        for job in jobs {
            self.shared.ended(job, Some(error.to_string()));
        }
    }
}
