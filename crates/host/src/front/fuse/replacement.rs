//! A file system mounted in place of one whose server is gone, so that no program sees what lies under both.
//!
//! Unmounting the old one first would show the folder beneath for a moment: a program that goes on would find no file of its own
//! there, and what it makes there would be hidden soon after. So the new one is mounted beneath the old one, which is taken
//! away then. That takes Linux 6.5 and root.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};
use rustix::process::{getgid, getuid};

use super::mount_point::detach;
use super::{FILE_SYSTEM_TYPE, FuseSetup, MountFlag};

/// A file system of FUSE that is mounted nowhere yet.
pub(super) struct Unattached(OwnedFd);

impl Unattached {
    /// Makes one, and the descriptor by which it is served.
    ///
    /// # Errors
    ///
    /// The kernel is too old, or this is not root.
    pub(super) fn new(setup: &FuseSetup, is_read_only: bool) -> io::Result<(OwnedFd, Self)> {
        let (kind, subtype) = FILE_SYSTEM_TYPE.split_once('.').expect("a type of FUSE");
        let device = open(super::DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in [
            ("source", setup.source.clone()),
            ("subtype", subtype.to_owned()),
            ("fd", device.as_raw_fd().to_string()),
            ("rootmode", "40000".to_owned()), // a folder's, in octal
            ("user_id", getuid().as_raw().to_string()),
            ("group_id", getgid().as_raw().to_string()),
        ] {
            fsconfig_set_string(&context, key, value)?;
        }
        fsconfig_set_flag(&context, "default_permissions")?;
        if setup.is_for_all {
            fsconfig_set_flag(&context, "allow_other")?;
        }
        if is_read_only {
            fsconfig_set_flag(&context, "ro")?;
        }
        fsconfig_create(&context)?;
        let attributes = attributes(&setup.flags, is_read_only);
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok((device, Self(mount)))
    }

    /// Mounts it at `path` in place of what is there.
    ///
    /// # Errors
    ///
    /// The kernel refuses; then nothing has changed.
    pub(super) fn replace(self, path: &Path) -> io::Result<()> {
        let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_BENEATH;
        move_mount(&self.0, "", CWD, path, how)?;
        detach(path)
    }
}

/// As fuser has them: no devices and no owner's rights unless that is asked for, and no times of reading.
fn attributes(flags: &[MountFlag], is_read_only: bool) -> MountAttrFlags {
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOATIME
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOSUID;
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, is_read_only);
    for flag in flags {
        match flag {
            MountFlag::Dev => attributes.remove(MountAttrFlags::MOUNT_ATTR_NODEV),
            MountFlag::NoDev => attributes.insert(MountAttrFlags::MOUNT_ATTR_NODEV),
            MountFlag::Suid => attributes.remove(MountAttrFlags::MOUNT_ATTR_NOSUID),
            MountFlag::NoSuid => attributes.insert(MountAttrFlags::MOUNT_ATTR_NOSUID),
            MountFlag::Exec => attributes.remove(MountAttrFlags::MOUNT_ATTR_NOEXEC),
            MountFlag::NoExec => attributes.insert(MountAttrFlags::MOUNT_ATTR_NOEXEC),
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_flag_counts() {
        let plain = attributes(&[], false);
        let guarded = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
        assert_eq!(plain, MountAttrFlags::MOUNT_ATTR_NOATIME | guarded);
        let flags = [MountFlag::Suid, MountFlag::Dev, MountFlag::NoDev, MountFlag::NoExec];
        let expected = MountAttrFlags::MOUNT_ATTR_NOATIME
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        assert_eq!(attributes(&flags, false), expected);
        assert_eq!(attributes(&flags, true), expected | MountAttrFlags::MOUNT_ATTR_RDONLY);
    }
}
