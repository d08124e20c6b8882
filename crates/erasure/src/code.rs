//! The code itself: parity from data, missing shards from those that are there, parity by what changed.

use crate::field::multiply;
use crate::kernels::Kernel;
use crate::matrix::{Square, coefficient, invert};

/// The most data shards that a code may have.
pub const MAX_DATA: usize = 32;

/// The most parity shards that a code may have.
pub const MAX_PARITY: usize = 8;

/// What was asked of a code that it cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// A code of so many shards is not offered.
    #[error(
        "a code has 1 to {MAX_DATA} data shards and 1 to {MAX_PARITY} parity shards, not {data} and {parity}"
    )]
    Shape {
        /// Data shards asked for.
        data: usize,
        /// Parity shards asked for.
        parity: usize,
    },
    /// Not as many shards as the code has.
    #[error("{given} shards were given where the code has {needed}")]
    Count {
        /// How many were given.
        given: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Shards of different lengths.
    #[error("shards of different lengths: {one} and {other} bytes")]
    Lengths {
        /// The length of the first one, in bytes.
        one: usize,
        /// The length that differs, in bytes.
        other: usize,
    },
    /// A shard that the code does not have.
    #[error("there is no shard {0}")]
    NoShard(usize),
    /// A shard that was named twice.
    #[error("shard {0} was named twice")]
    Twice(usize),
    /// Fewer shards than it takes to give any other back.
    #[error("{given} shards are there, and {needed} are needed")]
    TooFew {
        /// How many are there.
        given: usize,
        /// How many it takes.
        needed: usize,
    },
}

/// A code of K data shards and M parity shards. Shards are numbered: the data shards from 0, the parity shards from K on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    data: usize,
    parity: usize,
    kernel: Kernel,
}

impl Code {
    /// A code of so many data and parity shards, with the fastest kernel of this machine.
    ///
    /// # Errors
    ///
    /// [`Misuse::Shape`] outside of 1 to [`MAX_DATA`] and 1 to [`MAX_PARITY`].
    pub fn new(data: usize, parity: usize) -> Result<Self, Misuse> {
        if !(1..=MAX_DATA).contains(&data) || !(1..=MAX_PARITY).contains(&parity) {
            return Err(Misuse::Shape { data, parity });
        }
        Ok(Self { data, parity, kernel: Kernel::fastest() })
    }

    /// The same code, computed by this kernel.
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// Data shards: K.
    pub fn data(&self) -> usize {
        self.data
    }

    /// Parity shards: M.
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// All shards: K + M.
    pub fn shards(&self) -> usize {
        self.data + self.parity
    }

    /// Fills the parity shards from the data shards, all of one length.
    ///
    /// # Errors
    ///
    /// [`Misuse::Count`] and [`Misuse::Lengths`].
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), Misuse> {
        for (given, needed) in [(data.len(), self.data), (parity.len(), self.parity)] {
            if given != needed {
                return Err(Misuse::Count { given, needed });
            }
        }
        let lengths = data.iter().map(|shard| shard.len()).chain(parity.iter().map(|shard| shard.len()));
        check_lengths(lengths)?;
        let mut rows = [[0; MAX_DATA]; MAX_PARITY];
        for (shard, row) in rows.iter_mut().enumerate().take(self.parity) {
            for (at, times) in row.iter_mut().enumerate().take(self.data) {
                *times = coefficient(shard, at);
            }
        }
        self.kernel.combine(&rows, data, parity, false);
        Ok(())
    }

    /// Fills `missing` from shards that are there, each with its number, all of one length. More than K of those may be
    /// given: data shards are taken first, then the first ones. Shards that are in neither list are missing too, and not
    /// asked for.
    ///
    /// # Errors
    ///
    /// [`Misuse::TooFew`] where fewer than K are there; [`Misuse::NoShard`], [`Misuse::Twice`] and [`Misuse::Lengths`].
    pub fn reconstruct(
        &self,
        present: &[(usize, &[u8])],
        missing: &mut [(usize, &mut [u8])],
    ) -> Result<(), Misuse> {
        self.check_numbers(present, missing)?;
        let lengths = present.iter().map(|(_, shard)| shard.len());
        check_lengths(lengths.chain(missing.iter().map(|(_, shard)| shard.len())))?;
        let (mut numbers, mut inputs) = ([0; MAX_DATA], [&[][..]; MAX_DATA]);
        let data = present.iter().filter(|(number, _)| *number < self.data);
        let parity = present.iter().filter(|(number, _)| *number >= self.data);
        for (at, (number, shard)) in data.chain(parity).enumerate().take(self.data) {
            (numbers[at], inputs[at]) = (*number, *shard);
        }
        let sources = Sources::of(self, &numbers[..self.data]);
        for wanted in missing.chunks_mut(MAX_PARITY) {
            let mut rows = [[0; MAX_DATA]; MAX_PARITY];
            let mut outputs: [&mut [u8]; MAX_PARITY] = std::array::from_fn(|_| &mut [][..]);
            let count = wanted.len();
            for (at, (number, shard)) in wanted.iter_mut().enumerate() {
                rows[at] = sources.row(*number);
                outputs[at] = shard;
            }
            self.kernel.combine(&rows, &inputs[..self.data], &mut outputs[..count], false);
        }
        Ok(())
    }

    /// Data shard `data` changed by `delta` (old XOR new) somewhere: changes the same bytes of parity shard `parity`, that is
    /// shard K + `parity`, which `range` holds.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoShard`] and [`Misuse::Lengths`].
    pub fn update(&self, data: usize, delta: &[u8], parity: usize, range: &mut [u8]) -> Result<(), Misuse> {
        if data >= self.data {
            return Err(Misuse::NoShard(data));
        }
        if parity >= self.parity {
            return Err(Misuse::NoShard(self.data.saturating_add(parity)));
        }
        check_lengths([delta.len(), range.len()].into_iter())?;
        let mut rows = [[0; MAX_DATA]; MAX_PARITY];
        rows[0][0] = coefficient(parity, data);
        self.kernel.combine(&rows, &[delta], &mut [range], true);
        Ok(())
    }

    /// That every shard is one of the code and named once, and that enough are there.
    fn check_numbers(
        &self,
        present: &[(usize, &[u8])],
        missing: &[(usize, &mut [u8])],
    ) -> Result<(), Misuse> {
        let mut seen = 0u64;
        let numbers = present.iter().map(|(number, _)| *number);
        for number in numbers.chain(missing.iter().map(|(number, _)| *number)) {
            if number >= self.shards() {
                return Err(Misuse::NoShard(number));
            }
            if seen >> number & 1 == 1 {
                return Err(Misuse::Twice(number));
            }
            seen |= 1 << number;
        }
        match present.len() < self.data {
            true => Err(Misuse::TooFew { given: present.len(), needed: self.data }),
            false => Ok(()),
        }
    }
}

/// K shards that are there, data shards first: what each other shard is by them.
struct Sources<'a> {
    numbers: &'a [usize],
    data: usize,
    /// How many of them are data shards.
    data_there: usize,
    /// The data shards that are not there, of which there are as many as parity shards there.
    absent: [usize; MAX_PARITY],
    /// What gives these back of those, once what the data shards there add to them is taken away.
    inverted: Square,
}

impl<'a> Sources<'a> {
    fn of(code: &Code, numbers: &'a [usize]) -> Self {
        let data_there = numbers.iter().filter(|&&number| number < code.data).count();
        let parity_there = &numbers[data_there..];
        let mut absent = [0; MAX_PARITY];
        let missing = (0..code.data).filter(|number| !numbers[..data_there].contains(number));
        for (place, number) in absent.iter_mut().zip(missing) {
            *place = number;
        }
        let mut part = [[0; MAX_PARITY]; MAX_PARITY];
        for (row, &number) in part.iter_mut().zip(parity_there) {
            for (times, &column) in row.iter_mut().zip(&absent[..parity_there.len()]) {
                *times = coefficient(number - code.data, column);
            }
        }
        let inverted =
            invert(part, parity_there.len()).expect("each square part of the coefficients is invertible");
        Self { numbers, data: code.data, data_there, absent, inverted }
    }

    fn parity_there(&self) -> &[usize] {
        &self.numbers[self.data_there..]
    }

    /// By how much each of the K counts in this shard.
    fn row(&self, number: usize) -> [u8; MAX_DATA] {
        let mut row = [0; MAX_DATA];
        if number < self.data {
            self.add(&mut row, number, 1);
            return row;
        }
        for column in 0..self.data {
            self.add(&mut row, column, coefficient(number - self.data, column));
        }
        row
    }

    /// Adds so many times a data shard, there or not.
    fn add(&self, row: &mut [u8; MAX_DATA], number: usize, times: u8) {
        if let Some(at) = self.numbers[..self.data_there].iter().position(|&there| there == number) {
            row[at] ^= times;
            return;
        }
        let Some(which) =
            self.absent[..self.parity_there().len()].iter().position(|&absent| absent == number)
        else {
            return;
        };
        for (at, &parity) in self.parity_there().iter().enumerate() {
            let share = multiply(times, self.inverted[which][at]);
            row[self.data_there + at] ^= share;
            for (place, &column) in self.numbers[..self.data_there].iter().enumerate() {
                row[place] ^= multiply(share, coefficient(parity - self.data, column));
            }
        }
    }
}

fn check_lengths(mut lengths: impl Iterator<Item = usize>) -> Result<(), Misuse> {
    let Some(one) = lengths.next() else { return Ok(()) };
    match lengths.find(|&other| other != one) {
        Some(other) => Err(Misuse::Lengths { one, other }),
        None => Ok(()),
    }
}
