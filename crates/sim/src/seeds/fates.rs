//! What becomes of the devices between two runs, where some stand in for others: as many of each kind that have everything
//! as the layout needs stay as they are.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Extent;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};

use super::Seeded;
use super::machine::{Fate, Machine};
use crate::cuts::CutPlan;
use crate::faults::Fault;
use crate::ground_truth::Disk;
use crate::random::Random;
use crate::testbed::Kind;

/// Bytes from the begin of the rows on in which a member with stripes rots, at most.
const STRIPED_ROT_BYTES_MAX: u64 = 4 << 20;

impl<T: Seeded> Machine<T> {
    /// The number of those of this kind.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = usize> + use<'_, T> {
        (0..self.disks.len()).filter(move |&number| self.setup.testbed.kind(number) == kind)
    }

    /// As many devices of this kind that have everything as the layout needs.
    pub(super) fn keepers(&mut self, kind: Kind) -> Vec<usize> {
        let mut complete: Vec<usize> =
            self.of(kind).filter(|&number| self.disks[number].is_complete).collect();
        let needed = self.setup.testbed.needed(kind);
        assert!(
            complete.len() >= needed,
            "there are {needed} of {kind:?} that have everything: {complete:?}"
        );
        let keeper = |_| {
            // Who has everything for the first time is relied on first.
            let is_fresh = |number: &usize| self.disks[*number].is_fresh;
            let fresh: Vec<usize> = complete.iter().copied().filter(is_fresh).collect();
            let relied_on = if fresh.is_empty() || self.random.chance(0.3) { &complete } else { &fresh };
            let keeper = *self.random.pick(relied_on);
            complete.retain(|&number| number != keeper);
            keeper
        };
        (0..needed).map(keeper).collect()
    }

    /// What becomes of each device before the next run: as many of each kind that have everything as are needed are well.
    pub(super) fn fates(&mut self) -> Vec<Fate> {
        let mut fates = self.all_well();
        if !self.random.chance(self.setup.fault_share) {
            return fates;
        }
        let testbed = self.setup.testbed;
        let with_pages = self.keepers(Kind::Pages);
        let with_log = if testbed.log_drives() > 0 { self.keepers(Kind::Log) } else { Vec::new() };
        let keepers = [with_pages.clone(), with_log].concat();
        let relies_on_fresh = keepers.iter().any(|&keeper| self.disks[keeper].is_fresh);
        let are_alone = self.random.chance(if relies_on_fresh { 0.6 } else { 0.25 });
        for (number, fate) in fates.iter_mut().enumerate() {
            if keepers.contains(&number) {
                continue;
            }
            *fate = match self.random.below(10) {
                _ if are_alone => Fate::Gone,
                0..2 => Fate::Gone,
                2 if testbed.is_log_spread() => Fate::Well,
                2 => {
                    self.replace_blank(number);
                    Fate::Well
                }
                3..5 => self.draw_fault(number),
                _ => Fate::Well,
            };
        }
        self.rot_beneath_a_rebuild(&fates, &with_pages);
        fates
    }

    /// Where a device is about to be rebuilt, pages may rot on another, though not on those that are relied on.
    fn rot_beneath_a_rebuild(&mut self, fates: &[Fate], relied_on: &[usize]) {
        let there = |number: &usize| fates[*number] == Fate::Well && !relied_on.contains(number);
        let (complete, lacking): (Vec<usize>, Vec<usize>) =
            self.of(Kind::Pages).filter(there).partition(|&number| self.disks[number].is_complete);
        if complete.is_empty() || lacking.is_empty() || !self.setup.rots_beneath_rebuilds() {
            return;
        }
        let before = self.random.clone();
        let is_striped = self.setup.testbed.stripe_log().is_some();
        if is_striped {
            self.random = Random::new(before.clone().number() ^ 0x407b);
        }
        self.perhaps_rot(&complete);
        if is_striped {
            // Whatever that drew: seeds in which nothing rots stay what they were.
            self.random = before;
        }
    }

    /// Half of the pages of one of these devices rot, in half of the cases.
    fn perhaps_rot(&mut self, sources: &[usize]) {
        if self.random.coin() {
            return;
        }
        let source = *self.random.pick(sources);
        self.note(|| format!("device {source} rots, and another is about to be rebuilt"));
        let zone = self.zone_of_pages(source);
        for page in (zone.offset..zone.end()).step_by(PAGE).filter(|_| self.random.coin()).collect::<Vec<_>>()
        {
            let zone = Extent::new(page, PAGE_BYTES);
            Fault::Rots.harm(&self.disks[source].image, zone, &mut self.random);
        }
        self.outcome.members.count(Fault::Rots);
        let disk = &mut self.disks[source];
        (disk.is_clean, disk.is_complete) = (false, false);
    }

    /// Where pages are on a device; of rows of stripes, the first of them.
    fn zone_of_pages(&self, number: usize) -> Extent {
        let data_offset = self.setup.testbed.data_offset(Kind::Pages);
        if self.setup.testbed.stripe_log().is_none() {
            let data = T::layout_of(self).segments[0].data;
            return Extent::new(data_offset + data.offset, data.len);
        }
        let size_bytes = self.disks[number].image.borrow().geometry().size_bytes;
        let rows_bytes = (size_bytes - data_offset).min(STRIPED_ROT_BYTES_MAX);
        Extent::new(data_offset, rows_bytes / PAGE_BYTES * PAGE_BYTES)
    }

    /// Something goes wrong with a device that is switched off, or soon after.
    fn draw_fault(&mut self, number: usize) -> Fate {
        let testbed = self.setup.testbed;
        let fault = match testbed.is_log_spread() {
            true => Fault::draw_sparing_log(&mut self.random),
            false => Fault::draw(&mut self.random),
        };
        self.outcome.members.count(fault);
        self.note(|| format!("{}: {fault:?}", testbed.name(number)));
        if !fault.is_of_medium() {
            return Fate::Faulty(fault);
        }
        let layout = T::layout_of(self);
        for _ in 0..1 + self.random.below(3) {
            let zone = testbed.any_zone(testbed.kind(number), &layout, &mut self.random);
            fault.harm(&self.disks[number].image, zone, &mut self.random);
        }
        let disk = &mut self.disks[number];
        (disk.is_clean, disk.is_complete) = (false, false);
        Fate::Well
    }

    /// Perhaps a device is what it was before some run: it had called durable what it never wrote. Enough others have
    /// everything.
    pub(super) fn roll_back(&mut self) {
        if let Some((number, mut image)) = self.past.take_if(|_| self.past_random.coin()) {
            let kind = self.setup.testbed.kind(number);
            let is_other = |other: &usize| *other != number && self.disks[*other].is_complete;
            if self.of(kind).filter(is_other).count() >= self.setup.testbed.needed(kind) {
                self.outcome.members.rolled_back += 1;
                let name = self.setup.testbed.name(number);
                self.note(|| format!("{name}: is what it was"));
                // The drive itself is as large as it is.
                let size_bytes = self.disks[number].image.borrow().geometry().size_bytes;
                image.enlarge(size_bytes, None);
                let disk = Disk::clean(Rc::new(RefCell::new(image)), false);
                self.disks[number] = Disk { is_clean: false, ..disk };
            }
        }
        if self.past.is_none() && self.past_random.chance(0.2) {
            let number = self.past_random.index(self.disks.len());
            self.past = Some((number, self.disks[number].image.borrow().clone()));
        }
    }

    /// Another drive is put in the place of a device.
    pub(super) fn replace_blank(&mut self, number: usize) {
        self.outcome.members.replaced += 1;
        let testbed = self.setup.testbed;
        self.note(|| format!("{}: replaced by a blank drive", testbed.name(number)));
        let seed = self.setup.seed ^ self.outcome.members.replaced << 32;
        let image = self.disks[number].image.borrow().replacement(seed);
        self.disks[number] = Disk::clean(image, false);
        if testbed.kind(number) == Kind::Log {
            let mut run = self.begin_run(CutPlan::default(), &self.all_well());
            let drive = run.fixture.truth.borrow().devices[number].drive.clone();
            let volume = self.setup.seed | 1;
            let done = run.executor.block_on(async move { testbed.init_log(number, &drive, volume).await });
            done.expect("nothing stops it").expect("a blank drive takes a head");
        }
    }
}
