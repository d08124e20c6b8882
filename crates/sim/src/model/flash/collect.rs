//! Garbage collection: the valid frames of the block with the fewest of them move to another one, then it is
//! erased.

use super::Flash;
use super::ftl::{NONE, SLOT, Writer};
use super::shape::Collection;
use super::units::{CollectJob, State};

impl Flash {
    pub(crate) fn planes_of(&self, unit: usize) -> std::ops::Range<u32> {
        let planes = self.shape.unit_planes();
        unit as u32 * planes..(unit as u32 + 1) * planes
    }

    /// Collects where it cannot wait; whether it does.
    pub(crate) fn collect_now(&mut self, unit: usize) -> bool {
        if self.shape.collection == Collection::Stopping {
            if self.plane_with_room(unit).is_none() {
                self.stop_without_room();
            }
            return self.is_stopped() && self.collect_in_round(unit);
        }
        let is_collecting = self.units[unit].collecting.is_some();
        let must = match self.shape.collection {
            Collection::Blocking if is_collecting => true,
            Collection::Paced if self.units[unit].owed > 0 => true,
            _ => self.plane_with_room(unit).is_none(),
        };
        must && self.collect(unit)
    }

    /// Collects while there is nothing else to do; whether it does.
    pub(crate) fn collect_meanwhile(&mut self, unit: usize) -> bool {
        if self.shape.collection == Collection::Stopping {
            return false;
        }
        self.collect(unit)
    }

    /// The unit writes so many frames: what it is to move before the next write.
    pub(crate) fn owe(&mut self, unit: usize, frames: u32) {
        let Some(plane) = self.planes_of(unit).find(|&plane| self.ftl.is_short(plane)) else { return };
        let Some(victim) =
            self.units[unit].collecting.map(|job| job.block).or_else(|| self.ftl.victim(plane))
        else {
            return;
        };
        let all = i64::from(self.ftl.frames_a_block());
        let valid = i64::from(self.ftl.blocks[victim as usize].count).min(all - 1);
        self.units[unit].owed += i64::from(frames) * valid * 256 / (all - valid);
    }

    /// The next step of collection in this unit; whether there is one.
    pub(crate) fn collect(&mut self, unit: usize) -> bool {
        let job = match self.units[unit].collecting {
            Some(job) => job,
            None => {
                // Where it gains most. Taking the planes in turn would let one fill up with what is valid.
                let short = self.planes_of(unit).filter(|&plane| self.ftl.wants_room(plane));
                let victims = short.filter_map(|plane| Some((plane, self.ftl.victim(plane)?)));
                let best = victims.min_by_key(|&(_, block)| self.ftl.blocks[block as usize].count);
                let Some((plane, block)) = best else {
                    self.units[unit].owed = 0;
                    return false;
                };
                CollectJob { block, plane, next: block << self.ftl.shift }
            }
        };
        self.units[unit].collecting = Some(job);
        match self.ftl.next_valid(job.block, job.next) {
            Some(first) => self.begin_move(unit, job, first),
            None => self.begin_erase(unit),
        }
        true
    }

    /// Reads the next valid frames, as many as fill a page, from wherever in the block they are.
    fn begin_move(&mut self, unit: usize, job: CollectJob, first: u32) {
        let frames_a_page = self.shape.frames_a_page();
        let mut moves = std::mem::take(&mut self.units[unit].moves);
        moves.clear();
        let (mut next, mut pages, mut page) = (Some(first), 0, NONE);
        while let Some(frame) = next {
            if frame / frames_a_page != page {
                page = frame / frames_a_page;
                pages += 1;
            }
            moves.push((frame, NONE));
            next = match moves.len() as u32 == frames_a_page {
                true => None,
                false => self.ftl.next_valid(job.block, frame + 1),
            };
        }
        let last = moves.last().map_or(first, |&(frame, _)| frame);
        self.units[unit].collecting = Some(CollectJob { next: last + 1, ..job });
        self.units[unit].moves = moves;
        self.begin(unit, State::MoveSensing, self.now_ns + pages * self.shape.read_ns);
    }

    /// What was read goes into another page of the plane.
    pub(crate) fn program_move(&mut self, unit: usize) {
        let job = self.units[unit].collecting.expect("a block is being collected");
        let page = self.ftl.take_page(job.plane, Writer::Collection);
        let mut bytes = 0;
        for (at, (_, to)) in self.units[unit].moves.iter_mut().enumerate() {
            *to = page + at as u32;
            bytes += 2 * u64::from(self.shape.frame_bytes);
        }
        let begins_ns = if self.shape.copyback { self.now_ns } else { self.channel(unit, bytes) };
        self.counters.pages_moved += 1;
        self.units[unit].began_ns = begins_ns;
        self.begin(unit, State::MoveProgramming, begins_ns + self.shape.program_ns);
    }

    pub(crate) fn finish_move(&mut self, unit: usize) {
        let mut moves = std::mem::take(&mut self.units[unit].moves);
        self.counters.frames_moved += moves.len() as u64;
        self.units[unit].owed -= 256 * moves.len() as i64;
        for (from, to) in moves.drain(..) {
            let logical = self.ftl.owners[from as usize];
            self.ftl.set_owner(to, logical);
            if let Some(contents) = &mut self.contents {
                contents.moved(from, to);
            }
            if !self.ftl.is_valid(from) {
                continue; // Written anew meanwhile.
            }
            self.ftl.invalidate(from);
            self.ftl.validate(to);
            let place = &mut self.ftl.map[logical as usize];
            if *place & SLOT == 0 {
                *place = to;
            } else {
                self.buffer.slots[(*place & !SLOT) as usize].old = to;
            }
        }
        self.units[unit].moves = moves;
    }

    pub(crate) fn erase_bytes(&mut self, block: u32) {
        let first = block << self.ftl.shift;
        let frames = first..first + self.ftl.frames_a_block();
        if let Some(contents) = &mut self.contents {
            contents.erased(frames);
        }
    }

    fn begin_erase(&mut self, unit: usize) {
        let at = &mut self.units[unit];
        // Shorter blocks of a scaled drive are erased more often, and what an erase frees costs the same.
        at.erase_debt += self.shape.pages;
        let mut ns = 0;
        if at.erase_debt >= self.shape.pages_unscaled {
            at.erase_debt -= self.shape.pages_unscaled;
            ns = self.shape.erase_ns;
        }
        at.began_ns = self.now_ns;
        self.begin(unit, State::Erasing, self.now_ns + ns);
    }

    pub(crate) fn finish_erase(&mut self, unit: usize) {
        let job = self.units[unit].collecting.take().expect("a block is being collected");
        self.ftl.erase(job.block, job.plane);
        self.erase_bytes(job.block);
        self.counters.erases += 1;
        self.finish_in_round(unit);
    }
}
