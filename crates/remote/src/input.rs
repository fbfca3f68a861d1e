//! The standard input of a command on another host.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_setfl},
};
use std::{
    io::{ErrorKind, PipeWriter, Write},
    time::Duration,
};

/// How long a wait takes at most before `stops` is asked again.
const LOOK: Duration = Duration::from_millis(200);

/// Writes to the input of a command, which may not read it, until `stops` returns true. The input does not block from then on.
/// Returns whether all was written.
pub fn write_input(input: &mut PipeWriter, bytes: &[u8], stops: impl Fn() -> bool) -> bool {
    if fcntl_setfl(&*input, OFlags::NONBLOCK).is_err() {
        return false;
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        if stops() {
            return false;
        }
        match input.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait_for_room(input),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

/// Waits until the pipe takes more, or for a moment.
fn wait_for_room(input: &PipeWriter) {
    let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    // An error shows in the next write.
    let _ = poll(&mut [PollFd::new(input, PollFlags::OUT)], Some(&look));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::Cell,
        io::{Read, pipe},
        thread,
    };

    #[test]
    fn a_command_that_does_not_read_is_given_up() {
        let (reader, mut writer) = pipe().unwrap();
        let looks = Cell::new(0);
        let stops = || looks.replace(looks.get() + 1) > 3;
        assert!(!write_input(&mut writer, &vec![0; 1 << 20], stops));
        drop(reader);
        assert!(!write_input(&mut writer, b"x", || false), "nothing can read it");
    }

    #[test]
    fn more_than_a_pipe_holds_is_written() {
        let (mut reader, mut writer) = pipe().unwrap();
        let read = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all.len()
        });
        assert!(write_input(&mut writer, &vec![7; 1 << 20], || false));
        drop(writer);
        assert_eq!(read.join().unwrap(), 1 << 20);
    }
}
