//! Making the log devices of a mirror or of stripes once more, that was stopped in order and lost all of them.
//!
//! A ring keeps its superblocks on its log devices. Of an opening that ends in order the last one is on its members too,
//! and then a head on each of them that names it as the newest ([`super::superblocks`]). With stripes it is in them, once.
//!
//! 1. The members prove the stop together: the newest superblock that any of them knows of is one that says so, and all of
//!    them are there, with both their heads. An opening tells its members of its first superblock before it acknowledges anything. So nobody wrote
//!    after that stop: else one of them knew of a newer superblock.
//! 2. The members are not written. A log device that may belong to them as they are is left alone.
//! 3. A log device says what it is last, behind everything else that is durable on it: cut before that, it is none, and the
//!    same can be done again.
//! 4. With stripes, a log device that was lost and comes back counts no more beside those that were made: the records of its
//!    stripe log have higher numbers than theirs.

use std::cmp::Reverse;

use evenkeel_erasure::Code;

use super::open::check_log_sectors;
use super::superblocks::read_log_from;
use crate::device::{Device, Drive, Durability, Extent, FlushScope};
use crate::error::Error;
use crate::format::layout::{home_copy_offset, log_bytes_with_superblocks, log_copy_offset};
use crate::format::log_head::{self, LogHead};
use crate::format::ring_head::{self, Mark, RingHead};
use crate::format::stripes::Stripes;
use crate::format::superblock::{StoreState, Superblock};
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::mirror::log_devices::{UNLOST, beyond, read_log_head};
use crate::layout::mirror::mark_of;
use crate::size_text::exact_size;

/// Log devices that are to be made once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorLogRenewal {
    /// Bytes that each of them must have.
    pub device_bytes: u64,
    superblock: Superblock,
    /// What the heads of log devices say that the members know.
    known_losses: u64,
    /// What the heads of those that are made say.
    losses: u64,
}

fn unusable<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Unusable(why.into()))
}

/// What it takes to make the log devices of the ring of this number once more, of which these are all members, each at its
/// place. With stripes, it is said where on each log device their log is, from the begin of its journal; `chance` tells what is
/// made then from what was made another time. Nothing is written.
///
/// # Errors
///
/// [`Error::Unusable`] where the members do not prove that it was stopped in order.
pub async fn plan_mirror_log_renewal<M: Device>(
    members: &[M],
    volume: u64,
    striped: Option<(Stripes, Extent)>,
    chance: u32,
) -> Result<MirrorLogRenewal, Error> {
    let stripes = striped.map(|(stripes, _)| stripes);
    let mut heads = Vec::with_capacity(members.len());
    for (place, member) in members.iter().enumerate() {
        let is_ours = |head: &RingHead| {
            head.volume == volume
                && usize::from(head.place) == place
                && usize::from(head.places) == members.len()
                && head.stripes == stripes
        };
        let mut both = read_heads(member).await;
        both.retain(is_ours);
        // One of them is newer than the other, and which it was cannot be told where it is damaged.
        if both.len() < ring_head::HEAD_COPIES as usize {
            return unusable(format!(
                "what is in the place of member {place} is not that member, or damaged where it says so: all of them are \
                 needed to tell that it was stopped in order"
            ));
        }
        if both.iter().any(|head| head.log_bytes > 0) {
            return unusable("its log lies on its members, and has no devices");
        }
        heads.extend(both.into_iter().max_by_key(|head| head.generation));
    }
    let newest = heads.iter().map(|head| head.superblock).max().unwrap_or(0);
    let closed = match stripes {
        None => left_on_each(members, &heads, volume, newest).await?,
        Some(stripes) => {
            let left = left_in_stripes(members, stripes, volume, newest).await;
            left.and_then(|found| as_far_as_k(found, stripes, &heads))
        }
    };
    let Some(superblock) = closed else {
        return unusable(
            "its members do not say that it was stopped in order: its log may have held writes that are nowhere else (a \
             version before this one did not say so on the members when it stopped a mirror)",
        );
    };
    if heads.iter().any(|head| head.mark.epoch > superblock.epoch) {
        return unusable(
            "one of its members knows of a later opening than the one that was stopped in order",
        );
    }
    let known_losses = heads.iter().map(|head| head.log_losses).max().unwrap_or(0).max(UNLOST);
    let journal_bytes = log_bytes_with_superblocks(superblock.log_bytes);
    let end = striped.map_or(journal_bytes, |(_, zone)| zone.end().max(journal_bytes));
    let losses = match striped {
        None => known_losses,
        Some(_) => beyond(known_losses, chance),
    };
    let device_bytes = log_head::DATA_OFFSET.saturating_add(end);
    Ok(MirrorLogRenewal { device_bytes, superblock, known_losses, losses })
}

/// The superblock of this number that an opening left on members whose heads say that they came as far.
async fn left_on_each<M: Device>(
    members: &[M],
    heads: &[RingHead],
    volume: u64,
    newest: u64,
) -> Result<Option<Superblock>, Error> {
    let mut closed: Option<Superblock> = None;
    for (member, head) in members.iter().zip(heads) {
        let Some(found) = left_superblock(member, volume, newest).await else { continue };
        if closed.is_some_and(|closed| closed != found) {
            return unusable("its members do not agree on how it was stopped");
        }
        if head.mark >= mark_of(found.home_state) {
            closed = Some(found);
        }
    }
    Ok(closed)
}

/// A superblock that was left in stripes, with the state that K members came to: what was written behind the last checkpoint is
/// in no log any more, and whoever lacks it is to be told so. `None` where fewer came as far as that checkpoint.
fn as_far_as_k(found: Superblock, stripes: Stripes, heads: &[RingHead]) -> Option<Superblock> {
    let named = heads.iter().filter(|head| head.superblock == found.generation);
    let mut marks: Vec<Mark> = named.map(|head| head.mark).collect();
    marks.sort_unstable_by_key(|&mark| Reverse(mark));
    let reached = marks.get(stripes.data() - 1).filter(|&&mark| mark >= mark_of(found.home_state))?;
    let StoreState([members, .., log_losses]) = found.home_state;
    let home_state = StoreState([members, reached.epoch, reached.through, log_losses]);
    Some(Superblock { home_state, ..found })
}

/// The superblock that an opening left in stripes, as its member and the parity of its row have it: a stop that was cut in the
/// middle of that left a row that is not one version. Where its member has none, as K others have it, each of them left out
/// once.
async fn left_in_stripes<M: Device>(
    members: &[M],
    stripes: Stripes,
    volume: u64,
    newest: u64,
) -> Option<Superblock> {
    let offset = home_copy_offset(0, (newest % 2) as usize);
    let piece = stripes.pieces(Extent::new(offset, PAGE_BYTES)).next()?;
    let mut row: Vec<(usize, [u8; PAGE])> = Vec::new();
    for (place, member) in members.iter().enumerate() {
        let mut page = [0; PAGE];
        if member.read(ring_head::DATA_OFFSET + piece.on_member.offset, &mut page).await.is_ok() {
            row.push((stripes.shard_on(piece.shard.stripe, place).number, page));
        }
    }
    let code = Code::new(stripes.data(), stripes.parity()).ok()?;
    let computed = |number: usize, left_out: usize| {
        let others = row.iter().filter(|(other, _)| *other != number && *other != left_out);
        let others: Vec<(usize, &[u8])> = others.map(|(number, page)| (*number, &page[..])).collect();
        let mut page = [0; PAGE];
        code.reconstruct(&others, &mut [(number, &mut page)]).ok().map(|()| page)
    };
    let own = row.iter().find(|(number, _)| *number == piece.shard.number);
    if let Some(found) = own.and_then(|(_, page)| closed_superblock(page, volume, newest)) {
        let is_one_version = row.len() == stripes.members()
            && row.iter().all(|(number, page)| computed(*number, *number).as_ref() == Some(page));
        return is_one_version.then_some(found);
    }
    (0..stripes.members())
        .find_map(|left_out| closed_superblock(&computed(piece.shard.number, left_out)?, volume, newest))
}

/// The superblock that these bytes are, if it is this one, and says that an opening ended in order.
fn closed_superblock(page: &[u8; PAGE], volume: u64, generation: u64) -> Option<Superblock> {
    let found = Superblock::decode(page)?;
    let is_it = found.volume == volume && found.generation == generation && found.is_closed;
    (is_it && found.separate_log).then_some(found)
}

/// That `log` is not a log device of these members as they are: it may be overwritten. Nothing is written.
///
/// # Errors
///
/// [`Error::Unusable`] where it is.
pub async fn check_mirror_log_is_lost<L: Drive>(renewal: &MirrorLogRenewal, log: &L) -> Result<(), Error> {
    let Superblock { volume, generation, .. } = renewal.superblock;
    let is_all_there = log.geometry().size_bytes >= renewal.device_bytes;
    let Some(head) = read_log_head(log).await.filter(|head| head.volume == volume) else { return Ok(()) };
    match read_log_from(log, log_head::DATA_OFFSET).await? {
        Some(found) if found.volume != volume => Ok(()),
        Some(found) if found.generation > generation => unusable(
            "one of its log devices is newer than its members, and holds what they lack: bring back the members that belong \
             to it",
        ),
        Some(found)
            if found.generation == generation
                && [renewal.known_losses, renewal.losses].contains(&head.losses)
                && is_all_there =>
        {
            unusable(
                "one of its log devices is there and belongs to it: others that are lost are replaced (`replace`)",
            )
        }
        _ => Ok(()),
    }
}

/// Makes `log` the log device at `place` of `places`, empty. What it held is lost.
///
/// # Errors
///
/// As [`check_mirror_log_is_lost`]; [`Error::Unusable`] for a device that is too small or writes too much at once; those of
/// the device.
pub async fn renew_mirror_log<L: Drive>(
    renewal: &MirrorLogRenewal,
    log: &L,
    place: u16,
    places: u16,
) -> Result<(), Error> {
    let MirrorLogRenewal { device_bytes, superblock, losses, .. } = renewal;
    let geometry = log.geometry();
    check_log_sectors(superblock, geometry.sector_bytes)?;
    if geometry.size_bytes < *device_bytes {
        return unusable(format!("a log device needs {}", exact_size(*device_bytes)));
    }
    // Its heads first: whatever is behind them means nothing any more.
    log.write_zeroes(Extent::new(0, log_head::DATA_OFFSET), Durability::Buffered).await?;
    log.flush(FlushScope::Whole).await?;
    log.write_zeroes(Extent::new(0, *device_bytes), Durability::Buffered).await?;
    log.flush(FlushScope::Whole).await?;
    // Both copies: the next opening overwrites one of them, and a cut may tear that.
    for generation in superblock.generation.saturating_sub(1)..=superblock.generation {
        let page = Superblock { generation, ..*superblock }.encode();
        let offset = log_head::DATA_OFFSET + log_copy_offset((generation % 2) as usize);
        log.write(offset, &page, Durability::Durable).await?;
    }
    for generation in 0..log_head::HEAD_COPIES {
        let head = LogHead { volume: superblock.volume, generation, place, places, losses: *losses };
        log.write(head.offset(), &head.encode(), Durability::Durable).await?;
    }
    Ok(())
}

/// The heads of a member that are whole.
async fn read_heads<M: Device>(member: &M) -> Vec<RingHead> {
    let mut found = Vec::new();
    for copy in 0..ring_head::HEAD_COPIES {
        let mut page = [0; PAGE];
        if member.read(copy * PAGE_BYTES, &mut page).await.is_ok() {
            found.extend(RingHead::decode(&page));
        }
    }
    found
}

/// The superblock of this number that an opening which ended in order left on a member.
pub(crate) async fn left_superblock<M: Device>(
    member: &M,
    volume: u64,
    generation: u64,
) -> Option<Superblock> {
    let mut page = [0; PAGE];
    let offset = ring_head::DATA_OFFSET + home_copy_offset(0, (generation % 2) as usize);
    member.read(offset, &mut page).await.ok()?;
    closed_superblock(&page, volume, generation)
}
