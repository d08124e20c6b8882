//! What is on its way home: who writes there, how fast, and which ranges others have to leave alone.

use std::cell::Cell;

use super::bulk::Bulk;
use super::checkpoint_due::CheckpointDue;
use super::direct::DirectWrites;
use super::fair_lock::FairLock;
use super::pace::Pace;
use crate::error::DeviceError;
use crate::options::Tuning;

/// The way home.
pub(super) struct WriteBack {
    pub(super) pace: Pace,
    /// Held by whoever writes home: a checkpoint alone, direct writes side by side.
    pub(super) writer: FairLock,
    pub(super) checkpoint_running: Cell<bool>,
    pub(super) due: CheckpointDue,
    pub(super) direct: DirectWrites,
    pub(super) bulk: Bulk,
    /// Why some pages could not go home with the last checkpoint, if so.
    pub(super) blocked: Cell<Option<DeviceError>>,
    /// Why the home device is asked to discard no more, if so.
    pub(super) discards_stopped: Cell<Option<DeviceError>>,
}

impl WriteBack {
    /// Nothing is on its way.
    pub(super) fn new(tuning: Tuning) -> Self {
        Self {
            pace: Pace::new(tuning),
            writer: FairLock::default(),
            checkpoint_running: Cell::new(false),
            due: CheckpointDue::default(),
            direct: DirectWrites::default(),
            bulk: Bulk::default(),
            blocked: Cell::default(),
            discards_stopped: Cell::default(),
        }
    }
}
