//! What a drive says of itself: which member or log device of which mirror it is.

use evenkeel_engine::device::Device;
use evenkeel_engine::format::log_head::LogHead;
use evenkeel_engine::format::ring_head::{HEAD_COPIES, RingHead};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};

use super::slot::Slot;

/// Bytes at the beginning of a drive without which it says nothing of itself.
pub(super) const LABELS_BYTES: u64 = HEAD_COPIES * PAGE_BYTES;

/// Pages at the beginning of a drive that say which openings it has seen: heads, and superblocks there or behind them.
pub(super) const TOLD_PAGES: usize = 4;

/// How many openings of the volume a drive has seen that begins with `pages`, as it counts them: 0 where it says nothing
/// of them.
pub(super) fn openings_told(pages: &[[u8; PAGE]], volume: u64) -> u64 {
    let heads = pages.iter().filter_map(|page| RingHead::decode(page)).filter(|head| head.volume == volume);
    // A member counts those that were tried; what a log on it says counts otherwise.
    let by_heads = heads.map(|head| head.opening).max();
    by_heads.unwrap_or_else(|| {
        let superblocks = pages.iter().filter_map(|page| Superblock::decode(page));
        let epochs = superblocks.filter(|it| it.volume == volume).map(|it| it.epoch);
        epochs.max().unwrap_or(0)
    })
}

/// One head of a member or log device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label {
    /// The volume's number.
    pub(super) volume: u64,
    /// Which of its members and log devices.
    pub(super) slot: Slot,
    /// How many of that kind there are.
    pub(super) places: usize,
    /// Whether nothing counts on it: it was put there, and is not rebuilt.
    pub(super) is_blank: bool,
}

impl Label {
    fn decode(page: &[u8]) -> Option<Self> {
        let member = RingHead::decode(page).map(|head| Self {
            volume: head.volume,
            slot: Slot::Member(head.place.into()),
            places: head.places.into(),
            is_blank: head.is_blank(),
        });
        member.or_else(|| {
            LogHead::decode(page).map(|head| Self {
                volume: head.volume,
                slot: Slot::Log(head.place.into()),
                places: head.places.into(),
                is_blank: head.is_blank(),
            })
        })
    }
}

/// All that is whole and can be read of what `drive` says. Heads of both kinds lie at the same places.
pub(super) async fn labels<D: Device>(drive: &D) -> Vec<Label> {
    let mut found = Vec::new();
    for copy in 0..HEAD_COPIES {
        let mut page = [0; PAGE];
        if drive.read(copy * PAGE_BYTES, &mut page).await.is_ok() {
            found.extend(Label::decode(&page));
        }
    }
    found
}
