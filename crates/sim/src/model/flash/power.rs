//! Power cuts, and how the drive comes back.
//!
//! 1. What was in the buffer and not in the cells is gone, unless capacitors write it down.
//! 2. Frames being programmed are torn: their checksum is wrong, and the drive goes on with the version before.
//! 3. The mapping is found again as a drive does: from what stands beside each frame (whose it is, and when it was
//!    written) the newest of each logical frame that is not torn; and from the last checkpoint, which has the
//!    blocks' states and the discards that a flush covered. Nothing that the drive held in memory is used.
//!
//! Pages that share cells with the one being programmed are not harmed; some drives of MLC without capacitors are
//! worse than that.

use super::super::schedule::Schedule;
use super::buffer::Buffer;
use super::contents::TORN;
use super::ftl::{NONE, PADDING, SLOT};
use super::units::Stop;
use super::units::{State, Unit};
use super::{Flash, SOURCES};
use crate::random::Random;

/// Pages programmed between two checkpoints of the mapping, which cost the model nothing.
const CHECKPOINT_PAGES: u64 = 65_536;

impl Flash {
    /// The power fails, and comes back: requests under way are forgotten, the drive's time begins at 0 again.
    /// Answers what the drive takes to be ready. It must keep its contents.
    pub fn power_cut(&mut self, random: &mut Random) -> u64 {
        assert!(self.contents.is_some(), "a drive without contents has nothing to lose");
        self.tear_in_flight(random);
        if self.shape.power_loss_protection {
            self.dump_buffer();
        }
        self.lose_volatile();
        self.recover();
        self.recovery_ns()
    }

    fn tear_in_flight(&mut self, random: &mut Random) {
        let frame_bytes = self.shape.frame_bytes as usize;
        for unit in 0..self.units.len() {
            let at = &self.units[unit];
            let doing = at.suspended().unwrap_or(at.state);
            let torn: Vec<u32> = match doing {
                State::Programming => at.batch.iter().map(|&(_, frame)| frame).collect(),
                State::MoveProgramming => at.moves.iter().map(|&(_, to)| to).collect(),
                State::Erasing => {
                    let block = at.collecting.expect("a block is erased").block;
                    let first = block << self.ftl.shift;
                    (first..first + self.ftl.frames_a_block()).filter(|_| random.coin()).collect()
                }
                _ => continue,
            };
            let contents = self.contents.as_mut().expect("checked above");
            for frame in torn {
                contents.tear(frame, frame_bytes, random);
            }
        }
    }

    /// Capacitors last until the newest version of each frame in the buffer is in the cells.
    fn dump_buffer(&mut self) {
        let mut slots: Vec<u32> = self.buffer.used().to_vec();
        slots.retain(|&slot| {
            let at = &self.buffer.slots[slot as usize];
            at.logical != NONE && self.ftl.map[at.logical as usize] == SLOT | slot
        });
        slots.sort_unstable();
        let mut writer = self.placement();
        for slot in slots {
            self.complete_bytes(slot);
            let at = self.buffer.slots[slot as usize];
            // The mapping is found again below; until then it must not lead to the slot.
            self.ftl.map[at.logical as usize] = at.old;
            let frame = writer.place(self, at.logical);
            self.program_bytes(slot, frame);
        }
    }

    fn lose_volatile(&mut self) {
        self.buffer = Buffer::new(self.shape.buffer_frames());
        self.stop = Stop::None;
        self.units.fill_with(Unit::default);
        let units = self.units.len();
        self.idle.fill(0);
        (0..units).for_each(|unit| self.idle[unit / 64] |= 1 << (unit % 64));
        self.channels_free_ns.fill(0);
        self.link_free_ns = [0; 2];
        self.command_free_ns = 0;
        self.schedule = Schedule::new(units + SOURCES);
        self.pending.clear();
        self.pending_free.clear();
        self.arrivals.clear();
        self.landings.clear();
        self.done_reads.clear();
        self.done_others.clear();
        self.waiting.clear();
        self.fetching = 0;
        self.now_ns = 0;
        self.last_read_ns = None;
        self.contents.as_mut().expect("checked above").lose_volatile();
    }

    fn recover(&mut self) {
        let contents = self.contents.as_ref().expect("checked above");
        self.ftl.map.fill(NONE);
        self.ftl.valid.fill(0);
        self.ftl.blocks.iter_mut().for_each(|block| block.count = 0);
        for block in 0..self.ftl.blocks.len() as u32 {
            let first = block << self.ftl.shift;
            for frame in first..first + self.ftl.blocks[block as usize].written {
                let logical = self.ftl.owners[frame as usize];
                let sequence = contents.sequences[frame as usize];
                if logical >= PADDING || sequence == TORN {
                    continue;
                }
                let known = self.ftl.map[logical as usize];
                if known == NONE || contents.sequences[known as usize] <= sequence {
                    self.ftl.map[logical as usize] = frame;
                }
            }
        }
        for logical in 0..self.ftl.map.len() {
            let frame = self.ftl.map[logical];
            if frame == NONE {
                continue;
            }
            if contents.discarded_at(logical as u32).is_some_and(|at| at > contents.sequences[frame as usize])
            {
                self.ftl.map[logical] = NONE;
                continue;
            }
            self.ftl.validate(frame);
        }
    }

    /// Reading the checkpoint, and what stands beside each page programmed since, on all units at once.
    fn recovery_ns(&self) -> u64 {
        let units = self.units.len() as u64;
        let checkpoint_pages = (self.ftl.map.len() as u64 * 4).div_ceil(u64::from(self.shape.page_bytes));
        let since = (self.counters.pages_programmed + self.counters.pages_moved) % CHECKPOINT_PAGES;
        (checkpoint_pages + since).div_ceil(units) * self.shape.read_ns
    }
}
