//! A drive that is never cut, against plain memory.

use crate::common::{ATOMIC, SECTOR, marked, run_drive, sectors, seeded};
use evenkeel_engine::device::{Device, Durability, FlushScope};
use evenkeel_sim::image::Image;
use evenkeel_sim::random::Random;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Read { first: u64, count: u64 },
    Write { first: u64, count: u64, mark: u8, durability: Durability },
    Flush,
    FlushRanges(Vec<(u64, u64)>),
    Discard { first: u64, count: u64 },
}

const SECTORS: u64 = ATOMIC.size_bytes / SECTOR;

fn range() -> impl Strategy<Value = (u64, u64)> {
    (0..SECTORS, 1..12_u64).prop_map(|(first, count)| (first, count.min(SECTORS - first)))
}

fn step() -> impl Strategy<Value = Step> {
    let durability = prop_oneof![3 => Just(Durability::Buffered), 1 => Just(Durability::Durable)];
    prop_oneof![
        3 => range().prop_map(|(first, count)| Step::Read { first, count }),
        6 => (range(), any::<u8>(), durability).prop_map(|((first, count), mark, durability)| {
            Step::Write { first, count, mark, durability }
        }),
        1 => Just(Step::Flush),
        2 => prop::collection::vec(range(), 0..3).prop_map(Step::FlushRanges),
        1 => range().prop_map(|(first, count)| Step::Discard { first, count }),
    ]
}

/// What a sector may hold.
#[derive(Debug, Clone, Default)]
struct Sector {
    /// What a read finds; `None` after a discard.
    visible: Option<u8>,
    /// The number of the write that a read finds.
    newest: usize,
    /// What a power cut may leave; `None` if anything.
    possible: Option<Vec<u8>>,
}

/// A write or discard that no flush covered.
#[derive(Debug, Clone)]
struct Unflushed {
    number: usize,
    first: u64,
    count: u64,
    mark: Option<u8>,
}

/// The same drive in the plainest way: all writes, and for each sector the number of the newest durable one.
struct Model {
    sectors: Vec<Sector>,
    durable: Vec<(usize, Option<u8>)>,
    unflushed: Vec<Unflushed>,
    writes: usize,
}

impl Model {
    fn new() -> Self {
        let sector = Sector { visible: Some(0), newest: 0, possible: None };
        let count = SECTORS as usize;
        Self {
            sectors: vec![sector; count],
            durable: vec![(0, Some(0)); count],
            unflushed: vec![],
            writes: 0,
        }
    }

    fn write(&mut self, first: u64, count: u64, mark: Option<u8>, durable: bool) {
        self.writes += 1;
        let write = Unflushed { number: self.writes, first, count, mark };
        for sector in first..first + count {
            let sector = &mut self.sectors[sector as usize];
            sector.visible = mark;
            sector.newest = self.writes;
        }
        if durable {
            self.harden(&write);
        } else {
            self.unflushed.push(write);
        }
    }

    fn harden(&mut self, write: &Unflushed) {
        for sector in write.first..write.first + write.count {
            let durable = &mut self.durable[sector as usize];
            if durable.0 < write.number {
                *durable = (write.number, write.mark);
            }
        }
    }

    fn flush(&mut self, covers: impl Fn(&Unflushed) -> bool) {
        let (covered, left) = std::mem::take(&mut self.unflushed).into_iter().partition(covers);
        let covered: Vec<Unflushed> = covered;
        self.unflushed = left;
        for write in &covered {
            self.harden(write);
        }
    }

    /// Fills in what a power cut may leave.
    fn settle(&mut self) {
        for (number, sector) in self.sectors.iter_mut().enumerate() {
            let (durable_number, durable_mark) = self.durable[number];
            let newer = self.unflushed.iter().filter(|write| {
                (write.first..write.first + write.count).contains(&(number as u64))
                    && write.number > durable_number
            });
            let marks = newer.map(|write| write.mark).chain([durable_mark]);
            sector.possible = marks.collect();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_drive_without_cuts_is_plain_memory_and_a_cut_leaves_only_what_it_may(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let image = Image::shared(ATOMIC);
        let mut model = Model::new();
        let model_of_run = &mut model;
        run_drive(&image, seeded(seed), None, async move |_, drive| {
            let model = model_of_run;
            for step in steps {
                match step {
                    Step::Read { first, count } => {
                        let mut bytes = marked(0xEE, count);
                        drive.read(first * SECTOR, &mut bytes).await.unwrap();
                        for (sector, bytes) in (first..).zip(bytes.chunks(SECTOR as usize)) {
                            if let Some(mark) = model.sectors[sector as usize].visible {
                                assert_eq!(bytes, marked(mark, 1), "sector {sector}");
                            }
                        }
                    }
                    Step::Write { first, count, mark, durability } => {
                        drive.write(first * SECTOR, &marked(mark, count), durability).await.unwrap();
                        model.write(first, count, Some(mark), durability == Durability::Durable);
                    }
                    Step::Flush => {
                        drive.flush(FlushScope::Whole).await.unwrap();
                        model.flush(|_| true);
                    }
                    Step::FlushRanges(ranges) => {
                        let extent = |&(first, count): &(u64, u64)| sectors(first, count);
                        let ranges: Vec<_> = ranges.iter().map(extent).collect();
                        drive.flush(FlushScope::Ranges(&ranges)).await.unwrap();
                        // A discard may have kept the old bytes and then is no write to the drive, so the
                        // model, which cannot tell, lets the sector hold anything either way.
                        model.flush(|write| {
                            ranges.iter().any(|range| range.overlaps(&sectors(write.first, write.count)))
                        });
                    }
                    Step::Discard { first, count } => {
                        drive.discard(sectors(first, count)).await.unwrap();
                        model.write(first, count, None, false);
                    }
                }
            }
        })
        .0
        .unwrap();
        model.settle();
        image.borrow_mut().power_cut(&mut Random::new(seed));
        for (number, sector) in (0..).zip(&model.sectors) {
            let mut bytes = marked(0, 1);
            image.borrow().read(number * SECTOR, &mut bytes);
            if let Some(possible) = &sector.possible {
                assert!(
                    possible.iter().any(|&mark| bytes == marked(mark, 1)),
                    "sector {number} holds {} and may hold {possible:?}", bytes[0]
                );
            }
        }
    }
}
