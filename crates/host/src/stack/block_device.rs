//! Block devices as `/sys/dev/block` tells of them: what they promise, and what has reached them.

use std::fs;
use std::io;
use std::ops::Sub;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::interrupt::Interrupt;
use crate::program::Program;

/// A block device that the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its folder in sysfs.
    own: PathBuf,
    /// The folder of the whole disk, where `own` is a partition; else the same.
    disk: PathBuf,
}

/// What has reached a device since it appeared, or between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Read requests completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flush commands completed, by the whole disk; `None` before Linux 5.5, which did not count them.
    pub flushes: Option<u64>,
}

impl BlockDevice {
    /// The device with this `major:minor`; `None` where sysfs does not show it.
    pub fn by_number(number: &str) -> Option<Self> {
        let own = fs::canonicalize(Path::new("/sys/dev/block").join(number)).ok()?;
        let disk = match own.join("partition").exists() {
            true => own.parent()?.to_owned(),
            false => own.clone(),
        };
        Some(Self { own, disk })
    }

    /// Its name in `/dev`.
    pub fn node(&self) -> PathBuf {
        let uevent = fs::read_to_string(self.own.join("uevent")).unwrap_or_default();
        let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(str::to_owned);
        Path::new("/dev").join(name.unwrap_or_else(|| self.name()))
    }

    /// Its name in sysfs.
    pub fn name(&self) -> String {
        self.own.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The devices that a btrfs over this one spans; just this one for any other file system.
    pub fn btrfs_siblings(&self) -> Vec<Self> {
        let file_systems = fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten();
        for file_system in file_systems {
            let devices = file_system.path().join("devices");
            if devices.join(self.name()).exists() {
                let entries = fs::read_dir(devices).into_iter().flatten().flatten();
                return entries
                    .filter_map(|entry| fs::read_to_string(entry.path().join("dev")).ok())
                    .filter_map(|number| Self::by_number(number.trim()))
                    .collect();
            }
        }
        vec![self.clone()]
    }

    /// The vendor's name of the disk.
    pub fn model(&self) -> Option<String> {
        attribute(&self.disk, "device/model")
    }

    /// For a loop device, the file behind it.
    pub fn loop_file(&self) -> Option<String> {
        attribute(&self.disk, "loop/backing_file")
    }

    /// The I/O scheduler in force.
    pub fn scheduler(&self) -> Option<String> {
        let all = attribute(&self.disk, "queue/scheduler")?;
        let chosen = all.split_whitespace().find_map(|name| name.strip_prefix('[')?.strip_suffix(']'));
        Some(chosen.unwrap_or(&all).to_owned())
    }

    /// `write back` or `write through`.
    pub fn write_cache(&self) -> Option<String> {
        attribute(&self.disk, "queue/write_cache")
    }

    /// Whether it takes FUA writes.
    pub fn fua(&self) -> Option<bool> {
        Some(attribute(&self.disk, "queue/fua")? != "0")
    }

    /// Whether it says that it rotates.
    pub fn rotational(&self) -> Option<bool> {
        Some(attribute(&self.disk, "queue/rotational")? != "0")
    }

    /// What offsets and lengths of its transfers are multiples of, in bytes.
    pub fn logical_sector_bytes(&self) -> Option<u32> {
        attribute(&self.disk, "queue/logical_block_size")?.parse().ok()
    }

    /// What it writes at once, in bytes: it makes a smaller write by reading and writing the neighbours too.
    pub fn physical_sector_bytes(&self) -> Option<u32> {
        attribute(&self.disk, "queue/physical_block_size")?.parse().ok()
    }

    /// Whether it takes no writes.
    pub fn is_read_only(&self) -> bool {
        attribute(&self.own, "ro").is_some_and(|value| value != "0")
    }

    /// Whether it keeps its data in the memory of this machine (zram, brd, pmem without a file system).
    pub fn is_memory(&self) -> bool {
        let name = self.disk.file_name().unwrap_or_default().to_string_lossy();
        ["zram", "ram"].iter().any(|kind| {
            name.strip_prefix(kind).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        })
    }

    /// What has reached it so far.
    ///
    /// # Errors
    ///
    /// Where the `stat` file cannot be read or understood.
    pub fn counters(&self) -> io::Result<Counters> {
        let own = stat_fields(&self.own)?;
        // The kernel accounts flushes to the whole disk only.
        let disk = if self.disk == self.own { own.clone() } else { stat_fields(&self.disk)? };
        Ok(Counters {
            reads: own[0],
            read_bytes: own[2].saturating_mul(SECTOR_BYTES),
            writes: own[4],
            written_bytes: own[6].saturating_mul(SECTOR_BYTES),
            flushes: disk.get(FLUSHES).copied(),
        })
    }
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            flushes: self.flushes.zip(earlier.flushes).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(counters: I) -> Self {
        let none = Self { flushes: Some(0), ..Self::default() };
        counters.fold(none, |sum, one| Self {
            reads: sum.reads + one.reads,
            read_bytes: sum.read_bytes + one.read_bytes,
            writes: sum.writes + one.writes,
            written_bytes: sum.written_bytes + one.written_bytes,
            flushes: sum.flushes.zip(one.flushes).map(|(sum, one)| sum + one),
        })
    }
}

/// The I/O schedulers that the kernel offers for a device; none where it does not tell.
pub fn schedulers(node: &Path) -> Vec<String> {
    let Some(own) = class_folder(node) else { return Vec::new() };
    let disk = if own.join("partition").exists() { own.join("..") } else { own };
    let all = attribute(&disk, "queue/scheduler").unwrap_or_default();
    all.split_whitespace().map(|name| name.trim_matches(['[', ']']).to_owned()).collect()
}

/// Whether the kernel would load an I/O scheduler as a module when it is asked for.
pub fn has_scheduler_module(name: &str) -> bool {
    let words = [
        "modprobe".to_owned(),
        "--dry-run".to_owned(),
        "--quiet".to_owned(),
        "--".to_owned(),
        format!("{name}-iosched"),
    ];
    Program::new(words, MODPROBE_TIME).run(None, &Interrupt::default()).is_ok()
}

/// The size of a block device, in bytes.
pub fn size_bytes(node: &Path) -> Option<u64> {
    let sectors: u64 = attribute(&class_folder(node)?, "size")?.parse().ok()?;
    sectors.checked_mul(SECTOR_BYTES)
}

/// The folder of a device in sysfs, by its name.
fn class_folder(node: &Path) -> Option<PathBuf> {
    let real = node.canonicalize().ok()?;
    Path::new("/sys/class/block").join(real.file_name()?).canonicalize().ok()
}

/// The loop device over this file, or the swap area in it, that keeps it in use; `None` for a file that nobody
/// holds in such a way.
pub fn holder_of_file(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    for device in devices {
        if attribute(&device.path(), "loop/backing_file").is_some_and(|file| Path::new(&file) == real) {
            return Some(format!("/dev/{}", device.file_name().to_string_lossy()));
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let is_swap = swaps.lines().any(|line| line.split_whitespace().next().map(Path::new) == Some(&real));
    is_swap.then(|| "swap".to_owned())
}

/// The unit of the `stat` file, whatever the device's own sector is
/// (Documentation/ABI/stable/sysfs-block of the kernel).
const SECTOR_BYTES: u64 = 512;
/// How long modprobe may look for a module.
const MODPROBE_TIME: Duration = Duration::from_secs(10);

/// Fields that every kernel's `stat` file has.
const FIELDS_MIN: usize = 11;

/// The field of the flushes.
const FLUSHES: usize = 15;

fn stat_fields(folder: &Path) -> io::Result<Vec<u64>> {
    parse_stat(&fs::read_to_string(folder.join("stat"))?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the device's stat file is not numbers"))
}

fn parse_stat(text: &str) -> Option<Vec<u64>> {
    let fields: Vec<u64> = text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (fields.len() >= FIELDS_MIN).then_some(fields)
}

fn attribute(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_file_of_any_kernel_is_read() {
        // Linux 4.x ends after 11 fields, 5.5 added the flushes as the 16th and 17th.
        let old = parse_stat("26481 5420 2150082 8783 5746 5786 688664 3339 0 5120 12425\n").unwrap();
        assert_eq!((old[0], old[4], old[6], old.get(FLUSHES)), (26481, 5746, 688_664, None));
        let new = "26481 5420 2150082 8783 5746 5786 688664 3339 0 5120 12425 3222 36 144600 284 358 18";
        assert_eq!(parse_stat(new).unwrap()[FLUSHES], 358);
        assert_eq!(parse_stat("1 2 3 4 5 6 7 8 9 10 eleven"), None);
        assert_eq!(parse_stat("1 2 3"), None);
    }

    #[test]
    fn a_difference_never_goes_below_zero() {
        let less = Counters { writes: 3, flushes: Some(9), ..Counters::default() };
        let more = Counters { writes: 5, flushes: Some(1), ..Counters::default() };
        assert_eq!(more - less, Counters { writes: 2, flushes: Some(0), ..Counters::default() });
    }

    #[test]
    fn every_device_that_sysfs_lists_has_a_node_and_counters() {
        for entry in fs::read_dir("/sys/dev/block").into_iter().flatten().flatten() {
            let device = BlockDevice::by_number(&entry.file_name().to_string_lossy()).unwrap();
            assert!(device.node().starts_with("/dev"));
            assert!(device.counters().is_ok());
        }
    }
}
