//! What a system keeps of a drive in memory, for reads that may be older than the drive.
//!
//! 1. It knows what went through the drive, not what is on the medium: a write that was lost or misplaced, and rot, are
//!    below it.
//! 2. A completed write takes what it overwrites out, puts itself there, or, in a system that is so careless, leaves
//!    it: a reader can only tell by what it knows of the bytes.
//! 3. It goes with the power. A kill leaves it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use evenkeel_engine::device::Extent;

use crate::random::Random;

/// Bytes that are kept together.
pub const BLOCK_BYTES: u64 = 4096;

/// A cache that outlives the executor.
pub type SharedCache = Rc<RefCell<PageCache>>;

/// What is kept of one drive.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageCache {
    blocks: BTreeMap<u64, Box<[u8]>>,
    /// Share of writes that leave what they overwrite.
    stale_share: f64,
    /// Writes that completed so far.
    writes: u64,
}

impl PageCache {
    /// An empty one, in which such a share of the writes leaves what it overwrites.
    pub fn new(stale_share: f64) -> Self {
        Self { stale_share, ..Self::default() }
    }

    /// An empty one, to open drives over.
    pub fn shared(stale_share: f64) -> SharedCache {
        Rc::new(RefCell::new(Self::new(stale_share)))
    }

    /// The power is gone, or the system needs its memory.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Nobody wants what is here of `extent`.
    pub(crate) fn give_up(&mut self, extent: Extent) {
        blocks_of(extent).for_each(|block| drop(self.blocks.remove(&block)));
    }

    /// Writes that completed so far: who read the drive while there was one may have read what was there before it.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// Whether all of `extent` is here.
    pub(crate) fn holds(&self, extent: Extent) -> bool {
        blocks_of(extent).all(|block| self.blocks.contains_key(&block))
    }

    /// Fills `into` from `offset` up to the first block that is not here; answers how many bytes that is.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let extent = Extent::new(offset, into.len() as u64);
        let mut filled = 0;
        for block in blocks_of(extent) {
            let Some(bytes) = self.blocks.get(&block) else { break };
            let (in_block, in_extent) = shared_by(block, extent);
            filled = in_extent.end;
            into[in_extent].copy_from_slice(&bytes[in_block]);
        }
        filled
    }

    /// Puts what is here over `into`, whole blocks that were read from `offset`.
    pub(crate) fn read_over(&self, offset: u64, into: &mut [u8]) {
        for (block, into) in (offset / BLOCK_BYTES..).zip(into.chunks_mut(BLOCK_BYTES as usize)) {
            if let Some(bytes) = self.blocks.get(&block) {
                into.copy_from_slice(bytes);
            }
        }
    }

    /// Keeps what was read from the drive, whole blocks, unless it is here by now.
    pub(crate) fn keep(&mut self, offset: u64, bytes: &[u8]) {
        for (block, bytes) in (offset / BLOCK_BYTES..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
            self.blocks.entry(block).or_insert_with(|| bytes.into());
        }
    }

    /// A write was acknowledged; of one that failed, or of a discard, nobody knows the bytes.
    pub(crate) fn note_write(&mut self, extent: Extent, bytes: Option<&[u8]>, random: &mut Random) {
        self.writes += 1;
        if random.chance(self.stale_share) {
            return;
        }
        let bytes = bytes.filter(|_| random.coin());
        for block in blocks_of(extent) {
            let (in_block, in_extent) = shared_by(block, extent);
            let Some(bytes) = bytes else {
                self.blocks.remove(&block);
                continue;
            };
            let new = &bytes[in_extent];
            if let Some(kept) = self.blocks.get_mut(&block) {
                kept[in_block].copy_from_slice(new);
            } else if new.len() as u64 == BLOCK_BYTES {
                self.blocks.insert(block, new.into());
            }
        }
    }
}

/// Numbers of the blocks that `extent` touches.
pub(crate) fn blocks_of(extent: Extent) -> Range<u64> {
    extent.offset / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES)
}

/// What block and extent share: its place in each of them.
fn shared_by(block: u64, extent: Extent) -> (Range<usize>, Range<usize>) {
    let start = block * BLOCK_BYTES;
    let shared = extent.intersection(&Extent::new(start, BLOCK_BYTES)).expect("the extent touches the block");
    let within = |from: u64| (shared.offset - from) as usize..(shared.end() - from) as usize;
    (within(start), within(extent.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = BLOCK_BYTES as usize;

    fn kept(stale_share: f64) -> PageCache {
        let mut cache = PageCache::new(stale_share);
        cache.keep(BLOCK_BYTES, &[1; 2 * BLOCK]);
        cache
    }

    #[test]
    fn what_was_kept_is_read_up_to_the_first_block_that_was_not() {
        let mut into = [9; 3 * BLOCK];
        assert_eq!(kept(0.0).read(BLOCK_BYTES + 512, &mut into), 2 * BLOCK - 512);
        assert!(into[..2 * BLOCK - 512].iter().all(|&byte| byte == 1));
        assert_eq!(kept(0.0).read(0, &mut into), 0);
    }

    #[test]
    fn a_write_is_seen_or_takes_away_what_it_overwrites() {
        let sector = Extent::new(BLOCK_BYTES + 512, 512);
        let (mut seen, mut taken) = (0, 0);
        for seed in 0..20 {
            let mut cache = kept(0.0);
            cache.note_write(sector, Some(&[2; 512]), &mut Random::new(seed));
            let mut into = [9; BLOCK];
            match cache.read(BLOCK_BYTES, &mut into) {
                0 => taken += 1,
                _ => {
                    assert!(into[512..1024].iter().all(|&byte| byte == 2) && into[1024] == 1);
                    seen += 1;
                }
            }
            assert!(cache.holds(Extent::new(2 * BLOCK_BYTES, BLOCK_BYTES)), "of which nothing was written");
        }
        assert!(seen > 0 && taken > 0);
    }

    #[test]
    fn a_careless_system_shows_what_was_there_before() {
        let mut cache = kept(1.0);
        cache.note_write(Extent::new(BLOCK_BYTES, BLOCK_BYTES), Some(&[2; BLOCK]), &mut Random::new(1));
        let mut into = [9; BLOCK];
        assert_eq!((cache.read(BLOCK_BYTES, &mut into), into[0]), (BLOCK, 1));
    }
}
