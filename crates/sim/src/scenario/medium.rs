//! What lies where on the drives of a machine, and damage to it.

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::format::layout::{
    HOME_COPIES, LOG_COPIES, Layout, Segment, home_copy_offset, log_copy_offset,
};
use evenkeel_engine::format::record::{HEADER_BYTES, TAG_BYTES, decode, decode_header};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};

use super::machine::Machine;
use super::trouble::{Damage, Zone};
use crate::image::{Payload, SharedImage};

/// Bytes that rot together, at most.
const ROT_BYTES_MAX: u64 = 48;

impl Machine {
    /// Where the zones lie.
    pub(super) fn layout(&self) -> Layout {
        if let Some(layout) = self.superblock().and_then(|superblock| superblock.layout()) {
            return layout;
        }
        let home_bytes = self.home.borrow().geometry().size_bytes;
        let create = self.setup.create;
        Layout::plan(create.size_bytes / PAGE_BYTES, home_bytes, create.log_bytes, self.setup.separate_log)
            .expect("the volume was made with it")
    }

    fn any_segment(&mut self, layout: &Layout) -> Segment {
        let number = if layout.segments.len() > 1 { self.random.index(layout.segments.len()) } else { 0 };
        layout.segments[number].clone()
    }

    /// A zone of the home drive. Of the roots, the one in force; of the superblocks, any copy.
    pub(super) fn zone(&mut self, zone: Zone) -> Extent {
        let layout = self.layout();
        match zone {
            Zone::Pages => self.any_segment(&layout).data,
            Zone::Table => {
                let segment = self.any_segment(&layout);
                if segment.table.len > 0 { segment.table } else { layout.segments[0].table }
            }
            Zone::Root => {
                let slot = self.superblock().map_or(0, |superblock| superblock.root_slot);
                layout.roots[usize::from(slot)]
            }
            Zone::Superblock => {
                let copy = self.random.index(HOME_COPIES);
                Extent::new(layout.home_copy_offset(copy), PAGE_BYTES)
            }
        }
    }

    /// Whether both places of the root hold the same.
    pub(super) fn has_two_roots(&self) -> bool {
        let [one, other] = self.layout().roots.map(|zone| {
            let mut root = vec![0; zone.len as usize];
            self.home.borrow().read(zone.offset, &mut root);
            root
        });
        one == other
    }

    fn superblock(&self) -> Option<Superblock> {
        let home = self.home.borrow();
        let copies = (0..HOME_COPIES).filter_map(|copy| {
            let mut page = [0; PAGE];
            home.read(home_copy_offset(home.geometry().size_bytes, copy), &mut page);
            Superblock::decode(&page)
        });
        copies.max_by_key(|superblock| superblock.generation)
    }

    /// How many superblocks the log drive lacks of those that the home drive holds.
    pub(super) fn log_lag(&self) -> u64 {
        let log = self.log.borrow();
        let copies = (0..LOG_COPIES).filter_map(|copy| {
            let mut page = [0; PAGE];
            log.read(log_copy_offset(copy), &mut page);
            Superblock::decode(&page).map(|superblock| superblock.generation)
        });
        let home = self.superblock().map_or(0, |superblock| superblock.generation);
        home.saturating_sub(copies.max().unwrap_or(home))
    }

    /// Lets the log of the new volume begin in its last quarter, as one may that was used before: so its end comes soon.
    pub(super) fn begin_log_late(&mut self) {
        let layout = self.layout();
        let sector = u64::from(self.setup.sector_bytes);
        let late = self.random.below(layout.log.len / 4 / sector);
        let at_home = (0..HOME_COPIES).map(|copy| (self.home.clone(), layout.home_copy_offset(copy)));
        let of_log = if self.setup.separate_log { LOG_COPIES } else { 0 };
        let at_log = (0..of_log).map(|copy| (self.log.clone(), log_copy_offset(copy)));
        for (image, offset) in at_home.chain(at_log) {
            let mut page = [0; PAGE];
            image.borrow().read(offset, &mut page);
            let Some(superblock) = Superblock::decode(&page) else { continue };
            let tail_offset = layout.log.len - sector - late * sector;
            let moved = Superblock { tail_offset, ..superblock }.encode();
            let mut image = image.borrow_mut();
            let id = image.begin_write(
                Extent::new(offset, PAGE_BYTES),
                Payload::Bytes(moved.as_slice().into()),
                Durability::Durable,
            );
            image.complete_write(id);
        }
    }

    fn log_image(&self) -> SharedImage {
        if self.setup.separate_log { self.log.clone() } else { self.home.clone() }
    }

    /// The records of the log of which something on disk says that they were acknowledged; of each the bytes
    /// that its checksum covers.
    fn acknowledged_records(&self) -> Vec<Extent> {
        let Some(superblock) = self.superblock() else { return Vec::new() };
        let zone = self.layout().log;
        let sector = superblock.log_sector_bytes as usize;
        let mut log = vec![0; zone.len as usize];
        self.log_image().borrow().read(zone.offset, &mut log);
        let record_at = |offset: u64| {
            let header = decode_header(&log[offset as usize..], sector)?;
            let bytes = log.get(offset as usize..offset as usize + header.len_bytes as usize)?;
            decode(bytes, superblock.volume, sector).map(|record| record.header)
        };
        let (mut offset, mut epoch) = (superblock.tail_offset, superblock.tail_epoch);
        let mut acknowledged = superblock.acknowledged;
        let mut records = Vec::new();
        for sequence in superblock.tail_sequence.. {
            let found = [offset, 0].into_iter().find_map(|place| {
                let header = record_at(place)?;
                let fits = header.sequence == sequence && (epoch..=superblock.epoch).contains(&header.epoch);
                fits.then_some((place, header))
            });
            let Some((place, header)) = found else { break };
            let used = HEADER_BYTES + header.tags as usize * TAG_BYTES + header.payload_bytes as usize;
            records.push((sequence, Extent::new(zone.offset + place, used as u64)));
            acknowledged = acknowledged.max(header.acknowledged);
            epoch = header.epoch;
            offset = (place + u64::from(header.len_bytes)) % zone.len;
        }
        records.retain(|&(sequence, _)| sequence <= acknowledged);
        records.into_iter().map(|(_, extent)| extent).collect()
    }

    /// Damages an acknowledged record of the log, if there is one; answers whether it did.
    pub(super) fn lose_record(&mut self, damage: Damage) -> bool {
        let records = self.acknowledged_records();
        if records.is_empty() {
            return false;
        }
        let record = *self.random.pick(&records);
        let image = self.log_image();
        self.damage(&image, record, damage);
        self.outcome.faults.lost_records += 1;
        true
    }

    /// Damages some of `extent`.
    pub(super) fn damage(&mut self, image: &SharedImage, extent: Extent, damage: Damage) {
        let is_home = std::rc::Rc::ptr_eq(image, &self.home);
        self.note(|| {
            format!("{damage:?} within {extent:?} of the {} drive", if is_home { "home" } else { "log" })
        });
        match damage {
            Damage::Rot => {
                let len = 1 + self.random.below(ROT_BYTES_MAX.min(extent.len));
                let offset = extent.offset + self.random.below(extent.len - len + 1);
                image.borrow_mut().rot(offset, len, &mut self.random);
                self.outcome.faults.rotten_places += 1;
            }
            Damage::ReadError => {
                let offset = extent.offset + self.random.below(extent.len);
                image.borrow_mut().make_unreadable(Extent::new(offset, 1));
                self.outcome.faults.read_errors += 1;
            }
        }
    }
}
