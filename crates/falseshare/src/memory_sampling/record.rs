//! Records of the kernel's ring buffers, as `perf_event_open(2)` lays them out.

/// What is asked for in each sample, in the order of the bits: instruction, ids, time, address, CPU, data source.
pub(super) const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 15;

/// Bytes at the end of every record that is no sample (`sample_id_all`): process and task, time, CPU.
const ID: usize = 24;

/// `PERF_RECORD_MISC_COMM_EXEC`: the name is new because another program was started.
const EXEC: u16 = 1 << 13;

/// Something that the kernel told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An access to memory.
    Sample(Sample),
    /// Memory was mapped.
    Map {
        /// The process.
        pid: i32,
        /// First address.
        start: u64,
        /// Bytes.
        bytes: u64,
        /// Where in the file it begins.
        offset: u64,
        /// The file; `//anon`, `[heap]` and such where there is none.
        path: String,
    },
    /// A task has a name.
    Name {
        /// The process.
        pid: i32,
        /// The task.
        tid: i32,
        /// The name.
        name: String,
        /// Whether it is that of another program, so that nothing is mapped any more.
        exec: bool,
    },
    /// A task was born.
    Birth {
        /// Its process.
        pid: i32,
        /// The process that it came from.
        parent: i32,
        /// The task.
        tid: i32,
    },
    /// Records were lost, so many.
    Lost(u64),
}

/// A sampled access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The instruction.
    pub ip: u64,
    /// The process.
    pub pid: i32,
    /// The task.
    pub tid: i32,
    /// Time of the kernel's clock in nanoseconds.
    pub time: u64,
    /// The first byte; 0 where the operation touched no memory.
    pub address: u64,
    /// The CPU.
    pub cpu: u32,
    /// Where the data came from (`union perf_mem_data_src`).
    pub source: Source,
}

/// Where data came from, bit by bit as `linux/perf_event.h` defines `union perf_mem_data_src`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source(pub u64);

impl Source {
    /// A load (`mem_op`).
    pub fn is_load(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// A store (`mem_op`).
    pub fn is_store(self) -> bool {
        self.0 & 0x4 != 0
    }

    /// Another cache had the line, changed (`mem_snoop`, HITM).
    pub fn is_modified_elsewhere(self) -> bool {
        self.0 >> 19 & 0x10 != 0
    }

    /// The core's own cache did not have the line (`mem_lvl`, L1 and miss).
    pub fn misses_first(self) -> bool {
        let level = self.0 >> 5 & 0x3fff;
        level & 0x8 != 0 && level & 0x4 != 0
    }
}

/// The records in `bytes`, from the start of one, each after its time in nanoseconds of the kernel's clock; one that is
/// cut off or of another kind is left out.
pub fn records(mut bytes: &[u8]) -> Vec<(u64, Record)> {
    let mut records = Vec::new();
    while let Some(header) = bytes.first_chunk::<8>() {
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let misc = u16::from_le_bytes([header[4], header[5]]);
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let Some(body) = bytes.get(8..size) else { break };
        records.extend(record(kind, misc, body));
        bytes = &bytes[size..];
    }
    records
}

/// Fields one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn long(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn word(&mut self) -> Option<i32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_le_bytes(*first))
    }

    /// The text up to its zero byte.
    fn text(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Option<(u64, Record)> {
    // PERF_RECORD_SAMPLE
    if kind == 9 {
        return sample(Fields(body)).map(|sample| (sample.time, Record::Sample(sample)));
    }
    let (body, id) = body.split_at_checked(body.len().checked_sub(ID)?)?;
    let mut id = Fields(id);
    id.long()?;
    Some((id.long()?, tracking(kind, misc, Fields(body))?))
}

fn tracking(kind: u32, misc: u16, mut fields: Fields) -> Option<Record> {
    match kind {
        // PERF_RECORD_LOST: id, number.
        2 => {
            fields.long()?;
            fields.long().map(Record::Lost)
        }
        // PERF_RECORD_COMM
        3 => {
            let (pid, tid) = (fields.word()?, fields.word()?);
            Some(Record::Name { pid, tid, name: fields.text(), exec: misc & EXEC != 0 })
        }
        // PERF_RECORD_FORK
        7 => {
            let (pid, parent, tid) = (fields.word()?, fields.word()?, fields.word()?);
            Some(Record::Birth { pid, parent, tid })
        }
        // PERF_RECORD_MMAP2
        10 => {
            let (pid, _tid) = (fields.word()?, fields.word()?);
            let (start, bytes, offset) = (fields.long()?, fields.long()?, fields.long()?);
            // Device, inode and its generation, protection and flags.
            for _ in 0..4 {
                fields.long()?;
            }
            Some(Record::Map { pid, start, bytes, offset, path: fields.text() })
        }
        _ => None,
    }
}

fn sample(mut fields: Fields) -> Option<Sample> {
    let ip = fields.long()?;
    let (pid, tid) = (fields.word()?, fields.word()?);
    let (time, address) = (fields.long()?, fields.long()?);
    let cpu = fields.word()? as u32;
    fields.word()?;
    Some(Sample { ip, pid, tid, time, address, cpu, source: Source(fields.long()?) })
}
