//! What there is of a volume on a ring with stripes: what its members make of it by one choice or another, its log, and
//! what its heads know of those that are missing.
//!
//! 1. A drive that is another volume's, or another member, is left alone: what is there is right nowhere else. One without a
//!    head that can be read is taken last: what is computed with it has sums.
//! 2. What K members make of a page may be wrong where one of them is stale, rotten, or was cut in the middle of a change. So
//!    every choice is a copy, up to [`CHOICES_MAX`]: those members are left out first that came least far.
//! 3. Where the log of stripes cannot be read whole it does not count. What is half home then is told by the sums.

use std::cmp::Reverse;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::copies::Part;
use super::mirror::{MirrorHeads, log_devices, member_head};
use super::striped_copy::{Changes, Choice, Members, Source};
use super::{Available, MemoryArena};
use crate::device::{Device, Extent};
use crate::error::DeviceError;
use crate::format::ring_head::{self, Mark, RingHead};
use crate::format::stripes::Stripes;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::erasure::geometry::Shard;
use crate::layout::mirror::stripe_log::{StripeLog, StripeRegion};

/// Most choices of members by which a page is tried.
const CHOICES_MAX: usize = 64;

/// Read-only file system, as in errno(3).
const EROFS: i32 = 30;

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
    let mut found: Vec<(Part<D>, Option<RingHead>)> = Vec::new();
    for (place, device) in members.iter().enumerate().take(stripes.members()) {
        let Some(device) = device.clone() else { continue };
        let (head, is_foreign) = member_head(&device, volume, Some(stripes)).await;
        let is_elsewhere = head.is_some_and(|head| usize::from(head.place) != place);
        if !is_foreign && !is_elsewhere {
            found.push((Part { device, offset: ring_head::DATA_OFFSET, place }, head));
        }
    }
    found.sort_by_key(|(_, head)| Reverse(rank(head.as_ref())));
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
    let best = found.first().map(|(_, head)| rank(head.as_ref()));
    let as_far = found.iter().filter(|(_, head)| Some(rank(head.as_ref())) == best).count();
    let there: Vec<Part<D>> = found.into_iter().map(|(part, _)| part).collect();
    let places: Vec<usize> = there.iter().map(|part| part.place).collect();
    let choices = choices(&places, as_far, stripes.data(), !changes.is_empty());
    let members = Members::new(stripes, there, size_bytes, changes);
    let home = choices.into_iter().enumerate().filter(|_| !places.is_empty());
    let home =
        home.map(|(place, choice)| Part { device: Source::Stripes(members.by(choice)), offset: 0, place });
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

/// Who has come furthest is most: then those that say nothing, then those on which nothing counts.
fn rank(head: Option<&RingHead>) -> (u8, Mark) {
    match head {
        Some(head) if head.is_blank() => (0, Mark::default()),
        None => (1, Mark::default()),
        Some(head) => (2, head.mark),
    }
}

/// Bytes that the ring offers: as its newest head says, where the drives have room for them.
fn size_of<D: Device>(stripes: Stripes, found: &[(Part<D>, Option<RingHead>)]) -> u64 {
    let rows = |part: &Part<D>| part.device.geometry().size_bytes.saturating_sub(part.offset);
    let smallest = found.iter().map(|(part, _)| rows(part)).min().unwrap_or(0);
    let has_room = stripes.offered_bytes(smallest).unwrap_or(0) / PAGE_BYTES * PAGE_BYTES;
    let said =
        found.iter().find_map(|(_, head)| head.filter(|head| !head.is_blank())).map(|it| it.size_bytes);
    said.filter(|&said| said <= has_room && said.is_multiple_of(PAGE_BYTES)).unwrap_or(has_room)
}

/// The ways to read from the members at these places, the one that is most trusted first, of which `as_far` came as far as
/// the first: all of them, as far as K are left; then each choice of K, by which the others are computed.
fn choices(places: &[usize], as_far: usize, data: usize, has_changes: bool) -> Vec<Choice> {
    let spare = places.len().saturating_sub(data);
    let bits = |left_out: &[usize]| left_out.iter().map(|&at| 1u64 << places[at]).sum::<u64>();
    let behind: Vec<usize> = (places.len() - spare.min(places.len() - as_far)..places.len()).collect();
    let mut left_out = vec![bits(&behind)];
    let mut chosen: Vec<usize> = Vec::new();
    each_choice(places.len(), spare, &mut chosen, &mut |chosen| {
        let these = bits(chosen);
        if !left_out.contains(&these) {
            left_out.push(these);
        }
        left_out.len() < CHOICES_MAX
    });
    let with = |is_logged: bool| left_out.iter().map(move |&left_out| Choice { left_out, is_logged });
    match has_changes {
        true => with(true).chain(with(false)).collect(),
        false => with(false).collect(),
    }
}

/// Tells of each way to choose `count` numbers below `below`, the highest ones first, for as long as it is wanted.
fn each_choice(
    below: usize,
    count: usize,
    chosen: &mut Vec<usize>,
    tell: &mut impl FnMut(&[usize]) -> bool,
) -> bool {
    if count == 0 {
        return tell(chosen);
    }
    for next in (count - 1..below).rev() {
        chosen.push(next);
        let is_wanted = each_choice(next, count - 1, chosen, tell);
        chosen.pop();
        if !is_wanted {
            return false;
        }
    }
    true
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
    Box::pin(async { Err(DeviceError { doing: "write what is only read", errno: EROFS }) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_members_is_tried_once_and_those_that_came_least_far_are_left_out_first() {
        let of = |places: &[usize], as_far, data| -> Vec<u64> {
            choices(places, as_far, data, false).into_iter().map(|choice| choice.left_out).collect()
        };
        // All came as far: first each shard from its own member.
        assert_eq!(of(&[0, 1, 2], 3, 2), [0, 0b100, 0b010, 0b001]);
        // One is behind.
        assert_eq!(of(&[2, 0, 1], 2, 2), [0b010, 0b001, 0b100]);
        assert_eq!(of(&[0, 1, 2, 3, 4, 5], 6, 4).len(), 1 + 15);
        // No more than K are there, or fewer.
        assert_eq!(of(&[1, 2], 1, 2), [0]);
        assert_eq!(of(&[1], 1, 2), [0]);
        assert_eq!(of(&[], 0, 2), [0]);
        let all: Vec<usize> = (0..32).collect();
        assert_eq!(of(&all, 32, 28).len(), CHOICES_MAX);
    }

    #[test]
    fn where_the_log_says_something_each_choice_is_tried_with_it_first() {
        let choices = choices(&[0, 1, 2], 3, 2, true);
        assert_eq!(choices.len(), 8);
        assert!(choices[..4].iter().all(|it| it.is_logged) && choices[4..].iter().all(|it| !it.is_logged));
    }
}
