//! The shape of stripes, as the head of a ring's member says it: how many data and parity shards, and how long.

use super::{Fields, PAGE_BYTES};

/// Most data shards of a stripe.
pub const DATA_MAX: usize = 28;

/// Most parity shards of a stripe.
pub const PARITY_MAX: usize = 4;

/// Largest shard, in bytes.
pub const SHARD_BYTES_MAX: u64 = 1 << 20;

/// How many shards a stripe has, and how long they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripes {
    data: u16,
    parity: u16,
    shard_bytes: u64,
}

impl Stripes {
    /// Stripes of `data` and `parity` shards of `shard_bytes`; `None` where there are none such: 2 to [`DATA_MAX`] data
    /// shards, 1 to [`PARITY_MAX`] parity shards, a power of two of bytes from a page to [`SHARD_BYTES_MAX`].
    pub fn new(data: usize, parity: usize, shard_bytes: u64) -> Option<Self> {
        let is_sound = (2..=DATA_MAX).contains(&data)
            && (1..=PARITY_MAX).contains(&parity)
            && (PAGE_BYTES..=SHARD_BYTES_MAX).contains(&shard_bytes)
            && shard_bytes.is_power_of_two();
        is_sound.then_some(Self { data: data as u16, parity: parity as u16, shard_bytes })
    }

    /// Data shards of a stripe: K.
    pub fn data(&self) -> usize {
        usize::from(self.data)
    }

    /// Parity shards of a stripe: M. So many members may be lost.
    pub fn parity(&self) -> usize {
        usize::from(self.parity)
    }

    /// Members that it takes, one for each shard of a stripe: K + M.
    pub fn members(&self) -> usize {
        self.data() + self.parity()
    }

    /// Bytes of a shard.
    pub fn shard_bytes(&self) -> u64 {
        self.shard_bytes
    }

    /// As words of a head.
    pub(super) fn words(&self) -> [u64; 3] {
        [u64::from(self.data), u64::from(self.parity), self.shard_bytes]
    }

    /// Those that a head says; `None` where nobody writes such.
    pub(super) fn of(fields: &mut Fields<'_>) -> Option<Self> {
        let (data, parity, shard_bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
        Self::new(usize::try_from(data).ok()?, usize::try_from(parity).ok()?, shard_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_nobody_makes_are_none() {
        assert!(Stripes::new(4, 2, 64 << 10).is_some());
        let unsound = [
            (1, 1, 4096),
            (DATA_MAX + 1, 1, 4096),
            (2, 0, 4096),
            (2, PARITY_MAX + 1, 4096),
            (2, 1, 0),
            (2, 1, 2048),
            (2, 1, 12288),
            (2, 1, 2 << 20),
            (usize::MAX, usize::MAX, u64::MAX),
        ];
        for (data, parity, shard_bytes) in unsound {
            assert_eq!(Stripes::new(data, parity, shard_bytes), None, "{data}+{parity}, {shard_bytes}");
        }
    }
}
