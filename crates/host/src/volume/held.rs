//! The drives of an open volume, to be looked at while it is used.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::LocalVolume;
use super::member::{MemberDrive, Place, cut_short};
use super::mirror::Mirror;
use super::slot::Slot;
use crate::drive::OpenFile;

/// What a volume may lose with its drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Every copy of its pages, and so all of it.
    Pages,
    /// Every copy of its log. After a stop in order all pages are home.
    Log,
}

/// Its drives, each by its slot.
pub(crate) enum Held {
    /// The home member, and a log member or none.
    Single(Vec<(Place, Rc<MemberDrive>)>),
    /// Those of a mirror, whoever is there at the moment.
    Mirror(Box<Mirror>),
}

impl Held {
    /// Those that are in use, and whose files were removed: what they hold goes once they are closed.
    pub(crate) fn removed(&self) -> BTreeSet<Slot> {
        match self {
            Self::Single(drives) => {
                let removed = drives.iter().enumerate().filter(|(_, (_, drive))| drive.is_removed());
                removed.map(|(number, _)| Self::slot(number)).collect()
            }
            Self::Mirror(mirror) => mirror.removed(),
        }
    }

    /// Tells the volume of those whose files were made shorter since they were opened: what they held is gone.
    pub(crate) fn fail_cut_short(&self, volume: &LocalVolume) {
        match self {
            Self::Single(drives) => {
                let cut = drives.iter().find(|(_, drive)| drive.cut_short().is_some());
                if let Some((place, _)) = cut.filter(|_| volume.failure().is_none()) {
                    volume.fail(&cut_short(place));
                }
            }
            Self::Mirror(mirror) => mirror.fail_cut_short(),
        }
    }

    /// What is open of each that takes part and is on this machine.
    pub(crate) fn open_files(&self) -> Vec<(Slot, OpenFile)> {
        match self {
            Self::Single(drives) => {
                let files = drives.iter().enumerate();
                files
                    .filter_map(|(number, (_, drive))| Some((Self::slot(number), drive.open_file()?)))
                    .collect()
            }
            Self::Mirror(mirror) => mirror.open_files(),
        }
    }

    /// What of the volume is lost with these drives.
    pub(crate) fn loss_of(&self, lost: &BTreeSet<Slot>) -> Option<Loss> {
        let (members, logs) = match self {
            Self::Single(drives) => {
                (0..drives.len()).map(Self::slot).partition(|slot| matches!(slot, Slot::Member(_)))
            }
            Self::Mirror(mirror) => mirror.counting(),
        };
        let needed = match self {
            Self::Single(_) => 1,
            Self::Mirror(mirror) => mirror.members_needed(),
        };
        let are_lost = |slots: &[Slot], needed: usize| {
            slots.len() >= needed && slots.iter().filter(|slot| !lost.contains(slot)).count() < needed
        };
        match (are_lost(&members, needed), are_lost(&logs, 1)) {
            (true, _) => Some(Loss::Pages),
            (false, true) => Some(Loss::Log),
            (false, false) => None,
        }
    }

    /// Where one is.
    pub(crate) fn place(&self, slot: Slot) -> Option<Place> {
        match self {
            Self::Single(drives) => {
                let found = drives.iter().enumerate().find(|(number, _)| Self::slot(*number) == slot);
                found.map(|(_, (place, _))| place.clone())
            }
            Self::Mirror(mirror) => match slot {
                Slot::Member(number) => mirror.members().into_iter().nth(number).map(|it| it.place),
                Slot::Log(number) => mirror.log_devices().into_iter().nth(number).map(|it| it.place),
            },
        }
    }

    /// A volume of one member has its log, if that is elsewhere, behind it.
    fn slot(number: usize) -> Slot {
        match number {
            0 => Slot::Member(0),
            log => Slot::Log(log - 1),
        }
    }
}
