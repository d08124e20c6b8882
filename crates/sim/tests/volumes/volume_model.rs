//! A volume against plain memory: whatever is done to it, and however its process ends, it reads as memory
//! would.

use crate::machine::{self, Machine, PAGE, Plan, Run, SimVolume};
use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::error::Error;
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions, Tuning};
use evenkeel_engine::volume::check;
use evenkeel_sim::random::Random;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// How the step that ends a run ends it.
#[derive(Debug, Clone, Copy)]
enum End {
    Close,
    Kill,
    FlushAndPowerCut,
}

/// Places are fractions of the volume, so that they fit every size.
#[derive(Debug, Clone)]
enum Step {
    Write { range: Range, content: Content, durability: Durability },
    Read(Range),
    FlushRanges(Vec<Range>),
    FlushWhole,
    Commit(Vec<(Range, Content)>),
    WriteZeroes { range: Range, durability: Durability },
    Checkpoint,
    Check,
    Reopen(End),
}

#[derive(Debug, Clone, Copy)]
struct Range {
    place: u32,
    len: u64,
    aligned: bool,
}

/// What is written: noise, one byte throughout, or what is there with a few bytes changed.
#[derive(Debug, Clone, Copy)]
enum Content {
    Noise(u64),
    Same(u8),
    Changed(u64),
}

impl Range {
    fn extent(self, size_bytes: u64) -> Extent {
        let offset = (u64::from(self.place) * size_bytes) >> 32;
        let (offset, len) = match self.aligned {
            true => (offset / PAGE * PAGE, self.len.next_multiple_of(PAGE)),
            false => (offset, self.len),
        };
        Extent::new(offset, len.min(size_bytes - offset))
    }
}

impl Content {
    fn over(self, old: &[u8]) -> Vec<u8> {
        let mut bytes = old.to_vec();
        match self {
            Self::Noise(seed) => Random::new(seed).fill(&mut bytes),
            Self::Same(byte) => bytes.fill(byte),
            Self::Changed(seed) => {
                let mut random = Random::new(seed);
                for _ in 0..random.below(4).min(bytes.len() as u64) {
                    let at = random.index(bytes.len());
                    bytes[at] ^= 0x55;
                }
            }
        }
        bytes
    }
}

fn range() -> impl Strategy<Value = Range> {
    let len = prop_oneof![
        1 => Just(0),
        4 => 1..700_u64,
        4 => 1..9000_u64,
        2 => 9000..20_000_u64,
        1 => 20_000..120_000_u64,
    ];
    let aligned = prop_oneof![2 => Just(false), 1 => Just(true)];
    (any::<u32>(), len, aligned).prop_map(|(place, len, aligned)| Range { place, len, aligned })
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        4 => any::<u64>().prop_map(Content::Noise),
        1 => any::<u8>().prop_map(Content::Same),
        2 => any::<u64>().prop_map(Content::Changed),
    ]
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![3 => Just(Durability::Buffered), 1 => Just(Durability::Durable)]
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![Just(End::Close), Just(End::Kill), Just(End::FlushAndPowerCut)];
    prop_oneof![
        12 => (range(), content(), durability())
            .prop_map(|(range, content, durability)| Step::Write { range, content, durability }),
        3 => range().prop_map(Step::Read),
        3 => prop::collection::vec(range(), 0..4).prop_map(Step::FlushRanges),
        1 => Just(Step::FlushWhole),
        3 => prop::collection::vec((range(), content()), 0..5).prop_map(Step::Commit),
        2 => (range(), durability()).prop_map(|(range, durability)| Step::WriteZeroes { range, durability }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Check),
        3 => end.prop_map(Step::Reopen),
    ]
}

/// Large enough for the records of any plan's log.
const SMALL_PORTIONS: Tuning = Tuning {
    small_max_bytes: 1000,
    rescanned_max: 1,
    crowded_min: 2,
    turn_pages_max: 1,
    announced_max_bytes: 40_000,
    home_write_pages_max: 2,
    discard_pages_max: 2,
    homecoming_pages_min: 1,
    shared_bulk_max_bytes: 4096,
    shared_home_max_bytes: 4096,
    bulk_min_bytes: 0,
    kept_pages_max: 1,
    system_keeps_long_reads: false,
    table_pages_max: Some(1),
};

fn plan() -> impl Strategy<Value = Plan> {
    let atomic_max = prop_oneof![Just(4096_u64), Just(8192), Just(16384)];
    let drives = (any::<bool>(), prop_oneof![2 => Just(512_u32), 1 => Just(4096)], any::<bool>());
    let cache = (0..7_u32).prop_map(|power| 1_usize << power);
    let commits = ((0..5_u32).prop_map(|power| 4096_usize << power), 1..4_usize, any::<bool>());
    (drives, 24..84_u64, 0..160_u64, atomic_max, 0..5, cache, commits, 0..10_usize).prop_map(
        |(drives, pages, log_kib, atomic_max_bytes, journaling, cached_pages_max, commits, arena)| {
            let (separate_log, sector_bytes, atomic_sectors) = drives;
            let (batch_max_bytes, commits_in_flight_max, is_in_small_portions) = commits;
            let journaling = match journaling {
                0 | 1 => Journaling::Wasteless,
                2 => Journaling::Selective { threshold_bytes: atomic_max_bytes },
                3 => Journaling::WholePages,
                _ => Journaling::Ordered,
            };
            let log_min = if atomic_sectors { 96 << 10 } else { 1 << 20 };
            let log_bytes = log_min + (log_kib << 10);
            Plan {
                sector_bytes,
                atomic_sectors,
                create: CreateOptions { size_bytes: pages * PAGE, log_bytes, atomic_max_bytes },
                open: OpenOptions {
                    journaling,
                    batch_max_bytes,
                    commits_in_flight_max,
                    home_writes_max: 1 + commits_in_flight_max,
                    cached_pages_max,
                    dirty_pages_max: 16_384,
                    tuning: if is_in_small_portions { SMALL_PORTIONS } else { Tuning::default() },
                },
                arena_bytes: (80 << 10) + (arena << 13),
                ..Plan::of_pages(pages).with_separate_log(separate_log)
            }
        },
    )
}

/// A volume beside what it should hold.
struct Model {
    bytes: Vec<u8>,
    /// Whether all of it is read after each step, or only what the step touched: that leaves more out of memory.
    reads_all: bool,
}

impl Model {
    fn part(&self, extent: Extent) -> &[u8] {
        &self.bytes[extent.offset as usize..extent.end() as usize]
    }

    fn set(&mut self, extent: Extent, bytes: &[u8]) {
        self.bytes[extent.offset as usize..extent.end() as usize].copy_from_slice(bytes);
    }

    fn extent(&self, range: Range) -> Extent {
        range.extent(self.bytes.len() as u64)
    }

    async fn compare(&self, volume: &SimVolume, extent: Extent, after: &str) -> Result<(), TestCaseError> {
        let mut found = vec![0xEE; extent.len as usize];
        done(volume.read(extent.offset, &mut found).await)?;
        let differs = found.iter().zip(self.part(extent)).position(|(found, expected)| found != expected);
        if let Some(at) = differs {
            let (place, byte, expected) = (extent.offset + at as u64, found[at], self.part(extent)[at]);
            let why = format!("byte {place} is {byte} and not {expected} after {after}");
            return Err(TestCaseError::fail(why));
        }
        Ok(())
    }

    /// Does `step` to both; answers what it touched.
    async fn take(&mut self, volume: &SimVolume, step: &Step) -> Result<Extent, TestCaseError> {
        match step {
            Step::Write { range, content, durability } => {
                let extent = self.extent(*range);
                let bytes = content.over(self.part(extent));
                done(volume.write(extent.offset, &bytes, *durability).await)?;
                self.set(extent, &bytes);
                return Ok(extent);
            }
            Step::Read(range) => return Ok(self.extent(*range)),
            Step::FlushRanges(ranges) => {
                let extents: Vec<Extent> = ranges.iter().map(|&range| self.extent(range)).collect();
                done(volume.flush(FlushScope::Ranges(&extents)).await)?;
            }
            Step::FlushWhole => done(volume.flush(FlushScope::Whole).await)?,
            Step::Commit(parts) => return self.commit(volume, parts).await,
            Step::WriteZeroes { range, durability } => {
                let extent = self.extent(*range);
                done(volume.write_zeroes(extent, *durability).await)?;
                self.set(extent, &vec![0; extent.len as usize]);
                return Ok(extent);
            }
            Step::Checkpoint => done(volume.checkpoint().await)?,
            Step::Check => {
                let report = done(check(volume).await)?;
                prop_assert!(report.is_clean(), "{:?}", report);
                let pages = report.pages_checked + report.pages_empty;
                prop_assert_eq!(pages * PAGE, self.bytes.len() as u64);
            }
            Step::Reopen(End::FlushAndPowerCut) => done(volume.flush(FlushScope::Whole).await)?,
            Step::Reopen(End::Close) => done(volume.clone().close().await)?,
            Step::Reopen(End::Kill) => {}
        }
        Ok(Extent::new(0, 0))
    }

    async fn commit(
        &mut self,
        volume: &SimVolume,
        parts: &[(Range, Content)],
    ) -> Result<Extent, TestCaseError> {
        // What a commit of ranges that overlap leaves is told by `promises.rs`: here the later ones are left out.
        let mut extents: Vec<Extent> = Vec::new();
        let mut bytes = Vec::new();
        for &(range, content) in parts {
            let extent = self.extent(range);
            if extents.iter().all(|other| !other.overlaps(&extent)) {
                bytes.push(content.over(self.part(extent)));
                extents.push(extent);
            }
        }
        let ranges: Vec<(u64, &[u8])> =
            extents.iter().zip(&bytes).map(|(extent, bytes)| (extent.offset, &bytes[..])).collect();
        let filled = ranges.iter().filter(|(_, bytes)| !bytes.is_empty());
        let needed: u64 = filled.map(|(_, bytes)| bytes.len() as u64 + 64).sum();
        let committed = volume.commit(&ranges).await;
        if needed > volume.commit_max_bytes() {
            prop_assert_eq!(committed, Err(Error::TooLarge { max_bytes: volume.commit_max_bytes() }));
            return Ok(Extent::new(0, 0));
        }
        done(committed)?;
        for (extent, bytes) in extents.iter().zip(&bytes) {
            self.set(*extent, bytes);
        }
        for &extent in &extents {
            self.compare(volume, extent, "a commit").await?;
        }
        Ok(Extent::new(0, 0))
    }

    /// One run: steps up to the one that ends it. Answers how many were taken, and the end.
    async fn run(&mut self, run: Run, steps: &[Step]) -> Result<(usize, End), TestCaseError> {
        let volume = done(run.open().await)?;
        let all = Extent::new(0, self.bytes.len() as u64);
        if self.reads_all {
            self.compare(&volume, all, "opening").await?;
        }
        for (number, step) in steps.iter().enumerate() {
            let touched = self.take(&volume, step).await?;
            if let Step::Reopen(end) = step {
                return Ok((number + 1, *end));
            }
            let compared = if self.reads_all { all } else { touched };
            self.compare(&volume, compared, &format!("{step:?}")).await?;
        }
        self.compare(&volume, all, "everything").await?;
        Ok((steps.len(), End::Kill))
    }
}

fn done<T>(result: Result<T, Error>) -> Result<T, TestCaseError> {
    result.map_err(|error| TestCaseError::fail(error.to_string()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_reads_as_memory_does_across_closes_kills_and_power_cuts(
        plan in plan(),
        steps in prop::collection::vec(step(), 1..50),
        reads_all in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut machine = Machine::new(plan, seed);
        let mut model = Model { bytes: vec![0; plan.create.size_bytes as usize], reads_all };
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let (ended, _) = machine.run(machine::WHOLE_RUN, |run| model.run(run, rest));
            let (taken, end) = ended.map_err(|halt| TestCaseError::fail(halt.to_string()))??;
            rest = &rest[taken..];
            match end {
                End::Kill => machine.kill(),
                End::Close | End::FlushAndPowerCut => machine.power_cut(),
            }
        }
        let found = machine.contents();
        prop_assert!(found == model.bytes, "the last opening found other bytes");
    }
}
