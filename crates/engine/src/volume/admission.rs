//! What a volume admits: how large a write and a batch may be, and how much may wait to be taken home.
//!
//! 1. What is admitted fits the limits of the volume as it is, and from the begin of a growth on as it will be.
//! 2. Writes that wait for room in the buffer get it in the order of their coming, where drives take long turns.
//! 3. Whoever has looked at the limits has its unit buffered before they become smaller.

use std::cell::Cell;

use super::fair_lock::FairLock;
use super::limits::Limits;
use super::throttle::Throttle;

/// What a volume admits.
pub(super) struct Admission {
    /// What its log and memory allow.
    pub(super) limits: Cell<Limits>,
    /// How large units and batches may be: less than `limits` would have them while the volume is about to grow.
    pub(super) allowed: Cell<Limits>,
    /// How many have looked at that, and not buffered their unit yet.
    pub(super) sizing: Cell<usize>,
    /// Held by whoever makes the volume larger.
    pub(super) growing: FairLock,
    /// Held by the first of those that wait for room in the buffer.
    pub(super) room: FairLock,
    pub(super) throttle: Throttle,
}

impl Admission {
    /// Admits what these limits allow.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits: Cell::new(limits),
            allowed: Cell::new(limits),
            sizing: Cell::default(),
            growing: FairLock::default(),
            room: FairLock::default(),
            throttle: Throttle::default(),
        }
    }
}
