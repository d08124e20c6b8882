//! Disks by name, and where their numbers come from. What a source does not state is typical of its class.

use super::platters::DiskShape;

const MIB: u64 = 1 << 20;
const US: u64 = 1_000;

/// The disk of the wasteless-journaling testbed: Seagate Cheetah SAS, 300 GB, 15,000 rpm.
///
/// Kind, size and speed: that paper. Its maker states a mean seek of 3.5 ms, 0.2 ms to the next track, 16 MB, and
/// 73 to 125 MB/s: hence tracks of 500 to 292 KB. Typical: 7.5 ms all the way, 0.3 ms to another head, the write
/// cache off, as servers have it.
pub(crate) fn sas_15k() -> DiskShape {
    DiskShape {
        rpm: 15_000,
        heads: 8,
        track_bytes: [500_224, 292_352],
        seek_ns: [200 * US, 3500 * US, 7500 * US],
        switch_ns: 300 * US,
        write_settle_ns: 400 * US,
        cache_bytes: 16 * MIB,
        write_cache: false,
        link_bytes_per_s: 300_000_000,
        command_ns: 50 * US,
        queue_depth: 64,
        size_bytes: 300_000_000_000,
    }
}

/// The disk of the paper on synchronous writes: Hitachi HDS72101, 1 TB, 7200 rpm.
///
/// Kind, size and speed: that paper. Its maker states for the class a mean seek of 8.5 ms and 32 MB. Typical: 0.8 ms
/// to the next track, 16 ms all the way, 130 to 65 MB/s (tracks of 1083 to 541 KB), write cache on, 32 requests.
pub(crate) fn sata_7200() -> DiskShape {
    DiskShape {
        rpm: 7200,
        heads: 4,
        track_bytes: [1_083_392, 541_696],
        seek_ns: [800 * US, 8500 * US, 16_000 * US],
        switch_ns: 800 * US,
        write_settle_ns: 500 * US,
        cache_bytes: 32 * MIB,
        write_cache: true,
        link_bytes_per_s: 300_000_000,
        command_ns: 100 * US,
        queue_depth: 32,
        size_bytes: 1_000_000_000_000,
    }
}
