//! The records of the stripe log, for who copies them to another log device.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::super::{Inner, MirrorPages};
use super::Striping;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::layout::{LiveRecord, LiveRecords};
use crate::notify::Notify;
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

    fn striping(&self) -> Option<&Striping> {
        self.ring.striping.as_ref()
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Has a record in the stripe log that changes nothing; answers its number.
    async fn leave_mark(&self) -> Result<u64, DeviceError> {
        let none = DeviceError { doing: "find the log of stripes", errno: EIO };
        let striping = self.striping.as_ref().ok_or(none)?;
        if is_planted(Bug::StripesLogCopyUnmarked) {
            return Ok(striping.log.next_sequence());
        }
        let record = self.log_change(striping, 0, &[], &[]).await?;
        striping.log.note_write(record, self.progress.flushed.get());
        Ok(record)
    }
}

impl<E: Env, M: Drive> LiveRecords for LoggedStripes<E, M> {
    fn room_end(&self) -> u64 {
        self.zone.end()
    }

    /// Leaves a record that changes nothing, with this number. It needs no record but those whose room is not used again. A
    /// device that is copied to is given it, too.
    fn durable_by_now(&self) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + '_>> {
        let done = Rc::new((RefCell::new(None), Notify::default()));
        let (ring, told) = (Rc::clone(&self.ring), Rc::clone(&done));
        // In a task of its own: no record of the stripe log may be given up halfway.
        self.ring.ring.env.spawn(async move {
            let marked = ring.leave_mark().await;
            told.0.replace(Some(marked));
            told.1.all();
        });
        Box::pin(async move { Ok(done.1.until(|| done.0.borrow_mut().take()).await?) })
    }

    fn first_from(&self, sequence: u64) -> Option<LiveRecord> {
        let live = self.striping()?.log.first_live_from(sequence)?;
        Some(LiveRecord { offset: self.zone.offset + live.offset, ..live })
    }

    fn is_it(&self, record: LiveRecord, bytes: &[u8]) -> bool {
        let record = LiveRecord { offset: record.offset - self.zone.offset, ..record };
        self.striping().is_some_and(|striping| striping.log.is_record(&striping.stripes, record, bytes))
    }
}
