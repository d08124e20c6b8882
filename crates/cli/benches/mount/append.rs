//! Who appends a little to a file and syncs it, again and again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::rounds::quantile;

/// Bytes of an append.
pub(crate) const BYTES: usize = 1024;

/// What appends took.
#[derive(Debug, Default, Clone)]
pub(crate) struct Appends {
    /// Of each append and its fdatasync, in seconds.
    pub(crate) latencies_s: Vec<f64>,
}

impl Appends {
    /// The latency that a share of them stays below.
    pub(crate) fn quantile_s(&self, share: f64) -> f64 {
        quantile(&self.latencies_s, share)
    }
}

/// A file that is appended to.
pub(crate) struct Appender {
    file: File,
    block: [u8; BYTES],
}

impl Appender {
    pub(crate) fn new(at: &Path) -> Outcome<Self> {
        let file = OpenOptions::new().append(true).create(true).open(at);
        let file = file.map_err(|error| format!("{}: {error}", at.display()))?;
        Ok(Self { file, block: [0x5a; BYTES] })
    }

    /// Appends and syncs; how long that took.
    pub(crate) fn once(&mut self) -> Outcome<f64> {
        // No two blocks are equal, so that nothing can leave one out.
        let count = u64::from_le_bytes(self.block[..8].try_into().unwrap_or_default());
        self.block[..8].copy_from_slice(&count.wrapping_add(1).to_le_bytes());
        let began = Instant::now();
        self.file.write_all(&self.block).map_err(|error| format!("append: {error}"))?;
        self.file.sync_data().map_err(|error| format!("fdatasync: {error}"))?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Appends while `goes_on` says so, and `at_least` so often.
    pub(crate) fn run(&mut self, at_least: usize, goes_on: impl Fn() -> bool) -> Outcome<Appends> {
        let mut appends = Appends::default();
        while appends.latencies_s.len() < at_least || goes_on() {
            appends.latencies_s.push(self.once()?);
        }
        Ok(appends)
    }

    /// Appends for a time.
    pub(crate) fn run_for(&mut self, time: Duration) -> Outcome<Appends> {
        let began = Instant::now();
        self.run(0, || began.elapsed() < time)
    }
}
