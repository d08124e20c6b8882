//! What lies where on the drives of a machine, and damage to it.

use std::rc::Rc;

use evenkeel_engine::device::Extent;
use evenkeel_engine::format::layout::{
    HOME_COPIES, LOG_COPIES, Layout, Segment, home_copy_offset, log_copy_offset,
};
use evenkeel_engine::format::record::{HEADER_BYTES, TAG_BYTES, decode, decode_header};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};

use super::trouble::Zone;
use crate::faults::Fault;
use crate::image::SharedImage;
use crate::seeds::Machine;
use crate::testbed::{Single, home_and_log};

impl Machine<Single> {
    /// The drive with the pages.
    pub(super) fn home(&self) -> SharedImage {
        home_and_log(&self.disks).0.image
    }

    /// The drive with the log, which may be the same.
    pub(super) fn log(&self) -> SharedImage {
        home_and_log(&self.disks).1.image
    }

    /// Where the zones lie, as the drive says.
    pub(super) fn layout_on_medium(&self) -> Layout {
        let layout = self.superblock().and_then(|superblock| superblock.layout());
        layout.unwrap_or_else(|| self.layout_by_size())
    }

    fn any_segment(&mut self, layout: &Layout) -> Segment {
        let number = if layout.segments.len() > 1 { self.random.index(layout.segments.len()) } else { 0 };
        layout.segments[number].clone()
    }

    /// A zone of the home drive. Of the roots, the one in force; of the superblocks, any copy.
    pub(super) fn zone(&mut self, zone: Zone) -> Extent {
        let layout = self.layout_on_medium();
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
        let [one, other] = self.layout_on_medium().roots.map(|zone| {
            let mut root = vec![0; zone.len as usize];
            self.home().borrow().read(zone.offset, &mut root);
            root
        });
        one == other
    }

    fn superblock(&self) -> Option<Superblock> {
        let home = self.home();
        let home = home.borrow();
        let copies = (0..HOME_COPIES).filter_map(|copy| {
            let mut page = [0; PAGE];
            home.read(home_copy_offset(home.geometry().size_bytes, copy), &mut page);
            Superblock::decode(&page)
        });
        copies.max_by_key(|superblock| superblock.generation)
    }

    /// How many superblocks the log drive lacks of those that the home drive holds.
    pub(super) fn log_lag(&self) -> u64 {
        let log = self.log();
        let log = log.borrow();
        let copies = (0..LOG_COPIES).filter_map(|copy| {
            let mut page = [0; PAGE];
            log.read(log_copy_offset(copy), &mut page);
            Superblock::decode(&page).map(|superblock| superblock.generation)
        });
        let home = self.superblock().map_or(0, |superblock| superblock.generation);
        home.saturating_sub(copies.max().unwrap_or(home))
    }

    /// The records of the log of which something on disk says that they were acknowledged; of each the bytes
    /// that its checksum covers.
    fn acknowledged_records(&self) -> Vec<Extent> {
        let Some(superblock) = self.superblock() else { return Vec::new() };
        let zone = self.layout_on_medium().log;
        let sector = superblock.log_sector_bytes as usize;
        let mut log = vec![0; zone.len as usize];
        self.log().borrow().read(zone.offset, &mut log);
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
    pub(super) fn lose_record(&mut self, damage: Fault) -> bool {
        let records = self.acknowledged_records();
        if records.is_empty() {
            return false;
        }
        let record = *self.random.pick(&records);
        let image = self.log();
        self.damage(&image, record, damage);
        self.outcome.drives.lost_records += 1;
        true
    }

    /// Damages some of `extent`.
    pub(super) fn damage(&mut self, image: &SharedImage, extent: Extent, damage: Fault) {
        let name = if Rc::ptr_eq(image, &self.home()) { "home" } else { "log" };
        self.note(|| format!("{name}: {damage:?} within {extent:?}"));
        damage.harm(image, extent, &mut self.random);
        match damage {
            Fault::Rots => self.outcome.drives.rotten_places += 1,
            _ => self.outcome.drives.read_errors += 1,
        }
    }
}
