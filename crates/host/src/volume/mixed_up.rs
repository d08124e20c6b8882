//! Whose the home and the log of a volume of one member are, where they are not what the volume needs: exchanged, another
//! volume's, the same file twice, or too short.
//!
//! 1. What is there is only read, and only asked where something is wrong, or is to be taken as it is.

use std::path::Path;

use evenkeel_engine::device::Device;
use evenkeel_engine::format::layout::{HOME_COPIES, home_copy_offset};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};

use super::VolumeError;
use super::description::{Description, FILE_NAME, VolumeId};
use super::plan::Inode;
use crate::size_text::exact_size;

/// What a drive says that it is.
#[derive(Debug, Clone, Copy)]
struct Told {
    superblock: Superblock,
    /// Whether it has the copies that stand at the end of a home alone.
    is_home: bool,
}

/// What `drive` says that it is, if anything.
async fn told<D: Device>(drive: &D) -> Option<Told> {
    let mut newest: Option<Superblock> = None;
    for copy in 0..2 {
        let found = superblock_at(drive, copy * PAGE_BYTES).await;
        newest = [newest, found].into_iter().flatten().max_by_key(|it| it.generation);
    }
    let superblock = newest?;
    let mut is_home = false;
    for copy in 2..HOME_COPIES {
        let at_end = superblock_at(drive, home_copy_offset(superblock.home_bytes, copy)).await;
        is_home |= at_end.is_some_and(|it| it.volume == superblock.volume);
    }
    Some(Told { superblock, is_home })
}

async fn superblock_at<D: Device>(drive: &D, offset: u64) -> Option<Superblock> {
    let mut page = [0; PAGE];
    drive.read(offset, &mut page).await.ok().and_then(|()| Superblock::decode(&page))
}

/// That home and log of a volume of one member are not one file.
pub(super) fn check_two_files(folder: &Path, description: &Description) -> Result<(), VolumeError> {
    let ([home], [log]) = (&description.members[..], &description.logs[..]) else { return Ok(()) };
    let inode = |place: &super::member::Place| place.within(folder).path().and_then(Inode::of);
    let is_same =
        home.place == log.place || inode(&home.place).is_some_and(|it| inode(&log.place) == Some(it));
    match is_same {
        true => Err(VolumeError::description(
            &folder.join(FILE_NAME),
            &format!(
                "it names {} for the pages and {} for the log, which are the same: have it name the log's own place again",
                home.place, log.place
            ),
        )),
        false => Ok(()),
    }
}

/// What is wrong with the home and, where `judges_log`, with the log of a volume of one member, where they say so
/// themselves.
pub(super) async fn mixed_up<D: Device>(
    folder: &Path,
    description: &Description,
    home: &D,
    log: Option<&D>,
    judges_log: bool,
) -> Option<VolumeError> {
    let [described] = &description.members[..] else { return None };
    let (shown, own) = (folder.display(), description.id.0);
    let at_home = told(home).await;
    let at_log = match log {
        Some(log) => told(log).await,
        None => None,
    };
    if let (Some(at_home), Some(at_log), Some(log)) = (at_home, at_log, description.logs.first())
        && at_log.is_home
        && !at_home.is_home
        && at_home.superblock.volume == at_log.superblock.volume
    {
        return Some(VolumeError::Refused(format!(
            "{shown}: home and log are in each other's place: {} holds the log, and {} the pages; exchange the files, or \
             their places in {FILE_NAME}",
            described.place, log.place
        )));
    }
    let stranger = |place: &dyn std::fmt::Display, found: Superblock, what: &str| {
        let other = VolumeId(found.volume);
        Some(VolumeError::Refused(format!(
            "{shown}: {place} is the {what} of another volume ({other}; this is {}): bring back the one that belongs here",
            description.id
        )))
    };
    if let Some(found) = at_home.filter(|found| found.superblock.volume != own) {
        let what = if found.is_home { "home" } else { "home or log" };
        return stranger(&described.place, found.superblock, what);
    }
    match (at_log, description.logs.first()) {
        (Some(found), Some(log)) if judges_log && found.superblock.volume != own => {
            let what = if found.is_home { "home" } else { "log" };
            stranger(&log.place, found.superblock, what)
        }
        _ => None,
    }
}

/// Which file or device is shorter than the volume needs it, and by how much; `None` where none is.
pub(super) async fn too_short<D: Device>(
    description: &Description,
    home: &D,
    log: Option<&D>,
) -> Option<String> {
    let superblock = told(home).await?.superblock;
    let layout = superblock.layout()?;
    let home_needs = (&description.members.first()?.place, home.geometry().size_bytes, layout.home_bytes);
    let log_needs = description.logs.first().zip(log);
    let log_needs =
        log_needs.map(|(member, log)| (&member.place, log.geometry().size_bytes, layout.log.end()));
    let short = [Some(home_needs), log_needs].into_iter().flatten().find(|(_, has, needs)| has < needs);
    let (place, has, needs) = short?;
    Some(format!("{place} was cut short: it has {}, and {} are needed", exact_size(has), exact_size(needs)))
}
