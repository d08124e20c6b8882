//! What a salvage makes of devices that someone prepared: of one volume alone, or of a mirror or stripes, whose heads they
//! prepared too, and records of the log of stripes.

use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::format::layout::SizesBefore;
use evenkeel_engine::format::log_head::LogHead;
use evenkeel_engine::format::ring_head::{DurableOpening, LogPlaces, MEMBERS_MAX, Mark, RingHead};
use evenkeel_engine::format::stripe_record::{ShardRange, StripeRecord};
use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::salvage::{
    self, Available, DamageList, KnownVolume, MemoryArena, MirrorHeads, Part, Source,
};
use evenkeel_sim::executor::Executor;

use super::{Images, Memo, Memory, PAGES, POLLS_MAX, VOLUME};
use crate::{Choices, put, seal_page_head};

/// Pages that are read of a volume which may be said to be larger than its devices.
const READ_MAX: u64 = 96;

/// A device that is read, and never written.
#[derive(Clone)]
struct ReadOnly(Rc<Memory>);

impl Device for ReadOnly {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(offset, into).await
    }

    async fn write(&self, offset: u64, bytes: &[u8], _: Durability) -> Result<(), DeviceError> {
        panic!("{} bytes are written at {offset}", bytes.len());
    }

    async fn flush(&self, _: FlushScope<'_>) -> Result<(), DeviceError> {
        panic!("a device is flushed");
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        panic!("{extent:?} is discarded");
    }
}

/// Bytes of the log of stripes.
const STRIPE_LOG_BYTES: usize = 32 << 10;

/// What several members are, and where their log is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ring {
    MirrorAndDevices,
    MirrorWithLog,
    StripesAndDevices,
}

impl Images {
    /// Salvages it. What must not be: a panic, no end, a write, more memory than the devices account for, a range that is
    /// named beyond the end, or another byte for the same question. Where nothing `is_changed`, all of it is whole.
    pub fn salvage(mut self, is_changed: bool, choices: &mut Choices<'_>) {
        let shape = choices.byte();
        let ring = match shape % 4 {
            1 if self.separate_log => Some(Ring::MirrorAndDevices),
            2 if self.separate_log => Some(Ring::MirrorWithLog),
            3 if self.separate_log => Some(Ring::StripesAndDevices),
            _ => None,
        };
        let arena = (shape & 16 == 0).then(|| MemoryArena::copy_of(&Memo(self.arena.clone().into())));
        let has_log = shape & 32 == 0;
        let size_bytes = match shape & 64 {
            0 => PAGES * PAGE_BYTES,
            _ => (1 + choices.below(2000)) * PAGE_BYTES,
        };
        let (available, heads) = match ring {
            None => (self.alone(has_log, arena), MirrorHeads::default()),
            Some(Ring::StripesAndDevices) => self.striped(has_log, arena, choices),
            Some(kind) => self.mirrored(kind, has_log, arena, choices),
        };
        let known = KnownVolume {
            volume: VOLUME,
            size_bytes,
            atomic_max_bytes: 8192,
            log_bytes: (shape & 128 != 0).then_some(64 << 10),
            sizes_before: SizesBefore::default(),
            separate_log: self.separate_log,
            is_ring: ring.is_some(),
            heads,
        };
        let mut executor = Executor::new(0);
        executor.limit_polls(POLLS_MAX);
        let env = executor.env();
        let options = OpenOptions { cached_pages_max: 4, ..OpenOptions::default() };
        let is_whole = !is_changed && ring.is_none() && has_log && shape & 64 == 0;
        let ended = executor.block_on(async move {
            let told = |done: u64, all: u64| assert!(done < all);
            let salvaged = match salvage::open(env, available, &known, options, told).await {
                Ok(salvaged) => salvaged,
                Err(error) => return assert!(!is_whole, "{error}"),
            };
            let size_bytes = salvaged.size_bytes();
            let pages = (size_bytes / PAGE_BYTES).min(READ_MAX);
            let mut lost = DamageList::default();
            let mut found = vec![0; pages as usize * PAGE];
            salvaged.read(0, &mut found, &mut lost).await;
            let mut again = found.clone();
            for (offset, page) in (0..).step_by(PAGE).zip(again.chunks_mut(PAGE)) {
                salvaged.read(offset, page, &mut DamageList::default()).await;
            }
            assert!(found == again, "a page reads another way the second time");
            if let Some(last) = (size_bytes / PAGE_BYTES).checked_sub(1) {
                salvaged.read(last * PAGE_BYTES, &mut [0; PAGE], &mut lost).await;
            }
            for range in salvaged.named.ranges().iter().chain(lost.ranges()) {
                assert!(range.extent.fits(size_bytes), "{range:?} is named of {size_bytes} bytes");
            }
            let is_any_named = !salvaged.named.ranges().is_empty() || !lost.ranges().is_empty();
            assert!(!is_whole || !is_any_named, "{:?}, {:?}", salvaged.named.ranges(), lost.ranges());
        });
        ended.unwrap_or_else(|halt| panic!("it comes to no end: {halt:?}"));
    }

    /// What there is of it as a volume of one member.
    fn alone(&mut self, has_log: bool, arena: Option<MemoryArena>) -> Available<Source<ReadOnly>> {
        let (home, log) = self.devices();
        let part = |device: Rc<Memory>| Part { device: Source::Drive(ReadOnly(device)), offset: 0, place: 0 };
        let has_log = has_log && self.separate_log;
        Available {
            home: vec![part(home)],
            log: if has_log { vec![part(log)] } else { Vec::new() },
            is_log_in_parts: false,
            arena,
            causes: Vec::new(),
        }
    }

    /// The same of a mirror of two, of which the second member was changed once more.
    fn mirrored(
        &mut self,
        kind: Ring,
        has_log: bool,
        arena: Option<MemoryArena>,
        choices: &mut Choices<'_>,
    ) -> (Available<Source<ReadOnly>>, MirrorHeads) {
        let superblock = self.superblock().map_or(0, |found| found.generation);
        let region_bytes = if kind == Ring::MirrorWithLog { self.log.len() as u64 } else { 0 };
        let atomic_sectors = self.atomic_sectors;
        let device = |parts: &[&[u8]]| Source::Drive(read_only(parts, atomic_sectors));
        let (mut members, mut logs) = (Vec::new(), Vec::new());
        for place in 0..2 {
            let heads = [0, 1].map(|_| ring_head((place, 2), region_bytes, superblock, None, choices));
            let region = if kind == Ring::MirrorWithLog { &self.log[..] } else { &[] };
            let is_there = choices.byte() % 8 != 7;
            members.push(is_there.then(|| device(&[&heads.concat(), region, &self.home])));
            if kind == Ring::MirrorAndDevices {
                let heads = [0, 1].map(|_| log_head(place, choices));
                let is_there = has_log && choices.byte() % 8 != 7;
                logs.push(is_there.then(|| device(&[&heads.concat(), &self.log])));
            }
            self.patch(choices);
        }
        let told = salvage::find_mirror(VOLUME, &members, &logs, region_bytes, arena);
        super::block_on(told)
    }

    /// The same of stripes of two data shards and one parity shard, some of which were changed.
    fn striped(
        &mut self,
        has_log: bool,
        arena: Option<MemoryArena>,
        choices: &mut Choices<'_>,
    ) -> (Available<Source<ReadOnly>>, MirrorHeads) {
        let superblock = self.superblock().map_or(0, |found| found.generation);
        let (stripes, atomic_sectors) = (Stripes::new(2, 1, PAGE_BYTES).expect("sound"), self.atomic_sectors);
        let mut shards = vec![Vec::new(); stripes.members()];
        for (stripe, row) in (0..).zip(self.home.chunks(2 * PAGE)) {
            let mut data = row.to_vec();
            data.resize(2 * PAGE, 0);
            let (first, second) = data.split_at(PAGE);
            let parity: Vec<u8> = first.iter().zip(second).map(|(first, second)| first ^ second).collect();
            for (place, shard) in shards.iter_mut().enumerate() {
                shard.extend([first, second, &parity][stripes.shard_on(stripe, place).number]);
            }
        }
        let (mut members, mut logs) = (Vec::new(), Vec::new());
        for (place, shards) in (0..).zip(&mut shards) {
            let heads = [0, 1].map(|_| ring_head((place, 3), 0, superblock, Some(stripes), choices));
            for _ in 0..choices.byte() % 3 {
                let at = 8 * choices.below(shards.len() as u64 / 8) as usize;
                put(shards, at, choices.word());
            }
            let is_there = choices.byte() % 8 != 7;
            members.push(is_there.then(|| read_only(&[&heads.concat(), shards], atomic_sectors)));
        }
        for place in 0..2 {
            let heads = [0, 1].map(|_| log_head(place, choices));
            let mut records = Vec::new();
            for _ in 0..choices.byte() % 4 {
                records.extend(stripe_record(records.len() as u64, &stripes, choices));
            }
            records.resize(STRIPE_LOG_BYTES, 0);
            let is_there = has_log && choices.byte() % 8 != 7;
            logs.push(is_there.then(|| read_only(&[&heads.concat(), &self.log, &records], atomic_sectors)));
        }
        let zone = Extent::new(self.log.len() as u64, STRIPE_LOG_BYTES as u64);
        super::block_on(salvage::find_striped(VOLUME, stripes, zone, &members, &logs, arena))
    }
}

/// A device that holds these, one behind the other.
fn read_only(parts: &[&[u8]], atomic_sectors: bool) -> ReadOnly {
    ReadOnly(Rc::new(Memory { bytes: parts.concat().into(), atomic_sectors }))
}

/// A record of the log of stripes, with some numbers of it changed.
fn stripe_record(offset: u64, stripes: &Stripes, choices: &mut Choices<'_>) -> Vec<u8> {
    let sequence = 1 + u64::from(choices.byte());
    let number = choices.below(stripes.members() as u64) as usize;
    let record = StripeRecord {
        volume: VOLUME,
        sequence,
        floor: 1 + choices.below(sequence),
        settled: Mark { epoch: 1, through: 9 },
        region_bytes: STRIPE_LOG_BYTES as u64,
        offset: Some(offset),
        stripe: choices.below(8),
        ranges: vec![ShardRange { number, within: 0, len: PAGE_BYTES }],
        body_sum: 0,
        escaped: Vec::new(),
    };
    let encoded = record.encode(&[choices.byte(); PAGE]);
    let (head, body) = encoded.split_at(PAGE);
    [&changed(head.to_vec(), 16, b"evenstrp", choices), body].concat()
}

/// The head of a member, with some numbers of it changed.
fn ring_head(
    (place, places): (u16, u16),
    log_bytes: u64,
    superblock: u64,
    stripes: Option<Stripes>,
    choices: &mut Choices<'_>,
) -> Vec<u8> {
    let head = RingHead {
        volume: VOLUME,
        generation: u64::from(choices.byte()),
        place,
        places,
        size_bytes: PAGES * PAGE_BYTES,
        mark: Mark { epoch: 1, through: 9 },
        log_losses: 1,
        log_bytes,
        log_places: LogPlaces { version: 1, needed: 0, empty_on: 0b11, emptied: 1 },
        is_in_log: log_bytes > 0,
        opening: 1,
        begun: DurableOpening { opening: 1, version: 1, told: [1; MEMBERS_MAX] },
        superblock,
        stripes,
    };
    changed(head.encode().to_vec(), 21 + MEMBERS_MAX as u64, b"evenring", choices)
}

/// The head of a log device.
fn log_head(place: u16, choices: &mut Choices<'_>) -> Vec<u8> {
    let generation = u64::from(choices.byte());
    let head = LogHead { volume: VOLUME, generation, place, places: 2, losses: 1 };
    changed(head.encode().to_vec(), 8, b"evenklog", choices)
}

fn changed(mut page: Vec<u8>, words: u64, magic: &[u8; 8], choices: &mut Choices<'_>) -> Vec<u8> {
    for _ in 0..choices.byte() % 4 {
        put(&mut page, 8 * (3 + choices.below(words - 3)) as usize, choices.word());
    }
    seal_page_head(&mut page, magic);
    page
}
