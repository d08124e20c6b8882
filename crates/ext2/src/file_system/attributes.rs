//! Attributes of files, extended ones too.

use super::FileSystem;
use crate::attributes::{Attributes, SetAttributes};
use crate::error::Errno;
use crate::format::inode::{FLAG_APPEND, FLAG_IMMUTABLE, Kind};
use crate::format::xattr::{self, Attribute};
use crate::format::{BLOCK, NAME_MAX};
use crate::store::Store;

/// What becomes of an extended attribute that is there already, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XattrMode {
    /// It is set.
    #[default]
    Set,
    /// It must not be there: `XATTR_CREATE`.
    Create,
    /// It must be there: `XATTR_REPLACE`.
    Replace,
}

impl<S: Store> FileSystem<S> {
    /// What a file is like. Does not count as a lookup.
    ///
    /// # Errors
    ///
    /// [`Errno::Stale`] where it is gone.
    pub async fn getattr(&self, number: u32) -> Result<Attributes, Errno> {
        let mut core = self.look().await;
        let inode = core.inode(number).await?;
        Self::attributes_of(&core, number, &inode)
    }

    /// Sets attributes, the size first. Who owns a file and sets it anew takes away that it runs as its owner.
    ///
    /// # Errors
    ///
    /// [`Errno::FileTooLarge`], [`Errno::IsFolder`], [`Errno::Invalid`] of a size.
    pub async fn setattr(&self, number: u32, set: &SetAttributes) -> Result<Attributes, Errno> {
        const SET_USER: u16 = 0o4000;
        const SET_GROUP: u16 = 0o2000;
        const GROUP_RUNS: u16 = 0o10;
        if let Some(size) = set.size {
            self.truncate(number, size).await?;
        }
        let mut core = self.change().await?;
        let loaded = core.inode(number).await;
        let mut inode = match loaded {
            Ok(inode) => inode,
            Err(error) => return core.done(Err(error)),
        };
        let changes_inode = set.permissions.is_some() || set.uid.is_some() || set.gid.is_some();
        if changes_inode && inode.flags & (FLAG_IMMUTABLE | FLAG_APPEND) != 0 {
            return core.done(Err(Errno::NotPermitted));
        }
        if let Some(permissions) = set.permissions {
            inode.mode = inode.mode & !0o7777 | permissions & 0o7777;
        }
        if set.uid.is_some() || set.gid.is_some() {
            inode.uid = set.uid.unwrap_or(inode.uid);
            inode.gid = set.gid.unwrap_or(inode.gid);
            if inode.kind() != Some(Kind::Folder) && set.permissions.is_none() {
                inode.mode &= !SET_USER;
                if inode.mode & GROUP_RUNS != 0 {
                    inode.mode &= !SET_GROUP;
                }
            }
        }
        if let Some(atime) = set.atime {
            inode.atime = atime;
        }
        if let Some(mtime) = set.mtime {
            inode.mtime = mtime;
            if let Some(node) = core.nodes.get_mut(&number) {
                node.written = None;
            }
        }
        if changes_inode || set.atime.is_some() || set.mtime.is_some() {
            inode.ctime = core.now();
            core.put_inode(number, &inode);
        }
        let attributes = Self::attributes_of(&core, number, &inode);
        core.done(attributes)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    ///
    /// [`Errno::NoAttribute`]; [`Errno::NotSupported`] of a namespace other than user, trusted and security.
    pub async fn getxattr(&self, number: u32, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let (space, name) = xattr::split_name(name).ok_or(Errno::NotSupported)?;
        let mut core = self.look().await;
        let inode = core.inode(number).await?;
        let all = core.attributes(number, &inode).await?;
        let found = all.into_iter().find(|attribute| attribute.space == space && attribute.name == name);
        found.map(|attribute| attribute.value).ok_or(Errno::NoAttribute)
    }

    /// Names of all extended attributes.
    ///
    /// # Errors
    ///
    /// [`Errno::Stale`].
    pub async fn listxattr(&self, number: u32) -> Result<Vec<Vec<u8>>, Errno> {
        let mut core = self.look().await;
        let inode = core.inode(number).await?;
        Ok(core.attributes(number, &inode).await?.iter().filter_map(xattr::full_name).collect())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    ///
    /// As `mode` says; [`Errno::NoSpace`] where inode and one block do not hold all of them; [`Errno::NotSupported`] as
    /// [`Self::getxattr`].
    pub async fn setxattr(
        &self,
        number: u32,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        let (space, name) = xattr::split_name(name).ok_or(Errno::NotSupported)?;
        if name.is_empty() {
            return Err(Errno::Invalid);
        }
        if name.len() > NAME_MAX {
            return Err(Errno::Range);
        }
        if value.len() > BLOCK {
            return Err(Errno::NoSpace);
        }
        let set = |all: &mut Vec<Attribute>| {
            let found = all.iter_mut().find(|attribute| attribute.space == space && attribute.name == name);
            match (found, mode) {
                (Some(_), XattrMode::Create) => return Err(Errno::Exists),
                (None, XattrMode::Replace) => return Err(Errno::NoAttribute),
                (Some(attribute), _) => attribute.value = value.to_vec(),
                (None, _) => all.push(Attribute { space, name: name.to_vec(), value: value.to_vec() }),
            }
            Ok(())
        };
        self.with_room(async || self.change_xattrs(number, set).await).await
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    ///
    /// As [`Self::getxattr`].
    pub async fn removexattr(&self, number: u32, name: &[u8]) -> Result<(), Errno> {
        let (space, name) = xattr::split_name(name).ok_or(Errno::NotSupported)?;
        let remove = |all: &mut Vec<Attribute>| {
            let is_it = |attribute: &Attribute| attribute.space == space && attribute.name == name;
            let at = all.iter().position(is_it).ok_or(Errno::NoAttribute)?;
            all.remove(at);
            Ok(())
        };
        self.change_xattrs(number, remove).await
    }

    async fn change_xattrs(
        &self,
        number: u32,
        change: impl FnOnce(&mut Vec<Attribute>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut core = self.change().await?;
        let changed = async {
            let mut inode = core.inode(number).await?;
            if inode.flags & (FLAG_IMMUTABLE | FLAG_APPEND) != 0 {
                return Err(Errno::NotPermitted);
            }
            let mut all = core.attributes(number, &inode).await?;
            change(&mut all)?;
            core.put_attributes(number, &mut inode, all).await?;
            inode.ctime = core.now();
            core.put_inode(number, &inode);
            Ok(())
        }
        .await;
        core.done(changed)
    }
}
