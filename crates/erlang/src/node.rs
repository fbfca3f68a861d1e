//! An Erlang node of this machine.

use crate::{
    LargestErlangProcess,
    cookie::{MAX_COOKIE, is_cookie},
    error::{Error, Result},
    port,
};
use manycore_linux::helper_process::{self, Credentials, ProcDir};
use manycore_text::names::printable;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    process::Command,
    time::Duration,
};

/// A node that does not answer is given up after this time.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Longest command line and environment that are read. A process can make its own as long as it likes.
const MAX_PROC_FILE: u64 = 1 << 20;

/// Longest answer.
const MAX_ANSWER: usize = 16 << 10;

/// Examines all processes of a node one by one, without sorting a list of them. Prints the result as words
/// that [`parse`] reads: id, registered name or first function, bytes, words of the heap, queued messages,
/// bytes of the second largest, number of processes.
const EXPRESSION: &str = r#"
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

/// The address of a node and what is needed to query it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    name: String,
    owner: Credentials,
    cookie: CookieSource,
    port: u16,
}

/// Source of the cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CookieSource {
    /// In the home directory that the process names. Only its user can read it.
    Home(OsString),
    /// On its command line, which all users can read.
    CommandLine(OsString),
}

impl Node {
    /// Returns the node of a process, from its command line and the cookie of its user. The guard uses none
    /// of its own privileges on what the process claims: the cookie is read as the user of the process, and
    /// the node must listen in this very process.
    ///
    /// # Errors
    /// [`Error::NoNode`]: the process is not a node, it has no name, its cookie cannot be read, or it does
    /// not listen on this machine.
    pub fn of(pid: u32) -> Result<Self> {
        Self::find(pid).map_err(Error::NoNode)
    }

    fn find(pid: u32) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("process {pid}: {error}");
        let process = ProcDir::open(pid).map_err(failed)?;
        let owner = process.owner().map_err(failed)?;
        let line = process.read("cmdline", MAX_PROC_FILE).map_err(failed)?;
        if line.is_empty() {
            return Err(format!("process {pid} is exiting: its command line is empty"));
        }
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        let after =
            |key: &[u8]| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1).copied());
        let Some(name) = after(b"-sname").or_else(|| after(b"-name")) else {
            return Err(format!(
                "process {pid} is not an Erlang node: it was started without -sname or -name"
            ));
        };
        // The host after the @ is ignored: only nodes on this machine are queried.
        let alive = name.split(|&byte| byte == b'@').next().unwrap_or_default();
        let alive =
            short_node_name(alive).ok_or_else(|| format!("process {pid}: its node name is not valid"))?;
        let cookie = match after(b"-setcookie") {
            Some(cookie) if is_cookie(cookie) => {
                CookieSource::CommandLine(OsStr::from_bytes(cookie).to_owned())
            }
            Some(_) => return Err(format!("process {pid}: the value of -setcookie is not a cookie")),
            None => CookieSource::Home(home(&process, &owner)?),
        };
        let port = port::of(pid, &alive)?;
        Ok(Self { name: String::from_utf8_lossy(name).into_owned(), owner, cookie, port })
    }

    /// Returns the name of the node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Queries the node, as the user of the node.
    ///
    /// # Errors
    /// [`Error::Query`]: `erl_call` is not installed, the node does not answer in time, or the answer is not
    /// as expected.
    pub fn largest_process(&self) -> Result<LargestErlangProcess> {
        let text = self.call().map_err(Error::Query)?;
        parse(&text).ok_or_else(|| {
            Error::Query(format!("unexpected answer of {}: {:?}", printable(&self.name), short(&text)))
        })
    }

    fn call(&self) -> Result<String, String> {
        let address = format!("127.0.0.1:{}", self.port);
        let mut command = minimal_command("erl_call");
        command.args(["-address", &address, "-timeout", "3", "-e"]);
        match &self.cookie {
            CookieSource::Home(home) => command.env("HOME", home),
            CookieSource::CommandLine(cookie) => command.arg("-c").arg(cookie),
        };
        let said = helper_process::run(&mut command, &self.owner, EXPRESSION.as_bytes(), MAX_ANSWER, TIMEOUT);
        let said = said.map_err(|error| {
            format!("cannot start erl_call: {error} (on Debian, install the package erlang-base)")
        })?;
        let name = printable(&self.name);
        match (said.stdout.trim(), short(&said.stderr)) {
            ("", error) if error.is_empty() => {
                Err(format!("{name} does not answer within {} s", TIMEOUT.as_secs()))
            }
            ("", error) => Err(format!("{name}: {error}")),
            _ => Ok(said.stdout),
        }
    }
}

/// Returns a command with nothing of our environment but the search path.
fn minimal_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
    command
}

/// Returns the output of another process, shortened and printable.
fn short(text: &str) -> String {
    printable(&text.trim().chars().take(200).collect::<String>())
}

/// Returns the part of a node's name that is registered with epmd.
fn short_node_name(bytes: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_name = (1..=MAX_COOKIE).contains(&bytes.len()) && bytes.iter().all(is_plain);
    is_name.then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the home directory that a process names, if it contains a cookie of its user. A child process with
/// that user's privileges checks this.
fn home(process: &ProcDir, owner: &Credentials) -> Result<OsString, String> {
    let environment = process.read("environ", MAX_PROC_FILE).unwrap_or_default();
    let home = environment.split(|&byte| byte == 0).find_map(|one| one.strip_prefix(b"HOME="));
    let home = home.filter(|home| home.starts_with(b"/"));
    let home = OsStr::from_bytes(home.ok_or("its environment has no HOME, so its cookie cannot be found")?);
    let mut command = minimal_command("/proc/self/exe");
    command.arg("cookie").arg("--").arg(home);
    let said = helper_process::run(&mut command, owner, b"", MAX_ANSWER, TIMEOUT);
    let said = said.map_err(|error| format!("cannot check its cookie as its user: {error}"))?;
    match short(said.stderr.trim().trim_start_matches("manycore: ")) {
        _ if said.succeeded => Ok(home.to_owned()),
        error if error.is_empty() => Err("its cookie could not be read in time".to_owned()),
        error => Err(error),
    }
}

fn parse(text: &str) -> Option<LargestErlangProcess> {
    let said = text.split_once("HEAVIEST ")?.1;
    let said = said.split('"').next()?;
    let mut words = said.split('|');
    let (pid, name) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut number = || words.next()?.trim().parse().ok();
    let (bytes, heap, messages, second_bytes) = (number()?, number()?, number()?, number()?);
    let (processes, limit_words) = (number()?, number()?);
    let current = words.next()?.trim_matches(['{', '}', ',']).to_owned();
    Some(LargestErlangProcess {
        pid,
        name,
        current,
        bytes,
        words: heap,
        messages,
        second_bytes,
        processes,
        limit_words,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_parsed() {
        let text = "{ok, \"HEAVIEST <0.105.0>|eater|41000000|5000000|12|80000|53|0|{eater,loop,1}\"}";
        let expected = LargestErlangProcess {
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
        assert_eq!((expected.suggested_max_heap_words(), expected.is_cause()), (20_000, true));
        assert_eq!(parse("{error, nodedown}"), None);
    }

    #[test]
    fn process_without_a_node_is_refused() {
        let why = Node::of(std::process::id()).unwrap_err().to_string();
        assert!(why.contains("-sname"), "{why}");
    }

    #[test]
    fn exiting_process_has_its_own_error() {
        let mut child = Command::new("true").spawn().unwrap();
        let limit = std::time::Instant::now() + Duration::from_mins(1);
        let status = format!("/proc/{}/status", child.id());
        while !std::fs::read_to_string(&status).unwrap().contains("State:\tZ") {
            assert!(std::time::Instant::now() < limit, "it does not exit");
            std::thread::sleep(Duration::from_millis(5));
        }
        let why = Node::of(child.id()).unwrap_err().to_string();
        child.wait().unwrap();
        assert!(why.contains("is exiting") && !why.contains("-sname"), "{why}");
    }

    #[test]
    fn node_name_has_no_host_and_no_control_characters() {
        assert_eq!(short_node_name(b"rabbit"), Some("rabbit".to_owned()));
        assert_eq!(
            (short_node_name(b""), short_node_name(b"a\x1b[2J"), short_node_name(b"a b")),
            (None, None, None)
        );
        assert!(is_cookie(b"ABC") && !is_cookie(b"") && !is_cookie(b"a\n") && !is_cookie(&[b'a'; 256]));
    }
}
