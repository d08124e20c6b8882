//! The buffer against plain memory: whatever is written, asked for and committed in whatever order, and with kills in
//! between.

use proptest::prelude::*;

use super::ring::tests::{Memory, memory, opening};
use super::*;

const PAGES: u64 = 4;
const BYTES: usize = (PAGES * PAGE_BYTES) as usize;

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(u64, u64)>),
    Want((u64, u64)),
    WantOldest(usize),
    TakeBatch {
        bytes: usize,
        bulk_bytes: usize,
        pages: usize,
    },
    Complete,
    WriteHome(u64),
    /// With openings in between that were killed too, each before or after its superblock was written.
    Kill(Vec<bool>),
}

fn range(len: impl Strategy<Value = u64>) -> impl Strategy<Value = (u64, u64)> {
    let offset = prop_oneof![3 => 0..PAGE_BYTES, 1 => 0..BYTES as u64];
    (offset, len).prop_map(|(offset, len)| (offset, len.min(BYTES as u64 - offset)))
}

fn step() -> impl Strategy<Value = Step> {
    let len = || prop_oneof![8 => 1..40u64, 2 => 1..900u64, 1 => 1..9000u64];
    let whole = (0..PAGES, 0..=PAGES).prop_map(|(page, pages)| {
        (page * PAGE_BYTES, (page + pages).min(PAGES) * PAGE_BYTES - page * PAGE_BYTES)
    });
    let batch = (1..6000usize, prop_oneof![Just(0), 1..6000usize], 1..5usize);
    prop_oneof![
        30 => range(len()).prop_map(|range| Step::Write(vec![range])),
        2 => prop::collection::vec(range(len()), 2..4).prop_map(Step::Write),
        2 => range(len()).prop_map(Step::Want),
        2 => whole.prop_map(Step::Want),
        1 => (0..4000usize).prop_map(Step::WantOldest),
        2 => batch.prop_map(|(bytes, bulk_bytes, pages)| Step::TakeBatch { bytes, bulk_bytes, pages }),
        2 => Just(Step::Complete),
        1 => (0..PAGES).prop_map(Step::WriteHome),
        1 => prop::collection::vec(any::<bool>(), 0..3).prop_map(Step::Kill),
    ]
}

/// The buffer, the commits that it was taken into, and what must come of them. Each write fills its bytes with its
/// number, so that of two bytes in one place the greater is the newer.
struct Life {
    buffer: Buffer<Memory>,
    arena: Memory,
    /// The opening that the superblock names.
    epoch: u64,
    /// What a read shows.
    newest: Vec<u8>,
    /// What the durable commits left.
    committed: Vec<u8>,
    /// What was asked for, with the tickets that came for it and what it then held.
    wanted: Vec<(Extent, Tickets, Vec<u8>)>,
    under_way: VecDeque<(Batch, Vec<u8>)>,
    writes: u8,
}

impl Life {
    fn new() -> Self {
        let arena = memory(64 << 10);
        let mut buffer =
            Self::tuned(Buffer::open(arena.clone(), opening(7, 1, 2), |_| false, |_| true).unwrap().0);
        buffer.begin_epoch();
        let zeros = || vec![0; BYTES];
        let (newest, committed) = (zeros(), zeros());
        let (wanted, under_way) = (Vec::new(), VecDeque::new());
        Self { buffer, arena, epoch: 2, newest, committed, wanted, under_way, writes: 0 }
    }

    /// Portions so small that a few writes are more than one.
    fn tuned(mut buffer: Buffer<Memory>) -> Buffer<Memory> {
        buffer.tune(Tuning { rescanned_max: 3, crowded_min: 3, small_max_bytes: 200, ..Tuning::default() });
        buffer
    }

    fn write(&mut self, ranges: &[(u64, u64)]) {
        let Some(number) = self.writes.checked_add(1) else { return };
        self.writes = number;
        let data = |&(offset, len): &(u64, u64)| UnitExtent { offset, len, content: Content::Data };
        let extents: Vec<UnitExtent> = ranges.iter().map(data).collect();
        let bytes: Vec<Vec<u8>> = ranges.iter().map(|&(_, len)| vec![number; len as usize]).collect();
        let parts: Vec<&[u8]> = bytes.iter().map(|part| &part[..]).collect();
        if self.buffer.write(&extents, &parts, parts.concat().len()).is_some() {
            for &(offset, len) in ranges {
                self.newest[offset as usize..][..len as usize].fill(number);
            }
        }
    }

    fn want(&mut self, (offset, len): (u64, u64)) {
        let extent = Extent::new(offset, len);
        let tickets = self.buffer.want(&[extent]);
        self.wanted.push((extent, tickets, self.newest[offset as usize..][..len as usize].to_vec()));
    }

    fn take_batch(&mut self, most: BatchMax) {
        let mut batch = Batch::default();
        self.buffer.take_batch(most, &mut batch);
        let mut payload = vec![0; batch.payload_bytes];
        self.buffer.fill_payload(&batch, &mut payload);
        self.under_way.push_back((batch, payload));
    }

    fn complete(&mut self) {
        let Some((batch, payload)) = self.under_way.pop_front() else { return };
        self.commit(&batch.tags, &payload);
        self.buffer.complete(&batch);
    }

    fn commit_all(&mut self) {
        while self.buffer.has_queued(true) {
            self.take_batch(BatchMax { bytes: 5000, bulk_bytes: 5000, pages: 3 });
        }
        while !self.under_way.is_empty() {
            self.complete();
        }
    }

    fn commit(&mut self, tags: &[Tag], mut payload: &[u8]) {
        for tag in tags {
            let Tag::Delta { page, offset, len } = *tag else { continue };
            let (bytes, rest) = payload.split_at(len.into());
            self.committed[page as usize * PAGE_BYTES as usize + usize::from(offset)..][..len.into()]
                .copy_from_slice(bytes);
            payload = rest;
        }
    }

    /// As a direct write does: what is there is made durable, and then what is newer is written beside the log.
    fn write_home(&mut self, page: u64) {
        let Some(number) = self.writes.checked_add(1) else { return };
        let extent = Extent::new(page * PAGE_BYTES, PAGE_BYTES);
        self.want((extent.offset, extent.len));
        self.commit_all();
        if self.buffer.supersede(&extent).is_some() {
            self.writes = number;
            for bytes in [&mut self.newest, &mut self.committed] {
                bytes[extent.offset as usize..extent.end() as usize].fill(number);
            }
        }
    }

    /// What is under way was not yet marked in the arena; how much of it is durable, the log says.
    fn kill(&mut self, durable: usize, openings: &[bool]) {
        let mut in_log = Vec::new();
        for (batch, payload) in std::mem::take(&mut self.under_way).into_iter().take(durable) {
            self.commit(&batch.tags, &payload);
            for tag in batch.tags {
                if let Tag::Units { sequence, count } = tag {
                    in_log.extend(sequence..sequence + u64::from(count));
                }
            }
        }
        let is_durable = |sequence| in_log.contains(&sequence);
        for &is_named in openings.iter().chain(&[true]) {
            let arena = self.arena.clone();
            let opened = Buffer::open(arena, opening(7, self.epoch, self.epoch + 1), is_durable, |_| true);
            let (mut buffer, _, durable) = opened.unwrap();
            buffer.leave_to_log(&durable);
            self.buffer = Self::tuned(buffer);
            self.epoch += u64::from(is_named);
        }
        self.buffer.begin_epoch();
        self.wanted.clear();
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let mut read = self.committed.clone();
        for (page, bytes) in (0..).zip(read.chunks_exact_mut(PAGE_BYTES as usize)) {
            self.buffer.overlay(page, 0, bytes);
        }
        prop_assert!(read == self.newest, "a read shows other bytes than the newest");
        let durable = self.buffer.durable();
        for (extent, _, then) in self.wanted.extract_if(.., |(_, tickets, _)| tickets.are_within(durable)) {
            let now = &self.committed[extent.offset as usize..extent.end() as usize];
            prop_assert!(now.iter().zip(&then).all(|(now, then)| now >= then), "{extent:?} is not durable");
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_read_shows_the_newest_bytes_and_who_waits_for_a_range_waits_for_all_that_was_written_there(
        steps in prop::collection::vec(step(), 1..300),
        durable in 0..4usize,
    ) {
        let mut life = Life::new();
        for step in steps {
            match step {
                Step::Write(ranges) => life.write(&ranges),
                Step::Want(range) => life.want(range),
                Step::WantOldest(bytes) => life.buffer.want_oldest(bytes),
                Step::TakeBatch { bytes, bulk_bytes, pages } => {
                    life.take_batch(BatchMax { bytes, bulk_bytes, pages });
                }
                Step::Complete => life.complete(),
                Step::WriteHome(page) => life.write_home(page),
                Step::Kill(openings) => life.kill(durable, &openings),
            }
            life.check()?;
        }
        life.want((0, BYTES as u64));
        life.commit_all();
        life.check()?;
        prop_assert!(life.wanted.is_empty(), "somebody waits for ever");
        prop_assert!(life.committed == life.newest);
        prop_assert_eq!((life.buffer.fill().0, life.buffer.units.len(), life.buffer.index.len()), (0, 0, 0));
    }
}
