//! A whole trace at a glance: what it asks of which device, and whether all of it can be read.
//!
//! Whoever replays a trace surveys it first: a line that cannot be read is found before anything is written.

use std::io::Read;

use super::{Access, DeviceId, Format, Op, TraceError, TraceReader};

/// Accesses between two looks at whether to go on.
const STRIDE: u64 = 1 << 14;

/// What a trace asks of one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceSurvey {
    /// Its name in the trace.
    pub name: String,
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Requests to flush.
    pub flushes: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Bytes of the longest request.
    pub longest_bytes: u32,
    /// The byte behind the last one that any request names.
    pub reach_bytes: u64,
    /// Time of the earliest request, on the recorder's clock.
    pub first_ns: u64,
    /// Time of the latest one.
    pub last_ns: u64,
}

impl DeviceSurvey {
    /// Requests of all kinds.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes
    }

    fn add(&mut self, access: &Access) {
        if self.requests() == 0 {
            self.first_ns = access.time_ns;
        }
        let bytes = u64::from(access.len_bytes);
        match access.op {
            Op::Read => {
                self.reads += 1;
                self.read_bytes = self.read_bytes.saturating_add(bytes);
            }
            Op::Write => {
                self.writes += 1;
                self.written_bytes = self.written_bytes.saturating_add(bytes);
            }
            Op::Flush => self.flushes += 1,
        }
        self.longest_bytes = self.longest_bytes.max(access.len_bytes);
        self.reach_bytes = self.reach_bytes.max(access.end());
        self.first_ns = self.first_ns.min(access.time_ns);
        self.last_ns = self.last_ns.max(access.time_ns);
    }
}

/// What a trace holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// How it is written.
    pub format: Format,
    /// Its devices, in the order in which it names them.
    pub devices: Vec<DeviceSurvey>,
    /// Lines or records that move no bytes.
    pub skipped: u64,
}

impl Survey {
    /// Reads all of `trace`; `None` where `goes_on`, which is asked now and then, says no.
    ///
    /// # Errors
    ///
    /// Those of the trace.
    pub fn of<R: Read>(
        trace: &mut TraceReader<R>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Option<Self>, TraceError> {
        let mut devices: Vec<DeviceSurvey> = Vec::new();
        let mut count = 0;
        while let Some(access) = trace.next().transpose()? {
            let DeviceId(device) = access.device;
            let names = trace.devices().names();
            while devices.len() <= device as usize {
                devices.push(DeviceSurvey { name: names[devices.len()].clone(), ..DeviceSurvey::default() });
            }
            devices[device as usize].add(&access);
            count += 1;
            if count % STRIDE == 0 && !goes_on() {
                return Ok(None);
            }
        }
        Ok(Some(Self { format: trace.format(), devices, skipped: trace.skipped() }))
    }
}
