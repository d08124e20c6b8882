//! Putting another drive in the place of a mirror's member or log device.
//!
//! 1. What exists is overwritten only where it was named for that, as by [`super::create`]; so it is with what was this
//!    very member and is its own again.
//! 2. The last member, or log device, that holds everything is not given up.
//! 3. The description names the new one once it is founded: a cut before that leaves the old one, which is taken for
//!    stale where it lacks anything.

use std::path::Path;
use std::rc::Rc;

use evenkeel_engine::device::{Device, Extent};
use evenkeel_engine::error::Error;
use evenkeel_engine::logs::{LogStanding, found_log, read_log_head};
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::{Policy, RingOptions};
use serde::{Deserialize, Serialize};

use super::create::{Made, Request, describe, make_member};
use super::described::Described;
use super::description::{Description, LayoutKind, Member};
use super::member::{MemberDrive, Place};
use super::mirror::{Mirror, MirrorDrive};
use super::plan::Plan;
use super::{OpenVolume, RunOptions, VolumeError};
use crate::event_loop::Loop;

/// What is to be replaced, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The member or log device.
    pub old: Place,
    /// What takes its place.
    pub new: Place,
    /// Existing files, devices and exports that may be overwritten.
    pub destroy: Vec<Place>,
    /// Whether a new file takes room only where something is written.
    pub sparse: bool,
    /// What is promised of sectors that a power cut interrupts; `None` asks the device.
    pub atomic_sectors: Option<bool>,
}

/// A place of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slot {
    /// Of a member.
    Member(usize),
    /// Of a log device.
    Log(usize),
}

/// What takes whose place: all that a server has to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Which place.
    pub slot: Slot,
    /// What is there so far: that nobody replaces another.
    pub old: Place,
    /// What comes there.
    pub new: Member,
    /// Whether what it holds may be lost.
    pub may_overwrite: bool,
}

/// A [`Replacement`] whose drive is ready. What was made for it goes again unless it is kept.
#[derive(Debug)]
pub struct Prepared {
    /// What is to be done.
    pub replacement: Replacement,
    made: Made,
}

impl Prepared {
    /// It is done: what was made stays.
    pub fn keep(self) {
        self.made.keep();
    }
}

fn refused<T>(why: String) -> Result<T, VolumeError> {
    Err(VolumeError::Refused(why))
}

impl Wish {
    /// Makes what is to take the place, and looks at it; the volume may be served meanwhile. `progress` is told bytes
    /// done and bytes in all.
    ///
    /// # Errors
    ///
    /// As [`super::create::create`]; where there is nothing to replace.
    pub async fn prepare(
        &self,
        event_loop: &Loop,
        folder: &Path,
        description: &Description,
        progress: impl FnMut(u64, u64),
    ) -> Result<Prepared, VolumeError> {
        let slot = find(folder, description, &self.old)?;
        let current = slot.of(description);
        let (old, mut made) = (current.place.clone(), Made::default());
        match find(folder, description, &self.new).ok() {
            Some(found) if found == slot => {
                let is_named = |named: &Place| *named == self.new || is_same(folder, &current.place, named);
                if !is_same(folder, &current.place, &self.new) && self.new.path().is_some_and(Path::exists) {
                    return refused(format!(
                        "{}: the volume's member has that name, and so has what is there from here; say which by its whole \
                         path",
                        self.new
                    ));
                }
                let may_overwrite = self.destroy.iter().any(is_named);
                let replacement = Replacement { slot, old, new: current.clone(), may_overwrite };
                return Ok(Prepared { replacement, made });
            }
            Some(_) => {
                return refused(format!("{}: it is a member of this volume already; name another", self.new));
            }
            None => {}
        }
        let geometry = match slot {
            Slot::Member(_) => description.member_geometry(),
            Slot::Log(_) => description.log_geometry(),
        };
        let request = Request {
            sparse: self.sparse,
            atomic_sectors: self.atomic_sectors,
            destroy: self.destroy.clone(),
            ..Request::new(folder, description.size_bytes)
        };
        let planned = request.plan_member(self.new.clone(), geometry.size_bytes, "volume")?;
        if !self.sparse {
            Plan { members: vec![planned.clone()], logs: Vec::new() }.check_room()?;
        }
        let drive = make_member(event_loop, &request, &planned, &mut made, progress).await?;
        if let MemberDrive::File(file) = &drive {
            let sector = Extent::new(0, u64::from(file.geometry().sector_bytes));
            let chosen = file.choose_durable_way(sector).await;
            chosen.map_err(|source| engine_error(folder, source.into()))?;
        }
        let new = describe(folder, &planned.place, &drive, self.sparse);
        MirrorDrive::new(Rc::new(drive), geometry)
            .map_err(|why| VolumeError::Refused(format!("{}: {why}", self.new)))?;
        Ok(Prepared { replacement: Replacement { slot, old, new, may_overwrite: true }, made })
    }
}

impl Slot {
    fn of(self, description: &Description) -> &Member {
        match self {
            Self::Member(place) => &description.members[place],
            Self::Log(place) => &description.logs[place],
        }
    }

    fn of_mut(self, description: &mut Description) -> Option<&mut Member> {
        match self {
            Self::Member(place) => description.members.get_mut(place),
            Self::Log(place) => description.logs.get_mut(place),
        }
    }
}

/// Which place has that name: as the description has it, or as it is seen from here.
fn find(folder: &Path, description: &Description, old: &Place) -> Result<Slot, VolumeError> {
    if description.layout != LayoutKind::Mirror {
        return refused(format!(
            "{}: layout single has nothing to copy to another member; copy its file while it is not served, and change \
             volume.toml",
            folder.display()
        ));
    }
    let members = description.members.iter().enumerate();
    let members = members.map(|(place, member)| (Slot::Member(place), &member.place));
    let logs = description.logs.iter().enumerate().map(|(place, log)| (Slot::Log(place), &log.place));
    let all: Vec<(Slot, &Place)> = members.chain(logs).collect();
    let by_name = all.iter().find(|(_, place)| *place == old);
    let found = by_name.or_else(|| all.iter().find(|(_, place)| is_same(folder, place, old)));
    found.map(|(slot, _)| *slot).map_or_else(
        || {
            let names: Vec<String> = all.iter().map(|(_, place)| place.to_string()).collect();
            refused(format!("{old}: no member or log device has that name; there are {}", names.join(", ")))
        },
        Ok,
    )
}

/// Whether a place of the description is one that is named from here.
fn is_same(folder: &Path, described: &Place, named: &Place) -> bool {
    match (described.within(folder), named) {
        (Place::Path(described), Place::Path(named)) => {
            let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
            whole(&described).is_some_and(|described| whole(named) == Some(described))
        }
        (described, named) => described == *named,
    }
}

fn engine_error(folder: &Path, source: Error) -> VolumeError {
    match source {
        Error::Unusable(why) => VolumeError::Refused(format!("{}: {why}", folder.display())),
        source => VolumeError::Engine { folder: folder.to_owned(), source },
    }
}

/// Replaces members of an open mirror. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct Replacer {
    described: Rc<Described>,
    mirror: Mirror,
}

impl OpenVolume {
    /// Who replaces its members, if it has several.
    pub fn replacer(&self) -> Option<Replacer> {
        let mirror = self.mirror()?.clone();
        Some(Replacer { described: Rc::clone(&self.described), mirror })
    }
}

impl Replacer {
    /// Puts another drive in the place of a member, while the volume is used; its rebuild begins.
    ///
    /// # Errors
    ///
    /// Where it cannot be replaced now, or the new one cannot be had; then the old one stays in its place.
    pub async fn replace(&self, replacement: &Replacement) -> Result<(), VolumeError> {
        let folder = self.described.folder();
        let place = match self.check(replacement)? {
            Slot::Member(place) => place,
            Slot::Log(_) => {
                return refused(format!(
                    "{}: {} is a log device, which is replaced while the volume is not served: stop its server first",
                    folder.display(),
                    replacement.old
                ));
            }
        };
        let (new, id) = (&replacement.new, self.described.description().id.0);
        let drive = self.mirror.open_member(folder, place, new, &replacement.old).await?;
        if !replacement.may_overwrite && !drive.is_member(id, place, self.mirror.ring.members().len()).await {
            return refused(format!(
                "{}: what is there is not this member any more; to overwrite it: --destroy {}",
                new.place, new.place
            ));
        }
        let replaced = self.mirror.replace_member(place, &new.place, drive).await;
        replaced.map_err(|source| engine_error(folder, source))?;
        self.describe(replacement)
    }

    /// That this can be done as far as the description tells.
    fn check(&self, replacement: &Replacement) -> Result<Slot, VolumeError> {
        let (slot, mut description) = (replacement.slot, self.described.description());
        match slot.of_mut(&mut description) {
            Some(current) if current.place == replacement.old => Ok(slot),
            _ => refused(format!(
                "{}: {} was replaced meanwhile; look at `evenkeel status` and try again",
                self.described.folder().display(),
                replacement.old
            )),
        }
    }

    fn describe(&self, replacement: &Replacement) -> Result<(), VolumeError> {
        self.described.change(|description| {
            if let Some(member) = replacement.slot.of_mut(description) {
                *member = replacement.new.clone();
            }
        })
    }
}

/// The same for a volume that nobody serves: it is opened, and closed again. A member is rebuilt, and a log device gets
/// what it lacks, when the volume is opened next.
///
/// # Errors
///
/// As [`OpenVolume::open`] and [`Replacer::replace`].
pub async fn replace_unserved(
    event_loop: &Loop,
    folder: &Path,
    replacement: &Replacement,
) -> Result<(), VolumeError> {
    // Without turns: nobody reads.
    // An empty log is opened without a member that is given up here by its name.
    let given_up = match replacement.slot {
        Slot::Member(place) => 1 << place,
        Slot::Log(_) => 0,
    };
    let ring = RingOptions { policy: Policy::Mixed, given_up, ..RingOptions::default() };
    let options = RunOptions { volume: OpenOptions::default(), ring };
    let open = OpenVolume::open(event_loop, folder, options).await?;
    let Some(replacer) = open.replacer() else {
        return refused(format!("{}: it is no mirror", folder.display()));
    };
    let done = match replacement.slot {
        Slot::Member(_) => replacer.replace(replacement).await,
        Slot::Log(place) => replacer.check(replacement).and_then(|_| replacer.check_log(place)),
    };
    let closed = open.close().await;
    done.and(closed)?;
    if let Slot::Log(place) = replacement.slot {
        let described = Rc::clone(&replacer.described);
        // The devices are let go of: the old one may be the new one.
        drop(replacer);
        put_log(event_loop, &described, place, replacement).await?;
    }
    Ok(())
}

impl Replacer {
    /// That another log device holds everything.
    fn check_log(&self, place: usize) -> Result<(), VolumeError> {
        let standings = self.mirror.logs.standings();
        let mut others = standings.iter().enumerate().filter(|(other, _)| *other != place);
        match others.any(|(_, (standing, _))| *standing == LogStanding::InSync) {
            true => Ok(()),
            false => refused(format!(
                "{}: no other log device holds everything: this one cannot be given up",
                self.described.folder().display()
            )),
        }
    }
}

async fn put_log(
    event_loop: &Loop,
    described: &Described,
    place: usize,
    replacement: &Replacement,
) -> Result<(), VolumeError> {
    let (folder, new, description) = (described.folder(), &replacement.new, described.description());
    let drive = MemberDrive::open(event_loop, &new.place.within(folder), new.options()).await?;
    let (id, places) = (description.id.0, description.logs.len());
    let is_own = |head: evenkeel_engine::format::log_head::LogHead| {
        head.volume == id && usize::from(head.place) == place && usize::from(head.places) == places
    };
    if !replacement.may_overwrite && !read_log_head(&drive).await.is_some_and(is_own) {
        return refused(format!(
            "{}: what is there is not this log device any more; to overwrite it: --destroy {}",
            new.place, new.place
        ));
    }
    let drive = MirrorDrive::new(Rc::new(drive), description.log_geometry())
        .map_err(|why| VolumeError::Refused(format!("{}: {why}", new.place)))?;
    let founded = found_log(&drive, id, place as u16, places as u16).await;
    founded.map_err(|source| engine_error(folder, source.into()))?;
    described.change(|description| description.logs[place] = new.clone())
}
