//! `volume.toml`: what a volume's folder says of it, for people to read and for evenkeel to find its members.
//!
//! It holds nothing that changes while the volume is used, but for its size when it grows, the place of a member that
//! is replaced, and what was chosen by trying: a folder restored from a backup describes the members that stand beside it.
//!
//! People may edit it: a number that no volume can have is refused here, one that this volume was not made with when it
//! is opened ([`super::LockedVolume::open`]), both before anything follows from it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use evenkeel_engine::device::{Extent, Geometry};
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::{Layout, Size, SizesBefore, log_bytes_with_superblocks};
use evenkeel_engine::format::log_head::LOGS_MAX;
use evenkeel_engine::format::ring_head::{self, MEMBERS_MAX};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::ring::RingOptions;
use evenkeel_engine::volume::ATOMIC_MAX_BYTES;
use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};

use super::VolumeError;
use super::layout_kind::LayoutName;
pub use super::layout_kind::{LayoutKind, Striped};
use super::member::Place;
use super::tuned::Tuned;
use crate::drive::{DriveOptions, DurableWay};
use crate::durable_file::odd_kind;
use crate::path_error::PathError;
use crate::scratch::{give, settle_folder};
use crate::size_text::{exact_size, size};

/// The file's name in a volume's folder.
pub const FILE_NAME: &str = "volume.toml";

/// The field of an export whose server cannot keep earlier writers from it.
pub const UNFENCED: &str = "unfenced";

/// That of the one that is about to take its place.
pub(super) const NEXT_FILE_NAME: &str = "volume.toml.new";

/// What this version writes and reads.
const FORMAT: u32 = 1;

/// Longest file that is read.
const FILE_MAX_BYTES: u64 = 64 << 10;

/// Largest disk: what speaks of its sums is held in memory, 1 GiB for one of this size.
pub(super) const SIZE_MAX_BYTES: u64 = 256 << 40;

/// Smallest and largest sectors that volumes are made for: heads and superblocks are pages.
const SECTOR_BYTES: RangeInclusive<u64> = 512..=PAGE_BYTES;

const PREFACE: &str = "\
# A volume of evenkeel: `evenkeel serve` this folder. The members below hold its data; paths that do not begin
# with / are from here, and one such as nbd://host/name is the export of an NBD server. Nothing in this file changes while the volume is used, unless it grows or a member is replaced.

";

/// A volume, described.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Description {
    /// The number that its members carry too.
    pub id: VolumeId,
    /// How pages are laid over members.
    pub layout: LayoutKind,
    /// Bytes that it offers.
    pub size_bytes: u64,
    /// Largest write that is there whole or not at all after a cut.
    pub atomic_max_bytes: u64,
    /// Memory for writes that are acknowledged and not yet durable.
    pub buffer_bytes: u64,
    /// Bytes of a mirror's log, and of that of a volume that has grown; of other single volumes only the superblock knows.
    pub log_bytes: Option<u64>,
    /// Bytes of a mirror that has grown, of each member, behind its head and its log; of others they follow from the size.
    pub home_bytes: Option<u64>,
    /// The sizes that it had before it grew, for the day on which no superblock can be read.
    pub sizes_before: SizesBefore,
    /// Where its pages are: one place, or several that hold the same.
    pub members: Vec<Member>,
    /// Where its log is: nowhere else than its pages, one place, or several that hold the same. A mirror without any has
    /// it on its members.
    pub logs: Vec<Member>,
    /// What was chosen by trying, if anything.
    pub tuned: Option<Tuned>,
}

/// A description as the file has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u32,
    id: VolumeId,
    layout: LayoutName,
    size_bytes: u64,
    atomic_max_bytes: u64,
    buffer_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shard_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stripe_log_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    home_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    home: Option<Member>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<Member>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    member: Vec<Member>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    log_device: Vec<Member>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    log_on_members: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grown_from: Vec<GrownFrom>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tuned: Option<Tuned>,
}

/// A size that a volume had before it grew.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrownFrom {
    size_bytes: u64,
    home_bytes: u64,
}

impl From<Description> for Written {
    fn from(it: Description) -> Self {
        let (mut members, mut logs) = (it.members, it.logs);
        let log_on_members = it.layout.is_ring() && logs.is_empty();
        let (home, log) = match it.layout.is_ring() {
            false => (members.pop(), logs.pop()),
            true => (None, None),
        };
        let striped = it.layout.striped();
        Self {
            format: FORMAT,
            id: it.id,
            layout: it.layout.into(),
            size_bytes: it.size_bytes,
            atomic_max_bytes: it.atomic_max_bytes,
            buffer_bytes: it.buffer_bytes,
            log_bytes: it.log_bytes,
            shard_bytes: striped.map(|it| it.stripes.shard_bytes()),
            stripe_log_bytes: striped.map(|it| it.log_bytes),
            home_bytes: it.home_bytes,
            home,
            log,
            member: members,
            log_device: logs,
            log_on_members,
            grown_from: it.sizes_before.as_slice().iter().map(grown_from).collect(),
            tuned: it.tuned,
        }
    }
}

fn grown_from(size: &Size) -> GrownFrom {
    GrownFrom { size_bytes: size.pages.saturating_mul(PAGE_BYTES), home_bytes: size.home_bytes }
}

/// The sizes that a volume had; `None` where no volume had those.
fn sizes_before(found: &[GrownFrom]) -> Option<SizesBefore> {
    let is_size =
        |it: &GrownFrom| it.size_bytes.is_multiple_of(PAGE_BYTES) && it.size_bytes <= SIZE_MAX_BYTES;
    let is_sound = found.iter().all(is_size) && found.is_sorted_by_key(|it| it.size_bytes);
    let size = |it: &GrownFrom| Size { pages: it.size_bytes / PAGE_BYTES, home_bytes: it.home_bytes };
    let sizes: Vec<Size> = found.iter().map(size).collect();
    SizesBefore::of(&sizes).filter(|_| is_sound)
}

impl Written {
    /// That some volume may have these numbers.
    fn check_numbers(&self) -> Result<(), String> {
        let within = |name: &str, number: u64, range: RangeInclusive<u64>| match range.contains(&number) {
            true => Ok(()),
            false => Err(format!(
                "{name} = {number}: no volume has that; it is {} at least, {} at most: put back what it was made with",
                exact_size(*range.start()),
                exact_size(*range.end())
            )),
        };
        within("size_bytes", self.size_bytes, PAGE_BYTES..=SIZE_MAX_BYTES)?;
        if !self.size_bytes.is_multiple_of(PAGE_BYTES) {
            let (bytes, shown) = (self.size_bytes, size(self.size_bytes));
            return Err(format!(
                "size_bytes = {bytes}: no volume is {shown} and part of a page of {PAGE_BYTES} bytes large: put back what \
                 it was made with"
            ));
        }
        if let Some(home_bytes) = self.home_bytes {
            within("home_bytes", home_bytes, self.size_bytes..=2 * SIZE_MAX_BYTES)?;
            if !home_bytes.is_multiple_of(PAGE_BYTES) {
                return Err(format!("home_bytes = {home_bytes}: a multiple of {PAGE_BYTES}"));
            }
        }
        within("atomic_max_bytes", self.atomic_max_bytes, PAGE_BYTES..=ATOMIC_MAX_BYTES)?;
        let places = self.home.iter().chain(&self.log).chain(&self.member).chain(&self.log_device);
        for Member { place, sector_bytes, .. } in places {
            within(&format!("{place}: sector_bytes"), (*sector_bytes).into(), SECTOR_BYTES)?;
            if !sector_bytes.is_power_of_two() {
                return Err(format!(
                    "{place}: sector_bytes = {sector_bytes}: no sector is that large, as it is no power of two: put back \
                     what it was"
                ));
            }
        }
        self.tuned.as_ref().map_or(Ok(()), |tuned| tuned.check(self.atomic_max_bytes))
    }
}

impl TryFrom<Written> for Description {
    type Error = String;

    fn try_from(it: Written) -> Result<Self, String> {
        if it.format != FORMAT {
            let (found, age) = (it.format, if it.format > FORMAT { "a newer" } else { "an older" });
            return Err(format!(
                "it has format {found}, and this version of evenkeel reads format {FORMAT}: {age} one made it; use that one"
            ));
        }
        it.check_numbers()?;
        let layout = it.layout.with(it.shard_bytes, it.stripe_log_bytes)?;
        let (members, logs) = match (layout.is_ring(), it.home) {
            (false, Some(home)) if it.member.is_empty() && it.log_device.is_empty() => {
                (vec![home], it.log.into_iter().collect())
            }
            (false, _) => return Err("a volume of layout single has one [home]".to_owned()),
            (true, None) if it.log.is_none() => (it.member, it.log_device),
            (true, _) => {
                return Err(format!(
                    "a volume of layout {layout} has [[member]] and [[log_device]], no [home] and no [log]"
                ));
            }
        };
        if layout.is_ring() {
            let (most, logs_most) = (MEMBERS_MAX, LOGS_MAX);
            let fits = |members: usize| match layout.striped() {
                Some(Striped { stripes, .. }) => members == stripes.members(),
                None => (2..=most).contains(&members),
            };
            if !fits(members.len()) || logs.len() > logs_most {
                let wanted =
                    layout.striped().map_or(format!("2 to {most}"), |it| it.stripes.members().to_string());
                return Err(format!(
                    "a volume of layout {layout} has {wanted} [[member]] and {logs_most} [[log_device]] at most"
                ));
            }
            if logs.is_empty() != it.log_on_members {
                return Err(format!(
                    "a volume of layout {layout} has either [[log_device]] or log_on_members = true"
                ));
            }
            if layout.striped().is_some() && logs.is_empty() {
                return Err(format!("a volume of layout {layout} has [[log_device]]"));
            }
            if it.log_bytes.is_none() {
                return Err(format!("a volume of layout {layout} has log_bytes"));
            }
        }
        let sizes_before = sizes_before(&it.grown_from)
            .ok_or("no volume grew as [[grown_from]] says: put that back, or remove all of them")?;
        Ok(Self {
            id: it.id,
            layout,
            size_bytes: it.size_bytes,
            atomic_max_bytes: it.atomic_max_bytes,
            buffer_bytes: it.buffer_bytes,
            log_bytes: it.log_bytes,
            home_bytes: it.home_bytes,
            sizes_before,
            members,
            logs,
            tuned: it.tuned,
        })
    }
}

/// A volume's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct VolumeId(pub u64);

impl std::fmt::Display for VolumeId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl From<VolumeId> for String {
    fn from(id: VolumeId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for VolumeId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        u64::from_str_radix(&text, 16).map(Self).map_err(|_| format!("`{text}` is no volume's number"))
    }
}

/// A file, block device or export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Where it is.
    #[serde(rename = "path")]
    pub place: Place,
    /// What it wrote at once when it became a member. A drive that writes more now is taken for what it is.
    pub sector_bytes: u32,
    /// Whether a power cut leaves each such sector old or new. If not, a page's image is logged before it is written.
    pub atomic_sectors: bool,
    /// What makes a write durable there; of an export, its server knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable_way: Option<DurableWay>,
    /// Whether its file takes room only where something was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sparse: bool,
    /// Whether its owner answers for it that nothing which a killed process sent to this export arrives any more; then its
    /// server may take several connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfenced: bool,
}

impl Member {
    /// How its drive is opened. What it writes at once is looked at anew: the folder may have been moved.
    pub fn options(&self) -> DriveOptions {
        DriveOptions {
            durable_way: self.durable_way,
            atomic_sectors: self.atomic_sectors,
            promised_sector_bytes: Some(self.sector_bytes),
            // A hole that was punched would need room that may be gone when it is written again.
            keeps_room: !self.sparse,
            ..DriveOptions::default()
        }
    }
}

impl Description {
    /// What each member of a mirror offers the ring, head included.
    pub fn member_geometry(&self) -> Geometry {
        let made_with = || Layout::home_bytes_for(self.size_bytes / PAGE_BYTES, 0, true);
        let home_bytes = self.layout.member_bytes(self.home_bytes.unwrap_or_else(made_with));
        let before_bytes = ring_head::DATA_OFFSET.saturating_add(self.region_bytes());
        shape(&self.members, home_bytes.saturating_add(before_bytes))
    }

    /// Bytes of the log on each member of a mirror that has it there; else 0.
    pub fn region_bytes(&self) -> u64 {
        match self.layout.is_ring() && self.logs.is_empty() {
            true => region_bytes(self.log_bytes.unwrap_or(0)),
            false => 0,
        }
    }

    /// What each log device of a mirror offers, head included.
    pub fn log_geometry(&self) -> Geometry {
        shape(&self.logs, self.layout.log_device_bytes(self.log_bytes.unwrap_or(0)))
    }

    /// As [`LayoutKind::stripe_log`].
    pub fn stripe_log(&self) -> Extent {
        self.layout.stripe_log(self.log_bytes.unwrap_or(0))
    }

    /// How its members are run, beyond what is chosen each time.
    pub fn ring_options(&self, chosen: RingOptions) -> RingOptions {
        let stripes = self.layout.striped().map(|striped| striped.stripes);
        RingOptions { log_bytes: self.region_bytes(), stripes, ..chosen }
    }

    /// Writes it into `folder`, durably. Nothing is replaced.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; those of the file system.
    pub fn write(&self, folder: &Path) -> Result<(), VolumeError> {
        let path = folder.join(FILE_NAME);
        let text = toml::to_string(self).map_err(|error| VolumeError::description(&path, &error))?;
        let write = || {
            write_new(&path, &text)?;
            settle_folder(folder).inspect_err(|_| no_longer(&path))
        };
        write().map_err(|error| PathError::new(&path, "cannot write", error).into())
    }

    /// Writes it in the place of the one that is there: after a cut it is the one or the other. It has the owner, the group
    /// and the mode of that one: root may do this for the user who serves the volume. The new file comes back, locked if
    /// that can be: whoever holds the lock of the one before holds that of none that can be found.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn rewrite(&self, folder: &Path) -> Result<File, VolumeError> {
        let (path, beside) = (folder.join(FILE_NAME), folder.join(NEXT_FILE_NAME));
        let text = toml::to_string(self).map_err(|error| VolumeError::description(&path, &error))?;
        let write = || -> io::Result<File> {
            // What a cut left of another.
            let _mostly_not_there = std::fs::remove_file(&beside);
            let before = path.metadata().ok();
            let file = write_new(&beside, &text)?;
            if let Some(before) = before {
                give(&file, &before)?;
            }
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            std::fs::rename(&beside, &path)?;
            settle_folder(folder)?;
            Ok(file)
        };
        write().map_err(|error| PathError::new(&path, "cannot write", error).into())
    }

    /// Reads that of `folder`; the file comes with it, for whoever wants to lock it.
    ///
    /// # Errors
    ///
    /// Where there is none, or none that this version understands; where something else has its name.
    pub fn read(folder: &Path) -> Result<(Self, File), VolumeError> {
        let path = folder.join(FILE_NAME);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => match members_in(folder) {
                Some(found) => VolumeError::description(&path, &undescribed(folder, &found)),
                None => VolumeError::NotAVolume(folder.to_owned()),
            },
            _ => PathError::new(&path, "cannot read", error).into(),
        };
        let check = |found: &Metadata| match odd_kind(found) {
            Some(kind) => Err(VolumeError::description(&path, &format!("it is {kind}, and no file"))),
            None if !found.is_file() => Err(VolumeError::description(&path, &"it is a device, and no file")),
            None => Ok(()),
        };
        // Before and after: opening what is none may wait, or do something to a device.
        check(&path.metadata().map_err(failed)?)?;
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(failed)?;
        check(&file.metadata().map_err(failed)?)?;
        let mut text = Vec::new();
        (&file).take(FILE_MAX_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > FILE_MAX_BYTES {
            let why = format!("it has more than {FILE_MAX_BYTES} bytes, and describes no volume");
            return Err(VolumeError::description(&path, &why));
        }
        let text = String::from_utf8(text).map_err(|error| VolumeError::description(&path, &error))?;
        let description = toml::from_str(&text)
            .map_err(|error| VolumeError::description(&path, &in_one_line(&error, &text)))?;
        Ok((description, file))
    }
}

/// What looks like members of a volume there, by their usual names, if anything does.
fn members_in(folder: &Path) -> Option<Vec<String>> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            let is_numbered =
                |kind: &str| name.strip_prefix(kind).is_some_and(|number| number.parse::<u8>().is_ok());
            name == "home" || name == "log" || is_numbered("member-") || is_numbered("log-")
        })
        // A folder `home` is in every root folder.
        .filter(|name| {
            let found = folder.join(name).metadata();
            found.is_ok_and(|found| found.is_file() || found.file_type().is_block_device())
        })
        .collect();
    names.sort_unstable();
    Some(names).filter(|names| !names.is_empty())
}

/// That the description is missing, and what it has to say, as far as the members know.
fn undescribed(folder: &Path, found: &[String]) -> String {
    let known = found.iter().find_map(|name| superblock_of(&folder.join(name)));
    let says = known.map_or(String::new(), |it| {
        format!(
            ", with id = \"{}\", size_bytes = {}, atomic_max_bytes = {}",
            VolumeId(it.volume),
            it.pages.saturating_mul(PAGE_BYTES),
            it.atomic_max_bytes
        )
    });
    format!(
        "it is missing, and {} there: put it back from a backup, or write it anew as docs/salvage.md shows{says}",
        match found {
            [one] => format!("{one} is"),
            [others @ .., last] => format!("{} and {last} are", others.join(", ")),
            [] => unreachable!("something was found"),
        }
    )
}

/// A superblock at the beginning of a file, behind a head or without one.
fn superblock_of(path: &Path) -> Option<Superblock> {
    let mut bytes = Vec::new();
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let file = is_file.then(|| open_file(path).ok()).flatten()?;
    file.take(4 * PAGE_BYTES).read_to_end(&mut bytes).ok()?;
    bytes.chunks_exact(PAGE_BYTES as usize).find_map(Superblock::decode)
}

/// Opens a file to be read. Something else may have come to its name: that is not waited for, and not read.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// What is wrong with `text`, and in which line, without a drawing of it.
fn in_one_line(error: &toml::de::Error, text: &str) -> String {
    match error.span().filter(|span| span.len() < text.len()).and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {}", before.matches('\n').count() + 1, error.message()),
        None => error.message().to_owned(),
    }
}

/// Bytes that a log of so many takes on each member.
pub(super) fn region_bytes(log_bytes: u64) -> u64 {
    log_bytes_with_superblocks(log_bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(log_bytes))
}

/// What all of several drives can be taken for.
fn shape(members: &[Member], size_bytes: u64) -> Geometry {
    Geometry {
        size_bytes,
        sector_bytes: members.iter().map(|member| member.sector_bytes).max().unwrap_or(512),
        atomic_sectors: members.iter().all(|member| member.atomic_sectors),
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let written = file
        .write_all(PREFACE.as_bytes())
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all());
    written.inspect_err(|_| no_longer(path))?;
    Ok(file)
}

/// Removes what was made and cannot be used: else it would be taken for a volume.
fn no_longer(path: &Path) {
    let _the_first_error_is_told = std::fs::remove_file(path);
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    pub(in crate::volume) fn sample() -> Description {
        let member = |path: &str| Member {
            place: path.parse().unwrap(),
            sector_bytes: 4096,
            atomic_sectors: false,
            durable_way: Some(DurableWay::Linked),
            sparse: false,
            unfenced: false,
        };
        Description {
            id: VolumeId(0x1f),
            layout: LayoutKind::Single,
            size_bytes: 1 << 30,
            atomic_max_bytes: 16384,
            buffer_bytes: 64 << 20,
            log_bytes: None,
            home_bytes: None,
            sizes_before: SizesBefore::default(),
            members: vec![member("home")],
            logs: vec![member("/dev/sdx")],
            tuned: None,
        }
    }

    fn mirror() -> Description {
        let sample = sample();
        let [home, log] = [&sample.members[0], &sample.logs[0]];
        let (members, logs) =
            (vec![home.clone(), log.clone()], vec![log.clone(), home.clone(), home.clone()]);
        Description { layout: LayoutKind::Mirror, log_bytes: Some(1 << 20), members, logs, ..sample }
    }

    #[test]
    fn a_mirror_is_read_as_it_was_written_and_rewritten_while_its_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let mut mirror = mirror();
        mirror.write(folder.path()).unwrap();
        assert_eq!(Description::read(folder.path()).unwrap().0, mirror);
        mirror.members[1].place = "elsewhere".into();
        let locked = mirror.rewrite(folder.path()).unwrap();
        let (found, file) = Description::read(folder.path()).unwrap();
        assert_eq!(found, mirror);
        assert!(rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(locked);
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn a_description_that_is_rewritten_keeps_its_mode_and_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        mirror().write(folder.path()).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        // Only root may give a file away.
        let user = if rustix::process::geteuid().is_root() { 65534 } else { path.metadata().unwrap().uid() };
        std::os::unix::fs::chown(&path, Some(user), None).unwrap();
        mirror().rewrite(folder.path()).unwrap();
        let found = path.metadata().unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (user, 0o640));
    }

    #[test]
    fn a_pipe_that_came_to_the_name_of_a_member_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("home"), folder.path().join("log"));
        std::fs::write(&file, "").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send((open_file(&pipe).is_err(), open_file(&file).is_ok())));
        let patience = std::time::Duration::from_secs(120);
        assert_eq!(told.recv_timeout(patience), Ok((true, true)));
        assert_eq!(members_in(folder.path()), Some(vec!["log".to_owned()]));
    }

    #[test]
    fn a_folder_that_is_called_as_a_member_is_none() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        assert!(matches!(Description::read(folder.path()), Err(VolumeError::NotAVolume(_))));
    }

    #[test]
    fn a_layout_with_the_wrong_members_is_refused() {
        let single = sample();
        let few = vec![single.members[0].clone()];
        for wrong in [
            Description { layout: LayoutKind::Mirror, ..single.clone() },
            Description { members: few, ..mirror() },
            Description { log_bytes: None, ..mirror() },
            Description { members: Vec::new(), ..single },
        ] {
            let folder = tempfile::tempdir().unwrap();
            wrong.write(folder.path()).unwrap();
            let error = Description::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(FILE_NAME) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_mirror_has_log_devices_or_says_that_it_has_its_log_on_its_members() {
        let folder = tempfile::tempdir().unwrap();
        let on_members = Description { logs: Vec::new(), ..mirror() };
        on_members.write(folder.path()).unwrap();
        assert_eq!(Description::read(folder.path()).unwrap().0, on_members);
        assert_eq!(on_members.region_bytes(), (1 << 20) + 2 * PAGE_BYTES);
        assert_eq!(mirror().region_bytes(), 0);
        let larger = on_members.member_geometry().size_bytes - mirror().member_geometry().size_bytes;
        assert_eq!(larger, on_members.region_bytes());
        // Log devices that somebody has struck out are no log on the members.
        let path = folder.path().join(FILE_NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("log_on_members = true", "")).unwrap();
        let error = Description::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("log_on_members"), "{error}");
    }

    #[test]
    fn what_is_written_is_read_and_nothing_is_replaced() {
        for log in ["/dev/sdx", "nbd://host/name", "nbd+unix:///a%20b?socket=/run/s"] {
            let folder = tempfile::tempdir().unwrap();
            let mut sample = sample();
            sample.logs[0].place = log.parse().unwrap();
            sample.write(folder.path()).unwrap();
            assert_eq!(Description::read(folder.path()).unwrap().0, sample);
            assert!(sample.write(folder.path()).is_err());
        }
    }

    #[test]
    fn what_is_no_description_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Description::read(folder.path()), Err(VolumeError::NotAVolume(_))));
        for text in ["", "format = 2", "format = 1\nsize_bytes = -1", "\u{0}"] {
            std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
            let error = Description::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(FILE_NAME) && !error.contains('\n'), "{error}");
        }
    }
}
