//! What a power cut leaves of an [`Image`]: which versions of its sectors land, and which sectors are torn.

use std::collections::BTreeSet;

use super::{Image, SECTOR_BYTES_MAX};
use crate::random::Random;
use crate::trace;

/// One version that a sector may come to hold.
#[derive(Debug, Clone, Copy)]
struct Version {
    sector: u64,
    /// Index into the pending writes.
    pending: usize,
}

/// What a power cut does to one version of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It never arrived.
    Lost,
    /// It arrived whole.
    Landed,
    /// The cut met it: the sector is left between what it held and this version, in the way that the number
    /// stands for.
    Torn(u64),
}

/// What a power cut is like. An even chance for every sector alone would hardly ever show whole records
/// beside lost ones, so each cut has a character.
enum Landing {
    /// Nothing more landed.
    Nothing,
    /// The drive had just written all it held.
    Everything,
    /// Each sector version with this probability.
    Sectors(f64),
    /// Each write as a whole, with this probability.
    Writes(f64),
}

impl Landing {
    fn draw(random: &mut Random) -> Self {
        match random.below(8) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2..=4 => Self::Sectors(random.unit()),
            _ => Self::Writes(random.unit()),
        }
    }
}

impl Image {
    /// The sector versions that may still land, in order of issue, within a write by place.
    fn versions(&self) -> Vec<Version> {
        let mut versions = Vec::new();
        for (index, pending) in self.pending.iter().enumerate() {
            if !pending.abandoned {
                versions
                    .extend(self.sectors(pending.extent).map(|sector| Version { sector, pending: index }));
            }
        }
        versions
    }

    /// Sector versions that a power cut may land or lose: every subset of them is a possible outcome.
    pub fn pending_len(&self) -> usize {
        self.versions().len()
    }

    /// Of each sector version that may still land, whether it or another one of its sector is anything else than what is
    /// durable there. What becomes of the others, if they are not torn, makes no difference.
    pub fn pending_changes(&self) -> Vec<bool> {
        let versions = self.versions();
        let differs = |version: &Version| {
            let extent = self.sector_extent(version.sector);
            let (mut old, mut new) = (vec![0; extent.len as usize], vec![0; extent.len as usize]);
            self.medium.read(extent.offset, &mut old);
            self.pending[version.pending].fill(extent.offset, &mut new);
            old != new
        };
        let changing: BTreeSet<u64> =
            versions.iter().filter(|version| differs(version)).map(|version| version.sector).collect();
        versions.iter().map(|version| changing.contains(&version.sector)).collect()
    }

    /// The power fails, and the sector versions land whose bit in `mask` is set: bit i is the i-th in order
    /// of issue, a later one above an earlier one. Sectors are not torn. At most 64 may be pending.
    pub fn power_cut_subset(&mut self, mask: u64) {
        let versions = self.versions();
        assert!(versions.len() <= 64, "{} sector versions are pending, a mask tells of 64", versions.len());
        for (bit, &version) in versions.iter().enumerate() {
            if mask >> bit & 1 == 1 {
                self.land(version);
            }
        }
        self.pending.clear();
    }

    /// The power fails, and each sector version that is pending, in order of issue, has its fate; those beyond
    /// the end of `fates` are lost. Answers by what [`Self::durable_digest`] changed, to be combined by
    /// exclusive or.
    pub fn power_cut_fates(&mut self, fates: &[Fate]) -> u64 {
        let mut changed = 0;
        for (version, &fate) in self.versions().into_iter().zip(fates) {
            if fate == Fate::Lost {
                continue;
            }
            changed ^= self.sector_digest(version.sector);
            match fate {
                Fate::Torn(way) => self.tear(version, &mut Random::new(way)),
                _ => self.land(version),
            }
            changed ^= self.sector_digest(version.sector);
        }
        self.pending.clear();
        changed
    }

    /// What is durable, as one number: the exclusive or over all sectors, of which those of zeros count as 0.
    pub fn durable_digest(&self) -> u64 {
        let sectors = self.medium.written().flat_map(|extent| self.sectors(extent));
        sectors.fold(0, |digest, sector| digest ^ self.sector_digest(sector))
    }

    fn sector_digest(&self, sector: u64) -> u64 {
        let mut bytes = [0; SECTOR_BYTES_MAX];
        let bytes = &mut bytes[..self.geometry.sector_bytes as usize];
        self.medium.read(self.sector_extent(sector).offset, bytes);
        if bytes.iter().all(|&byte| byte == 0) {
            return 0;
        }
        trace::fold(trace::fold(trace::digest(bytes), sector), sector)
    }

    /// The power fails: a seeded choice of the outcomes that the geometry allows.
    pub fn power_cut(&mut self, random: &mut Random) {
        self.late.clear();
        let mut versions = self.versions();
        // Stable: within a sector they stay in order of issue.
        versions.sort_by_key(|version| version.sector);
        let landing = Landing::draw(random);
        let landed_writes = self.draw_writes(&landing, random);
        // Torn sectors are one kind of trouble; many cuts have none, so that the others show alone.
        let torn = match landing {
            Landing::Sectors(_) | Landing::Writes(_) if !self.geometry.atomic_sectors => {
                *random.pick(&[0.0, 0.05, 0.5])
            }
            _ => 0.0,
        };
        for sector in versions.chunk_by(|one, other| one.sector == other.sector) {
            // Of those that land the newest stays: that an older one does is the subset without the newer.
            let mut newest = None;
            for version in sector {
                let lands = match landing {
                    Landing::Nothing => false,
                    Landing::Everything => true,
                    Landing::Sectors(probability) => random.chance(probability),
                    Landing::Writes(_) => landed_writes[version.pending],
                };
                if lands {
                    newest = Some(*version);
                }
            }
            if let Some(newest) = newest {
                self.land(newest);
            }
            if random.chance(torn) {
                let version = *random.pick(sector);
                self.tear(version, random);
            }
        }
        self.pending.clear();
    }

    /// Which writes land, by index of the pending ones; the parts of one write share their fate.
    fn draw_writes(&self, landing: &Landing, random: &mut Random) -> Vec<bool> {
        let Landing::Writes(probability) = *landing else {
            return Vec::new();
        };
        let mut fates: Vec<bool> = Vec::with_capacity(self.pending.len());
        for (index, pending) in self.pending.iter().enumerate() {
            let fate = match index.checked_sub(1) {
                Some(before) if self.pending[before].id == pending.id => fates[before],
                _ => random.chance(probability),
            };
            fates.push(fate);
        }
        fates
    }

    fn land(&mut self, version: Version) {
        let extent = self.sector_extent(version.sector);
        let mut bytes = vec![0; extent.len as usize];
        self.pending[version.pending].fill(extent.offset, &mut bytes);
        self.medium.write(extent.offset, &bytes);
        self.unreadable.remove(&version.sector);
    }

    /// Leaves a sector between what it holds and `version`.
    fn tear(&mut self, version: Version, random: &mut Random) {
        let extent = self.sector_extent(version.sector);
        let mut old = vec![0; extent.len as usize];
        self.medium.read(extent.offset, &mut old);
        let mut new = vec![0; extent.len as usize];
        self.pending[version.pending].fill(extent.offset, &mut new);
        // A large sector is made of the classic ones; within those, the bus writes words.
        let unit_bytes = if extent.len > 512 { 512 } else { 8 };
        let units = old.len() / unit_bytes;
        let way = random.below(4);
        let torn_at = random.index(units);
        for (unit, (old, new)) in old.chunks_mut(unit_bytes).zip(new.chunks(unit_bytes)).enumerate() {
            let is_new = if way < 2 { unit < torn_at } else { random.coin() };
            if is_new {
                old.copy_from_slice(new);
            }
            // Where the write was when the power went, anything may be.
            if way % 2 == 1 && unit == torn_at {
                random.fill(old);
            }
        }
        self.medium.write(extent.offset, &old);
        self.unreadable.remove(&version.sector);
    }
}
