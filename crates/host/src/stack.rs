//! What lies under a path: file system, mount, block device and the device's promises.

use serde::{Deserialize, Serialize};

/// A storage stack, top to bottom, as the kernel describes it. What the kernel does not tell is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// `uname -r`.
    pub kernel: String,
}
