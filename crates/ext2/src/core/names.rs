//! Operations on names: each checks all that can be refused before it changes anything.

use super::Core;
use super::folder::Found;
use crate::error::Errno;
use crate::format::folder::new_folder;
use crate::format::inode::{
    EXTRA_BYTES, FLAG_APPEND, FLAG_IMMUTABLE, FLAGS_INHERITED, Inode, Kind, LINK_BYTES,
};
use crate::format::{BLOCK, LINKS_MAX, NAME_MAX, ROOT_INODE};
use crate::planted::{Bug, is_planted};
use crate::store::Store;

/// Folders between one and the root, at most.
const DEPTH_MAX: u32 = 100_000;

/// What a new file is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFile<'a> {
    pub(crate) kind: Kind,
    /// Permissions: the low 12 bits.
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Of a device.
    pub(crate) device: (u32, u32),
    /// Of a symbolic link.
    pub(crate) target: &'a [u8],
    /// Whether it may take reserved blocks.
    pub(crate) is_privileged: bool,
}

/// Whether a name is one that an entry can have.
fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        name if name.len() > NAME_MAX => Err(Errno::NameTooLong),
        b"" => Err(Errno::NotFound),
        name if name.contains(&b'/') || name.contains(&0) => Err(Errno::Invalid),
        _ => Ok(()),
    }
}

/// Whether a name is one of the two that each folder has.
pub(crate) fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

impl<S: Store> Core<S> {
    /// A folder in which a name can be changed.
    async fn folder_to_change(&mut self, number: u32) -> Result<Inode, Errno> {
        let folder = self.folder(number).await?;
        if folder.links == 0 {
            return Err(Errno::NotFound);
        }
        match folder.flags & FLAG_IMMUTABLE {
            0 => Ok(folder),
            _ => Err(Errno::NotPermitted),
        }
    }

    /// As [`Self::folder_to_change`], with the name in it that is to go.
    async fn entry_to_change(&mut self, parent: u32, name: &[u8]) -> Result<(Inode, Found, Inode), Errno> {
        check_name(name)?;
        let folder = self.folder_to_change(parent).await?;
        if folder.flags & FLAG_APPEND != 0 {
            return Err(Errno::NotPermitted);
        }
        let found = self.find(&folder, name).await?.ok_or(Errno::NotFound)?;
        let inode = self.named(found.inode).await?;
        match inode.flags & (FLAG_IMMUTABLE | FLAG_APPEND) {
            0 => Ok((folder, found, inode)),
            _ => Err(Errno::NotPermitted),
        }
    }

    /// The inode that an entry leads to.
    pub(crate) async fn named(&mut self, number: u32) -> Result<Inode, Errno> {
        match self.inode(number).await {
            Err(Errno::Stale) => Err(Errno::Damaged),
            Ok(inode) if inode.links == 0 => Err(Errno::Damaged),
            other => other,
        }
    }

    /// The inode that a name leads to.
    pub(crate) async fn lookup(&mut self, parent: u32, name: &[u8]) -> Result<(u32, Inode), Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::NameTooLong);
        }
        if name == b"." {
            let inode = self.inode(parent).await?;
            return if inode.links > 0 { Ok((parent, inode)) } else { Err(Errno::Stale) };
        }
        let folder = self.folder(parent).await?;
        let found = self.find(&folder, name).await?.ok_or(Errno::NotFound)?;
        let inode = self.named(found.inode).await?;
        Ok((found.inode, inode))
    }

    /// Makes a file of any kind.
    pub(crate) async fn create(
        &mut self,
        parent: u32,
        name: &[u8],
        new: NewFile<'_>,
    ) -> Result<(u32, Inode), Errno> {
        check_name(name)?;
        let mut folder = self.folder_to_change(parent).await?;
        if is_dot(name) || self.find(&folder, name).await?.is_some() {
            return Err(Errno::Exists);
        }
        if new.kind == Kind::Folder && folder.links >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        if new.kind == Kind::Link && (new.target.is_empty() || new.target.len() >= BLOCK) {
            return Err(if new.target.is_empty() { Errno::NotFound } else { Errno::NameTooLong });
        }
        self.check_room(new.is_privileged)?;
        let is_folder = new.kind == Kind::Folder;
        let number = self.take_inode(parent, is_folder).await?;
        let inserted =
            self.insert_entry(parent, &mut folder, name, (number, new.kind), new.is_privileged).await;
        if let Err(error) = inserted {
            self.put_inode(parent, &folder);
            self.free_inode(number, is_folder).await?;
            return Err(error);
        }
        let inode = self.fill_inode(number, (parent, &folder), new).await?;
        if is_folder {
            folder.links += 1;
        }
        let now = self.now();
        (folder.mtime, folder.ctime) = (now, now);
        self.put_inode(parent, &folder);
        Ok((number, inode))
    }

    /// Makes a file without a name.
    pub(crate) async fn create_unnamed(
        &mut self,
        parent: u32,
        new: NewFile<'_>,
    ) -> Result<(u32, Inode), Errno> {
        let folder = self.folder_to_change(parent).await?;
        self.check_room(new.is_privileged)?;
        let number = self.take_inode(parent, false).await?;
        let mut inode = self.fill_inode(number, (parent, &folder), new).await?;
        inode.links = 0;
        self.add_orphan(number, &mut inode);
        self.put_inode(number, &inode);
        Ok((number, inode))
    }

    async fn fill_inode(
        &mut self,
        number: u32,
        (parent, folder): (u32, &Inode),
        new: NewFile<'_>,
    ) -> Result<Inode, Errno> {
        const SET_GROUP: u16 = 0o2000;
        let generation = self.inode_raw(number).await?.generation.wrapping_add(1);
        self.clear_inode(number);
        let now = self.now();
        let takes_group = folder.mode & SET_GROUP != 0;
        let passes_on = if takes_group && new.kind == Kind::Folder { SET_GROUP } else { 0 };
        let mut inode = Inode {
            mode: new.kind.mode_bits() | new.permissions & 0o7777 | passes_on,
            uid: new.uid,
            gid: if takes_group { folder.gid } else { new.gid },
            atime: now,
            ctime: now,
            mtime: now,
            crtime: now,
            links: 1,
            flags: folder.flags & FLAGS_INHERITED,
            generation,
            extra_bytes: EXTRA_BYTES,
            ..Inode::default()
        };
        match new.kind {
            Kind::Folder => {
                inode.links = 2;
                let (_, block) = self.append_block(number, &mut inode).await?;
                new_folder(self.cache.get_mut(block), number, parent);
            }
            Kind::Link if new.target.len() < LINK_BYTES => {
                inode.size = new.target.len() as u64;
                inode.set_map_bytes(new.target);
            }
            Kind::Link => {
                let block = self.take_block(self.goal_of(number, &inode)).await?;
                self.cache.insert_fresh(block)[..new.target.len()].copy_from_slice(new.target);
                self.map_set(&mut inode, 0, block).await?;
                inode.size = new.target.len() as u64;
            }
            Kind::CharDevice | Kind::BlockDevice => inode.set_device(new.device.0, new.device.1),
            Kind::File | Kind::Pipe | Kind::Socket => {}
        }
        self.put_inode(number, &inode);
        Ok(inode)
    }

    /// The target of a symbolic link.
    pub(crate) async fn link_target(&mut self, number: u32) -> Result<Vec<u8>, Errno> {
        let inode = self.inode(number).await?;
        if inode.kind() != Some(Kind::Link) {
            return Err(Errno::Invalid);
        }
        let len = inode.size as usize;
        if inode.is_short_link() {
            return Ok(inode.map_bytes()[..len].to_vec());
        }
        let block = self.map_one(&inode, 0).await?;
        if block == 0 || inode.size >= BLOCK as u64 {
            return Err(Errno::Damaged);
        }
        self.load(block).await?;
        Ok(self.cache.get(block)[..len].to_vec())
    }

    /// Gives a file one more name.
    pub(crate) async fn link(
        &mut self,
        number: u32,
        parent: u32,
        name: &[u8],
        is_privileged: bool,
    ) -> Result<Inode, Errno> {
        check_name(name)?;
        let mut inode = self.inode(number).await?;
        if inode.kind() == Some(Kind::Folder) || inode.flags & (FLAG_IMMUTABLE | FLAG_APPEND) != 0 {
            return Err(Errno::NotPermitted);
        }
        if inode.links >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        let mut folder = self.folder_to_change(parent).await?;
        if is_dot(name) || self.find(&folder, name).await?.is_some() {
            return Err(Errno::Exists);
        }
        let kind = inode.kind().ok_or(Errno::Damaged)?;
        let inserted = self.insert_entry(parent, &mut folder, name, (number, kind), is_privileged).await;
        if let Err(error) = inserted {
            self.put_inode(parent, &folder);
            return Err(error);
        }
        if inode.links == 0 {
            self.remove_orphan(number, &mut inode).await?;
        }
        let now = self.now();
        (folder.mtime, folder.ctime) = (now, now);
        self.put_inode(parent, &folder);
        inode.links += 1;
        inode.ctime = now;
        self.put_inode(number, &inode);
        Ok(inode)
    }

    /// Takes a name out; answers the inode if it was the last one.
    pub(crate) async fn unlink(
        &mut self,
        parent: u32,
        name: &[u8],
        is_folder: bool,
    ) -> Result<Option<u32>, Errno> {
        match (is_folder, name) {
            (true, b".") => return Err(Errno::Invalid),
            (true, b"..") => return Err(Errno::NotEmpty),
            (false, b"." | b"..") => return Err(Errno::IsFolder),
            _ => {}
        }
        let (mut folder, found, inode) = self.entry_to_change(parent, name).await?;
        match (is_folder, inode.kind()) {
            (false, Some(Kind::Folder)) => return Err(Errno::IsFolder),
            (true, Some(Kind::Folder)) if !Box::pin(self.is_folder_empty(&inode)).await? => {
                return Err(Errno::NotEmpty);
            }
            (true, Some(Kind::Folder)) => {}
            (true, _) => return Err(Errno::NotFolder),
            _ => {}
        }
        if found.inode == ROOT_INODE || found.inode == parent {
            return Err(Errno::Damaged);
        }
        // What was looked at meanwhile may have taken the block's place in memory.
        self.load(found.block).await?;
        self.remove_entry(found);
        if is_folder {
            folder.links = folder.links.checked_sub(1).ok_or(Errno::Damaged)?;
        }
        let now = self.now();
        (folder.mtime, folder.ctime) = (now, now);
        self.put_inode(parent, &folder);
        self.lose_name(found.inode, inode).await
    }

    /// An inode has a name less; answers it if that was the last one.
    async fn lose_name(&mut self, number: u32, mut inode: Inode) -> Result<Option<u32>, Errno> {
        inode.links = match inode.kind() {
            Some(Kind::Folder) => 0,
            _ => inode.links.checked_sub(1).ok_or(Errno::Damaged)?,
        };
        inode.ctime = self.now();
        let is_last = inode.links == 0;
        if is_last && !self.is_orphan(number) {
            self.add_orphan(number, &mut inode);
        }
        self.put_inode(number, &inode);
        Ok(is_last.then_some(number))
    }

    /// Whether a folder is, or is in, another one.
    async fn is_within(&mut self, mut number: u32, other: u32) -> Result<bool, Errno> {
        for _ in 0..DEPTH_MAX {
            if number == other {
                return Ok(true);
            }
            if number == ROOT_INODE {
                return Ok(false);
            }
            let folder = self.folder(number).await.map_err(|error| match error {
                Errno::Stale | Errno::NotFolder => Errno::Damaged,
                other => other,
            })?;
            number = self.parent_of(&folder).await?;
        }
        Err(Errno::Damaged)
    }

    /// Gives a file another name, which takes the place of what had it; answers the inode that lost its last name.
    pub(crate) async fn rename(
        &mut self,
        (old_parent, old_name): (u32, &[u8]),
        (new_parent, new_name): (u32, &[u8]),
        may_replace: bool,
    ) -> Result<Option<u32>, Errno> {
        if is_dot(old_name) || is_dot(new_name) {
            return Err(Errno::Invalid);
        }
        check_name(new_name)?;
        let (_, found, inode) = self.entry_to_change(old_parent, old_name).await?;
        let mut new_folder = self.folder_to_change(new_parent).await?;
        let target = match self.find(&new_folder, new_name).await? {
            Some(_) if !may_replace => return Err(Errno::Exists),
            Some(target) if target.inode == found.inode => return Ok(None),
            Some(_) => Some(self.entry_to_change(new_parent, new_name).await?),
            None => None,
        };
        let (number, kind) = (found.inode, inode.kind().ok_or(Errno::Damaged)?);
        let is_folder = kind == Kind::Folder;
        if is_folder && self.is_within(new_parent, number).await? {
            return Err(Errno::Invalid);
        }
        let replaced = target.map(|(_, found, inode)| (found, inode));
        if let Some((found, inode)) = &replaced {
            match (is_folder, inode.kind() == Some(Kind::Folder)) {
                (true, false) => return Err(Errno::NotFolder),
                (false, true) => return Err(Errno::IsFolder),
                (true, true) if !self.is_folder_empty(inode).await? => return Err(Errno::NotEmpty),
                (true, true) if found.inode == old_parent || found.inode == ROOT_INODE => {
                    return Err(Errno::NotEmpty);
                }
                _ => {}
            }
        }
        let moves_folder = is_folder && old_parent != new_parent;
        if moves_folder && replaced.is_none() && new_folder.links >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        let now = self.now();
        match &replaced {
            Some((target, _)) => {
                self.load(target.block).await?;
                self.redirect_entry(*target, number, kind);
            }
            None => {
                let inserted =
                    self.insert_entry(new_parent, &mut new_folder, new_name, (number, kind), true).await;
                if let Err(error) = inserted {
                    self.put_inode(new_parent, &new_folder);
                    return Err(error);
                }
            }
        }
        (new_folder.mtime, new_folder.ctime) = (now, now);
        if moves_folder && replaced.is_none() {
            new_folder.links += 1;
        }
        if is_folder && !moves_folder && replaced.is_some() {
            new_folder.links = new_folder.links.checked_sub(1).ok_or(Errno::Damaged)?;
        }
        self.put_inode(new_parent, &new_folder);
        // The entry may have moved.
        let mut old_folder = self.folder(old_parent).await?;
        let old = self.find(&old_folder, old_name).await?.ok_or(Errno::Damaged)?;
        self.remove_entry(old);
        if moves_folder {
            old_folder.links = old_folder.links.checked_sub(1).ok_or(Errno::Damaged)?;
        }
        (old_folder.mtime, old_folder.ctime) = (now, now);
        self.put_inode(old_parent, &old_folder);
        let mut inode = self.inode(number).await?;
        if moves_folder && !is_planted(Bug::MovedKeepsParent) {
            self.set_parent(&inode, new_parent).await?;
        }
        inode.ctime = now;
        self.put_inode(number, &inode);
        match replaced {
            Some((found, _)) if !is_planted(Bug::RenameKeepsLink) => {
                let replaced = self.inode(found.inode).await?;
                self.lose_name(found.inode, replaced).await
            }
            _ => Ok(None),
        }
    }

    /// Two names lead to each other's files.
    pub(crate) async fn exchange(
        &mut self,
        (parent_a, name_a): (u32, &[u8]),
        (parent_b, name_b): (u32, &[u8]),
    ) -> Result<(), Errno> {
        if is_dot(name_a) || is_dot(name_b) {
            return Err(Errno::Invalid);
        }
        let (_, found_a, inode_a) = self.entry_to_change(parent_a, name_a).await?;
        let (_, found_b, inode_b) = self.entry_to_change(parent_b, name_b).await?;
        if found_a.inode == found_b.inode {
            return Ok(());
        }
        let is_folder = |inode: &Inode| inode.kind() == Some(Kind::Folder);
        if is_folder(&inode_a) && self.is_within(parent_b, found_a.inode).await?
            || is_folder(&inode_b) && self.is_within(parent_a, found_b.inode).await?
        {
            return Err(Errno::Invalid);
        }
        let kinds = (inode_a.kind().ok_or(Errno::Damaged)?, inode_b.kind().ok_or(Errno::Damaged)?);
        self.load(found_a.block).await?;
        self.load(found_b.block).await?;
        self.redirect_entry(found_a, found_b.inode, kinds.1);
        self.redirect_entry(found_b, found_a.inode, kinds.0);
        let now = self.now();
        if parent_a != parent_b {
            for (inode, parent) in [(&inode_a, parent_b), (&inode_b, parent_a)] {
                if is_folder(inode) {
                    self.set_parent(inode, parent).await?;
                }
            }
        }
        let moved = i32::from(is_folder(&inode_b)) - i32::from(is_folder(&inode_a));
        for (parent, change) in [(parent_a, moved), (parent_b, -moved)] {
            let mut folder = self.folder(parent).await?;
            if parent_a != parent_b {
                folder.links = (i32::from(folder.links) + change).clamp(0, i32::from(u16::MAX)) as u16;
            }
            (folder.mtime, folder.ctime) = (now, now);
            self.put_inode(parent, &folder);
        }
        for number in [found_a.inode, found_b.inode] {
            let mut inode = self.inode(number).await?;
            inode.ctime = now;
            self.put_inode(number, &inode);
        }
        Ok(())
    }
}
