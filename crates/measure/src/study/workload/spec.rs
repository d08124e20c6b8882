//! Filebench's mailserver (varmail), fileserver and webserver: its defaults, and the operations of each.

use serde::{Deserialize, Serialize};

use super::operation::Step;

/// Files of a data set there are at most.
const FILES_MAX: u32 = 10_000_000;
/// Threads there are at most.
const THREADS_MAX: u32 = 1024;
/// The largest mean size of files.
const MEAN_SIZE_BYTES_MAX: u64 = 1 << 30;

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Personality {
    /// Many small synchronous appends in one folder (Filebench's varmail).
    Mailserver,
    /// Home directories.
    Fileserver,
    /// Reads, and a log that all threads append to.
    Webserver,
}

impl Personality {
    /// Each with its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("mailserver", Self::Mailserver), ("fileserver", Self::Fileserver), ("webserver", Self::Webserver)];

    /// The one of this name; `varmail` is the mailserver.
    pub fn named(name: &str) -> Option<Self> {
        let name = if name == "varmail" { "mailserver" } else { name };
        Self::ALL.iter().find(|(other, _)| *other == name).map(|(_, personality)| *personality)
    }

    /// What each thread repeats.
    pub fn steps(self) -> &'static [Step] {
        match self {
            Self::Mailserver => &MAILSERVER,
            Self::Fileserver => &FILESERVER,
            Self::Webserver => &WEBSERVER,
        }
    }
}

use Step::{Append, AppendToLog, Close, Create, Delete, Fsync, Open, ReadWhole, Stat, WriteWhole};

const MAILSERVER: [Step; 13] =
    [Delete, Create, Append, Fsync, Close, Open, ReadWhole, Append, Fsync, Close, Open, ReadWhole, Close];
const FILESERVER: [Step; 11] =
    [Create, WriteWhole, Close, Open, Append, Close, Open, ReadWhole, Close, Delete, Stat];
const WEBSERVER: [Step; 31] = {
    let mut steps = [AppendToLog; 31];
    let mut at = 0;
    while at < 30 {
        steps[at] = [Open, ReadWhole, Close][at % 3];
        at += 1;
    }
    steps
};

/// A data set of files, and who uses it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileWorkload {
    /// What the threads do.
    pub personality: Personality,
    /// Files there may be.
    pub files: u32,
    /// Mean of their sizes, which are gamma distributed with shape 1.5.
    pub mean_size_bytes: u64,
    /// Mean number of entries of a folder.
    pub mean_dir_width: u32,
    /// Threads.
    pub threads: u32,
    /// The share of the files that is there when the run begins.
    pub preallocated_share: f64,
    /// An append is 1 to so many bytes, each length as likely as another.
    pub append_bytes_max: u64,
    /// The share of the data that a compressor can take away.
    pub compressible: f64,
}

impl FileWorkload {
    /// With Filebench's defaults.
    pub fn of(personality: Personality) -> Self {
        let (files, mean_size_bytes, mean_dir_width, threads, preallocated_share) = match personality {
            Personality::Mailserver => (1_000, 16 << 10, 1_000_000, 16, 0.8),
            Personality::Fileserver => (10_000, 128 << 10, 20, 50, 0.8),
            Personality::Webserver => (1_000, 16 << 10, 20, 100, 1.0),
        };
        Self {
            personality,
            files,
            mean_size_bytes,
            mean_dir_width,
            threads,
            preallocated_share,
            append_bytes_max: 16 << 10,
            compressible: 0.5,
        }
    }

    /// As many files as make up so many bytes; their mean size is the workload's own.
    pub fn scale_to(&mut self, data_bytes: u64) {
        let files = data_bytes.div_ceil(self.mean_size_bytes);
        self.files = u32::try_from(files).unwrap_or(u32::MAX).max(self.files_min());
    }

    /// Bytes that its files have together, by their mean.
    pub fn data_bytes(&self) -> u64 {
        u64::from(self.files) * self.mean_size_bytes
    }

    /// With fewer files a thread could find none to create, or none to delete that no other one holds.
    fn files_min(&self) -> u32 {
        match self.preallocated_share < 1.0 {
            true => self.threads.saturating_mul(6),
            false => 1,
        }
    }

    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        if self.threads == 0 || self.threads > THREADS_MAX {
            return Err(format!("threads: 1 to {THREADS_MAX}"));
        }
        if self.mean_size_bytes == 0 || self.mean_size_bytes > MEAN_SIZE_BYTES_MAX {
            return Err("mean_size: 1 byte to 1 GiB".to_owned());
        }
        if self.mean_dir_width < 2 {
            return Err("dir_width: at least 2".to_owned());
        }
        if self.files > FILES_MAX {
            return Err(format!("files: at most {FILES_MAX}; make [data] smaller"));
        }
        if self.files < self.files_min() {
            return Err(format!(
                "{} files are too few for {} threads, which would wait for one another: at least {}",
                self.files,
                self.threads,
                self.files_min()
            ));
        }
        Ok(())
    }
}
