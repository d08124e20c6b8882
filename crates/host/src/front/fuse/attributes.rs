//! A file system's words in the kernel's: attributes, kinds, times, numbers of inodes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_ext2::{Attributes, Kind, ROOT_INODE, Timestamp};

use super::abi::{reply, request};
use super::requests::ATTRIBUTES_KEPT;

/// The kernel knows the root by this number, whatever its inode is.
const ROOT: u64 = 1;

/// An inode's number as the kernel has it. Inode 1 of the file system is no file.
pub(super) fn number_of(inode: u32) -> u64 {
    if inode == ROOT_INODE { ROOT } else { u64::from(inode) }
}

/// The inode of a number of the kernel's; 0, which is none, where there can be none.
pub(super) fn inode_of(number: u64) -> u32 {
    match number {
        ROOT => ROOT_INODE,
        other => u32::try_from(other).unwrap_or(0),
    }
}

/// Attributes as the kernel takes them.
pub(super) fn told(attributes: &Attributes) -> reply::Attributes {
    let (major, minor) = attributes.device;
    reply::Attributes {
        node: number_of(attributes.inode),
        size: attributes.size,
        sectors: attributes.sectors,
        atime: time_of(attributes.atime),
        mtime: time_of(attributes.mtime),
        ctime: time_of(attributes.ctime),
        mode: kind_of(attributes.kind) << 12 | u32::from(attributes.permissions),
        links: u32::from(attributes.links),
        uid: attributes.uid,
        gid: attributes.gid,
        device: encoded_device(major, minor),
        block_bytes: 4096,
    }
}

/// What a name stands for, as the kernel takes it.
pub(super) fn entry_of(attributes: &Attributes) -> reply::Entry {
    reply::Entry {
        generation: attributes.generation.into(),
        is_kept_for: ATTRIBUTES_KEPT,
        attributes: told(attributes),
    }
}

/// A kind as the upper bits of a mode have it: `S_IFMT`, and `DT_*` of a listing.
pub(super) fn kind_of(kind: Kind) -> u32 {
    let mode = match kind {
        Kind::File => libc::S_IFREG,
        Kind::Folder => libc::S_IFDIR,
        Kind::Link => libc::S_IFLNK,
        Kind::CharDevice => libc::S_IFCHR,
        Kind::BlockDevice => libc::S_IFBLK,
        Kind::Pipe => libc::S_IFIFO,
        Kind::Socket => libc::S_IFSOCK,
    };
    mode >> 12
}

/// As the kernel's `new_encode_dev` (include/linux/kdev_t.h).
fn encoded_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xfff00) << 12)
}

/// As the kernel's `new_decode_dev`: major and minor.
pub(super) fn decoded_device(device: u32) -> (u32, u32) {
    ((device & 0xfff00) >> 8, (device & 0xff) | ((device >> 12) & 0xfff00))
}

fn time_of(time: Timestamp) -> reply::Time {
    reply::Time { secs: time.secs, nanos: time.nanos }
}

/// The time on this machine's clock.
pub(super) fn now() -> Timestamp {
    timestamp(SystemTime::now())
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp { secs: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

pub(super) fn chosen_time(time: request::Time) -> Timestamp {
    match time {
        request::Time::At { secs, nanos } => Timestamp { secs, nanos: nanos.min(999_999_999) },
        request::Time::Now => now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_1970_comes_back_as_it_was() {
        for (secs, nanos) in [(-1, 999_999_999), (-5, 0), (0, 0), (1_700_000_000, 1)] {
            let time = chosen_time(request::Time::At { secs, nanos });
            assert_eq!(time_of(time), reply::Time { secs, nanos });
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
        assert_eq!(number_of(ROOT_INODE), 1);
        assert_eq!(inode_of(1), ROOT_INODE);
        assert_eq!(inode_of(number_of(12)), 12);
        assert_eq!(inode_of(u64::MAX), 0);
    }
}
