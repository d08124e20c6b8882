//! What an arena holds, told from its bytes alone: nothing in it is changed, and its volume need not be open.

use super::stored::{newest_head, unit_at};
use crate::env::Arena;
use crate::format::unit::{ArenaHead, Content, HEAD_BYTES};
use crate::planted::{Bug, is_planted};

/// What an arena holds, and of which opening of which volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaContents {
    /// The volume.
    pub volume: u64,
    /// The opening that used it last.
    pub epoch: u64,
    /// The opening that was about to use it; the same as `epoch` at all other times.
    pub next_epoch: u64,
    /// The newest record of the log that was acknowledged in them; 0 where that is not known.
    pub acknowledged: u64,
    /// Writes that are not known to be durable.
    pub writes: u64,
}

impl ArenaContents {
    /// Of `arena`; `None` where it was never used.
    pub fn of(arena: &impl Arena) -> Option<Self> {
        let head = newest_head(arena)?;
        let ArenaHead { volume, epoch, next_epoch, acknowledged, .. } = head;
        Some(Self { volume, epoch, next_epoch, acknowledged, writes: writes_behind(arena, &head) })
    }

    /// Whether the volume, last opened as `epoch`, is the one whose writes these are.
    pub fn are_of(&self, volume: u64, epoch: u64) -> bool {
        self.volume == volume && [self.epoch, self.next_epoch].contains(&epoch)
    }

    /// Whether the volume went on without them: it was opened since, as `epoch`.
    pub fn are_superseded(&self, volume: u64, epoch: u64) -> bool {
        self.volume == volume && self.epoch.max(self.next_epoch) < epoch
    }

    /// Whether the volume, last opened as `epoch` and with a log that ends with record `log_end`, was put back to an
    /// earlier state: another opening was known, or a record was acknowledged that is not there.
    pub fn know_a_later_state(&self, volume: u64, epoch: u64, log_end: u64) -> bool {
        if self.volume != volume || is_planted(Bug::OlderStateTaken) {
            return false;
        }
        match self.are_of(volume, epoch) {
            true => self.acknowledged > log_end,
            false => !self.are_superseded(volume, epoch) && !self.is_of_no_opening(),
        }
    }

    /// Whether it knows of nothing but an opening that never began, which found nothing in it. Of several devices one alone may
    /// have had the superblock that was found then, as of a start that was cut.
    fn is_of_no_opening(&self) -> bool {
        self.next_epoch != self.epoch && self.acknowledged == 0 && self.writes == 0
    }
}

/// Whether a version that is not known here has used the arena: what waits in it cannot be told.
pub fn is_of_other_version(arena: &impl Arena) -> bool {
    [0, HEAD_BYTES].into_iter().any(|offset| {
        let mut bytes = [0; HEAD_BYTES];
        arena.load(offset, &mut bytes);
        ArenaHead::is_of_other_version(&bytes)
    })
}

fn writes_behind(arena: &impl Arena, head: &ArenaHead) -> u64 {
    let Ok(mut end) = usize::try_from(head.tail_offset) else { return 0 };
    let mut writes = 0;
    // A place holds one unit, of one number: no sequence is longer than there are places.
    for sequence in head.tail_sequence.. {
        let found =
            [end, 0].into_iter().find_map(|at| Some((at, unit_at(arena, head.volume, at, sequence)?)));
        let Some((at, unit)) = found else { break };
        let is_mark = unit.extents.iter().all(|extent| extent.content == Content::Superseded);
        writes += u64::from(!unit.durable && !is_mark);
        end = at + unit.len;
    }
    writes
}
