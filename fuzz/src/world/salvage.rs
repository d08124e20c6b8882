//! What a salvage makes of devices that someone prepared: of one volume alone, or of a mirror, whose heads they prepared too.

use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::format::layout::SizesBefore;
use evenkeel_engine::format::log_head::LogHead;
use evenkeel_engine::format::ring_head::{DurableOpening, LogPlaces, MEMBERS_MAX, Mark, RingHead};
use evenkeel_engine::format::{PAGE, PAGE_BYTES};
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::salvage::{self, Available, DamageList, KnownVolume, MemoryArena, MirrorHeads, Part};
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

/// How a mirror keeps its log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mirror {
    OnDevices,
    OnMembers,
}

impl Images {
    /// Salvages it. What must not be: a panic, no end, a write, more memory than the devices account for, a range that is
    /// named beyond the end, or another byte for the same question. Where nothing `is_changed`, all of it is whole.
    pub fn salvage(mut self, is_changed: bool, choices: &mut Choices<'_>) {
        let shape = choices.byte();
        let mirror = match shape % 4 {
            1 if self.separate_log => Some(Mirror::OnDevices),
            2 if self.separate_log => Some(Mirror::OnMembers),
            _ => None,
        };
        let arena = (shape & 16 == 0).then(|| MemoryArena::copy_of(&Memo(self.arena.clone().into())));
        let has_log = shape & 32 == 0;
        let size_bytes = match shape & 64 {
            0 => PAGES * PAGE_BYTES,
            _ => (1 + choices.below(2000)) * PAGE_BYTES,
        };
        let (available, heads) = match mirror {
            None => (self.alone(has_log, arena), MirrorHeads::default()),
            Some(kind) => self.mirrored(kind, has_log, arena, choices),
        };
        let known = KnownVolume {
            volume: VOLUME,
            size_bytes,
            atomic_max_bytes: 8192,
            log_bytes: (shape & 128 != 0).then_some(64 << 10),
            sizes_before: SizesBefore::default(),
            separate_log: self.separate_log,
            is_ring: mirror.is_some(),
            heads,
        };
        let mut executor = Executor::new(0);
        executor.limit_polls(POLLS_MAX);
        let env = executor.env();
        let options = OpenOptions { cached_pages_max: 4, ..OpenOptions::default() };
        let is_whole = !is_changed && mirror.is_none() && has_log && shape & 64 == 0;
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
    fn alone(&mut self, has_log: bool, arena: Option<MemoryArena>) -> Available<ReadOnly> {
        let (home, log) = self.devices();
        let part = |device: Rc<Memory>| Part { device: ReadOnly(device), offset: 0, place: 0 };
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
        kind: Mirror,
        has_log: bool,
        arena: Option<MemoryArena>,
        choices: &mut Choices<'_>,
    ) -> (Available<ReadOnly>, MirrorHeads) {
        let superblock = self.superblock().map_or(0, |found| found.generation);
        let region_bytes = match kind {
            Mirror::OnDevices => 0,
            Mirror::OnMembers => self.log.len() as u64,
        };
        let atomic_sectors = self.atomic_sectors;
        let device =
            |parts: &[&[u8]]| ReadOnly(Rc::new(Memory { bytes: parts.concat().into(), atomic_sectors }));
        let (mut members, mut logs) = (Vec::new(), Vec::new());
        for place in 0..2 {
            let heads = [0, 1].map(|_| ring_head(place, region_bytes, superblock, choices));
            let region = if kind == Mirror::OnMembers { &self.log[..] } else { &[] };
            let is_there = choices.byte() % 8 != 7;
            members.push(is_there.then(|| device(&[&heads.concat(), region, &self.home])));
            if kind == Mirror::OnDevices {
                let heads = [0, 1].map(|_| log_head(place, choices));
                let is_there = has_log && choices.byte() % 8 != 7;
                logs.push(is_there.then(|| device(&[&heads.concat(), &self.log])));
            }
            self.patch(choices);
        }
        let told = salvage::find_mirror(VOLUME, &members, &logs, region_bytes, arena);
        super::block_on(told)
    }
}

/// The head of a member, with some numbers of it changed.
fn ring_head(place: u16, log_bytes: u64, superblock: u64, choices: &mut Choices<'_>) -> Vec<u8> {
    let head = RingHead {
        volume: VOLUME,
        generation: u64::from(choices.byte()),
        place,
        places: 2,
        size_bytes: PAGES * PAGE_BYTES,
        mark: Mark { epoch: 1, through: 9 },
        log_losses: 1,
        log_bytes,
        log_places: LogPlaces { version: 1, needed: 0, empty_on: 0b11, emptied: 1 },
        is_in_log: log_bytes > 0,
        opening: 1,
        begun: DurableOpening { opening: 1, version: 1, told: [1; MEMBERS_MAX] },
        superblock,
        stripes: None,
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
