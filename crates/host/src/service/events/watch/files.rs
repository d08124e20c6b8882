//! Files of members and log devices: whether they still have a name, and whether it is the one by which they are found.
//!
//! 1. A file that was removed is known at once, wherever its file system is: its descriptor tells.
//! 2. Where a path leads may be a question that a file system does not answer: it is asked on another thread, every
//!    [`LOOK_NS`], and nobody waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use evenkeel_engine::env::Env;

use super::{LOOK_NS, Watcher};
use crate::drive::OpenFile;
use crate::net::SocketFile;
use crate::remedy::Remedy;
use crate::service::events::{About, Kind};
use crate::volume::Loss;
use crate::volume::member::Place;
use crate::volume::rescue;
use crate::volume::slot::Slot;

impl Watcher {
    /// Devices whose files were removed.
    pub(in crate::service) fn removed(&self) -> BTreeSet<Slot> {
        self.held.removed()
    }

    /// Devices whose paths lead to another file or to none, though the file that is open has a name; with that, where it
    /// is known.
    pub(in crate::service) fn moved(&self) -> BTreeMap<Slot, Option<PathBuf>> {
        let (mut moved, removed) = (self.seen.borrow().moved.clone(), self.removed());
        moved.retain(|slot, _| !removed.contains(slot));
        moved
    }

    /// What of the volume goes with the server, as its files were removed: which, and what is left to do then.
    pub(in crate::service) fn gone(&self) -> Option<String> {
        self.look_at_description();
        let removed = self.removed();
        let Some(loss) = self.held.loss_of(&removed) else {
            let _since_ns = self.description_gone_ns()?;
            let what = "volume.toml had been removed while it was served, and could not be written anew: bring it back from \
                        a backup, and serve the volume anew";
            return Some(what.to_owned());
        };
        let files: Vec<String> = removed.into_iter().map(|slot| self.subject(slot)).collect();
        let files = files.join(", ");
        Some(match loss {
            Loss::Pages => format!(
                "the file of {files} had been removed while it was served, and what it held is lost: make the volume anew \
                 from a copy or a backup"
            ),
            Loss::Log => {
                let remedy = Remedy::SalvagePages {
                    folder: Place::from(self.folder.clone()).quoted(),
                    renews_log: self.mirror.is_none(),
                };
                let message = format!(
                    "the file of {files} had been removed while it was served, and is lost: the volume cannot be served \
                     without it"
                );
                self.reporter.advised(message, &remedy)
            }
        })
    }

    /// The end of the line that says that it has stopped: what the next start will not find.
    pub(in crate::service) fn not_found_again(&self) -> String {
        let removed = self.removed().into_iter().map(|slot| format!("{} was removed", self.subject(slot)));
        let moved = self.moved().into_keys().map(|slot| format!("{} is not at its path", self.subject(slot)));
        let missing: Vec<String> = removed.chain(moved).collect();
        match missing.is_empty() {
            true => String::new(),
            false => format!("; but the next start will miss a file: {}", missing.join(", ")),
        }
    }

    pub(super) fn look_for_removed(&self) {
        let removed = self.removed();
        let before = std::mem::replace(&mut self.seen.borrow_mut().removed, removed.clone());
        let is_loss = self.held.loss_of(&removed).is_some();
        for &slot in removed.difference(&before) {
            let Some(place) = self.held.place(slot) else { continue };
            self.seen.borrow_mut().since_ns.insert(slot, self.event_loop.now_ns());
            let kind = match slot {
                Slot::Member(_) => Kind::MemberRemoved,
                Slot::Log(_) => Kind::LogDeviceRemoved,
            };
            let message = format!(
                "{}: its file was removed, and what it holds is lost when this server ends",
                self.subject(slot)
            );
            let message = self.saved(message, is_loss);
            self.reporter.report(kind, &About::device(&place), message);
        }
    }

    /// `message`, with how to save what removed files hold, or to go on without them.
    fn saved(&self, message: String, is_loss: bool) -> String {
        match is_loss {
            true => format!("{message}; {}", self.rescue()),
            false => self.reporter.advised(message, &Remedy::ReplaceDevice),
        }
    }

    /// What becomes of removed files, and how to save what they hold.
    pub(in crate::service) fn fate_of_removed(&self) -> String {
        let is_loss = self.described.is_removed() || self.held.loss_of(&self.removed()).is_some();
        self.saved("what it holds goes with the end of the server".to_owned(), is_loss)
    }

    /// How to save what removed files hold, for as long as the server has them open.
    fn rescue(&self) -> String {
        let copy = self.copy.as_deref().filter(|it| it.socket.as_ref().is_none_or(|path| path.exists()));
        let copy = copy.map(|it| format!("copy the disk while no client writes: `{}`", it.command));
        // Whatever is there by now is not overwritten.
        let what = match self.is_alone {
            true => "and then serve the volume anew",
            false => "which ends every volume of this process, and then serve all of them anew",
        };
        let put_back = rescue::command_of(&self.open_files())
            .map(|command| format!("put back all files that were removed, {what}: `{command}`"));
        let ways: Vec<String> = copy.into_iter().chain(put_back).collect();
        match ways.is_empty() {
            true => "move away what is in their places, and look here again".to_owned(),
            false => format!("before that, {}", ways.join("; or ")),
        }
    }

    /// Every file of the volume that this process has open, by absolute paths.
    fn open_files(&self) -> Vec<OpenFile> {
        let arena = self.arena.as_deref().and_then(|it| OpenFile::of(it.path.clone(), &it.file).ok());
        let devices = self.held.open_files().into_iter().map(|(_, file)| file);
        let files = self.described.open_file().ok().into_iter().chain(devices).chain(arena);
        files.filter(OpenFile::is_file).map(|file| file.below(&self.base)).collect()
    }

    /// Writes the description anew where it was removed, or tells that it cannot.
    pub(super) fn look_at_description(&self) {
        if !self.described.is_removed() {
            self.seen.borrow_mut().description_gone_ns = None;
            return;
        }
        let Err(error) = self.described.put_back() else {
            let message = "volume.toml was removed, and is written anew";
            return self.reporter.report(Kind::DescriptionRemoved, &About::default(), message);
        };
        let is_told = self.seen.borrow_mut().description_gone_ns.replace(self.event_loop.now_ns()).is_some();
        if !is_told {
            let message = format!(
                "volume.toml was removed, and cannot be written anew ({error}): without it there is no volume once this \
                 server ends; {}",
                self.rescue()
            );
            self.reporter.report(Kind::DescriptionRemoved, &About::default(), message);
        }
    }

    /// Since when the description is gone, in ns of the loop, where it is.
    pub(in crate::service) fn description_gone_ns(&self) -> Option<u64> {
        self.seen.borrow().description_gone_ns
    }

    /// Tells where the memory of acknowledged writes has no name any more, or was cut short.
    pub(super) fn look_at_arena(&self) {
        let Some(arena) = self.arena.as_deref().filter(|_| self.seen.borrow().arena_gone_ns.is_none()) else {
            return;
        };
        let (path, len) = (Place::from(self.base.join(&arena.path)), arena.len);
        let Ok(found) = arena.file.metadata() else { return };
        let what = match (found.nlink(), found.len()) {
            (0, _) => "was removed",
            (_, now) if now < len => "was cut short",
            _ => return,
        };
        self.seen.borrow_mut().arena_gone_ns = Some(self.event_loop.now_ns());
        let message = format!(
            "{path}, the memory of acknowledged writes, {what}: what is acknowledged and not flushed is lost if this server is \
             killed or ends by SIGBUS; have clients flush, and then {}",
            self.anew()
        );
        self.reporter.report(Kind::MemoryGone, &About::default(), message);
    }

    /// How a server is started anew: a stop loses the files that were removed.
    fn anew(&self) -> &'static str {
        match self.removed().is_empty() && !self.described.is_removed() {
            true => "stop this server with SIGTERM, and serve the volume anew",
            false => {
                "do not stop this server before the files that were removed are put back, as it says of those"
            }
        }
    }

    /// Since when that is so, in ns of the loop.
    pub(in crate::service) fn arena_gone_ns(&self) -> Option<u64> {
        self.seen.borrow().arena_gone_ns
    }

    /// Tells of sockets that nobody finds any more: `gone` are all of them.
    fn tell_gone_sockets(&self, gone: Vec<PathBuf>) {
        let mut seen = self.seen.borrow_mut();
        let now_ns = self.event_loop.now_ns();
        let before = std::mem::take(&mut seen.sockets_gone_ns);
        seen.sockets_gone_ns =
            gone.iter().map(|path| (path.clone(), before.get(path).copied().unwrap_or(now_ns))).collect();
        drop(seen);
        for path in gone.into_iter().filter(|path| !before.contains_key(path)) {
            let path = Place::from(path);
            let message = format!(
                "{path}: the socket was removed, or another file is in its place: nobody else connects there; those that are \
                 connected stay; {}",
                self.anew()
            );
            self.reporter.report(Kind::SocketRemoved, &About::default(), message);
        }
    }

    /// Sockets that nobody finds any more, and since when, in ns of the loop.
    pub(in crate::service) fn sockets_gone_ns(&self) -> BTreeMap<PathBuf, u64> {
        self.seen.borrow().sockets_gone_ns.clone()
    }

    /// Looks where the paths lead, for as long as the loop runs.
    pub(super) fn watch_paths(&self) {
        let watcher = self.clone();
        self.term.spawn(async move {
            loop {
                watcher.event_loop.sleep(LOOK_NS).await;
                watcher.look_at_paths().await;
            }
        });
    }

    /// Looks where the paths lead now.
    pub(in crate::service) async fn look_at_paths(&self) {
        let (files, sockets) = (self.held.open_files(), self.sockets.to_vec());
        let ask = move || {
            let moved = files.into_iter().filter(|(_, file)| file.is_at_its_path() == Some(false));
            let moved = moved.map(|(slot, file)| (slot, file.path_now())).collect::<BTreeMap<_, _>>();
            let gone = sockets.iter().filter(|file| !file.is_at_its_path()).map(SocketFile::path);
            (moved, gone.collect::<Vec<_>>())
        };
        let Ok((moved, gone)) = self.event_loop.blocking(ask).await else { return };
        self.tell_gone_sockets(gone);
        let before = std::mem::replace(&mut self.seen.borrow_mut().moved, moved);
        for (slot, now) in self.moved().into_iter().filter(|(slot, _)| !before.contains_key(slot)) {
            let Some(place) = self.held.place(slot) else { continue };
            self.seen.borrow_mut().since_ns.insert(slot, self.event_loop.now_ns());
            let kind = match slot {
                Slot::Member(_) => Kind::MemberMoved,
                Slot::Log(_) => Kind::LogDeviceMoved,
            };
            let message = format!(
                "{}: its path does not lead to the file that is in use{}; put that one back, or the next start misses it",
                self.subject(slot),
                now.map(|now| format!(", which is {} now", Place::from(now).quoted())).unwrap_or_default()
            );
            self.reporter.report(kind, &About::device(&place), message);
        }
    }
}
