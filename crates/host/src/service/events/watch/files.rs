//! Files of members and log devices: whether they still have a name, and whether it is the one by which they are found.
//!
//! 1. A file that was removed is known at once, wherever its file system is: its descriptor tells.
//! 2. Where a path leads may be a question that a file system does not answer: it is asked on another thread, every
//!    [`LOOK_NS`], and nobody waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use evenkeel_engine::env::Env;

use super::{LOOK_NS, Watcher};
use crate::remedy::Remedy;
use crate::service::events::{About, Kind};
use crate::volume::Loss;
use crate::volume::member::Place;
use crate::volume::replace::Slot;

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
        let removed = self.removed();
        let loss = self.held.loss_of(&removed)?;
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
            let message = match is_loss {
                true => format!("{message}; {}", self.rescue(slot)),
                false => self.reporter.advised(message, &Remedy::ReplaceDevice),
            };
            self.reporter.report(kind, &About::device(&place), message);
        }
    }

    /// How to save what a removed file holds, for as long as the server has it open.
    fn rescue(&self, slot: Slot) -> String {
        let copy = format!("before that, copy the disk while no client writes: `{}`", self.copy_command);
        let file = self.held.open_files().into_iter().find(|(open, _)| *open == slot).map(|(_, file)| file);
        // Whatever is there by now is not overwritten.
        let Some(file) = file.filter(|file| file.path().symlink_metadata().is_err()) else { return copy };
        let (process, descriptor) = (std::process::id(), file.descriptor());
        let path = std::path::absolute(file.path()).unwrap_or_else(|_| file.path().to_owned());
        format!(
            "{copy}; or put the file back: `kill -STOP {process}`, `cp /proc/{process}/fd/{descriptor} {}`, \
             `kill -KILL {process}`, and serve the volume anew",
            Place::from(path).quoted()
        )
    }

    /// Looks where the paths lead, for as long as the loop runs.
    pub(super) fn watch_paths(&self) {
        let watcher = self.clone();
        self.event_loop.spawn(async move {
            loop {
                watcher.event_loop.sleep(LOOK_NS).await;
                watcher.look_at_paths().await;
            }
        });
    }

    /// Looks where the paths lead now.
    pub(in crate::service) async fn look_at_paths(&self) {
        let files = self.held.open_files();
        let ask = move || {
            let moved = files.into_iter().filter(|(_, file)| file.is_at_its_path() == Some(false));
            moved.map(|(slot, file)| (slot, file.path_now())).collect::<BTreeMap<_, _>>()
        };
        let Ok(moved) = self.event_loop.blocking(ask).await else { return };
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
