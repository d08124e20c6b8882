//! Stripes over the members: what is read, written and put once more where each member holds a part.
//!
//! 1. A change of a stripe is one write of the ring: the data shards and all parity shards, each on its member in its turn.
//!    It is in the stripe log before ([`super::stripe_log`]).
//! 2. Of two changes of the same rows the second begins when the first has ended. So members in sync hold one version of a row,
//!    or a change of it is under way, of which all new bytes are in memory.
//! 3. What a member holds that is not to be read is computed from K others of one version: what is under way is taken from
//!    memory. Where a change began meanwhile, it is read again.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use evenkeel_erasure::Code;

use super::stripe_log::{ENOSPC, Entry, Found as Logged, StripeLog};
use super::{Inner, MirrorPages, mark_of};
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::ring_head::Mark;
use crate::format::stripe_record::ShardRange;
use crate::format::stripes::Stripes;
use crate::format::superblock::StoreState;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::layout::Expected;
use crate::layout::erasure::geometry::{Piece, Shard};
use crate::planted::{Bug, is_planted};
use crate::ring::copying::Writing;
use crate::ring::{Change, EIO, Ticket};
use crate::shared_step::SharedStep;

/// What a ring with stripes has beside that of a mirror.
pub(super) struct Striping {
    pub(super) stripes: Stripes,
    pub(super) code: Code,
    pub(super) log: StripeLog,
    /// Room in the log comes back for all who wait for it.
    room: SharedStep<()>,
    /// Changes that not all members have.
    pending: RefCell<Vec<Rc<Pending>>>,
    /// Reads that compute what a member holds.
    computing: RefCell<Vec<Rc<Computing>>>,
}

/// A change under way: the new bytes of some shards.
struct Pending {
    stripe: u64,
    shards: Vec<(ShardRange, Vec<u8>)>,
}

/// Why a shard is computed: who is asked, and when.
#[derive(Clone, Copy)]
pub(super) enum Reason {
    /// Its member has its turn: for no longer than that.
    InTurn,
    /// Its member cannot be read.
    Lacking,
    /// To see it as others have it, those last that are left out, a bit each: each of them when it is in nobody's way.
    Version(u64),
}

/// What a page of a data shard holds.
enum Found {
    /// These bytes.
    Page([u8; PAGE]),
    /// These, and its member is to be given them.
    Instead([u8; PAGE]),
    /// Nobody can read it, and it is not known that anybody needs it.
    NothingNeeded,
}

const UNKNOWN: DeviceError = DeviceError { doing: "read what a stripe holds", errno: EIO };

impl Found {
    fn page(self) -> Result<[u8; PAGE], DeviceError> {
        match self {
            Self::Page(page) | Self::Instead(page) => Ok(page),
            Self::NothingNeeded => Err(UNKNOWN),
        }
    }
}

struct Computing {
    /// From the begin of the members' shards.
    rows: Extent,
    is_spoiled: Cell<bool>,
}

impl Striping {
    pub(super) fn new(stripes: Stripes) -> Self {
        let code = Code::new(stripes.data(), stripes.parity()).expect("a shape of stripes is one of a code");
        Self {
            stripes,
            code,
            log: StripeLog::default(),
            room: SharedStep::default(),
            pending: RefCell::default(),
            computing: RefCell::default(),
        }
    }

    /// The rows that a change of these bytes of one stripe is of.
    fn rows(&self, part: Extent) -> Extent {
        hull(&self.stripes.pieces(part).collect::<Vec<_>>())
    }

    /// The new bytes of a page of a shard, where a change of it is under way.
    fn pending_page(&self, shard: Shard, within: u64) -> Option<[u8; PAGE]> {
        if is_planted(Bug::StripesMixVersions) {
            return None;
        }
        let pending = self.pending.borrow();
        let ranges = pending.iter().filter(|it| it.stripe == shard.stripe).flat_map(|it| &it.shards);
        let mut found = ranges.filter(|(range, _)| range.number == shard.number);
        let (range, bytes) =
            found.find(|(range, _)| (range.within..range.within + range.len).contains(&within))?;
        bytes[(within - range.within) as usize..][..PAGE].try_into().ok()
    }

    /// Ways to get a page: from its member, and from others with each choice of as many left out as may be lost beside it.
    pub(super) fn versions(&self) -> usize {
        let (others, out) = (self.stripes.members() - 1, self.stripes.parity() - 1);
        1 + (0..out).fold(1, |ways, step| ways * (others - step) / (step + 1))
    }

    /// The shards that the choice of this number leaves out, a bit each, of those beside `number`.
    fn left_out(&self, number: usize, choice: usize) -> u64 {
        let out = self.stripes.parity() as u32 - 1;
        let all = 0u64..1 << self.stripes.members();
        let mut choices = all.filter(|bits| bits.count_ones() == out && bits >> number & 1 == 0);
        choices.nth(choice).unwrap_or(0)
    }

    fn begin_pending(&self, pending: &Rc<Pending>, rows: Extent) {
        self.pending.borrow_mut().push(Rc::clone(pending));
        for computing in self.computing.borrow().iter().filter(|it| it.rows.overlaps(&rows)) {
            computing.is_spoiled.set(true);
        }
    }

    fn end_pending(&self, pending: &Rc<Pending>) {
        self.pending.borrow_mut().retain(|it| !Rc::ptr_eq(it, pending));
    }
}

/// The least rows, from the begin of the members' shards, that hold all of these.
fn hull(pieces: &[Piece]) -> Extent {
    let first = pieces.iter().map(|piece| piece.on_member.offset).min().unwrap_or(0);
    let end = pieces.iter().map(|piece| piece.on_member.end()).max().unwrap_or(0);
    Extent::new(first, end - first)
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// As [`Ring::member_bytes`].
    pub(super) fn member_bytes(&self, size_bytes: u64) -> u64 {
        self.ring.member_bytes(size_bytes)
    }

    /// Writes to the stripes there; answers the last of the numbers that its changes have, one for each stripe.
    pub(super) async fn write_stripes(
        &self,
        striping: &Striping,
        extent: Extent,
        parts: &[&[u8]],
    ) -> Result<u64, DeviceError> {
        let bytes = parts.concat();
        let (failure, last) = (Cell::new(None), Cell::new(0));
        let change = |(stripe, part): (u64, Extent)| {
            let at = (part.offset - extent.offset) as usize;
            let (bytes, failure, last) = (&bytes[at..at + part.len as usize], &failure, &last);
            async move {
                let writing = self.copies.begin_write(striping.rows(part)).await;
                match self.change_stripe(striping, stripe, part, bytes, writing).await {
                    Ok(number) => last.set(number.max(last.get())),
                    Err(error) => failure.set(Some(error)),
                }
            }
        };
        join::all(striping.stripes.by_stripe(extent).map(change)).await;
        failure.take().map_or(Ok(last.get()), Err)
    }

    async fn change_stripe(
        &self,
        striping: &Striping,
        stripe: u64,
        part: Extent,
        bytes: &[u8],
        writing: Writing,
    ) -> Result<u64, DeviceError> {
        let stripes = striping.stripes;
        let pieces: Vec<Piece> = stripes.pieces(part).collect();
        let rows = writing.extent();
        let shard_start = stripe * stripes.shard_bytes();
        self.ring.check_alive()?;
        // What the row holds, with what changes.
        let mut data = Vec::with_capacity(stripes.data());
        // Shards of which something is wrong that nobody writes now: parity is to be that of what is there.
        let mut is_harmed = Vec::with_capacity(stripes.data());
        for number in 0..stripes.data() {
            let (mut row, mut is_row_harmed) = (vec![0; rows.len as usize], false);
            let shard = Shard { stripe, number };
            let is_whole = pieces.iter().any(|piece| piece.shard == shard && piece.on_member == rows);
            if !is_whole {
                for (page, offset) in row.chunks_exact_mut(PAGE).zip((rows.offset..).step_by(PAGE)) {
                    let is_overwritten = |piece: &&Piece| {
                        piece.shard == shard && piece.on_member.holds(&Extent::new(offset, PAGE_BYTES))
                    };
                    if pieces.iter().find(is_overwritten).is_none() {
                        let (is_wrong, right) = match self.right_page(striping, shard, offset).await? {
                            Found::Page(page) => (false, page),
                            Found::Instead(page) => (true, page),
                            // Nobody needs what it held: from now on it holds something again.
                            Found::NothingNeeded => (true, [0; PAGE]),
                        };
                        page.copy_from_slice(&right);
                        is_row_harmed |= is_wrong;
                    }
                }
            }
            for piece in pieces.iter().filter(|piece| piece.shard == shard) {
                let at = (piece.on_member.offset - rows.offset) as usize;
                let from = (piece.extent.offset - part.offset) as usize;
                let len = piece.extent.len as usize;
                row[at..at + len].copy_from_slice(&bytes[from..from + len]);
            }
            data.push(row);
            is_harmed.push(is_row_harmed);
        }
        let parity = self.encode(striping, &data, rows.len)?;
        let mut shards: Vec<(ShardRange, Vec<u8>)> = Vec::new();
        for (number, row) in data.into_iter().enumerate() {
            let piece = pieces.iter().find(|piece| piece.shard.number == number);
            let range = match (piece, is_harmed[number]) {
                (_, true) => rows,
                (Some(piece), false) => piece.on_member,
                (None, false) => continue,
            };
            let at = (range.offset - rows.offset) as usize;
            let bytes = row[at..at + range.len as usize].to_vec();
            let within = range.offset - shard_start;
            shards.push((ShardRange { number, within, len: range.len }, bytes));
        }
        for (number, bytes) in (stripes.data()..).zip(parity) {
            shards.push((ShardRange { number, within: rows.offset - shard_start, len: rows.len }, bytes));
        }
        let ranges: Vec<ShardRange> = shards.iter().map(|(range, _)| *range).collect();
        let body = shards.iter().map(|(_, bytes)| &bytes[..]).collect::<Vec<_>>().concat();
        let record = self.log_change(striping, stripe, &ranges, &body).await?;
        self.ring.check_alive()?;

        let pending = Rc::new(Pending { stripe, shards });
        striping.begin_pending(&pending, rows);
        let sequence = self.progress.issued.get() + 1;
        self.progress.issued.set(sequence);
        striping.log.note_write(record, Mark { epoch: self.opening.epoch.get(), through: sequence });
        self.dirty.note(rows, sequence);
        // All at once: every member has the writes in the same order, also those to which it is nothing.
        let shard_of = |place| {
            let number = stripes.shard_on(stripe, place).number;
            pending.shards.iter().filter(move |(range, _)| range.number == number)
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
        drop(writing);
        self.ring.check_alive().map(|()| sequence)
    }

    /// Makes a change durable in the stripe log, where there is room for it: it waits for that.
    async fn log_change(
        &self,
        striping: &Striping,
        stripe: u64,
        ranges: &[ShardRange],
        body: &[u8],
    ) -> Result<u64, DeviceError> {
        loop {
            let entry = Entry { stripe, ranges, body };
            if let Some(record) = striping.log.append(entry, self.progress.flushed.get()).await? {
                return Ok(record);
            }
            let free = async |_: Vec<()>| self.free_log(striping).await;
            striping.room.join((), || self.ring.check_alive(), free).await?;
        }
    }

    /// Gives room in the stripe log back: what it holds is made durable on the members.
    async fn free_log(&self, striping: &Striping) -> Result<(), DeviceError> {
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

    pub(super) fn encode(
        &self,
        striping: &Striping,
        data: &[Vec<u8>],
        len: u64,
    ) -> Result<Vec<Vec<u8>>, DeviceError> {
        let mut parity = vec![vec![0; len as usize]; striping.stripes.parity()];
        let inputs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        let encoded = striping.code.encode(&inputs, &mut outputs);
        encoded.map_err(|_| DeviceError { doing: "encode a stripe", errno: EIO })?;
        Ok(parity)
    }

    /// Fills `into` from the stripes there.
    pub(super) async fn read_stripes(
        &self,
        striping: &Striping,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut rest = into;
        for piece in striping.stripes.pieces(Extent::new(offset, rest.len() as u64)) {
            let (this, next) = rest.split_at_mut(piece.extent.len as usize);
            self.read_shard(striping, piece.shard, piece.on_member, this).await?;
            rest = next;
        }
        Ok(())
    }

    /// Fills `into` with some rows of a shard: from its member, or from others where that one writes or cannot. Answers
    /// whether it was from others.
    pub(super) async fn read_shard(
        &self,
        striping: &Striping,
        shard: Shard,
        rows: Extent,
        into: &mut [u8],
    ) -> Result<bool, DeviceError> {
        let place = striping.stripes.place_of(shard);
        let is_read_around = !self.is_idle(place) && self.idle_members(striping) >= striping.stripes.data();
        if is_read_around && self.compute_shard(striping, shard, rows, Reason::InTurn, into).await.is_ok() {
            return Ok(true);
        }
        let mut failure = None;
        if self.ring.members[place].is_in_sync() {
            match self.ring.read_from(place, rows.offset, into).await {
                Ok(()) => return Ok(false),
                Err(error) => failure = Some(error),
            }
        }
        let computed = self.compute_shard(striping, shard, rows, Reason::Lacking, into).await;
        computed.map(|()| true).map_err(|error| failure.unwrap_or(error))
    }

    /// Fills `into` with some rows of a shard as others have them, without its own member.
    pub(super) async fn compute_shard(
        &self,
        striping: &Striping,
        shard: Shard,
        rows: Extent,
        reason: Reason,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut offset = rows.offset;
        let mut rest = into;
        while !rest.is_empty() {
            let len = (PAGE_BYTES - offset % PAGE_BYTES).min(rest.len() as u64) as usize;
            let (this, next) = rest.split_at_mut(len);
            let page = self.compute_page(striping, shard, offset / PAGE_BYTES * PAGE_BYTES, reason).await?;
            this.copy_from_slice(&page[(offset % PAGE_BYTES) as usize..][..len]);
            (offset, rest) = (offset + len as u64, next);
        }
        Ok(())
    }

    async fn compute_page(
        &self,
        striping: &Striping,
        shard: Shard,
        offset: u64,
        reason: Reason,
    ) -> Result<[u8; PAGE], DeviceError> {
        loop {
            let rows = Extent::new(offset, PAGE_BYTES);
            let computing = Rc::new(Computing { rows, is_spoiled: Cell::default() });
            striping.computing.borrow_mut().push(Rc::clone(&computing));
            let computed = self.compute_once(striping, shard, offset, reason).await;
            striping.computing.borrow_mut().retain(|it| !Rc::ptr_eq(it, &computing));
            if !computing.is_spoiled.get() || is_planted(Bug::StripesMixVersions) {
                return computed;
            }
        }
    }

    async fn compute_once(
        &self,
        striping: &Striping,
        shard: Shard,
        offset: u64,
        reason: Reason,
    ) -> Result<[u8; PAGE], DeviceError> {
        let stripes = striping.stripes;
        let within = offset - shard.stripe * stripes.shard_bytes();
        let mut present: Vec<(usize, [u8; PAGE])> = Vec::new();
        let of = |number| Shard { stripe: shard.stripe, number };
        let mut wanted: Vec<usize> =
            (0..stripes.members()).filter(|&number| number != shard.number).collect();
        // First what is in memory, then who is not busy, then data.
        let left_out = if let Reason::Version(left_out) = reason { left_out } else { 0 };
        // Where a shard cannot be read, none that is left out stands in for it: a scrub is to see that.
        let is_there = |number: usize| self.ring.members[stripes.place_of(of(number))].is_in_sync();
        let is_asked = |&number: &usize| left_out >> number & 1 == 0;
        if wanted.iter().filter(|&number| is_asked(number) && is_there(*number)).count() >= stripes.data() {
            wanted.retain(is_asked);
        }
        let rank = |&number: &usize| {
            let is_pending = striping.pending_page(of(number), within).is_some();
            let busyness = self.ring.busyness(&self.ring.members[stripes.place_of(of(number))]);
            (left_out >> number & 1, !is_pending, busyness, number)
        };
        let mut failure = DeviceError { doing: "compute what a member holds", errno: EIO };
        // Who is next is asked each time: whose turn it is changes meanwhile.
        while present.len() < stripes.data() {
            let next = (0..wanted.len()).min_by_key(|&at| rank(&wanted[at]));
            let Some(next) = next else { break };
            let number = wanted.swap_remove(next);
            let mut page = [0; PAGE];
            match striping.pending_page(of(number), within) {
                Some(pending) => page = pending,
                None => {
                    let place = stripes.place_of(of(number));
                    match reason {
                        Reason::Version(_) => self.idle(striping, place).await,
                        // Whose turn it was is over meanwhile.
                        Reason::InTurn if !self.is_idle(place) && self.is_idle(stripes.place_of(shard)) => {
                            return Err(failure);
                        }
                        Reason::InTurn | Reason::Lacking => {}
                    }
                    if let Err(error) = self.ring.read_from(place, offset, &mut page).await {
                        failure = error;
                        continue;
                    }
                }
            }
            present.push((number, page));
        }
        let present: Vec<(usize, &[u8])> =
            present.iter().map(|(number, page)| (*number, &page[..])).collect();
        let mut page = [0; PAGE];
        match striping.code.reconstruct(&present, &mut [(shard.number, &mut page)]) {
            Ok(()) => Ok(page),
            Err(_) => Err(failure),
        }
    }

    /// The changes that are to be written once more, and what the newest makes of the state that a superblock remembers: who
    /// failed before may be known by the log of stripes alone.
    pub(super) async fn logged_changes(
        &self,
        volume: u64,
        state: StoreState,
    ) -> Result<(StoreState, Vec<Logged>), DeviceError> {
        let Some(striping) = &self.striping else { return Ok((state, Vec::new())) };
        let replayed = Mark { epoch: self.opening.epoch.get(), through: 0 };
        let logged = striping.log.scan(volume, &striping.stripes, replayed).await?;
        let settled = logged.iter().map(|(record, _)| record.settled).max().unwrap_or_default();
        let needed = mark_of(state).max(settled);
        let StoreState([in_sync, .., log_losses]) = state;
        Ok((StoreState([in_sync, needed.epoch, needed.through, log_losses]), logged))
    }

    /// What was written once more is needed no more: all members in sync have it, and say so by their heads.
    pub(super) async fn begin_stripes(&self, striping: &Striping) -> Result<(), DeviceError> {
        let settled = Mark { epoch: self.opening.epoch.get(), through: 0 };
        for place in self.ring.places_in_sync() {
            let mark = &self.heads[place].mark;
            mark.set(mark.get().max(settled));
        }
        self.write_heads().await?;
        self.progress.flushed.set(self.progress.flushed.get().max(settled));
        striping.log.begin(settled).await
    }

    /// Writes once more what the stripe log has, to all members that are in sync.
    pub(super) async fn replay_stripes(
        &self,
        striping: &Striping,
        found: &[Logged],
    ) -> Result<(), DeviceError> {
        let stripes = striping.stripes;
        let size_bytes = self.member_bytes(self.ring.geometry.get().size_bytes);
        for (record, body) in found {
            let mut at = 0;
            for range in &record.ranges {
                let bytes = &body[at..at + range.len as usize];
                at += range.len as usize;
                let place = stripes.place_of(Shard { stripe: record.stripe, number: range.number });
                let start = record.stripe.checked_mul(stripes.shard_bytes());
                let Some(start) = start.filter(|start| start + stripes.shard_bytes() <= size_bytes) else {
                    continue;
                };
                if self.ring.members[place].is_in_sync() {
                    let extent = Extent::new(start + range.within, range.len);
                    let mut bytes = bytes.to_vec();
                    if is_planted(Bug::StripesParityTwice) && range.number >= stripes.data() {
                        let mut there = vec![0; bytes.len()];
                        self.ring.read_from(place, extent.offset, &mut there).await?;
                        bytes.iter_mut().zip(there).for_each(|(byte, there)| *byte ^= there);
                    }
                    self.ring.change_or_fail(place, extent, Change::Write(&[&bytes])).await;
                }
            }
        }
        Ok(())
    }

    /// What the member at `place` is to hold in these rows.
    pub(super) async fn compute_member(
        &self,
        striping: &Striping,
        place: usize,
        rows: Extent,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let failure = Cell::new(None);
        let pages = into.chunks_exact_mut(PAGE).zip((rows.offset..).step_by(PAGE));
        join::all(pages.map(|(page, offset)| {
            let failure = &failure;
            async move {
                match self.compute_member_page(striping, place, offset).await {
                    Ok(bytes) => page.copy_from_slice(&bytes),
                    Err(error) => failure.set(Some(error)),
                }
            }
        }))
        .await;
        failure.take().map_or(Ok(()), Err)
    }

    async fn compute_member_page(
        &self,
        striping: &Striping,
        place: usize,
        offset: u64,
    ) -> Result<[u8; PAGE], DeviceError> {
        let stripes = striping.stripes;
        let shard = stripes.shard_on(stripes.stripe_on_member(offset), place);
        if shard.number < stripes.data() {
            return self.right_page(striping, shard, offset).await?.page();
        }
        let mut data = Vec::with_capacity(stripes.data());
        for number in 0..stripes.data() {
            let shard = Shard { stripe: shard.stripe, number };
            data.push(self.right_page(striping, shard, offset).await?.page()?.to_vec());
        }
        let parity = self.encode(striping, &data, PAGE_BYTES)?;
        let bytes = parity[shard.number - stripes.data()].as_slice().try_into();
        bytes.map_err(|_| DeviceError { doing: "encode a page", errno: EIO })
    }

    /// A page of a data shard as it should be, where any way to get it gives that; else as it is found.
    async fn right_page(&self, striping: &Striping, shard: Shard, offset: u64) -> Result<Found, DeviceError> {
        let stripes = striping.stripes;
        let within = offset - shard.stripe * stripes.shard_bytes();
        let home =
            shard.stripe * stripes.stripe_bytes() + shard.number as u64 * stripes.shard_bytes() + within;
        let verifier = self.verifier.borrow().as_ref().and_then(Weak::upgrade);
        let expected = match verifier {
            Some(verifier) if !is_planted(Bug::StripesUnchecked) => verifier.expects(home).await,
            _ => Expected::NOTHING,
        };
        let rows = Extent::new(offset, PAGE_BYTES);
        let (mut page, mut found) = ([0; PAGE], None);
        let place = stripes.place_of(shard);
        let is_there = || self.ring.members[place].is_in_sync();
        // What it held before is right only where nobody has what it is to hold: its member may have lost that silently.
        let mut before = None;
        if !expected.is_known() && is_there() {
            // Nothing says what is right: parity is to be that of what is there.
            self.idle(striping, place).await;
            if self.ring.read_from(place, offset, &mut page).await.is_ok() {
                if expected.is_what_comes(&page) || is_planted(Bug::StripesTakeOlder) {
                    return Ok(Found::Page(page));
                }
                before = Some(Found::Page(page));
            }
        }
        if let Ok(is_from_others) = self.read_shard(striping, shard, rows, &mut page).await {
            if expected.is_right(&page) {
                // Its member is to hold the same.
                let is_guess = is_from_others && !expected.is_known() && is_there();
                let right = if is_guess { Found::Instead(page) } else { Found::Page(page) };
                if expected.is_what_comes(&page) || is_planted(Bug::StripesTakeOlder) {
                    return Ok(right);
                }
                before = before.or(Some(right));
            }
            found = Some(page);
        }
        // Its member last: it was read already, if it is not busy.
        for version in (1..striping.versions()).chain([0]) {
            let read = self.read_version(striping, version, home, &mut page).await;
            if read.is_ok() {
                if expected.is_right(&page) {
                    let is_instead = version > 0 && is_there();
                    let right = if is_instead { Found::Instead(page) } else { Found::Page(page) };
                    if expected.is_what_comes(&page) {
                        return Ok(right);
                    }
                    before = before.or(Some(right));
                }
                found = found.or(Some(page));
            }
        }
        match (before, found) {
            (Some(right), _) => Ok(right),
            (None, Some(page)) => Ok(Found::Page(page)),
            (None, None) if !expected.is_known() && !expected.is_untold => Ok(Found::NothingNeeded),
            // What is not known must not become a part of parity.
            (None, None) => Err(UNKNOWN),
        }
    }

    /// That a member can be read, and is in nobody's way.
    fn is_idle(&self, place: usize) -> bool {
        let member = &self.ring.members[place];
        member.is_in_sync() && !self.ring.busyness(member).0
    }

    fn idle_members(&self, striping: &Striping) -> usize {
        (0..striping.stripes.members()).filter(|&place| self.is_idle(place)).count()
    }

    /// Gives each row there one version again, of which a page cannot be read that nobody needs.
    pub(super) async fn mend_rows(&self, striping: &Striping, rows: Extent) -> Result<(), DeviceError> {
        for offset in (rows.offset..rows.end()).step_by(PAGE) {
            let writing = self.copies.begin_write(Extent::new(offset, PAGE_BYTES)).await;
            let (stripe, nothing) = (striping.stripes.stripe_on_member(offset), Extent::new(0, 0));
            self.change_stripe(striping, stripe, nothing, &[], writing).await?;
        }
        Ok(())
    }

    /// Waits until a member is in nobody's way, cannot be read, or too few only read for a way around it.
    async fn idle(&self, striping: &Striping, place: usize) {
        let may_be_asked = || {
            let is_in_sync = self.ring.members[place].is_in_sync();
            self.is_idle(place) || !is_in_sync || self.idle_members(striping) < striping.stripes.data()
        };
        self.ring.changed.until(|| may_be_asked().then_some(())).await;
    }

    /// Fills `into` as its member holds it, or as others do, those of one choice left out. Where too few others are in sync,
    /// there is no other version than that of its member.
    pub(super) async fn read_version(
        &self,
        striping: &Striping,
        version: usize,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut rest = into;
        for piece in striping.stripes.pieces(Extent::new(offset, rest.len() as u64)) {
            let (this, next) = rest.split_at_mut(piece.extent.len as usize);
            let others = self.ring.places_in_sync().into_iter().filter(|&place| place != piece.place).count();
            let is_computed = others >= striping.stripes.data();
            match version.checked_sub(1).filter(|_| is_computed) {
                None if self.ring.members[piece.place].is_in_sync() => {
                    self.idle(striping, piece.place).await;
                    self.ring.read_from(piece.place, piece.on_member.offset, this).await?;
                }
                choice => {
                    let left_out = striping.left_out(piece.shard.number, choice.unwrap_or(0));
                    self.compute_shard(
                        striping,
                        piece.shard,
                        piece.on_member,
                        Reason::Version(left_out),
                        this,
                    )
                    .await?;
                }
            }
            rest = next;
        }
        Ok(())
    }
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// Puts bytes once more where they belong, and parity by them. Nobody waits for it: whoever asks may be about to change
    /// the same rows. Where somebody writes, what is wrong is written with that.
    pub(super) fn repair_stripes(&self, striping: &Striping, offset: u64, bytes: &[u8]) {
        // Beside a page that is wrong and not known to be, parity would become that of the wrong one.
        if self.0.verifier.borrow().is_none() {
            return;
        }
        let extent = Extent::new(offset, bytes.len() as u64);
        for (stripe, part) in striping.stripes.by_stripe(extent) {
            // From now on, or not at all: later the bytes may be old.
            let Some(writing) = self.0.copies.try_write(striping.rows(part)) else { continue };
            let at = (part.offset - offset) as usize;
            let (ring, bytes) = (self.clone(), bytes[at..at + part.len as usize].to_vec());
            self.0.ring.env.spawn(async move {
                let Some(striping) = &ring.0.striping else { return };
                // What members cannot take they fail for; what the log cannot, it says itself.
                let _told = ring.0.change_stripe(striping, stripe, part, &bytes, writing).await;
            });
        }
    }
}
