//! What is on its way home: who writes there, how fast, and which ranges others have to leave alone.

use std::cell::{Cell, RefCell};

use super::pace::Pace;
use super::turn::Turn;
use crate::device::Extent;
use crate::error::DeviceError;
use crate::options::Tuning;

/// The way home.
pub(super) struct WriteBack {
    pub(super) pace: Pace,
    /// Held by whoever writes home: one checkpoint or direct write at a time.
    pub(super) writer: Turn,
    pub(super) checkpoint_running: Cell<bool>,
    /// Ranges that direct writes hold: nobody else writes there meanwhile.
    pub(super) direct: RefCell<Vec<Extent>>,
    /// Why the home device is asked to discard no more, if so.
    pub(super) discards_stopped: Cell<Option<DeviceError>>,
}

impl WriteBack {
    /// Nothing is on its way.
    pub(super) fn new(tuning: Tuning) -> Self {
        Self {
            pace: Pace::new(tuning),
            writer: Turn::default(),
            checkpoint_running: Cell::new(false),
            direct: RefCell::default(),
            discards_stopped: Cell::default(),
        }
    }
}
