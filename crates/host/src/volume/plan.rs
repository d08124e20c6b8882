//! What [`super::create`] will do, and whether it can: found out before anything is written.
//!
//! 1. What is refused is refused here, as far as it can be known without writing: what would be lost and was not named,
//!    what somebody uses, what is no place for a member, and what finds no room.
//! 2. One line says what is wrong, of which option, and what would do.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::{Layout, log_bytes_with_superblocks};
use evenkeel_engine::format::log_head::LOGS_MAX;
use evenkeel_engine::format::ring_head::{self, MEMBERS_MAX};
use evenkeel_engine::volume::{ATOMIC_MAX_BYTES, arena_bytes_min, log_bytes_min};
use rustix::fs::{FlockOperation, OFlags};

use super::arenas::{ARENA_PREFIX, ARENA_SUFFIX};
use super::description::{Description, FILE_NAME, LayoutKind, NEXT_FILE_NAME, SIZE_MAX_BYTES, region_bytes};
use super::member::Place;
use super::{CONTROL_SOCKET, NBD_SOCKET, STATUS_SOCKET, VolumeError};
use crate::arena::{self, DEFAULT_FOLDER};
use crate::busy::retry_while_busy;
use crate::conditions::Machine;
use crate::drive::is_among_devices;
use crate::durable_file::{is_block_device, odd_kind, size_bytes};
use crate::path_error::PathError;
use crate::remedy::{Remedy, Setting};
use crate::size_text::{exact_size, size};
use crate::stack::stored_in_place;
use crate::stack::{StackProbe, space_bytes};

/// Memory for writes unless it was chosen, which any volume may have.
const BUFFER_BYTES: u64 = 64 << 20;

/// Sectors of the log's drive, which is not open yet: the largest there are.
const SECTOR_BYTES: u32 = 4096;

/// How long a file may still be held by a process that was killed.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The folder: new, or empty.
    pub folder: PathBuf,
    /// Bytes that the volume offers.
    pub size_bytes: u64,
    /// How pages are laid over members.
    pub layout: LayoutKind,
    /// Where the pages are: block devices, files' names or exports. Unless given, `home` in the folder, or `member-0`
    /// and `member-1` for a mirror.
    pub members: Vec<Place>,
    /// Where the log is. Unless given, `log` in the folder, or a part of a home member that is a block device; for a
    /// mirror `log-0` and so on in the folder, as many as members.
    pub logs: Vec<Place>,
    /// Whether the log of a mirror is on its members, and on no devices of its own.
    pub log_on_members: bool,
    /// Bytes of the log, on each of its devices.
    pub log_bytes: u64,
    /// Largest write that is one commit.
    pub atomic_max_bytes: u64,
    /// Memory for writes that are not durable.
    pub buffer_bytes: u64,
    /// Whether files take room only where something is written.
    pub sparse: bool,
    /// What is promised of sectors that a power cut interrupts; `None` asks the device.
    pub atomic_sectors: Option<bool>,
    /// Whether its owner answers for exports whose servers cannot keep earlier writers from them.
    pub unfenced: bool,
    /// Existing files, devices and exports that may be overwritten.
    pub destroy: Vec<Place>,
}

/// One member, as it will be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMember {
    /// Where it is.
    pub place: Place,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Whether something is there now that will be lost.
    pub overwrites: bool,
    /// The folder of the volume that has a member or its log there, where it is the file's own.
    pub volume: Option<PathBuf>,
}

/// What [`create`](super::create::create) will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How pages are laid over the members.
    pub layout: LayoutKind,
    /// The home member, or those of a ring.
    pub members: Vec<PlannedMember>,
    /// The log devices: none where the log is on the home member.
    pub logs: Vec<PlannedMember>,
}

fn refused<T>(why: String) -> Result<T, VolumeError> {
    Err(VolumeError::Refused(why))
}

impl Request {
    /// A volume of `size_bytes` in `folder`, with its home and a log of 256 MiB as files there, a buffer of 64 MiB,
    /// and writes of up to 16 KiB in one piece.
    pub fn new(folder: impl Into<PathBuf>, size_bytes: u64) -> Self {
        Self {
            folder: folder.into(),
            size_bytes,
            layout: LayoutKind::Single,
            members: Vec::new(),
            logs: Vec::new(),
            log_on_members: false,
            log_bytes: 256 << 20,
            atomic_max_bytes: 16 << 10,
            buffer_bytes: BUFFER_BYTES,
            sparse: false,
            atomic_sectors: None,
            unfenced: false,
            destroy: Vec::new(),
        }
    }

    /// Looks at what is there, and says what will be made and lost. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] for what exists and was not named, what is in use, what does not fit, or makes no sense.
    pub fn plan(&self) -> Result<Plan, VolumeError> {
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(PAGE_BYTES) {
            let next = (self.size_bytes / PAGE_BYTES).saturating_add(1).saturating_mul(PAGE_BYTES);
            let why = format!("a volume has whole pages of 4096 bytes, and one at least; choose {next}");
            return unset(Setting::Size, self.size_bytes, why);
        }
        if self.size_bytes > SIZE_MAX_BYTES {
            let (folder, size) = (self.folder.display(), self.size_bytes);
            let why = format!("{folder}: {size} bytes are too many, {} at most", exact_size(SIZE_MAX_BYTES));
            return Err(VolumeError::Refused(why).with(Remedy::ChooseSmaller(Setting::Size)));
        }
        self.check_folder()?;
        let (members, logs) = self.places()?;
        self.check_sizes(members.iter().all(|place| self.takes_sectors_for_atomic(place)))?;
        let pages = self.size_bytes / PAGE_BYTES;
        let home_bytes =
            Layout::home_bytes_for(pages, self.log_bytes, !logs.is_empty() || self.log_on_members);
        let member_head = if self.layout.is_ring() { ring_head::DATA_OFFSET } else { 0 };
        let region = if self.log_on_members { region_bytes(self.log_bytes) } else { 0 };
        let share_bytes = self.layout.member_bytes(home_bytes);
        let member_bytes = share_bytes.saturating_add(member_head).saturating_add(region);
        let log_bytes = match self.layout.is_ring() {
            false => log_bytes_with_superblocks(self.log_bytes),
            true => self.layout.log_device_bytes(self.log_bytes),
        };
        let planned = |places: Vec<Place>, bytes: u64, setting: Setting| {
            let each = places.into_iter().map(|place| self.plan_member(place, bytes, Some(setting)));
            each.collect::<Result<Vec<_>, _>>()
        };
        let members = planned(members, member_bytes, Setting::Size)?;
        let plan = Plan { layout: self.layout, members, logs: planned(logs, log_bytes, Setting::LogSize)? };
        self.check_destroyed(&plan)?;
        plan.check_distinct()?;
        if !self.sparse {
            plan.check_room()?;
        }
        self.check_buffer()?;
        Ok(plan)
    }

    /// That nothing may be overwritten that the volume does not take: it was named in error, or something else was.
    fn check_destroyed(&self, plan: &Plan) -> Result<(), VolumeError> {
        let is_taken = |named: &&Place| plan.places().any(|member| member.place == **named);
        match self.destroy.iter().find(|named| !is_taken(named)) {
            None => Ok(()),
            Some(named) => refused(format!(
                "{named}: it may be overwritten, and the volume takes nothing there; leave it out, or make it a member or a log \
                 device too"
            )),
        }
    }

    /// Where members and log devices are to be: those that were named, and those that nobody has to name.
    fn places(&self) -> Result<(Vec<Place>, Vec<Place>), VolumeError> {
        let inside = |name: &str| Place::from(self.folder.join(name));
        let numbered = |name: &str, count: usize| -> Vec<Place> {
            (0..count).map(|number| inside(&format!("{name}-{number}"))).collect()
        };
        let named = |places: &[Place], or: Vec<Place>| if places.is_empty() { or } else { places.to_vec() };
        let (members, logs) = match self.layout {
            LayoutKind::Single => {
                let members = named(&self.members, vec![inside("home")]);
                let is_on_device = members[0].path().is_some_and(is_block_device);
                let log = if is_on_device { Vec::new() } else { vec![inside("log")] };
                (members, named(&self.logs, log))
            }
            LayoutKind::Mirror | LayoutKind::Striped(_) => {
                let striped = self.layout.striped();
                let count = striped.map_or(2, |striped| striped.stripes.members());
                let members = named(&self.members, numbered("member", count));
                // As many as may be lost of the members, and one more.
                let logs = striped.map_or(members.len(), |striped| striped.stripes.parity() + 1);
                let logs = match self.log_on_members {
                    true => self.logs.clone(),
                    false => named(&self.logs, numbered("log", logs)),
                };
                (members, logs)
            }
        };
        let (most, logs_most) = (MEMBERS_MAX, LOGS_MAX);
        match self.layout {
            LayoutKind::Single if members.len() > 1 || logs.len() > 1 => refused(
                "layout single has one member and one log; to keep several copies, choose layout mirror".into(),
            ),
            LayoutKind::Single if logs.first() == members.first() => refused(
                "member and log are the same place; name no log to keep it there".into(),
            ),
            LayoutKind::Single if self.log_on_members => refused(
                "only a mirror keeps its log on its members; on one that is a block device it is where no log is named".into(),
            ),
            LayoutKind::Striped(_) if self.log_on_members => refused(format!(
                "layout {} logs changes of stripes on log devices; leave out that the log is on the members", self.layout
            )),
            LayoutKind::Striped(striped) if members.len() != striped.stripes.members() => refused(format!(
                "layout {} has {} members, one for each shard of a stripe, and not {}; name so many, or none for files in \
                 the folder",
                self.layout,
                striped.stripes.members(),
                members.len()
            )),
            LayoutKind::Mirror if self.log_on_members && !logs.is_empty() => {
                refused("log devices and a log on the members exclude each other: leave one of them out".into())
            }
            LayoutKind::Mirror if members.len() < 2 => refused(
                "one member is no mirror; name another, or none for two files in the folder".into(),
            ),
            LayoutKind::Mirror | LayoutKind::Striped(_) if members.len() > most || logs.len() > logs_most => {
                refused(format!("a volume has {most} members and {logs_most} log devices at most"))
            }
            _ => Ok((members, logs)),
        }
    }

    /// Whether what is at `place` is taken to keep sectors whole.
    pub(super) fn takes_sectors_for_atomic(&self, place: &Place) -> bool {
        self.atomic_sectors.unwrap_or_else(|| place.path().is_some_and(promises_atomic_sectors))
    }

    fn check_folder(&self) -> Result<(), VolumeError> {
        let cannot = |error| Err(PathError::new(&self.folder, "cannot make a volume here", error).into());
        let mut entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return parent_of(&self.folder).metadata().map(|_| ()).or_else(cannot);
            }
            Err(error) => return cannot(error),
        };
        if self.folder.join(FILE_NAME).exists() {
            return refused(format!(
                "{}: a volume is here already; choose another folder",
                self.folder.display()
            ));
        }
        match entries.next() {
            None => Ok(()),
            Some(_) => refused(format!("{}: the folder is not empty; name a new one", self.folder.display())),
        }
    }

    /// That no file takes a name, or the place, of what a volume has beside its members.
    fn check_name(&self, path: &Path) -> Result<(), VolumeError> {
        let at = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = at.file_name().unwrap_or_default().to_string_lossy();
        let is_description =
            || Inode::of(&at).is_some_and(|it| Inode::of(&self.folder.join(FILE_NAME)) == Some(it));
        let is_taken = [FILE_NAME, NEXT_FILE_NAME, CONTROL_SOCKET, NBD_SOCKET, STATUS_SOCKET]
            .contains(&&*name)
            || name.starts_with(ARENA_PREFIX) && name.ends_with(ARENA_SUFFIX)
            || is_description();
        match is_taken {
            true => refused(format!(
                "{}: volumes have something else under that name; choose another for a member",
                path.display()
            )),
            false => Ok(()),
        }
    }

    /// That the engine can run with a log and pieces of these sizes.
    fn check_sizes(&self, atomic_sectors: bool) -> Result<(), VolumeError> {
        let (atomic, log) = (self.atomic_max_bytes, self.log_bytes);
        if atomic < PAGE_BYTES {
            return unset(Setting::AtomicMax, atomic, "at least 4k, a page".to_owned());
        }
        match log_bytes_min(self.size_bytes, atomic, SECTOR_BYTES, atomic_sectors) {
            None => {
                let why = format!("at most {}, what a record holds", exact_size(ATOMIC_MAX_BYTES));
                unset(Setting::AtomicMax, atomic, why)
            }
            Some(least) if log < least => {
                let why = format!(
                    "too small for a disk of this size with atomic writes of {atomic} bytes; at least {}",
                    exact_size(least)
                );
                unset(Setting::LogSize, log, why)
            }
            Some(_) => Ok(()),
        }
    }

    /// That the volume can be opened with so much memory for its writes, and that there is so much.
    fn check_buffer(&self) -> Result<(), VolumeError> {
        let (bytes, atomic) = (self.buffer_bytes, self.atomic_max_bytes);
        let least = arena_bytes_min(atomic);
        if bytes < least {
            let why =
                format!("too small for atomic writes of {atomic} bytes; at least {}", exact_size(least));
            return unset(Setting::Buffer, bytes, why);
        }
        let above = existing_above(&self.folder);
        let free_in_folder = space_bytes(&above).map_or(0, |(_, free)| free);
        let (most, why) = buffer_bytes_max(self.size_bytes, &above, free_in_folder);
        match bytes > most {
            true => unset(Setting::Buffer, bytes, format!("at most {}: {why}", exact_size(most))),
            false => Ok(()),
        }
    }

    /// What will be done to have a member of so many bytes there.
    ///
    /// # Errors
    ///
    /// As [`Self::plan`].
    pub(super) fn plan_member(
        &self,
        place: Place,
        bytes: u64,
        sized_by: Option<Setting>,
    ) -> Result<PlannedMember, VolumeError> {
        let path = match &place {
            Place::Path(path) => path.clone(),
            Place::Nbd(_) => {
                if !self.destroy.contains(&place) {
                    return unnamed(&place);
                }
                return Ok(PlannedMember { place, bytes, overwrites: true, volume: None });
            }
        };
        let exists = path.symlink_metadata().is_ok();
        self.check_name(&path)?;
        if exists {
            check_kind(&path)?;
            if !self.destroy.contains(&place) {
                return unnamed(&place);
            }
            check_unused(&path)?;
        } else if is_among_devices(&path) {
            return refused(format!(
                "{}: no such device is there, and a file there would be gone with the machine's next start; `lsblk` lists \
                 the block devices",
                path.display()
            ));
        } else if parent_of(&path) != self.folder {
            let parent = parent_of(&path).metadata();
            parent.map_err(|error| PathError::new(&path, "cannot make the file", error))?;
        }
        let volume = if exists { volume_of(&path) } else { None };
        let member = PlannedMember { place, bytes, overwrites: exists, volume };
        if exists && is_block_device(&path) {
            let found =
                size_bytes(&path).map_err(|error| PathError::new(&path, "cannot find its size", error))?;
            member.check_size(found)?;
        } else if !may_be_so_large(&existing_above(&path), bytes) {
            let why = format!(
                "{}: a file of {} is more than the file system there takes",
                path.display(),
                size(bytes)
            );
            let problem = VolumeError::Refused(why);
            return Err(match sized_by {
                Some(setting) => problem.with(Remedy::ChooseSmaller(setting)),
                None => problem,
            });
        }
        Ok(member)
    }
}

/// Most memory for writes that a volume of `size_bytes` may have here, and why not more: `folder_bytes` of room are in its
/// folder.
pub(super) fn buffer_bytes_max(size_bytes: u64, folder: &Path, folder_bytes: u64) -> (u64, String) {
    let in_memory = space_bytes(Path::new(DEFAULT_FOLDER)).map_or(0, |(size, _)| arena::len_within(size));
    let unfit = stored_in_place::refusal(folder);
    let folder_bytes = if unfit.is_some() { 0 } else { arena::len_within(folder_bytes) };
    let no_room = || match &unfit {
        Some(why) => format!(
            "/dev/shm has no room for more, and it cannot be in {}: {why}; make /dev/shm larger (mount -o \
             remount,size=1g /dev/shm, or docker run -v /dev/shm:/dev/shm), or this smaller",
            folder.display()
        ),
        None => "neither /dev/shm nor the folder has room for more".to_owned(),
    };
    // Where it cannot be told, it is found out as it is taken.
    let if_told = |bytes: u64| if bytes > 0 { bytes } else { u64::MAX };
    let bounds = [
        (if_told(in_memory.max(folder_bytes)), None),
        (if_told(Machine::this().memory_bytes / 2), Some("half of this machine's memory")),
        (size_bytes.max(BUFFER_BYTES), Some("the volume's size, or 64 MiB for a smaller one")),
        (arena::LEN_MAX_BYTES, Some("more cannot be mapped")),
    ];
    let (most, why) = bounds.into_iter().min().expect("there are some");
    (most, why.map_or_else(no_room, str::to_owned))
}

impl PlannedMember {
    /// That a device or export of `size_bytes` is large enough.
    pub(super) fn check_size(&self, size_bytes: u64) -> Result<(), VolumeError> {
        let (place, needed) = (&self.place, self.bytes);
        match size_bytes < needed {
            true => refused(format!(
                "{place}: it has {}, and {} are needed; choose a larger one, or a smaller volume",
                exact_size(size_bytes),
                exact_size(needed)
            )),
            false => Ok(()),
        }
    }

    /// What it lies on: a file system, a device, an export.
    fn carrier(&self) -> String {
        let Some(path) = self.place.path() else { return self.place.to_string() };
        match existing_above(path).metadata() {
            Ok(found) if found.file_type().is_block_device() => format!("device {:x}", found.rdev()),
            Ok(found) => format!("file system {:x}", found.dev()),
            Err(_) => self.place.to_string(),
        }
    }

    /// Bytes of room that it takes beyond those that it has, and of which file system; `None` where it is no file.
    fn room(&self) -> Option<(u64, PathBuf, u64)> {
        let path = self.place.path().filter(|path| !is_block_device(path))?;
        let above = existing_above(path);
        let found = above.metadata().ok()?;
        let has = if self.overwrites { found.blocks().saturating_mul(512) } else { 0 };
        Some((found.dev(), above, self.bytes.saturating_sub(has)))
    }
}

impl Plan {
    /// All of them.
    pub fn places(&self) -> impl Iterator<Item = &PlannedMember> {
        self.members.iter().chain(&self.logs)
    }

    /// How many members and log devices may be lost, each by itself and together with a cut, with nothing lost. Of a log
    /// on the members: none, since a record may be on one member alone.
    pub fn losses_survived(&self) -> usize {
        let members = self.members.len().saturating_sub(self.layout.members_needed());
        members.min(self.logs.len().saturating_sub(1))
    }

    /// The same of what they lie on: file systems, devices and servers, as far as these can be told apart.
    pub fn carriers_survived(&self) -> usize {
        let survived = |members: &[PlannedMember], needed: usize| {
            let mut on_each: BTreeMap<String, usize> = BTreeMap::new();
            for member in members {
                *on_each.entry(member.carrier()).or_default() += 1;
            }
            // Those first with which most is lost.
            let mut lost: Vec<usize> = on_each.into_values().collect();
            lost.sort_unstable_by(|one, other| other.cmp(one));
            let mut left = members.len();
            let remains = |&lost: &usize| {
                left = left.saturating_sub(lost);
                left >= needed
            };
            lost.iter().copied().take_while(remains).count()
        };
        survived(&self.members, self.layout.members_needed()).min(survived(&self.logs, 1))
    }

    /// That no two are one file or device by two names.
    fn check_distinct(&self) -> Result<(), VolumeError> {
        let mut seen: BTreeMap<(Option<Inode>, String), &PlannedMember> = BTreeMap::new();
        for member in self.places() {
            let same = match member.place.path().and_then(Inode::of) {
                None => (None, member.place.to_string()),
                found => (found, String::new()),
            };
            if let Some(other) = seen.insert(same, member) {
                return same_thing(&other.place, &member.place);
            }
        }
        Ok(())
    }

    /// That the files find room, those on one file system all together.
    pub(super) fn check_room(&self) -> Result<(), VolumeError> {
        let mut needed: BTreeMap<u64, u64> = BTreeMap::new();
        for member in self.places() {
            let Some((file_system, above, bytes)) = member.room() else { continue };
            let sum = needed.entry(file_system).or_default();
            *sum = sum.saturating_add(bytes);
            // Some do not say how large they are.
            let Ok((whole, free)) = space_bytes(&above) else { continue };
            if whole > 0 && free < *sum {
                let why = format!(
                    "{}: {} of room are needed there, and {} are free; choose another place or a smaller volume",
                    member.place,
                    size(*sum),
                    size(free)
                );
                return Err(VolumeError::Refused(why).with(Remedy::UseSparse));
            }
        }
        Ok(())
    }
}

/// That two members are one.
pub(super) fn same_thing<T>(one: &Place, other: &Place) -> Result<T, VolumeError> {
    refused(format!("{one} and {other}: these are the same; name another log or member"))
}

/// That a volume cannot be made with so many bytes.
fn unset<T>(setting: Setting, bytes: u64, why: String) -> Result<T, VolumeError> {
    Err(VolumeError::Setting { setting, bytes, why })
}

/// What a file or block device is, by whatever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Inode {
    File { file_system: u64, number: u64 },
    Device(u64),
}

impl Inode {
    /// That of what is at `path`, if something is.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let found = path.metadata().ok()?;
        Some(match found.file_type().is_block_device() {
            true => Self::Device(found.rdev()),
            false => Self::File { file_system: found.dev(), number: found.ino() },
        })
    }
}

/// The folder of the volume that has a member or its log at `path`, where that lies in the folder.
fn volume_of(path: &Path) -> Option<PathBuf> {
    let (folder, own) = (parent_of(path), Inode::of(path)?);
    let (described, _) = Description::read(folder).ok()?;
    let mut places =
        described.members.iter().chain(&described.logs).map(|member| member.place.within(folder));
    places.any(|place| place.path().and_then(Inode::of) == Some(own)).then(|| folder.to_owned())
}

fn unnamed<T>(place: &Place) -> Result<T, VolumeError> {
    let problem = VolumeError::Refused(format!("{place}: it exists, and would be overwritten"));
    Err(problem.with(Remedy::Destroy { place: place.quoted() }))
}

/// That what exists at `path`, where a link leads to, can be a member.
fn check_kind(path: &Path) -> Result<(), VolumeError> {
    let kind = match path.metadata().map(|found| odd_kind(&found)) {
        Ok(None) => return Ok(()),
        Ok(Some(kind)) => kind,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "a link to nothing",
        Err(error) => return Err(PathError::new(path, "cannot look at it", error).into()),
    };
    refused(format!("{}: it is {kind}; a member is a file, a block device or an export", path.display()))
}

/// That nobody serves a volume from it, has it mounted, or holds it otherwise.
fn check_unused(path: &Path) -> Result<(), VolumeError> {
    let is_device = is_block_device(path);
    let attempt = || {
        // On a block device O_EXCL without O_CREAT asks for exclusive use.
        let flags = if is_device { OFlags::EXCL } else { OFlags::empty() };
        let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        if !is_device {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        }
        Ok(())
    };
    let is_held =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy);
    match retry_while_busy(PATIENCE, is_held, attempt) {
        Ok(()) => Ok(()),
        Err(error) if is_held(&error) => {
            refused(format!("{}: it is in use; stop what uses it, or unmount it, first", path.display()))
        }
        Err(error) => Err(PathError::new(path, "cannot open", error).into()),
    }
}

/// Whether a file of `bytes` may be made beside `above`, or that cannot be told: one without a name is given that length.
fn may_be_so_large(above: &Path, bytes: u64) -> bool {
    let folder = if above.is_dir() { above } else { parent_of(above) };
    let flags = OFlags::TMPFILE.bits().cast_signed();
    let nameless: io::Result<File> =
        OpenOptions::new().write(true).mode(0o600).custom_flags(flags).open(folder);
    let refuses =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput);
    match nameless {
        Ok(file) => !file.set_len(bytes).is_err_and(|error| refuses(&error)),
        Err(_) => i64::try_from(bytes).is_ok(),
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// `path`, or the nearest folder above it that exists.
fn existing_above(path: &Path) -> PathBuf {
    let mut above = path;
    while !above.exists() {
        let parent = parent_of(above);
        if parent == above {
            break;
        }
        above = parent;
    }
    above.to_owned()
}

/// An NVMe drive writes a logical block whole or not at all (its AWUPF is at least one block); of others nothing
/// is known.
fn promises_atomic_sectors(path: &Path) -> bool {
    StackProbe::of(&existing_above(path)).is_ok_and(|stack| stack.is_nvme())
}
