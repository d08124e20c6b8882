//! What there is of a volume on a ring with stripes: what its members make of it in one way or another, its log, and what
//! its heads know of those that are missing.
//!
//! 1. A drive that is another volume's is left alone. One whose head says another place is taken for that. One without a head
//!    that can be read is taken last: what is computed with it has sums.
//! 2. What K members make of a page may be wrong where one of them is stale, rotten, or was cut in the middle of a change. So
//!    every way to read it is a copy ([`super::striped_copy`]).
//! 3. Where the log of stripes cannot be read whole it does not count. What is half home then is told by the sums.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::copies::{Part, READ_ONLY};
use super::mirror::{MirrorHeads, log_devices, member_head};
use super::striped_copy::{Changes, Members, Source};
use super::{Available, MemoryArena};
use crate::device::{Device, Extent};
use crate::error::DeviceError;
use crate::format::ring_head::{self, Mark, RingHead};
use crate::format::stripes::Stripes;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::erasure::geometry::Shard;
use crate::layout::mirror::stripe_log::{StripeLog, StripeRegion};

/// What there is of the volume of this number, of which these members and log devices are there. `log_zone` is where the log
/// of stripes is on each log device, from the begin of its journal. Answers with it what the heads of the members know.
pub async fn find_striped<D: Device + Clone + 'static>(
    volume: u64,
    stripes: Stripes,
    log_zone: Extent,
    members: &[Option<D>],
    logs: &[Option<D>],
    arena: Option<MemoryArena>,
) -> (Available<Source<D>>, MirrorHeads) {
    let found = in_their_places(volume, stripes, members).await;
    let heads = || found.iter().filter_map(|(_, head)| *head);
    let is_known = found.iter().all(|(_, head)| head.is_some());
    let of_heads = MirrorHeads {
        superblock: heads().map(|head| head.superblock).max().unwrap_or(0),
        // As far as any K of them came: what is computed from these is.
        mark: heads().nth(stripes.data() - 1).map(|head| head.mark).filter(|_| is_known),
        are_all: heads().count() == stripes.members(),
    };
    let noted = heads().map(|head| head.log_losses).max().unwrap_or(0);
    let mut causes = Vec::new();
    let log = log_devices(volume, logs, noted, &mut causes).await;
    let changes = logged_changes(volume, stripes, log_zone, &log).await;
    let size_bytes = size_of(stripes, &found);
    let needed = found.get(stripes.data() - 1).map(|(_, head)| rank(head.as_ref()));
    let as_far = found.iter().filter(|(_, head)| Some(rank(head.as_ref())) >= needed).count();
    let there: Vec<Part<D>> = found.into_iter().map(|(part, _)| part).collect();
    let is_any_there = !there.is_empty();
    let ways = Members::new(stripes, there, as_far, size_bytes, changes).in_every_way();
    let home = ways.into_iter().enumerate().filter(|_| is_any_there);
    let home = home.map(|(place, copy)| Part { device: Source::Stripes(copy), offset: 0, place });
    let of_drive = |Part { device, offset, place }| Part { device: Source::Drive(device), offset, place };
    let available = Available {
        home: home.collect(),
        log: log.into_iter().map(of_drive).collect(),
        is_log_in_parts: false,
        arena,
        causes,
    };
    (available, of_heads)
}

/// The members that there are, each with its head: who has come furthest is first.
async fn in_their_places<D: Device + Clone>(
    volume: u64,
    stripes: Stripes,
    members: &[Option<D>],
) -> Vec<(Part<D>, Option<RingHead>)> {
    let mut found: Vec<(Part<D>, Option<RingHead>)> = Vec::new();
    for (place, device) in members.iter().enumerate().take(stripes.members()) {
        let Some(device) = device.clone() else { continue };
        let (head, is_foreign) = member_head(&device, volume, Some(stripes)).await;
        let said = head.map_or(place, |head| usize::from(head.place));
        if !is_foreign && said < stripes.members() {
            found.push((Part { device, offset: ring_head::DATA_OFFSET, place: said }, head));
        }
    }
    // Of several that say the same place the first is taken.
    found.sort_by_key(|(_, head)| (head.is_none(), Reverse(rank(head.as_ref()))));
    let mut taken = BTreeSet::new();
    found.retain(|(part, _)| taken.insert(part.place));
    found.sort_by_key(|(_, head)| Reverse(rank(head.as_ref())));
    found
}

/// Who has come furthest is most: then those that say nothing, then those on which nothing counts.
fn rank(head: Option<&RingHead>) -> (u8, Mark) {
    match head {
        Some(head) if head.is_blank() => (0, Mark::default()),
        None => (1, Mark::default()),
        Some(head) => (2, head.mark),
    }
}

/// Bytes that the ring offers: as its newest head says, where K drives have room for them.
fn size_of<D: Device>(stripes: Stripes, found: &[(Part<D>, Option<RingHead>)]) -> u64 {
    let rows = |part: &Part<D>| part.device.geometry().size_bytes.saturating_sub(part.offset);
    let mut rooms: Vec<u64> = found.iter().map(|(part, _)| rows(part)).collect();
    rooms.sort_unstable_by_key(|&room| Reverse(room));
    // A shorter one may be cut short, or none of it.
    let room = rooms.get(stripes.data() - 1).or(rooms.last()).copied().unwrap_or(0);
    let has_room = stripes.offered_bytes(room).unwrap_or(0) / PAGE_BYTES * PAGE_BYTES;
    let said =
        found.iter().find_map(|(_, head)| head.filter(|head| !head.is_blank())).map(|it| it.size_bytes);
    said.filter(|&said| said <= has_room && said.is_multiple_of(PAGE_BYTES)).unwrap_or(has_room)
}

/// What the stripe log says that shards are to hold.
async fn logged_changes<D: Device + Clone + 'static>(
    volume: u64,
    stripes: Stripes,
    zone: Extent,
    log: &[Part<D>],
) -> Changes {
    let mut changes = Changes::new();
    let records = StripeLog::default();
    records.set_region(Rc::new(Region { log: log.to_vec(), zone }));
    let Ok(counting) = records.scan(volume, &stripes, Mark::default()).await else { return changes };
    for logged in counting {
        let Ok(body) = records.body(&logged).await else { return Changes::new() };
        let mut pages = body.chunks_exact(PAGE);
        for range in &logged.record.ranges {
            let shard = Shard { stripe: logged.record.stripe, number: range.number };
            let within = (range.within..range.within + range.len).step_by(PAGE);
            for (within, page) in within.zip(&mut pages) {
                let page: &[u8; PAGE] = page.try_into().expect("a page");
                changes.insert((shard, within), Box::new(*page));
            }
        }
    }
    changes
}

/// The log of stripes on the log devices that count, to be read.
struct Region<D> {
    log: Vec<Part<D>>,
    zone: Extent,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeviceError>> + 'a>>;

fn read_only<'a, T: 'a>() -> Answer<'a, T> {
    Box::pin(async { Err(READ_ONLY) })
}

impl<D: Device + 'static> StripeRegion for Region<D> {
    fn size_bytes(&self) -> u64 {
        self.zone.len
    }

    fn copies(&self) -> Vec<usize> {
        (0..self.log.len()).collect()
    }

    fn write<'a>(&'a self, _offset: u64, _bytes: &'a [u8]) -> Answer<'a, ()> {
        read_only()
    }

    fn note_losses(&self) -> Answer<'_, ()> {
        read_only()
    }

    fn is_behind_somewhere(&self) -> bool {
        false
    }

    fn repair<'a>(&'a self, _offset: u64, _bytes: &'a [u8]) -> Answer<'a, ()> {
        read_only()
    }

    fn read<'a>(&'a self, copy: usize, offset: u64, into: &'a mut [u8]) -> Answer<'a, ()> {
        Box::pin(async move { self.log[copy].read(self.zone.offset + offset, into).await })
    }
}
