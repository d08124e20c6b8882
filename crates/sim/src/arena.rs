//! Memory that a kill does not lose and a power cut does.
//!
//! 1. A store is one event of [`Cuts`]: what came before the cut arrived, what came after did not.
//! 2. A kill at a store strikes before it or inside of it: then a prefix of its bytes, in units of 8,
//!    arrived.
//! 3. The bytes outlive the executor; the next run opens another [`SimArena`] over them.
//! 4. Stores after the end of a run have no effect. Loads still see the bytes.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use evenkeel_engine::env::Arena;

use crate::cuts::{CutKind, Cuts, Verdict};
use crate::executor::SimEnv;
use crate::random::Random;
use crate::trace;

/// What arrives of a store that a kill interrupts.
const STORE_UNIT_BYTES: usize = 8;

/// Tells a store from a drive's events in the trace.
const TRACE_STORE: u64 = 0x6172_656E_6100;

/// The bytes of an arena, which outlive every process that opens it. A clone is another handle to the same
/// bytes.
#[derive(Clone)]
pub struct ArenaBytes(Rc<RefCell<Vec<u8>>>);

impl fmt::Debug for ArenaBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ArenaBytes").field("len", &self.0.borrow().len()).finish()
    }
}

impl ArenaBytes {
    /// `len_bytes` zeros.
    pub fn new(len_bytes: usize) -> Self {
        Self(Rc::new(RefCell::new(vec![0; len_bytes])))
    }

    /// A power cut: all zero, as new.
    pub fn clear(&self) {
        // A new vector and not a fill: its pages cost nothing until they are used.
        let mut bytes = self.0.borrow_mut();
        *bytes = vec![0; bytes.len()];
    }

    /// What they hold.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.borrow().clone()
    }
}

/// One run's arena.
pub struct SimArena {
    bytes: ArenaBytes,
    env: SimEnv,
    cuts: Cuts,
    random: RefCell<Random>,
}

impl fmt::Debug for SimArena {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(out)
    }
}

impl SimArena {
    /// The arena over `bytes` in the run of `env`; `seed` decides how much of an interrupted store arrives.
    pub fn open(bytes: ArenaBytes, env: SimEnv, cuts: Cuts, seed: u64) -> Self {
        Self { bytes, env, cuts, random: RefCell::new(Random::new(seed)) }
    }

    /// How much of an interrupted store of `len_bytes` arrived: not all of it, and half of the time nothing.
    fn arrived_bytes(&self, len_bytes: usize) -> usize {
        let mut random = self.random.borrow_mut();
        let units = len_bytes.div_ceil(STORE_UNIT_BYTES);
        if units == 0 || random.coin() { 0 } else { random.index(units) * STORE_UNIT_BYTES }
    }
}

impl Arena for SimArena {
    fn len(&self) -> usize {
        self.bytes.0.borrow().len()
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        let mut held = self.bytes.0.borrow_mut();
        let into = &mut held[offset..offset + bytes.len()];
        let arrived = match self.cuts.event() {
            Verdict::Happens(number) => {
                self.env.trace(TRACE_STORE ^ number);
                self.env.trace(offset as u64);
                self.env.trace(trace::digest(bytes));
                bytes.len()
            }
            Verdict::Struck(CutKind::Kill) => self.arrived_bytes(bytes.len()),
            Verdict::Struck(CutKind::PowerCut) | Verdict::Ignored => 0,
        };
        into[..arrived].copy_from_slice(&bytes[..arrived]);
    }

    fn load(&self, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.bytes.0.borrow()[offset..offset + into.len()]);
    }
}
