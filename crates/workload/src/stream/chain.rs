//! A chain through memory in random order: each load depends on the one before, so that its time is the
//! memory latency.
#![allow(unsafe_code, reason = "the chain is read by address: bounds checks would be part of the time")]

use super::memory::Region;
use std::{
    hint::black_box,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Bytes from link to link: two lines, because CPUs fetch lines in pairs, and the caches of some have lines
/// of 128 bytes.
pub(super) const LINK_BYTES: usize = 128;

/// Loads per tick, which take some microseconds.
pub(super) const HOPS: usize = 64;

/// Links that form one ring, in an order that no prefetcher predicts.
pub(super) struct Chain {
    memory: Region,
    links: usize,
    /// Where the last chase ended. The next one continues there, because caches may hold earlier links.
    reached: AtomicUsize,
}

impl Chain {
    /// Creates a chain through `bytes` bytes on `node`; see [`Region::new`].
    pub(super) fn new(bytes: usize, node: Option<u32>, threads: usize) -> io::Result<Arc<Self>> {
        let links = bytes / LINK_BYTES;
        if links == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = Region::new(bytes, node, threads)?;
        let chain = Self { memory, links, reached: AtomicUsize::new(0) };
        let mut order = order(links);
        let first = order.next().unwrap_or(0);
        let mut last = first;
        for link in order {
            chain.join(last, link);
            last = link;
        }
        chain.join(last, first);
        Ok(Arc::new(chain))
    }

    /// Links `from` to `to`.
    fn join(&self, from: usize, to: usize) {
        debug_assert!(from < self.links && to < self.links);
        // SAFETY: a link lies within the region, at a multiple of its alignment. Nothing reads links before
        // all are written.
        unsafe {
            self.memory.start().byte_add(from * LINK_BYTES).write((to * LINK_BYTES) as u64);
        }
    }

    /// Returns the offset to which the link at `offset` leads.
    #[inline]
    fn follow(&self, offset: usize) -> usize {
        // SAFETY: `new` has written the offset of a link into every link, and callers start at a link.
        unsafe { self.memory.start().byte_add(offset).read() as usize }
    }
}

/// Returns every number below `count` once, in a pseudorandom order that is always the same.
fn order(count: usize) -> impl Iterator<Item = usize> {
    let bits = usize::BITS - count.saturating_sub(1).leading_zeros();
    let mask = 1_usize.checked_shl(bits).map_or(usize::MAX, |end| end - 1);
    let half = bits.div_ceil(2).max(1);
    // Multiplication by an odd factor and the xor with a right shift are each reversible modulo a power of
    // two, so no number occurs twice. Numbers beyond the end are left out.
    (0..=mask)
        .map(move |position| {
            [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb].iter().enumerate().fold(
                position,
                |bits, (round, &odd)| {
                    let bits = bits.wrapping_add(round + 1).wrapping_mul(odd as usize) & mask;
                    bits ^ bits >> half
                },
            )
        })
        .filter(move |&link| link < count)
}

/// A position on a chain.
pub(super) struct ChainWorker {
    chain: Arc<Chain>,
    at: usize,
}

impl ChainWorker {
    pub(super) fn new(chain: Arc<Chain>) -> Self {
        let at = chain.reached.load(Relaxed);
        Self { chain, at }
    }

    /// Follows [`HOPS`] links.
    pub(super) fn step(&mut self) {
        let mut at = self.at;
        for _ in 0..HOPS {
            at = self.chain.follow(at);
        }
        self.at = black_box(at);
    }
}

impl Drop for ChainWorker {
    fn drop(&mut self) {
        self.chain.reached.store(self.at, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_chain_leads_through_every_link_once_and_back() {
        for links in (1..=300).chain([1023, 1024, 1025, 4096, 5000, 70_001]) {
            let chain = Chain::new(links * LINK_BYTES + links % LINK_BYTES, None, 1).unwrap();
            let mut seen = vec![false; links];
            let mut at = 0;
            for _ in 0..links {
                assert!(!std::mem::replace(&mut seen[at / LINK_BYTES], true), "{links}: {at} twice");
                at = chain.follow(at);
            }
            assert_eq!(at, 0, "{links} links");
        }
    }

    #[test]
    fn neighbours_in_the_chain_are_no_neighbours_in_memory() {
        let order: Vec<usize> = order(1 << 16).collect();
        let steps: Vec<usize> = order.windows(2).map(|two| two[0].abs_diff(two[1])).collect();
        // Of random steps, one in a thousand stays within a page of 32 links.
        let near = steps.iter().filter(|&&step| step < 32).count();
        assert!(near < steps.len() / 200, "{near} of {}", steps.len());
        let common = steps.iter().fold(std::collections::BTreeMap::new(), |mut counts, step| {
            *counts.entry(step).or_insert(0) += 1;
            counts
        });
        assert!(common.values().all(|&count| count < steps.len() / 50), "one step is common");
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 1 << 16);
    }

    #[test]
    fn a_chase_follows_its_links() {
        let chain = Chain::new(1000 * LINK_BYTES, None, 1).unwrap();
        let mut chase = ChainWorker::new(Arc::clone(&chain));
        chase.step();
        let wanted = (0..HOPS).fold(0, |at, _| chain.follow(at));
        assert_eq!(chase.at, wanted);
        drop(chase);
        assert_eq!(ChainWorker::new(Arc::clone(&chain)).at, wanted, "the next one continues");
        assert!(Chain::new(LINK_BYTES - 1, None, 1).is_err());
    }
}
