//! Drives by name.

use super::SECTOR_BYTES;
use super::disk::{Disk, DiskShape, presets as disk};
use super::flash::shape::{Shape, ShapeError};
use super::flash::{Flash, presets as flash};

/// A flash drive that has a name.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Where its numbers come from, in a line; the whole is in the documentation.
    pub source: &'static str,
    shape: fn() -> Shape,
}

/// All flash drives.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "nvme-mlc",
        about: "NVMe SSD of MLC, 480 GB, 256 MB of buffer",
        source: "MQSim's defaults",
        shape: flash::nvme_mlc,
    },
    Preset {
        name: "open-channel",
        about: "open-channel board, 300 chips, 32 GiB, 512 MB of buffer that waits for a flush",
        source: "the range-flush paper's board",
        shape: flash::open_channel,
    },
    Preset {
        name: "sata-2011",
        about: "desktop SATA SSD, 250 GB, 128 MB of cache; stops to collect garbage",
        source: "drive B of the Rails paper (Intel 510); cell times typical",
        shape: flash::sata_2011,
    },
    Preset {
        name: "sata-2008",
        about: "server SATA SSD of SLC, 65 GB, 16 MB of cache; stops to collect garbage",
        source: "drive A of the Rails paper (Intel X25-E); cell times typical",
        shape: flash::sata_2008,
    },
    Preset {
        name: "tlc-2020",
        about: "desktop NVMe SSD of TLC, 1 TB; programs are suspended for reads",
        source: "a die of ISSCC 2019; the rest typical",
        shape: flash::tlc_2020,
    },
    Preset {
        name: "steady",
        about: "server SATA SSD, 400 GB, with capacitors; reads stay steady",
        source: "drive C of the Rails paper (Intel DC S3700); cell times typical",
        shape: flash::steady,
    },
    Preset {
        name: "sd-card",
        about: "memory card, 32 GB, without a volatile cache",
        source: "third device of the paper on synchronous writes; times typical",
        shape: flash::sd_card,
    },
];

/// The drive of that name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Its size as it was sold.
    pub fn size_bytes(&self) -> u64 {
        (self.shape)().size_bytes
    }

    /// Its parts and times, for that size.
    ///
    /// # Errors
    ///
    /// If the size is nothing, no multiple of 512, or too large.
    pub fn shape(&self, size_bytes: u64) -> Result<Shape, ShapeError> {
        match size_bytes {
            ..=SIZE_BYTES_MAX => (self.shape)().sized(size_bytes),
            _ => Err(ShapeError::too_large(size_bytes, SIZE_BYTES_MAX)),
        }
    }

    /// The drive, never written.
    ///
    /// # Errors
    ///
    /// As [`Self::shape`].
    pub fn flash(&self, size_bytes: u64) -> Result<Flash, ShapeError> {
        Ok(Flash::new(self.shape(size_bytes)?))
    }
}

/// A disk that has a name.
#[derive(Debug, Clone, Copy)]
pub struct DiskPreset {
    /// What it is called.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Where its numbers come from, in a line; the whole is in the documentation.
    pub source: &'static str,
    shape: fn() -> DiskShape,
}

/// All disks.
pub const DISKS: &[DiskPreset] = &[
    DiskPreset {
        name: "sas-15k",
        about: "SAS disk, 300 GB, 15,000 rpm, write cache off",
        source: "the wasteless-journaling testbed (Seagate Cheetah); zones and long seeks typical",
        shape: disk::sas_15k,
    },
    DiskPreset {
        name: "sata-7200",
        about: "SATA disk, 1 TB, 7200 rpm, write cache on",
        source: "the paper on synchronous writes (Hitachi HDS72101); zones and long seeks typical",
        shape: disk::sata_7200,
    },
];

/// The disk of that name.
pub fn find_disk(name: &str) -> Option<&'static DiskPreset> {
    DISKS.iter().find(|preset| preset.name == name)
}

/// Larger drives are not modelled: what says where their bytes are takes memory for each of them, written or not.
const SIZE_BYTES_MAX: u64 = 4 << 40;

impl DiskPreset {
    /// Its size as it was sold.
    pub fn size_bytes(&self) -> u64 {
        (self.shape)().size_bytes
    }

    /// The disk, never written, of this size: with fewer cylinders, over which seeks take what they take over all.
    ///
    /// # Errors
    ///
    /// If the size is nothing, no multiple of 512, or too large.
    pub fn disk(&self, size_bytes: u64) -> Result<Disk, ShapeError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(ShapeError::size(size_bytes));
        }
        if size_bytes > SIZE_BYTES_MAX {
            return Err(ShapeError::too_large(size_bytes, SIZE_BYTES_MAX));
        }
        Ok(Disk::new(DiskShape { size_bytes, ..(self.shape)() }))
    }
}
