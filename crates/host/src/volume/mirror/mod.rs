//! What lies below a mirror: its members in a ring, and its log devices.
//!
//! 1. What is not there, cannot be reached in time, or is too small keeps nobody from opening the volume: the engine
//!    knows whether the others hold everything. What somebody else uses, or this user may not open, or what can hold no
//!    member (a folder, a socket) is a mistake and no loss: then nothing is opened, and nothing is left behind the others for it.
//! 2. A member or log device fails as soon as its connection breaks, and not at its next request.

mod drive;
mod log_replacement;
mod rejoin;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::pending;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_engine::device::{Device, Drive, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::join;
use evenkeel_engine::layout::JournalStore;
use evenkeel_engine::layout::mirror::head_copies::{HeadFault, HeadsOf, WrongHead};
use evenkeel_engine::layout::mirror::log_devices::LogDeviceState;
use evenkeel_engine::layout::mirror::{LogCopyStatus, MirrorJournal, MirrorPages};
use evenkeel_engine::ring::{MemberState, MemberStatus, RingOptions};
use evenkeel_engine::volume::Identity;

use super::VolumeError;
use super::description::{Description, FILE_NAME, Member};
use super::fencing::{Opening, Purpose};
use super::label::labels;
use super::member::{MemberDrive, Place, Watch, open_patiently};
use super::slot::Slot;
use crate::drive::{DriveOptions, OpenFile, odd_kind_in};
use crate::event_loop::{Loop, race};
use crate::path_error::PathError;
use crate::size_text::exact_size;
use crate::wait::Turn;

pub use drive::{MirrorDrive, Unfit};
pub(crate) use rejoin::NotTaken;

/// How long whoever looked at a drive just now may still hold it: the kernel closes what was used a little later. Where nothing
/// was done to it yet, it is not waited for longer.
pub(super) const LEAVING: Duration = Duration::from_millis(250);

/// A member or log device that there should be, and why it takes no part, as far as this side knows.
#[derive(Debug, Clone)]
struct Entry {
    place: Place,
    why: Option<String>,
    /// Counts the drives that were put there.
    generation: u64,
    /// That which is there, if any.
    drive: Option<Rc<MemberDrive>>,
}

/// Entries of one kind, by their places.
type Roll = Rc<RefCell<Vec<Entry>>>;

/// The ring of a mirror's members.
pub type MemberRing = MirrorPages<Loop, MirrorDrive>;

/// The journal of a mirror: on log devices of its own, or on the members.
pub type LogDevices = MirrorJournal<Loop, MirrorDrive, MirrorDrive>;

/// What lies below an open mirror. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct Mirror {
    event_loop: Loop,
    opening: Opening,
    /// The members.
    pub ring: MemberRing,
    /// The log devices.
    pub logs: LogDevices,
    options: RingOptions,
    geometry: Geometry,
    log_geometry: Geometry,
    members: Roll,
    log_entries: Roll,
    /// Where that is which is to take the place of a log device, while it is copied to.
    new_log: Rc<RefCell<Option<Place>>>,
    watch: Rc<Watch>,
    /// Of whoever replaces a member: the next one finds what the one before it came to.
    pub(super) replacing: Rc<Turn>,
}

/// One member of an open mirror.
#[derive(Debug, Clone)]
pub struct MirrorMember {
    /// Where it is.
    pub place: Place,
    /// What it does and did.
    pub status: MemberStatus,
    /// Why it takes no part, if so.
    pub why: Option<String>,
}

/// One log device of an open mirror.
#[derive(Debug, Clone)]
pub struct MirrorLog {
    /// Where it is.
    pub place: Place,
    /// What it is good for.
    pub state: LogDeviceState,
    /// Why it takes no part, if so.
    pub why: Option<String>,
    /// What is to take its place, while it is copied to, and how far that is.
    pub copied_to: Option<(Place, LogCopyStatus)>,
}

/// A copy of a head that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedHead {
    /// The member or log device that it is on.
    pub place: Place,
    /// Which copy.
    pub copy: usize,
    /// What is wrong with it.
    pub fault: HeadFault,
}

impl Mirror {
    /// Opens what is there of the members and log devices of the volume in `folder`.
    ///
    /// # Errors
    ///
    /// Where one is in use or may not be opened; where too little is there.
    pub(super) async fn open(
        event_loop: &Loop,
        folder: &Path,
        description: &Description,
        options: RingOptions,
        opening: Opening,
    ) -> Result<Self, VolumeError> {
        let options = description.ring_options(options);
        let limit_ns = options.answer_max_ns;
        let all = async |members: &[Member], geometry, has_log, purpose: &dyn Fn(usize, bool) -> Purpose| {
            open_all(event_loop, folder, members, geometry, has_log, limit_ns, purpose).await
        };
        let to_member = |place, unfenced| opening.member(place, unfenced);
        let to_log = |place, unfenced| opening.log(place, unfenced);
        let (geometry, log_geometry) = (description.member_geometry(), description.log_geometry());
        let (drives, members, geometry) =
            all(&description.members, geometry, description.logs.is_empty(), &to_member).await?;
        let numbers = drives.iter().flatten().filter_map(|drive| drive.drive().opening_number());
        let opening = opening.known_by(numbers.max());
        let (log_drives, log_entries, log_geometry) =
            all(&description.logs, log_geometry, true, &to_log).await?;
        let unusable = |error: Error| {
            let missing = format!("{}{}", missing(&members), missing(&log_entries));
            VolumeError::Refused(format!("{}: {error}{missing}", folder.display()))
        };
        let (needed, found) = (description.layout.members_needed(), drives.iter().flatten().count());
        if needed > 1 && found < needed {
            return Err(VolumeError::Incomplete(format!(
                "{}: {found} of its members are there, and {needed} are needed: bring back others{}",
                folder.display(),
                missing(&members)
            )));
        }
        let ring = MemberRing::new(event_loop.clone(), drives, options).map_err(unusable)?;
        let logs = match LogDevices::open(event_loop.clone(), log_drives, ring.clone(), limit_ns).await {
            Ok(logs) => logs,
            Err(error) => {
                let (roll, slot): (_, fn(usize) -> Slot) = match description.logs.is_empty() {
                    true => (&members, Slot::Member),
                    false => (&log_entries, Slot::Log),
                };
                let strangers = strangers(event_loop, description, roll, slot, limit_ns).await;
                let missing = || format!("{}{}", missing(&members), missing(&log_entries));
                let lost = || VolumeError::Incomplete(format!("{}: {error}{}", folder.display(), missing()));
                return Err(misplaced(folder, roll, slot, &strangers).unwrap_or_else(lost));
            }
        };
        logs.log_stripes_of(&ring, description.stripe_log());
        let watch = Rc::new(Watch::default());
        let event_loop = event_loop.clone();
        let replacing = Rc::new(Turn::default());
        let mirror = Self {
            event_loop,
            opening,
            ring,
            logs,
            options,
            geometry,
            log_geometry,
            members,
            log_entries,
            new_log: Rc::default(),
            watch,
            replacing,
        };
        (0..description.members.len()).for_each(|place| mirror.watch_member(place));
        (0..description.logs.len()).for_each(|place| mirror.watch_log(place));
        Ok(mirror)
    }

    /// How its members are run.
    pub fn options(&self) -> &RingOptions {
        &self.options
    }

    /// Its members now.
    pub fn members(&self) -> Vec<MirrorMember> {
        let each = |(entry, status): (&Entry, MemberStatus)| MirrorMember {
            place: entry.place.clone(),
            why: match status.state {
                MemberState::InSync | MemberState::Rebuilding { .. } => None,
                MemberState::Stale => Some("it lacks writes and waits to be rebuilt".to_owned()),
                MemberState::Foreign => Some("what is there is not this member".to_owned()),
                MemberState::Out => entry.why.clone().or_else(|| status.failure.map(in_words)),
            },
            status,
        };
        self.members.borrow().iter().zip(self.ring.members()).map(each).collect()
    }

    /// Its log devices now.
    pub fn log_devices(&self) -> Vec<MirrorLog> {
        type At<'a> = (usize, (&'a Entry, (LogDeviceState, Option<DeviceError>)));
        let copying = self.logs.copying();
        let each = |(place, (entry, (state, failure))): At<'_>| MirrorLog {
            place: entry.place.clone(),
            state,
            why: match state {
                LogDeviceState::InSync => None,
                LogDeviceState::Stale => Some("it lacks records".to_owned()),
                LogDeviceState::Foreign => Some("what is there is not this log".to_owned()),
                // It was left out to be overwritten.
                LogDeviceState::Out if failure.is_some_and(|error| is_no_loss(&error)) => {
                    Some("it takes its own place again, and has nothing before".to_owned())
                }
                LogDeviceState::Out => entry.why.clone().or_else(|| failure.map(in_words)),
            },
            copied_to: copying
                .filter(|copy| copy.place == place)
                .and_then(|copy| Some((self.new_log.borrow().clone()?, copy))),
        };
        self.log_entries.borrow().iter().zip(self.logs.states()).enumerate().map(each).collect()
    }

    /// The copies of heads that are wrong, of the members and log devices that answer.
    pub async fn damaged_heads(&self, of: HeadsOf) -> Vec<DamagedHead> {
        let members = self.ring.wrong_heads(of).await;
        let logs = self.logs.wrong_heads(of).await;
        let named = |roll: &Roll, found: Vec<WrongHead>| -> Vec<DamagedHead> {
            let entries = roll.borrow();
            let each = found.into_iter().map(|WrongHead { place, copy, fault }| DamagedHead {
                place: entries[place].place.clone(),
                copy,
                fault,
            });
            each.collect()
        };
        [named(&self.members, members), named(&self.log_entries, logs)].concat()
    }

    /// Members and log devices that are in use, and whose files were removed.
    pub(super) fn removed(&self) -> BTreeSet<Slot> {
        let in_use = self.in_use().into_iter();
        in_use.filter(|(_, drive)| drive.is_removed()).map(|(slot, _)| slot).collect()
    }

    /// Leaves those out whose files were made shorter since they were opened.
    pub(super) fn fail_cut_short(&self) {
        for (slot, error) in
            self.in_use().into_iter().filter_map(|(slot, drive)| Some((slot, drive.cut_short()?)))
        {
            match slot {
                Slot::Member(place) => self.ring.fail(place, error),
                Slot::Log(place) => self.logs.fail(place, error),
            }
        }
    }

    /// What is open of those that are in use and on this machine.
    pub(super) fn open_files(&self) -> Vec<(Slot, OpenFile)> {
        let in_use = self.in_use().into_iter();
        in_use.filter_map(|(slot, drive)| Some((slot, drive.open_file()?))).collect()
    }

    /// Members and log devices that take part, with what is there.
    fn in_use(&self) -> Vec<(Slot, Rc<MemberDrive>)> {
        let (members, logs) = (self.members.borrow(), self.log_entries.borrow());
        let takes_part =
            |it: &MemberStatus| matches!(it.state, MemberState::InSync | MemberState::Rebuilding { .. });
        let members = members.iter().zip(self.ring.members()).enumerate();
        let members = members.filter(|(_, (_, status))| takes_part(status));
        let members = members.map(|(place, (entry, _))| (Slot::Member(place), entry));
        let logs = logs.iter().zip(self.logs.states()).enumerate();
        let logs = logs.filter(|(_, (_, (state, _)))| *state == LogDeviceState::InSync);
        let logs = logs.map(|(place, (entry, _))| (Slot::Log(place), entry));
        members.chain(logs).filter_map(|(slot, entry)| Some((slot, entry.drive.clone()?))).collect()
    }

    /// Members that have to remain.
    pub(super) fn members_needed(&self) -> usize {
        self.options.stripes.map_or(1, |stripes| stripes.data())
    }

    /// Members that hold everything, and log devices that do.
    pub(super) fn counting(&self) -> (Vec<Slot>, Vec<Slot>) {
        let members = self.ring.members().into_iter().enumerate();
        let members = members.filter(|(_, it)| it.state == MemberState::InSync);
        let logs = self.logs.states().into_iter().enumerate();
        let logs = logs.filter(|(_, (state, _))| *state == LogDeviceState::InSync);
        (
            members.map(|(place, _)| Slot::Member(place)).collect(),
            logs.map(|(place, _)| Slot::Log(place)).collect(),
        )
    }

    /// How many more of its members, and of its log devices, may be lost now, together with a cut. Of a log on the members:
    /// none, since a record may be on one member alone.
    pub fn losses_survived(&self) -> u32 {
        if self.ring.holds_log() {
            return 0;
        }
        // What is in a file without a name is lost with the server.
        let removed = self.removed();
        let count = |slots: Vec<Slot>| slots.iter().filter(|slot| !removed.contains(slot)).count();
        let (members, logs) = self.counting();
        let members = count(members).saturating_sub(self.members_needed());
        u32::try_from(members.min(count(logs).saturating_sub(1))).unwrap_or(u32::MAX)
    }

    /// What takes no part and why, for an error that came of it; empty where all do.
    pub(super) fn missing(&self) -> String {
        format!("{}{}", missing(&self.members), missing(&self.log_entries))
    }

    /// Why it cannot be opened, where no member counts and what is there is not where it belongs.
    pub(super) async fn misplaced(&self, folder: &Path, description: &Description) -> Option<VolumeError> {
        if self.ring.members().iter().any(|member| member.state == MemberState::InSync) {
            return None;
        }
        let limit_ns = self.options.answer_max_ns;
        let strangers = strangers(&self.event_loop, description, &self.members, Slot::Member, limit_ns).await;
        misplaced(folder, &self.members, Slot::Member, &strangers)
    }

    /// What is under way beside the volume's own requests comes to its end.
    pub(super) fn stop(&self) {
        for (place, member) in self.ring.members().iter().enumerate() {
            if matches!(member.state, MemberState::Rebuilding { .. }) {
                self.ring.fail(place, DeviceError { doing: STOPPED, errno: shutdown() });
            }
        }
        self.logs.stop_copying(DeviceError { doing: COPY_STOPPED, errno: shutdown() });
    }

    /// Opens what is to be the member or log device at `slot`, and waits some seconds for who has it: the volume is served
    /// meanwhile, and nothing else is replaced or taken back.
    pub(super) async fn open_new(
        &self,
        folder: &Path,
        slot: Slot,
        new: &Member,
        old: &Place,
    ) -> Result<MirrorDrive, VolumeError> {
        let refused = |why: String| VolumeError::Refused(format!("{}: {why}", new.place));
        let (held, geometry, purpose) = match slot {
            Slot::Member(place) => {
                let held = self.members.borrow()[place].drive.clone();
                (held, self.geometry, self.opening.member(place, new.unfenced))
            }
            Slot::Log(place) => {
                let held = self.log_entries.borrow()[place].drive.clone();
                (held, self.log_geometry, self.opening.log(place, new.unfenced))
            }
        };
        // A file that was made anew is another one under the same name.
        if let Some(drive) = held.filter(|drive| new.place == *old && drive.failure().is_none())
            && drive.is_still_at_its_place().await
        {
            if let MemberDrive::File(file) = &*drive {
                let restored = file.restore_length().await;
                restored.map_err(|error| refused(format!("cannot make it as large as it was: {error}")))?;
            }
            return self.taken_for(slot, drive, geometry, new).await;
        }
        let limit = (self.options.answer_max_ns, Patience::Serving);
        match open_one(&self.event_loop, folder, new, new.options(), limit, purpose).await {
            Opened::There(drive) => self.taken_for(slot, drive, geometry, new).await,
            Opened::Missing(why) => Err(refused(why)),
            Opened::Mistake(error) => Err(error.into()),
        }
    }

    /// `drive` as one of its like at `slot`; as large as the members are by now, for the volume may have grown since it was opened.
    async fn taken_for(
        &self,
        slot: Slot,
        drive: Rc<MemberDrive>,
        geometry: Geometry,
        new: &Member,
    ) -> Result<MirrorDrive, VolumeError> {
        let taken = MirrorDrive::new(drive, geometry).map_err(|unfit| unfit.at(&new.place))?;
        if let Slot::Member(_) = slot {
            let large_enough = taken.enlarge(self.ring.member_device_bytes()).await;
            large_enough.map_err(|error| VolumeError::Refused(format!("{}: {error}", new.place)))?;
        }
        Ok(taken)
    }

    /// That what is at `new` can be opened from here, though it may have another size yet.
    pub(super) async fn try_open(&self, folder: &Path, new: &Member) -> Result<(), VolumeError> {
        if let Place::Path(path) = new.place.within(folder) {
            let options = DriveOptions { busy_timeout: LEAVING, ..new.options() };
            open_patiently(&self.event_loop, &path, options).await?;
        }
        Ok(())
    }

    /// That a member can be given up, as another one holds everything.
    pub(super) fn check_others(&self, place: usize) -> Result<(), Error> {
        let hold_all = self.ring.members().into_iter().map(|it| it.state == MemberState::InSync);
        check_others(place, "member", self.members_needed(), hold_all)
    }

    /// The same of a log device.
    pub(super) fn check_other_logs(&self, place: usize) -> Result<(), Error> {
        let states = self.logs.states();
        check_others(place, "log device", 1, states.iter().map(|(it, _)| *it == LogDeviceState::InSync))
    }

    /// Both, of a mirror of which nothing was written yet.
    pub(super) async fn check_others_of(&self, slot: Slot, identity: &Identity) -> Result<(), Error> {
        match slot {
            Slot::Member(place) => {
                let members = self.ring.predict_states(identity.volume, identity.home_state).await;
                if !members.contains(&MemberState::InSync) {
                    return Ok(()); // the volume is not opened then, and says what is missing
                }
                let hold_all = members.iter().map(|it| *it == MemberState::InSync);
                check_others(place, "member", self.members_needed(), hold_all)
            }
            Slot::Log(place) => {
                // One that lacks records gets them as the volume is opened.
                let may_hold =
                    |it: LogDeviceState| matches!(it, LogDeviceState::InSync | LogDeviceState::Stale);
                let states = self.logs.states();
                check_others(place, "log device", 1, states.iter().map(|(it, _)| may_hold(*it)))
            }
        }
    }

    /// What was opened at a place.
    ///
    /// # Errors
    ///
    /// Why nothing was.
    pub(super) fn held(&self, slot: Slot) -> Result<Rc<MemberDrive>, VolumeError> {
        let entry = match slot {
            Slot::Member(place) => self.members.borrow()[place].clone(),
            Slot::Log(place) => self.log_entries.borrow()[place].clone(),
        };
        let why = entry.why.unwrap_or_default();
        entry.drive.ok_or_else(|| VolumeError::Refused(format!("{}: {why}", entry.place)))
    }

    /// Puts `drive`, which is at `new`, in the place of a member; its rebuild begins.
    ///
    /// # Errors
    ///
    /// That of [`MemberRing::replace`], and where what the old one alone has cannot be taken home. Then the old one has its
    /// place, though it may take no part: it can be taken back, or replaced again.
    pub(super) async fn replace_member(
        &self,
        place: usize,
        new: &Place,
        drive: MirrorDrive,
    ) -> Result<(), Error> {
        self.check_others(place)?;
        self.ring.check_device(&drive)?;
        let old = self.members.borrow()[place].place.clone();
        let replaced = self.put_in_place(place, new, drive).await;
        match &replaced {
            Ok(()) => self.watch_member(place),
            Err(error) => {
                let mut entries = self.members.borrow_mut();
                let entry = &mut entries[place];
                let (generation, why) = (entry.generation + 1, Some(error.to_string()));
                *entry = Entry { place: old, why, generation, drive: None };
            }
        }
        replaced
    }

    /// Waits until nothing is under way any more on a drive that takes its own place again: what landed late would land on what is
    /// written from now on.
    async fn until_idle(&self, drive: &MemberDrive) -> Result<(), Error> {
        match self.comes_soon(|| !drive.has_transfers()).await {
            true => Ok(()),
            false => Err(Error::Unusable(
                "requests from before are still under way there: try again once it answers".to_owned(),
            )),
        }
    }

    /// Whether something comes to be so within the time that a member that is replaced has for it.
    async fn comes_soon(&self, is_so: impl Fn() -> bool) -> bool {
        let began_ns = self.event_loop.now_ns();
        while !is_so() {
            if self.event_loop.now_ns() - began_ns > TAKEN_HOME_MAX_NS {
                return false;
            }
            self.event_loop.sleep(TAKEN_HOME_LOOK_NS).await;
        }
        true
    }

    async fn put_in_place(&self, place: usize, new: &Place, drive: MirrorDrive) -> Result<(), Error> {
        // From here on the old one is not heard of any more.
        {
            let mut entries = self.members.borrow_mut();
            let entry = &mut entries[place];
            let generation = entry.generation + 1;
            let drive = Some(Rc::clone(drive.drive()));
            *entry = Entry { place: new.clone(), why: None, generation, drive };
        }
        self.ring.fail(place, DeviceError { doing: REPLACED, errno: shutdown() });
        self.until_idle(drive.drive()).await?;
        // What it alone had of the log goes home first: what it holds may be overwritten now.
        if !self.comes_soon(|| !self.logs.wants_checkpoint()).await {
            return Err(Error::Unusable(
                "writes that it alone may hold cannot be taken home: try again when the others answer"
                    .to_owned(),
            ));
        }
        self.ring.replace(place, drive).await
    }

    fn watch_member(&self, place: usize) {
        let (ring, roll) = (self.ring.clone(), &self.members);
        watch_over(&self.watch, &self.event_loop, roll, place, move |error| ring.fail(place, error));
    }

    fn watch_log(&self, place: usize) {
        let (logs, roll) = (self.logs.clone(), &self.log_entries);
        watch_over(&self.watch, &self.event_loop, roll, place, move |error| logs.fail(place, error));
    }
}

/// What to do where one cannot be given up.
const NEXT: &str = "bring one back that is missing, or put another in its place first, and wait until the status shows it in sync";

fn check_others(
    place: usize,
    kind: &str,
    needed: usize,
    hold_all: impl Iterator<Item = bool>,
) -> Result<(), Error> {
    let others = hold_all.enumerate().filter(|&(other, holds_all)| other != place && holds_all).count();
    match (others, needed) {
        _ if others >= needed => Ok(()),
        (0, _) => Err(Error::Unusable(format!(
            "no other {kind} holds everything: this one cannot be given up before another does; {NEXT}"
        ))),
        _ => Err(Error::Unusable(format!(
            "{others} others hold everything, and {needed} are needed: this {kind} cannot be given up before more do; {NEXT}"
        ))),
    }
}

/// How long a member that is replaced keeps its drive, for what the log on it has.
const TAKEN_HOME_MAX_NS: u64 = 60_000_000_000;

/// Between two looks at that.
const TAKEN_HOME_LOOK_NS: u64 = 10_000_000;

/// Why a member fails that another one replaces.
const REPLACED: &str = "be replaced";

/// Why a member fails that is being rebuilt when the volume is closed.
const STOPPED: &str = "rebuild a member";

/// Why a log device is copied to no more when the volume is closed.
const COPY_STOPPED: &str = "copy to a log device";

/// Whether its own volume failed a member with this error, though the drive works. A server of one may say of itself that it
/// shuts down, too.
pub(crate) fn is_no_loss(error: &DeviceError) -> bool {
    error.errno == shutdown() && [REPLACED, STOPPED, COPY_STOPPED].contains(&error.doing)
}

/// Cannot send after shutdown, as in errno(3).
fn shutdown() -> i32 {
    rustix::io::Errno::SHUTDOWN.raw_os_error()
}

fn watch_over(
    watch: &Watch,
    event_loop: &Loop,
    roll: &Roll,
    place: usize,
    fail: impl Fn(DeviceError) + 'static,
) {
    let Entry { generation, drive, .. } = roll.borrow()[place].clone();
    let (Some(drive), roll) = (drive, Rc::clone(roll)) else { return };
    watch.over(event_loop, &drive, move |error| {
        let mut entries = roll.borrow_mut();
        if entries[place].generation != generation {
            return; // another is there by now
        }
        entries[place].why = Some(error.to_string());
        drop(entries);
        fail(DeviceError { doing: "keep its connection", errno: error.errno() });
    });
}

/// What is said of a drive whose file was made shorter than it.
const CUT_SHORT: &str =
    "its file was made shorter while it was in use, and what it held behind its end is gone";

/// What an error of a member says, without advice for a volume that has only one.
fn in_words(error: DeviceError) -> String {
    match error.errno {
        libc::ENODATA => format!("{}: {CUT_SHORT}", error.doing),
        errno => format!("{}: {}", error.doing, io::Error::from_raw_os_error(errno)),
    }
}

fn missing(roll: &Roll) -> String {
    let told = |entry: &Entry| entry.why.as_ref().map(|why| format!("; {}: {why}", entry.place));
    roll.borrow().iter().filter_map(told).collect()
}

/// Of the members or log devices that are there, what is at another's place, or is none of this volume, in words.
async fn strangers(
    event_loop: &Loop,
    description: &Description,
    roll: &Roll,
    slot: fn(usize) -> Slot,
    limit_ns: u64,
) -> Vec<String> {
    let (mut told, entries) = (Vec::new(), roll.borrow().clone());
    for (place, Entry { place: at, drive, .. }) in entries.into_iter().enumerate() {
        let Some(drive) = drive else { continue };
        let silence = async {
            event_loop.sleep(limit_ns).await;
            None
        };
        let Some(found) = race(async { Some(labels(&*drive).await) }, silence).await else { continue };
        let mut ours = found.iter().filter(|label| label.volume == description.id.0);
        match ours.next().map(|label| label.slot) {
            Some(found) if found == slot(place) => {}
            Some(found) => told.push(format!("{at} is {} of this volume", found.name(description))),
            None => told.push(format!("{at} is no {} of this volume", slot(place).kind())),
        }
    }
    told
}

/// What to do about `strangers`, where they are what keeps a volume from being opened.
fn misplaced(
    folder: &Path,
    roll: &Roll,
    slot: fn(usize) -> Slot,
    strangers: &[String],
) -> Option<VolumeError> {
    (!strangers.is_empty()).then(|| {
        VolumeError::Refused(format!(
            "{}: no {} that counts is in its place: {}{}; bring back there what {FILE_NAME} names",
            folder.display(),
            slot(0).kind(),
            strangers.join("; "),
            missing(roll)
        ))
    })
}

/// Whether that is a mistake of whoever opens it, and no loss.
pub(super) fn is_mistake(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ResourceBusy, WouldBlock};
    matches!(error.kind(), WouldBlock | ResourceBusy | PermissionDenied)
}

/// What was opened of drives that are to be of one geometry, and of which: pages may lie in larger sectors than they were
/// described with, a log may not (`has_log`), and one that promises nothing of its sectors is none too bad for either.
async fn open_all(
    event_loop: &Loop,
    folder: &Path,
    members: &[Member],
    geometry: Geometry,
    has_log: bool,
    limit_ns: u64,
    purpose: &dyn Fn(usize, bool) -> Purpose,
) -> Result<(Vec<Option<MirrorDrive>>, Roll, Geometry), VolumeError> {
    let opened: RefCell<Vec<Option<Opened>>> = RefCell::new(members.iter().map(|_| None).collect());
    join::all(members.iter().enumerate().map(async |(place, member)| {
        let purpose = purpose(place, member.unfenced);
        let drive =
            open_one(event_loop, folder, member, member.options(), (limit_ns, Patience::Opening), purpose)
                .await;
        opened.borrow_mut()[place] = Some(drive);
    }))
    .await;
    let opened: Vec<Opened> = opened.into_inner().into_iter().flatten().collect();
    let found = || opened.iter().filter_map(Opened::geometry);
    let largest = found().map(|found| found.sector_bytes).max().filter(|_| !has_log).unwrap_or(0);
    let geometry = Geometry {
        sector_bytes: geometry.sector_bytes.max(largest),
        atomic_sectors: geometry.atomic_sectors && found().all(|found| found.atomic_sectors),
        ..geometry
    };
    let is_each_short = !members.is_empty()
        && found().count() == members.len()
        && found().all(|found| found.size_bytes < geometry.size_bytes);
    if is_each_short {
        let short = members.iter().zip(found()).map(|(member, found)| {
            let (has, needed) = (exact_size(found.size_bytes), exact_size(geometry.size_bytes));
            format!("{}: it has {has}, and {needed} are needed", member.place)
        });
        return Err(VolumeError::Incomplete(format!(
            "{}: cannot be opened: {}; all of them were cut short, or size_bytes or log_bytes in {FILE_NAME} is not what it \
             was made with: put that back",
            folder.display(),
            short.collect::<Vec<_>>().join("; ")
        )));
    }
    let (mut drives, mut entries) = (Vec::new(), Vec::new());
    for (opened, member) in opened.into_iter().zip(members) {
        let (drive, why) = match opened {
            Opened::There(drive) => match MirrorDrive::new(drive, geometry) {
                Ok(drive) => (Some(drive), None),
                Err(unfit) => (None, Some(unfit.why)),
            },
            Opened::Missing(why) => (None, Some(why)),
            Opened::Mistake(error) => return Err(error.into()),
        };
        let held = drive.as_ref().map(|drive| Rc::clone(drive.drive()));
        drives.push(drive);
        entries.push(Entry { place: member.place.clone(), why, generation: 0, drive: held });
    }
    Ok((drives, Rc::new(RefCell::new(entries)), geometry))
}

enum Opened {
    There(Rc<MemberDrive>),
    Missing(String),
    Mistake(PathError),
}

impl Opened {
    fn geometry(&self) -> Option<Geometry> {
        match self {
            Self::There(drive) => Some(drive.geometry()),
            _ => None,
        }
    }
}

/// Memory of each drive for transfers: there are many of them, and few have much to do at once.
const POOL_BYTES: usize = 2 << 20;

/// How long a file or device is waited for.
#[derive(Debug, Clone, Copy)]
enum Patience {
    /// As long as it takes: nobody is served yet. A copy that was just restored is written back first.
    Opening,
    /// As long as it may keep an answer waiting.
    Serving,
}

async fn open_one(
    event_loop: &Loop,
    folder: &Path,
    member: &Member,
    options: DriveOptions,
    (limit_ns, patience): (u64, Patience),
    purpose: Purpose,
) -> Opened {
    let place = member.place.within(folder);
    let options = DriveOptions { pool_bytes: POOL_BYTES, ..options };
    let drive = async { Some(MemberDrive::open(event_loop, &place, options, purpose).await) };
    // Whoever has a file in use is named, however long it is waited for.
    let busy_ns = match place {
        Place::Path(_) => u64::try_from(options.busy_timeout.as_nanos()).unwrap_or(u64::MAX),
        Place::Nbd(_) => 0,
    };
    let silence = async {
        match (patience, &place) {
            (Patience::Opening, Place::Path(_)) => pending().await,
            _ => event_loop.sleep(busy_ns.saturating_add(limit_ns)).await,
        }
        None
    };
    match race(drive, silence).await {
        None => Opened::Missing("it does not answer".to_owned()),
        Some(Err(error)) => match odd_kind_in(&error.source) {
            Some(kind) => {
                let why =
                    format!("it is {kind}; have {FILE_NAME} name a file, a block device or an export there");
                Opened::Mistake(PathError::new(&place.shown(), "cannot hold a member", io::Error::other(why)))
            }
            None if is_mistake(&error.source) => Opened::Mistake(error),
            None => Opened::Missing(format!("{}: {}", error.doing, error.source)),
        },
        Some(Ok(drive)) => Opened::There(Rc::new(drive)),
    }
}
