//! The tables of a sample. After a sample they are the same in the encoder and in the decoder.

use super::{
    MOST_CPUS, Malformed,
    blocks::Blocks,
    columns::{ColumnReader, Columns},
    more_rows, rows,
    table::{Entry, MOST_ROWS, Table, columns_of},
    texts::{self, Texts},
};
use crate::{
    resources::{InterruptSample, LATENCY_CLASSES},
    sample::Sample,
};

/// Largest memory of the rows of all tables in bytes: that of a million tasks, each a process of its own.
const MOST_BYTES: usize = 320 << 20;

/// The columns of each table follow those of the one before.
macro_rules! tables {
    ($($name:ident: $values:literal = $kinds:expr, $most:expr;)*) => {
        /// All tables of a sample.
        #[derive(Clone, Debug)]
        pub(super) struct State {
            texts: Texts,
            /// Those of the last sample that was encoded.
            blocks: Blocks,
            $($name: Table<$values>,)*
        }

        impl Default for State {
            fn default() -> Self {
                let mut next = texts::COLUMNS;
                $(let first = next; next += columns_of($values); let $name = Table::new(first, $kinds, $most);)*
                let _ = next;
                Self { texts: Texts::new(0), blocks: Blocks::default(), $($name,)* }
            }
        }

        impl State {
            /// Returns the memory of all rows in bytes.
            fn bytes(&self) -> usize {
                0 $(+ self.$name.bytes())*
            }

            /// Reads the differences to the next sample.
            pub fn decode(&mut self, from: &mut ColumnReader) -> Result<(), Malformed> {
                self.texts.decode(from)?;
                // Rows that tables had before count until these are read again.
                let mut all = self.bytes();
                $(
                    all -= self.$name.bytes();
                    self.$name.decode(from, MOST_BYTES.saturating_sub(all))?;
                    all += self.$name.bytes();
                )*
                Ok(())
            }
        }
    };
}

tables! {
    system: 8 = rows::SYSTEM, 1;
    cpus: 10 = rows::CPU, MOST_CPUS;
    processes: 2 = rows::PROCESS, MOST_ROWS;
    tasks: 17 = rows::TASK, MOST_ROWS;
    interrupts: 1 = more_rows::INTERRUPT, 1 << 16;
    counts: 1 = more_rows::COUNT, MOST_ROWS;
    nodes: 6 = more_rows::NODE, 1024;
    groups: 12 = more_rows::GROUP, 8192;
    guests: 1 = more_rows::GUEST, 4096;
    vcpus: 1 = more_rows::VCPU, 1 << 16;
    bandwidth: 3 = more_rows::BANDWIDTH, 1 << 16;
    details: 9 = more_rows::DETAILS, 4096;
    memory: 1 = more_rows::NODE_MEMORY, 1 << 16;
    histograms: 32 = more_rows::LATENCY, 16;
    latency: 5 = more_rows::LATENCY_SUMS, 1;
    clusters: 1 = more_rows::CLUSTER_RUN, 1 << 16;
}

fn all<T, const N: usize>(items: &[T], entry: impl FnMut(&T) -> Entry<N>) -> Vec<Entry<N>> {
    items.iter().map(entry).collect()
}

/// Returns the first interrupts, as many as have room for all their counts.
fn with_room(interrupts: &[InterruptSample]) -> &[InterruptSample] {
    let mut counts = 0;
    let fits = interrupts.iter().take_while(|one| {
        counts += one.counts.len();
        counts <= MOST_ROWS
    });
    &interrupts[..fits.count()]
}

impl State {
    /// Returns how many different texts there are.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Returns the bytes of all texts.
    pub fn text_bytes(&self) -> usize {
        self.texts.bytes()
    }

    /// Writes the differences to a sample.
    pub fn encode(&mut self, sample: &Sample, out: &mut Columns) {
        let texts = &mut self.texts;
        self.system.encode(&[rows::system_entry(sample)], out);
        self.cpus.encode(&all(&sample.cpus, rows::cpu_entry), out);
        let spans = self.blocks.next(&sample.tasks);
        self.tasks.encode_spans(&spans, rows::task_key, |task| rows::task_entry(task, texts), out);
        let runs = self.blocks.run_of_processes();
        let process = |one: &_| rows::process_entry(one, &runs, |key| self.processes.find(key));
        self.processes.encode(&all(&sample.processes, process), out);
        let interrupts = with_room(&sample.interrupts);
        self.interrupts.encode(&all(interrupts, |one| more_rows::interrupt_entry(one, texts)), out);
        let counts = interrupts.iter().enumerate();
        let counts: Vec<_> = counts.flat_map(|(at, one)| more_rows::count_entries(at, one)).collect();
        self.counts.encode(&counts, out);
        self.nodes.encode(&all(&sample.nodes, more_rows::node_entry), out);
        self.groups.encode(&all(&sample.groups, |group| more_rows::group_entry(group, texts)), out);
        self.guests.encode(&all(&sample.guests, |guest| more_rows::guest_entry(guest, texts)), out);
        let vcpus: Vec<_> = sample.guests.iter().flat_map(more_rows::vcpu_entries).collect();
        self.vcpus.encode(&vcpus, out);
        self.bandwidth.encode(&all(&sample.bandwidth, |one| more_rows::bandwidth_entry(one, texts)), out);
        let details = |(pid, details): &(u32, _)| more_rows::details_entry(*pid, details, texts);
        self.details.encode(&all(&sample.details, details), out);
        let memory =
            sample.details.iter().flat_map(|(pid, details)| more_rows::memory_entries(*pid, details));
        self.memory.encode(&memory.collect::<Vec<_>>(), out);
        let histograms = sample.latency.as_ref().map(|one| more_rows::histogram_entries(one, texts));
        self.histograms.encode(&histograms.unwrap_or_default(), out);
        let latency: Vec<_> = sample.latency.iter().map(more_rows::latency_entry).collect();
        self.latency.encode(&latency, out);
        let clusters: Vec<_> = sample.latency.iter().flat_map(more_rows::cluster_entries).collect();
        self.clusters.encode(&clusters, out);
        texts.encode(out);
    }

    /// Writes the sample that the tables are.
    pub fn write(&mut self, into: &mut Sample) -> Result<(), Malformed> {
        let texts = &mut self.texts;
        let system = self.system.entries().next().ok_or(Malformed("it has no time"))?;
        rows::read_system(system, into);
        fill(&mut into.cpus, self.cpus.entries(), rows::cpu_times)?;
        if into.cpus.is_empty() {
            return Err(Malformed("it has no CPUs"));
        }
        let runs = rows::run_of_processes(self.tasks.entries());
        fill(&mut into.processes, self.processes.entries(), |entry| rows::process(entry, &runs))?;
        into.tasks = self.tasks.entries().map(|entry| rows::task(entry, texts)).collect::<Result<_, _>>()?;
        let mut counts = self.counts.entries();
        let interrupt = |entry: &Entry<1>| more_rows::interrupt(entry, &mut counts, texts);
        fill(&mut into.interrupts, self.interrupts.entries(), interrupt)?;
        fill(&mut into.nodes, self.nodes.entries(), more_rows::node)?;
        fill(&mut into.groups, self.groups.entries(), |entry| more_rows::group(entry, texts))?;
        let mut vcpus = self.vcpus.entries();
        let guest = |entry: &Entry<1>| more_rows::guest(entry, &mut vcpus, texts);
        fill(&mut into.guests, self.guests.entries(), guest)?;
        fill(&mut into.bandwidth, self.bandwidth.entries(), |entry| more_rows::bandwidth(entry, texts))?;
        let mut memory = self.memory.entries();
        let details = |entry: &Entry<9>| more_rows::details(entry, &mut memory, texts);
        fill(&mut into.details, self.details.entries(), details)?;
        let latency = self.latency.entries().next();
        let read = |entry: &Entry<5>| {
            more_rows::latency(entry, self.histograms.entries(), self.clusters.entries(), texts)
        };
        into.latency = latency.map(read).transpose()?;
        into.counted = None;
        Ok(())
    }
}

fn fill<'a, T, const N: usize>(
    into: &mut Vec<T>,
    entries: impl ExactSizeIterator<Item = &'a Entry<N>>,
    value: impl FnMut(&'a Entry<N>) -> Result<T, Malformed>,
) -> Result<(), Malformed> {
    into.clear();
    into.reserve(entries.len());
    for one in entries.map(value) {
        into.push(one?);
    }
    Ok(())
}

const _: () = assert!(LATENCY_CLASSES == 32, "the table of histograms has this many values");
