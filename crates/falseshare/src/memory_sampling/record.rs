//! Parses records of the kernel's ring buffers, as described in `perf_event_open(2)`.

/// Fields of each sample, in the order of the bits: instruction, ids, time, address, CPU, data source.
pub(super) const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 15;

/// Size in bytes of the trailer of every record that is not a sample (`sample_id_all`): process and task, time, CPU.
const ID: usize = 24;

/// `PERF_RECORD_MISC_COMM_EXEC`: the name changed because another program was executed.
const EXEC: u16 = 1 << 13;

/// A record from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A memory access.
    Sample(Sample),
    /// Memory was mapped.
    Map {
        /// The process.
        pid: i32,
        /// First address.
        start: u64,
        /// Length in bytes.
        bytes: u64,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Path of the file; `//anon`, `[heap]` and the like for other memory.
        path: String,
    },
    /// The name of a task was set.
    Name {
        /// The process.
        pid: i32,
        /// The task.
        tid: i32,
        /// The name.
        name: String,
        /// Whether another program was executed, which removes all earlier mappings.
        exec: bool,
    },
    /// A task was created.
    Birth {
        /// Its process.
        pid: i32,
        /// The process that created it.
        parent: i32,
        /// The task.
        tid: i32,
    },
    /// This number of records were lost.
    Lost(u64),
}

/// A sampled access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Address of the instruction.
    pub ip: u64,
    /// The process.
    pub pid: i32,
    /// The task.
    pub tid: i32,
    /// Time of the kernel's clock in nanoseconds.
    pub time: u64,
    /// Address of the first byte; 0 if the operation did not access memory.
    pub address: u64,
    /// The CPU.
    pub cpu: u32,
    /// The source of the data (`union perf_mem_data_src`).
    pub source: Source,
}

/// The source of data, with the bits of `union perf_mem_data_src` in `linux/perf_event.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source(pub u64);

impl Source {
    /// Returns whether it is a load (`mem_op`).
    pub fn is_load(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// Returns whether it is a store (`mem_op`).
    pub fn is_store(self) -> bool {
        self.0 & 0x4 != 0
    }

    /// Returns whether the line was modified in another cache (`mem_snoop`, HITM).
    pub fn is_modified_elsewhere(self) -> bool {
        self.0 >> 19 & 0x10 != 0
    }

    /// Returns whether the line was not in the core's own cache (`mem_lvl`, L1 and miss).
    pub fn misses_first(self) -> bool {
        let level = self.0 >> 5 & 0x3fff;
        level & 0x8 != 0 && level & 0x4 != 0
    }
}

/// Parses the records in `bytes`, which start with a record. Returns each with its time in nanoseconds of the
/// kernel's clock. Truncated records and those of other kinds are left out.
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

/// A reader of consecutive fields.
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

    /// Returns the text up to its terminating zero byte.
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
