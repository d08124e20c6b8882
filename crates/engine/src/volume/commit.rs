//! Group commit, without a timer: what is queued while a commit is under way joins the next.
//!
//! 1. Commits take effect in the frames in the order of their records, each once all before it are durable.
//! 2. A commit never takes log room that a checkpoint needs to make more.
//!
//! How many are under way at once follows from how long one takes. On a fast drive one at a time carries the most
//! writes for the least work. On a slow one a flush would wait for a commit that began just before it, and then take
//! as long again: there it begins at once, beside the others. Bulk takes part as [`super::pace`] says.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::Inner;
use super::limits::Waiting;
use super::record_cost::RecordCosts;
use crate::buffer::queue::Lane;
use crate::buffer::{Batch, BatchMax};
use crate::counters::add;
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::events::Event;
use crate::format::record::{RecordBuilder, RecordKind, record_bytes};
use crate::layout::{JournalStore, PageStore};
use crate::log::{HeaderFields, Slot};
use crate::notify::Line;
use crate::planted::{Bug, is_planted};

/// The group commit of a volume: what is under way, and who waits for it.
#[derive(Default)]
pub(super) struct GroupCommit {
    pub(super) commits: RefCell<Commits>,
    /// A ticket of this lane is durable, or never will be.
    pub(super) durable: [Line; 2],
    /// A task is about to start what commits it can.
    pub(super) pump_comes: Cell<bool>,
    /// What records take.
    pub(super) costs: RecordCosts,
}

/// Commits under way, and what is used again by the next.
#[derive(Default)]
pub(super) struct Commits {
    in_flight: VecDeque<Commit>,
    /// A batch that waits for room in the log.
    ready: Option<Batch>,
    idle_batches: Vec<Batch>,
    idle_builders: Vec<RecordBuilder>,
    /// None may begin.
    held: bool,
    /// Since when it waits.
    waiting_since_ns: Option<u64>,
    /// How long writing a record takes, as a moving mean.
    latency_ns: u64,
}

/// A wait for room that is told of.
const LONG_WAIT_NS: u64 = 1_000_000_000;

/// For each such time that a record takes to be durable, one more commit may be under way.
const SPACING_NS: u64 = 100_000;

/// Records over which the moving mean goes, about.
const MEAN_OVER: u64 = 8;

/// No commit is under way, and none begins.
pub(super) struct CommitsHeld<'a, E: Env, A: Arena, H: PageStore, L: JournalStore>(&'a Rc<Inner<E, A, H, L>>);

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Drop for CommitsHeld<'_, E, A, H, L> {
    fn drop(&mut self) {
        self.0.group_commit.commits.borrow_mut().held = false;
        self.0.pump_soon();
    }
}

struct Commit {
    sequence: u64,
    batch: Batch,
    /// Back from the log once the record is written.
    builder: Option<RecordBuilder>,
}

/// A commit that is to be written.
struct Begun {
    slot: Slot,
    builder: RecordBuilder,
    /// Bytes of its record.
    bytes: u64,
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Starts as many commits as may be under way.
    pub(super) fn pump(self: &Rc<Self>) {
        while self.log.failure().is_none() {
            let Some(begun) = self.begin_commit() else { return };
            let inner = Rc::clone(self);
            self.env.spawn(async move { inner.carry_out(begun).await });
        }
    }

    fn begin_commit(self: &Rc<Self>) -> Option<Begun> {
        let mut commits = self.group_commit.commits.borrow_mut();
        if commits.held || commits.in_flight.len() >= commits.useful_max(self.options.commits_in_flight_max) {
            return None;
        }
        let batch = match commits.ready.take() {
            Some(batch) => batch,
            None => self.next_batch(&mut commits)?,
        };
        let len = record_bytes(batch.tags.len(), batch.payload_bytes, self.log.sector_bytes()) as u64;
        let with_batch = commits.with_batch(self.waiting(), &batch);
        let defers_writes = self.home.device.traits().defers_writes;
        let has_frames = self.admission.limits.get().has_frames(with_batch, defers_writes);
        let slot =
            has_frames.then(|| self.log.reserve(len, self.admission.limits.get().commit_used_max)).flatten();
        let Some(slot) = slot else {
            add(&self.counters.log_waits, 1);
            commits.ready = Some(batch);
            commits.waiting_since_ns.get_or_insert_with(|| self.env.now_ns());
            let is_last = commits.in_flight.is_empty();
            drop(commits);
            if is_last {
                self.home.device.note_fill(1.0);
                self.want_checkpoint(); // else the end of the last commit asks again
            }
            return None;
        };
        if commits.waiting_since_ns.is_some() {
            let waited_ns = commits.waiting_ns(self.env.now_ns());
            commits.waiting_since_ns = None;
            if waited_ns >= LONG_WAIT_NS {
                add(&self.counters.long_waits, 1);
                self.events.note(Event::CommitsWaited { waited_ns });
            }
        }
        let mut builder = commits.idle_builders.pop().unwrap_or_default();
        builder.clear();
        for tag in &batch.tags {
            builder.tag(tag);
        }
        self.buffer.borrow().fill_payload(&batch, builder.payload(batch.payload_bytes));
        add(&self.counters.commits, 1);
        add(&self.counters.committed_units, batch.units.len() as u64);
        add(&self.counters.delta_bytes, batch.payload_bytes as u64);
        commits.in_flight.push_back(Commit { sequence: slot.sequence, batch, builder: None });
        Some(Begun { slot, builder, bytes: len })
    }

    fn next_batch(&self, commits: &mut Commits) -> Option<Batch> {
        let mut buffer = self.buffer.borrow_mut();
        let now_ns = self.env.now_ns();
        let bulk_under_way = commits.in_flight.iter().any(|commit| commit.batch.has_bulk());
        let bulk_bytes = match bulk_under_way && self.write_back.pace.is_shared(now_ns) {
            true => 0,
            false => self.write_back.pace.bulk_max_bytes(now_ns, self.options.batch_max_bytes),
        };
        if !buffer.has_queued(bulk_bytes > 0) {
            return None;
        }
        let mut batch = commits.idle_batches.pop().unwrap_or_default();
        let pages = self.admission.allowed.get().batch_pages_max();
        let most = BatchMax { bytes: self.options.batch_max_bytes, bulk_bytes, pages };
        buffer.take_batch(most, &mut batch);
        if batch.has_small() {
            self.write_back.pace.note_small(now_ns);
        }
        Some(batch)
    }

    async fn carry_out(self: Rc<Self>, Begun { slot, mut builder, bytes }: Begun) {
        let meaning = HeaderFields { kind: RecordKind::Commit, through: 0 };
        let (began_ns, began) = (self.env.now_ns(), self.write_back.pace.quiet());
        let began_alone = self.is_record_alone();
        let written = self.log.write(slot, meaning, &mut builder).await;
        let now_ns = self.env.now_ns();
        let took_ns = now_ns.saturating_sub(began_ns);
        self.write_back.pace.note_record(began, took_ns);
        let is_alone = began_alone && self.is_record_alone() && self.write_back.pace.has_been_quiet(began);
        if is_alone && written.is_ok() {
            let step = self.group_commit.costs.note(now_ns, bytes, took_ns);
            step.into_iter().for_each(|step| self.events.note(step));
        }
        let mut commits = self.group_commit.commits.borrow_mut();
        commits.note_latency(took_ns);
        if let Some(commit) = commits.in_flight.iter_mut().find(|commit| commit.sequence == slot.sequence) {
            commit.builder = Some(builder);
        }
        drop(commits);
        match written {
            Ok(()) => self.finish_commits(),
            Err(_) => self.tell_failure(),
        }
    }

    /// Whether one record is under way, and no checkpoint, which flushes and moves the tail behind its last page.
    fn is_record_alone(&self) -> bool {
        self.group_commit.commits.borrow().in_flight.len() == 1 && self.write_back.writer.is_free()
    }

    /// Waits until no commit is under way, and keeps it so.
    pub(super) async fn hold_commits(self: &Rc<Self>) -> Result<CommitsHeld<'_, E, A, H, L>, Error> {
        self.group_commit.commits.borrow_mut().held = true;
        let held = CommitsHeld(self);
        self.changed
            .until(|| match self.log.failure() {
                Some(_) => Some(self.check_alive()),
                None => self.group_commit.commits.borrow().in_flight.is_empty().then_some(Ok(())),
            })
            .await?;
        Ok(held)
    }

    /// Gives effect to every commit that is durable now, in order.
    pub(super) fn finish_commits(self: &Rc<Self>) {
        let mut finished = false;
        // Whoever waits for any of them is told behind this.
        self.buffer.borrow_mut().note_acknowledged(self.log.acknowledged());
        loop {
            let mut commits = self.group_commit.commits.borrow_mut();
            let is_durable = |commit: &Commit| commit.sequence <= self.log.acknowledged();
            let mut next = commits.in_flight.front().is_some_and(is_durable).then_some(0);
            if is_planted(Bug::AppliedUnordered) {
                next = commits.in_flight.iter().position(|commit| commit.builder.is_some());
            }
            let Some(commit) = next.and_then(|next| commits.in_flight.remove(next)) else { break };
            let builder = commit.builder.expect("an acknowledged record is written");
            self.home.apply(&commit.batch.tags, builder.payload_written(), commit.sequence);
            self.buffer.borrow_mut().complete(&commit.batch);
            commits.idle_batches.push(commit.batch);
            commits.idle_builders.push(builder);
            finished = true;
        }
        if finished {
            self.changed.all();
            let durable = self.buffer.borrow().durable();
            Lane::ALL
                .into_iter()
                .for_each(|lane| self.group_commit.durable[lane as usize].through(durable.of(lane)));
            self.note_fill();
            if self.is_checkpoint_due() {
                self.want_checkpoint();
            }
            self.pump_soon();
        }
    }

    /// As [`Self::pump`], once every task that is ready had its turn: else the first of those who were told of the
    /// last commit would be committed alone when it writes again, and the others after it.
    pub(super) fn pump_soon(self: &Rc<Self>) {
        if self.group_commit.pump_comes.replace(true) {
            return;
        }
        let inner = Rc::clone(self);
        self.env.spawn(async move {
            inner.env.sleep(0).await;
            inner.group_commit.pump_comes.set(false);
            inner.pump();
        });
    }

    /// Appends a record that is not a commit, from the room kept for it.
    pub(super) async fn append_control(
        self: &Rc<Self>,
        meaning: HeaderFields,
        builder: &mut RecordBuilder,
    ) -> Result<u64, Error> {
        let len = builder.bytes().len().next_multiple_of(self.log.sector_bytes()) as u64;
        let Some(slot) = self.log.reserve(len, u64::MAX) else {
            return Err(Error::Unusable("the log is too small for its checkpoint".to_owned()));
        };
        let guard = self.to_the_end();
        let written = self.log.write(slot, meaning, builder).await;
        guard.done();
        written?;
        self.finish_commits();
        self.log.wait_acknowledged(slot.sequence).await?;
        self.finish_commits();
        Ok(slot.sequence)
    }
}

impl Commits {
    /// Whether none is under way, nor waits for room.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.ready.is_none()
    }

    /// For how long a batch has been waiting for room.
    pub(super) fn waiting_ns(&self, now_ns: u64) -> u64 {
        self.waiting_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }

    fn note_latency(&mut self, took_ns: u64) {
        self.latency_ns = (self.latency_ns * (MEAN_OVER - 1) + took_ns) / MEAN_OVER;
    }

    /// How many under way at once are of use.
    fn useful_max(&self, allowed_max: usize) -> usize {
        let useful = usize::try_from(self.latency_ns / SPACING_NS).unwrap_or(usize::MAX);
        useful.clamp(1, allowed_max.max(1))
    }

    /// What waits for a checkpoint once `batch` and the commits under way have taken effect.
    fn with_batch(&self, waiting: Waiting, batch: &Batch) -> Waiting {
        let batches = self.in_flight.iter().map(|commit| &commit.batch).chain([batch]);
        batches.fold(waiting, |waiting, batch| Waiting {
            dirty: waiting.dirty + batch.pages,
            uncovered: waiting.uncovered + batch.partial_pages,
            ..waiting
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Limits;
    use super::*;

    #[test]
    fn the_longer_a_record_takes_the_more_of_them_are_under_way() {
        let useful_after = |took_ns: u64, records: usize, allowed_max: usize| {
            let mut commits = Commits::default();
            (0..records).for_each(|_| commits.note_latency(took_ns));
            commits.useful_max(allowed_max)
        };
        assert_eq!((useful_after(0, 0, 9), useful_after(20_000, 100, 9)), (1, 1));
        assert_eq!(useful_after(1_000_000, 1, 9), 1, "one of eight that the mean goes over");
        assert_eq!((useful_after(1_000_000, 100, 99), useful_after(1_000_000, 8, 99)), (9, 6));
        assert_eq!((useful_after(1_000_000, 100, 4), useful_after(1_000_000, 100, 0)), (4, 1));
    }

    #[test]
    fn a_commit_needs_frames_beside_those_that_wait_and_those_of_all_commits_under_way() {
        let changing = |pages, partial_pages| {
            let mut batch = Batch::default();
            (batch.pages, batch.partial_pages) = (pages, partial_pages);
            batch
        };
        let mut commits = Commits::default();
        for (sequence, batch) in [(1, changing(5, 2)), (2, changing(7, 4))] {
            commits.in_flight.push_back(Commit { sequence, batch, builder: None });
        }
        let limits = Limits::of(64 << 20, 512, 1, true, 128 << 10);
        let (pages_max, images_max) = (limits.dirty_pages_max, limits.image_pages_max);
        let has_frames = |dirty, uncovered| {
            let waiting = Waiting { dirty, writing: 0, uncovered };
            limits.has_frames(commits.with_batch(waiting, &changing(9, 3)), false)
        };
        assert!(has_frames(pages_max - 21, images_max - 9), "they are just enough");
        assert!(!has_frames(pages_max - 20, images_max - 9), "one page too many");
        assert!(!has_frames(pages_max - 21, images_max - 8), "one image too many");
    }
}
