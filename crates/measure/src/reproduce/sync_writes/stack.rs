//! A synchronous write through a file system, as the requests it is made of.
//!
//! What a file system writes beside the data was counted, not guessed: `evenkeel probe --method direct-sync`, the paper's
//! way of writing, on loop devices (Linux 6.18). All three ask for two flushes an operation, whatever its size:
//!
//! | | writes beside the data | bytes in them |
//! |---|---|---|
//! | XFS | 1 | 1536 (its log) |
//! | ext4 | 2 | 24,576 (its journal: five blocks, then the commit block) |
//! | btrfs | 9 to 11 at most sizes | 109,000 to 155,000, 137,000 at 4 KiB |
//!
//! That the last write, which makes the operation valid, stands between the two flushes is how each of them works.

use super::device::{Drive, GIB, KIB, MIB};

/// What stands between the program and the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stack {
    /// Nothing: the drive itself, a flush after each write.
    Bare,
    Xfs,
    Ext4,
    Btrfs,
}

/// A circle of blocks that is written on and on.
#[derive(Debug, Clone, Copy)]
struct Circle {
    start: u64,
    at: u64,
}

const CIRCLE_BYTES: u64 = 64 * MIB;

impl Circle {
    fn new(start: u64) -> Self {
        Self { start, at: 0 }
    }

    fn write(&mut self, drive: &mut Drive, bytes: u64) {
        if self.at + bytes > CIRCLE_BYTES {
            self.at = 0;
        }
        drive.write(self.start + self.at, bytes);
        self.at += bytes;
    }
}

impl Stack {
    pub(super) const ALL: [Self; 4] = [Self::Bare, Self::Xfs, Self::Ext4, Self::Btrfs];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "device itself",
            Self::Xfs => "XFS",
            Self::Ext4 => "ext4",
            Self::Btrfs => "btrfs",
        }
    }
}

/// A file system on a drive.
pub(super) struct Mounted {
    stack: Stack,
    drive: Drive,
    /// Where the next file begins.
    next_file: u64,
    /// Logs and trees.
    circles: [Circle; 2],
}

impl Mounted {
    pub(super) fn new(stack: Stack, drive: Drive) -> Self {
        let half = drive.partition_bytes / 2 / MIB * MIB;
        // mkfs puts the logs of XFS and ext4 in the middle; btrfs has its trees twice, in chunks of 256 MB, before the
        // data.
        let starts = match stack {
            Stack::Btrfs => [40 * MIB, 296 * MIB],
            _ => [half, half + CIRCLE_BYTES],
        };
        let next_file = match drive.partition_bytes {
            bytes if bytes > 4 * GIB => GIB,
            _ => 560 * MIB,
        };
        Self { stack, drive, next_file, circles: starts.map(Circle::new) }
    }

    /// Writes a new file in writes of `buffer_bytes`, each durable before the next; answers what each took.
    pub(super) fn write_file(&mut self, file_bytes: u64, buffer_bytes: u64) -> Vec<u64> {
        let start = self.next_file;
        self.next_file += file_bytes;
        let offsets = (start..start + file_bytes).step_by(buffer_bytes as usize);
        offsets.map(|offset| self.write_durably(offset, buffer_bytes)).collect()
    }

    fn write_durably(&mut self, offset: u64, bytes: u64) -> u64 {
        const BLOCK: u64 = 4 * KIB;
        /// The superblock.
        const SUPER_AT: u64 = 64 * KIB;
        const TREE_WRITES: u64 = 9;
        const TREE_BYTES: u64 = 133_632;
        let Self { stack, drive, circles: [log, copy], .. } = self;
        let begun_ns = drive.now_ns();
        drive.write(offset, bytes);
        match stack {
            Stack::Bare => {}
            Stack::Xfs => {
                drive.flush();
                log.write(drive, 3 * 512);
            }
            Stack::Ext4 => {
                log.write(drive, 5 * BLOCK);
                drive.flush();
                log.write(drive, BLOCK);
            }
            Stack::Btrfs => {
                for number in 0..TREE_WRITES {
                    let bytes = TREE_BYTES / TREE_WRITES / 512 * 512;
                    if number % 2 == 0 { log.write(drive, bytes) } else { copy.write(drive, bytes) }
                }
                drive.flush();
                drive.write(SUPER_AT, BLOCK);
            }
        }
        drive.flush();
        drive.now_ns() - begun_ns
    }
}
