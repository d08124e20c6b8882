//! Where a mirror keeps its log: on devices of its own, or on its members.

use std::fmt;

use crate::device::{Device, DeviceState, Durability, Extent, FlushScope, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::logs::{LogStanding, Logs};
use crate::ring::Ring;
use crate::ring::log::MemberLog;

/// The log of a mirror with members `M` and, if any, log devices `L`. A clone is another handle to the same.
pub enum MirrorLog<E, L, M> {
    /// On devices of its own.
    Devices(Logs<E, L, Ring<E, M>>),
    /// On the members.
    Members(MemberLog<E, M>),
}

impl<E, L, M> Clone for MirrorLog<E, L, M> {
    fn clone(&self) -> Self {
        match self {
            Self::Devices(logs) => Self::Devices(logs.clone()),
            Self::Members(log) => Self::Members(log.clone()),
        }
    }
}

impl<E, L, M> fmt::Debug for MirrorLog<E, L, M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Devices(logs) => logs.fmt(out),
            Self::Members(log) => log.fmt(out),
        }
    }
}

macro_rules! of_either {
    ($log:ident, $it:ident => $call:expr) => {
        match $log {
            Self::Devices($it) => $call,
            Self::Members($it) => $call,
        }
    };
}

impl<E: Env, L: Device, M: Device> MirrorLog<E, L, M> {
    /// The log of a ring that is about to hold a new volume: on these devices, or on its members where it was told to keep
    /// room for it there ([`crate::ring::RingOptions::log_bytes`]).
    ///
    /// # Errors
    ///
    /// As [`Logs::new`].
    pub fn new(env: E, devices: Vec<Option<L>>, ring: Ring<E, M>, answer_max_ns: u64) -> Result<Self, Error> {
        match ring.holds_log() {
            true => Ok(Self::Members(MemberLog::new(ring))),
            false => Logs::new(env, devices, ring, answer_max_ns).map(Self::Devices),
        }
    }

    /// As [`Self::new`], for a volume that there is.
    ///
    /// # Errors
    ///
    /// As [`Logs::open`] and [`MemberLog::open`].
    pub async fn open(
        env: E,
        devices: Vec<Option<L>>,
        ring: Ring<E, M>,
        answer_max_ns: u64,
    ) -> Result<Self, Error> {
        match ring.holds_log() {
            true => MemberLog::open(ring).await.map(Self::Members),
            false => Logs::open(env, devices, ring, answer_max_ns).await.map(Self::Devices),
        }
    }

    /// As [`Logs::standings`]; none where there are no log devices.
    pub fn standings(&self) -> Vec<(LogStanding, Option<DeviceError>)> {
        match self {
            Self::Devices(logs) => logs.standings(),
            Self::Members(_) => Vec::new(),
        }
    }

    /// As [`Logs::leave_out`].
    pub fn leave_out(&self, place: usize, error: DeviceError) {
        if let Self::Devices(logs) = self {
            logs.leave_out(place, error);
        }
    }
}

impl<E: Env, L: Device, M: Device> Device for MirrorLog<E, L, M> {
    fn geometry(&self) -> Geometry {
        of_either!(self, it => it.geometry())
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        of_either!(self, it => it.read(offset, into).await)
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        of_either!(self, it => it.write(offset, bytes, durability).await)
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        of_either!(self, it => it.flush(scope).await)
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        of_either!(self, it => it.discard(extent).await)
    }

    fn copies(&self) -> usize {
        of_either!(self, it => it.copies())
    }

    async fn read_copy(&self, copy: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        of_either!(self, it => it.read_copy(copy, offset, into).await)
    }

    fn has_copy(&self, copy: usize) -> bool {
        of_either!(self, it => it.has_copy(copy))
    }

    async fn mend(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        of_either!(self, it => it.mend(offset, bytes).await)
    }

    fn is_in_parts(&self) -> bool {
        of_either!(self, it => it.is_in_parts())
    }

    fn goes_on_with(&self, sequence: u64) {
        of_either!(self, it => it.goes_on_with(sequence));
    }

    fn is_about_to_close(&self) {
        of_either!(self, it => it.is_about_to_close());
    }

    fn wants_checkpoint(&self) -> bool {
        of_either!(self, it => it.wants_checkpoint())
    }

    async fn is_all_there(&self) -> Result<(), Error> {
        of_either!(self, it => it.is_all_there().await)
    }

    async fn format(&self, volume: u64) -> Result<(), DeviceError> {
        of_either!(self, it => it.format(volume).await)
    }

    async fn resume(&self, volume: u64, state: DeviceState, epoch: u64) -> Result<(), Error> {
        of_either!(self, it => it.resume(volume, state, epoch).await)
    }
}
