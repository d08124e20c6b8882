//! Where a mirror keeps its log: on devices of its own, or on its members.

use std::rc::Rc;

use crate::device::Device;
use crate::either::Either;
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::events::Events;
use crate::logs::{LogStanding, Logs};
use crate::ring::Ring;
use crate::ring::log::MemberLog;

/// The log of a mirror with members `M`: the one on log devices `L`, the other on the members.
pub type MirrorLog<E, L, M> = Either<Logs<E, L, Ring<E, M>>, MemberLog<E, M>>;

impl<E: Env, L: Device, M: Device> MirrorLog<E, L, M> {
    /// The log of a ring that is about to hold a new volume: on these devices, or on its members where it was told to keep
    /// room for it there ([`crate::ring::RingOptions::log_bytes`]).
    ///
    /// # Errors
    ///
    /// As [`Logs::new`].
    pub fn new(env: E, devices: Vec<Option<L>>, ring: Ring<E, M>, answer_max_ns: u64) -> Result<Self, Error> {
        match ring.holds_log() {
            true => Ok(Self::Other(Rc::new(MemberLog::new(ring)))),
            false => Ok(Self::One(Rc::new(Logs::new(env, devices, ring, answer_max_ns)?))),
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
            true => Ok(Self::Other(Rc::new(MemberLog::open(ring).await?))),
            false => Ok(Self::One(Rc::new(Logs::open(env, devices, ring, answer_max_ns).await?))),
        }
    }

    /// As [`Logs::standings`]; none where there are no log devices.
    pub fn standings(&self) -> Vec<(LogStanding, Option<DeviceError>)> {
        match self {
            Self::One(logs) => logs.standings(),
            Self::Other(_) => Vec::new(),
        }
    }

    /// As [`Logs::events`]; none where there are no log devices.
    pub fn events(&self) -> Option<Rc<Events>> {
        match self {
            Self::One(logs) => Some(logs.events()),
            Self::Other(_) => None,
        }
    }

    /// As [`Logs::leave_out`].
    pub fn leave_out(&self, place: usize, error: DeviceError) {
        if let Self::One(logs) = self {
            logs.leave_out(place, error);
        }
    }
}
