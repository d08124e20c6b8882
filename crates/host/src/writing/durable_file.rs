//! A file, or a block device, opened for one way of writing durably.
//!
//! 1. [`DurableFile::write_at`] returns `Ok` only after all of the bytes are durable, as far as the method's
//!    system calls promise it.
//! 2. It allocates nothing and takes no lock: it adds to the system calls only a branch on the method.
//! 3. A new file is never made over an existing one, and a device that something else holds is not opened.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::ReadWriteFlags;

use super::linked_ring::LinkedRing;
use crate::aligned::{ALIGNMENT, AlignedBuffer};
use crate::method::Method;

/// What is opened, and what may be lost by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// A file that does not exist yet.
    New,
    /// An existing file or block device, whose bytes will be overwritten in place. A block device that is
    /// mounted, or that anyone else has claimed, is refused.
    InPlace,
    /// As `InPlace`, beside an opening of the same device by this process that holds the claim.
    InPlaceBeside,
}

/// An open file whose writes are durable when they return.
pub struct DurableFile {
    file: File,
    way: Way,
}

/// The system calls of a write, once the file is open.
enum Way {
    /// `pwrite`: the open flags do the rest.
    OpenFlags,
    /// `pwritev2` with `RWF_DSYNC`.
    RwfDsync,
    /// `pwrite`, `fdatasync`.
    Fdatasync,
    /// `pwrite`, `fsync`.
    Fsync,
    /// One submission for both.
    Linked(Box<LinkedRing>),
}

impl DurableFile {
    /// Opens `path` for `method`.
    ///
    /// # Errors
    ///
    /// Those of `open`: `EINVAL` where the file system knows no `O_DIRECT`, `EEXIST` for [`Open::New`] over
    /// something that exists, `EBUSY` for a block device that is mounted or otherwise held; and those of
    /// `io_uring_setup`.
    pub fn open(path: &Path, method: Method, open: Open) -> io::Result<Self> {
        let flags = match method {
            Method::DirectDsync => OFlags::DIRECT | OFlags::DSYNC,
            Method::DirectSync => OFlags::DIRECT | OFlags::SYNC,
            Method::Dsync => OFlags::DSYNC,
            Method::RwfDsync | Method::Uring => OFlags::DIRECT,
            Method::Fdatasync | Method::Fsync => OFlags::empty(),
        };
        // On a block device O_EXCL without O_CREAT asks for exclusive use.
        let exclusive = match open {
            Open::InPlace if is_block_device(path) => OFlags::EXCL,
            _ => OFlags::empty(),
        };
        let mut options = OpenOptions::new();
        options.write(true).create_new(open == Open::New).mode(0o600);
        options.custom_flags((flags | exclusive).bits().cast_signed());
        let file = options.open(path)?;
        let way = match method {
            Method::DirectDsync | Method::DirectSync | Method::Dsync => Way::OpenFlags,
            Method::RwfDsync => Way::RwfDsync,
            Method::Fdatasync => Way::Fdatasync,
            Method::Fsync => Way::Fsync,
            Method::Uring => Way::Linked(Box::new(LinkedRing::new(file.as_fd())?)),
        };
        Ok(Self { file, way })
    }

    /// Writes all of `bytes` at `offset`; they are durable when this returns.
    ///
    /// # Errors
    ///
    /// Those of the system calls; `WriteZero` where the kernel takes nothing more.
    #[inline]
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut bytes, mut offset) = (bytes, offset);
        loop {
            let written = match self.write_some(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if written == bytes.len() {
                break;
            }
            bytes = &bytes[written..];
            offset += written as u64;
        }
        match self.way {
            Way::OpenFlags | Way::RwfDsync | Way::Linked(_) => Ok(()),
            Way::Fdatasync => Ok(rustix::fs::fdatasync(&self.file)?),
            Way::Fsync => Ok(rustix::fs::fsync(&self.file)?),
        }
    }

    #[inline]
    fn write_some(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        match &mut self.way {
            Way::OpenFlags | Way::Fdatasync | Way::Fsync => self.file.write_at(bytes, offset),
            Way::RwfDsync => {
                let slices = [io::IoSlice::new(bytes)];
                Ok(rustix::io::pwritev2(&self.file, &slices, offset, ReadWriteFlags::DSYNC)?)
            }
            Way::Linked(ring) => ring.write_durably(bytes, offset),
        }
    }

    /// Makes the file's existence and everything written before durable, so that no cost of it falls on a
    /// later write.
    ///
    /// # Errors
    ///
    /// Those of `fsync`.
    pub fn settle(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Reserves `len` bytes with `fallocate`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where the file system cannot, `ENOSPC` where it is full.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len)?)
    }
}

/// What `O_DIRECT` asks of offsets and lengths on the file or device at `path`, in bytes; `None` where the
/// file system cannot do direct I/O at all.
///
/// # Errors
///
/// Those of `open` and `statx`. `path` must exist; nothing is written to a block device, and a file is
/// written to only if `scratch` says that it is ours.
pub fn direct_io_granule(path: &Path, scratch: bool) -> io::Result<Option<u64>> {
    let opened = OpenOptions::new()
        .read(true)
        .write(scratch)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let asked = StatxFlags::from_bits_retain(STATX_DIOALIGN);
    if let Ok(answer) = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, asked)
        && answer.stx_mask & STATX_DIOALIGN != 0
    {
        let granule = u64::from(answer.stx_dio_offset_align);
        return Ok((granule != 0).then_some(granule));
    }
    if !scratch {
        return Ok(Some(ALIGNMENT as u64));
    }
    // Kernels before 6.1, and file systems that do not say: ask by trying.
    let buffer = AlignedBuffer::zeroed(ALIGNMENT);
    for granule in [512, 1024, 2048, 4096_usize] {
        if file.write_at(&buffer[..granule], 0).is_ok() {
            return Ok(Some(granule as u64));
        }
    }
    Ok(None)
}

/// `STATX_DIOALIGN` of `linux/stat.h`, since Linux 6.1.
const STATX_DIOALIGN: u32 = 0x2000;

/// Whether `path` is a block device.
pub fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|found| found.file_type().is_block_device())
}

/// What that is where it is neither a file nor a block device; such are not opened, as that may wait for somebody.
pub(crate) fn odd_kind(found: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    match found.file_type() {
        kind if kind.is_file() || kind.is_block_device() => None,
        kind if kind.is_dir() => Some("a folder"),
        kind if kind.is_char_device() => Some("a character device"),
        kind if kind.is_fifo() => Some("a FIFO"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("something else"),
    }
}

/// Size of a file or block device, in bytes.
///
/// # Errors
///
/// Those of `open` and `lseek`.
pub fn size_bytes(path: &Path) -> io::Result<u64> {
    use std::io::Seek;
    File::open(path)?.seek(io::SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(byte: u8, len: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::zeroed(len);
        buffer.fill(byte);
        buffer
    }

    #[test]
    fn every_method_leaves_the_bytes_it_acknowledged_in_the_file() {
        let folder = tempfile::tempdir_in(".").unwrap();
        for method in Method::ALL {
            let path = folder.path().join(method.name());
            let mut file = DurableFile::open(&path, method, Open::New).unwrap();
            file.settle().unwrap();
            file.write_at(&aligned(1, 8192), 0).unwrap();
            file.write_at(&aligned(2, 4096), 8192).unwrap();
            file.write_at(&aligned(3, 4096), 4096).unwrap();
            let found = std::fs::read(&path).unwrap();
            let expected = [[1; 4096], [3; 4096], [2; 4096]].concat();
            assert!(found == expected, "{method} left other bytes");
        }
    }

    #[test]
    fn a_new_file_is_never_made_over_an_existing_one() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "precious").unwrap();
        let error = DurableFile::open(&path, Method::Dsync, Open::New).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn an_unaligned_direct_write_is_refused_and_the_granule_says_why() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "").unwrap();
        let Some(granule) = direct_io_granule(&path, true).unwrap() else {
            return;
        };
        assert!(granule.is_power_of_two() && granule <= 65536);
        for method in [Method::DirectDsync, Method::RwfDsync, Method::Uring] {
            let mut file = DurableFile::open(&path, method, Open::InPlace).unwrap();
            let odd = usize::try_from(granule).unwrap() / 2 + 1;
            assert!(file.write_at(&aligned(1, 8192)[..odd], 0).is_err(), "{method}");
            file.write_at(&aligned(1, 65536), 0).unwrap();
        }
    }
}
