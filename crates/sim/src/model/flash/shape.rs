//! What a flash drive is made of, and how it is scaled.

use std::fmt;

use super::super::SECTOR_BYTES;

/// When garbage collection gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
    /// Once a block's collection began, its unit does nothing else until the block is erased: reads wait for all
    /// of it.
    Blocking,
    /// Reads, and writes while there is room for them, go between two moves.
    Yielding,
    /// The whole drive stops for it: see `stopping.rs` beside this.
    Stopping,
    /// As yielding; and each write pays for its share of moves, so that room never runs out at once.
    Paced,
}

/// A flash drive's parts and times.
///
/// A channel has chips, a chip dies, a die planes, a plane blocks, a block pages. What is mapped is a frame: a page
/// or a part of one. What carries out one command at a time is a unit: a die, or a chip whose dies take turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Channels, each of which moves the bytes of one page at a time.
    pub channels: u32,
    /// Chips on each channel.
    pub chips: u32,
    /// Dies of each chip.
    pub dies: u32,
    /// Planes of each die.
    pub planes: u32,
    /// Blocks of each plane.
    pub blocks: u32,
    /// Pages of each block; a power of two.
    pub pages: u32,
    /// Pages of each block before the drive was scaled: what one erase of the real drive frees.
    pub pages_unscaled: u32,
    /// Bytes of a page; a power of two.
    pub page_bytes: u32,
    /// Bytes of a frame, 512 to 16384; a power of two. A write of less than a frame is read, changed and written
    /// as a frame, unless the rest of the frame was never written (then it is padded with zeros).
    pub frame_bytes: u32,
    /// Whether the dies of a chip work independently of each other.
    pub dies_apart: bool,
    /// Whether the planes of a die are programmed together when there is enough to program.
    pub planes_together: bool,
    /// From the cells to the page register (tR).
    pub read_ns: u64,
    /// From the page register to the cells (tPROG).
    pub program_ns: u64,
    /// Of a block (tERASE).
    pub erase_ns: u64,
    /// What a channel moves.
    pub channel_bytes_per_s: u64,
    /// Whether garbage collection moves pages within the die, without the channel.
    pub copyback: bool,
    /// What the host's link moves.
    pub link_bytes_per_s: u64,
    /// Whether the link moves both ways at once.
    pub link_duplex: bool,
    /// What the controller takes for a command before it takes up the next one.
    pub command_ns: u64,
    /// As much for a write.
    pub write_command_ns: u64,
    /// What each command takes beside everything else.
    pub latency_ns: u64,
    /// The RAM buffer.
    pub buffer_bytes: u64,
    /// Dirty bytes, in percent of the buffer, above which they are written back without being asked for.
    pub write_back_percent: u32,
    /// How long a dirty page waits at most before it is written back; `None`: until asked for.
    pub write_back_after_ns: Option<u64>,
    /// For how long no read must have come before what nobody waits for is written back and room is made for more of it;
    /// `None`: reads make no difference.
    pub yields_to_reads_ns: Option<u64>,
    /// Whether a write is done before it is in the cells.
    pub write_cache: bool,
    /// Whether the buffer survives a power cut (capacitors).
    pub power_loss_protection: bool,
    /// Frames that cannot be addressed, in hundredths of a percent of those that can.
    pub spare_per_10000: u32,
    /// Free blocks of a plane at or below which it is collected; at least 2.
    pub collect_at_blocks: u32,
    /// When garbage collection gives way.
    pub collection: Collection,
    /// What it takes to suspend a program or an erase for a read and to resume it; `None`: reads wait.
    pub suspend_ns: Option<u64>,
    /// Bytes that can be addressed.
    pub size_bytes: u64,
}

/// Why there is no such drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError(String);

impl fmt::Display for ShapeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ShapeError {}

impl ShapeError {
    /// There is no drive so large.
    pub(crate) fn too_large(size_bytes: u64, most_bytes: u64) -> Self {
        Self(format!("{size_bytes} bytes are too many: this model takes {} GiB at most", most_bytes >> 30))
    }

    /// What a drive cannot be made of.
    pub(crate) fn parts(why: String) -> Self {
        Self(why)
    }

    /// There is no drive of that size.
    pub(crate) fn size(size_bytes: u64) -> Self {
        Self(format!("{size_bytes} bytes are no whole number of sectors of 512 bytes"))
    }
}

/// Fewer blocks than this make a plane too coarse for greedy collection: pages are taken off blocks instead.
const SCALED_BLOCKS_MIN: u32 = 128;
/// Blocks of each plane beyond the spare ones, so that what is being written to does not come out of a scaled
/// drive's few spare blocks.
const WORKING_BLOCKS: u32 = 1;
/// Page numbers and slots of the buffer share 32 bits.
const FRAMES_MAX: u64 = 1 << 31;

impl Shape {
    /// This drive with another size: the same channels, chips, dies, planes and share of spare frames, with fewer
    /// or more blocks; below [`SCALED_BLOCKS_MIN`] blocks a plane, with shorter ones as well. The buffer stays.
    ///
    /// # Errors
    ///
    /// If the size is nothing, no multiple of 512, or too large.
    pub fn sized(mut self, size_bytes: u64) -> Result<Self, ShapeError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(ShapeError::size(size_bytes));
        }
        let needed = u128::from(size_bytes.div_ceil(u64::from(self.frame_bytes)))
            * (10_000 + u128::from(self.spare_per_10000))
            / 10_000;
        let planes = u64::from(self.plane_count());
        let frames_a_page = u128::from(self.frames_a_page());
        let blocks_of = |pages: u32| needed.div_ceil(u128::from(planes) * u128::from(pages) * frames_a_page);
        while self.pages > self.pages_min() && blocks_of(self.pages) < u128::from(SCALED_BLOCKS_MIN) {
            self.pages /= 2;
        }
        let blocks = blocks_of(self.pages) + u128::from(WORKING_BLOCKS + self.collect_at_blocks);
        let frames = blocks * u128::from(planes) * u128::from(self.pages) * frames_a_page;
        if frames > u128::from(FRAMES_MAX) {
            return Err(ShapeError::too_large(size_bytes, FRAMES_MAX * u64::from(self.frame_bytes)));
        }
        self.blocks = blocks as u32;
        self.size_bytes = size_bytes;
        Ok(self)
    }

    /// As short as blocks get. Collecting a block gains nothing until a page's worth of its frames is not valid, so
    /// a block's share of spare frames is to be a page at least.
    fn pages_min(&self) -> u32 {
        match self.frames_a_page() {
            1 => 4,
            _ => (10_000 / self.spare_per_10000.max(1) + 1).next_power_of_two().max(4),
        }
    }

    /// Frames that can be addressed.
    pub fn logical_frames(&self) -> u32 {
        self.size_bytes.div_ceil(u64::from(self.frame_bytes)) as u32
    }

    /// Frames of the flash.
    pub fn frames(&self) -> u32 {
        self.plane_count() * self.blocks * self.frames_a_block()
    }

    /// Frames of a page.
    pub fn frames_a_page(&self) -> u32 {
        self.page_bytes / self.frame_bytes
    }

    /// Frames of a block; a power of two.
    pub fn frames_a_block(&self) -> u32 {
        self.pages * self.frames_a_page()
    }

    /// Free blocks of a plane above which collection ends that has begun: where the drive stops for it, as many as take
    /// a buffer full of writes, but no more than half of the spare ones.
    pub(crate) fn collect_to_blocks(&self) -> u32 {
        if self.collection != Collection::Stopping {
            return self.collect_at_blocks;
        }
        let a_round_of_blocks = self.plane_count() * self.frames_a_block();
        let spare = (self.frames() - self.logical_frames()) / a_round_of_blocks;
        let wanted = self.buffer_frames().div_ceil(a_round_of_blocks);
        self.collect_at_blocks + wanted.min(spare.saturating_sub(self.collect_at_blocks) / 2)
    }

    /// What carries out one command at a time, all of them.
    pub fn units(&self) -> u32 {
        self.channels * self.chips * if self.dies_apart { self.dies } else { 1 }
    }

    /// Planes of a unit.
    pub fn unit_planes(&self) -> u32 {
        self.planes * if self.dies_apart { 1 } else { self.dies }
    }

    /// All planes.
    pub fn plane_count(&self) -> u32 {
        self.units() * self.unit_planes()
    }

    /// Frames that the buffer holds.
    pub fn buffer_frames(&self) -> u32 {
        (self.buffer_bytes / u64::from(self.frame_bytes)) as u32
    }

    /// What the channel takes for so many bytes.
    pub(crate) fn channel_ns(&self, bytes: u64) -> u64 {
        per_s_to_ns(bytes, self.channel_bytes_per_s)
    }

    /// What the link takes for so many bytes.
    pub(crate) fn link_ns(&self, bytes: u64) -> u64 {
        per_s_to_ns(bytes, self.link_bytes_per_s)
    }

    /// Whether a drive can be made of these parts, in any size.
    ///
    /// # Errors
    ///
    /// The first part that cannot be, in a line.
    pub fn check_parts(&self) -> Result<(), ShapeError> {
        let within = |name: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(ShapeError::parts(format!("{name} is {value}: it takes {least} to {most}"))),
        };
        let power = |name: &str, value: u32| match value.is_power_of_two() {
            true => Ok(()),
            false => Err(ShapeError::parts(format!("{name} is {value}: it takes a power of two"))),
        };
        /// Ten seconds: nothing that a drive does takes longer.
        const NS_MAX: u64 = 10_000_000_000;
        const BYTES_PER_S: [u64; 2] = [1_000, 1_000_000_000_000];
        for (name, value, most) in [
            ("channels", self.channels, 256),
            ("chips", self.chips, 256),
            ("dies", self.dies, 64),
            ("planes", self.planes, 16),
            ("pages", self.pages, 1 << 16),
        ] {
            within(name, u64::from(value), 1, most)?;
        }
        within("pages", u64::from(self.pages), 4, 1 << 16)?;
        within("page_bytes", u64::from(self.page_bytes), 512, 1 << 20)?;
        within("frame_bytes", u64::from(self.frame_bytes), 512, 16_384)?;
        for (name, value) in [
            ("planes", self.planes),
            ("pages", self.pages),
            ("page_bytes", self.page_bytes),
            ("frame_bytes", self.frame_bytes),
        ] {
            power(name, value)?;
        }
        if self.frame_bytes > self.page_bytes {
            let Self { frame_bytes, page_bytes, .. } = self;
            return Err(ShapeError::parts(format!(
                "frame_bytes is {frame_bytes}, more than a page of {page_bytes}"
            )));
        }
        within(
            "frames of a program, a page on each plane,",
            u64::from(self.frames_a_page() * self.planes),
            1,
            64,
        )?;
        within("units (channels, chips and dies)", u64::from(self.units()), 1, 16_384)?;
        for (name, ns) in [
            ("read", self.read_ns),
            ("program", self.program_ns),
            ("erase", self.erase_ns),
            ("command", self.command_ns),
            ("write command", self.write_command_ns),
            ("latency", self.latency_ns),
            ("suspending", self.suspend_ns.unwrap_or(0)),
        ] {
            within(&format!("{name}, in nanoseconds,"), ns, 0, NS_MAX)?;
        }
        let [least, most] = BYTES_PER_S;
        within("the channels' bytes a second", self.channel_bytes_per_s, least, most)?;
        within("the link's bytes a second", self.link_bytes_per_s, least, most)?;
        let program = u64::from(self.frames_a_page() * self.planes) * u64::from(self.frame_bytes);
        within("bytes of the buffer, which holds a program,", self.buffer_bytes, program, 64 << 30)?;
        within("write_back_percent", u64::from(self.write_back_percent), 0, 100)?;
        within(
            "over-provisioning, in hundredths of a percent,",
            u64::from(self.spare_per_10000),
            100,
            100_000,
        )?;
        // One free block is for collection itself.
        within("collect_at_blocks", u64::from(self.collect_at_blocks), 2, 64)
    }

    /// Asserts what the rest relies on: a preset or a test that breaks it is a bug.
    pub(crate) fn assert_sound(&self) {
        if let Err(error) = self.check_parts() {
            panic!("{error}");
        }
        assert!(self.size_bytes > 0, "a drive without a size");
        assert!(
            u64::from(self.plane_count()) * u64::from(self.blocks) * u64::from(self.frames_a_block())
                <= FRAMES_MAX
        );
        let working = 3 * self.plane_count() * self.frames_a_block();
        assert!(self.logical_frames() + working <= self.frames(), "no room to collect garbage in");
    }
}

fn per_s_to_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    // Less than 2^34 bytes a request: no overflow.
    bytes * 1_000_000_000 / bytes_per_s
}
