//! Parses records of the kernel's ring buffers, as described in `perf_event_open(2)`.

use crate::cursor::Cursor;
use perf_event_open_sys::bindings;

/// Fields of each sample, in the order of the bits: instruction, ids, time, address, CPU, data source.
pub(super) const SAMPLE_TYPE: u64 = (bindings::PERF_SAMPLE_IP
    | bindings::PERF_SAMPLE_TID
    | bindings::PERF_SAMPLE_TIME
    | bindings::PERF_SAMPLE_ADDR
    | bindings::PERF_SAMPLE_CPU
    | bindings::PERF_SAMPLE_DATA_SRC) as u64;

/// Size in bytes of the trailer of every record that is not a sample (`sample_id_all`): process and task, time, CPU.
const ID: usize = 24;

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
    Comm {
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
    Fork {
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
    pub source: DataSource,
}

/// The source of data, with the bits of `union perf_mem_data_src` in `linux/perf_event.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataSource(pub u64);

impl DataSource {
    /// Returns whether it is a load (`mem_op`).
    pub fn is_load(self) -> bool {
        self.0 & u64::from(bindings::PERF_MEM_OP_LOAD) != 0
    }

    /// Returns whether it is a store (`mem_op`).
    pub fn is_store(self) -> bool {
        self.0 & u64::from(bindings::PERF_MEM_OP_STORE) != 0
    }

    /// Returns whether the line was modified in another cache (`mem_snoop`, HITM).
    pub fn is_modified_elsewhere(self) -> bool {
        self.0 >> bindings::PERF_MEM_SNOOP_SHIFT & u64::from(bindings::PERF_MEM_SNOOP_HITM) != 0
    }

    /// Returns whether the line was not in the core's own cache (`mem_lvl`, L1 and miss).
    pub fn misses_l1(self) -> bool {
        let missed = u64::from(bindings::PERF_MEM_LVL_L1 | bindings::PERF_MEM_LVL_MISS);
        self.0 >> bindings::PERF_MEM_LVL_SHIFT & missed == missed
    }
}

/// Parses the records in `bytes`, which start with a record. Returns each with its time in nanoseconds of the
/// kernel's clock. Truncated records and those of other kinds are left out.
pub fn records(mut bytes: &[u8]) -> Vec<(u64, Record)> {
    let mut records = Vec::new();
    loop {
        let mut header = Cursor::new(bytes);
        let (Some(kind), Some(misc), Some(size)) = (header.u32(), header.u16(), header.u16()) else { break };
        let Some(body) = bytes.get(size_of::<bindings::perf_event_header>()..size.into()) else { break };
        records.extend(record(kind, misc, body));
        bytes = &bytes[size.into()..];
    }
    records
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Option<(u64, Record)> {
    if kind == bindings::PERF_RECORD_SAMPLE {
        return sample(Cursor::new(body)).map(|sample| (sample.time, Record::Sample(sample)));
    }
    let (body, id) = body.split_at_checked(body.len().checked_sub(ID)?)?;
    let mut id = Cursor::new(id);
    id.u64()?;
    Some((id.u64()?, tracking(kind, misc, Cursor::new(body))?))
}

fn tracking(kind: u32, misc: u16, mut fields: Cursor<'_>) -> Option<Record> {
    match kind {
        bindings::PERF_RECORD_LOST => {
            let _id = fields.u64()?;
            fields.u64().map(Record::Lost)
        }
        bindings::PERF_RECORD_COMM => {
            let (pid, tid) = (fields.i32()?, fields.i32()?);
            let exec = u32::from(misc) & bindings::PERF_RECORD_MISC_COMM_EXEC != 0;
            Some(Record::Comm { pid, tid, name: text(fields)?, exec })
        }
        bindings::PERF_RECORD_FORK => {
            let (pid, parent, tid) = (fields.i32()?, fields.i32()?, fields.i32()?);
            Some(Record::Fork { pid, parent, tid })
        }
        bindings::PERF_RECORD_MMAP2 => {
            let (pid, _tid) = (fields.i32()?, fields.i32()?);
            let (start, bytes, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
            // Device, inode and its generation, protection and flags.
            fields.skip(4 * size_of::<u64>())?;
            Some(Record::Map { pid, start, bytes, offset, path: text(fields)? })
        }
        _ => None,
    }
}

fn text(mut fields: Cursor<'_>) -> Option<String> {
    fields.text().map(|text| String::from_utf8_lossy(text).into_owned())
}

fn sample(mut fields: Cursor<'_>) -> Option<Sample> {
    let ip = fields.u64()?;
    let (pid, tid) = (fields.i32()?, fields.i32()?);
    let (time, address) = (fields.u64()?, fields.u64()?);
    let (cpu, _reserved) = (fields.u32()?, fields.u32()?);
    Some(Sample { ip, pid, tid, time, address, cpu, source: DataSource(fields.u64()?) })
}
