//! The oracle: for each byte of the volume, the versions that it may hold.
//!
//! Every write is an *operation* with a number, and gives each of its bytes a value that depends on the number
//! and the place. Operations on one byte are issued one after another (each client writes only where no other
//! does), so the versions of a byte are ordered. After a cut, each byte must hold a version
//!
//! 1. no older than its floor: after a power cut what was durable, after a kill what was acknowledged,
//! 2. and no operation that is one commit may be there at one byte and missing at another: its own bytes at
//!    one place, an older version at another.
//!
//! What a recovery after a power cut served is the floor of everything after it. What one after a kill served counts as
//! acknowledged, whoever heard of it: another kill takes none of it, and a flush makes it durable. Values of one byte wide can be
//! equal by chance; then both versions count as possible, so the oracle may overlook but never accuses wrongly.

use evenkeel_engine::device::Extent;
use evenkeel_engine::format::PAGE;

/// What an operation writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Values of its own.
    Own,
    /// Zeros.
    Zero,
    /// What was there before.
    Same,
}

/// A write, a commit or a discard.
#[derive(Debug, Clone)]
struct Operation {
    extents: Vec<Extent>,
    /// Its bytes, one extent after the other.
    bytes: Vec<u8>,
    /// Which of them are other than what was there when it was issued.
    changed: Vec<bool>,
    /// Whether it is one commit.
    atomic: bool,
    acknowledged: bool,
}

/// Below which version a byte may not fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// None: any version since the last power cut that was judged.
    Nothing,
    /// What was durable.
    Durable,
    /// What was acknowledged.
    Acknowledged,
}

/// What a volume of one run after another may hold.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// What was there when `operations` began.
    base: Vec<u8>,
    /// Operations since the last power cut, in the order of their issue.
    operations: Vec<Operation>,
    /// What a read must find while nothing is under way.
    current: Vec<u8>,
    /// For each byte, the newest operation that was acknowledged or served after a kill, counted from 1; 0 for the base.
    acknowledged: Vec<u32>,
    /// For each byte, the newest operation that a power cut cannot take; 0 for the base.
    durable: Vec<u32>,
    issued: u64,
    /// Counts everything that it was told.
    changes: u64,
}

/// A flush under way: what it will have made durable.
#[derive(Debug)]
pub struct FlushBegun {
    extent: Extent,
    acknowledged: Vec<u32>,
}

/// What each byte may be.
struct Versions {
    oldest: Vec<u32>,
    newest: Vec<u32>,
    /// Whether the newest one changed the byte at all: one that left it as it was proves nothing by being there. What it
    /// was is what the operation issued before gave it, or an older version if a kill took that one: neither may do.
    changed: Vec<bool>,
}

/// What was found to be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// In words, with the place.
    pub what: String,
}

impl Violation {
    /// What was found, as `cause` says it.
    pub fn of(cause: impl std::fmt::Display) -> Self {
        Self { what: cause.to_string() }
    }

    /// The same, with `place` before it.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        Self { what: format!("{place}: {}", self.what) }
    }
}

impl Oracle {
    /// A new volume of `size_bytes`, all zeros.
    pub fn new(size_bytes: usize) -> Self {
        Self {
            base: vec![0; size_bytes],
            operations: Vec::new(),
            current: vec![0; size_bytes],
            acknowledged: vec![0; size_bytes],
            durable: vec![0; size_bytes],
            issued: 0,
            changes: 0,
        }
    }

    /// An operation is about to be issued; answers its number, and the bytes to write.
    pub fn issue(&mut self, extents: &[Extent], fill: Fill, atomic: bool) -> (u32, Vec<Vec<u8>>) {
        self.issued += 1;
        self.changes += 1;
        let mut parts = Vec::new();
        for extent in extents {
            let range = range_of(extent);
            parts.push(match fill {
                Fill::Own => range.map(|place| value(self.issued, place)).collect(),
                Fill::Zero => vec![0; extent.len as usize],
                Fill::Same => self.current[range].to_vec(),
            });
        }
        let bytes = parts.concat();
        let places = extents.iter().flat_map(range_of);
        let changed = places.zip(&bytes).map(|(place, byte)| self.current[place] != *byte).collect();
        let operation = Operation { extents: extents.to_vec(), bytes, changed, atomic, acknowledged: false };
        self.operations.push(operation);
        (self.operations.len() as u32, parts)
    }

    /// The operation is acknowledged, durably or not.
    pub fn acknowledge(&mut self, number: u32, durable: bool) {
        self.changes += 1;
        let operation = &mut self.operations[number as usize - 1];
        operation.acknowledged = true;
        let mut bytes = operation.bytes.as_slice();
        for extent in &operation.extents {
            let (own, rest) = bytes.split_at(extent.len as usize);
            bytes = rest;
            self.current[range_of(extent)].copy_from_slice(own);
            self.acknowledged[range_of(extent)].fill(number);
            if durable {
                self.durable[range_of(extent)].fill(number);
            }
        }
    }

    /// A flush of `extent` is about to be issued.
    pub fn begin_flush(&self, extent: Extent) -> FlushBegun {
        FlushBegun { extent, acknowledged: self.acknowledged[range_of(&extent)].to_vec() }
    }

    /// The flush is acknowledged.
    pub fn end_flush(&mut self, flush: FlushBegun) {
        self.changes += 1;
        for (durable, acknowledged) in
            self.durable[range_of(&flush.extent)].iter_mut().zip(flush.acknowledged)
        {
            *durable = (*durable).max(acknowledged);
        }
    }

    /// What a read of `extent` must find, if nobody writes there.
    pub fn expected(&self, extent: Extent) -> &[u8] {
        &self.current[range_of(&extent)]
    }

    /// Judges what the whole volume holds when it is opened after a kill: everything acknowledged, and perhaps
    /// some of what was not. Goes on from there: all of it counts as acknowledged.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn judge_kill(&mut self, found: &[u8]) -> Result<(), Violation> {
        let versions = self.match_versions(found, Floor::Acknowledged, |_| true)?;
        self.judge_atomicity(&versions)?;
        self.changes += 1;
        self.current.copy_from_slice(found);
        // Where several versions are alike, the oldest is all that is known to be there.
        self.acknowledged = versions.oldest;
        Ok(())
    }

    /// Judges what the whole volume holds when it is opened after a power cut; from now on, this is what it
    /// must hold.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn judge_power_cut(&mut self, found: &[u8]) -> Result<(), Violation> {
        self.judge(found, Floor::Durable)?;
        self.go_on_from(found);
        Ok(())
    }

    /// What is there after a power cut, all of it judged: from now on it must be there.
    pub fn go_on_from(&mut self, found: &[u8]) {
        self.changes += 1;
        self.base.copy_from_slice(found);
        self.current.copy_from_slice(found);
        self.operations.clear();
        self.acknowledged.fill(0);
        self.durable.fill(0);
    }

    /// Pages that operations since the last power cut wrote to; of them only those not acknowledged, if asked.
    pub fn pages_written(&self, only_unacknowledged: bool) -> Vec<bool> {
        let mut pages = vec![false; self.base.len().div_ceil(PAGE)];
        for operation in self.operations.iter().filter(|one| !(only_unacknowledged && one.acknowledged)) {
            for extent in operation.extents.iter().filter(|extent| extent.len > 0) {
                let range = range_of(extent);
                pages[range.start / PAGE..range.end.div_ceil(PAGE)].fill(true);
            }
        }
        pages
    }

    /// Grows with everything that it is told: two clones that were told the same have the same number.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Judges what the whole volume holds, and stays as it is.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn judge(&self, found: &[u8], floor: Floor) -> Result<(), Violation> {
        let versions = self.match_versions(found, floor, |_| true)?;
        self.judge_atomicity(&versions)
    }

    /// As [`Self::judge`], of the pages alone that `is_judged`: an operation that is one commit must be whole
    /// among them.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn judge_pages(
        &self,
        found: &[u8],
        floor: Floor,
        is_judged: impl Fn(usize) -> bool,
    ) -> Result<(), Violation> {
        let versions = self.match_versions(found, floor, is_judged)?;
        self.judge_atomicity(&versions)
    }

    fn match_versions(
        &self,
        found: &[u8],
        floor: Floor,
        is_judged: impl Fn(usize) -> bool,
    ) -> Result<Versions, Violation> {
        let nothing;
        let floor = match floor {
            Floor::Nothing => {
                nothing = vec![0; found.len()];
                &nothing
            }
            Floor::Durable => &self.durable,
            Floor::Acknowledged => &self.acknowledged,
        };
        let mut oldest = vec![u32::MAX; found.len()];
        let mut newest = vec![0; found.len()];
        let mut changed = vec![false; found.len()];
        let mut before = self.base.clone();
        for (place, &byte) in found.iter().enumerate() {
            if floor[place] == 0 && self.base[place] == byte {
                oldest[place] = 0;
            }
        }
        for (number, operation) in (1..).zip(&self.operations) {
            let mut bytes = operation.bytes.iter().zip(&operation.changed);
            for extent in &operation.extents {
                for (place, (&byte, &was_other)) in range_of(extent).zip(bytes.by_ref()) {
                    let changes = std::mem::replace(&mut before[place], byte) != byte && was_other;
                    if number >= floor[place] && byte == found[place] {
                        oldest[place] = oldest[place].min(number);
                        newest[place] = number;
                        changed[place] = changes;
                    }
                }
            }
        }
        for page in (0..found.len().div_ceil(PAGE)).filter(|&page| !is_judged(page)) {
            // Neither there nor missing.
            let places = page * PAGE..found.len().min((page + 1) * PAGE);
            oldest[places.clone()].fill(0);
            newest[places].fill(u32::MAX);
        }
        match oldest.iter().position(|&version| version == u32::MAX) {
            Some(place) => Err(self.wrong_byte(place, found, floor[place])),
            None => Ok(Versions { oldest, newest, changed }),
        }
    }

    fn wrong_byte(&self, place: usize, found: &[u8], floor: u32) -> Violation {
        let until = (place..found.len())
            .take_while(|&next| !self.versions(next, floor).any(|(_, byte)| byte == found[next]));
        let versions: Vec<_> = self.versions(place, floor).collect();
        Violation {
            what: format!(
                "{} bytes from {place} (page {}, offset {}) hold none of their versions: {:#04x} is not in \
                 {versions:02x?}, floor {floor}",
                until.count(),
                place / 4096,
                place % 4096,
                found[place],
            ),
        }
    }

    fn versions(&self, place: usize, floor: u32) -> impl Iterator<Item = (u32, u8)> {
        let base = (floor == 0).then_some((0, self.base[place]));
        let later = (1..).zip(&self.operations).filter(move |(number, _)| *number >= floor);
        base.into_iter().chain(later.filter_map(move |(number, operation)| {
            let mut before = 0;
            for extent in &operation.extents {
                if range_of(extent).contains(&place) {
                    return Some((number, operation.bytes[before + place - extent.offset as usize]));
                }
                before += extent.len as usize;
            }
            None
        }))
    }

    fn judge_atomicity(&self, versions: &Versions) -> Result<(), Violation> {
        let Versions { oldest, newest, changed } = versions;
        for (number, operation) in (1..).zip(&self.operations).filter(|(_, operation)| operation.atomic) {
            let places = || operation.extents.iter().flat_map(range_of);
            let is_there =
                |&place: &usize| oldest[place] == number && newest[place] == number && changed[place];
            let there = places().find(is_there);
            let missing = places().find(|&place| newest[place] < number);
            if let (Some(there), Some(missing)) = (there, missing) {
                return Err(Violation {
                    what: format!(
                        "operation {number} is there at byte {there} and missing at byte {missing}: {:?}",
                        operation.extents
                    ),
                });
            }
        }
        Ok(())
    }
}

fn range_of(extent: &Extent) -> std::ops::Range<usize> {
    extent.offset as usize..extent.end() as usize
}

/// What operation `number` writes at `place`.
fn value(number: u64, place: usize) -> u8 {
    let mixed = (number << 32 ^ place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Extent = Extent::new(0, 100);

    fn written(oracle: &mut Oracle, extent: Extent, durable: bool) -> Vec<u8> {
        let (number, parts) = oracle.issue(&[extent], Fill::Own, true);
        oracle.acknowledge(number, durable);
        parts.concat()
    }

    #[test]
    fn what_was_durable_must_be_there_and_what_was_not_may_be() {
        let mut oracle = Oracle::new(200);
        let old = written(&mut oracle, FIRST, true);
        let new = written(&mut oracle, FIRST, false);
        let rest = vec![0; 100];
        for good in [&old, &new] {
            assert_eq!(oracle.judge(&[&good[..], &rest].concat(), Floor::Durable), Ok(()));
        }
        assert!(oracle.judge(&[0; 200], Floor::Durable).is_err());
        // A kill takes nothing that was acknowledged.
        assert!(oracle.judge(&[&old[..], &rest].concat(), Floor::Acknowledged).is_err());
        assert!(oracle.judge_kill(&[&new[..], &rest].concat()).is_ok());
    }

    #[test]
    fn half_of_a_commit_is_seen() {
        let mut oracle = Oracle::new(200);
        let bytes = written(&mut oracle, FIRST, false);
        let torn = [&bytes[..50], &[0; 150]].concat();
        let violation = oracle.judge_power_cut(&torn).unwrap_err();
        assert!(violation.what.starts_with("operation 1 is there at byte"), "{violation:?}");
    }

    #[test]
    fn a_write_of_what_was_there_proves_nothing_though_a_kill_took_the_one_before() {
        let (mut oracle, half) = (Oracle::new(100), Extent::new(0, 50));
        oracle.issue(&[half], Fill::Own, true);
        oracle.judge_kill(&[0; 100]).unwrap();
        written(&mut oracle, Extent::new(50, 50), false);
        let (number, _) = oracle.issue(&[FIRST], Fill::Same, true);
        oracle.acknowledge(number, false);
        let flush = oracle.begin_flush(half);
        oracle.end_flush(flush);
        // Nothing had to be written where the flush was asked for, and what lies beside it was not asked for.
        assert_eq!(oracle.judge_power_cut(&[0; 100]), Ok(()));
    }

    #[test]
    fn a_flush_covers_what_was_acknowledged_before_it_began_and_only_its_range() {
        let mut oracle = Oracle::new(200);
        let first = written(&mut oracle, FIRST, false);
        let flush = oracle.begin_flush(Extent::new(0, 150));
        let later = written(&mut oracle, Extent::new(100, 100), false);
        oracle.end_flush(flush);
        assert!(oracle.judge(&[&first[..], &[0; 100]].concat(), Floor::Durable).is_ok());
        assert!(oracle.judge(&[&[0; 100], &later[..]].concat(), Floor::Durable).is_err());
    }

    /// All of a volume of 200 bytes, written by an operation that a kill met before its acknowledgement; it is served.
    fn served_after_a_kill() -> (Oracle, Vec<u8>) {
        let mut oracle = Oracle::new(200);
        let (_, parts) = oracle.issue(&[Extent::new(0, 200)], Fill::Own, true);
        let served = parts.concat();
        oracle.judge_kill(&served).unwrap();
        (oracle, served)
    }

    #[test]
    fn what_was_served_after_a_kill_cannot_be_taken_by_another() {
        let (mut oracle, served) = served_after_a_kill();
        assert_eq!(oracle.clone().judge_kill(&served), Ok(()));
        assert!(oracle.judge_kill(&[0; 200]).is_err());
    }

    #[test]
    fn what_was_served_after_a_kill_is_taken_by_a_power_cut_unless_it_was_flushed() {
        let (mut oracle, served) = served_after_a_kill();
        assert_eq!(oracle.clone().judge_power_cut(&[0; 200]), Ok(()));
        let flush = oracle.begin_flush(Extent::new(0, 200));
        oracle.end_flush(flush);
        assert_eq!(oracle.clone().judge_power_cut(&served), Ok(()));
        assert!(oracle.judge_power_cut(&[0; 200]).is_err());
    }

    #[test]
    fn of_versions_alike_a_kill_proves_the_oldest() {
        let mut oracle = Oracle::new(200);
        let old = written(&mut oracle, FIRST, false);
        oracle.issue(&[FIRST], Fill::Same, true);
        let found = [&old[..], &[0; 100]].concat();
        oracle.judge_kill(&found).unwrap();
        assert_eq!(oracle.acknowledged, [[1; 100], [0; 100]].concat());
    }

    #[test]
    fn what_a_recovery_served_cannot_be_taken_back() {
        let mut oracle = Oracle::new(200);
        let bytes = written(&mut oracle, FIRST, false);
        oracle.judge_power_cut(&[&bytes[..], &[0; 100]].concat()).unwrap();
        assert!(oracle.judge_power_cut(&[0; 200]).is_err());
    }
}
