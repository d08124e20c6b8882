//! What somebody else does in the same file system meanwhile.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::database::{Done, Running, now_s};
use crate::neighbours::{make_many, write_file};
use crate::table::{Cost, Measured};
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

/// When it was at work.
struct Work {
    began_s: f64,
    ended_s: f64,
    streamed_mib: f64,
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
                let streamed_mib = self.work(database, folder, args, &is_over)?;
                Ok(Work { began_s, ended_s: now_s(), streamed_mib })
            });
            let load = database.load(args.seconds as f64);
            is_over.store(true, Ordering::Release);
            let at_work = thread.join().unwrap_or(Err("the neighbour panicked".to_owned()));
            Ok::<_, String>((load?, at_work?))
        })?;
        let Work { began_s, ended_s, streamed_mib } = at_work;
        let last_s = load.done.iter().map(|it| it.at_s).fold(began_s, f64::max);
        let is_beside = |it: &&Done| it.at_s >= began_s && it.at_s - it.took_s <= ended_s;
        let counted = load.done.iter().filter(|it| self == Self::None || is_beside(it));
        let latencies_s: Vec<f64> = counted.map(|it| it.took_s).collect();
        Ok(Measured::of(
            &latencies_s,
            ended_s.min(last_s) - began_s,
            match self {
                Self::None => None,
                Self::Stream => Some(Cost::MibPerS(streamed_mib / (ended_s - began_s))),
                Self::Removal | Self::Checkpoint => Some(Cost::Seconds(ended_s - began_s)),
            },
            load.sync_p99_s.filter(|_| self == Self::None),
        ))
    }

    /// Works, and answers how many MiB it streamed.
    fn work(self, database: &dyn Running, folder: &Path, args: &Args, is_over: &AtomicBool) -> Outcome<f64> {
        let mut streamed_mib = 0.0;
        match self {
            Self::None => {
                while !is_over.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(10));
                }
            }
            Self::Stream => {
                while !is_over.load(Ordering::Acquire) {
                    write_file(&folder.join("stream"), args.stream_mib, false)?;
                    streamed_mib += args.stream_mib as f64;
                }
            }
            Self::Removal => {
                let many = folder.join("many");
                fs::remove_dir_all(&many).map_err(|error| format!("{}: {error}", many.display()))?;
            }
            Self::Checkpoint => database.checkpoint()?,
        }
        Ok(streamed_mib)
    }
}
