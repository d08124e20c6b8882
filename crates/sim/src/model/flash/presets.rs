//! Flash drives by name, and where their numbers come from.
//!
//! What a source states is taken as it stands. Where it is silent, the times are those that data sheets of that
//! generation of flash give as typical, and marked so. What was chosen to meet a figure is marked as calibrated.

use super::shape::{Collection, Shape};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const US: u64 = 1_000;

/// What the presets share: nothing of it is from a source.
const COMMON: Shape = Shape {
    channels: 1,
    chips: 1,
    dies: 1,
    planes: 1,
    blocks: 0,
    pages: 0,
    pages_unscaled: 0,
    page_bytes: 4096,
    frame_bytes: 4096,
    dies_apart: true,
    planes_together: true,
    read_ns: 0,
    program_ns: 0,
    erase_ns: 0,
    channel_bytes_per_s: 0,
    copyback: false,
    link_bytes_per_s: 0,
    link_duplex: false,
    command_ns: 0,
    write_command_ns: 0,
    latency_ns: 0,
    buffer_bytes: 0,
    write_back_percent: 50,
    write_back_after_ns: Some(1_000 * US),
    yields_to_reads_ns: None,
    write_cache: true,
    power_loss_protection: false,
    spare_per_10000: 700,
    collect_at_blocks: 2,
    collection: Collection::Yielding,
    suspend_ns: None,
    size_bytes: 0,
};

/// MQSim's default drive, 480 GB (512 GiB of flash with 7 % of it spare).
///
/// Shape, times, transfer rate, buffer and over-provisioning: `ssdconfig.xml` of MQSim (Tavakkol et al., FAST 2018), in
/// its versions in which a page takes 750 us to program. A write of half a page reads the other half first. Four lanes
/// of PCIe 3.0: 4 GB/s each way; 1 us for the protocol around a command. Calibrated: that the dies of a chip take
/// turns is chosen because MQSim's figures under a queue show it; dies apart would give a third more reads.
pub(crate) fn nvme_mlc() -> Shape {
    Shape {
        channels: 8,
        chips: 4,
        dies: 2,
        planes: 2,
        blocks: 2048,
        pages: 256,
        pages_unscaled: 256,
        page_bytes: 8192,
        frame_bytes: 8192,
        dies_apart: false,
        read_ns: 75 * US,
        program_ns: 750 * US,
        erase_ns: 3800 * US,
        channel_bytes_per_s: 333_000_000,
        link_bytes_per_s: 4_000_000_000,
        link_duplex: true,
        latency_ns: US,
        buffer_bytes: 256 * MIB,
        size_bytes: 480_000_000_000,
        ..COMMON
    }
}

/// The board of the range-flush paper (BlueDBM's flash cards), 32 GB of 37.5 GiB of flash.
///
/// 10 channels of 30 chips, 256 blocks of 128 pages of 4 KiB, 100, 1300 and 3000 us: as the project's description
/// of that board has it. 512 MB of buffer: figure 2 of the paper; figure 1 varies it. It is written back when it
/// is full or asked for: the paper's buffer is there to coalesce. Typical: 160 MB/s a channel, 1.6 GB/s for the
/// link (PCIe 1.1 with 8 lanes, as BlueDBM's cards), 10 us a command.
pub(crate) fn open_channel() -> Shape {
    Shape {
        channels: 10,
        chips: 30,
        blocks: 256,
        pages: 128,
        pages_unscaled: 128,
        read_ns: 100 * US,
        program_ns: 1300 * US,
        erase_ns: 3000 * US,
        channel_bytes_per_s: 160_000_000,
        link_bytes_per_s: 1_600_000_000,
        link_duplex: true,
        latency_ns: 10 * US,
        buffer_bytes: 512 * MIB,
        write_back_percent: 100,
        write_back_after_ns: None,
        size_bytes: 32 * GIB,
        ..COMMON
    }
}

/// A desktop drive of 2011, after drive B of the Rails paper (Intel 510, 250 GB, 128 MB of cache).
///
/// Size, cache and year: table 1 of that paper. Calibrated: that the whole drive stops to collect, as its sections 3 and 4
/// have it ("high latencies for all queued requests", for up to 100 ms); how long follows from the other numbers; and that
/// nothing is written back or collected between reads unless a write or a flush waits for it, as its section 4 has it (B
/// "can switch between reads and writes every 5 seconds almost perfectly"). Its
/// maker states 500 MB/s over SATA at 6 Gbit/s and 20,000 random reads a second, hence 50 us a command. 256 GiB of
/// flash for 250 GB: 10 % spare. Typical of 34 nm MLC: 50, 900 and 3000 us, 128 pages of 4 KiB, 166 MB/s.
pub(crate) fn sata_2011() -> Shape {
    Shape {
        channels: 8,
        chips: 4,
        planes: 2,
        pages: 128,
        pages_unscaled: 128,
        read_ns: 50 * US,
        program_ns: 900 * US,
        erase_ns: 3000 * US,
        channel_bytes_per_s: 166_000_000,
        link_bytes_per_s: 500_000_000,
        command_ns: 50 * US,
        write_command_ns: 50 * US,
        latency_ns: 20 * US,
        buffer_bytes: 128 * MIB,
        spare_per_10000: 1000,
        collection: Collection::Stopping,
        yields_to_reads_ns: Some(10_000 * US),
        size_bytes: 250_000_000_000,
        ..COMMON
    }
}

/// A server drive of 2008, after drive A of the Rails paper (Intel X25-E, 65 GB, 16 MB of cache).
///
/// Size, cache and year: table 1 of that paper, and as for drive B that it stops to collect. So are 40,000 writes of 4 KiB a second at best (its section 4),
/// hence 25 us a command. Its maker states 10 channels, 250 MB/s and 75 us for a read. 80 GB of flash for 64: 25 %
/// spare. Typical of 50 nm SLC: 25, 250 and 1500 us, 64 pages of 4 KiB. Calibrated: 83 MB/s a channel, with which
/// the cells and the channel take the 75 us stated.
pub(crate) fn sata_2008() -> Shape {
    Shape {
        channels: 10,
        chips: 2,
        planes: 1,
        pages: 64,
        pages_unscaled: 64,
        read_ns: 25 * US,
        program_ns: 250 * US,
        erase_ns: 1500 * US,
        channel_bytes_per_s: 83_000_000,
        link_bytes_per_s: 250_000_000,
        command_ns: 25 * US,
        write_command_ns: 25 * US,
        buffer_bytes: 16 * MIB,
        spare_per_10000: 2500,
        collection: Collection::Stopping,
        size_bytes: 65_000_000_000,
        ..COMMON
    }
}

/// A desktop NVMe drive of 2020, 1 TB, of TLC.
///
/// Pages of 16 KiB in two planes, 45 us, and 82 MB/s a die (hence 400 us for two pages), 1.2 GB/s a channel: a
/// 512 Gbit die of 2019 (Kang et al., ISSCC 2019, 13.4). The translation layer maps 4 KiB, so that small writes share
/// a page. Typical: 8 channels of 4 dies, 1024 pages a block, erase in 5 ms, suspended for reads in 20 us, four
/// lanes of PCIe 4.0, 64 MiB of the RAM for writes. Without the part of the cells that such drives first use as
/// SLC: writes have the speed that they have when it is full.
pub(crate) fn tlc_2020() -> Shape {
    Shape {
        channels: 8,
        chips: 4,
        planes: 2,
        pages: 1024,
        pages_unscaled: 1024,
        page_bytes: 16384,
        read_ns: 45 * US,
        program_ns: 400 * US,
        erase_ns: 5000 * US,
        channel_bytes_per_s: 1_200_000_000,
        link_bytes_per_s: 7_000_000_000,
        link_duplex: true,
        command_ns: US,
        write_command_ns: US,
        latency_ns: 8 * US,
        buffer_bytes: 64 * MIB,
        suspend_ns: Some(20 * US),
        size_bytes: 1_000_000_000_000,
        ..COMMON
    }
}

/// A server drive whose reads stay steady under writes, after drive C of the Rails paper (Intel DC S3700, 400 GB,
/// 512 MB of cache).
///
/// Size, cache and year: table 1 of that paper; that it stays steady: its figure 5. Its maker states 500 MB/s, 75,000
/// random reads and 36,000 random writes a second (hence 13 and 28 us a command), capacitors, and 528 GiB of flash for 400 GB: 41 % spare. Typical of 25 nm MLC
/// for servers: pages of 8 KiB, 256 a block, 50, 1300 and 3000 us, 200 MB/s. That collection is paced and that
/// programs are suspended for reads is this model's guess at how it stays steady.
pub(crate) fn steady() -> Shape {
    Shape {
        channels: 8,
        chips: 8,
        planes: 2,
        pages: 256,
        pages_unscaled: 256,
        page_bytes: 8192,
        read_ns: 50 * US,
        program_ns: 1300 * US,
        erase_ns: 3000 * US,
        channel_bytes_per_s: 200_000_000,
        link_bytes_per_s: 500_000_000,
        command_ns: 13 * US,
        write_command_ns: 28 * US,
        latency_ns: 10 * US,
        buffer_bytes: 512 * MIB,
        power_loss_protection: true,
        spare_per_10000: 4100,
        collection: Collection::Paced,
        suspend_ns: Some(50 * US),
        size_bytes: 400_000_000_000,
        ..COMMON
    }
}

/// A memory card, after the third device of the paper on synchronous writes (`SanDisk` Ultra, 32 GB).
///
/// Kind and size: that paper. Typical of such cards: one channel with two dies of TLC, 16 KiB mapped as a whole, so
/// that a smaller write reads and writes 16 KiB; 60, 1200 and 5000 us; 80 MB/s and 200 us a command over the card's
/// bus. It has no volatile cache: a write is done when it is in the cells.
pub(crate) fn sd_card() -> Shape {
    Shape {
        dies: 2,
        planes: 2,
        pages: 256,
        pages_unscaled: 256,
        page_bytes: 16384,
        frame_bytes: 16384,
        read_ns: 60 * US,
        program_ns: 1200 * US,
        erase_ns: 5000 * US,
        channel_bytes_per_s: 100_000_000,
        link_bytes_per_s: 80_000_000,
        command_ns: 200 * US,
        write_command_ns: 200 * US,
        latency_ns: 50 * US,
        buffer_bytes: MIB,
        write_cache: false,
        spare_per_10000: 700,
        collection: Collection::Blocking,
        size_bytes: 32_000_000_000,
        ..COMMON
    }
}
