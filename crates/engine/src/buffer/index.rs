//! Which units touch a page.
//!
//! 1. A page is in the index exactly while a unit that is not released touches it.
//! 2. A unit that is released leaves the list of its page later, with others: the work for each is bounded, and of
//!    each list at least half counts.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use smallvec::SmallVec;

use super::queue::Tickets;
use crate::planted::{Bug, is_planted};

/// Lists shorter than this are never cleared of released units before their last one goes.
const SWEEP_MIN: usize = 8;

/// Units by each page they touch.
#[derive(Default)]
pub(super) struct Index {
    pages: BTreeMap<u64, PageUnits>,
}

/// The units of one page.
#[derive(Default)]
pub(super) struct PageUnits {
    /// Oldest first, with some that are released.
    units: SmallVec<[u64; 3]>,
    /// So many from the oldest on are released.
    gone: u32,
    /// How many of them are not released.
    counting: u32,
    /// So many from the oldest on are no longer idle, those released included.
    settled: u32,
    /// The last tickets of any of those.
    settled_tickets: Tickets,
}

impl Index {
    /// Notes that the newest unit touches a page.
    pub(super) fn add(&mut self, page: u64, sequence: u64) -> &PageUnits {
        let on_page = self.pages.entry(page).or_default();
        if on_page.units.last() != Some(&sequence) {
            on_page.units.push(sequence);
            on_page.counting += 1;
        }
        on_page
    }

    /// Notes that a unit of a page is released, as `is_released` says already; answers how many were looked at.
    pub(super) fn release(&mut self, page: u64, is_released: impl Fn(u64) -> bool) -> usize {
        let Some(on_page) = self.pages.get_mut(&page) else { return 0 };
        on_page.counting -= 1;
        let (counting, len) = (on_page.counting as usize, on_page.units.len());
        if counting == 0 {
            self.pages.remove(&page);
            return 0;
        }
        let was_gone = on_page.gone;
        while is_released(on_page.units[on_page.gone as usize]) {
            on_page.gone += 1;
        }
        if len < SWEEP_MIN || counting * 2 > len {
            return (on_page.gone - was_gone) as usize;
        }
        let (mut place, mut settled) = (0, 0);
        on_page.units.retain(|sequence| {
            let stays = !is_released(*sequence);
            settled += u32::from(stays && place < on_page.settled);
            place += 1;
            stays
        });
        (on_page.settled, on_page.gone) = (settled, 0);
        len
    }

    /// The units of a page.
    pub(super) fn get(&self, page: u64) -> Option<&PageUnits> {
        self.pages.get(&page)
    }

    /// Pages within `range`, ascending, with their units.
    pub(super) fn range(&self, range: impl RangeBounds<u64>) -> impl Iterator<Item = (u64, &PageUnits)> {
        self.pages.range(range).map(|(&page, units)| (page, units))
    }

    /// As [`Self::range`].
    pub(super) fn range_mut(&mut self, range: impl RangeBounds<u64>) -> impl Iterator<Item = &mut PageUnits> {
        self.pages.range_mut(range).map(|(_, units)| units)
    }

    /// Number of pages.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }
}

impl PageUnits {
    /// All of them, oldest first, with some that are released.
    pub(super) fn all(&self) -> &[u64] {
        &self.units[self.gone as usize..]
    }

    /// Those up to `newest`.
    pub(super) fn through(&self, newest: u64) -> &[u64] {
        let all = self.all();
        &all[..all.partition_point(|&sequence| sequence <= newest)]
    }

    /// Those that may be idle, and the tickets with which all others are durable; all of them where no more than `few` are
    /// known to be no longer idle.
    pub(super) fn unsettled(&self, few: usize) -> (&[u64], Tickets) {
        match self.settled.saturating_sub(self.gone) as usize {
            settled if settled > few && is_planted(Bug::SettledIsDurable) => {
                (&self.all()[settled..], Tickets::default())
            }
            settled if settled > few => (&self.all()[settled..], self.settled_tickets),
            _ => (self.all(), Tickets::default()),
        }
    }

    /// Notes that none is idle, and the last tickets of any.
    pub(super) fn settle(&mut self, tickets: Tickets) {
        self.settled = self.units.len() as u32;
        self.settled_tickets = self.settled_tickets.and_all(tickets);
    }
}
