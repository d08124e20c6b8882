//! `evenkeel salvage`.

use std::cell::Cell;
use std::fs::{File, OpenOptions as FileOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::salvage::DamageList;
use evenkeel_host::arena::Content;
use evenkeel_host::drive::is_among_devices;
use evenkeel_host::event_loop::{Backend, Loop, race};
use evenkeel_host::volume::LockedVolume;
use evenkeel_host::volume::salvage::OpenSalvage;
use evenkeel_measure::report::format;
use indicatif::ProgressBar;

use super::salvage_report::Report;
use super::{event_loop, progress_bar, quoted, stop_signals};
use crate::args::SalvageArgs;
use crate::failure::Failure;
use crate::stdout::say;

/// Bytes that are read before anything else is looked at.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of which none is written where all are zeros.
const HOLE_BYTES: usize = 4096;

/// Asks for exclusive use of a block device, as in open(2) and `asm-generic/fcntl.h`.
const O_EXCL: i32 = 0o200;

/// Copies what can be had of a volume, or says what could.
pub(crate) fn run(args: &SalvageArgs) -> Result<(), Failure> {
    let locked = LockedVolume::lock(&args.volume)?;
    let out = args.out.as_deref().filter(|_| !args.dry_run);
    if let Some(out) = out {
        Out::check(out, args.destroy.as_deref())?;
    }
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let bar = progress_bar();
    let copied_bytes = Cell::new(None);
    let report = event_loop.block_on(race(
        async { Some(copy(&handle, locked, out, &bar, &copied_bytes).await) },
        async {
            let _which = signals.next().await;
            None
        },
    ));
    bar.finish_and_clear();
    let Some(report) = report else {
        return Err(Failure::Stopped(match (out, copied_bytes.get()) {
            (Some(out), Some(bytes)) => format!(
                "interrupted; in {} {}: remove it, or run this again with --destroy {}",
                out.display(),
                first(bytes),
                quoted(out)
            ),
            _ => "interrupted; nothing was written".to_owned(),
        }));
    };
    let report = report?;
    say(&if args.json { report.json() } else { report.text() })?;
    report.verdict()
}

/// Reads all of a volume, into `out` if there is one.
async fn copy(
    event_loop: &Loop,
    locked: LockedVolume,
    out: Option<&Path>,
    bar: &ProgressBar,
    copied_bytes: &Cell<Option<u64>>,
) -> Result<Report, Failure> {
    let folder = locked.folder().to_owned();
    bar.set_message("looking at checksums");
    let open = OpenSalvage::open(event_loop, locked, OpenOptions::default(), |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    })
    .await?;
    let size_bytes = open.salvaged.size_bytes();
    let out = out.map(|path| Out::open(path, size_bytes)).transpose()?;
    bar.set_message(if out.is_some() { "copying" } else { "reading" });
    bar.set_length(size_bytes);
    let mut lost = DamageList::default();
    let mut bytes = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < size_bytes {
        let len = (size_bytes - at).min(PIECE_BYTES as u64) as usize;
        open.salvaged.read(at, &mut bytes[..len], &mut lost).await;
        if let Some(out) = &out {
            out.write(at, &bytes[..len])?;
            copied_bytes.set(Some(at + len as u64));
        }
        at += len as u64;
        bar.set_position(at);
    }
    if let Some(out) = &out {
        out.settle()?;
    }
    Ok(Report::of(folder, out.map(|out| out.path), &open, lost))
}

/// Where the bytes go.
struct Out {
    path: PathBuf,
    file: File,
    /// Whether zeros have to be written, as other bytes may be there.
    writes_zeros: bool,
}

impl Out {
    /// That `path` may be written.
    fn check(path: &Path, destroy: Option<&Path>) -> Result<(), Failure> {
        let found = path.metadata();
        if found.as_ref().is_ok_and(|found| !found.is_file() && !found.file_type().is_block_device()) {
            let why = "it is neither a file nor a block device; choose another place for OUT";
            return Err(Failure::about(path, why));
        }
        if found.is_err() && is_among_devices(path) {
            let why = "no such device is there; `lsblk` lists them; choose another place for OUT";
            return Err(Failure::about(path, why));
        }
        match path.symlink_metadata() {
            Ok(_) if destroy != Some(path) => Err(Failure::about(
                path,
                format!(
                    "it is there already; choose a new name, or overwrite it with --destroy {}",
                    quoted(path)
                ),
            )),
            _ => Ok(()),
        }
    }

    fn open(path: &Path, size_bytes: u64) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::about(path, format!("cannot write: {error}; choose another place for OUT"))
        };
        let found = path.metadata().ok();
        let is_device = found.as_ref().is_some_and(|found| found.file_type().is_block_device());
        let mut options = FileOptions::new();
        options.read(true).write(true).create_new(found.is_none()).mode(0o600);
        if is_device {
            options.custom_flags(O_EXCL);
        }
        let file = options.open(path).map_err(failed)?;
        // A member of this volume is locked by now, as that of any that is in use.
        file.try_lock().map_err(|_| {
            Failure::about(path, "it is in use, perhaps by this volume; choose another place for OUT")
        })?;
        // Whoever's it is.
        if matches!(Content::of(&file), Ok(Content::Arena(_) | Content::OtherVersion)) {
            let why = "acknowledged writes of a volume wait in it; choose another place for OUT";
            return Err(Failure::about(path, why));
        }
        if is_device {
            use std::io::{Seek, SeekFrom};
            let room = (&file).seek(SeekFrom::End(0)).map_err(failed)?;
            if room < size_bytes {
                let (room, needed) = (format::bytes(room), format::bytes(size_bytes));
                return Err(Failure::about(path, format!("it has {room}, and {needed} are needed")));
            }
        } else {
            file.set_len(0).and_then(|()| file.set_len(size_bytes)).map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), file, writes_zeros: is_device })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let is_hole = |part: &&[u8]| !self.writes_zeros && part.iter().all(|&byte| byte == 0);
        let mut at = 0;
        let parts: Vec<&[u8]> = bytes.chunks(HOLE_BYTES).collect();
        for run in parts.chunk_by(|one, next| is_hole(one) == is_hole(next)) {
            let len: usize = run.iter().map(|part| part.len()).sum();
            if !is_hole(&run[0]) {
                let written = self.file.write_all_at(&bytes[at..at + len], offset + at as u64);
                written.map_err(|error| self.failed(&error, &first(offset)))?;
            }
            at += len;
        }
        Ok(())
    }

    /// Makes it durable.
    fn settle(&self) -> Result<(), Failure> {
        let what = "any part of the volume may be missing there";
        self.file.sync_all().map_err(|error| self.failed(&error, what))
    }

    fn failed(&self, error: &io::Error, what_is_there: &str) -> Failure {
        Failure::about(
            &self.path,
            format!("cannot write: {error}; {what_is_there}: remove it, make room, and run this again"),
        )
    }
}

/// What is there where so many bytes of the volume are.
fn first(bytes: u64) -> String {
    match bytes {
        0 => "nothing of the volume is there yet".to_owned(),
        bytes => {
            format!("the first {} bytes of the volume are there, and nothing else", format::count(bytes))
        }
    }
}
