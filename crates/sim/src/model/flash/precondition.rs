//! Drives with a past: filled, then overwritten at random until collection has found its steady state.
//!
//! It is done on the mapping alone, without an event or a time for each page: what is left is the state that the
//! requests would have left, but for the order in which units would have taken them up.

use super::Flash;
use super::ftl::{NONE, PADDING, SLOT, Writer};
use crate::random::Random;

impl Flash {
    /// Writes every frame once, in order, and then `overwrites` times as many frames at random; 2 is enough for a
    /// steady state. The drive must have nothing under way and nothing in its buffer.
    pub fn precondition(&mut self, overwrites: f64, seed: u64) {
        self.precondition_first(self.shape.size_bytes, overwrites, seed);
    }

    /// As [`Self::precondition`], but only the first `bytes` of the drive are overwritten.
    pub fn precondition_first(&mut self, bytes: u64, overwrites: f64, seed: u64) {
        assert!(self.under_way() == 0 && self.buffer.used().is_empty(), "the drive is at work");
        assert!(bytes <= self.shape.size_bytes, "{bytes} bytes are more than the drive has");
        let mut random = Random::new(seed);
        let mut writer = self.placement();
        for logical in 0..self.ftl.map.len() as u32 {
            writer.place(self, logical);
        }
        let frames = bytes.div_ceil(u64::from(self.shape.frame_bytes));
        for _ in 0..(frames as f64 * overwrites) as u64 {
            if writer.left == 0 {
                // Whichever unit is free first: in no order, so that they do not run out of room together.
                writer.plane = random.below(u64::from(writer.planes)) as u32;
            }
            writer.place(self, random.below(frames) as u32);
        }
        self.collect_at_once();
    }

    pub(crate) fn placement(&self) -> Placement {
        let (stripe, planes) = (self.shape.frames_a_page(), self.shape.plane_count());
        Placement { plane: 0, page: NONE, left: 0, stripe, planes }
    }

    /// Collects until no plane is short any more, as an idle drive does.
    fn collect_at_once(&mut self) {
        for plane in 0..self.shape.plane_count() {
            while self.ftl.is_short(plane) && self.collect_block(plane) {}
        }
    }

    /// Collects a block without time; whether there was one worth it.
    fn collect_block(&mut self, plane: u32) -> bool {
        let Some(victim) = self.ftl.victim(plane) else { return false };
        let (mut page, mut left) = (NONE, 0);
        let mut next = self.ftl.next_valid(victim, victim << self.ftl.shift);
        while let Some(from) = next {
            if left == 0 {
                page = self.ftl.take_page(plane, Writer::Collection);
                left = self.shape.frames_a_page();
            }
            let to = page + self.shape.frames_a_page() - left;
            left -= 1;
            let logical = self.ftl.owners[from as usize];
            debug_assert!(logical < PADDING);
            self.ftl.set_owner(to, logical);
            if let Some(contents) = &mut self.contents {
                contents.moved(from, to);
            }
            self.ftl.invalidate(from);
            self.ftl.validate(to);
            let place = &mut self.ftl.map[logical as usize];
            if *place & SLOT == 0 {
                *place = to;
            } else {
                self.buffer.slots[(*place & !SLOT) as usize].old = to;
            }
            next = self.ftl.next_valid(victim, from + 1);
        }
        self.ftl.erase(victim, plane);
        self.erase_bytes(victim);
        true
    }
}

/// Where the next frame goes: page by page, from plane to plane.
pub(crate) struct Placement {
    plane: u32,
    page: u32,
    left: u32,
    stripe: u32,
    planes: u32,
}

impl Placement {
    /// Writes a logical frame whose place in the map is not the buffer; answers where.
    pub(crate) fn place(&mut self, flash: &mut Flash, logical: u32) -> u32 {
        if self.left == 0 {
            self.next_page(flash);
        }
        let frame = self.page + self.stripe - self.left;
        self.left -= 1;
        let old = std::mem::replace(&mut flash.ftl.map[logical as usize], frame);
        flash.ftl.invalidate(old);
        flash.ftl.set_owner(frame, logical);
        flash.ftl.validate(frame);
        frame
    }

    fn next_page(&mut self, flash: &mut Flash) {
        for _ in 0..self.planes {
            // As units go: the planes of one unit are neighbours, but units take turns.
            let units = flash.units.len() as u32;
            let plane = self.plane % units * flash.shape.unit_planes() + self.plane / units;
            self.plane = (self.plane + 1) % self.planes;
            while !flash.ftl.has_room(plane, Writer::Host) && flash.collect_block(plane) {}
            if flash.ftl.has_room(plane, Writer::Host) {
                self.page = flash.ftl.take_page(plane, Writer::Host);
                self.left = self.stripe;
                return;
            }
        }
        unreachable!("spare blocks leave room in some plane");
    }
}
