//! The journal of a mirror: on log devices of its own, or on its members.

use super::MirrorPages;
use std::rc::{Rc, Weak};

use super::head_copies::{HeadsOf, WrongHead};
use super::log_copy::{LogCopy, LogCopyStatus};
use super::log_devices::{LogDeviceJournal, LogDeviceState};
use super::member_journal::MemberJournal;
use super::stripe_log::RegionOfLog;
use super::striping::LoggedStripes;
use crate::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::events::Events;
use crate::format::superblock::Superblock;
use crate::layout::{JournalStore, LiveRecords, Remembered, Replicated};

/// The journal of a mirror with members `M`, and log devices `L` if it has any. A clone is another handle to the same.
#[derive(Debug)]
pub enum MirrorJournal<E, L, M> {
    /// On log devices.
    Devices(LogDeviceJournal<E, L, MirrorPages<E, M>>),
    /// On the members.
    Members(MemberJournal<E, M>),
}

impl<E, L, M> Clone for MirrorJournal<E, L, M> {
    fn clone(&self) -> Self {
        match self {
            Self::Devices(logs) => Self::Devices(logs.clone()),
            Self::Members(log) => Self::Members(log.clone()),
        }
    }
}

impl<E: Env, L: Device, M: Drive> MirrorJournal<E, L, M> {
    /// The journal of a ring that is about to hold a new volume: on these devices, or on its members where it was told to
    /// keep room for it there ([`crate::ring::RingOptions::log_bytes`]).
    ///
    /// # Errors
    ///
    /// As [`LogDeviceJournal::new`].
    pub fn new(
        env: E,
        devices: Vec<Option<L>>,
        ring: MirrorPages<E, M>,
        answer_max_ns: u64,
    ) -> Result<Self, Error> {
        match ring.holds_log() {
            true => Ok(Self::Members(MemberJournal::new(ring))),
            false => Ok(Self::Devices(LogDeviceJournal::new(env, devices, ring, answer_max_ns)?)),
        }
    }

    /// As [`Self::new`], for a volume that there is.
    ///
    /// # Errors
    ///
    /// As [`LogDeviceJournal::open`] and [`MemberJournal::open`].
    pub async fn open(
        env: E,
        devices: Vec<Option<L>>,
        ring: MirrorPages<E, M>,
        answer_max_ns: u64,
    ) -> Result<Self, Error> {
        match ring.holds_log() {
            true => Ok(Self::Members(MemberJournal::open(ring).await?)),
            false => Ok(Self::Devices(LogDeviceJournal::open(env, devices, ring, answer_max_ns).await?)),
        }
    }

    /// As [`LogDeviceJournal::states`]; none where there are no log devices.
    pub fn states(&self) -> Vec<(LogDeviceState, Option<DeviceError>)> {
        match self {
            Self::Devices(logs) => logs.states(),
            Self::Members(_) => Vec::new(),
        }
    }

    /// As [`LogDeviceJournal::wrong_heads`]; none where there are no log devices: members have heads of their own.
    pub async fn wrong_heads(&self, of: HeadsOf) -> Vec<WrongHead> {
        match self {
            Self::Devices(logs) => logs.wrong_heads(of).await,
            Self::Members(_) => Vec::new(),
        }
    }

    /// As [`LogDeviceJournal::repair_heads`].
    ///
    /// # Errors
    ///
    /// As [`LogDeviceJournal::repair_heads`].
    pub async fn repair_heads(&self) -> Result<(), DeviceError> {
        match self {
            Self::Devices(logs) => logs.repair_heads().await,
            Self::Members(_) => Ok(()),
        }
    }

    /// As [`LogDeviceJournal::events`]; none where there are no log devices.
    pub fn events(&self) -> Option<Rc<Events>> {
        match self {
            Self::Devices(logs) => Some(logs.events()),
            Self::Members(_) => None,
        }
    }

    /// Has changes of stripes logged in a zone of the log devices, before the volume is opened. Members hold no such zone.
    pub fn log_stripes_of(&self, ring: &MirrorPages<E, M>, zone: Extent)
    where
        L: 'static,
    {
        if let Self::Devices(logs) = self
            && ring.has_stripes()
        {
            ring.log_stripes_in(Rc::new(RegionOfLog::new(logs, zone)));
            logs.copy_stripes_with(Rc::new(LoggedStripes::new(ring, zone)));
        }
    }

    /// As [`LogDeviceJournal::replace`].
    ///
    /// # Errors
    ///
    /// As [`LogDeviceJournal::replace`]; [`Error::Unusable`] where there are no log devices.
    pub async fn replace(&self, place: usize, device: L) -> Result<LogCopy<E, L, MirrorPages<E, M>>, Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        match self {
            Self::Devices(logs) => logs.replace(place, device).await,
            Self::Members(_) => unusable("its log is on its members, and has no devices"),
        }
    }

    /// As [`LogDeviceJournal::copying`].
    pub fn copying(&self) -> Option<LogCopyStatus> {
        match self {
            Self::Devices(logs) => logs.copying(),
            Self::Members(_) => None,
        }
    }

    /// As [`LogDeviceJournal::stop_copying`].
    pub fn stop_copying(&self, error: DeviceError) {
        if let Self::Devices(logs) = self {
            logs.stop_copying(error);
        }
    }

    /// As [`LogDeviceJournal::fail`].
    pub fn fail(&self, place: usize, error: DeviceError) {
        if let Self::Devices(logs) = self {
            logs.fail(place, error);
        }
    }
}

/// Asks whichever it is: all that [`Device`] has, and the stores' traits, which have no defaults.
macro_rules! ask {
    ($journal:ident, $it:ident => $call:expr) => {
        match $journal {
            MirrorJournal::Devices($it) => $call,
            MirrorJournal::Members($it) => $call,
        }
    };
}

impl<E: Env, L: Device, M: Drive> Device for MirrorJournal<E, L, M> {
    fn geometry(&self) -> Geometry {
        ask!(self, it => it.geometry())
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        ask!(self, it => it.read(offset, into).await)
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        ask!(self, it => it.read_cached(offset, into).await)
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        ask!(self, it => it.try_read_cached(offset, into))
    }

    fn try_read_kept(&self, offset: u64, into: &mut [u8]) -> usize {
        ask!(self, it => it.try_read_kept(offset, into))
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        ask!(self, it => it.write(offset, bytes, durability).await)
    }

    async fn write_parts(
        &self,
        offset: u64,
        parts: &[&[u8]],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        ask!(self, it => it.write_parts(offset, parts, durability).await)
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        ask!(self, it => it.flush(scope).await)
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        ask!(self, it => it.discard(extent).await)
    }

    async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), DeviceError> {
        ask!(self, it => it.write_zeroes(extent, durability).await)
    }
}

impl<E: Env, L: Device, M: Drive> Replicated for MirrorJournal<E, L, M> {
    fn replicas(&self) -> usize {
        ask!(self, it => it.replicas())
    }

    fn has_replica(&self, replica: usize) -> bool {
        ask!(self, it => it.has_replica(replica))
    }

    fn is_scattered(&self) -> bool {
        ask!(self, it => it.is_scattered())
    }

    async fn read_replica(&self, replica: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        ask!(self, it => it.read_replica(replica, offset, into).await)
    }

    async fn replica_idle(&self, replica: usize) {
        ask!(self, it => it.replica_idle(replica).await);
    }

    async fn repair(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        ask!(self, it => it.repair(offset, bytes).await)
    }
}

impl<E: Env, L: Device, M: Drive> JournalStore for MirrorJournal<E, L, M> {
    async fn init(&self, volume: u64) -> Result<(), DeviceError> {
        ask!(self, it => it.init(volume).await)
    }

    async fn check_complete(&self) -> Result<(), Error> {
        ask!(self, it => it.check_complete().await)
    }

    async fn resume(&self, remembered: Remembered, first_record: u64) -> Result<(), Error> {
        ask!(self, it => it.resume(remembered, first_record).await)
    }

    async fn append(
        &self,
        offset: u64,
        bytes: &[u8],
        sequence: u64,
        durability: Durability,
    ) -> Result<(), DeviceError> {
        ask!(self, it => it.append(offset, bytes, sequence, durability).await)
    }

    async fn write_superblock(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        ask!(self, it => it.write_superblock(superblock).await)
    }

    fn wants_checkpoint(&self) -> bool {
        ask!(self, it => it.wants_checkpoint())
    }

    fn copy_with(&self, records: Weak<dyn LiveRecords>) {
        ask!(self, it => it.copy_with(records));
    }
}
