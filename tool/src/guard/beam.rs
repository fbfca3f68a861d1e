//! What an Erlang node has to say before it is ended: the process with the most memory, and the setting that would have
//! held it (`erl_call(1)`, `max_heap_size` of `process_flag/2`).

use manycore_model::guard::node::Heaviest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs,
    io::{Read, Write},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// A node that does not answer is left to itself after this time.
const PATIENCE: Duration = Duration::from_secs(4);

/// Asks all processes of a node, one after the other, so that no list of them is sorted. Prints what it found in words
/// that are read again here: id, registered name or first function, bytes, words of the heap, messages that wait, bytes
/// of the second, number of processes.
const QUESTION: &str = r#"
Look = fun(P, {N, B1, W1, P1, B2}) ->
    case erlang:process_info(P, [memory, total_heap_size]) of
        [{memory, B}, {total_heap_size, W}] when B > B1 -> {N + 1, B, W, P, B1};
        [{memory, B}, _] when B > B2 -> {N + 1, B1, W1, P1, B};
        _ -> {N + 1, B1, W1, P1, B2}
    end
end,
{N, Bytes, Words, Pid, Second} = lists:foldl(Look, {0, 0, 0, self(), 0}, erlang:processes()),
Info = case erlang:process_info(Pid, [registered_name, initial_call, current_function, message_queue_len]) of
    undefined -> [];
    Found -> Found
end,
Name = case proplists:get_value(registered_name, Info, []) of
    [] -> io_lib:format("~p", [proplists:get_value(initial_call, Info)]);
    Registered -> atom_to_list(Registered)
end,
Limit = erlang:system_info(max_heap_size),
lists:flatten(io_lib:format("HEAVIEST ~s|~s|~p|~p|~p|~p|~p|~p|~s", [
    pid_to_list(Pid), Name, Bytes, Words, proplists:get_value(message_queue_len, Info, 0), Second, N,
    maps:get(size, Limit, 0), io_lib:format("~p", [proplists:get_value(current_function, Info)])])).
"#;

/// Where a node is, and what it takes to be heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    name: String,
    is_long: bool,
    cookie: Vec<u8>,
}

impl Node {
    /// That of a process, from its command line and the cookie of its user.
    ///
    /// # Errors
    /// In words: it is no node, it has no name, its cookie cannot be read.
    pub fn of(pid: u32) -> Result<Self, String> {
        let line =
            fs::read(format!("/proc/{pid}/cmdline")).map_err(|error| format!("process {pid}: {error}"))?;
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        let after =
            |key: &[u8]| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1).copied());
        let (name, is_long) = match (after(b"-sname"), after(b"-name")) {
            (Some(name), _) => (name, false),
            (None, Some(name)) => (name, true),
            (None, None) => {
                return Err(format!("process {pid} is no node: it was started without -sname or -name"));
            }
        };
        let cookie = match after(b"-setcookie") {
            Some(cookie) => cookie.to_vec(),
            None => cookie_of(pid)?,
        };
        Ok(Self { name: String::from_utf8_lossy(name).into_owned(), is_long, cookie })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks it.
    ///
    /// # Errors
    /// In words: `erl_call` is not installed, the node does not answer in time, or not as expected.
    pub fn heaviest(&self) -> Result<Heaviest, String> {
        // The cookie must not be seen in a list of processes, so `erl_call` reads it from a file.
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = home.path().join(".erlang.cookie");
        let write = || -> std::io::Result<()> {
            fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o400)
                .open(&path)?
                .write_all(&self.cookie)
        };
        write().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let text = self.call(home.path())?;
        parse(&text).ok_or_else(|| {
            format!("{} answered {:?}", self.name, text.trim().chars().take(200).collect::<String>())
        })
    }

    fn call(&self, home: &Path) -> Result<String, String> {
        let kind = if self.is_long { "-name" } else { "-sname" };
        let mut command = Command::new("erl_call");
        command.args([kind, &self.name, "-timeout", "3", "-e"]).env("HOME", home);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            format!("cannot start erl_call: {error} (it is in Debian's package erlang-base)")
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(QUESTION.as_bytes());
        }
        let text = child.stdout.take().map(|out| read_until(out, Instant::now() + PATIENCE));
        let _ = child.kill();
        let mut error = String::new();
        let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut error));
        let _ = child.wait();
        match text {
            Some(text) if !text.is_empty() => Ok(text),
            _ if error.trim().is_empty() => {
                Err(format!("{} does not answer within {} s", self.name, PATIENCE.as_secs()))
            }
            _ => Err(format!("{}: {}", self.name, error.trim())),
        }
    }
}

/// What comes until the end, or the time.
fn read_until(mut from: impl Read + AsFd, end: Instant) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut one = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        if left.is_zero() || !poll(&mut one, Some(&time)).is_ok_and(|count| count > 0) {
            break;
        }
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The cookie in the home of a process's user.
fn cookie_of(pid: u32) -> Result<Vec<u8>, String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let home = environment.split(|&byte| byte == 0).find_map(|one| one.strip_prefix(b"HOME="));
    let home = home.ok_or_else(|| format!("process {pid} has no HOME, where its cookie would be"))?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(home)).join(".erlang.cookie");
    let cookie =
        fs::read(&path).map_err(|error| format!("cannot read the cookie {}: {error}", path.display()))?;
    Ok(cookie.trim_ascii().to_vec())
}

fn parse(text: &str) -> Option<Heaviest> {
    let said = text.split_once("HEAVIEST ")?.1;
    let said = said.split('"').next()?;
    let mut words = said.split('|');
    let (pid, name) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut number = || words.next()?.trim().parse().ok();
    let (bytes, heap, messages, second_bytes) = (number()?, number()?, number()?, number()?);
    let (processes, limit_words) = (number()?, number()?);
    let current = words.next()?.trim_matches(['{', '}', ',']).to_owned();
    Some(Heaviest { pid, name, current, bytes, words: heap, messages, second_bytes, processes, limit_words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let text = "{ok, \"HEAVIEST <0.105.0>|eater|41000000|5000000|12|80000|53|0|{eater,loop,1}\"}";
        let expected = Heaviest {
            pid: "<0.105.0>".to_owned(),
            name: "eater".to_owned(),
            current: "{eater,loop,1".to_owned(),
            bytes: 41_000_000,
            words: 5_000_000,
            messages: 12,
            second_bytes: 80_000,
            processes: 53,
            limit_words: 0,
        };
        let found = parse(text).unwrap();
        assert_eq!((found.pid.as_str(), found.words, found.messages), ("<0.105.0>", 5_000_000, 12));
        assert_eq!((expected.held_by(), expected.is_cause()), (20_000, true));
        assert_eq!(parse("{error, nodedown}"), None);
    }

    #[test]
    fn a_process_that_is_no_node_is_told_so() {
        let why = Node::of(std::process::id()).unwrap_err();
        assert!(why.contains("-sname"), "{why}");
    }
}
