//! Where the bytes of a file lie on its device, as the file system tells (Documentation/filesystems/fiemap.rst).

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `FS_IOC_FIEMAP`, `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
const FIEMAP_EXTENT_LAST: u32 = 1;
const FIEMAP_EXTENT_SHARED: u32 = 0x2000;
/// Unknown, delayed or kept inside metadata: no place on the device that could be told.
const WITHOUT_PLACE: u32 = 0x2 | 0x4 | 0x200;
/// Extents asked for at once.
const EXTENTS: usize = 64;
/// Extents of a folder there are at most.
const EXTENTS_MAX: usize = 4 << 20;

/// A run of bytes on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Where it begins; on btrfs in the addresses of all its devices together.
    pub physical_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS],
}

/// The extents of a file, in the order of its bytes.
///
/// # Errors
///
/// Those of the call; file systems without it answer `Unsupported`.
pub fn of_file(file: &File) -> io::Result<Vec<Extent>> {
    let placed = raw_of_file(file)?.into_iter().filter(|extent| extent.flags & WITHOUT_PLACE == 0);
    Ok(placed.map(|extent| Extent { physical_bytes: extent.physical, length_bytes: extent.length }).collect())
}

/// Whether another file, or a snapshot, shares bytes of this one on the device.
///
/// # Errors
///
/// As [`of_file`].
pub fn is_shared(file: &File) -> io::Result<bool> {
    Ok(raw_of_file(file)?.iter().any(|extent| extent.flags & FIEMAP_EXTENT_SHARED != 0))
}

fn raw_of_file(file: &File) -> io::Result<Vec<RawExtent>> {
    let (mut found, mut start) = (Vec::new(), 0);
    loop {
        let mut request = Request {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS],
        };
        // SAFETY: the file is open; the request has the layout of `struct fiemap` with room for the `count` extents that
        // it says, and outlives the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut request) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = &request.extents[..(request.mapped as usize).min(EXTENTS)];
        found.extend_from_slice(mapped);
        match mapped.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 && found.len() < EXTENTS_MAX => {
                start = last.logical.saturating_add(last.length.max(1));
            }
            _ => return Ok(found),
        }
    }
}

/// The extents of all files of a folder and its folders, by place, neighbours joined.
///
/// # Errors
///
/// Those of reading the folder and of the call.
pub fn of_folder(folder: &Path) -> io::Result<Vec<Extent>> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && all.len() < EXTENTS_MAX {
                all.extend(of_file(&File::open(entry.path())?)?);
            }
        }
    }
    Ok(joined(all))
}

fn joined(mut extents: Vec<Extent>) -> Vec<Extent> {
    extents.sort_unstable();
    let mut joined: Vec<Extent> = Vec::new();
    for extent in extents {
        match joined.last_mut() {
            // Shared extents overlap.
            Some(last) if extent.physical_bytes <= last.physical_bytes.saturating_add(last.length_bytes) => {
                let end = extent.physical_bytes.saturating_add(extent.length_bytes);
                last.length_bytes = last.length_bytes.max(end - last.physical_bytes);
            }
            _ => joined.push(extent),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(physical_bytes: u64, length_bytes: u64) -> Extent {
        Extent { physical_bytes, length_bytes }
    }

    #[test]
    fn neighbours_are_joined_and_gaps_stay() {
        let found = joined(vec![extent(8192, 4096), extent(0, 4096), extent(4096, 4096), extent(20480, 1)]);
        assert_eq!(found, [extent(0, 12288), extent(20480, 1)]);
        assert_eq!(joined(vec![extent(0, 8192), extent(4096, 1024)]), [extent(0, 8192)]);
        assert_eq!(joined(Vec::new()), []);
    }

    #[test]
    fn a_written_file_has_all_its_bytes_somewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        match of_folder(folder.path()) {
            Ok(extents) => {
                let bytes: u64 = extents.iter().map(|extent| extent.length_bytes).sum();
                assert!(bytes >= 1 << 20, "{extents:?}");
            }
            // Some file systems cannot tell.
            Err(error) => {
                assert!(matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)), "{error}");
            }
        }
    }
}
