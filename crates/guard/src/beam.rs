//! What an Erlang node has to say before it is ended: the process with the most memory, and the setting that would have
//! held it (`erl_call(1)`, `max_heap_size` of `process_flag/2`).

mod port;

use crate::decision::node::Heaviest;
use crate::deputy::{self, Owner, Subject};
use manycore_text::names::printable;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    process::Command,
    time::Duration,
};

/// A node that does not answer is left to itself after this time.
const PATIENCE: Duration = Duration::from_secs(4);

/// Longest cookie: an atom's length.
pub const MOST_COOKIE: usize = 255;

/// Longest command line and environment that are read: a process can make its own as long as it likes.
const MOST_WORDS: u64 = 1 << 20;

/// Longest answer.
const MOST_ANSWER: usize = 16 << 10;

/// Whether these may be a cookie.
pub fn is_cookie(bytes: &[u8]) -> bool {
    (1..=MOST_COOKIE).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

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
    owner: Owner,
    cookie: Cookie,
    port: u16,
}

/// Where its cookie is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cookie {
    /// In the home that the process names: nobody but its user reads it.
    Home(OsString),
    /// On its command line, where everybody can read it.
    Said(OsString),
}

impl Node {
    /// That of a process, from its command line and the cookie of its user. Nothing of what the process says is followed
    /// with our rights: the cookie is read as its user, and the node is found where this process itself listens.
    ///
    /// # Errors
    /// In words: it is no node, it has no name, its cookie cannot be read, it is not on this machine's own network.
    pub fn of(pid: u32) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("process {pid}: {error}");
        let process = Subject::open(pid).map_err(failed)?;
        let owner = process.owner().map_err(failed)?;
        let line = process.read("cmdline", MOST_WORDS).map_err(failed)?;
        if line.is_empty() {
            return Err(format!("process {pid} is ending: its command line is gone"));
        }
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        let after =
            |key: &[u8]| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1).copied());
        let Some(name) = after(b"-sname").or_else(|| after(b"-name")) else {
            return Err(format!("process {pid} is no node: it was started without -sname or -name"));
        };
        // The host behind the @ leads nowhere: a node is asked on this machine alone.
        let alive = name.split(|&byte| byte == b'@').next().unwrap_or_default();
        let alive = alive_name(alive).ok_or_else(|| format!("process {pid}: its node's name is none"))?;
        let cookie = match after(b"-setcookie") {
            Some(cookie) if is_cookie(cookie) => Cookie::Said(OsStr::from_bytes(cookie).to_owned()),
            Some(_) => return Err(format!("process {pid}: what it says after -setcookie is no cookie")),
            None => Cookie::Home(home(&process, &owner)?),
        };
        let port = port::of(pid, &alive)?;
        Ok(Self { name: String::from_utf8_lossy(name).into_owned(), owner, cookie, port })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks it, as the user whose node it is.
    ///
    /// # Errors
    /// In words: `erl_call` is not installed, the node does not answer in time, or not as expected.
    pub fn heaviest(&self) -> Result<Heaviest, String> {
        let text = self.call()?;
        parse(&text).ok_or_else(|| format!("{} answered {:?}", printable(&self.name), short(&text)))
    }

    fn call(&self) -> Result<String, String> {
        let address = format!("127.0.0.1:{}", self.port);
        let mut command = lean("erl_call");
        command.args(["-address", &address, "-timeout", "3", "-e"]);
        match &self.cookie {
            Cookie::Home(home) => command.env("HOME", home),
            Cookie::Said(cookie) => command.arg("-c").arg(cookie),
        };
        let said = deputy::run(&mut command, &self.owner, QUESTION.as_bytes(), MOST_ANSWER, PATIENCE);
        let said = said.map_err(|error| {
            format!("cannot start erl_call: {error} (it is in Debian's package erlang-base)")
        })?;
        let name = printable(&self.name);
        match (said.out.trim(), short(&said.error)) {
            ("", error) if error.is_empty() => {
                Err(format!("{name} does not answer within {} s", PATIENCE.as_secs()))
            }
            ("", error) => Err(format!("{name}: {error}")),
            _ => Ok(said.out),
        }
    }
}

/// A command with nothing of our environment but where programs are.
fn lean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
    command
}

/// What another process said, as far as it can be shown.
fn short(text: &str) -> String {
    printable(&text.trim().chars().take(200).collect::<String>())
}

/// The part of a node's name that epmd knows it by.
fn alive_name(bytes: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_name = (1..=MOST_COOKIE).contains(&bytes.len()) && bytes.iter().all(is_plain);
    is_name.then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// The home that a process names, if there is a cookie of its user's in it, as a child of ours finds that has that user's
/// rights.
fn home(process: &Subject, owner: &Owner) -> Result<OsString, String> {
    let environment = process.read("environ", MOST_WORDS).unwrap_or_default();
    let home = environment.split(|&byte| byte == 0).find_map(|one| one.strip_prefix(b"HOME="));
    let home = home.filter(|home| home.starts_with(b"/"));
    let home = OsStr::from_bytes(home.ok_or("it has no HOME, where its cookie would be")?);
    let mut command = lean("/proc/self/exe");
    command.arg("cookie").arg("--").arg(home);
    let said = deputy::run(&mut command, owner, b"", MOST_ANSWER, PATIENCE);
    let said = said.map_err(|error| format!("cannot look for its cookie as its user: {error}"))?;
    match short(said.error.trim().trim_start_matches("manycore: ")) {
        _ if said.is_done => Ok(home.to_owned()),
        error if error.is_empty() => Err("its cookie cannot be read in time".to_owned()),
        error => Err(error),
    }
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

    #[test]
    fn a_process_that_ends_is_not_said_to_have_been_started_without_a_name() {
        let mut child = Command::new("true").spawn().unwrap();
        let limit = std::time::Instant::now() + Duration::from_secs(10);
        let status = format!("/proc/{}/status", child.id());
        while !std::fs::read_to_string(&status).unwrap().contains("State:\tZ") {
            assert!(std::time::Instant::now() < limit, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let why = Node::of(child.id()).unwrap_err();
        child.wait().unwrap();
        assert!(why.contains("is ending") && !why.contains("-sname"), "{why}");
    }

    #[test]
    fn a_name_has_no_host_and_nothing_that_epmd_or_a_terminal_takes_for_more() {
        assert_eq!(alive_name(b"rabbit"), Some("rabbit".to_owned()));
        assert_eq!((alive_name(b""), alive_name(b"a\x1b[2J"), alive_name(b"a b")), (None, None, None));
        assert!(is_cookie(b"ABC") && !is_cookie(b"") && !is_cookie(b"a\n") && !is_cookie(&[b'a'; 256]));
    }
}
