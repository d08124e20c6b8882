//! What is to be compared.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub const USAGE: &str = "\
usage: raft [FOLDER] [--streams 1,8,32,100] [--rounds 5] [--seconds 4] [--log-mib 512] [--in-flight 2]
            [--ways raft-engine,threads,tasks,loop] [--keep | --discard] [--each]
            [--atomic-sectors]";

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// N threads, through the crate raft-engine.
    RaftEngine,
    /// N threads, through the embedded handle.
    Threads,
    /// N tasks of one other thread, through the embedded handle.
    Tasks,
    /// N tasks on the volume's own event loop.
    OnLoop,
}

impl Way {
    const ALL: [(&str, Way); 4] = [
        ("raft-engine", Way::RaftEngine),
        ("threads", Way::Threads),
        ("tasks", Way::Tasks),
        ("loop", Way::OnLoop),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Way::RaftEngine => "raft-engine",
            Way::Threads => "evenkeel, threads",
            Way::Tasks => "evenkeel, tasks",
            Way::OnLoop => "evenkeel, on loop",
        }
    }
}

#[derive(Debug)]
pub struct Options {
    pub folder: PathBuf,
    pub streams: Vec<usize>,
    pub rounds: usize,
    pub run_time: Duration,
    pub log_bytes: u64,
    pub commits_in_flight: usize,
    pub ways: Vec<Way>,
    pub keep: bool,
    pub discard: bool,
    pub each: bool,
    /// Whether the disk is taken to leave a sector old or new when the power fails.
    pub atomic_sectors: bool,
}

impl Options {
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            folder: ".".into(),
            streams: vec![1, 8, 32, 100],
            rounds: 5,
            run_time: Duration::from_secs(4),
            log_bytes: 512 << 20,
            commits_in_flight: 2,
            ways: vec![Way::RaftEngine, Way::Threads],
            keep: true,
            discard: true,
            each: false,
            atomic_sectors: false,
        };
        // `cargo bench` adds this one.
        let mut words = arguments.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} takes a value"));
            match word.as_str() {
                "--streams" => options.streams = list(&value()?, |word| number(word))?,
                "--rounds" => options.rounds = number(&value()?)?,
                "--seconds" => options.run_time = Duration::from_secs(number(&value()?)?),
                "--log-mib" => options.log_bytes = number::<u64>(&value()?)? << 20,
                "--in-flight" => options.commits_in_flight = number(&value()?)?,
                "--ways" => {
                    options.ways = list(&value()?, |word| {
                        let found = Way::ALL.iter().find(|(name, _)| *name == word);
                        found.map(|&(_, way)| way).ok_or(format!("there is no way `{word}`"))
                    })?;
                }
                "--keep" => options.discard = false,
                "--atomic-sectors" => options.atomic_sectors = true,
                "--each" => options.each = true,
                "--discard" => options.keep = false,
                flag if flag.starts_with('-') => return Err(format!("there is no option `{flag}`")),
                folder => options.folder = folder.into(),
            }
        }
        Ok(options)
    }

    /// Without and with the old part of the logs discarded, as asked.
    pub fn discards(&self) -> impl Iterator<Item = bool> {
        [(self.keep, false), (self.discard, true)].into_iter().filter(|case| case.0).map(|case| case.1)
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}

fn list<T>(words: &str, each: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    words.split(',').map(each).collect()
}
