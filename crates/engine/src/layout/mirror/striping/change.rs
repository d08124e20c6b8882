//! A change of a stripe: its rows are read, laid over with what is new and encoded; logged; and written to each member in its
//! turn.

use std::cell::Cell;
use std::rc::Rc;

use super::super::stripe_log::{ENOSPC, Entry};
use super::super::{Inner, MirrorPages};
use super::Striping;
use super::pending::Pending;
use super::right_page::Care;
use super::row_write::RowWrite;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::ring_head::Mark;
use crate::format::stripe_record::ShardRange;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::layout::{NotWritten, PlacedWrite};
use crate::planted::{Bug, is_planted};
use crate::ring::copying::Writing;
use crate::ring::{Change, Ticket};

impl<E: Env, M: Drive> Inner<E, M> {
    /// Writes to the stripes there; answers the last of the numbers that its changes have.
    pub(in crate::layout::mirror) async fn write_stripes(
        &self,
        striping: &Striping,
        writes: &[PlacedWrite<'_>],
    ) -> Result<u64, NotWritten> {
        self.ring.check_alive()?;
        let (failure, last) = (Cell::new(None), Cell::new(0));
        join::all(RowWrite::all_of(&striping.stripes, writes).iter().map(|change| {
            let (failure, last) = (&failure, &last);
            async move {
                let writing = self.copies.begin_write(change.runs()).await;
                match self.change_stripe(striping, change, writing, Care::RightBytes).await {
                    Ok(number) => last.set(number.max(last.get())),
                    Err(failed @ NotWritten::Failed(_)) => failure.set(Some(failed)),
                    Err(blocked) => failure.set(failure.get().or(Some(blocked))),
                }
            }
        }))
        .await;
        failure.take().map_or(Ok(last.get()), Err)
    }

    /// What changes of the shards, and the new bytes of that, one after the other.
    async fn changed_shards(
        &self,
        striping: &Striping,
        change: &RowWrite<'_>,
        care: Care,
    ) -> Result<(Vec<ShardRange>, Vec<u8>), DeviceError> {
        let data = self.data_rows(striping, change, care).await?;
        // Where too few members were left meanwhile, a page that could not be read is not one that nobody needs.
        if !is_planted(Bug::StripesChangedByFew) {
            self.ring.check_alive()?;
        }
        let parity = self.encode_rows(striping, change, &data.shards)?;
        let shards: Vec<&[u8]> = data.shards.iter().chain(&parity).map(Vec::as_slice).collect();
        let ranges = change.ranges(&striping.stripes, |page| data.is_put_again(page));
        let hull_start = change.hull().offset - change.stripe * striping.stripes.shard_bytes();
        let mut body = Vec::with_capacity(ranges.iter().map(|range| range.len as usize).sum());
        for range in &ranges {
            let at = (range.within - hull_start) as usize;
            body.extend_from_slice(&shards[range.number][at..at + range.len as usize]);
        }
        Ok((ranges, body))
    }

    /// Changes a stripe with these bytes. Once the change is in the stripe log it is carried out to its end: where that is given
    /// up, nothing more is changed in this opening, and the next one writes it home.
    ///
    /// It is blocked where other data of its rows is lost for now: parity without that would be the end of it, though a member
    /// may come back that has it.
    pub(super) async fn change_stripe(
        &self,
        striping: &Striping,
        change: &RowWrite<'_>,
        writing: Writing,
        care: Care,
    ) -> Result<u64, NotWritten> {
        let (stripes, stripe) = (striping.stripes, change.stripe);
        debug_assert_eq!(writing.extents(), change.runs(), "a change locks its rows");
        let shard_start = stripe * stripes.shard_bytes();
        self.ring.check_alive()?;
        let (ranges, body) = match self.changed_shards(striping, change, care).await {
            Ok(changed) => changed,
            Err(error) => {
                self.ring.check_alive()?;
                return Err(NotWritten::Blocked(error));
            }
        };
        let record = self.log_change(striping, stripe, &ranges, &body).await?;
        let unended = striping.log.unended();
        self.ring.check_alive()?;

        let pending = Rc::new(Pending { stripe, ranges, body });
        striping.begin_pending(&pending, change.runs());
        let sequence = self.progress.issued.get() + 1;
        self.progress.issued.set(sequence);
        striping.log.note_write(record, Mark { epoch: self.opening.epoch.get(), through: sequence });
        change.runs().iter().for_each(|rows| self.dirty.note(*rows, sequence));
        // All at once: every member has the writes in the same order, also those to which it is nothing.
        let shard_of = |place| {
            let number = stripes.shard_on(stripe, place).number;
            pending.shards().filter(move |(range, _)| range.number == number)
        };
        let tickets: Vec<(usize, Ticket)> = self
            .ring
            .taking_part()
            .map(|(place, member)| {
                let len = shard_of(place).map(|(range, _)| range.len).sum();
                (place, member.gate.enqueue(sequence, len))
            })
            .collect();
        self.ring.changed.all();
        join::all(tickets.into_iter().map(|(place, ticket)| {
            let writes: Vec<_> = shard_of(place).collect();
            async move {
                if ticket.turn().await {
                    for (range, bytes) in writes {
                        let extent = Extent::new(shard_start + range.within, range.len);
                        self.ring.change_or_fail(place, extent, Change::Write(&[bytes])).await;
                    }
                }
                ticket.done();
                self.ring.changed.all();
            }
        }))
        .await;
        striping.end_pending(&pending);
        unended.end();
        drop(writing);
        self.ring.check_alive()?;
        Ok(sequence)
    }

    /// Makes a change durable in the stripe log, where there is room for it: it waits for that.
    pub(super) async fn log_change(
        &self,
        striping: &Striping,
        stripe: u64,
        ranges: &[ShardRange],
        body: &[u8],
    ) -> Result<u64, DeviceError> {
        loop {
            let entry = Entry { stripe, ranges, body };
            let coming = self.coming(striping);
            if let Some(record) = striping.log.append(entry, self.progress.flushed.get()).await? {
                return Ok(record);
            }
            drop(coming);
            let free = async |_: Vec<()>| self.free_log(striping).await;
            striping.room.join((), || self.ring.check_alive(), free).await?;
        }
    }

    /// Gives room in the stripe log back: what it holds is made durable on the members.
    pub(super) async fn free_log(&self, striping: &Striping) -> Result<(), DeviceError> {
        let oldest = striping.log.oldest();
        striping.log.oldest_is_numbered().await?;
        self.flush().await?;
        striping.log.tell(self.progress.flushed.get()).await?;
        let is_stuck = oldest.is_some() && striping.log.oldest() == oldest;
        match is_stuck {
            false => Ok(()),
            true => Err(DeviceError { doing: "find room in the log of stripes", errno: ENOSPC }),
        }
    }

    /// Gives each row there one version again, of which a page cannot be read that nobody needs.
    ///
    /// # Errors
    ///
    /// That of the first row that cannot be given one; the others have one.
    pub(in crate::layout::mirror) async fn mend_rows(
        &self,
        striping: &Striping,
        rows: Extent,
    ) -> Result<(), DeviceError> {
        let mut mended = Ok(());
        for offset in (rows.offset..rows.end()).step_by(PAGE) {
            let row = Extent::new(offset, PAGE_BYTES);
            let writing = self.copies.begin_write(&[row]).await;
            let nothing = RowWrite::of_nothing(striping.stripes.stripe_on_member(offset), row);
            let changed = self.change_stripe(striping, &nothing, writing, Care::EachMember).await;
            mended = mended.and(changed.map(drop).map_err(DeviceError::from));
        }
        mended
    }
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// Puts bytes once more where they belong, and parity by them. Nobody waits for it: whoever asks may be about to change
    /// the same rows. Where somebody writes, what is wrong is written with that.
    pub(in crate::layout::mirror) fn repair_stripes(&self, striping: &Striping, offset: u64, bytes: &[u8]) {
        // Beside a page that is wrong and not known to be, parity would become that of the wrong one.
        if self.0.verifier.borrow().is_none() {
            return;
        }
        let write = [PlacedWrite { offset, parts: vec![bytes] }];
        for change in RowWrite::all_of(&striping.stripes, &write) {
            // From now on, or not at all: later the bytes may be old.
            let Some(writing) = self.0.copies.try_write(change.runs()) else { continue };
            let Some(mend) = self.begin_mend() else { return };
            let (bytes, stripe, rows) = (bytes.to_vec(), change.stripe, change.hull());
            self.0.ring.env.spawn_background(async move {
                let inner = &*mend.ring().0;
                let (Some(striping), Some(_at_work)) = (&inner.striping, inner.ring.begin_work()) else {
                    return;
                };
                let write = [PlacedWrite { offset, parts: vec![&bytes] }];
                let changes = RowWrite::all_of(&striping.stripes, &write);
                let is_this = |it: &&RowWrite<'_>| (it.stripe, it.hull()) == (stripe, rows);
                let Some(change) = changes.iter().find(is_this) else { return };
                // All that is wrong of the rows: a repair of another shard finds them taken. What members cannot take they
                // fail for; what the log cannot, it says itself.
                let _told = inner.change_stripe(striping, change, writing, Care::EachMember).await;
            });
        }
    }
}
