//! A file system's words in the kernel's: attributes, kinds, times, numbers of inodes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_ext2::{Attributes, Kind, ROOT_INODE, Timestamp};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

/// The kernel knows the root by this number, whatever its inode is.
const ROOT: u64 = 1;

/// An inode's number as the kernel has it. Inode 1 of the file system is no file.
pub(super) fn number_of(inode: u32) -> INodeNo {
    INodeNo(if inode == ROOT_INODE { ROOT } else { u64::from(inode) })
}

/// The inode of a number of the kernel's; 0, which is none, where there can be none.
pub(super) fn inode_of(number: INodeNo) -> u32 {
    match number.0 {
        ROOT => ROOT_INODE,
        other => u32::try_from(other).unwrap_or(0),
    }
}

/// Attributes as the kernel takes them.
pub(super) fn told(attributes: &Attributes) -> FileAttr {
    let (major, minor) = attributes.device;
    FileAttr {
        ino: number_of(attributes.inode),
        size: attributes.size,
        blocks: attributes.sectors,
        atime: system_time(attributes.atime),
        mtime: system_time(attributes.mtime),
        ctime: system_time(attributes.ctime),
        crtime: system_time(attributes.crtime),
        kind: file_type(attributes.kind),
        perm: attributes.permissions,
        nlink: u32::from(attributes.links),
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: encoded_device(major, minor),
        blksize: 4096,
        flags: 0,
    }
}

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
    }
}

/// As the kernel's `new_encode_dev` (include/linux/kdev_t.h).
fn encoded_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xfff00) << 12)
}

/// As the kernel's `new_decode_dev`: major and minor.
pub(super) fn decoded_device(device: u32) -> (u32, u32) {
    ((device & 0xfff00) >> 8, (device & 0xff) | ((device >> 12) & 0xfff00))
}

pub(super) fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.secs.unsigned_abs());
    let seconds = if time.secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let at = seconds.and_then(|at| at.checked_add(Duration::from_nanos(u64::from(time.nanos))));
    at.unwrap_or(UNIX_EPOCH)
}

pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { secs: since.as_secs() as i64, nanos: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let nanos = before.subsec_nanos();
            let secs = -(before.as_secs() as i64) - i64::from(nanos > 0);
            Timestamp { secs, nanos: if nanos > 0 { 1_000_000_000 - nanos } else { 0 } }
        }
    }
}

/// The time on this machine's clock.
pub(super) fn now() -> Timestamp {
    timestamp(SystemTime::now())
}

pub(super) fn chosen_time(time: TimeOrNow) -> Timestamp {
    match time {
        TimeOrNow::SpecificTime(time) => timestamp(time),
        TimeOrNow::Now => now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_1970_comes_back_as_it_was() {
        for time in [
            Timestamp { secs: -1, nanos: 999_999_999 },
            Timestamp { secs: -5, nanos: 0 },
            Timestamp { secs: 0, nanos: 0 },
            Timestamp { secs: 1_700_000_000, nanos: 1 },
        ] {
            assert_eq!(timestamp(system_time(time)), time);
        }
    }

    #[test]
    fn a_device_number_comes_back_as_it_was() {
        for (major, minor) in [(8, 1), (0, 0), (259, 1_048_575), (4095, 255)] {
            assert_eq!(decoded_device(encoded_device(major, minor)), (major, minor));
        }
    }

    #[test]
    fn the_root_has_the_number_that_the_kernel_expects() {
        assert_eq!(number_of(ROOT_INODE), INodeNo(1));
        assert_eq!(inode_of(INodeNo(1)), ROOT_INODE);
        assert_eq!(inode_of(number_of(12)), 12);
        assert_eq!(inode_of(INodeNo(u64::MAX)), 0);
    }
}
