//! The records of the stripe log, for who copies them to another log device.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::super::{Inner, MirrorPages};
use super::Striping;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::layout::{LiveRecord, LiveRecords};
use crate::planted::{Bug, is_planted};
use crate::ring::EIO;

/// The stripe log of a ring, in this zone of the log devices.
pub(in crate::layout::mirror) struct LoggedStripes<E, M> {
    ring: Rc<Inner<E, M>>,
    zone: Extent,
}

impl<E: Env, M: Drive> LoggedStripes<E, M> {
    pub(in crate::layout::mirror) fn new(ring: &MirrorPages<E, M>, zone: Extent) -> Self {
        Self { ring: Rc::clone(&ring.0), zone }
    }

    fn striping(&self) -> Result<&Striping, DeviceError> {
        let none = DeviceError { doing: "find the log of stripes", errno: EIO };
        self.ring.striping.as_ref().ok_or(none)
    }
}

impl<E: Env, M: Drive> LiveRecords for LoggedStripes<E, M> {
    fn room_end(&self) -> u64 {
        self.zone.end()
    }

    /// Leaves a record that changes nothing. What is copied to is given that one too: whatever older ones are there already,
    /// and are needed no more, do not count.
    fn durable_by_now(&self) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + '_>> {
        Box::pin(async move {
            let striping = self.striping()?;
            if is_planted(Bug::StripesLogCopyUnmarked) {
                return Ok(striping.log.next_sequence());
            }
            let record = self.ring.log_change(striping, 0, &[], &[]).await?;
            striping.log.note_write(record, self.ring.progress.flushed.get());
            Ok(record)
        })
    }

    fn first_from(&self, sequence: u64) -> Option<LiveRecord> {
        let live = self.striping().ok()?.log.first_live_from(sequence)?;
        Some(LiveRecord { offset: self.zone.offset + live.offset, ..live })
    }

    fn is_it(&self, record: LiveRecord, bytes: &[u8]) -> bool {
        let record = LiveRecord { offset: record.offset - self.zone.offset, ..record };
        self.striping().is_ok_and(|striping| striping.log.is_record(&striping.stripes, record, bytes))
    }
}
