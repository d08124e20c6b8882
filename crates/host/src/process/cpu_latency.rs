//! How long processors may take to wake, for as long as this process wants it (PM QoS of Linux: whoever keeps
//! `/dev/cpu_dma_latency` open with a number of microseconds in it has the idle states left out that take longer).
//!
//! 1. It holds for the whole machine, and takes power: so it is wanted only while it is of use.
//! 2. The kernel forgets the wish with the process, however that ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Where the kernel takes wishes.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// A bound of the time in which a processor wakes.
#[derive(Debug)]
pub struct CpuLatency {
    max_us: i32,
    /// Open as long as it is wanted.
    wanted: Option<File>,
}

impl CpuLatency {
    /// `max` at most, once it is wanted; what is beyond a microsecond is left out.
    ///
    /// # Errors
    ///
    /// Those of opening the kernel's device, which as a rule root alone may do.
    pub fn new(max: Duration) -> io::Result<Self> {
        open(Path::new(DEVICE))?;
        Ok(Self { max_us: i32::try_from(max.as_micros()).unwrap_or(i32::MAX), wanted: None })
    }

    /// Whether it is wanted from now on.
    ///
    /// # Errors
    ///
    /// Those of the kernel's device.
    pub fn want(&mut self, is_wanted: bool) -> io::Result<()> {
        if is_wanted == self.wanted.is_some() {
            return Ok(());
        }
        self.wanted = None;
        if is_wanted {
            let mut device = open(Path::new(DEVICE))?;
            device.write_all(&self.max_us.to_ne_bytes())?;
            self.wanted = Some(device);
        }
        Ok(())
    }
}

fn open(device: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(device)
}
