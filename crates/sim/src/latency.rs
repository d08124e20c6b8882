//! How long a simulated drive takes.
//!
//! An operation takes its base, what its bytes take to travel, and a jitter of its own: concurrent operations
//! complete in any order.

use crate::random::Random;

/// What operations take, in virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// Base of a read.
    pub read_ns: u64,
    /// Base of a buffered write.
    pub write_ns: u64,
    /// Base of a durable write.
    pub durable_write_ns: u64,
    /// A flush.
    pub flush_ns: u64,
    /// A discard.
    pub discard_ns: u64,
    /// For each KiB that is read or written.
    pub transfer_ns_per_kib: u64,
    /// At most this is added, by chance.
    pub jitter_ns: u64,
    /// One in so many buffered writes takes `slow_write_ns` instead; 0 for none.
    pub slow_writes_one_in: u64,
    /// Base of such a write: longer than a flush, say.
    pub slow_write_ns: u64,
}

impl Default for Latency {
    /// About those of an NVMe SSD without power-loss protection, with enough jitter to reorder neighbours.
    fn default() -> Self {
        Self {
            read_ns: 80_000,
            write_ns: 20_000,
            durable_write_ns: 400_000,
            flush_ns: 600_000,
            discard_ns: 50_000,
            transfer_ns_per_kib: 400,
            jitter_ns: 200_000,
            slow_writes_one_in: 0,
            slow_write_ns: 4_000_000,
        }
    }
}

impl Latency {
    /// Nothing takes time; concurrent operations complete in the order the scheduler chooses.
    pub const NONE: Self = Self {
        read_ns: 0,
        write_ns: 0,
        durable_write_ns: 0,
        flush_ns: 0,
        discard_ns: 0,
        transfer_ns_per_kib: 0,
        jitter_ns: 0,
        slow_writes_one_in: 0,
        slow_write_ns: 0,
    };

    /// Base of a buffered write.
    pub fn draw_write_ns(&self, random: &mut Random) -> u64 {
        match self.slow_writes_one_in {
            0 => self.write_ns,
            one_in if random.below(one_in) == 0 => self.slow_write_ns,
            _ => self.write_ns,
        }
    }

    /// What an operation takes whose base is `base_ns` and which moves `len_bytes`.
    pub fn draw_ns(&self, base_ns: u64, len_bytes: u64, random: &mut Random) -> u64 {
        let transfer_ns = len_bytes * self.transfer_ns_per_kib / 1024;
        base_ns + transfer_ns + random.below(self.jitter_ns + 1)
    }
}
