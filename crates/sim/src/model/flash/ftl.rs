//! The flash translation layer: which frame of the flash holds which frame of the drive.
//!
//! 1. A frame of the flash is written once after each erase of its block, in order.
//! 2. What was written last of a logical frame is valid, and nothing else: `count` of a block is the number of its
//!    valid frames, `valid` has a bit for each.
//! 3. A write takes a free block only if one stays for collection; collection never runs out of blocks.

use super::shape::Shape;

/// No frame, or none of the drive's.
pub(crate) const NONE: u32 = u32::MAX;
/// A frame that was skipped to fill a page, or torn by a power cut.
pub(crate) const PADDING: u32 = u32::MAX - 1;
/// Marks a place in the map that names a slot of the buffer.
pub(crate) const SLOT: u32 = 1 << 31;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    Free,
    /// Written to.
    Open,
    Full,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Valid frames.
    pub(crate) count: u32,
    /// Frames written.
    pub(crate) written: u32,
    /// Erases.
    pub(crate) wear: u32,
    pub(crate) state: BlockState,
}

/// Whose writes go to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Host = 0,
    Collection = 1,
}

#[derive(Debug, Clone)]
pub(crate) struct Plane {
    /// The blocks being written to, by writer; [`NONE`] before the first write.
    pub(crate) open: [u32; 2],
    pub(crate) free: Vec<u32>,
    /// Whether collection that has begun goes on in it until it has as many free blocks as it should.
    refilling: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Ftl {
    /// By logical frame: a frame, a slot of the buffer, or [`NONE`].
    pub(crate) map: Vec<u32>,
    /// By frame, what its spare area says: the logical frame, [`PADDING`], or [`NONE`] if it is blank.
    pub(crate) owners: Vec<u32>,
    pub(crate) valid: Vec<u64>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) planes: Vec<Plane>,
    /// A block of 2^shift frames.
    pub(crate) shift: u32,
    frames_a_page: u32,
    pub(crate) collect_at_blocks: u32,
    collect_to_blocks: u32,
    blocks_a_plane: u32,
}

impl Ftl {
    pub(crate) fn new(shape: &Shape) -> Self {
        let (planes, blocks_a_plane) = (shape.plane_count(), shape.blocks);
        let frames = shape.frames() as usize;
        let block = Block { count: 0, written: 0, wear: 0, state: BlockState::Free };
        let planes = (0..planes)
            .map(|plane| {
                let first = plane * blocks_a_plane;
                Plane {
                    open: [NONE; 2],
                    free: (first..first + blocks_a_plane).rev().collect(),
                    refilling: false,
                }
            })
            .collect::<Vec<_>>();
        Self {
            map: vec![NONE; shape.logical_frames() as usize],
            owners: vec![NONE; frames],
            valid: vec![0; frames.div_ceil(64)],
            blocks: vec![block; planes.len() * blocks_a_plane as usize],
            planes,
            shift: shape.frames_a_block().trailing_zeros(),
            frames_a_page: shape.frames_a_page(),
            collect_at_blocks: shape.collect_at_blocks,
            collect_to_blocks: shape.collect_to_blocks(),
            blocks_a_plane,
        }
    }

    pub(crate) fn frames_a_block(&self) -> u32 {
        1 << self.shift
    }

    pub(crate) fn block_of(&self, frame: u32) -> u32 {
        frame >> self.shift
    }

    pub(crate) fn blocks_of(&self, plane: u32) -> std::ops::Range<u32> {
        plane * self.blocks_a_plane..(plane + 1) * self.blocks_a_plane
    }

    pub(crate) fn is_valid(&self, frame: u32) -> bool {
        self.valid[frame as usize / 64] >> (frame % 64) & 1 == 1
    }

    pub(crate) fn invalidate(&mut self, frame: u32) {
        if frame == NONE {
            return;
        }
        debug_assert!(self.is_valid(frame));
        self.valid[frame as usize / 64] &= !(1 << (frame % 64));
        let block = self.block_of(frame);
        self.blocks[block as usize].count -= 1;
    }

    pub(crate) fn validate(&mut self, frame: u32) {
        debug_assert!(!self.is_valid(frame));
        self.valid[frame as usize / 64] |= 1 << (frame % 64);
        let block = self.block_of(frame);
        self.blocks[block as usize].count += 1;
    }

    /// Whether `writer` finds a page in `plane`.
    pub(crate) fn has_room(&self, plane: u32, writer: Writer) -> bool {
        let plane = &self.planes[plane as usize];
        let open = plane.open[writer as usize];
        if open != NONE && self.blocks[open as usize].written < self.frames_a_block() {
            return true;
        }
        match writer {
            Writer::Host => plane.free.len() > 1,
            Writer::Collection => !plane.free.is_empty(),
        }
    }

    /// The first frame of the next page in `plane`, all of whose frames count as written and as padding until
    /// [`Self::set_owner`] says otherwise. There must be room.
    pub(crate) fn take_page(&mut self, plane: u32, writer: Writer) -> u32 {
        let mut open = self.planes[plane as usize].open[writer as usize];
        if open == NONE || self.blocks[open as usize].written == self.frames_a_block() {
            if open != NONE {
                self.blocks[open as usize].state = BlockState::Full;
            }
            open = self.take_block(plane);
            self.planes[plane as usize].open[writer as usize] = open;
        }
        let block = &mut self.blocks[open as usize];
        let first = (open << self.shift) + block.written;
        block.written += self.frames_a_page;
        if self.frames_a_page > 1 {
            self.owners[first as usize..(first + self.frames_a_page) as usize].fill(PADDING);
        } else {
            self.owners[first as usize] = PADDING;
        }
        first
    }

    pub(crate) fn set_owner(&mut self, frame: u32, logical: u32) {
        self.owners[frame as usize] = logical;
    }

    /// The free block that was erased least often.
    fn take_block(&mut self, plane: u32) -> u32 {
        let free = &mut self.planes[plane as usize].free;
        let blocks = &self.blocks;
        let mut least = free.len().checked_sub(1).expect("a block stays free for collection");
        // From the end: of equals the one freed last is the cheapest to take.
        for at in (0..least).rev() {
            if blocks[free[at] as usize].wear < blocks[free[least] as usize].wear {
                least = at;
            }
            if blocks[free[least] as usize].wear == 0 {
                break;
            }
        }
        let block = free.swap_remove(least);
        self.blocks[block as usize].state = BlockState::Open;
        block
    }

    /// Whether `plane` should be collected.
    pub(crate) fn is_short(&self, plane: u32) -> bool {
        self.planes[plane as usize].free.len() <= self.collect_at_blocks as usize
    }

    /// Every plane that has fewer free blocks than it should is to be collected until it has them.
    pub(crate) fn refill(&mut self) {
        for plane in &mut self.planes {
            plane.refilling = plane.free.len() <= self.collect_to_blocks as usize;
        }
    }

    /// Whether `plane` should be collected, or has not yet got what [`Self::refill`] wants for it.
    pub(crate) fn wants_room(&self, plane: u32) -> bool {
        self.planes[plane as usize].refilling || self.is_short(plane)
    }

    /// The full block of `plane` with the fewest valid frames, if collecting it gains at least a page and there is room for
    /// these frames. That can be missing where power cuts have torn what collection wrote.
    pub(crate) fn victim(&self, plane: u32) -> Option<u32> {
        let range = self.blocks_of(plane);
        let open = self.planes[plane as usize].open;
        let gains = self.frames_a_block() - self.frames_a_page;
        let (mut least, mut victim) = (gains.min(self.room_to_collect(plane)) + 1, None);
        for (block, number) in self.blocks[range.start as usize..range.end as usize].iter().zip(range) {
            let is_closed = block.state == BlockState::Full
                || open.contains(&number) && block.written == self.frames_a_block();
            if is_closed && block.count < least {
                least = block.count;
                victim = Some(number);
            }
        }
        victim
    }

    /// Frames that collection can write in `plane` before it has erased a block.
    fn room_to_collect(&self, plane: u32) -> u32 {
        let plane = &self.planes[plane as usize];
        if !plane.free.is_empty() {
            return self.frames_a_block();
        }
        match plane.open[Writer::Collection as usize] {
            NONE => 0,
            open => self.frames_a_block() - self.blocks[open as usize].written,
        }
    }

    /// The first valid frame of `block` from `frame` on.
    pub(crate) fn next_valid(&self, block: u32, frame: u32) -> Option<u32> {
        let end = (block + 1) << self.shift;
        let mut at = frame;
        while at < end {
            let word = self.valid[at as usize / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < end).then_some(found);
            }
            at = (at | 63) + 1;
        }
        None
    }

    /// Erases a block without valid frames: it is free.
    pub(crate) fn erase(&mut self, block: u32, plane: u32) {
        let first = (block as usize) << self.shift;
        let end = first + self.frames_a_block() as usize;
        self.owners[first..end].fill(NONE);
        for open in &mut self.planes[plane as usize].open {
            if *open == block {
                *open = NONE;
            }
        }
        let block_number = block;
        let block = &mut self.blocks[block as usize];
        assert_eq!(block.count, 0, "a block is erased that holds valid frames");
        *block = Block { count: 0, written: 0, wear: block.wear + 1, state: BlockState::Free };
        let plane = &mut self.planes[plane as usize];
        plane.free.push(block_number);
        plane.refilling &= plane.free.len() <= self.collect_to_blocks as usize;
    }
}
