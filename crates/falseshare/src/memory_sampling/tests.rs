//! Synthetic records as the kernel lays them out, and real ones of page faults.

use super::*;
use crate::sharing::MemoryKind;
use proptest::prelude::*;

const LOAD_HITM: u64 = 0x2 | 0x10 << 19;
const STORE_MISS: u64 = 0x4 | (0x8 | 0x4) << 5;
const STORE_HIT: u64 = 0x4 | (0x8 | 0x2) << 5;

fn framed(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(misc.to_le_bytes());
    bytes.extend((8 + body.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn ids(pid: i32, tid: i32) -> u64 {
    u64::from(pid as u32) | u64::from(tid as u32) << 32
}

fn sampled(tid: i32, ip: u64, address: u64, source: u64) -> Vec<u8> {
    framed(9, 2, &longs(&[ip, ids(70, tid), 1000, address, 3, source]))
}

/// Returns a record other than a sample: its trailer has the process and task, the time and the CPU.
fn tracking_record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    framed(kind, misc, &[body, &longs(&[ids(70, 70), 1000, 3])].concat())
}

/// The same, at another time.
fn record_at(time: u64, mut record: Vec<u8>) -> Vec<u8> {
    let place = record.len() - 16..record.len() - 8;
    record[place].copy_from_slice(&time.to_le_bytes());
    record
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() / 8 * 8 + 8, 0);
    bytes
}

fn named(pid: i32, tid: i32, name: &str, exec: bool) -> Vec<u8> {
    tracking_record(3, u16::from(exec) << 13, &[longs(&[ids(pid, tid)]), text(name)].concat())
}

fn mapped(start: u64, bytes: u64, offset: u64, path: &str) -> Vec<u8> {
    tracking_record(10, 2, &[longs(&[ids(70, 70), start, bytes, offset, 0, 0, 0, 5]), text(path)].concat())
}

fn born(tid: i32) -> Vec<u8> {
    tracking_record(7, 0, &longs(&[ids(70, 70), ids(tid, 70), 5]))
}

fn gathered(bytes: &[u8]) -> SampleCollector {
    let mut gathered = SampleCollector::default();
    gathered.take(records(bytes));
    gathered
}

#[test]
fn two_adjacent_counters_are_false_sharing() {
    let mut bytes = named(70, 70, "prog", true);
    bytes.extend(mapped(0x40_0000, 0x2000, 0, "/bin/prog"));
    bytes.extend(mapped(0x40_2000, 0x1000, 0, "//anon"));
    bytes.extend([born(71), born(72), named(70, 72, "second", false)].concat());
    for _ in 0..10 {
        bytes.extend(sampled(71, 0x40_0100, 0x40_2040, LOAD_HITM));
        bytes.extend(sampled(72, 0x40_0100, 0x40_2048, LOAD_HITM));
        bytes.extend(sampled(71, 0x40_0104, 0x40_2040, STORE_HIT));
        bytes.extend(sampled(72, 0x40_0104, 0x40_2048, STORE_MISS));
    }
    bytes.extend(tracking_record(2, 0, &longs(&[9, 17])));
    // A kernel address, and an operation that does not access memory.
    bytes.extend([sampled(71, 0x40_0100, u64::MAX - 63, STORE_HIT), sampled(71, 0x40_0100, 0, 0)].concat());
    let gathered = gathered(&bytes);
    assert_eq!(gathered.lost, 17);
    let processes = gathered.processes(70, LineLayout { line_bytes: 64, shift_bytes: 0 });
    let [process] = &processes[..] else { panic!("{processes:?}") };
    let threads: Vec<_> = process.threads.iter().map(|thread| (thread.tid, thread.name.as_str())).collect();
    assert_eq!(threads, [(70, "prog"), (71, "prog"), (72, "second")]);
    assert_eq!((process.program.as_str(), process.accesses, process.modules.len()), ("/bin/prog", 40, 1));
    let [line] = &process.lines[..] else { panic!("{process:?}") };
    assert_eq!((line.address, line.transfers, line.false_transfers), (0x40_2040, 30, 30));
    assert_eq!(line.memory, MemoryKind::Module { module: 0 });
    let first = line.accesses[0];
    assert_eq!((first.thread, first.code, first.offset, first.bytes), (1, 0x40_0100, 0, 0));
    assert_eq!((first.reads, first.writes, line.accesses.len()), (10, 0, 4));
}

#[test]
fn one_counter_of_two_threads_is_true_sharing() {
    let mut bytes = named(70, 70, "prog", true);
    for tid in [71, 72] {
        bytes.extend([sampled(tid, 1, 0x1000, LOAD_HITM), sampled(tid, 2, 0x1000, STORE_MISS)].concat());
    }
    let processes = gathered(&bytes).processes(70, LineLayout { line_bytes: 64, shift_bytes: 0 });
    let line = &processes[0].lines[0];
    assert_eq!((line.transfers, line.false_transfers, &line.memory), (4, 0, &MemoryKind::Unknown));
}

#[test]
fn lines_of_one_thread_or_without_writes_are_not_shared() {
    let mut bytes = [sampled(71, 1, 0x1000, STORE_MISS), sampled(71, 1, 0x1008, LOAD_HITM)].concat();
    bytes.extend([sampled(71, 1, 0x2000, 2), sampled(72, 1, 0x2008, 2)].concat());
    let processes = gathered(&bytes).processes(70, LineLayout { line_bytes: 64, shift_bytes: 0 });
    assert!(processes[0].lines.is_empty());
}

#[test]
fn another_program_begins_with_nothing_mapped() {
    let mut bytes = mapped(0x1000, 0x1000, 0, "/bin/sh");
    bytes.extend([named(70, 70, "prog", true), mapped(0x5000, 0x1000, 0, "/bin/prog")].concat());
    let processes = gathered(&bytes).processes(70, LineLayout { line_bytes: 64, shift_bytes: 0 });
    assert_eq!((processes[0].program.as_str(), processes[0].modules.len()), ("/bin/prog", 1));
}

#[test]
fn samples_after_an_exec_recorded_on_another_cpu_are_kept() {
    // The buffer of the first CPU is read first, although its records are later.
    let before = record_at(400, mapped(0x1000, 0x1000, 0, "/bin/sh"));
    let mut after = [before, record_at(900, mapped(0x5000, 0x1000, 0, "/bin/prog"))].concat();
    after.extend([sampled(71, 1, 0x5000, STORE_MISS), sampled(72, 2, 0x5008, STORE_MISS)].concat());
    let mut all = gathered(&after);
    all.take(records(&record_at(800, named(70, 70, "prog", true))));
    let processes = all.processes(70, LineLayout { line_bytes: 64, shift_bytes: 0 });
    let modules: Vec<&str> = processes[0].modules.iter().map(|module| module.path.as_str()).collect();
    assert_eq!((modules, processes[0].accesses, processes[0].lines.len()), (vec!["/bin/prog"], 2, 1));
}

#[test]
fn a_record_that_is_cut_off_is_left_out() {
    let whole = sampled(71, 1, 0x1000, STORE_MISS);
    let bytes = [whole.clone(), whole[..whole.len() - 1].to_vec()].concat();
    assert_eq!(records(&bytes).len(), 1);
}

proptest! {
    #[test]
    fn hostile_records_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0u32..12) {
        let _ = gathered(&bytes).processes(1, LineLayout { line_bytes: 64, shift_bytes: 0 });
        let _ = gathered(&framed(kind, 1 << 13, &bytes)).processes(1, LineLayout { line_bytes: 64, shift_bytes: 0 });
    }
}

/// Page faults have addresses too, and every kernel with performance events can record them.
#[test]
fn records_of_a_real_program_are_read() {
    let faults = MemoryEvent {
        name: "page-faults".to_owned(),
        kind: 1,
        config: [2, 0, 0],
        period: 1,
        user_only: true,
        ..MemoryEvent::default()
    };
    let command = ["sh", "-c", "awk 'BEGIN { for (i = 0; i < 100000; i++) x[i] = i; exit 3 }'; exit $?"];
    let request = Request { command: command.map(str::to_owned).to_vec(), timeout: None, line_bytes: 64 };
    let seen = match sample(&request, &[faults], &|| false) {
        Err(Error::EventsRefused { error, .. }) => {
            return eprintln!("SKIPPED: the kernel refuses events: {error}");
        }
        seen => seen.unwrap(),
    };
    assert_eq!(seen.end, CommandEnd::Status(3));
    assert_eq!(seen.processes.len(), 2, "{seen:?}");
    for process in &seen.processes {
        assert!(process.accesses > 10, "{process:?}");
        assert!(process.modules.iter().any(|module| module.path == process.program), "{process:?}");
    }
    assert!(!seen.processes[1].program.ends_with("sh"), "{:?}", seen.processes[1].program);
}

#[test]
fn an_endless_program_is_ended() {
    let faults =
        MemoryEvent { kind: 1, config: [2, 0, 0], period: 1, user_only: true, ..MemoryEvent::default() };
    let command = ["sleep", "1000"].map(str::to_owned).to_vec();
    for (timeout, expected) in
        [(Some(Duration::from_millis(100)), CommandEnd::Timeout), (None, CommandEnd::Interrupted)]
    {
        let request = Request { command: command.clone(), timeout, line_bytes: 64 };
        match sample(&request, std::slice::from_ref(&faults), &|| timeout.is_none()) {
            Err(Error::EventsRefused { error, .. }) => {
                return eprintln!("SKIPPED: the kernel refuses events: {error}");
            }
            seen => assert_eq!(seen.unwrap().end, expected),
        }
    }
}

#[test]
fn a_command_that_cannot_be_started_is_reported() {
    let request = Request { command: vec!["/no/such".to_owned()], timeout: None, line_bytes: 64 };
    match sample(&request, &[], &|| false) {
        Err(Error::EventsRefused { error, .. }) => eprintln!("SKIPPED: the kernel refuses events: {error}"),
        seen => {
            assert!(matches!(&seen, Err(Error::Start { program, .. }) if program == "/no/such"), "{seen:?}");
        }
    }
}

/// Other tests of this binary have children too, so it runs itself again for this test alone.
#[test]
fn processes_left_by_the_command_are_ended_and_reported() {
    const SINGLE_TEST_VARIABLE: &str = "MANYCORE_TEST_ALONE";
    if std::env::var_os(SINGLE_TEST_VARIABLE).is_none() {
        let name = "memory_sampling::tests::processes_left_by_the_command_are_ended_and_reported";
        let program = std::env::current_exe().unwrap();
        let run = Command::new(program)
            .args(["--exact", name, "--nocapture"])
            .env(SINGLE_TEST_VARIABLE, "1")
            .output()
            .unwrap();
        let (out, said) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success() && out.contains("1 passed"), "{out}\n{said}");
        return eprint!("{said}");
    }
    let faults =
        MemoryEvent { kind: 1, config: [2, 0, 0], period: 1, user_only: true, ..MemoryEvent::default() };
    let command = ["sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 3"].map(str::to_owned).to_vec();
    let request = Request { command, timeout: None, line_bytes: 64 };
    let seen = match sample_and_clean_up(&request, &[faults], &|| false) {
        Err(Error::EventsRefused { error, .. }) => {
            return eprintln!("SKIPPED: the kernel refuses events: {error}");
        }
        seen => seen.unwrap(),
    };
    assert_eq!((seen.end, seen.notes.len()), (CommandEnd::Status(3), 2), "{:?}", seen.notes);
    assert!(seen.notes[0].contains("was still running when the command exited"), "{:?}", seen.notes);
    assert_eq!(tasks::children(std::process::id()), [0; 0]);
}
