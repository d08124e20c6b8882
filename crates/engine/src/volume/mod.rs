//! The volume: what users read and write.
//!
//! ```text
//! write ──► buffer ──(wanted)──► commit ──► log ──(durable)──► frames ──► checkpoint ──► home
//!       └──────────────── large, selective: direct ───────────────────────────────────────┘
//! ```
//!
//! 1. A write is acknowledged when it is in the arena; a durable one, when its commit and all before it are in
//!    the log.
//! 2. A read sees the frames, which hold only what is durable, with the buffer laid over them.
//! 3. After a failed write or flush below, nothing is acknowledged as durable in this opening any more, and
//!    nothing is retried.

mod admission;
mod atomic;
mod bulk;
mod cache_size;
mod check;
mod checkpoint;
mod checkpoint_due;
mod commit;
mod create;
mod device;
mod differences;
mod direct;
mod fair_lock;
mod fresh;
mod grow;
mod home_writes;
mod homecoming;
mod identify;
mod inspect;
mod limits;
mod open;
mod pace;
mod read_only;
mod record_cost;
mod recover;
mod renew_log;
mod renew_mirror_logs;
mod roots;
mod scrub;
mod superblocks;
mod throttle;
mod write;
mod write_back;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::buffer::queue::{Lane, Tickets};
use crate::counters::{Counters, Snapshot, add};
use crate::device::{Durability, Extent, FlushScope};
use crate::env::{Arena, Env};
use crate::error::{DeviceError, Error};
use crate::events::{Event, Events};
use crate::format::{PAGE, PAGE_BYTES};
use crate::home::Home;
use crate::layout::{JournalStore, PageStore};
use crate::log::Log;
use crate::notify::Notify;
use crate::options::{Journaling, OpenOptions};
use crate::planted::{Bug, is_planted};

pub use crate::buffer::{ArenaContents, is_of_other_version};
use admission::Admission;
pub use atomic::Change;
pub use check::{CheckReport, check};
use commit::GroupCommit;
pub use create::create;
pub use differences::differences;
pub use grow::{Growth, plan_growth};
pub use identify::{Identity, arena_bytes_min, identify};
pub use inspect::{Inspection, inspect};
use limits::Waiting;
pub use limits::{ATOMIC_MAX_BYTES, log_bytes_min};
pub(crate) use read_only::Basis;
pub use record_cost::{CostLine, RecordCost};
pub(crate) use recover::UnverifiedTable;
pub use renew_log::{LogRenewal, check_log_is_lost, plan_log_renewal, renew_log};
pub use renew_mirror_logs::{
    MirrorLogRenewal, check_mirror_log_is_lost, plan_mirror_log_renewal, renew_mirror_log,
};
pub use scrub::{ScrubMode, ScrubReport};
pub use superblocks::SuperblockCopy;
use superblocks::Superblocks;
use throttle::WriteKind;
use write_back::WriteBack;

/// Pages that one question about allocation looks at: others have their turn between two.
const ALLOCATION_LOOKS_MAX: u64 = 16 << 10;

/// Pages of a stretch that was never written which take as long as one of another.
const NEVER_WRITTEN_A_LOOK: u64 = 16;

/// An open volume. A clone is another handle to it.
pub struct Volume<E, A, H, L>(Rc<Inner<E, A, H, L>>);

impl<E, A, H, L> Clone for Volume<E, A, H, L> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

/// How full the parts of a volume are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Bytes of the arena that writes take which are not durable.
    pub buffer_used_bytes: u64,
    /// Bytes of the arena.
    pub buffer_bytes: u64,
    /// Bytes of the log from tail to head.
    pub log_used_bytes: u64,
    /// Bytes of the log that commits may fill; the rest is for checkpoints.
    pub log_max_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of pages that are durable in the log, and not home.
    pub dirty_bytes: u64,
    /// As many of them as may be.
    pub dirty_max_bytes: u64,
    /// Bytes of the table of sums that are in memory.
    pub table_bytes: u64,
    /// Bytes of all pages in memory.
    pub pages_bytes: u64,
    /// The most there were.
    pub pages_peak_bytes: u64,
    /// As many of them as may be: those cached, or where that is more, those that a checkpoint writes with as many
    /// dirty ones.
    pub pages_max_bytes: u64,
    /// Bytes a second that a ring's drives took home of late; 0 where nobody waits for that.
    pub drain_bytes_per_s: u64,
}

struct Inner<E, A, H, L> {
    env: E,
    options: OpenOptions,
    follows_stop: bool,
    atomic_max_bytes: u64,
    size_bytes: Cell<u64>,
    buffer: RefCell<Buffer<A>>,
    log: Log<L>,
    home: Home<H>,
    superblocks: Superblocks<H, L>,
    admission: Admission,
    group_commit: GroupCommit,
    write_back: WriteBack,
    counters: Rc<Counters>,
    events: Rc<Events>,
    /// Whether it was told that the volume is read-only.
    failure_told: Cell<bool>,
    /// Something was released, failed, or a range is free again.
    changed: Notify,
}

/// See [`Inner::to_the_end`].
struct ToTheEnd<'a, E: Env, A: Arena, H: PageStore, L: JournalStore> {
    inner: &'a Rc<Inner<E, A, H, L>>,
    done: bool,
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> ToTheEnd<'_, E, A, H, L> {
    fn done(mut self) {
        self.done = true;
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Drop for ToTheEnd<'_, E, A, H, L> {
    fn drop(&mut self) {
        if !self.done {
            self.inner.latch(Error::Unusable("an operation was given up halfway; open it again".to_owned()));
        }
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// Bytes that it offers: no fewer later, but more once it has grown.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes.get()
    }

    /// Bytes of the home device that it knows of.
    pub fn home_bytes(&self) -> u64 {
        self.0.superblocks.current().home_bytes
    }

    /// Which volume it is, as its superblock says now.
    pub fn identity(&self) -> Identity {
        self.0.superblocks.current().into()
    }

    /// The number that it was made with.
    pub fn id(&self) -> u64 {
        self.0.superblocks.current().volume
    }

    /// How full it is.
    pub fn occupancy(&self) -> Occupancy {
        let inner = &self.0;
        let (buffer_used, buffer_bytes) = inner.buffer.borrow().fill();
        let (pages, pages_peak) = inner.home.pages_in_memory();
        let defers_writes = inner.home.device.traits().defers_writes;
        Occupancy {
            buffer_used_bytes: buffer_used as u64,
            buffer_bytes: buffer_bytes as u64,
            log_used_bytes: inner.log.used_bytes(),
            log_max_bytes: inner.admission.limits.get().commit_used_max,
            log_bytes: inner.home.layout().log.len,
            dirty_bytes: inner.home.dirty_pages() as u64 * PAGE_BYTES,
            dirty_max_bytes: inner.admission.limits.get().dirty_max(defers_writes) as u64 * PAGE_BYTES,
            table_bytes: inner.home.table.loaded_pages() as u64 * PAGE_BYTES,
            pages_bytes: pages as u64 * PAGE_BYTES,
            pages_peak_bytes: pages_peak as u64 * PAGE_BYTES,
            drain_bytes_per_s: inner.admission.throttle.drain_bytes_per_s(),
            pages_max_bytes: inner.home.pages_max(inner.admission.limits.get().dirty_pages_max) as u64
                * PAGE_BYTES,
        }
    }

    /// How it runs.
    pub fn options(&self) -> OpenOptions {
        self.0.options
    }

    /// Largest write that is one commit.
    pub fn atomic_max_bytes(&self) -> u64 {
        self.0.atomic_max_bytes
    }

    /// Pages that one [`Self::commit`] may touch; fewer perhaps once the volume has grown.
    pub fn commit_pages_max(&self) -> usize {
        self.0.admission.allowed.get().commit_pages_max()
    }

    /// Largest [`Self::commit`], with 64 bytes for each of its ranges; smaller perhaps once the volume has grown.
    pub fn commit_max_bytes(&self) -> u64 {
        self.0.unit_max_bytes() as u64
    }

    /// Whether the opening before this one was stopped in order, as far as the devices say, or there was none.
    pub fn follows_stop(&self) -> bool {
        self.0.follows_stop
    }

    /// What was done so far.
    pub fn counters(&self) -> Snapshot {
        self.0.counters.snapshot()
    }

    /// What a durable record of its log takes, as its commits show so far.
    pub fn record_cost(&self) -> Option<RecordCost> {
        self.0.group_commit.costs.known(self.0.env.now_ns())
    }

    /// What happened to it.
    pub fn events(&self) -> Rc<Events> {
        Rc::clone(&self.0.events)
    }

    /// Why the home device is asked to discard no more, if so.
    pub fn discards_stopped(&self) -> Option<DeviceError> {
        self.0.write_back.discards_stopped.get()
    }

    /// For how long commits have been waiting for room now, in ns; 0 where they do not.
    pub fn commits_wait_ns(&self) -> u64 {
        self.0.group_commit.commits.borrow().waiting_ns(self.0.env.now_ns())
    }

    /// Makes it read-only, as a failure below does: whoever provides its devices may know of one before they do. An
    /// earlier failure stays the one that is told.
    pub fn fail(&self, reason: &str) {
        self.0.latch(Error::Latched(reason.into()));
    }

    /// Why it is read-only, if so.
    pub fn failure(&self) -> Option<Error> {
        self.0.log.failure()
    }

    /// Fills `into` from `offset` with the latest acknowledged bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`]; [`Error::Damaged`] where a page is not what was written; those of the device.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let inner = &self.0;
        let extent = inner.check_range(offset, into.len() as u64)?;
        if into.is_empty() {
            return Ok(());
        }
        add(&inner.counters.read_bytes, extent.len);
        let mut at = offset;
        while at < extent.end() {
            let chunk_end = (at / PAGE_BYTES + inner.home.load_pages_max()) * PAGE_BYTES;
            let len = chunk_end.min(extent.end()) - at;
            let chunk = &mut into[(at - offset) as usize..][..len as usize];
            // What is there at once is not waited for, and from there to the overlay nothing else runs.
            while !inner.home.try_read(at, chunk) {
                inner.home.device.note_client_read();
                match inner.home.read(at, chunk).await {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(error) => return Err(inner.note_failed_read(Extent::new(at, len), error)),
                }
            }
            inner.overlay(at, chunk);
            at += len;
        }
        Ok(())
    }

    /// As [`Self::read`], if nothing has to be waited for; false if something has, or it fails.
    pub fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        let inner = &self.0;
        let Ok(extent) = inner.check_range(offset, into.len() as u64) else { return false };
        let is_done = inner.home.try_read(offset, into);
        if is_done {
            add(&inner.counters.read_bytes, extent.len);
            inner.overlay(offset, into);
        }
        is_done
    }

    /// Writes `bytes` at `offset`. One commit up to [`Self::atomic_max_bytes`]; a larger write may tear at
    /// page boundaries.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`]; [`Error::Latched`] or the failure itself after one below.
    pub async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), Error> {
        let inner = &self.0;
        let extent = inner.check_range(offset, bytes.len() as u64)?;
        inner.check_alive()?;
        add(&inner.counters.writes, 1);
        add(&inner.counters.user_bytes, extent.len);
        inner.admit(extent.len).await;
        if is_planted(Bug::EqualIsDurable) && inner.changed_extents(&extent, bytes).is_empty() {
            return Ok(());
        }
        let _under_way = inner.is_large(&extent).then(|| inner.begin_bulk(extent.len, durability));
        match inner.options.journaling {
            Journaling::Selective { .. } if inner.goes_home(&extent) => {
                // Boxed: it is large, and every other write would carry room for it.
                return Box::pin(inner.write_selective(offset, bytes, durability)).await;
            }
            Journaling::Ordered if inner.may_write_direct() => {
                return inner.write_direct_pages(offset, bytes).await;
            }
            Journaling::WholePages => inner.write_whole_pages(offset, bytes).await?,
            _ => inner.write_buffered(offset, bytes).await?,
        }
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => inner.make_durable(&[extent]).await,
        }
    }

    /// Makes every acknowledged write within `scope` durable, with the rest of any write that would otherwise
    /// be split, and nothing else.
    ///
    /// # Errors
    ///
    /// The failure, after one below.
    pub async fn flush(&self, scope: FlushScope<'_>) -> Result<(), Error> {
        let inner = &self.0;
        inner.check_alive()?;
        add(&inner.counters.flushes, 1);
        match scope {
            FlushScope::Whole => inner.make_durable(&[Extent::new(0, inner.size_bytes.get())]).await,
            FlushScope::Ranges(ranges) => {
                for range in ranges {
                    inner.check_range(range.offset, range.len)?;
                }
                inner.make_durable(ranges).await
            }
        }
    }

    /// Zeroes `extent`; whole pages in it take no room any more.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), Error> {
        let inner = &self.0;
        let extent = inner.check_range(extent.offset, extent.len)?;
        inner.check_alive()?;
        add(&inner.counters.zeroes, 1);
        add(&inner.counters.zeroed_bytes, extent.len);
        inner.zero(extent).await?;
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => inner.make_durable(&[extent]).await,
        }
    }

    /// Whether the page at `page` times 4,096 has contents, and how many from it on are like it: one at least, and no more than
    /// `pages_max`, which is one at least. It may end early.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub async fn allocation(&self, page: u64, pages_max: u64) -> Result<(bool, u64), Error> {
        let inner = &self.0;
        inner.check_range(page.saturating_mul(PAGE_BYTES), pages_max.saturating_mul(PAGE_BYTES))?;
        let (has_contents, mut pages) = inner.allocation_at(page).await?;
        let mut looked_at = 1;
        while pages < pages_max && looked_at < ALLOCATION_LOOKS_MAX {
            let (like_it, more) = inner.allocation_at(page + pages).await?;
            if like_it != has_contents {
                break;
            }
            (pages, looked_at) = (pages + more, looked_at + more.div_ceil(NEVER_WRITTEN_A_LOOK));
        }
        Ok((has_contents, pages.min(pages_max)))
    }

    /// Takes everything that is committed home.
    ///
    /// # Errors
    ///
    /// The failure, after one below.
    pub async fn checkpoint(&self) -> Result<(), Error> {
        self.0.check_alive()?;
        // In a task of its own: whoever gives up waiting does not leave it half done.
        let done = Rc::new((RefCell::new(None), Notify::default()));
        let (inner, told) = (Rc::clone(&self.0), Rc::clone(&done));
        self.0.env.spawn(async move {
            let result = Inner::checkpoint(&inner).await;
            told.0.replace(Some(result));
            told.1.all();
        });
        done.1.until(|| done.0.borrow_mut().take()).await
    }

    /// Makes everything durable and takes it home: nothing is left for a recovery to do.
    ///
    /// # Errors
    ///
    /// The failure, after one below.
    pub async fn close(self) -> Result<(), Error> {
        self.0.home.device.note_readers(false);
        self.flush(FlushScope::Whole).await?;
        self.checkpoint().await?;
        self.0.settle_roots().await?;
        self.0.empty_log().await?;
        let last = self.0.superblocks.current();
        Ok(self.0.home.device.end(Some(&last).filter(|last| last.is_closed)).await?)
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Whether the page has contents, and how many from it on are known to be like it.
    async fn allocation_at(&self, page: u64) -> Result<(bool, u64), Error> {
        if self.buffer.borrow().touches(page, page + 1) {
            return Ok((true, 1));
        }
        let never_written = self.home.never_written(page);
        if never_written > 1 && !self.buffer.borrow().touches(page, page + never_written) {
            return Ok((false, never_written));
        }
        Ok((self.home.is_allocated(page).await?, 1))
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<Extent, Error> {
        let extent = Extent { offset, len };
        if extent.fits(self.size_bytes.get()) { Ok(extent) } else { Err(Error::OutOfRange) }
    }

    /// Waits until a write of so many bytes may come, where the drives take long turns.
    async fn admit(&self, bytes: u64) {
        if !self.home.device.traits().defers_writes {
            return;
        }
        let fill = self.note_fill();
        let now_ns = self.env.now_ns();
        let kind = match bytes <= self.options.tuning.small_max_bytes {
            true if self.home.device.keeps_turns() => WriteKind::SmallInTurns,
            true => WriteKind::Small,
            false => WriteKind::Large,
        };
        let until_ns = self.admission.throttle.admit(now_ns, bytes, kind, fill);
        if until_ns > now_ns {
            add(&self.counters.throttled_writes, 1);
            add(&self.counters.throttled_ns, until_ns - now_ns);
            self.env.sleep(until_ns - now_ns).await;
        }
    }

    /// Pages in memory that are not home.
    fn waiting(&self) -> Waiting {
        Waiting {
            dirty: self.home.dirty_pages(),
            writing: self.home.writing_pages(),
            uncovered: self.home.uncovered_pages(),
        }
    }

    /// Tells the home device how full the fullest is, of 1, of what commits may use.
    fn note_fill(&self) -> f64 {
        let fill = self.admission.limits.get().fill(self.log.used_bytes(), self.waiting());
        self.home.device.note_fill(fill);
        fill
    }

    /// Lays what is acknowledged and not durable over committed bytes.
    fn overlay(&self, offset: u64, into: &mut [u8]) {
        let extent = Extent::new(offset, into.len() as u64);
        let buffer = self.buffer.borrow();
        for page in crate::buffer::pages_of(&extent) {
            let shared = extent.intersection(&Extent::new(page * PAGE_BYTES, PAGE_BYTES));
            let shared = shared.expect("the page lies in the range");
            let target = &mut into[(shared.offset - offset) as usize..][..shared.len as usize];
            buffer.overlay(page, (shared.offset % PAGE_BYTES) as usize, target);
        }
    }

    fn check_alive(&self) -> Result<(), Error> {
        match self.log.failure() {
            None => Ok(()),
            Some(Error::Latched(reason)) => Err(Error::Latched(reason)),
            Some(error) => Err(Error::Latched(error.to_string().into())),
        }
    }

    /// Nothing is acknowledged as durable any more.
    fn latch(&self, error: Error) {
        self.log.fail(error);
        self.tell_failure();
    }

    /// Latches unless what it guards is carried to its end: an operation that was dropped halfway leaves what is in
    /// memory and what is on the devices at odds.
    fn to_the_end(self: &Rc<Self>) -> ToTheEnd<'_, E, A, H, L> {
        ToTheEnd { inner: self, done: false }
    }

    /// Counts a read that failed, and tells of it: of a damaged page, which it was.
    fn note_failed_read(&self, extent: Extent, error: Error) -> Error {
        let (counter, extent) = match error {
            Error::Damaged { page } => {
                let page = Extent::new(page * PAGE_BYTES, PAGE_BYTES);
                (&self.counters.damaged_reads, page.intersection(&extent).unwrap_or(page))
            }
            _ => (&self.counters.failed_reads, extent),
        };
        add(counter, 1);
        self.events.note(Event::ReadFailed { extent, error: error.clone() });
        error
    }

    fn tell_failure(&self) {
        if let Some(error) = self.log.failure()
            && !self.failure_told.replace(true)
        {
            self.events.note(Event::ReadOnly(error));
        }
        self.changed.all();
        self.group_commit.durable.iter().for_each(|lane| lane.through(u64::MAX));
    }

    /// Largest payload of one commit, with 64 bytes for each of its extents.
    fn unit_max_bytes(&self) -> usize {
        let by_arena = self.buffer.borrow().unit_bytes_max().saturating_sub(PAGE);
        by_arena.min(self.admission.allowed.get().unit_max_bytes())
    }

    /// Whether pages may be overwritten in place without an image of them in the log: a drive that may leave a
    /// sector neither old nor new would turn a cut into damage. Where a write is deferred, the log alone makes it durable
    /// in time.
    fn may_write_direct(&self) -> bool {
        !self.admission.limits.get().needs_images && !self.home.device.traits().defers_writes
    }

    /// Whether a write of these bytes may go straight home by its size.
    fn is_large(&self, extent: &Extent) -> bool {
        match self.options.journaling {
            Journaling::Selective { threshold_bytes } => {
                extent.len >= threshold_bytes.max(self.atomic_max_bytes + 1)
            }
            _ => false,
        }
    }

    /// Counts a large write as under way, until what is answered is dropped.
    fn begin_bulk(&self, bytes: u64, durability: Durability) -> bulk::UnderWay<'_> {
        let (used, capacity) = self.buffer.borrow().fill();
        let waits = durability == Durability::Durable || used > capacity / 2;
        let now_ns = self.env.now_ns();
        let line = self.group_commit.costs.known(now_ns).and_then(|cost| cost.line);
        let paying_bytes =
            bulk::paying_bytes(self.options.tuning.bulk_min_bytes, self.direct_max_bytes(), line);
        self.write_back.bulk.begin(bytes, waits, now_ns, paying_bytes)
    }

    /// Whether a write goes straight home, as far as its pages let it: where drives need images, those without contents.
    fn goes_home(&self, extent: &Extent) -> bool {
        let takes_empty = || self.takes_fresh_pages() && self.write_back.bulk.pays();
        self.is_large(extent) && (self.may_write_direct() || takes_empty())
    }

    /// Queues what the ranges touch and waits until it is durable.
    async fn make_durable(self: &Rc<Self>, ranges: &[Extent]) -> Result<(), Error> {
        let wanted = self.buffer.borrow_mut().want(ranges);
        self.pump_soon();
        self.wait_durable(wanted).await
    }

    async fn wait_durable(&self, wanted: Tickets) -> Result<(), Error> {
        for lane in Lane::ALL {
            self.group_commit.durable[lane as usize]
                .until(wanted.of(lane), || {
                    if wanted.of(lane) <= self.buffer.borrow().durable().of(lane) {
                        return Some(self.check_alive());
                    }
                    self.log.failure().map(|_| self.check_alive())
                })
                .await?;
        }
        Ok(())
    }
}
