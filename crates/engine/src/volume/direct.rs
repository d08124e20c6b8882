//! Large writes that go straight home, without passing through the log.
//!
//! The order, and the crash that each step survives:
//!
//! 1. What the buffer holds of these pages is made durable and taken home, so that no delta older than the
//!    intent is needed any more. Where part of a write lies over such pages, that part goes through the log instead.
//! 2. An intent with the new sums is made durable. From now on a page here may be old, new, or, within a page
//!    that the cut met, some sectors of each: recovery sums what it finds anew.
//! 3. The pages are written and flushed.
//! 4. A completion with their sums is made durable, and only then the write is acknowledged.
//!
//! Where drives may leave a sector neither old nor new, only pages are written so of which nobody needs what they hold
//! ([`super::fresh`]), or that have no contents ([`super::bulk`]). Of those that hold something the log says that they are empty
//! before it says what they are to be, and recovery leaves those empty whose completion it does not find.
//!
//! Those of ranges that do not overlap run side by side, between two checkpoints. Each of their steps but the write itself
//! is one for all who need it at the time ([`crate::shared_step`]): a record of the log, or a flush. How many there are
//! follows from the room in the log that is kept for them, and from [`super::pace`].

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use super::Inner;
use super::checkpoint::runs;
use super::fair_lock::{FairGuard, FairLock};
use super::write::pieces;
use crate::buffer::queue::Lane;
use crate::counters::add;
use crate::device::{Durability, Extent, FlushScope};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::record::{RecordBuilder, RecordKind, Tag, record_bytes};
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::home::Table;
use crate::join::{all, first};
use crate::layout::{JournalStore, PageStore};
use crate::log::HeaderFields;
use crate::notify::Notify;
use crate::options::Journaling;
use crate::planted::{Bug, is_planted};
use crate::shared_step::SharedStep;

/// The direct writes of a volume.
#[derive(Default)]
pub(super) struct DirectWrites {
    /// Ranges that they hold: nobody else writes there meanwhile.
    ranges: RefCell<Vec<Extent>>,
    /// Held by whoever is the next to begin: a large one is not passed by small ones without end.
    door: FairLock,
    begun: Cell<Load>,
    /// One of them is done.
    left: Notify,
    intents: SharedStep<Sums>,
    flushes: SharedStep<Vec<Extent>>,
    completions: SharedStep<Sums>,
}

/// How long what can wait gives way to small writes that come without end.
const GIVE_WAY_NS: u64 = 2_000_000;

/// Pages and their sums.
type Sums = Vec<(u64, u64)>;

/// Whole pages in a row that go straight home.
#[derive(Clone, Copy)]
pub(super) struct Pages<'a> {
    pub(super) first: u64,
    /// Their bytes, each part whole pages.
    pub(super) parts: &'a [&'a [u8]],
    /// Whether nobody needs what they hold, and their writer can wait: while small writes come, they are given to the drive
    /// little by little.
    pub(super) are_fresh: bool,
}

impl<'a> Pages<'a> {
    /// Those of a write that somebody waits for.
    fn waited_for(first: u64, parts: &'a [&'a [u8]]) -> Self {
        Self { first, parts, are_fresh: false }
    }

    fn each(&self) -> impl Iterator<Item = &'a [u8]> {
        self.parts.iter().flat_map(|part| part.chunks_exact(PAGE))
    }

    pub(super) fn extent(&self) -> Extent {
        let bytes: usize = self.parts.iter().map(|part| part.len()).sum();
        Extent::new(self.first * PAGE_BYTES, bytes as u64)
    }

    fn range(&self) -> Range<u64> {
        self.first..self.extent().end() / PAGE_BYTES
    }

    /// The bytes of some of them.
    fn bytes_of(&self, pages: Range<u64>) -> Vec<&'a [u8]> {
        let wanted = ((pages.start - self.first) as usize * PAGE)..((pages.end - self.first) as usize * PAGE);
        let mut start = 0;
        let mut found = Vec::new();
        for part in self.parts {
            let (from, to) = (wanted.start.max(start), wanted.end.min(start + part.len()));
            if from < to {
                found.push(&part[from - start..to - start]);
            }
            start += part.len();
        }
        found
    }
}

/// What writes that have begun amount to.
#[derive(Clone, Copy, Default)]
struct Load {
    writes: usize,
    pages: usize,
    /// Pages of the table that speak of those.
    tables: usize,
    /// Bytes of the log that their records take at most.
    log_bytes: u64,
}

/// The right to write home beside others who have it.
struct Begun<'a, E, A, H, L> {
    inner: &'a Inner<E, A, H, L>,
    load: Load,
    _turn: FairGuard<'a>,
}

impl<E, A, H, L> Drop for Begun<'_, E, A, H, L> {
    fn drop(&mut self) {
        let (direct, mine) = (&self.inner.write_back.direct, self.load);
        let all = direct.begun.get();
        direct.begun.set(Load {
            writes: all.writes - mine.writes,
            pages: all.pages - mine.pages,
            tables: all.tables - mine.tables,
            log_bytes: all.log_bytes - mine.log_bytes,
        });
        direct.left.all();
    }
}

impl DirectWrites {
    /// Whether one of them holds some of this range.
    pub(super) fn holds_some_of(&self, extent: &Extent) -> bool {
        self.ranges.borrow().iter().any(|held| held.overlaps(extent))
    }
}

/// A range that nobody else writes to.
pub(super) struct Hold<'a, E, A, H, L> {
    inner: &'a Inner<E, A, H, L>,
    extent: Extent,
}

impl<E, A, H, L> Drop for Hold<'_, E, A, H, L> {
    fn drop(&mut self) {
        let mut ranges = self.inner.write_back.direct.ranges.borrow_mut();
        if let Some(at) = ranges.iter().position(|held| *held == self.extent) {
            ranges.swap_remove(at);
        }
        drop(ranges);
        self.inner.changed.all();
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Whole pages straight home, the parts of pages at both ends through the log.
    pub(super) async fn write_selective(
        self: &Rc<Self>,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> Result<(), Error> {
        let end = offset + bytes.len() as u64;
        let first_whole = offset.next_multiple_of(PAGE_BYTES);
        let end_whole = end / PAGE_BYTES * PAGE_BYTES;
        let (head, rest) = bytes.split_at((first_whole - offset) as usize);
        let (whole, tail) = rest.split_at((end_whole - first_whole) as usize);
        self.write_buffered(offset, head).await?;
        self.write_buffered(end_whole, tail).await?;
        let is_durable = durability == Durability::Durable;
        if is_durable {
            // Beside the rest, and not behind it.
            let ends =
                [(offset, head), (end_whole, tail)].map(|(at, part)| Extent::new(at, part.len() as u64));
            self.buffer.borrow_mut().want_in(Lane::Bulk, &ends);
            self.pump_soon();
        }
        self.write_direct(first_whole, whole).await?;
        if !is_durable {
            return Ok(());
        }
        // Both ends, and what could not go straight home.
        let wanted = self.buffer.borrow_mut().want_in(Lane::Bulk, &[Extent::new(offset, bytes.len() as u64)]);
        self.pump_soon();
        self.wait_durable(wanted).await
    }

    /// Every page that the write touches straight home, whole: the baseline of ordered journaling.
    pub(super) async fn write_direct_pages(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let piece_max = (self.home.load_pages_max() - 1) * PAGE_BYTES;
        for (offset, piece) in pieces(offset, bytes, piece_max) {
            self.write_direct_piece(offset, piece).await?;
        }
        Ok(())
    }

    async fn write_direct_piece(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let extent = Extent::new(offset, bytes.len() as u64);
        let pages = crate::buffer::pages_of(&extent);
        let whole = Extent::new(pages.start * PAGE_BYTES, (pages.end - pages.start) * PAGE_BYTES);
        let hold = self.hold(whole).await?;
        self.home.load(pages.start, pages.end).await?;
        let composed = self.compose(&extent, bytes);
        let is_home = self.write_held(&Pages::waited_for(pages.start, &[&composed])).await?;
        drop(hold);
        if is_home { Ok(()) } else { self.write_buffered(offset, bytes).await }
    }

    async fn write_direct(self: &Rc<Self>, mut offset: u64, mut bytes: &[u8]) -> Result<(), Error> {
        // Where drives need images, pages with contents may lie between all others: one piece after another would wait for its
        // steps.
        let least_bytes = match self.admission.limits.get().needs_images {
            true => self.direct_min_bytes().max(bytes.len() as u64 / 2),
            false => self.direct_min_bytes(),
        };
        let pages_max = self.direct_max_bytes() / PAGE_BYTES;
        while !bytes.is_empty() {
            let first = offset / PAGE_BYTES;
            let end = first + (bytes.len() / PAGE) as u64;
            let (mut stop, may_go) = self.alike(first..end).await;
            let goes_home = may_go && (stop - first) * PAGE_BYTES >= least_bytes.min(pages_max * PAGE_BYTES);
            if goes_home {
                stop = stop.min(first + pages_max);
            }
            let piece;
            (piece, bytes) = bytes.split_at((stop - first) as usize * PAGE);
            let is_home = goes_home && {
                let hold = self.hold(Extent::new(offset, piece.len() as u64)).await?;
                let is_home = self.write_held(&Pages::waited_for(first, &[piece])).await?;
                drop(hold);
                is_home
            };
            if !is_home {
                self.write_buffered(offset, piece).await?;
            }
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Up to where pages are like the first one in whether they may be written straight home, and whether they may.
    async fn alike(&self, pages: Range<u64>) -> (u64, bool) {
        let wants_empty = self.admission.limits.get().needs_images;
        let mut sums = self.home.table.hold_none();
        let mut first_may = false;
        for page in pages.clone() {
            if wants_empty && sums.load_for(page).await.is_err() {
                return (pages.end, false); // whoever takes these pages home says what is wrong
            }
            let may = self.is_settled(page) && !(wants_empty && self.home.has_contents(page));
            if page == pages.start {
                first_may = may;
            } else if may != first_may {
                return (page, first_may);
            }
        }
        (pages.end, first_may)
    }

    /// Whether all that is known of the page is home.
    fn is_settled(&self, page: u64) -> bool {
        !self.buffer.borrow().touches(page, page + 1) && !self.home.is_dirty(page, page + 1)
    }

    /// Bytes between two parts that go through the log for which a way of their own pays.
    pub(super) fn direct_min_bytes(&self) -> u64 {
        match self.options.journaling {
            Journaling::Selective { threshold_bytes } => threshold_bytes / 4,
            _ => 0,
        }
    }

    /// Bytes that go straight home at most in one piece.
    pub(super) fn direct_max_bytes(&self) -> u64 {
        (self.admission.limits.get().dirty_pages_max as u64 / 2).max(1) * PAGE_BYTES
    }

    pub(super) async fn hold(&self, extent: Extent) -> Result<Hold<'_, E, A, H, L>, Error> {
        loop {
            if !is_planted(Bug::DirectOverlaps) {
                self.wait_not_direct(&extent).await?;
            }
            if !self.is_direct(&extent) || is_planted(Bug::DirectOverlaps) {
                self.write_back.direct.ranges.borrow_mut().push(extent);
                return Ok(Hold { inner: self, extent });
            }
        }
    }

    /// Writes whole pages of a range that is held; answers false where that cannot be: changes of a damaged page are still
    /// in the log, or the drives need images and a page has contents.
    pub(super) async fn write_held(self: &Rc<Self>, pages: &Pages<'_>) -> Result<bool, Error> {
        let (extent, range) = (pages.extent(), pages.range());
        if !is_planted(Bug::DirectBeforeBuffered) {
            self.make_durable(&[extent]).await?;
        }
        self.mark_superseded(&extent).await?;
        let done = async {
            let Some(begun) = self.begin(range.start, range.end).await? else { return Ok(false) };
            let guard = self.to_the_end();
            let done = self.write_home(&begun, pages).await;
            guard.done();
            done
        };
        let done = done.await;
        if let Err(error) = &done {
            self.latch(error.clone());
        }
        done
    }

    /// A process that is killed from now on does not replay older writes over these pages.
    async fn mark_superseded(self: &Rc<Self>, extent: &Extent) -> Result<(), Error> {
        loop {
            if self.buffer.borrow_mut().supersede(extent).is_some() {
                return Ok(());
            }
            self.wait_for_room(&[], &[]).await?;
        }
    }

    /// Writes whole pages home, in as many pieces as they lie in there; answers where.
    async fn write_runs(self: &Rc<Self>, pages: &Pages<'_>) -> Result<Vec<Extent>, Error> {
        let (layout, Range { start: mut page, end }) = (self.home.layout(), pages.range());
        let mut runs = Vec::new();
        while page < end {
            let stop = layout.run_end(page, end);
            let at = Extent::new(layout.page_offset(page), (stop - page) * PAGE_BYTES);
            match pages.are_fresh {
                true => self.write_portions(pages, page..stop, at.offset).await?,
                false => self.write_waited_for(pages, page..stop, at.offset).await?,
            }
            runs.push(at);
            page = stop;
        }
        Ok(runs)
    }

    /// Writes pages that somebody waits for and that lie in a row at `offset`: all at once, or beside small writes one behind
    /// another no more than is little.
    async fn write_waited_for(&self, pages: &Pages<'_>, range: Range<u64>, offset: u64) -> Result<(), Error> {
        let mut page = range.start;
        while page < range.end {
            let portion_bytes = self.write_back.pace.direct_max_bytes(self.env.now_ns());
            let stop = range.end.min(page.saturating_add((portion_bytes / PAGE_BYTES).max(1)));
            let at = offset + (page - range.start) * PAGE_BYTES;
            self.write_portion(at, &pages.bytes_of(page..stop)).await?;
            page = stop;
        }
        Ok(())
    }

    async fn write_portion(&self, offset: u64, parts: &[&[u8]]) -> Result<(), Error> {
        self.write_back.pace.begin_home();
        let written = self.home.device.write_parts(offset, parts, Durability::Buffered).await;
        self.write_back.pace.end_home();
        Ok(written?)
    }

    /// Writes pages that lie in a row at `offset`: several portions at once, or one small one between small writes where
    /// those come.
    async fn write_portions(
        self: &Rc<Self>,
        pages: &Pages<'_>,
        range: Range<u64>,
        offset: u64,
    ) -> Result<(), Error> {
        let mut page = range.start;
        while page < range.end {
            self.give_way().await;
            let (portion_bytes, at_once) = self.write_back.pace.portions(self.env.now_ns());
            let portion_pages = (portion_bytes / PAGE_BYTES).max(1);
            let failure = RefCell::new(None);
            let mut writes = Vec::new();
            let first_page = page;
            while page < range.end && writes.len() < at_once {
                let stop = range.end.min(page + portion_pages);
                let (at, parts) = (offset + (page - range.start) * PAGE_BYTES, pages.bytes_of(page..stop));
                let failure = &failure;
                writes.push(async move {
                    if let Err(error) = self.write_portion(at, &parts).await {
                        failure.borrow_mut().get_or_insert(error);
                    }
                });
                page = stop;
            }
            let (began_ns, is_alone) = (self.env.now_ns(), writes.len() == 1);
            let portion = page - first_page;
            all(writes.into_iter()).await;
            if is_alone {
                self.write_back.pace.note_portion(portion, self.env.now_ns() - began_ns);
            }
            failure.take().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Lets small writes that are under way or wait come to their end, but not for ever.
    async fn give_way(self: &Rc<Self>) {
        if !self.write_back.pace.is_shared(self.env.now_ns()) {
            return;
        }
        let is_free = || {
            let is_idle =
                self.group_commit.commits.borrow().is_idle() && !self.buffer.borrow().has_queued(false);
            (is_idle || self.log.failure().is_some()).then_some(())
        };
        if is_free().is_none() {
            let _others_have_had_their_turn =
                first(self.changed.until(is_free), self.env.sleep(GIVE_WAY_NS)).await;
        }
    }

    /// Waits until a write of these pages may begin, with a checkpoint if it takes one. `None` if they are dirty even then.
    async fn begin(self: &Rc<Self>, first: u64, end: u64) -> Result<Option<Begun<'_, E, A, H, L>>, Error> {
        let (direct, pages) = (&self.write_back.direct, (end - first) as usize);
        let log_bytes = [pages, 2 * pages].map(|tags| record_bytes(tags, 0, self.log.sector_bytes()) as u64);
        let tables = (Table::<H>::page_for(end - 1) - Table::<H>::page_for(first) + 1) as usize;
        let load = Load { writes: 1, pages, tables, log_bytes: log_bytes.iter().sum() };
        let door = direct.door.take().await;
        let mut turn = self.write_back.writer.share().await;
        direct.left.until(|| self.has_room_beside(direct.begun.get(), load).then_some(())).await;
        self.check_alive()?;
        let needs_checkpoint = || {
            let limits = self.admission.limits.get();
            self.log.used_bytes() > limits.commit_used_max
                || self.home.table.dirty_pages() + direct.begun.get().tables + tables
                    > limits.direct_tables_max()
                || self.home.is_dirty(first, end)
        };
        if needs_checkpoint() {
            drop(turn);
            let alone = self.write_back.writer.take().await;
            self.check_alive()?;
            if needs_checkpoint() {
                // Boxed: it holds superblocks, for which every write would carry room.
                Box::pin(self.checkpoint_in_turn()).await?;
            }
            turn = alone.into_shared();
        }
        if self.home.is_dirty(first, end) {
            return Ok(None);
        }
        let all = direct.begun.get();
        direct.begun.set(Load {
            writes: all.writes + load.writes,
            pages: all.pages + load.pages,
            tables: all.tables + load.tables,
            log_bytes: all.log_bytes + load.log_bytes,
        });
        drop(door);
        Ok(Some(Begun { inner: self, load, _turn: turn }))
    }

    /// Whether a write may begin beside those that have. Of what it needs of the log and of the table there is enough for
    /// one of the largest, or for several that need no more together.
    fn has_room_beside(&self, begun: Load, more: Load) -> bool {
        if begun.writes == 0 {
            return true;
        }
        let limits = self.admission.limits.get();
        let pages = begun.pages + more.pages;
        let home_max_bytes = self.write_back.pace.direct_max_bytes(self.env.now_ns());
        pages <= limits.dirty_pages_max / 2
            && begun.log_bytes + more.log_bytes <= limits.direct_log_max_bytes
            && pages as u64 * PAGE_BYTES <= home_max_bytes
    }

    /// Logs what gathered of pages and their sums as one record.
    async fn append_sums(
        self: &Rc<Self>,
        kind: RecordKind,
        pages: &[(u64, u64)],
        table: &[(u64, u64)],
    ) -> Result<(), Error> {
        let mut builder = RecordBuilder::default();
        builder.clear();
        pages.iter().for_each(|&(page, sum)| builder.tag(&Tag::Page { page, sum }));
        table.iter().for_each(|&(page, sum)| builder.tag(&Tag::TablePage { page, sum }));
        self.append_control(HeaderFields { kind, through: 0 }, &mut builder).await.map(drop)
    }

    /// Says durably that pages are empty. No frame says so: what follows is done before the next checkpoint.
    async fn append_emptied(self: &Rc<Self>, pages: &[u64]) -> Result<(), Error> {
        let mut builder = RecordBuilder::default();
        builder.clear();
        for run in runs(pages) {
            builder.tag(&Tag::Discard { page: run.start, count: (run.end - run.start) as u32 });
        }
        self.append_control(HeaderFields { kind: RecordKind::Commit, through: 0 }, &mut builder)
            .await
            .map(drop)
    }

    /// Makes an intent durable, with those of others.
    async fn intend(self: &Rc<Self>, sums: &Sums) -> Result<(), Error> {
        let act =
            async |gathered: Vec<Sums>| self.append_sums(RecordKind::Intent, &gathered.concat(), &[]).await;
        self.write_back.direct.intents.join(sums.clone(), || self.check_alive(), act).await
    }

    /// Flushes what was written, with what others wrote.
    async fn flush_direct(self: &Rc<Self>, at_home: Vec<Extent>) -> Result<(), Error> {
        let act = async |gathered: Vec<Vec<Extent>>| {
            add(&self.counters.home_flushes, 1);
            let flushed = self.home.device.flush(FlushScope::Ranges(&gathered.concat())).await;
            flushed.map_err(Error::from).inspect_err(|error| self.latch(error.clone()))
        };
        self.write_back.direct.flushes.join(at_home, || self.check_alive(), act).await
    }

    /// Puts the sums of pages that are home into the table and, with those of others, durably into the log.
    async fn complete(self: &Rc<Self>, sums: &Sums) -> Result<(), Error> {
        let act = async |gathered: Vec<Sums>| {
            let mut sums = gathered.concat();
            sums.sort_unstable(); // the table's pages are named once each
            sums.iter().for_each(|&(page, sum)| self.home.table.set_sum(page, sum));
            let table = self.home.table.table_sums(sums.iter().map(|&(page, _)| page));
            match is_planted(Bug::NoCompletion) {
                true => Ok(()),
                false => self.append_sums(RecordKind::Complete, &sums, &table).await,
            }
        };
        self.write_back.direct.completions.join(sums.clone(), || self.check_alive(), act).await
    }

    /// False where it cannot be, because the drives need images and somebody may need what a page holds.
    async fn write_home(
        self: &Rc<Self>,
        _begun: &Begun<'_, E, A, H, L>,
        pages: &Pages<'_>,
    ) -> Result<bool, Error> {
        let range = pages.range();
        let lock = self.home.lock(range.start, range.end).await;
        let mut held = self.home.table.hold_none();
        for page in range.clone() {
            held.load_for(page).await?;
        }
        let needs_images = self.admission.limits.get().needs_images && !is_planted(Bug::FreshOverContents);
        let has_contents = |page: &u64| needs_images && self.home.table.sum(*page) != 0;
        let full: Vec<u64> = range.clone().filter(has_contents).collect();
        if !full.is_empty() && !pages.are_fresh {
            return Ok(false);
        }
        let mut sums: Sums = Vec::with_capacity((range.end - range.start) as usize);
        for (page, bytes) in range.clone().zip(pages.each()) {
            if !sums.is_empty() && sums.len().is_multiple_of(self.options.tuning.turn_pages_max) {
                self.env.sleep(0).await;
            }
            sums.push((page, page_sum(bytes)));
        }
        if pages.are_fresh {
            self.give_way().await;
        }
        if !full.is_empty() {
            self.append_emptied(&full).await?;
        }
        if !is_planted(Bug::NoIntent) {
            self.intend(&sums).await?;
        }
        if is_planted(Bug::CompletedBeforeHome) {
            self.complete(&sums).await?;
        }
        let at_home = self.write_runs(pages).await?;
        let extent = pages.extent();
        add(&self.counters.home_bytes, extent.len);
        if pages.are_fresh {
            self.give_way().await;
        }
        if !is_planted(Bug::NoDirectFlush) {
            self.flush_direct(at_home).await?;
        }
        if !is_planted(Bug::CompletedBeforeHome) {
            self.complete(&sums).await?;
        }
        for page in range.filter(|_| !is_planted(Bug::FrameKept)) {
            self.home.forget(page);
        }
        drop(lock);
        add(&self.counters.direct_writes, 1);
        add(&self.counters.direct_bytes, extent.len);
        Ok(true)
    }
}
