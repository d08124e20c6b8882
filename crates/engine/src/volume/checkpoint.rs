//! Checkpoint: committed pages go home, and the log gets its room back.
//!
//! The order, and the crash that each step survives:
//!
//! 1. Records with the pages' new sums (or, for drives that may leave a sector neither old nor new, their
//!    full images) are made durable, those of the table behind all others. A cut during the next step leaves pages half old and half new: the deltas
//!    in the log make them whole, and these records tell whether they did.
//! 2. Pages and table go home, what changed of the root to the place that does not count, and the device is flushed.
//! 3. A superblock that names the new root and tail is made durable. Until then recovery starts from the old
//!    tail and does all of it again, or from where the tail was moved to meanwhile ([`super::homecoming`]).
//! 4. Only then is the room of the older records used again, and the same written to the other place of the root
//!    ([`super::roots`]).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Inner;
use super::home_writes::{HomeWrites, Outbound, Run};
use super::homecoming::{Homecoming, in_order_of_age};
use super::limits::Waiting;
use crate::counters::add;
use crate::device::{Extent, FlushScope};
use crate::env::{Arena, Env};
use crate::error::{DeviceError, Error};
use crate::events::Event;
use crate::format::layout::Layout;
use crate::format::record::{RecordBuilder, RecordKind, TAG_BYTES, Tag};
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::home::{Held, Outgoing, TableBytes};
use crate::layout::{JournalStore, PageStore};
use crate::log::HeaderFields;
use crate::planted::{Bug, is_planted};

/// Between two looks whether the log wants a checkpoint.
const LOG_WATCH_NS: u64 = 50_000_000;

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Starts a checkpoint unless one is running.
    pub(super) fn want_checkpoint(self: &Rc<Self>) {
        if self.write_back.checkpoint_running.replace(true) {
            return;
        }
        let inner = Rc::clone(self);
        self.env.spawn(async move {
            let _latched_already = Self::checkpoint(&inner).await;
            inner.write_back.checkpoint_running.set(false);
            inner.changed.all();
            Self::pump(&inner);
        });
    }

    /// Whether one is due.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        let (limits, device) = (self.admission.limits.get(), &self.home.device);
        let (waiting, logged_bytes) = (self.waiting(), self.log.used_bytes());
        let may_be_early = || {
            device.keeps_turns() && device.traits().unit_bytes.is_none() && self.write_back.writer.is_free()
        };
        limits.is_half_full(logged_bytes, waiting.dirty, waiting.uncovered)
            || (may_be_early() && self.write_back.due.is_early(limits.used(logged_bytes, waiting)))
    }

    /// Takes everything home that is committed when it begins.
    pub(super) async fn checkpoint(self: &Rc<Self>) -> Result<(), Error> {
        let turn = self.write_back.writer.take().await;
        let done = self.checkpoint_in_turn().await;
        drop(turn);
        if let Err(error) = &done {
            self.latch(error.clone());
        }
        done
    }

    /// As [`Self::checkpoint`], for whoever has the turn of writing home.
    pub(super) async fn checkpoint_in_turn(self: &Rc<Self>) -> Result<(), Error> {
        self.checkpoint_into(None).await
    }

    /// The same, after which the volume has the layout `next`.
    pub(super) async fn checkpoint_into(self: &Rc<Self>, next: Option<&Rc<Layout>>) -> Result<(), Error> {
        self.check_alive()?;
        self.write_back.due.begin(self.counters.log_bytes.get());
        let mut sums = self.home.table.hold_none();
        let (pages, stuck) = self.load_dirty(&mut sums).await?;
        let guard = self.to_the_end();
        self.admission.throttle.begin_drain(self.env.now_ns());
        let taken_home = self.take_home(&pages, stuck, &mut sums, next).await;
        guard.done();
        let each = self.admission.limits.get().used(1, Waiting { dirty: 1, writing: 0, uncovered: 0 });
        let stay = *taken_home.as_ref().unwrap_or(&0);
        let became_dirty = self.home.dirty_pages().saturating_sub(stay);
        self.write_back.due.end(self.counters.log_bytes.get(), became_dirty, each);
        if self.home.device.traits().defers_writes {
            self.note_fill();
        }
        if taken_home.is_err() {
            sums.keep(); // nobody knows which of them are home; what memory holds can still be read
        }
        taken_home.map(drop)
    }

    /// Takes these pages home, and moves the tail behind their changes. Those that are `stuck` stay in the log, and so do others
    /// that cannot go home; answers how many.
    async fn take_home(
        self: &Rc<Self>,
        pages: &[u64],
        mut stuck: Vec<u64>,
        sums: &mut Held<'_, H>,
        next: Option<&Rc<Layout>>,
    ) -> Result<usize, Error> {
        let through = self.log.acknowledged();
        let mut outgoing = self.home.take_outgoing(pages);
        let comes_in_parts = next.is_none() && stuck.is_empty() && self.comes_home_in_parts(&outgoing);
        if comes_in_parts {
            let (layout, unit_bytes) = (self.home.layout(), self.home.device.traits().unit_bytes);
            let unit_of =
                unit_bytes.map(|bytes| move |page: &Outgoing| layout.page_offset(page.page) / bytes);
            let unit_of = unit_of.as_ref().map(|it| it as &dyn Fn(&Outgoing) -> u64);
            let (step_pages, group_pages) = (self.homecoming_step_pages(), self.homecoming_group_pages());
            in_order_of_age(&mut outgoing, step_pages, group_pages, unit_of);
        }
        self.pump_soon(); // a commit that waited for frames has them now
        let table = self.announce(&outgoing, through, sums).await?;

        if let Some(next) = next {
            // Nobody knows of the new pages yet, so that nobody misses them if this does not come to its end.
            self.home.grow(Rc::clone(next));
        }
        let slot = self.superblocks.inactive_root();
        let root_sums = self.home.table.root_sums_now();
        if !self.home.device.traits().holds_superblocks {
            // A store with nothing to flush writes nothing of itself, and it is to know of the superblock before.
            self.home.table.rewrite_root_page(slot, 0);
        }
        let writes = self.begin_home_pages(&outgoing, &table, slot).await;
        let mut coming = Homecoming::new(outgoing);
        if comes_in_parts {
            self.give_back_as_they_come(&writes, &mut coming).await?;
        }
        let blocked = writes.all_done().await?;
        self.note_blocked(&blocked);
        for page in blocked.iter().filter_map(|&(place, _)| coming.stays(place)) {
            stuck.push(page.page);
            self.home.stays(page);
        }
        self.home.table.root_is_written();
        let is_flushed =
            next.is_none() || !(is_planted(Bug::GrowthUnflushed) || is_planted(Bug::RingGrowthUnflushed));
        if is_flushed && !is_planted(Bug::NoHomeFlush) && !is_planted(Bug::TailBeforeFlush) {
            self.home.device.flush(FlushScope::Whole).await?;
        }
        add(&self.counters.home_flushes, 1);

        if !stuck.is_empty() {
            self.carry(&stuck).await?;
        }
        if is_planted(Bug::RootInPlace) {
            self.write_root_at(1 - slot).await?;
        }
        let first_kept = if is_planted(Bug::TailTooLate) { through + 2 } else { through + 1 };
        let tail = self.log.position_of(first_kept);
        let acknowledged = self.log.acknowledged();
        let home_state = self.home.device.state();
        self.superblocks
            .advance(|superblock| {
                if let Some(next) = next {
                    superblock.grow(next.size());
                }
                superblock.root_slot = slot;
                superblock.whole_root_sum = None;
                superblock.root_sums = root_sums;
                superblock.move_tail(tail.offset, tail.sequence);
                superblock.acknowledged = acknowledged;
                superblock.home_state = home_state;
            })
            .await?;
        if is_planted(Bug::TailBeforeFlush) {
            self.home.device.flush(FlushScope::Whole).await?;
        }
        self.home.table.superblock_is_current();
        self.note_given_back(self.log.advance_tail(tail.sequence), true);
        let mut left = coming.into_left().peekable();
        while left.peek().is_some() {
            self.home.done_outgoing(left.by_ref().take(self.options.tuning.turn_pages_max));
            self.env.sleep(0).await;
        }
        if !self.home.device.traits().is_replicated {
            self.write_second_root().await?;
        }
        add(&self.counters.checkpoints, 1);
        Ok(stuck.len())
    }

    /// Tells of pages that cannot go home, once until all could.
    fn note_blocked(&self, blocked: &[(usize, DeviceError)]) {
        let first = blocked.first().map(|&(_, error)| error);
        if let Some(error) = first.filter(|_| self.write_back.blocked.get().is_none()) {
            self.events.note(Event::PagesStay { pages: blocked.len(), error });
        }
        self.write_back.blocked.set(first);
    }

    /// Whether room comes back as pages come home ([`super::homecoming`]). A log that is spread over the members has its
    /// superblocks in their turns: there it does not. Nor where a sum of this checkpoint, of a page or of a page of the table,
    /// is in a record that the tail would pass.
    fn comes_home_in_parts(&self, outgoing: &[Outgoing]) -> bool {
        self.home.device.traits().defers_writes
            && !self.log.is_scattered()
            && outgoing.iter().all(|page| page.logged_sum.is_none())
            && !self.home.table.has_logged()
    }

    /// Refuses with [`Error::Damaged`] where a page that is dirty now cannot go home. Nothing is written.
    pub(super) async fn check_all_can_go_home(self: &Rc<Self>) -> Result<(), Error> {
        let (_, stuck) = self.load_dirty(&mut self.home.table.hold_none()).await?;
        match stuck.first() {
            Some(&page) => Err(Error::Damaged { page }),
            None => Ok(()),
        }
    }

    /// Gives up what a checkpoint left of the log, and says so: everything is home, and nobody writes any more.
    pub(super) async fn empty_log(self: &Rc<Self>) -> Result<(), Error> {
        if self.home.dirty_pages() > 0 {
            return Ok(());
        }
        let _turn = self.write_back.writer.take().await;
        let _held = self.hold_commits().await?;
        self.check_alive()?;
        // A page that is damaged under its changes stays dirty: the log has the changes.
        if self.home.dirty_pages() > 0 {
            return Ok(());
        }
        let acknowledged = self.log.acknowledged();
        let tail = self.log.position_of(acknowledged + 1);
        self.superblocks
            .advance(|superblock| {
                superblock.move_tail(tail.offset, tail.sequence);
                superblock.acknowledged = acknowledged;
                superblock.is_closed = true;
            })
            .await?;
        self.log.advance_tail(tail.sequence);
        // A write from now on would belie the superblock. It is no failure.
        self.failure_told.set(true);
        self.latch(Error::Latched("it was closed".into()));
        Ok(())
    }

    /// Takes everything home as often as the log wants it, as long as there is a volume.
    pub(super) fn watch_log(self: &Rc<Self>) {
        if !self.log.is_scattered() {
            return;
        }
        let (weak, env) = (Rc::downgrade(self), self.env.clone());
        self.env.spawn(async move {
            loop {
                env.sleep(LOG_WATCH_NS).await;
                let Some(inner) = weak.upgrade() else { return };
                if inner.check_alive().is_err() {
                    return;
                }
                if inner.log.wants_checkpoint() {
                    inner.want_checkpoint();
                }
            }
        });
    }

    /// Makes every dirty page and its sum known; answers all pages that are dirty at the moment of its end, and apart
    /// from them those of which that cannot be done. The tail will pass every change up to then, so none may be
    /// left out. `held` keeps the sums.
    async fn load_dirty(self: &Rc<Self>, held: &mut Held<'_, H>) -> Result<(Vec<u64>, Vec<u64>), Error> {
        let mut stuck = BTreeSet::new();
        loop {
            self.finish_commits();
            self.check_alive()?;
            let (mut pages, mut unready, mut left) = (Vec::new(), Vec::new(), Vec::new());
            for (page, is_known) in self.home.dirty_list() {
                match is_known && held.hold_known(page) {
                    true => pages.push(page),
                    false if stuck.contains(&page) => left.push(page),
                    false => unready.push(page),
                }
            }
            if unready.is_empty() {
                return Ok((pages, left));
            }
            for run in runs(&unready) {
                if self.load_run(run.clone(), held).await.is_ok() {
                    continue;
                }
                for page in run {
                    if self.load_run(page..page + 1, held).await.is_err() {
                        stuck.insert(page);
                    }
                }
            }
            if is_planted(Bug::CheckpointByFirstList) {
                pages.append(&mut unready);
                return Ok((pages, left));
            }
        }
    }

    async fn load_run(&self, run: std::ops::Range<u64>, held: &mut Held<'_, H>) -> Result<(), Error> {
        self.home.load(run.start, run.end).await?;
        for page in run {
            held.load_for(page).await?;
        }
        Ok(())
    }

    /// Logs once more what is known of pages whose rest is damaged or cannot be read: they cannot go home until they
    /// are written whole, and the tail must not pass what was acknowledged of them. One bad page keeps no volume
    /// shut.
    async fn carry(self: &Rc<Self>, pages: &[u64]) -> Result<(), Error> {
        // Nothing else is committed meanwhile: this record must not bring back what a newer one with a lower number
        // has changed.
        let _held = self.hold_commits().await?;
        let mut builder = RecordBuilder::default();
        builder.clear();
        let known: Vec<_> =
            pages.iter().filter_map(|&page| Some((page, self.home.known_parts(page)?))).collect();
        for (page, parts) in &known {
            for (start, bytes) in parts {
                builder.tag(&Tag::Delta { page: *page, offset: *start, len: bytes.len() as u16 });
            }
        }
        for (_, bytes) in known.iter().flat_map(|(_, parts)| parts) {
            builder.payload(bytes.len()).copy_from_slice(bytes);
        }
        let limits = self.admission.allowed.get(); // as the volume is to be, where it grows
        let is_record_too_large = builder.bytes().len() as u64 > limits.carried_max;
        // Beyond this, commits might wait for frames that no checkpoint can free.
        if is_record_too_large || pages.len() > limits.stuck_pages_max() {
            return Err(Error::Damaged { page: pages[0] });
        }
        add(&self.counters.carried_pages, pages.len() as u64);
        self.append_control(HeaderFields { kind: RecordKind::Commit, through: 0 }, &mut builder)
            .await
            .map(|record| self.home.note_logged(pages, record))
    }

    /// Puts the new sums into the table and, durably, into the log; answers the table pages to write.
    async fn announce(
        self: &Rc<Self>,
        outgoing: &[Outgoing],
        through: u64,
        held: &mut Held<'_, H>,
    ) -> Result<Vec<(u64, TableBytes)>, Error> {
        let mut sums = Vec::with_capacity(outgoing.len());
        let turn_pages_max = self.options.tuning.turn_pages_max;
        for (number, page) in outgoing.iter().enumerate() {
            if number % turn_pages_max == turn_pages_max - 1 {
                self.env.sleep(0).await;
            }
            let sum = match page.logged_sum {
                Some(sum) => sum,
                None if page.empty && !is_planted(Bug::DiscardKeepsSum) => 0,
                None => page_sum(&page.bytes[..]),
            };
            self.home.table.set_sum(page.page, sum);
            sums.push(sum);
        }
        let table = self.home.table.take_dirty(held);
        let table_sums: Vec<u64> = table.iter().map(|(_, bytes)| page_sum(&bytes[..])).collect();
        let pages = || outgoing.iter().zip(&sums).filter(|(page, _)| page.logged_sum.is_none());
        let table_pages = || {
            let sums = table.iter().zip(&table_sums);
            sums.filter(|((number, _), sum)| !self.home.table.is_logged(*number, **sum))
        };
        let needs_image =
            |page: &Outgoing| self.admission.limits.get().needs_images && !page.empty && !page.covered;
        // The table comes last: before its page is there, recovery takes that from home, with the sums of the pages
        // that were announced. Pages without an image need none: the log holds all of them.
        let tag = |page: &Outgoing, sum| Tag::Page { page: page.page, sum };
        let images = pages().filter(|(page, _)| needs_image(page));
        let images =
            images.map(|(page, &sum)| Announced { tag: tag(page, sum), image: Some(&page.bytes[..]) });
        self.announce_all(RecordKind::Images, through, images).await?;
        let sums = pages().filter(|(page, _)| !needs_image(page)).map(|(page, &sum)| tag(page, sum));
        let table_tags = table_pages().map(|((number, _), &sum)| Tag::TablePage { page: *number, sum });
        if self.admission.limits.get().needs_images {
            self.announce_all(RecordKind::Sums, through, sums.map(Announced::from)).await?;
            let images = table_tags.zip(table_pages());
            let images = images.map(|(tag, ((_, bytes), _))| Announced { tag, image: Some(&bytes[..]) });
            self.announce_all(RecordKind::Images, through, images).await?;
        } else if is_planted(Bug::TableBeforePages) {
            self.announce_all(RecordKind::Sums, through, table_tags.chain(sums).map(Announced::from)).await?;
        } else {
            self.announce_all(RecordKind::Sums, through, sums.chain(table_tags).map(Announced::from)).await?;
        }
        Ok(table)
    }

    /// Logs what was announced in as many records as it takes: none so large that a commit would wait for it long.
    async fn announce_all<'a>(
        self: &Rc<Self>,
        kind: RecordKind,
        through: u64,
        announced: impl Iterator<Item = Announced<'a>>,
    ) -> Result<(), Error> {
        let mut announced = announced.peekable();
        let mut builder = RecordBuilder::default();
        let mut record = Vec::new();
        while announced.peek().is_some() && !is_planted(Bug::NoSums) {
            record.clear();
            let mut room = self.options.tuning.announced_max_bytes;
            while let Some(next) = announced.next_if(|next| record.is_empty() || next.len() <= room) {
                room = room.saturating_sub(next.len());
                record.push(next);
            }
            builder.clear();
            record.iter().for_each(|page| builder.tag(&page.tag));
            for image in record.iter().filter_map(|page| page.image) {
                builder.payload(PAGE).copy_from_slice(image);
            }
            self.append_control(HeaderFields { kind, through }, &mut builder).await?;
            if is_planted(Bug::OnePieceSaid) {
                break;
            }
        }
        Ok(())
    }

    /// Writes pages in their order, neighbours together, then the table's, and what a place of the root that does
    /// not count lacks; what begins in one unit of the store goes with the first page of it. Pages without contents are not written but given back. Not yet durably. All of it is begun before any of
    /// it is waited for, as far as the drive takes it: a ring's members get it in one turn each.
    async fn begin_home_pages<'a>(
        self: &'a Rc<Self>,
        outgoing: &[Outgoing],
        table: &[(u64, TableBytes)],
        root_slot: u8,
    ) -> HomeWrites<'a, E, A, H, L> {
        let (writes, layout) = (HomeWrites::new(self), self.home.layout());
        let is_split = is_planted(Bug::RunAcrossSegments);
        let unit_bytes = self.home.device.traits().unit_bytes;
        let unit_of = |page: &Outgoing| unit_bytes.map(|bytes| layout.page_offset(page.page) / bytes);
        let follows = |page: &Outgoing, next: &Outgoing| {
            let is_next = next.page == page.page + 1 && page.empty == next.empty;
            is_next && (is_split || layout.run_end(page.page, next.page + 1) > next.page)
        };
        let goes_with = |page: &Outgoing, next: &Outgoing| match unit_bytes {
            None => follows(page, next),
            Some(_) => page.empty == next.empty && unit_of(page) == unit_of(next),
        };
        // What is of one unit is not cut.
        let pages_min = unit_bytes.map_or(1, |bytes| (bytes / PAGE_BYTES) as usize);
        let pages_max = self.options.tuning.home_write_pages_max.max(pages_min);
        let mut sums_with_pages = match unit_bytes {
            Some(bytes) => self.sums_by_unit(table, root_slot, bytes),
            None => BTreeMap::new(),
        };
        let mut place = 0;
        for pages in outgoing.chunk_by(goes_with).flat_map(|pages| pages.chunks(pages_max)) {
            let places = place..place + pages.len();
            place = places.end;
            if pages[0].empty {
                continue;
            }
            let mut going: Vec<(u64, Run)> = match pages {
                [page] if is_planted(Bug::YieldTakesChanged) && self.home.is_known(page.page) => {
                    let changed = self.home.with_page(page.page, |bytes| bytes.to_vec());
                    vec![(layout.page_offset(page.page), Run::Bytes(changed))]
                }
                pages => {
                    let bytes = |run: &[Outgoing]| run.iter().map(|page| Rc::clone(&page.bytes)).collect();
                    let runs = pages.chunk_by(follows);
                    runs.map(|run| (layout.page_offset(run[0].page), Run::Pages(bytes(run)))).collect()
                }
            };
            add(&self.counters.home_bytes, pages.len() as u64 * PAGE_BYTES);
            going.extend(
                unit_of(&pages[0]).and_then(|unit| sums_with_pages.remove(&unit)).into_iter().flatten(),
            );
            writes.begin_places(Outbound::Runs(going), places).await;
        }
        for runs in sums_with_pages.into_values() {
            writes.begin(Outbound::Runs(runs)).await;
        }
        if unit_bytes.is_none() {
            for run in self.sums_going_home(table, root_slot) {
                writes.begin(Outbound::Runs(vec![run])).await;
            }
        }
        let mut empty: Vec<u64> = outgoing.iter().filter(|page| page.empty).map(|page| page.page).collect();
        empty.sort_unstable();
        let pages_max = self.options.tuning.discard_pages_max;
        for run in runs(&empty) {
            let mut first = run.start;
            while first < run.end {
                let end = run.end.min(first.saturating_add(pages_max));
                // Neighbours by their numbers need not be neighbours on the device.
                let end = if is_split { end } else { layout.run_end(first, end) };
                let places = Extent::new(layout.page_offset(first), (end - first) * PAGE_BYTES);
                writes.begin(Outbound::Nothing(places)).await;
                first = end;
            }
        }
        writes
    }

    /// What a checkpoint writes of the table, and of the place of the root that does not count.
    fn sums_going_home(
        &self,
        table: &[(u64, TableBytes)],
        root_slot: u8,
    ) -> impl Iterator<Item = (u64, Run)> {
        add(&self.counters.table_bytes, table.len() as u64 * PAGE_BYTES);
        let layout = self.home.layout();
        let of_table = move |(page, bytes): &(u64, TableBytes)| {
            (layout.table_offset(*page), Run::Table(Rc::clone(bytes)))
        };
        table.iter().map(of_table).chain(self.begin_root(root_slot))
    }

    /// The same, by the unit of the store in which it begins.
    fn sums_by_unit(
        &self,
        table: &[(u64, TableBytes)],
        root_slot: u8,
        unit_bytes: u64,
    ) -> BTreeMap<u64, Vec<(u64, Run)>> {
        let mut found: BTreeMap<u64, Vec<(u64, Run)>> = BTreeMap::new();
        for run in self.sums_going_home(table, root_slot) {
            found.entry(run.0 / unit_bytes).or_default().push(run);
        }
        found
    }
}

/// What a checkpoint says of one page before it writes it.
struct Announced<'a> {
    tag: Tag,
    image: Option<&'a [u8]>,
}

impl Announced<'_> {
    /// Bytes of it in a record.
    fn len(&self) -> usize {
        TAG_BYTES + self.image.map_or(0, <[u8]>::len)
    }
}

impl From<Tag> for Announced<'_> {
    fn from(tag: Tag) -> Self {
        Self { tag, image: None }
    }
}

/// Ascending numbers as runs of consecutive ones.
pub(super) fn runs(numbers: &[u64]) -> Vec<std::ops::Range<u64>> {
    let mut found: Vec<std::ops::Range<u64>> = Vec::new();
    for &number in numbers {
        match found.last_mut() {
            Some(run) if run.end == number => run.end += 1,
            _ => found.push(number..number + 1),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_hold_every_number_and_none_begins_where_another_ends(
            numbers in proptest::collection::btree_set(0..60_u64, 0..40),
        ) {
            let numbers: Vec<u64> = numbers.into_iter().collect();
            let found = runs(&numbers);
            prop_assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), numbers);
        }
    }
}
