//! What somebody else does in the same file system meanwhile.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::database::{Running, now_s};
use crate::neighbours::{make_many, write_file};
use crate::table::Measured;
use crate::{Args, Outcome};

/// A neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Neighbour {
    /// Nobody.
    None,
    /// Writes a large file again and again, and syncs nothing.
    Stream,
    /// Removes many files.
    Removal,
    /// The database itself, which writes home what it keeps in memory.
    Checkpoint,
}

/// How long the load goes on before the neighbour begins.
const LEAD: Duration = Duration::from_secs(1);

impl Neighbour {
    pub(crate) fn name(self, args: &Args) -> String {
        match self {
            Self::None => "alone".to_owned(),
            Self::Stream => format!("beside {} MiB, unsynced, again and again", args.stream_mib),
            Self::Removal => format!("beside rm -rf of {} files", args.removed_files),
            Self::Checkpoint => "beside a checkpoint".to_owned(),
        }
    }

    /// In a word or two.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Self::None => "alone",
            Self::Stream => "stream",
            Self::Removal => "rm -rf",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// Makes `folder`, and in it what it needs; whether that is anything.
    pub(crate) fn prepare(self, folder: &Path, args: &Args) -> Outcome<bool> {
        fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if self == Self::Removal {
            make_many(&folder.join("many"), args.removed_files)?;
        }
        Ok(self == Self::Removal)
    }

    /// Removes what it left.
    pub(crate) fn clean(folder: &Path) -> Outcome {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// The load of a database beside it.
    pub(crate) fn beside(self, database: &dyn Running, folder: &Path, args: &Args) -> Outcome<Measured> {
        let is_over = AtomicBool::new(false);
        let (load, at_work) = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                if self != Self::None {
                    thread::sleep(LEAD);
                }
                let began_s = now_s();
                self.work(database, folder, args, &is_over)?;
                Ok((began_s, now_s()))
            });
            let load = database.load(args.seconds);
            is_over.store(true, Ordering::Release);
            let at_work = thread.join().unwrap_or(Err("the neighbour panicked".to_owned()));
            Ok::<_, String>((load?, at_work?))
        })?;
        let (done, (began_s, ended_s)) = (&load.done, at_work);
        let last_s = done.iter().map(|it| it.at_s).fold(began_s, f64::max);
        let counted = done.iter().filter(|it| self == Self::None || (began_s..=ended_s).contains(&it.at_s));
        let latencies_s: Vec<f64> = counted.map(|it| it.took_s).collect();
        Ok(Measured::of(&latencies_s, ended_s.min(last_s) - began_s, ended_s - began_s, load.sync_p99_s))
    }

    fn work(self, database: &dyn Running, folder: &Path, args: &Args, is_over: &AtomicBool) -> Outcome {
        match self {
            Self::None => {
                while !is_over.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(10));
                }
                Ok(())
            }
            Self::Stream => {
                while !is_over.load(Ordering::Acquire) {
                    write_file(&folder.join("stream"), args.stream_mib, false)?;
                }
                Ok(())
            }
            Self::Removal => {
                let many = folder.join("many");
                fs::remove_dir_all(&many).map_err(|error| format!("{}: {error}", many.display()))
            }
            Self::Checkpoint => database.checkpoint(),
        }
    }
}
