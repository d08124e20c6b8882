//! A drive's past in a file: the mapping and the blocks, so that preconditioning need not be done again.
//!
//! ```text
//! magic        8  "EVKFLASH"
//! version      4  1
//! blocks       4
//! fingerprint  8  of the shape: a file fits the drive it was made from and no other
//! each block: written 4, wear 4, state 1 (0 free, 1 host's, 2 collection's, 3 full)
//! each frame written, block by block: owner 4, with the highest bit if it is not valid;
//!                                     all bits but the lowest for padding
//! sum          8  of everything before it
//! ```
//!
//! All numbers are little-endian. A file is refused whole, and the drive stays as it is, unless everything about it
//! is as a drive of this shape could have left it: lengths follow from the shape and from counts that are checked
//! first, no frame of the drive is valid twice, no plane has more open blocks than writers.

use std::fmt;
use std::io::{self, Read, Write};

use super::Flash;
use super::ftl::{Block, BlockState, Ftl, NONE, PADDING};
use crate::trace;

const MAGIC: &[u8; 8] = b"EVKFLASH";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
const BLOCK_BYTES: usize = 9;
/// Marks an owner whose frame is not valid. Logical frames have fewer than 31 bits.
const STALE: u32 = 1 << 31;
const SAVED_PADDING: u32 = u32::MAX - 1;

/// Why a file was refused.
#[derive(Debug)]
pub enum LoadError {
    /// It could not be read.
    Io(io::Error),
    /// It is not what a drive of this shape leaves.
    Refused(&'static str),
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(out, "the drive's state cannot be read: {error}"),
            Self::Refused(why) => write!(out, "this is no state of this drive: {why}"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Refused("it ends too early"),
            _ => Self::Io(error),
        }
    }
}

fn refuse<T>(why: &'static str) -> Result<T, LoadError> {
    Err(LoadError::Refused(why))
}

/// Passes bytes on and sums them.
struct Summed<T> {
    inner: T,
    sum: u64,
}

impl<T: Write> Summed<T> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum = trace::fold(self.sum, trace::digest(bytes));
        self.inner.write_all(bytes)
    }
}

impl<T: Read> Summed<T> {
    fn get(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.sum = trace::fold(self.sum, trace::digest(bytes));
        Ok(())
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

impl Flash {
    /// What tells drives apart whose mappings do not fit each other.
    fn fingerprint(&self) -> u64 {
        let shape = &self.shape;
        [
            u64::from(shape.units()),
            u64::from(shape.unit_planes()),
            u64::from(shape.blocks),
            u64::from(shape.pages),
            u64::from(shape.page_bytes),
            u64::from(shape.frame_bytes),
            shape.size_bytes,
        ]
        .into_iter()
        .fold(1, trace::fold)
    }

    /// Writes the state of the mapping. The drive must have nothing under way and nothing in its buffer; contents
    /// are not part of it.
    ///
    /// # Errors
    ///
    /// What `into` says.
    pub fn save(&self, into: impl Write) -> io::Result<()> {
        assert!(self.under_way() == 0 && self.buffer.used().is_empty(), "the drive is at work");
        let mut out = Summed { inner: into, sum: 0 };
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((self.ftl.blocks.len() as u32).to_le_bytes());
        header.extend(self.fingerprint().to_le_bytes());
        out.put(&header)?;
        for (number, block) in self.ftl.blocks.iter().enumerate() {
            let plane = &self.ftl.planes[number / self.shape.blocks as usize];
            let state = match plane.open.iter().position(|&open| open == number as u32) {
                Some(writer) => writer as u8 + 1,
                None if block.state == BlockState::Free => 0,
                None => 3,
            };
            let mut bytes = [0; BLOCK_BYTES];
            bytes[..4].copy_from_slice(&block.written.to_le_bytes());
            bytes[4..8].copy_from_slice(&block.wear.to_le_bytes());
            bytes[8] = state;
            out.put(&bytes)?;
        }
        let mut bytes = Vec::new();
        for (number, block) in self.ftl.blocks.iter().enumerate() {
            bytes.clear();
            let first = (number as u32) << self.ftl.shift;
            for frame in first..first + block.written {
                let owner = self.ftl.owners[frame as usize];
                let owner = match owner {
                    PADDING | NONE => SAVED_PADDING,
                    owner if self.ftl.is_valid(frame) => owner,
                    owner => owner | STALE,
                };
                bytes.extend(owner.to_le_bytes());
            }
            out.put(&bytes)?;
        }
        let sum = out.sum;
        out.inner.write_all(&sum.to_le_bytes())?;
        out.inner.flush()
    }

    /// Takes over a state that [`Self::save`] wrote, of a drive of the same shape. The drive must have nothing
    /// under way and nothing in its buffer.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not such a state; the drive stays as it is.
    pub fn load(&mut self, from: impl Read) -> Result<(), LoadError> {
        assert!(self.under_way() == 0 && self.buffer.used().is_empty(), "the drive is at work");
        let mut input = Summed { inner: from, sum: 0 };
        let mut header = [0; HEADER_BYTES];
        input.get(&mut header)?;
        if &header[..8] != MAGIC {
            return refuse("it does not begin as one");
        }
        if number(&header[8..]) != VERSION {
            return refuse("it is of another version");
        }
        if number(&header[12..]) as usize != self.ftl.blocks.len()
            || header[16..24] != self.fingerprint().to_le_bytes()
        {
            return refuse("it is of a drive of another shape or size");
        }
        let mut ftl = Ftl::new(&self.shape);
        self.load_blocks(&mut ftl, &mut input)?;
        load_owners(&mut ftl, &mut input)?;
        let expected = input.sum;
        let mut sum = [0; 8];
        input.inner.read_exact(&mut sum)?;
        if sum != expected.to_le_bytes() {
            return refuse("its sum is wrong");
        }
        if input.inner.read(&mut [0])? != 0 {
            return refuse("it goes on after its end");
        }
        self.ftl = ftl;
        Ok(())
    }

    fn load_blocks(&self, ftl: &mut Ftl, input: &mut Summed<impl Read>) -> Result<(), LoadError> {
        let (all, page) = (ftl.frames_a_block(), self.shape.frames_a_page());
        ftl.planes.iter_mut().for_each(|plane| plane.free.clear());
        for block in 0..ftl.blocks.len() {
            let mut bytes = [0; BLOCK_BYTES];
            input.get(&mut bytes)?;
            let (written, wear) = (number(&bytes), number(&bytes[4..]));
            if written > all || !written.is_multiple_of(page) {
                return refuse("a block has more or less than pages");
            }
            let plane = &mut ftl.planes[block / self.shape.blocks as usize];
            let state = match bytes[8] {
                0 if written == 0 => {
                    plane.free.push(block as u32);
                    BlockState::Free
                }
                writer @ 1..=2 if plane.open[writer as usize - 1] == NONE => {
                    plane.open[writer as usize - 1] = block as u32;
                    BlockState::Open
                }
                3 if written == all => BlockState::Full,
                _ => return refuse("a block is in a state that does not fit its pages"),
            };
            ftl.blocks[block] = Block { count: 0, written, wear, state };
        }
        if ftl.planes.iter().any(|plane| plane.free.is_empty()) {
            return refuse("a plane has no free block");
        }
        Ok(())
    }
}

fn load_owners(ftl: &mut Ftl, input: &mut Summed<impl Read>) -> Result<(), LoadError> {
    let mut bytes = Vec::new();
    for block in 0..ftl.blocks.len() {
        let first = (block as u32) << ftl.shift;
        let written = ftl.blocks[block].written;
        bytes.resize(written as usize * 4, 0);
        input.get(&mut bytes)?;
        for (owner, frame) in bytes.chunks_exact(4).map(number).zip(first..) {
            if owner == SAVED_PADDING {
                ftl.set_owner(frame, PADDING);
                continue;
            }
            let logical = owner & !STALE;
            let Some(place) = ftl.map.get_mut(logical as usize) else {
                return refuse("a page belongs to nothing on the drive");
            };
            if owner & STALE == 0 {
                if *place != NONE {
                    return refuse("two pages hold the same place of the drive");
                }
                *place = frame;
                ftl.validate(frame);
            }
            ftl.set_owner(frame, logical);
        }
    }
    Ok(())
}
