//! Drives by name.

use std::sync::OnceLock;

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

/// A drive's parts and times that stand for those of a preset.
#[derive(Debug, Clone, PartialEq)]
pub enum Parts {
    /// Of a flash drive.
    Flash(Shape),
    /// Of a disk.
    Disk(DiskShape),
}

static REPLACED: OnceLock<Vec<(String, Parts)>> = OnceLock::new();

/// From now on the presets of these names have these parts, in the whole program: said once, before a drive is made.
///
/// # Errors
///
/// If there is no preset of that name and kind, if the parts are none of a drive, or if it was said before.
pub fn replace(parts: Vec<(String, Parts)>) -> Result<(), ShapeError> {
    for (name, parts) in &parts {
        let is_known = match parts {
            Parts::Flash(shape) => shape.check_parts().map(|()| find(name).is_some())?,
            Parts::Disk(shape) => shape.check_parts().map(|()| find_disk(name).is_some())?,
        };
        if !is_known {
            let kind = if matches!(parts, Parts::Flash(_)) { "flash drive" } else { "disk" };
            return Err(ShapeError::parts(format!("{name} is the name of no {kind}")));
        }
    }
    REPLACED.set(parts).map_err(|_| ShapeError::parts("drives were replaced before".to_owned()))
}

fn replaced(name: &str) -> Option<&'static Parts> {
    REPLACED.get()?.iter().find(|(replaced, _)| replaced == name).map(|(_, parts)| parts)
}

impl Preset {
    /// Its size as it was sold.
    pub fn size_bytes(&self) -> u64 {
        self.parts().size_bytes
    }

    /// Its parts and times, at its own size, unscaled.
    pub fn parts(&self) -> Shape {
        match replaced(self.name) {
            Some(Parts::Flash(shape)) => shape.clone(),
            _ => (self.shape)(),
        }
    }

    /// Its parts and times, for that size.
    ///
    /// # Errors
    ///
    /// If the size is nothing, no multiple of 512, or too large.
    pub fn shape(&self, size_bytes: u64) -> Result<Shape, ShapeError> {
        sized(self.parts(), size_bytes)
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

/// A flash drive of these parts in another size.
///
/// # Errors
///
/// If they are none of a drive, or the size is nothing, no multiple of 512, or too large.
pub fn sized(shape: Shape, size_bytes: u64) -> Result<Shape, ShapeError> {
    shape.check_parts()?;
    match size_bytes {
        ..=SIZE_BYTES_MAX => shape.sized(size_bytes),
        _ => Err(ShapeError::too_large(size_bytes, SIZE_BYTES_MAX)),
    }
}

/// A disk of these parts in another size.
///
/// # Errors
///
/// As [`sized`].
pub fn sized_disk(shape: DiskShape, size_bytes: u64) -> Result<DiskShape, ShapeError> {
    shape.check_parts()?;
    if size_bytes == 0 || !size_bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(ShapeError::size(size_bytes));
    }
    if size_bytes > SIZE_BYTES_MAX {
        return Err(ShapeError::too_large(size_bytes, SIZE_BYTES_MAX));
    }
    Ok(DiskShape { size_bytes, ..shape })
}

impl DiskPreset {
    /// Its size as it was sold.
    pub fn size_bytes(&self) -> u64 {
        self.parts().size_bytes
    }

    /// Its parts and times, at its own size.
    pub fn parts(&self) -> DiskShape {
        match replaced(self.name) {
            Some(Parts::Disk(shape)) => shape.clone(),
            _ => (self.shape)(),
        }
    }

    /// The disk, never written, of this size: with fewer cylinders, over which seeks take what they take over all.
    ///
    /// # Errors
    ///
    /// If the size is nothing, no multiple of 512, or too large.
    pub fn disk(&self, size_bytes: u64) -> Result<Disk, ShapeError> {
        Ok(Disk::new(sized_disk(self.parts(), size_bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_made_of_parts_that_can_be_and_others_are_refused() {
        for preset in PRESETS {
            assert_eq!(preset.parts().check_parts(), Ok(()), "{}", preset.name);
        }
        for preset in DISKS {
            assert_eq!(preset.parts().check_parts(), Ok(()), "{}", preset.name);
        }
        let base = PRESETS[0].parts();
        for (wrong, word) in [
            (Shape { channels: 0, ..base.clone() }, "channels is 0: it takes 1 to 256"),
            (Shape { pages: 100, ..base.clone() }, "pages is 100: it takes a power of two"),
            (Shape { frame_bytes: 16_384, page_bytes: 8192, ..base.clone() }, "more than a page of 8192"),
            (Shape { link_bytes_per_s: 0, ..base.clone() }, "the link's bytes a second is 0"),
            (Shape { buffer_bytes: 0, ..base.clone() }, "which holds a program, is 0"),
            (Shape { spare_per_10000: 0, ..base.clone() }, "over-provisioning"),
            (Shape { collect_at_blocks: 1, ..base.clone() }, "collect_at_blocks is 1"),
            (Shape { erase_ns: u64::MAX, ..base }, "erase, in nanoseconds,"),
        ] {
            let error = wrong.check_parts().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let disk = DISKS[0].parts();
        for (wrong, word) in [
            (DiskShape { rpm: 0, ..disk.clone() }, "rpm is 0: it takes 100 to 100000"),
            (DiskShape { track_bytes: [4096, 8192], ..disk.clone() }, "the inner track, in bytes, is 8192"),
            (DiskShape { seek_ns: [3, 2, 1], ..disk }, "the mean seek"),
        ] {
            let error = wrong.check_parts().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
