//! The threads of a sample, in blocks that samples share.

use crate::sample::TaskSample;
use std::{collections::HashSet, ops::Index, sync::Arc};

/// Most threads of a block. A block is copied if one of its threads changes.
pub(crate) const MOST_OF_BLOCK: usize = 64;

/// Some threads of one process in a row, ascending; never empty.
pub(crate) type TaskBlock = Arc<[TaskSample]>;

/// The threads of a sample, ascending by process and thread.
///
/// They are in blocks, each of threads of one process. Samples of one [`Sampler`](crate::Sampler) share a block as long as nothing in
/// it changes. So threads that sleep are neither copied nor compared.
#[derive(Clone, Debug, Default)]
pub struct TaskList {
    blocks: Vec<TaskBlock>,
    length: usize,
}

impl TaskList {
    /// Returns the number of threads.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are no threads.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the threads.
    pub fn iter(&self) -> impl Iterator<Item = &TaskSample> + Clone {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// Returns the threads to change them. Blocks that other samples have, too, are copied before.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut TaskSample> {
        self.blocks.iter_mut().flat_map(|block| Arc::make_mut(block).iter_mut())
    }

    /// Returns copies of the threads.
    pub fn to_vec(&self) -> Vec<TaskSample> {
        self.iter().cloned().collect()
    }

    pub(crate) fn blocks(&self) -> &[TaskBlock] {
        &self.blocks
    }

    /// Returns the addresses of the blocks that both lists have.
    pub(crate) fn shared_with(&self, other: &Self) -> HashSet<*const TaskSample> {
        let others: HashSet<_> = other.blocks.iter().map(|block| block.as_ptr()).collect();
        self.blocks.iter().map(|block| block.as_ptr()).filter(|block| others.contains(block)).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.length = 0;
    }

    /// Appends a block of threads that follow.
    pub(crate) fn push(&mut self, block: TaskBlock) {
        self.length += block.len();
        self.blocks.push(block);
    }
}

/// Appends threads that follow, ascending by process and thread.
impl Extend<TaskSample> for TaskList {
    fn extend<I: IntoIterator<Item = TaskSample>>(&mut self, tasks: I) {
        let tasks = Vec::from_iter(tasks);
        for process in tasks.chunk_by(|a, b| a.id.pid == b.id.pid) {
            process.chunks(MOST_OF_BLOCK).for_each(|block| self.push(block.into()));
        }
    }
}

/// Returns a list of threads, ascending by process and thread.
impl FromIterator<TaskSample> for TaskList {
    fn from_iter<I: IntoIterator<Item = TaskSample>>(tasks: I) -> Self {
        let mut list = Self::default();
        list.extend(tasks);
        list
    }
}

impl From<Vec<TaskSample>> for TaskList {
    fn from(tasks: Vec<TaskSample>) -> Self {
        Self::from_iter(tasks)
    }
}

impl Index<usize> for TaskList {
    type Output = TaskSample;

    fn index(&self, at: usize) -> &TaskSample {
        let (mut block, mut at) = (0, at);
        while let Some(one) = self.blocks.get(block).filter(|one| at >= one.len()) {
            (block, at) = (block + 1, at - one.len());
        }
        &self.blocks[block][at]
    }
}

impl PartialEq for TaskList {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::TaskId;

    fn task(pid: u32, tid: u32) -> TaskSample {
        TaskSample { id: TaskId { pid, tid, start: 1 }, ..TaskSample::default() }
    }

    #[test]
    fn blocks_have_threads_of_one_process() {
        let tasks: Vec<TaskSample> =
            (1..=70).map(|tid| task(1, tid)).chain([task(2, 80), task(3, 81)]).collect();
        let list: TaskList = tasks.clone().into();
        assert_eq!(list.blocks().iter().map(|block| block.len()).collect::<Vec<_>>(), [64, 6, 1, 1]);
        assert_eq!((list.len(), list.to_vec()), (72, tasks));
        assert_eq!((&list[69], &list[71]), (&task(1, 70), &task(3, 81)));
    }

    #[test]
    fn a_change_is_not_in_the_list_that_was_copied() {
        let before: TaskList = (1..=130).map(|tid| task(1, tid)).collect();
        let mut after = before.clone();
        assert!(Arc::ptr_eq(&before.blocks()[1], &after.blocks()[1]));
        after.iter_mut().nth(70).unwrap().run_ns = 5;
        assert_eq!((before[70].run_ns, after[70].run_ns), (0, 5));
        assert!(before != after && before == before.clone());
    }
}
