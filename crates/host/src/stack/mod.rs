//! What lies under a path: file system, mount, block device and the device's promises.

pub mod block_device;
pub mod fiemap;
pub(crate) mod mounts;
pub(crate) mod stored_in_place;

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::block_device::{BlockDevice, Counters};
use crate::stack::mounts::{Mount, mount_of};

/// A storage stack, top to bottom, as the kernel describes it. What the kernel does not tell is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// The folder, file or block device that was named.
    pub path: String,
    /// Type of the file system (`ext4`, `xfs`, ...), or `none` for a block device written directly.
    pub file_system: String,
    /// Mount options, of the mount and of the file system, as in `/proc/self/mountinfo`.
    pub mount_options: String,
    /// The block device's node (`/dev/sda1`) or, without one, the mount's source.
    pub device: String,
    /// Vendor's name of the device.
    pub device_model: Option<String>,
    /// For a loop device, the file behind it.
    pub loop_file: Option<String>,
    /// The I/O scheduler in force.
    pub scheduler: Option<String>,
    /// `write back` (volatile: a flush matters) or `write through`, as the device told the kernel.
    pub write_cache: Option<String>,
    /// Whether the device takes FUA writes.
    pub fua: Option<bool>,
    /// Whether the device says that it rotates.
    pub rotational: Option<bool>,
    /// Whether the data stays in this machine's memory (tmpfs, zram, an overlay over them).
    pub in_memory: bool,
    /// Whether the data goes to another machine.
    pub over_network: bool,
    /// Size of the file system, in bytes.
    pub size_bytes: Option<u64>,
    /// Space left for an unprivileged user, in bytes.
    pub free_bytes: Option<u64>,
    /// `uname -r`.
    pub kernel: String,
}

impl Stack {
    /// Whether the file system writes elsewhere what was written before, unless a file is exempt from it.
    pub fn copies_on_write(&self) -> bool {
        ["btrfs", "bcachefs", "zfs", "nilfs2", "f2fs"].contains(&self.file_system.as_str())
    }
}

/// A path's [`Stack`], with the devices whose counters tell what reaches them.
#[derive(Debug, Clone)]
pub struct StackProbe {
    /// What lies under the path.
    pub stack: Stack,
    /// Whether the mount or device is read-only.
    pub read_only: bool,
    devices: Vec<BlockDevice>,
}

impl StackProbe {
    /// Looks under `path`, which must exist: a folder, a file or a block device.
    ///
    /// # Errors
    ///
    /// Where `path` or the mount table cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let real = path.canonicalize()?;
        let found = real.metadata()?;
        if found.file_type().is_block_device() {
            let device = BlockDevice::by_number(&device_number(found.rdev()));
            let mount = Mount {
                device_number: device_number(found.rdev()),
                mount_point: real.clone(),
                options: String::new(),
                file_system: "none".to_owned(),
                source: real.display().to_string(),
            };
            let read_only = device.as_ref().is_some_and(BlockDevice::is_read_only);
            let described = Self::describe(&real, &mount, device);
            return Ok(Self { read_only, ..described });
        }
        let mount = mount_of(&real)?;
        let device = device_of(&mount);
        Ok(Self::describe(&real, &mount, device))
    }

    fn describe(path: &Path, mount: &Mount, device: Option<BlockDevice>) -> Self {
        let devices = match (&device, mount.file_system.as_str()) {
            (Some(device), "btrfs") => device.btrfs_siblings(),
            (device, _) => device.iter().cloned().collect(),
        };
        let device = device.as_ref();
        let space = (mount.file_system != "none").then(|| space_bytes(path).ok()).flatten();
        let stack = Stack {
            path: path.display().to_string(),
            file_system: mount.file_system.clone(),
            mount_options: mount.options.clone(),
            device: device.map_or_else(|| mount.source.clone(), |device| device.node().display().to_string()),
            device_model: device.and_then(BlockDevice::model),
            loop_file: device.and_then(BlockDevice::loop_file),
            scheduler: device.and_then(BlockDevice::scheduler),
            write_cache: device.and_then(BlockDevice::write_cache),
            fua: device.and_then(BlockDevice::fua),
            rotational: device.and_then(BlockDevice::rotational),
            in_memory: is_memory(mount) || device.is_some_and(is_memory_device),
            over_network: is_network(&mount.file_system),
            size_bytes: space.map(|(size, _)| size),
            free_bytes: space.map(|(_, free)| free),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        };
        let read_only = mount.options.split(',').any(|option| option == "ro");
        Self { stack, read_only, devices }
    }

    /// The largest [`BlockDevice::physical_sector_bytes`] of the devices below.
    pub fn physical_sector_bytes(&self) -> Option<u32> {
        self.devices.iter().filter_map(BlockDevice::physical_sector_bytes).max()
    }

    /// The largest [`BlockDevice::logical_sector_bytes`] of the devices below.
    pub fn logical_sector_bytes(&self) -> Option<u32> {
        self.devices.iter().filter_map(BlockDevice::logical_sector_bytes).max()
    }

    /// Whether the devices below, of which there are some, are all NVMe drives.
    pub fn is_nvme(&self) -> bool {
        !self.devices.is_empty() && self.devices.iter().all(|device| device.name().starts_with("nvme"))
    }

    /// What has reached the devices below so far; `None` where there are none with counters.
    pub fn counters(&self) -> Option<Counters> {
        if self.devices.is_empty() {
            return None;
        }
        self.devices.iter().map(|device| device.counters().ok()).sum()
    }
}

/// Size of the file system of `path`, and what an unprivileged user may still take of it, in bytes.
///
/// # Errors
///
/// Those of `statvfs`.
pub fn space_bytes(path: &Path) -> io::Result<(u64, u64)> {
    let found = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok((bytes(found.f_blocks), bytes(found.f_bavail)))
}

/// That `len` bytes more find room in the file system of `path`, before anyone tries and fills it.
///
/// # Errors
///
/// `StorageFull`; those of `statvfs`.
pub fn check_space(path: &Path, len: u64) -> io::Result<()> {
    match space_bytes(path)? {
        // Some do not say how large they are.
        (size, free) if size > 0 && free < len => Err(rustix::io::Errno::NOSPC.into()),
        _ => Ok(()),
    }
}

fn device_number(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

fn device_of(mount: &Mount) -> Option<BlockDevice> {
    if !mount.device_number.starts_with("0:") {
        return BlockDevice::by_number(&mount.device_number);
    }
    // btrfs and others mount under a number that no device has; the source names one of their devices.
    let source = fs::metadata(&mount.source).ok()?;
    source.file_type().is_block_device().then(|| BlockDevice::by_number(&device_number(source.rdev())))?
}

/// A RAM disk, or a loop device over a file in memory.
fn is_memory_device(device: &BlockDevice) -> bool {
    let behind_loop = device.loop_file().and_then(|file| mount_of(Path::new(&file)).ok());
    device.is_memory() || behind_loop.is_some_and(|mount| is_memory(&mount))
}

fn is_memory(mount: &Mount) -> bool {
    match mount.file_system.as_str() {
        "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => true,
        "overlay" => mount
            .options
            .split(',')
            .find_map(|option| option.strip_prefix("upperdir="))
            .and_then(|upper| mount_of(Path::new(upper)).ok())
            .is_some_and(|below| below.file_system != "overlay" && is_memory(&below)),
        _ => false,
    }
}

fn is_network(file_system: &str) -> bool {
    const NETWORK: [&str; 17] = [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ceph",
        "9p",
        "afs",
        "ncpfs",
        "ocfs2",
        "gfs2",
        "lustre",
        "glusterfs",
        "beegfs",
        "orangefs",
        "virtiofs",
        "coda",
    ];
    const NETWORK_FUSE: [&str; 7] = ["sshfs", "glusterfs", "ceph", "s3fs", "rclone", "davfs", "juicefs"];
    NETWORK.contains(&file_system)
        || file_system.strip_prefix("fuse.").is_some_and(|kind| NETWORK_FUSE.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_of_this_folder_is_described() {
        let probe = StackProbe::of(Path::new(".")).unwrap();
        assert!(!probe.read_only);
        assert!(!probe.stack.file_system.is_empty() && !probe.stack.kernel.is_empty());
        assert!(probe.stack.path.starts_with('/'));
    }

    #[test]
    fn memory_is_told_from_storage_also_under_an_overlay() {
        let shm = StackProbe::of(Path::new("/dev/shm")).unwrap();
        assert!(shm.stack.in_memory);
        assert!(shm.counters().is_none());
        let overlay = |upper: &str| Mount {
            device_number: "0:99".to_owned(),
            mount_point: "/merged".into(),
            options: format!("rw,lowerdir=/lower,upperdir={upper},workdir=/work"),
            file_system: "overlay".to_owned(),
            source: "overlay".to_owned(),
        };
        assert!(is_memory(&overlay("/dev/shm/upper")));
        assert!(!is_memory(&overlay("/proc/upper")));
    }

    #[test]
    fn network_file_systems_are_known() {
        for name in ["nfs4", "cifs", "ceph", "fuse.sshfs"] {
            assert!(is_network(name), "{name}");
        }
        for name in ["ext4", "xfs", "btrfs", "fuse.ntfs-3g", "zfs"] {
            assert!(!is_network(name), "{name}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error() {
        assert_eq!(StackProbe::of(Path::new("/nowhere")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
