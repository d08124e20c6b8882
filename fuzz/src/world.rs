//! Devices in memory, volumes on them, and what must hold of a volume whose devices someone prepared.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Arena;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::layout::{
    HOME_COPIES, LOG_COPIES, Layout, SUMS_PER_TABLE_PAGE, home_copy_offset, log_copy_offset,
};
use evenkeel_engine::format::record::{Header, RecordBuilder, RecordKind, Tag};
use evenkeel_engine::format::root::RootSums;
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::unit::{
    ArenaHead, Content, HEAD_BYTES, RING_OFFSET, UnitExtent, encode_unit_head,
};
use evenkeel_engine::format::{PAGE, PAGE_BYTES, page_sum};
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions};
use evenkeel_engine::volume::{Volume, check, create};
use evenkeel_sim::executor::{Executor, SimEnv};

use crate::{Choices, put, seal_superblock};

mod salvage;

/// Bytes of a sector.
const SECTOR: usize = 512;

/// Pages of the volume.
const PAGES: u64 = 12;

/// What it is called.
const VOLUME: u64 = 7;

/// Bytes of the arena.
const ARENA_BYTES: usize = 64 << 10;

/// Steps of a task that an opening and what follows it may take: many times what they need.
const POLLS_MAX: u64 = 200_000;

/// A device in memory. It refuses what a real one refuses.
struct Memory {
    bytes: RefCell<Vec<u8>>,
    atomic_sectors: bool,
}

impl Memory {
    fn range(
        &self,
        doing: &'static str,
        offset: u64,
        len: usize,
    ) -> Result<std::ops::Range<usize>, DeviceError> {
        const EINVAL: i32 = 22;
        let extent = Extent::new(offset, len as u64);
        let is_whole = offset.is_multiple_of(SECTOR as u64) && len.is_multiple_of(SECTOR);
        if !is_whole || !extent.fits(self.geometry().size_bytes) {
            return Err(DeviceError { doing, errno: EINVAL });
        }
        Ok(offset as usize..offset as usize + len)
    }
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        let size_bytes = self.bytes.borrow().len() as u64;
        Geometry { size_bytes, sector_bytes: SECTOR as u32, atomic_sectors: self.atomic_sectors }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let range = self.range("read", offset, into.len())?;
        into.copy_from_slice(&self.bytes.borrow()[range]);
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8], _: Durability) -> Result<(), DeviceError> {
        let range = self.range("write", offset, bytes.len())?;
        self.bytes.borrow_mut()[range].copy_from_slice(bytes);
        Ok(())
    }

    async fn flush(&self, _: FlushScope<'_>) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.range("discard", extent.offset, extent.len as usize).map(drop)
    }
}

impl Drive for Memory {}

struct Memo(RefCell<Vec<u8>>);

impl Arena for Memo {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn load(&self, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset..offset + into.len()]);
    }
}

/// What lies on the devices of a volume.
#[derive(Debug, Clone)]
pub struct Images {
    home: Vec<u8>,
    log: Vec<u8>,
    /// What the next opening finds in memory.
    arena: Vec<u8>,
    separate_log: bool,
    atomic_sectors: bool,
    /// The latest epoch that anything on them speaks of.
    latest_epoch: u64,
}

/// The kinds of volumes: with a log of its own or not, on drives that keep sectors whole or not.
const KINDS: [(bool, bool); 3] = [(true, true), (false, true), (true, false)];

impl Images {
    /// A volume in use: some of it is home, some in the log alone.
    pub fn of_kind(kind: u8) -> Self {
        static ALL: [OnceLock<Images>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];
        let kind = usize::from(kind) % KINDS.len();
        ALL[kind].get_or_init(|| Self::made(KINDS[kind])).clone()
    }

    fn made((separate_log, atomic_sectors): (bool, bool)) -> Self {
        let log_bytes = if atomic_sectors { 64 << 10 } else { 832 << 10 };
        let home_bytes = Layout::home_bytes_for(PAGES, log_bytes, separate_log) as usize;
        let log = vec![0; if separate_log { log_bytes as usize + 2 * PAGE } else { 0 }];
        let home = vec![0; home_bytes];
        let mut images =
            Self { home, log, arena: vec![0; ARENA_BYTES], separate_log, atomic_sectors, latest_epoch: 0 };
        let options = CreateOptions { size_bytes: PAGES * PAGE_BYTES, log_bytes, atomic_max_bytes: 8192 };
        let (home, log) = images.devices();
        block_on(create(&*home, &*log, separate_log, options, VOLUME)).expect("it fits");
        images.take_back(&home, &log);
        images.live(async |volume| {
            let volume = volume.expect("it opens");
            volume.write(0, &[1; 5 * PAGE], Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            for page in 0..4 {
                volume.write(page * PAGE_BYTES + 100, &[2; 600], Durability::Durable).await.unwrap();
            }
            volume
                .write_zeroes(Extent::new(3 * PAGE_BYTES, 2 * PAGE_BYTES), Durability::Durable)
                .await
                .unwrap();
            volume.write(8 * PAGE_BYTES, &[3; PAGE], Durability::Durable).await.unwrap();
        });
        images.latest_epoch = images.superblock().expect("it was made").epoch;
        images
    }

    fn devices(&mut self) -> (Rc<Memory>, Rc<Memory>) {
        let atomic_sectors = self.atomic_sectors;
        let device = |bytes: &mut Vec<u8>| {
            Rc::new(Memory { bytes: RefCell::new(std::mem::take(bytes)), atomic_sectors })
        };
        let home = device(&mut self.home);
        let log = if self.separate_log { device(&mut self.log) } else { Rc::clone(&home) };
        (home, log)
    }

    fn take_back(&mut self, home: &Memory, log: &Memory) {
        self.home = home.bytes.take();
        if self.separate_log {
            self.log = log.bytes.take();
        }
    }

    /// Opens the volume, for `story`; afterwards the arena is empty.
    fn live<T>(&mut self, story: impl AsyncFnOnce(Result<MemoryVolume, Error>) -> T) -> T {
        let (home, log) = self.devices();
        let arena = Memo(RefCell::new(std::mem::replace(&mut self.arena, vec![0; ARENA_BYTES])));
        let options = OpenOptions {
            journaling: Journaling::Selective { threshold_bytes: 8192 },
            cached_pages_max: 4,
            ..OpenOptions::default()
        };
        let mut executor = Executor::new(0);
        executor.limit_polls(POLLS_MAX);
        let (env, on) = (executor.env(), (Rc::clone(&home), Rc::clone(&log)));
        let separate_log = self.separate_log;
        let ended = executor.block_on(async move {
            story(Volume::open(env, arena, on.0, on.1, separate_log, options).await).await
        });
        drop(executor);
        self.take_back(&home, &log);
        ended.unwrap_or_else(|halt| panic!("it comes to no end: {halt:?}"))
    }

    /// The superblock in force.
    fn superblock(&self) -> Option<Superblock> {
        let copies = (0..HOME_COPIES).filter_map(|copy| {
            let at = home_copy_offset(self.home.len() as u64, copy) as usize;
            Superblock::decode(&self.home[at..at + PAGE])
        });
        copies.max_by_key(|superblock| superblock.generation)
    }

    /// Where the log lies; nothing where the superblock in force, which someone may have changed, puts none there.
    fn log_zone(&mut self, superblock: &Superblock) -> &mut [u8] {
        let bytes = if self.separate_log { &mut self.log } else { &mut self.home };
        let len = usize::try_from(superblock.log_bytes).unwrap_or(usize::MAX);
        bytes[2 * PAGE..].get_mut(..len).unwrap_or_default()
    }

    /// Changes something of it: bytes, numbers of the superblock, a record of the log, or the arena.
    pub fn change(&mut self, choices: &mut Choices<'_>) {
        let change = choices.byte();
        match change % 4 {
            _ if change >= 224 => self.forge_arena(choices),
            0 => self.change_superblock(choices),
            1 => {
                let (place, number) = (choices.below(64) * 512, choices.below(8));
                self.put_record(place, number, choices);
            }
            _ => self.patch(choices),
        }
    }

    /// Puts other bytes anywhere.
    pub fn patch(&mut self, choices: &mut Choices<'_>) {
        let image =
            if choices.byte() & 1 == 0 || !self.separate_log { &mut self.home } else { &mut self.log };
        let at = choices.below(image.len() as u64) as usize;
        let len = usize::from(choices.byte());
        let bytes = choices.bytes(len);
        let len = bytes.len().min(image.len() - at);
        image[at..at + len].copy_from_slice(&bytes[..len]);
    }

    /// Puts other numbers into every copy of the superblock.
    pub fn change_superblock(&mut self, choices: &mut Choices<'_>) {
        let Some(mut superblock) = self.superblock() else { return };
        superblock.generation += 1;
        let mut page = superblock.encode();
        for _ in 0..=choices.byte() % 4 {
            put(&mut page, 8 * choices.below(18) as usize, choices.word());
        }
        seal_superblock(&mut page);
        if let Some(sealed) = Superblock::decode(&page) {
            self.latest_epoch = self.latest_epoch.max(sealed.epoch);
        }
        for copy in 0..HOME_COPIES {
            let at = home_copy_offset(self.home.len() as u64, copy) as usize;
            self.home[at..at + PAGE].copy_from_slice(&page);
        }
        for copy in (0..LOG_COPIES).filter(|_| self.separate_log) {
            let at = log_copy_offset(copy) as usize;
            self.log[at..at + PAGE].copy_from_slice(&page);
        }
    }

    /// Empties the log.
    pub fn clear_log(&mut self) {
        if let Some(superblock) = self.superblock() {
            self.log_zone(&superblock).fill(0);
        }
    }

    /// Puts a record into the log at `place`, the `number`th from the tail where it says the truth; answers where
    /// the next would be.
    pub fn put_record(&mut self, place: u64, number: u64, choices: &mut Choices<'_>) -> u64 {
        let Some(superblock) = self.superblock() else { return 0 };
        let log_bytes = self.log_zone(&superblock).len() as u64;
        if log_bytes == 0 {
            return 0;
        }
        let shape = choices.byte();
        let sequence = superblock.tail_sequence.wrapping_add(number);
        let place =
            if shape & 1 == 0 { place } else { choices.below(log_bytes) / SECTOR as u64 * SECTOR as u64 };
        let kinds = [
            RecordKind::Commit,
            RecordKind::Intent,
            RecordKind::Sums,
            RecordKind::Images,
            RecordKind::Complete,
        ];
        let header = Header {
            kind: kinds[usize::from(choices.byte()) % kinds.len()],
            epoch: if shape & 2 == 0 { superblock.epoch } else { choices.word() },
            sequence: if shape & 4 == 0 { sequence } else { choices.word() },
            acknowledged: if shape & 8 == 0 { sequence.saturating_sub(1) } else { choices.word() },
            through: if shape & 16 == 0 { sequence.saturating_sub(1) } else { choices.word() },
            tags: 0,
            payload_bytes: 0,
            len_bytes: 0,
        };
        self.latest_epoch = self.latest_epoch.max(header.epoch);
        let mut builder = RecordBuilder::default();
        builder.clear();
        let mut payload_bytes = 0;
        for _ in 0..choices.byte() % 12 {
            let tag = tag(header.kind, choices);
            builder.tag(&tag);
            payload_bytes += if header.kind == RecordKind::Images { PAGE } else { tag.payload_bytes() };
        }
        if shape & 32 != 0 {
            payload_bytes = usize::from(choices.short());
        }
        let fill = choices.byte();
        builder.payload(payload_bytes).fill(fill);
        let record = builder.seal(VOLUME, header, SECTOR);
        let room = &mut self.log_zone(&superblock)[(place % log_bytes) as usize..];
        let len = record.len().min(room.len());
        room[..len].copy_from_slice(&record[..len]);
        (place + len as u64) % log_bytes
    }

    /// Leaves an arena as of a process that was killed, with a head and units that anyone could have put there.
    pub fn forge_arena(&mut self, choices: &mut Choices<'_>) {
        let Some(superblock) = self.superblock() else { return };
        let shape = choices.byte();
        let epoch = if shape & 1 == 0 { superblock.epoch } else { choices.word() >> 32 };
        let tail_offset = if shape & 2 == 0 { u64::from(choices.byte()) * 8 } else { choices.word() };
        let first = if shape & 4 == 0 { superblock.epoch << 32 } else { choices.word() };
        let generation = if shape & 8 == 0 { 1 } else { choices.word() };
        let head = ArenaHead {
            volume: superblock.volume,
            generation,
            epoch,
            next_epoch: epoch,
            acknowledged: if shape & 16 == 0 { 0 } else { choices.word() >> 2 },
            tail_offset,
            tail_sequence: first,
        };
        let copy = (generation % 2) as usize * HEAD_BYTES;
        self.arena[copy..copy + HEAD_BYTES].copy_from_slice(&head.encode());
        let mut at = RING_OFFSET.saturating_add(usize::try_from(tail_offset).unwrap_or(ARENA_BYTES));
        for number in 0..u64::from(choices.byte() % 16) {
            let unit = unit(superblock.volume, first.wrapping_add(number), choices);
            if choices.byte() >= 224 {
                at = RING_OFFSET + choices.below((ARENA_BYTES - RING_OFFSET) as u64) as usize / 8 * 8;
            }
            if at.checked_add(unit.len()).is_none_or(|end| end > ARENA_BYTES) {
                at = RING_OFFSET;
            }
            let len = unit.len().min(ARENA_BYTES - at);
            self.arena[at..at + len].copy_from_slice(&unit[..len]);
            at += len;
        }
    }

    /// Opens the volume, reads all of it, writes and closes it. Each may fail; what must not be: a panic, no end, a
    /// byte served that the sums on the device do not vouch for, or another byte for the same question.
    ///
    /// A record of an epoch that is still to come would pass for one of the coming opening: then, and only then, what
    /// was closed may be refused as damaged.
    pub fn serve(&mut self) {
        let speaks_of_future =
            self.superblock().is_some_and(|superblock| superblock.epoch < self.latest_epoch);
        let served = self.live(async |opened| {
            let volume = opened.ok()?;
            let first = read_all(&volume).await;
            let report = check(&volume).await.ok();
            let again = read_all(&volume).await;
            assert!(first == again, "a page reads another way the second time");
            for report in report.iter().filter(|report| report.is_clean()) {
                assert!(first.iter().all(Option::is_some), "a clean volume serves every page");
                assert_eq!(report.pages_checked + report.pages_empty, first.len() as u64);
            }
            let wrote = volume.write(5, &[9; 300], Durability::Durable).await.is_ok();
            let zeroed = volume.write_zeroes(Extent::new(0, 300), Durability::Buffered).await.is_ok();
            let is_large = volume.size_bytes() >= 3 * PAGE_BYTES;
            let direct =
                is_large && volume.write(PAGE_BYTES, &[8; 2 * PAGE], Durability::Durable).await.is_ok();
            let closed = volume.close().await.is_ok();
            (wrote && zeroed && direct && closed).then_some(first)
        });
        let Some(served) = served else { return };
        self.assert_vouched_for(&served);
        let again = self.live(async |opened| match opened {
            Ok(volume) => Some(read_all(&volume).await),
            Err(Error::Unusable(_)) if speaks_of_future => None,
            Err(error) => panic!("what was closed opens: {error}"),
        });
        if let Some(again) = again {
            assert!(served[3..] == again[3..], "closing and opening changes nothing");
        }
    }

    /// The sums on the devices are those of what was served, but for the first three pages, written since.
    fn assert_vouched_for(&self, served: &[Option<Vec<u8>>]) {
        let superblock = self.superblock().expect("a closed volume has one");
        let layout = superblock.layout().expect("it was opened");
        let root_zone = layout.roots[usize::from(superblock.root_slot)];
        let root = &self.home[root_zone.offset as usize..root_zone.end() as usize];
        let root_page_sums: Vec<u64> = root.chunks_exact(PAGE).map(page_sum).collect();
        assert!(RootSums::of(&root_page_sums) == superblock.root_sums);
        for (page, served) in (0..).zip(served).skip(3) {
            let Some(served) = served else { continue };
            let table_page = page / SUMS_PER_TABLE_PAGE;
            let table_sum = word(root, table_page as usize);
            let at = layout.table_offset(table_page) as usize;
            let table = &self.home[at..at + PAGE];
            assert!(table_sum == 0 || table_sum == page_sum(table), "the root vouches for the table");
            let sum = if table_sum == 0 { 0 } else { word(table, (page % SUMS_PER_TABLE_PAGE) as usize) };
            match sum {
                0 => assert!(served.iter().all(|&byte| byte == 0), "page {page} has no contents"),
                sum => assert_eq!(page_sum(served), sum, "page {page}"),
            }
        }
    }
}

type MemoryVolume = Volume<SimEnv, Memo, Memory, Memory>;

/// Every page that is served.
async fn read_all(volume: &MemoryVolume) -> Vec<Option<Vec<u8>>> {
    let mut found = Vec::new();
    for page in 0..volume.size_bytes() / PAGE_BYTES {
        let mut bytes = vec![0xEE; PAGE];
        found.push(volume.read(page * PAGE_BYTES, &mut bytes).await.ok().map(|()| bytes));
    }
    found
}

/// A unit of the arena.
fn unit(volume: u64, sequence: u64, choices: &mut Choices<'_>) -> Vec<u8> {
    let (mut extents, mut parts) = (Vec::new(), Vec::new());
    for _ in 0..choices.byte() % 4 {
        let shape = choices.byte();
        let content = [Content::Data, Content::Zero, Content::Discard, Content::Superseded];
        let content = content[usize::from(shape) % 4];
        let offset = if shape & 16 == 0 { choices.below(PAGES * PAGE_BYTES) } else { choices.word() };
        let len = if shape & 32 == 0 { u64::from(choices.short()) } else { choices.word() };
        let len = if content == Content::Data { len % 9000 } else { len };
        if content == Content::Data {
            parts.push(vec![shape; len as usize]);
        }
        extents.push(UnitExtent { offset, len, content });
    }
    let mut bytes = Vec::new();
    encode_unit_head(volume, sequence, &extents, parts.iter().map(|part| &part[..]), &mut bytes);
    bytes.extend(parts.concat());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn tag(kind: RecordKind, choices: &mut Choices<'_>) -> Tag {
    let shape = choices.byte();
    let page = if shape & 64 == 0 { choices.below(PAGES) } else { choices.word() };
    if kind != RecordKind::Commit {
        // Some pages have the sum that the volume began with, so that a page may also be found whole.
        let sum = match choices.byte() {
            0 => 0,
            1 => page_sum(&[0; PAGE]),
            2 => page_sum(&[1; PAGE]),
            _ => choices.word(),
        };
        return if shape & 1 == 0 {
            Tag::Page { page, sum }
        } else {
            Tag::TablePage { page: page % PAGES, sum }
        };
    }
    let (offset, len) = (choices.short(), choices.short());
    let (offset, len) = if shape & 32 == 0 {
        let offset = offset % PAGE as u16;
        (offset, 1 + len % (PAGE as u16 - offset))
    } else {
        (offset, len)
    };
    let count = if shape & 16 == 0 { u32::from(len % 4) + 1 } else { u32::MAX - u32::from(len) };
    match shape % 4 {
        0 => Tag::Delta { page, offset, len },
        1 => Tag::Zero { page, offset, len },
        2 => Tag::Discard { page, count },
        _ => Tag::Units { sequence: page, count },
    }
}

fn word(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes[place * 8..][..8].try_into().expect("eight bytes"))
}

fn block_on<T>(story: impl Future<Output = T>) -> T {
    let mut executor = Executor::new(0);
    executor.limit_polls(POLLS_MAX);
    executor.block_on(story).expect("it comes to its end")
}
