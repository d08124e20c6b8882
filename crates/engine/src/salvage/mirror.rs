//! What there is of a mirror: copies of its pages, of its log, and what its heads know of those that are missing.
//!
//! 1. A drive that is another volume's is left alone. One without a head that can be read is taken last: its pages have
//!    sums.
//! 2. Of the log, those parts are taken that count. Where they are not all there that may alone hold what was acknowledged
//!    last, all of the volume may be older.

use super::copies::Part;
use super::damage::Cause;
use super::{Available, MemoryArena};
use crate::device::Device;
use crate::format::log_head::{self, LogHead};
use crate::format::ring_head::{self, Mark, RingHead};
use crate::format::stripes::Stripes;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::mirror::log_devices::loss_count;
use crate::layout::mirror::{LogNeeds, log_needs};

/// What the heads of the members that are there know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MirrorHeads {
    /// The newest superblock, by its generation; 0 where they know of none.
    pub superblock: u64,
    /// How far the one came that came furthest; `None` where one of them has no head that can be read.
    pub mark: Option<Mark>,
    /// Whether all members are there, each in its place: none knows more than these.
    pub are_all: bool,
}

/// What a member says of itself.
struct Member<D> {
    place: usize,
    device: D,
    head: Option<RingHead>,
}

/// What there is of the mirror of this number, of which these members and log devices are there. `region_bytes` are those
/// of the log on each member, where it has no devices. Answers with it what the heads of the members know.
pub async fn find_mirror<D: Device + Clone>(
    volume: u64,
    members: &[Option<D>],
    logs: &[Option<D>],
    region_bytes: u64,
    arena: Option<MemoryArena>,
) -> (Available<D>, MirrorHeads) {
    let mut found = Vec::new();
    for (place, device) in members.iter().enumerate() {
        let Some(device) = device.clone() else { continue };
        let (head, is_foreign) = member_head(&device, volume, None).await;
        if !is_foreign {
            found.push(Member { place, device, head });
        }
    }
    let heads = || found.iter().filter_map(|member| member.head);
    let is_in_place = |member: &Member<D>| {
        member.head.is_some_and(|head| {
            usize::from(head.place) == member.place && usize::from(head.places) == members.len()
        })
    };
    let of_heads = MirrorHeads {
        superblock: heads().map(|head| head.superblock).max().unwrap_or(0),
        mark: match found.iter().all(|member| member.head.is_some()) {
            true => heads().map(|head| head.mark).max(),
            false => None,
        },
        are_all: heads().count() == members.len() && found.iter().all(is_in_place),
    };
    let noted = heads().map(|head| head.log_losses).max().unwrap_or(0);
    let mut causes = Vec::new();
    let log = match logs.is_empty() {
        true => regions(&found, members.len(), &mut causes),
        false => log_devices(volume, logs, noted, &mut causes).await,
    };
    // Who has come furthest first, then those that say nothing, then those on which nothing counts.
    let rank = |member: &Member<D>| match member.head {
        Some(head) if head.is_blank() => (0, Mark::default()),
        None => (1, Mark::default()),
        Some(head) => (2, head.mark),
    };
    found.sort_by_key(|member| std::cmp::Reverse(rank(member)));
    let offset = ring_head::DATA_OFFSET + region_bytes;
    let part = |member: Member<D>| Part { device: member.device, offset, place: member.place };
    let home = found.into_iter().map(part).collect();
    (Available { home, log, is_log_in_parts: logs.is_empty(), arena, causes }, of_heads)
}

/// The newest head of this volume with these stripes, and whether the drive is another one's.
pub(super) async fn member_head<D: Device + Clone>(
    device: &D,
    volume: u64,
    stripes: Option<Stripes>,
) -> (Option<RingHead>, bool) {
    let mut heads: Vec<RingHead> = Vec::new();
    for page in pages(device, ring_head::HEAD_COPIES).await {
        heads.extend(RingHead::decode(&page));
    }
    // Of other stripes nothing is right in its place.
    let is_ours = |head: &RingHead| head.volume == volume && head.stripes == stripes;
    let is_foreign = !heads.is_empty() && !heads.iter().any(is_ours);
    (heads.into_iter().filter(is_ours).max_by_key(|head| head.generation), is_foreign)
}

/// The first pages of a drive that can be read.
async fn pages<D: Device + Clone>(device: &D, count: u64) -> Vec<[u8; PAGE]> {
    let part = Part { device: device.clone(), offset: 0, place: 0 };
    let mut found = Vec::new();
    for number in 0..count {
        let mut page = [0; PAGE];
        if part.read(number * PAGE_BYTES, &mut page).await.is_ok() {
            found.push(page);
        }
    }
    found
}

/// The log devices that count: those that know of the last loss of one.
pub(super) async fn log_devices<D: Device + Clone>(
    volume: u64,
    logs: &[Option<D>],
    noted: u64,
    causes: &mut Vec<Cause>,
) -> Vec<Part<D>> {
    let (mut ours, mut unknown) = (Vec::new(), Vec::new());
    for (place, device) in logs.iter().enumerate() {
        let Some(device) = device.clone() else { continue };
        let mut heads: Vec<LogHead> = Vec::new();
        for page in pages(&device, log_head::HEAD_COPIES).await {
            heads.extend(LogHead::decode(&page));
        }
        let part = Part { device, offset: log_head::DATA_OFFSET, place };
        match heads.iter().filter(|head| head.volume == volume).max_by_key(|head| head.generation) {
            Some(head) if !head.is_blank() => ours.push((head.losses, part)),
            None if heads.is_empty() => unknown.push(part),
            _ => {}
        }
    }
    // As whoever opens the volume decides: what the members know was acknowledged under.
    let counts = |losses: u64| losses == noted || loss_count(losses) > loss_count(noted) || noted == 0;
    let numbers = || ours.iter().map(|(losses, _)| *losses);
    let counting = numbers().filter(|&losses| counts(losses)).max().or(numbers().max()).unwrap_or(0);
    if ours.is_empty() {
        if !unknown.is_empty() {
            causes.push(Cause::MemberMissing);
        }
        return unknown;
    }
    if loss_count(counting) < loss_count(noted) {
        causes.push(Cause::MemberMissing);
    }
    ours.into_iter().filter(|(losses, _)| *losses == counting).map(|(_, part)| part).collect()
}

/// The regions of the members that hold the log.
fn regions<D: Device + Clone>(members: &[Member<D>], places: usize, causes: &mut Vec<Cause>) -> Vec<Part<D>> {
    let mut heads = vec![None; places];
    for member in members {
        heads[member.place] = member.head.filter(|head| usize::from(head.place) == member.place);
    }
    let LogNeeds { counting, is_all_there } = log_needs(&heads);
    if !is_all_there {
        causes.push(Cause::MemberMissing);
    }
    let counts = |member: &&Member<D>| counting >> member.place & 1 == 1;
    let part = |member: &Member<D>| Part {
        device: member.device.clone(),
        offset: ring_head::DATA_OFFSET,
        place: member.place,
    };
    members.iter().filter(counts).map(part).collect()
}
