//! A client that works in a folder of its own, and knows what may be there after a cut.
//!
//! Names: those of one moment since the last sync that was acknowledged, whatever was synced: a commit carries all of them.
//! Bytes of a file: each as it was at some moment since the file was last synced at which the file was that long.

use std::collections::BTreeMap;

use evenkeel_ext2::store::Store;
use evenkeel_ext2::{Caller, Errno, FileSystem, Kind, ROOT_INODE, RenameMode, Seek, SetAttributes};
use evenkeel_sim::random::Random;

/// What a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    File(usize),
    Link(Vec<u8>),
}

/// Names in the client's folders: which folder, and the name.
type Names = BTreeMap<(usize, Vec<u8>), Target>;

/// A name that was found, with its inode and its kind.
type FoundName = ((usize, Vec<u8>), u32, Option<Kind>);

/// What a file held, from its last sync on.
#[derive(Debug, Clone, Default)]
struct File {
    inode: u32,
    links: u32,
    versions: Vec<Vec<u8>>,
    /// Whether a descriptor keeps it, though it has no name.
    is_open: bool,
}

impl File {
    fn now(&self) -> &Vec<u8> {
        self.versions.last().expect("a file has a version")
    }
}

/// Folders that a client has: its own, and one in it.
const FOLDERS: usize = 2;

const NAMES: u64 = 24;

/// See the [module](self).
pub(crate) struct Client {
    number: u64,
    folders: Vec<u32>,
    files: Vec<File>,
    names: Vec<Names>,
    random: Random,
    written: u64,
    is_moved: bool,
    /// The largest write.
    pub(crate) len_max: u64,
}

/// What ends a client: power, or something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Power,
    Wrong(String),
}

impl From<Errno> for End {
    fn from(error: Errno) -> Self {
        match error {
            Errno::Io | Errno::ReadOnly => Self::Power,
            error => Self::Wrong(format!("an operation was refused: {error}")),
        }
    }
}

fn wrong<T>(what: String) -> Result<T, End> {
    Err(End::Wrong(what))
}

impl Client {
    /// A client whose folders are made and durable.
    pub(crate) async fn begin<S: Store>(files: &FileSystem<S>, number: u64, random: Random) -> Self {
        let caller = Caller::ROOT;
        let name = format!("client{number}");
        let own = files.mkdir(ROOT_INODE, name.as_bytes(), 0o755, &caller).await.unwrap().inode;
        let inner = files.mkdir(own, b"inner", 0o755, &caller).await.unwrap().inode;
        files.fsync(own).await.unwrap();
        Self {
            number,
            folders: vec![own, inner],
            files: Vec::new(),
            names: vec![Names::new()],
            random,
            written: 0,
            is_moved: false,
            len_max: 30_000,
        }
    }

    fn names(&self) -> &Names {
        self.names.last().expect("there is a version")
    }

    fn now_named(&mut self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names().clone();
        change(&mut names);
        self.names.push(names);
    }

    fn synced(&mut self) {
        self.names = vec![self.names().clone()];
    }

    fn name(&mut self) -> (usize, Vec<u8>) {
        let folder = self.random.index(FOLDERS);
        // They are long, so that folders get more than one block.
        let number = self.random.below(NAMES);
        (folder, format!("{number}{}", "n".repeat(number as usize + 200)).into_bytes())
    }

    fn known_file(&mut self) -> Option<usize> {
        let known: Vec<usize> = (0..self.files.len())
            .filter(|&file| self.files[file].links > 0 || self.files[file].is_open)
            .collect();
        (!known.is_empty()).then(|| *self.random.pick(&known))
    }

    /// Does operations until there were so many, or something ends it.
    pub(crate) async fn work<S: Store>(&mut self, files: &FileSystem<S>, operations: u64) -> Result<(), End> {
        for _ in 0..operations {
            self.operation(files).await?;
        }
        Ok(())
    }

    async fn operation<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        match self.random.below(100) {
            0..12 => self.create(files).await,
            12..40 => self.write(files).await,
            40..46 => self.resize(files).await,
            46..50 => self.punch(files).await,
            50..53 => self.allocate(files).await,
            53..60 => self.unlink(files).await,
            60..68 => self.rename(files).await,
            68..71 => self.link(files).await,
            71..73 => self.symlink(files).await,
            73..76 => self.release(files).await,
            76..84 => self.check_one(files).await,
            84..96 => self.sync(files).await,
            96..98 => {
                files.fsync(self.folders[0]).await?;
                self.synced();
                Ok(())
            }
            98 if self.random.coin() => self.list(files).await,
            98 => self.move_folder(files).await,
            _ => {
                files.sync_all().await?;
                self.synced();
                for file in &mut self.files {
                    file.versions.drain(..file.versions.len() - 1);
                }
                Ok(())
            }
        }
    }

    async fn create<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let (folder, name) = self.name();
        let parent = self.folders[folder];
        let key = (folder, name.clone());
        if self.names().contains_key(&key) {
            return match files.create(parent, &name, 0o644, &Caller::ROOT).await {
                Err(Errno::Exists) => Ok(()),
                Err(error @ (Errno::Io | Errno::ReadOnly)) => Err(error.into()),
                other => wrong(format!("a name that is there was made: {other:?}")),
            };
        }
        let number = self.files.len();
        self.files.push(File { links: 1, versions: vec![Vec::new()], ..File::default() });
        self.now_named(|names| drop(names.insert(key, Target::File(number))));
        self.files[number].inode = files.create(parent, &name, 0o644, &Caller::ROOT).await?.inode;
        Ok(())
    }

    async fn write<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let Some(file) = self.known_file() else { return Ok(()) };
        let size = self.files[file].now().len() as u64;
        let offset = match self.random.below(4) {
            0 | 1 => size,
            2 => self.random.below(size + 1),
            _ => self.random.below(size + 20_000),
        };
        if offset > 200_000 {
            return Ok(());
        }
        let len = match self.random.below(5) {
            0 => 1 + self.random.below(20),
            1 => 4096,
            2 => 100,
            _ => 1 + self.random.below(self.len_max),
        };
        // No two writes have the same bytes, and none zeros.
        self.written += 1;
        let seed = self.written * 31 + self.number * 17;
        let bytes: Vec<u8> = (0..len).map(|at| ((seed + at * 7 + (at >> 8)) % 255) as u8 + 1).collect();
        let mut version = self.files[file].now().clone();
        let end = (offset + len) as usize;
        version.resize(version.len().max(end), 0);
        version[offset as usize..end].copy_from_slice(&bytes);
        self.files[file].versions.push(version);
        match files.write(self.files[file].inode, offset, &bytes, &Caller::ROOT).await? as u64 {
            count if count == len => Ok(()),
            count => wrong(format!("{count} of {len} bytes were written")),
        }
    }

    async fn resize<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let Some(file) = self.known_file() else { return Ok(()) };
        let size = self.random.below(self.files[file].now().len() as u64 + 5000);
        let mut version = self.files[file].now().clone();
        version.resize(size as usize, 0);
        self.files[file].versions.push(version);
        let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
        files.setattr(self.files[file].inode, &set).await?;
        Ok(())
    }

    async fn punch<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let Some(file) = self.known_file() else { return Ok(()) };
        let offset = self.random.below(self.files[file].now().len() as u64 + 5000);
        let len = 1 + self.random.below(20_000);
        let mut version = self.files[file].now().clone();
        let end = version.len().min((offset + len) as usize);
        if (offset as usize) < end {
            version[offset as usize..end].fill(0);
        }
        self.files[file].versions.push(version);
        files.punch_hole(self.files[file].inode, offset, len).await?;
        Ok(())
    }

    async fn allocate<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let Some(file) = self.known_file() else { return Ok(()) };
        let offset = self.random.below(self.files[file].now().len() as u64 + 5000);
        let len = 1 + self.random.below(20_000);
        let extends = self.random.coin();
        let mut version = self.files[file].now().clone();
        if extends {
            version.resize(version.len().max((offset + len) as usize), 0);
        }
        let is_behind_end = !extends && offset + len > (version.len() as u64).next_multiple_of(4096);
        self.files[file].versions.push(version);
        match files.fallocate(self.files[file].inode, offset, len, extends, &Caller::ROOT).await {
            Err(Errno::NotSupported) if is_behind_end => Ok(()),
            Ok(()) if is_behind_end => wrong("blocks behind the end of a file were allocated".to_owned()),
            other => Ok(other?),
        }
    }

    async fn unlink<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let (folder, name) = self.name();
        let found = self.names().get(&(folder, name.clone())).cloned();
        self.now_named(|names| drop(names.remove(&(folder, name.clone()))));
        let unlinked = files.unlink(self.folders[folder], &name).await;
        match (found, unlinked) {
            (None, Err(Errno::NotFound)) => Ok(()),
            (None, Err(error @ (Errno::Io | Errno::ReadOnly))) => Err(error.into()),
            (None, other) => wrong(format!("a name that is not there was unlinked: {other:?}")),
            (Some(target), unlinked) => {
                unlinked?;
                self.lost(files, target).await
            }
        }
    }

    /// A name of this is gone.
    async fn lost<S: Store>(&mut self, files: &FileSystem<S>, target: Target) -> Result<(), End> {
        let Target::File(file) = target else { return Ok(()) };
        self.files[file].links -= 1;
        if self.files[file].links > 0 {
            return Ok(());
        }
        // Half of them stay open.
        if self.random.coin() {
            files.open(self.files[file].inode).await?;
            self.files[file].is_open = true;
        }
        files.forget(self.files[file].inode, u64::MAX).await?;
        Ok(())
    }

    async fn release<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        if let Some(file) = self.files.iter_mut().find(|file| file.is_open) {
            file.is_open = false;
            files.release(file.inode).await?;
        }
        Ok(())
    }

    async fn rename<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let ((from, old), (to, new)) = (self.name(), self.name());
        let (Some(source), target) =
            (self.names().get(&(from, old.clone())).cloned(), self.names().get(&(to, new.clone())).cloned())
        else {
            return Ok(());
        };
        let is_exchange = target.is_some() && self.random.chance(0.3);
        let is_same = target.as_ref() == Some(&source) && matches!(source, Target::File(_));
        if (from, &old) != (to, &new) && !is_same {
            self.now_named(|names| {
                match (is_exchange, &target) {
                    (true, Some(target)) => names.insert((from, old.clone()), target.clone()),
                    _ => names.remove(&(from, old.clone())),
                };
                names.insert((to, new.clone()), source);
            });
        }
        let mode = if is_exchange { RenameMode::Exchange } else { RenameMode::Replace };
        files.rename((self.folders[from], &old), (self.folders[to], &new), mode).await?;
        match target {
            Some(target) if !is_exchange && !is_same && (from, &old) != (to, &new) => {
                self.lost(files, target).await
            }
            _ => Ok(()),
        }
    }

    async fn link<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let Some(file) = self.known_file() else { return Ok(()) };
        let (folder, name) = self.name();
        if self.names().contains_key(&(folder, name.clone())) || self.files[file].links == 0 {
            return Ok(());
        }
        self.now_named(|names| drop(names.insert((folder, name.clone()), Target::File(file))));
        files.link(self.files[file].inode, self.folders[folder], &name, &Caller::ROOT).await?;
        self.files[file].links += 1;
        Ok(())
    }

    /// The inner folder goes to the root, or back. Where it is after a cut is for e2fsck to judge: one place.
    async fn move_folder<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let moved = format!("inner{}", self.number).into_bytes();
        let places = [(self.folders[0], b"inner".to_vec()), (ROOT_INODE, moved)];
        let [from, to] = if self.is_moved { [&places[1], &places[0]] } else { [&places[0], &places[1]] };
        files.rename((from.0, &from.1), (to.0, &to.1), RenameMode::NoReplace).await?;
        self.is_moved = !self.is_moved;
        Ok(())
    }

    async fn symlink<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let (folder, name) = self.name();
        if self.names().contains_key(&(folder, name.clone())) {
            return Ok(());
        }
        let target = vec![b'a' + self.random.below(26) as u8; 1 + self.random.below(100) as usize];
        self.now_named(|names| drop(names.insert((folder, name.clone()), Target::Link(target.clone()))));
        let link = files.symlink(self.folders[folder], &name, &target, &Caller::ROOT).await?;
        files.forget(link.inode, 1).await?;
        Ok(())
    }

    async fn sync<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let Some(file) = self.known_file() else { return Ok(()) };
        files.fsync(self.files[file].inode).await?;
        let versions = &mut self.files[file].versions;
        versions.drain(..versions.len() - 1);
        self.synced();
        Ok(())
    }

    async fn check_one<S: Store>(&mut self, files: &FileSystem<S>) -> Result<(), End> {
        let Some(file) = self.known_file() else { return Ok(()) };
        self.check_file(files, file).await?;
        let (inode, len) = (self.files[file].inode, self.files[file].now().len() as u64);
        // What is no data is zeros.
        let mut at = 0;
        while at < len {
            let data = match files.seek(inode, at, Seek::Data).await {
                Ok(data) => data,
                Err(Errno::NothingThere) => len,
                Err(error) => return Err(error.into()),
            };
            if self.files[file].now()[at as usize..data as usize].iter().any(|&byte| byte != 0) {
                return wrong(format!("bytes {at}..{data} are said to be a hole"));
            }
            if data >= len {
                break;
            }
            at = files.seek(inode, data, Seek::Hole).await?;
        }
        Ok(())
    }

    async fn check_file<S: Store>(&self, files: &FileSystem<S>, file: usize) -> Result<(), End> {
        let expected = self.files[file].now();
        let found = read_all(files, self.files[file].inode).await?;
        if found != *expected {
            let at = found.iter().zip(expected).position(|(a, b)| a != b);
            return wrong(format!(
                "client {} file {file} has {} bytes for {}, and differs at {at:?}",
                self.number,
                found.len(),
                expected.len()
            ));
        }
        Ok(())
    }

    async fn list<S: Store>(&self, files: &FileSystem<S>) -> Result<(), End> {
        let found = list_names(files, &self.folders).await?;
        let expected: Vec<_> = self.names().keys().cloned().collect();
        match found.iter().map(|(key, ..)| key.clone()).collect::<Vec<_>>() == expected {
            true => Ok(()),
            false => wrong(format!("client {} has other names than {expected:?}", self.number)),
        }
    }

    /// All that is there now is as it was left.
    pub(crate) async fn check_all<S: Store>(&self, files: &FileSystem<S>) -> Result<(), End> {
        self.list(files).await?;
        for file in (0..self.files.len()).filter(|&file| self.files[file].links > 0) {
            self.check_file(files, file).await?;
        }
        Ok(())
    }

    /// What is there after a cut is something that may be.
    pub(crate) async fn judge<S: Store>(&self, files: &FileSystem<S>) -> Result<(), String> {
        let told = |error: End| format!("client {}: {error:?}", self.number);
        let found = list_names(files, &self.folders).await.map_err(told)?;
        let mut why = String::new();
        for names in self.names.iter().rev() {
            match self.matches(files, names, &found).await.map_err(told)? {
                Ok(()) => return Ok(()),
                Err(differs) if why.is_empty() || differs.starts_with("file") => why = differs,
                Err(_) => {}
            }
        }
        Err(format!("client {}: {why}", self.number))
    }

    async fn matches<S: Store>(
        &self,
        files: &FileSystem<S>,
        names: &Names,
        found: &[FoundName],
    ) -> Result<Result<(), String>, End> {
        let differs = |why: String| Ok(Err(why));
        if !found.iter().map(|(key, ..)| key).eq(names.keys()) {
            return differs(format!(
                "the names are {:?}",
                found.iter().map(|(key, ..)| key).collect::<Vec<_>>()
            ));
        }
        for ((key, inode, kind), target) in found.iter().zip(names.values()) {
            match (target, kind) {
                (Target::Link(target), Some(Kind::Link)) => {
                    if files.readlink(*inode).await? != *target {
                        return differs(format!("the link {key:?} leads elsewhere"));
                    }
                }
                (Target::File(file), Some(Kind::File)) => {
                    let bytes = read_all(files, *inode).await?;
                    if let Err(why) = may_be(&self.files[*file].versions, &bytes) {
                        return differs(format!("file {file}, with inode {inode}: {why}"));
                    }
                }
                _ => return differs(format!("{key:?} is a {kind:?}")),
            }
        }
        Ok(Ok(()))
    }
}

/// Whether a file may hold these bytes, which had these versions since it was last synced.
fn may_be(versions: &[Vec<u8>], bytes: &[u8]) -> Result<(), String> {
    let lens = versions.iter().map(Vec::len);
    let (least, most) = (lens.clone().min().unwrap_or(0), lens.max().unwrap_or(0));
    if !(least..=most).contains(&bytes.len()) {
        return Err(format!("it has {} bytes, and had {least} to {most} since it was synced", bytes.len()));
    }
    for (at, byte) in bytes.iter().enumerate() {
        if !versions.iter().any(|version| version.get(at) == Some(byte)) {
            return Err(format!(
                "byte {at} of {} is {byte}, which it never was since it was synced",
                bytes.len()
            ));
        }
    }
    Ok(())
}

async fn read_all<S: Store>(files: &FileSystem<S>, inode: u32) -> Result<Vec<u8>, End> {
    let mut bytes = vec![0xee; files.getattr(inode).await?.size as usize];
    let len = files.read(inode, 0, &mut bytes).await?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Names in folders, in order, each in parts.
async fn list_names<S: Store>(files: &FileSystem<S>, folders: &[u32]) -> Result<Vec<FoundName>, End> {
    let mut found = Vec::new();
    for (number, &folder) in folders.iter().enumerate() {
        let mut cookie = 0;
        loop {
            let part = files.readdir(folder, cookie, 3).await?;
            let Some(last) = part.last() else { break };
            cookie = last.cookie;
            let names =
                part.into_iter().filter(|entry| ![&b"."[..], b"..", b"inner"].contains(&&entry.name[..]));
            found.extend(names.map(|entry| ((number, entry.name), entry.inode, entry.kind)));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}
