//! Whether a store into a mapped file may find no room.
//!
//! 1. A store into a shared mapping has no error to return: where its file system finds no room for it, the process is
//!    sent SIGBUS. In memory (tmpfs) and on file systems that write in place (ext4, xfs) a page whose block is there
//!    needs none.
//! 2. btrfs writes elsewhere what was written before, unless the file is exempt from it (`chattr +C`); until Linux 6.17 it
//!    took room for a store into such a file all the same. Others of its kind have no such files, or make no promise.
//! 3. What a snapshot or a reflink shares is copied at the first store, wherever it lies. One that is made later is not
//!    seen here.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use crate::fiemap;
use crate::stack::{Stack, StackProbe};

/// From which version of Linux on btrfs stores in place into a mapped file that is exempt from copying on write.
const BTRFS_KERNEL: (u32, u32) = (6, 17);

/// Asks the file system of `file`, which is empty, to write it in place where it would not.
pub(crate) fn exempt(file: &File) {
    if let Ok(flags) = ioctl_getflags(file)
        && !flags.contains(IFlags::NOCOW)
    {
        let _whoever_needs_it_asks = ioctl_setflags(file, flags | IFlags::NOCOW);
    }
}

/// That a store into `file` at `path`, all of which is allocated, needs no room.
///
/// # Errors
///
/// `Unsupported`, with the reason, where it may; those of looking at it.
pub(crate) fn check(file: &File, path: &Path) -> io::Result<()> {
    let stack = StackProbe::of(path)?.stack;
    if stack.in_memory {
        return Ok(());
    }
    let is_exempt = ioctl_getflags(file).is_ok_and(|flags| flags.contains(IFlags::NOCOW));
    if stack.copies_on_write() && !is_exempt {
        return Err(unsupported(&copies(&stack)));
    }
    unfit(&stack, is_exempt).map_or(Ok(()), |why| Err(unsupported(&why)))?;
    match fiemap::is_shared(file) {
        Ok(true) => {
            Err(unsupported("a snapshot or a reflink shares its blocks: the next store into each copies it"))
        }
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Why no file on the file system of `folder` is stored into in place, as far as that can be told without one.
pub(crate) fn refusal(folder: &Path) -> Option<String> {
    let stack = StackProbe::of(folder).ok()?.stack;
    if stack.in_memory { None } else { unfit(&stack, stack.file_system == "btrfs") }
}

fn unfit(stack: &Stack, is_exempt: bool) -> Option<String> {
    match stack.file_system.as_str() {
        "btrfs" | "overlay" if is_exempt && !has_fixed_btrfs(&stack.kernel) => Some(format!(
            "until Linux {}.{} btrfs may find no room for a store into a mapped file, and this is {}",
            BTRFS_KERNEL.0, BTRFS_KERNEL.1, stack.kernel
        )),
        "btrfs" | "overlay" => None,
        _ if stack.copies_on_write() => Some(copies(stack)),
        _ if stack.over_network => Some(format!(
            "its file system is on another machine ({}), which may find no room",
            stack.file_system
        )),
        _ => None,
    }
}

fn copies(stack: &Stack) -> String {
    format!(
        "{} writes nothing in place: where the disk is full, a store would end the server",
        stack.file_system
    )
}

fn unsupported(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Whether a kernel of this release has what [`BTRFS_KERNEL`] came with.
fn has_fixed_btrfs(release: &str) -> bool {
    let mut numbers =
        release.split(|each: char| !each.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= BTRFS_KERNEL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_the_kernel_are_compared_by_their_numbers() {
        for release in ["6.17.0-rc1", "6.17", "6.18.44-fc-v669", "7.0.1", "10.2-custom"] {
            assert!(has_fixed_btrfs(release), "{release}");
        }
        for release in ["6.16.12", "6.1.0-18-amd64", "5.15.0", "4.99", "", "next"] {
            assert!(!has_fixed_btrfs(release), "{release}");
        }
    }

    #[test]
    fn file_systems_are_told_apart() {
        let mut stack = StackProbe::of(Path::new("/dev/shm")).unwrap().stack;
        let mut refused = |file_system: &str, over_network: bool, kernel: &str| {
            stack.file_system = file_system.to_owned();
            stack.over_network = over_network;
            stack.kernel = kernel.to_owned();
            unfit(&stack, file_system == "btrfs")
        };
        for (file_system, kernel) in
            [("ext4", "5.10.0"), ("xfs", "6.1.0"), ("overlay", "6.1.0"), ("btrfs", "6.17.1")]
        {
            assert_eq!(refused(file_system, false, kernel), None, "{file_system}");
        }
        for file_system in ["zfs", "bcachefs", "f2fs", "nilfs2"] {
            assert!(refused(file_system, false, "6.18.0").is_some_and(|why| why.contains(file_system)));
        }
        assert!(refused("btrfs", false, "6.16.12").is_some_and(|why| why.contains("6.16.12")));
        assert!(refused("nfs4", true, "6.18.0").is_some_and(|why| why.contains("nfs4")));
    }
}
