//! Operations on names.

use super::FileSystem;
use super::write_out::Part;
use crate::attributes::{Attributes, Caller, FolderEntry};
use crate::core::{Core, NewFile, is_dot};
use crate::error::Errno;
use crate::format::inode::Kind;
use crate::store::Store;

/// What becomes of a name that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RenameMode {
    /// Its file is replaced.
    #[default]
    Replace,
    /// The rename is refused: `RENAME_NOREPLACE`.
    NoReplace,
    /// The two names change places: `RENAME_EXCHANGE`.
    Exchange,
}

/// Files whose lookups are taken back before others have their turn.
pub const FORGOTTEN_MAX: usize = 32;

fn new_file(kind: Kind, permissions: u16, caller: &Caller) -> NewFile<'static> {
    let Caller { uid, gid, is_privileged } = *caller;
    NewFile { kind, permissions, uid, gid, device: (0, 0), target: &[], is_privileged }
}

impl<S: Store> FileSystem<S> {
    /// The file with a name; counts as a lookup. `.` is `parent` itself, whatever kind of file that is.
    ///
    /// # Errors
    ///
    /// [`Errno::NotFound`], [`Errno::Stale`] of `.` where it has no name any more; as of all operations, [`Errno::Io`] where the store fails and [`Errno::Damaged`] where what is
    /// there cannot be.
    pub async fn lookup(&self, parent: u32, name: &[u8]) -> Result<Attributes, Errno> {
        let mut core = self.look().await;
        let (number, inode) = core.lookup(parent, name).await?;
        Self::tell(&mut core, number, &inode)
    }

    /// Takes back so many lookups; a file that nobody knows of any more and that has no name is freed.
    ///
    /// # Errors
    ///
    /// Those of freeing it. The lookups are taken back in any case.
    pub async fn forget(&self, number: u32, lookups: u64) -> Result<(), Errno> {
        let is_to_be_ended = self.0.core.lock().await.forget(number, lookups);
        if is_to_be_ended { self.end_if_unknown(number).await } else { Ok(()) }
    }

    /// As [`Self::forget`], of many files: others wait for no more than [`FORGOTTEN_MAX`] of them at a time.
    ///
    /// # Errors
    ///
    /// As [`Self::forget`], of the first one that fails; all lookups are taken back in any case.
    pub async fn forget_all(&self, forgotten: &[(u32, u64)]) -> Result<(), Errno> {
        let mut result = Ok(());
        let mut to_be_ended = Vec::new();
        for part in forgotten.chunks(FORGOTTEN_MAX) {
            {
                let mut core = self.0.core.lock().await;
                let ended = part.iter().filter(|&&(number, lookups)| core.forget(number, lookups));
                to_be_ended.extend(ended.map(|&(number, _)| number));
            }
            for number in to_be_ended.drain(..) {
                result = result.and(self.end_if_unknown(number).await);
            }
        }
        result
    }

    /// Makes a file; counts as a lookup.
    ///
    /// # Errors
    ///
    /// [`Errno::Exists`], [`Errno::NameTooLong`], [`Errno::NotFolder`], [`Errno::NoSpace`].
    pub async fn create(
        &self,
        parent: u32,
        name: &[u8],
        permissions: u16,
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.make(parent, name, new_file(Kind::File, permissions, caller)).await
    }

    /// Makes a folder; counts as a lookup.
    ///
    /// # Errors
    ///
    /// As [`Self::create`]; [`Errno::TooManyLinks`].
    pub async fn mkdir(
        &self,
        parent: u32,
        name: &[u8],
        permissions: u16,
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.make(parent, name, new_file(Kind::Folder, permissions, caller)).await
    }

    /// Makes a file of any kind but folder and symbolic link; counts as a lookup.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub async fn mknod(
        &self,
        parent: u32,
        name: &[u8],
        (kind, permissions): (Kind, u16),
        device: (u32, u32),
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        match kind {
            Kind::Folder | Kind::Link => Err(Errno::Invalid),
            kind => self.make(parent, name, NewFile { device, ..new_file(kind, permissions, caller) }).await,
        }
    }

    /// Makes a symbolic link; counts as a lookup.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub async fn symlink(
        &self,
        parent: u32,
        name: &[u8],
        target: &[u8],
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.make(parent, name, NewFile { target, ..new_file(Kind::Link, 0o777, caller) }).await
    }

    /// Makes a file without a name, to which [`Self::link`] can give one (`O_TMPFILE`); counts as a lookup.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub async fn tmpfile(&self, parent: u32, permissions: u16, caller: &Caller) -> Result<Attributes, Errno> {
        self.with_room(async || {
            let mut core = self.change().await?;
            let made = core.create_unnamed(parent, new_file(Kind::File, permissions, caller)).await;
            let told = made.and_then(|(number, inode)| Self::tell(&mut core, number, &inode));
            core.done(told)
        })
        .await
    }

    async fn make(&self, parent: u32, name: &[u8], new: NewFile<'_>) -> Result<Attributes, Errno> {
        self.with_room(async || {
            let mut core = self.change().await?;
            let made = core.create(parent, name, new).await;
            let told = made.and_then(|(number, inode)| Self::tell(&mut core, number, &inode));
            core.done(told)
        })
        .await
    }

    /// Gives a file one more name; counts as a lookup.
    ///
    /// # Errors
    ///
    /// As [`Self::create`]; [`Errno::NotPermitted`] of a folder, [`Errno::TooManyLinks`].
    pub async fn link(
        &self,
        number: u32,
        parent: u32,
        name: &[u8],
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.with_room(async || {
            let mut core = self.change().await?;
            let linked = core.link(number, parent, name, caller.is_privileged).await;
            let told = linked.and_then(|inode| Self::tell(&mut core, number, &inode));
            core.done(told)
        })
        .await
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    ///
    /// [`Errno::Invalid`] of anything else.
    pub async fn readlink(&self, number: u32) -> Result<Vec<u8>, Errno> {
        self.look().await.link_target(number).await
    }

    /// Takes a name of a file away.
    ///
    /// # Errors
    ///
    /// [`Errno::NotFound`], [`Errno::IsFolder`].
    pub async fn unlink(&self, parent: u32, name: &[u8]) -> Result<(), Errno> {
        self.remove(parent, name, false).await
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// [`Errno::NotFound`], [`Errno::NotFolder`], [`Errno::NotEmpty`].
    pub async fn rmdir(&self, parent: u32, name: &[u8]) -> Result<(), Errno> {
        self.remove(parent, name, true).await
    }

    async fn remove(&self, parent: u32, name: &[u8], is_folder: bool) -> Result<(), Errno> {
        let mut core = self.change().await?;
        let removed = core.unlink(parent, name, is_folder).await;
        match core.done(removed)? {
            Some(number) => self.end_if_unknown(number).await,
            None => Ok(()),
        }
    }

    /// Gives a file another name. After a cut, the old names hold or the new ones do.
    ///
    /// # Errors
    ///
    /// [`Errno::NotFound`]; [`Errno::Exists`] as `mode` says; [`Errno::Invalid`] of a folder into itself;
    /// [`Errno::NotEmpty`], [`Errno::IsFolder`], [`Errno::NotFolder`] of what would be replaced.
    pub async fn rename(&self, old: (u32, &[u8]), new: (u32, &[u8]), mode: RenameMode) -> Result<(), Errno> {
        if mode == RenameMode::Replace {
            self.sync_what_replaces(old, new).await?;
        }
        let replaced = self
            .with_room(async || {
                let mut core = self.change().await?;
                let renamed = match mode {
                    RenameMode::Exchange => core.exchange(old, new).await.map(|()| None),
                    mode => core.rename(old, new, mode == RenameMode::Replace).await,
                };
                core.done(renamed)
            })
            .await?;
        match replaced {
            Some(number) => self.end_if_unknown(number).await,
            None => Ok(()),
        }
    }

    /// Makes durable what a file holds that is about to take the name of another: names are durable with the next commit, whoever
    /// asks for it, and a cut must not leave the one without its contents and the other without its name.
    async fn sync_what_replaces(&self, old: (u32, &[u8]), new: (u32, &[u8])) -> Result<(), Errno> {
        let number = {
            let mut core = self.look().await;
            // Where there is no such name, the rename says so, or replaces nothing.
            let Ok((number, _)) = core.lookup(old.0, old.1).await else { return Ok(()) };
            let is_dirty = core.nodes.get(&number).is_some_and(|node| node.dirty_pages() > 0);
            match is_dirty && core.lookup(new.0, new.1).await.is_ok() {
                true => number,
                false => return Ok(()),
            }
        };
        self.sync_if_there(number, Part::All { is_data_only: true }).await
    }

    /// Entries of a folder behind `cookie`, which is 0 at the start: at least `wanted` of them if there are. A cookie stays
    /// good whatever happens to the folder. Does not count as a lookup.
    ///
    /// # Errors
    ///
    /// [`Errno::NotFolder`].
    pub async fn readdir(&self, number: u32, cookie: u64, wanted: usize) -> Result<Vec<FolderEntry>, Errno> {
        let mut core = self.look().await;
        Self::listed(&mut core, number, cookie, wanted).await
    }

    /// As [`Self::readdir`], at most `max` of them, each with its file, if that can be read. They are fewer where more of the
    /// store would have to be read: nobody waits for many reads. Counts as a lookup of each file that is answered, but not of
    /// `.` and `..`.
    ///
    /// # Errors
    ///
    /// [`Errno::NotFolder`].
    pub async fn readdirplus(
        &self,
        number: u32,
        cookie: u64,
        max: usize,
    ) -> Result<Vec<(FolderEntry, Option<Attributes>)>, Errno> {
        let mut core = self.look().await;
        let listed = Self::listed(&mut core, number, cookie, max).await?;
        let mut told: Vec<(FolderEntry, Option<Attributes>)> = Vec::with_capacity(max.min(listed.len()));
        for entry in listed {
            let is_enough = told.len() >= max || !core.is_inode_loaded(entry.inode);
            // Names of one place come together, or the later ones would be passed over.
            if is_enough && told.last().is_some_and(|(last, _)| last.cookie != entry.cookie) {
                break;
            }
            let attributes = match core.named(entry.inode).await {
                Ok(inode) if is_dot(&entry.name) => Self::attributes_of(&core, entry.inode, &inode),
                Ok(inode) => Self::tell(&mut core, entry.inode, &inode),
                Err(errno) => Err(errno),
            };
            told.push((entry, attributes.ok()));
        }
        Ok(told)
    }

    async fn listed(
        core: &mut Core<S>,
        number: u32,
        cookie: u64,
        wanted: usize,
    ) -> Result<Vec<FolderEntry>, Errno> {
        let inode = core.folder(number).await?;
        if inode.links == 0 {
            return Ok(Vec::new());
        }
        let listed = core.list(number, &inode, cookie, wanted).await?;
        let entry = |entry: crate::core::Listed| FolderEntry {
            inode: entry.inode,
            kind: entry.kind,
            name: entry.name,
            cookie: entry.cookie,
        };
        Ok(listed.into_iter().map(entry).collect())
    }

    /// A file is open once more.
    ///
    /// # Errors
    ///
    /// [`Errno::Stale`] where it is gone.
    pub async fn open(&self, number: u32) -> Result<Attributes, Errno> {
        let mut core = self.look().await;
        let inode = core.inode(number).await?;
        core.known.open(number);
        Self::attributes_of(&core, number, &inode)
    }

    /// A file is open once less; one that nobody knows of any more and that has no name is freed.
    ///
    /// # Errors
    ///
    /// Those of freeing it.
    pub async fn release(&self, number: u32) -> Result<(), Errno> {
        self.0.core.lock().await.known.close(number);
        self.end_if_unknown(number).await
    }
}
