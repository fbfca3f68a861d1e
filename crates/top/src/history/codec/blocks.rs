//! The blocks of threads of the last sample. A block that the next sample has, too, has not changed.

use super::{
    rows,
    table::{MOST_ROWS, Span},
};
use crate::{
    sample::TaskSample,
    task_list::{TaskBlock, TaskList},
};
use std::collections::HashMap;

/// A block, and the sum of the CPU times of its threads in units of their rows.
#[derive(Clone, Debug)]
struct Known {
    block: TaskBlock,
    run: u64,
}

/// The blocks of a sample, as many as the table of threads has room for.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks(Vec<Known>);

impl Blocks {
    /// Takes the blocks of the next sample in place of those of the last one. Returns them as spans of rows.
    pub fn next<'a>(&mut self, tasks: &'a TaskList) -> Vec<Span<'a, TaskSample>> {
        let mut place = 0;
        let former: HashMap<*const TaskSample, (usize, u64)> = self
            .0
            .iter()
            .map(|known| {
                let first = place;
                place += known.block.len();
                (known.block.as_ptr(), (first, known.run))
            })
            .collect();
        let mut count = 0;
        let fitting = tasks.blocks().iter().take_while(|block| {
            count += block.len();
            count <= MOST_ROWS
        });
        // The blocks of the last sample exist until here, so that no other block has the address of one of them.
        let (known, spans) = fitting
            .map(|block| {
                let former = former.get(&block.as_ptr());
                let run = former.map_or_else(|| rows::run_of(block), |(_, run)| *run);
                let span = Span { rows: &block[..], former: former.map(|(first, _)| *first) };
                (Known { block: TaskBlock::clone(block), run }, span)
            })
            .unzip();
        self.0 = known;
        spans
    }

    /// Returns the CPU times of the threads of each process, ascending.
    pub fn run_of_processes(&self) -> Vec<(u64, u64)> {
        rows::sums(self.0.iter().map(|known| (known.block[0].id.pid.into(), known.run)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::codec::{columns::Columns, state::State},
        sample::{CpuTimes, ProcessSample, Sample, TaskId},
    };
    use proptest::prelude::*;

    fn block((pid, run_ns, length): (u32, u64, u32)) -> TaskBlock {
        let task = |tid| TaskSample {
            id: TaskId { pid, tid, start: 1 },
            run_ns: run_ns + u64::from(tid),
            ..TaskSample::default()
        };
        (1..=length).map(task).collect()
    }

    fn sample(second: u64, blocks: impl Iterator<Item = TaskBlock>) -> Sample {
        let mut sample = Sample { at_ns: second, cpus: vec![CpuTimes::default()], ..Sample::default() };
        for block in blocks {
            let pid = block[0].id.pid;
            let process = ProcessSample { pid, start: 1, cpu_ns: Some(second << 20), threads: 1 };
            sample.processes.push(process);
            sample.tasks.push(block);
        }
        sample
    }

    proptest! {
        /// Blocks that two samples share are written as if they were compared.
        #[test]
        fn shared_blocks_are_written_as_others(
            changes in prop::collection::vec(prop::collection::vec((0_u32..8, 0_u64..1 << 30, 0_u32..4), 0..4), 1..8),
        ) {
            let (mut shared, mut other) = (State::default(), State::default());
            let mut blocks = std::collections::BTreeMap::new();
            for (second, changes) in changes.into_iter().enumerate() {
                for change in changes {
                    blocks.remove(&change.0);
                    if change.2 > 0 {
                        blocks.insert(change.0, block(change));
                    }
                }
                let mut written = [Columns::default(), Columns::default()];
                let samples = [
                    sample(second as u64, blocks.values().cloned()),
                    sample(second as u64, blocks.values().map(|block| block.to_vec().into())),
                ];
                shared.encode(&samples[0], &mut written[0]);
                other.encode(&samples[1], &mut written[1]);
                prop_assert_eq!(written[0].pack(), written[1].pack());
            }
        }
    }
}
