//! `evenkeel create`, `mount`, `serve`, `daemon`, `status`, `tune`, `check`, `grow`, `replace`, `convert`, `salvage`, `renew-log` and `arenas`.

mod advice;
mod arenas;
mod check;
mod check_copies;
mod convert;
mod create;
mod daemon;
mod grow;
mod listening;
mod mount;
mod renew_log;
mod replace;
mod salvage;
mod salvage_report;
mod serve;
mod serve_limits;
mod serve_salvage;
mod status;
mod status_mirror;
mod tune;
mod watch;

use std::io;
use std::path::Path;

use evenkeel_host::event_loop::{Backend, EventLoop, Loop, Signals, race};
use evenkeel_host::stop_signals::STOP_SIGNALS;
use evenkeel_host::volume::description::Description;
use evenkeel_host::volume::member::Place;
use evenkeel_host::volume::rescue::{Deprived, deprived_server};
use evenkeel_host::volume::{LockedVolume, Recovered, VolumeError};
use evenkeel_measure::report::format;
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;

pub(crate) use advice::advise;
pub(crate) use arenas::run as arenas;
pub(crate) use check::run as check;
pub(crate) use convert::run as convert;
pub(crate) use create::run as create;
pub(crate) use daemon::run as daemon;
pub(crate) use grow::run as grow;
pub(crate) use mount::run as mount;
pub(crate) use renew_log::run as renew_log;
pub(crate) use replace::run as replace;
pub(crate) use salvage::run as salvage;
pub(crate) use serve::run as serve;
pub(crate) use status::run as status;
pub(crate) use tune::run as tune;

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        if let Some(line) = deprived(&error) {
            return Self::Unusable(line);
        }
        let next_step = match &error {
            VolumeError::Setting { setting, bytes, why } => {
                return Self::Unusable(format!("{} {bytes}: {why}", advice::flag(*setting)));
            }
            VolumeError::Path(path) if path.doing == "cannot connect" => match path.source.kind() {
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound | io::ErrorKind::TimedOut => {
                    "; start its server, or have volume.toml name where that listens now"
                }
                _ => "",
            },
            VolumeError::Path(path) => match path.source.kind() {
                io::ErrorKind::NotFound if path.doing == "cannot listen" => {
                    "; make the folder, or choose another socket"
                }
                io::ErrorKind::PermissionDenied => "; run as its owner, or choose another place",
                // What was said of several places has its own advice.
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                    if path.source.raw_os_error().is_some() =>
                {
                    "; free some room, or choose a smaller --size or another place"
                }
                io::ErrorKind::ReadOnlyFilesystem => {
                    "; the file system is read-only: mount it to be written to, or copy what is there: evenkeel salvage"
                }
                io::ErrorKind::AddrInUse => "; somebody listens there: choose another socket",
                _ => "",
            },
            _ => "",
        };
        Self::Unusable(format!("{}{next_step}", error.explained(advise)))
    }
}

/// What to do where there is no volume any more, and a process serves it still.
fn deprived(error: &VolumeError) -> Option<String> {
    let folder = match error {
        VolumeError::NotAVolume(folder) => folder,
        VolumeError::Description { path, .. } if path.symlink_metadata().is_err() => path.parent()?,
        _ => return None,
    };
    let Deprived { process, command } = deprived_server(folder)?;
    Some(format!(
        "{}: its volume.toml was removed while process {process} serves it; what was removed is lost when that ends: put \
         all of it back, and then serve the volume anew: `{command}`",
        folder.display()
    ))
}

/// Why a volume cannot be opened, and where it is damaged what to do.
fn with_salvage(volume: &Path, error: VolumeError) -> Failure {
    let renewed = match is_damage(volume, &error) {
        true => log_renewal(volume)
            .map(|command| format!("; it was stopped in order: make its log again: {command}")),
        false => None,
    };
    with_salvage_alone(volume, error, &renewed.unwrap_or_default())
}

/// The same of a volume of which it is known what becomes of its log.
fn with_salvage_alone(volume: &Path, error: VolumeError, renewed: &str) -> Failure {
    let is_damage = is_damage(volume, &error);
    if let VolumeError::Path(path) = &error
        && matches!(path.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    {
        return Failure::Unusable(format!("{error}; free some room there, and start again"));
    }
    match Failure::from(error) {
        Failure::Unusable(line) if is_damage => Failure::Unusable(format!(
            "{line}{renewed}; copy what can be had of it: evenkeel salvage {} OUT",
            quoted(volume)
        )),
        failure => failure,
    }
}

/// Whether a part of the volume is damaged or missing, for all that is known.
fn is_damage(volume: &Path, error: &VolumeError) -> bool {
    use evenkeel_engine::error::Error::{Damaged, Device, Unusable};
    match error {
        VolumeError::Engine { source: Device(error), .. } => !error.is_of_connection(),
        VolumeError::Engine { source: Unusable(_) | Damaged { .. }, .. } | VolumeError::Incomplete(_) => true,
        VolumeError::Path(path) if path.source.kind() == io::ErrorKind::NotFound => {
            let Ok((described, _)) = Description::read(volume) else { return false };
            let mut places =
                described.members.iter().chain(&described.logs).map(|it| it.place.within(volume));
            places.any(|place| place.path() == Some(&path.path))
        }
        _ => false,
    }
}

/// The command that makes the log of the volume again, if it is lost and can be.
fn log_renewal(volume: &Path) -> Option<String> {
    let locked = LockedVolume::lock(volume).ok()?;
    let logs: Vec<Place> = locked.description().logs.iter().map(|log| log.place.within(volume)).collect();
    let event_loop = event_loop(Backend::Threads).ok()?;
    let planned = event_loop.block_on(locked.plan_log_renewal(&event_loop.handle(), &logs)).ok()?;
    let over = planned.iter().filter(|log| log.overwrites);
    let over: String = over.map(|log| format!(" --destroy {}", log.place.quoted())).collect();
    Some(format!("evenkeel renew-log {}{over}", quoted(volume)))
}

/// The line that says what a cut or a kill had left to be done; empty where it was nothing.
fn recovered(Recovered { records, writes, .. }: Recovered) -> String {
    if records + writes == 0 {
        return String::new();
    }
    let (records, writes) = (format::counted(records, "record"), format::counted(writes, "write"));
    format!("recovered: {records} of the log, {writes} kept in memory\n")
}

/// A path as a shell takes it for itself, and nothing in it for more.
fn quoted(path: &Path) -> String {
    Place::from(path.to_owned()).quoted()
}

/// What a long piece of work shows.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{msg:24} {bar:30} {percent}%");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Shows what is being done, and how far it is.
fn show(bar: &ProgressBar, doing: &str, done: u64, all: u64) {
    bar.set_message(doing.to_owned());
    bar.set_length(all);
    bar.set_position(done);
}

/// The volume, locked, where no other process has it; and what its folder says of it.
fn locked_or_served(volume: &Path) -> Result<(Option<LockedVolume>, Description), Failure> {
    match LockedVolume::lock(volume) {
        Ok(locked) => {
            let description = locked.description();
            Ok((Some(locked), description))
        }
        Err(VolumeError::InUse(_)) => Ok((None, Description::read(volume)?.0)),
        Err(error) => Err(error.into()),
    }
}

/// The signals at which work is given up.
fn stop_signals(event_loop: &Loop) -> Result<Signals, Failure> {
    let signals = event_loop.signals(&STOP_SIGNALS);
    signals.map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))
}

/// Does what can be given up at a signal.
fn interruptible<T>(
    event_loop: &EventLoop,
    signals: &Signals,
    work: impl Future<Output = Result<T, VolumeError>>,
) -> Result<T, Failure> {
    let done = event_loop.block_on(race(async { Some(work.await) }, async {
        let _came = signals.next().await;
        None
    }));
    done.map_or(Err(Failure::Interrupted), |done| done.map_err(Failure::from))
}

fn event_loop(backend: Backend) -> Result<EventLoop, Failure> {
    EventLoop::new(backend).map_err(|error| {
        Failure::Unusable(format!("cannot ask the kernel for I/O: {error}; try --backend threads"))
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_host::path_error::PathError;

    use super::*;

    #[test]
    fn a_salvage_is_offered_where_a_drive_fails_and_not_where_its_server_is_away() {
        for (errno, is_offered) in
            [(libc::EIO, true), (libc::ECONNRESET, false), (libc::ESHUTDOWN, false), (libc::ETIMEDOUT, false)]
        {
            let source = evenkeel_engine::error::DeviceError { doing: "read a member", errno }.into();
            let error = VolumeError::Engine { folder: "disk".into(), source };
            let Failure::Unusable(line) = with_salvage(Path::new("disk"), error) else { panic!("{errno}") };
            assert_eq!(line.contains("evenkeel salvage"), is_offered, "{line}");
        }
    }

    #[test]
    fn a_start_that_finds_no_room_is_not_told_to_choose_a_size() {
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let path = PathError::new(Path::new("disk/arena"), "cannot make it", full);
        let Failure::Unusable(line) = with_salvage(Path::new("disk"), path.into()) else { panic!("another") };
        assert!(line.contains("free some room there") && !line.contains("--size"), "{line}");
    }

    #[test]
    fn a_shell_takes_a_path_for_what_it_is() {
        for (path, quoting) in [
            ("disk", "disk"),
            ("/srv/a-b_c.d", "/srv/a-b_c.d"),
            ("a b?&c", "'a b?&c'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a\nb'\\\u{1b}", r"$'a\012b\'\\\033'"),
        ] {
            assert_eq!(quoted(Path::new(path)), quoting);
        }
    }

    #[test]
    fn one_is_not_many_and_nothing_is_not_told() {
        let recovered = |records, writes| recovered(Recovered { records, writes, memory_is_gone: false });
        assert_eq!(recovered(0, 0), "");
        assert_eq!(recovered(1, 0), "recovered: 1 record of the log, 0 writes kept in memory\n");
        assert_eq!(recovered(12_345, 1), "recovered: 12,345 records of the log, 1 write kept in memory\n");
    }
}
