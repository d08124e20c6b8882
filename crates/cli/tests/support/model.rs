//! What a volume may hold after its server or its machine died, byte for byte.
//!
//! 1. Requests under way never overlap, so that what is acknowledged has an order; one that was under way when
//!    the server died may have happened or not.
//! 2. After a kill, every acknowledged write is there. After a loss of power, each byte is that of the last write
//!    that was durable, or of any later one.
//! 3. A write of up to the volume's atomic size is there whole or not at all.
//! 4. What was found once is what the next life begins with: it cannot be taken back.

use std::collections::HashMap;

use evenkeel_engine::device::Extent;

use super::served::Chance;

/// What is written whole or not at all: as `create` has it unless told otherwise.
const ATOMIC_MAX_BYTES: u64 = 16 << 10;

const PAGE: usize = 4096;

/// A change of some bytes.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) extent: Extent,
    /// What its bytes follow from; 0 for zeros.
    seed: u64,
    /// Whether no loss of power may take it any more.
    is_durable: bool,
}

impl Change {
    pub(crate) fn is_zeroes(&self) -> bool {
        self.seed == 0
    }

    /// All of its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let len = self.extent.len as usize;
        if self.is_zeroes() { vec![0; len] } else { super::served::noise(self.seed, len) }
    }

    fn is_one_commit(&self) -> bool {
        self.extent.len <= ATOMIC_MAX_BYTES && !self.is_zeroes()
    }

    fn overlaps_page(&self, page: usize) -> bool {
        self.extent.overlaps(&Extent::new((page * PAGE) as u64, PAGE as u64))
    }
}

/// What ended a life of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// Its process was killed.
    Kill,
    /// The memory of the machine went too.
    Power,
}

/// What is known of a volume's bytes.
pub(crate) struct Model {
    /// As the server's life began.
    before: Vec<u8>,
    /// With all that was acknowledged since.
    pub(crate) now: Vec<u8>,
    /// What was acknowledged, in order.
    acknowledged: Vec<Change>,
    /// By a number that nothing else has.
    under_way: HashMap<u64, Change>,
    /// Reads under way: what they look at stays.
    looked_at: HashMap<u64, Extent>,
    numbers: u64,
}

impl Model {
    /// A volume without contents.
    pub(crate) fn new(size_bytes: usize) -> Self {
        Self {
            before: vec![0; size_bytes],
            now: vec![0; size_bytes],
            acknowledged: Vec::new(),
            under_way: HashMap::new(),
            looked_at: HashMap::new(),
            numbers: 0,
        }
    }

    fn is_free(&self, extent: Extent) -> bool {
        let apart = |other: &Extent| !other.overlaps(&extent);
        self.under_way.values().all(|change| apart(&change.extent)) && self.looked_at.values().all(apart)
    }

    /// A change of `extent` begins; `None` where another request is about these bytes.
    pub(crate) fn begin(&mut self, extent: Extent, zeroes: bool) -> Option<(u64, Change)> {
        self.is_free(extent).then(|| {
            self.numbers += 1;
            let seed = if zeroes { 0 } else { self.numbers };
            let change = Change { extent, seed, is_durable: false };
            self.under_way.insert(self.numbers, change.clone());
            (self.numbers, change)
        })
    }

    /// A change was acknowledged.
    pub(crate) fn acknowledge(&mut self, number: u64, is_durable: bool) {
        let mut change = self.under_way.remove(&number).unwrap();
        change.is_durable = is_durable;
        let at = change.extent.offset as usize;
        self.now[at..][..change.extent.len as usize].copy_from_slice(&change.bytes());
        self.acknowledged.push(change);
    }

    /// A read begins.
    pub(crate) fn look(&mut self, extent: Extent) -> Option<u64> {
        self.is_free(extent).then(|| {
            self.numbers += 1;
            self.looked_at.insert(self.numbers, extent);
            self.numbers
        })
    }

    /// A read came to its end.
    pub(crate) fn looked(&mut self, number: u64, found: &[u8]) {
        let extent = self.looked_at.remove(&number).unwrap();
        let at = extent.offset as usize;
        assert!(found == &self.now[at..][..found.len()], "a read of {extent:?} is not the latest write");
    }

    /// How much is acknowledged: what a flush that is sent now covers.
    pub(crate) fn mark(&self) -> usize {
        self.acknowledged.len()
    }

    /// A flush that was sent at `mark` is complete. One of a range takes the rest of a write along that is one
    /// commit; of a larger one it need not, and what it took then is not followed here.
    pub(crate) fn flushed(&mut self, mark: usize, range: Option<Extent>) {
        for change in &mut self.acknowledged[..mark] {
            change.is_durable |= range.is_none_or(|range| match range.intersection(&change.extent) {
                None => false,
                Some(shared) => shared == change.extent || change.is_one_commit(),
            });
        }
    }

    /// Acknowledged writes that no flush has covered.
    pub(crate) fn unflushed(&self) -> usize {
        self.acknowledged.iter().filter(|change| !change.is_durable).count()
    }

    /// Judges what is there after `death`, and takes it as the beginning of the next life.
    #[track_caller]
    pub(crate) fn judge(&mut self, found: Vec<u8>, death: Death) {
        let mut changes = std::mem::take(&mut self.acknowledged);
        let stays = |change: &Change| death == Death::Kill || change.is_durable;
        let known = changes.len();
        changes.extend(self.under_way.drain().map(|(_, change)| change));
        self.looked_at.clear();

        // What must be there, and which change put it there.
        let mut must = self.before.clone();
        let mut put_by = vec![0_u32; if death == Death::Power { must.len() } else { 0 }];
        if death == Death::Kill {
            must.copy_from_slice(&self.now);
        }
        for (number, change) in changes[..known].iter().enumerate().filter(|(_, change)| stays(change)) {
            if death == Death::Power {
                let (at, len) = (change.extent.offset as usize, change.extent.len as usize);
                must[at..][..len].copy_from_slice(&change.bytes());
                put_by[at..][..len].fill(number as u32 + 1);
            }
        }
        let may: Vec<(usize, &Change)> = changes
            .iter()
            .enumerate()
            .filter(|&(number, change)| number >= known || !stays(change))
            .collect();

        for page in 0..found.len() / PAGE {
            let range = page * PAGE..(page + 1) * PAGE;
            if found[range.clone()] == must[range.clone()] {
                continue;
            }
            let near: Vec<(usize, Extent, Vec<u8>)> = may
                .iter()
                .filter(|(_, change)| change.overlaps_page(page))
                .map(|&(number, change)| (number, change.extent, change.bytes()))
                .collect();
            for at in range.filter(|&at| found[at] != must[at]) {
                let newest = put_by.get(at).map_or(0, |&number| number as usize);
                let is_later = |(number, extent, bytes): &(usize, Extent, Vec<u8>)| {
                    let inside = (at as u64).checked_sub(extent.offset).filter(|&inside| inside < extent.len);
                    inside.is_some_and(|inside| *number >= newest && bytes[inside as usize] == found[at])
                };
                assert!(
                    near.iter().any(is_later),
                    "{death:?}: byte {at} holds {:#04x} and must hold {:#04x}: a write is lost; {} later ones near it",
                    found[at],
                    must[at],
                    near.len()
                );
            }
        }
        self.judge_atomicity(&changes, &may, &must, &found, death);
        self.before.clone_from(&found);
        self.now = found;
    }

    /// Each change that may be there is there whole or not at all, where nothing else was done to its pages.
    #[track_caller]
    fn judge_atomicity(
        &self,
        changes: &[Change],
        may: &[(usize, &Change)],
        must: &[u8],
        found: &[u8],
        death: Death,
    ) {
        let mut changes_of_page = vec![0_u32; found.len().div_ceil(PAGE)];
        let pages = |change: &Change| {
            change.extent.offset as usize / PAGE..(change.extent.end() as usize).div_ceil(PAGE)
        };
        changes.iter().flat_map(pages).for_each(|page| changes_of_page[page] += 1);
        for (_, change) in may.iter().filter(|(_, change)| change.extent.len <= ATOMIC_MAX_BYTES) {
            if death == Death::Power && pages(change).any(|page| changes_of_page[page] > 1) {
                continue;
            }
            let range = change.extent.offset as usize..change.extent.end() as usize;
            let is_whole = found[range.clone()] == change.bytes();
            assert!(
                is_whole || found[range.clone()] == must[range],
                "{death:?}: {:?} is torn",
                change.extent
            );
        }
    }
}

/// Where and how much: mostly small, of any size and at any offset, often where others were before.
pub(crate) fn extent(chance: &mut Chance, size_bytes: u64) -> Extent {
    let len = match chance.below(40) {
        0 => 256 << 10,
        1 => 1 + chance.below(600 << 10),
        2..=9 => 4096 * (1 + chance.below(4)),
        10..=15 => 1 + chance.below(40 << 10),
        _ => 1 + chance.below(6000),
    };
    let region = if chance.below(2) == 0 { size_bytes / 32 } else { size_bytes };
    let offset = chance.below(region.max(len + 1) - len);
    let is_aligned = len.is_multiple_of(4096);
    Extent::new(if is_aligned { offset / 4096 * 4096 } else { offset }, len)
}
