//! Drives on which a ring's members are, or are to be: written to, to see for how long a turn they are steady ([`super::turns`]).
//!
//! 1. Files that are made for it go with it, however it ends but by a kill -9. A device is written to where it is to be
//!    overwritten anyway.
//! 2. All drives are written to side by side. A longer turn has to show twice.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;

use evenkeel_engine::device::Device as _;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::ring::RingOptions;
use evenkeel_host::drive::{DriveOptions, FileDrive, Fill};
use evenkeel_host::durable_file::is_block_device;
use evenkeel_host::event_loop::{Backend, Loop};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::stack::space_bytes;
use evenkeel_host::volume::member::Place;

use super::bench::Halted;
use super::host_bench::{ROOM_SHARE, alone, unavailable};
use super::turns::{self, Progress, Turns, Written};

/// Bytes of a file for it, at least.
const RANGE_MIN_BYTES: u64 = 16 << 20;

/// The drives of these members, by a place on each: members on one file system are on one drive.
fn drives_of(members: &[Place]) -> Vec<&Path> {
    let mut drives: BTreeMap<(bool, u64), &Path> = BTreeMap::new();
    for path in members.iter().filter_map(Place::path) {
        let of_device = is_block_device(path);
        let named = if of_device { path } else { path.parent().unwrap_or(path) };
        if let Ok(metadata) = named.metadata() {
            let number = if of_device { metadata.rdev() } else { metadata.dev() };
            drives.entry((of_device, number)).or_insert(path);
        }
    }
    drives.into_values().collect()
}

/// For how long a turn members are steady, of whom `members` are places; `None` where there is no room to see it.
pub(super) fn turns(
    backend: Backend,
    members: &[Place],
    run: &SteadyRun<'_>,
    tell: &mut impl FnMut(&'static str, u64, u64),
) -> Result<Option<Turns>, Halted> {
    let drives = drives_of(members);
    let mut look = || -> Result<Option<Turns>, Halted> {
        let written = alone(backend, async |handle| written(&handle, &drives, run, tell).await)??;
        match run.interrupt.is_asked() {
            true => Err(Halted::Stopped),
            false => Ok(written.map(|written| {
                Turns::of(&written, RingOptions::default().turn_ns as f64 / 1e9, run.room_bytes)
            })),
        }
    };
    let Some(found) = look()? else { return Ok(None) };
    // One stall may look like a drive that pauses.
    if found.turn_s * 1e9 > RingOptions::default().turn_ns as f64
        && let Some(again) = look()?
    {
        return Ok(Some(found.once_more(again)));
    }
    Ok(Some(found))
}

/// How members are written to, to see for how long a turn they are steady.
pub(super) struct SteadyRun<'a> {
    /// For how long.
    pub(super) duration_ns: u64,
    /// On how much of a device.
    pub(super) range_bytes: u64,
    /// What of a member's part may wait in the log.
    pub(super) room_bytes: u64,
    /// Ends it.
    pub(super) interrupt: &'a Interrupt,
}

/// What pages that are written to these drives come to over time; `None` where there is no drive, or no room.
async fn written(
    handle: &Loop,
    drives: &[&Path],
    run: &SteadyRun<'_>,
    tell: &mut impl FnMut(&'static str, u64, u64),
) -> Result<Option<Vec<Written>>, Halted> {
    let options = DriveOptions::default();
    let (mut devices, mut scratch) = (Vec::new(), Vec::new());
    for path in drives {
        let (drive, range_bytes) = match path.symlink_metadata().is_ok() {
            true => {
                let drive = FileDrive::open(handle, path, options).map_err(unavailable)?;
                let range_bytes = drive.geometry().size_bytes.min(run.range_bytes);
                (drive, range_bytes)
            }
            false => {
                let free =
                    path.parent().and_then(|folder| space_bytes(folder).ok()).map_or(0, |(_, free)| free);
                let bytes = run.range_bytes.min(free / ROOM_SHARE);
                if bytes < RANGE_MIN_BYTES {
                    return Ok(None);
                }
                let made = FileDrive::create_scratch(handle, path, bytes, Fill::Reserved, options, |_, _| ());
                let (drive, guard) = made.await.map_err(unavailable)?;
                scratch.push(guard);
                (drive, bytes)
            }
        };
        devices.push((Rc::new(drive), range_bytes / PAGE_BYTES * PAGE_BYTES));
    }
    if devices.is_empty() {
        return Ok(None);
    }
    let progress = Progress {
        tell: &mut |done, all| tell("seeing how steadily members are written", done, all),
        is_stopped: &|| run.interrupt.is_asked(),
    };
    let written = turns::sample(handle, &devices, run.duration_ns, progress).await;
    drop(scratch);
    written.map(Some).map_err(unavailable)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn members_are_written_to_side_by_side_and_nothing_is_left_of_that() {
        let folder = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let run = SteadyRun {
            duration_ns: 200_000_000,
            range_bytes: 16 << 20,
            room_bytes: 1 << 30,
            interrupt: &interrupt,
        };
        let members = ["one", "other"].map(|name| Place::from(folder.path().join(name)));
        assert_eq!(drives_of(&members).len(), 1, "they share a file system");
        let mut told = Vec::new();
        let found = turns(Backend::Auto, &members, &run, &mut |_, done, all| told.push((done, all)))
            .unwrap()
            .unwrap();
        assert!(found.turn_s == 1.0 && found.windows.is_empty(), "{found:?}");
        assert!(told.iter().all(|(done, all)| done <= all) && told.contains(&(16 << 20, 16 << 20)));
        let paths: Vec<PathBuf> = members.iter().filter_map(|it| Some(it.path()?.to_owned())).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let written =
            alone(Backend::Auto, async |handle| written(&handle, &paths, &run, &mut |_, _, _| ()).await);
        assert_eq!(written.unwrap().unwrap().unwrap().len(), 2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_ends_when_it_is_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        interrupt.ask();
        let run = SteadyRun {
            duration_ns: u64::MAX,
            range_bytes: 16 << 20,
            room_bytes: 1 << 30,
            interrupt: &interrupt,
        };
        let members = [Place::from(folder.path().join("one"))];
        let found = turns(Backend::Auto, &members, &run, &mut |_, _, _| ());
        assert!(matches!(found, Err(Halted::Stopped)), "{found:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
