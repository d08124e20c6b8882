//! What the cells and the buffer hold, where someone wants to read it back.
//!
//! 1. Cells hold what was programmed until their block is erased, valid or not, and beside each frame whose it is
//!    and when it was written (its spare area).
//! 2. What a read finds is the buffer's sectors above the cells'.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Flash;
use super::ftl::{NONE, SLOT};
use crate::model::SECTOR_BYTES;
use crate::model::store::ByteStore;
use crate::random::Random;

/// The sequence number of a frame whose programming a power cut interrupted: its checksum is wrong.
pub(crate) const TORN: u64 = u64::MAX;

/// The bytes of the flash's frames; what was never programmed with bytes reads as zeros.
#[derive(Debug, Clone)]
enum Cells {
    /// By frame.
    Here(Vec<Option<Arc<[u8]>>>),
    /// Frame after frame. What was erased stays there until it is programmed again: nobody reads it.
    Elsewhere { store: Arc<dyn ByteStore>, frame_bytes: u64 },
}

impl Cells {
    /// Fills `into` from the beginning of a frame.
    fn read(&self, frame: u32, into: &mut [u8]) {
        match self {
            _ if frame == NONE => into.fill(0),
            Self::Here(cells) => match &cells[frame as usize] {
                Some(cell) => into.copy_from_slice(cell),
                None => into.fill(0),
            },
            Self::Elsewhere { store, frame_bytes } => store.read(u64::from(frame) * frame_bytes, into),
        }
    }

    /// Programs a frame; nothing is zeros.
    fn program(&mut self, frame: u32, bytes: &[u8]) {
        match self {
            Self::Here(cells) => cells[frame as usize] = (!bytes.is_empty()).then(|| bytes.into()),
            Self::Elsewhere { store, frame_bytes } => {
                let offset = u64::from(frame) * *frame_bytes;
                match bytes {
                    [] => store.write(offset, &vec![0; *frame_bytes as usize]),
                    bytes => store.write(offset, bytes),
                }
            }
        }
    }

    fn move_frame(&mut self, from: u32, to: u32) {
        match self {
            Self::Here(cells) => cells[to as usize] = cells[from as usize].clone(),
            Self::Elsewhere { store, frame_bytes } => {
                let mut bytes = vec![0; *frame_bytes as usize];
                store.read(u64::from(from) * *frame_bytes, &mut bytes);
                store.write(u64::from(to) * *frame_bytes, &bytes);
            }
        }
    }

    fn erase(&mut self, frames: std::ops::Range<usize>) {
        if let Self::Here(cells) = self {
            cells[frames].fill(None);
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Contents {
    cells: Cells,
    /// By frame, when its bytes were written by the host, counted in frames.
    pub(crate) sequences: Vec<u64>,
    /// By slot.
    slots: Vec<Vec<u8>>,
    /// Bytes of writes that are not all in the buffer.
    writes: BTreeMap<u32, Arc<[u8]>>,
    next_sequence: u64,
    /// By logical frame, when it was discarded, if it was not written since.
    discarded: BTreeMap<u32, u64>,
    /// Discards before this one survive a power cut.
    pub(crate) discards_durable_below: u64,
}

impl Contents {
    fn new(cells: Cells, frames: usize, slots: usize) -> Self {
        Self {
            cells,
            sequences: vec![0; frames],
            slots: vec![Vec::new(); slots],
            writes: BTreeMap::new(),
            next_sequence: 1,
            discarded: BTreeMap::new(),
            discards_durable_below: 0,
        }
    }

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    pub(crate) fn moved(&mut self, from: u32, to: u32) {
        self.cells.move_frame(from, to);
        self.sequences[to as usize] = self.sequences[from as usize];
    }

    pub(crate) fn erased(&mut self, frames: std::ops::Range<u32>) {
        let frames = frames.start as usize..frames.end as usize;
        self.cells.erase(frames.clone());
        self.sequences[frames].fill(0);
    }

    /// The cells of a frame are left as a power cut during their programming leaves them.
    pub(crate) fn tear(&mut self, frame: u32, frame_bytes: usize, random: &mut Random) {
        let mut bytes = vec![0; frame_bytes];
        random.fill(&mut bytes);
        self.cells.program(frame, &bytes);
        self.sequences[frame as usize] = TORN;
    }

    pub(crate) fn discard(&mut self, logical: u32) {
        let sequence = self.sequence();
        self.discarded.insert(logical, sequence);
    }

    pub(crate) fn make_discards_durable(&mut self) {
        self.discards_durable_below = self.next_sequence;
    }

    /// After a power cut: when the frame was discarded, if that survived.
    pub(crate) fn discarded_at(&self, logical: u32) -> Option<u64> {
        self.discarded.get(&logical).copied().filter(|&at| at < self.discards_durable_below)
    }

    /// Only what survived is known of discards, and nothing of writes under way.
    pub(crate) fn lose_volatile(&mut self) {
        let durable = self.discards_durable_below;
        self.discarded.retain(|_, at| *at < durable);
        self.writes.clear();
        self.slots.iter_mut().for_each(Vec::clear);
    }
}

impl Flash {
    /// From now on bytes are kept: what was written before reads as zeros.
    pub fn keep_contents(&mut self) {
        let cells = Cells::Here(vec![None; self.ftl.owners.len()]);
        self.keep_cells(cells);
    }

    /// As [`Self::keep_contents`], but the cells' bytes are in `store`, which holds nothing yet. A clone of the drive
    /// shares it: only one of them may go on.
    pub fn keep_contents_in(&mut self, store: Arc<dyn ByteStore>) {
        self.keep_cells(Cells::Elsewhere { store, frame_bytes: u64::from(self.shape.frame_bytes) });
    }

    fn keep_cells(&mut self, cells: Cells) {
        let contents = Contents::new(cells, self.ftl.owners.len(), self.buffer.slots.len());
        self.contents = Some(Box::new(contents));
    }

    pub(crate) fn hold_write(&mut self, pending: u32, bytes: &[u8]) {
        if let Some(contents) = &mut self.contents {
            contents.writes.insert(pending, bytes.into());
        }
    }

    pub(crate) fn release_write(&mut self, pending: u32) {
        if let Some(contents) = &mut self.contents {
            contents.writes.remove(&pending);
        }
    }

    /// A write's part of a frame is in a slot; a slot behind another begins with what that one holds.
    pub(crate) fn buffer_bytes(&mut self, pending: u32, logical: u32, slot: u32, predecessor: Option<u32>) {
        let request = self.pending[pending as usize].request;
        let frame_bytes = u64::from(self.shape.frame_bytes);
        let Some(contents) = &mut self.contents else { return };
        let bytes = contents.writes.get(&pending).expect("a write over contents has bytes").clone();
        if let Some(predecessor) = predecessor {
            contents.slots[slot as usize] = contents.slots[predecessor as usize].clone();
        }
        let into = &mut contents.slots[slot as usize];
        into.resize(frame_bytes as usize, 0);
        let start = u64::from(logical) * frame_bytes;
        let from = request.offset.max(start);
        let to = (request.offset + request.len).min(start + frame_bytes);
        into[(from - start) as usize..(to - start) as usize]
            .copy_from_slice(&bytes[(from - request.offset) as usize..(to - request.offset) as usize]);
    }

    /// The rest of a slot's frame has been read.
    pub(crate) fn complete_bytes(&mut self, slot: u32) {
        let at = self.buffer.slots[slot as usize];
        let Some(contents) = &mut self.contents else { return };
        if at.old != NONE {
            let mut cell = vec![0; self.shape.frame_bytes as usize];
            contents.cells.read(at.old, &mut cell);
            overlay(&mut contents.slots[slot as usize], &cell, !at.mask);
        }
    }

    /// A slot's bytes are in the cells.
    pub(crate) fn program_bytes(&mut self, slot: u32, frame: u32) {
        let logical = self.buffer.slots[slot as usize].logical;
        let Some(contents) = &mut self.contents else { return };
        let bytes = contents.slots[slot as usize].as_slice();
        contents.cells.program(frame, bytes);
        contents.sequences[frame as usize] = contents.sequence();
        contents.discarded.remove(&logical);
    }

    pub(crate) fn forget_bytes(&mut self, slot: u32) {
        if let Some(contents) = &mut self.contents {
            contents.slots[slot as usize].clear();
        }
    }

    /// What a read finds; zeros where bytes were not kept.
    pub fn read_contents(&self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        let Some(contents) = &self.contents else { return };
        let frame_bytes = u64::from(self.shape.frame_bytes);
        let end = offset + into.len() as u64;
        let mut at = offset;
        let mut whole = vec![0; frame_bytes as usize];
        while at < end {
            let logical = at / frame_bytes;
            let start = logical * frame_bytes;
            let to = end.min(start + frame_bytes);
            let place = self.ftl.map[logical as usize];
            let (slot, frame) = match place {
                NONE => (None, NONE),
                place if place & SLOT != 0 => {
                    let slot = place & !SLOT;
                    (Some(slot), self.buffer.slots[slot as usize].old)
                }
                frame => (None, frame),
            };
            contents.cells.read(frame, &mut whole);
            if let Some(slot) = slot {
                let mask = self.buffer.slots[slot as usize].mask;
                overlay(&mut whole, &contents.slots[slot as usize], mask);
            }
            into[(at - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&whole[(at - start) as usize..(to - start) as usize]);
            at = to;
        }
    }
}

/// Copies the sectors of `from` that `mask` has a bit for.
fn overlay(into: &mut [u8], from: &[u8], mask: u32) {
    let sector = SECTOR_BYTES as usize;
    for (number, (into, from)) in into.chunks_mut(sector).zip(from.chunks(sector)).enumerate() {
        if mask >> number & 1 == 1 {
            into.copy_from_slice(from);
        }
    }
}
