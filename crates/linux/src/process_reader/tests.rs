//! Tests on invented files and on this machine.

use super::*;
use proptest::prelude::*;

const STAT: &[u8] = b"812 (a) (b c) S 5 812 700 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 98765 1234 250 1 2";

#[test]
fn a_name_with_brackets_and_blanks_is_no_field() {
    let stat = parse_stat(STAT, 4).unwrap();
    let expected = ProcessStat {
        name: ProcessName::new(b"a) (b c"),
        parent: 5,
        session: 700,
        threads: 3,
        start: 98765,
        resident_kib: 1000,
        ..ProcessStat::default()
    };
    assert_eq!(stat, expected);
    assert_eq!(parse_stat(&STAT[..40], 4), None);
}

#[test]
fn memory_that_would_come_back_is_what_no_file_has() {
    let text = b"Name:\tx\nTgid:\t7\nUid:\t1000\t0\t0\t0\nVmRSS:\t 900 kB\nRssAnon:\t 100 kB\nRssFile:\t 700 kB\nRssShmem:\t 100 kB\nVmSwap:\t 50 kB\n";
    assert_eq!(
        parse_status(text),
        Some(ProcessStatus { process: 7, user: 1000, kib: 150, shmem_kib: 100, is_contained: false })
    );
    let contained = |text: &[u8]| parse_status(text).unwrap().is_contained;
    assert!(contained(b"NSpid:\t812\t7\nUid:\t0\n") && !contained(b"NSpid:\t812\nUid:\t0\n"));
    assert_eq!(parse_status(b"Name:\tkthreadd\nUid:\t0\n"), Some(ProcessStatus::default()));
    assert_eq!(parse_status(b"Name:\tx\n"), None);
}

#[test]
fn memory_that_a_fork_shares_with_its_maker_would_not_come_back() {
    let script = "import os\nx = bytearray(64 << 20)\nif os.fork() == 0:\n os.read(0, 1)\n os._exit(0)\nprint(1, flush=True)\nos.read(0, 1)";
    let mut python = std::process::Command::new("python3");
    python.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let Ok(mut child) = python.spawn() else { return eprintln!("SKIPPED: python3 is not installed") };
    let mut line = [0; 2];
    io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    let read_shared_kib = read_shared_kib(Path::new("/"), child.id());
    drop(child.stdin.take());
    child.wait().unwrap();
    match read_shared_kib {
        Some(kib) => assert!((30 << 10..40 << 10).contains(&kib), "{kib} KiB of 64 MiB in two processes"),
        None => eprintln!("SKIPPED: no /proc/PID/smaps_rollup with Pss_Anon"),
    }
}

proptest! {
    #[test]
    fn nothing_that_a_file_says_upsets_it(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = (parse_stat(&text, 4), parse_status(&text));
    }
}
