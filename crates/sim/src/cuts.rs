//! Where a run is cut: its events, counted, and the one that never happens.
//!
//! 1. Begin and completion of every write, flush and discard of every drive, and every store to an arena,
//!    have numbers from 0 in one sequence. Nothing else changes what outlives the run, so a cut before each
//!    of these is a cut at every instant.
//! 2. A cut at event n lets events 0 to n - 1 take effect, wholly, and none from n on. The only exception is
//!    a kill inside of a store: see [`crate::arena`].
//! 3. Once the stop is raised, by the plan or by anyone, no event takes effect and none is counted.
//! 4. An observer sees the world before each event of a drive: what it sees is what a cut there would leave.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use crate::executor::Stop;

/// What strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CutKind {
    /// The drives lose their volatile caches, arenas all they hold.
    #[default]
    PowerCut,
    /// kill -9: only what the process held in its own memory is lost.
    Kill,
}

/// When a run is cut, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutPlan {
    /// Number of the event that does not happen any more; `None` lets the run go on.
    pub at_event: Option<u64>,
    /// What strikes.
    pub kind: CutKind,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It takes effect; its number.
    Happens(u64),
    /// The cut strikes here: the run stops now.
    Struck(CutKind),
    /// The run had stopped before.
    Ignored,
}

struct State {
    plan: CutPlan,
    stop: Stop,
    events: Cell<u64>,
    struck: Cell<bool>,
    observer: OnceCell<Box<dyn Fn()>>,
}

/// Counts the events of one run and cuts it where the plan says. A clone is another handle to the same count.
#[derive(Clone)]
pub struct Cuts(Rc<State>);

impl std::fmt::Debug for Cuts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Cuts").field("plan", &self.0.plan).field("events", &self.0.events.get()).finish()
    }
}

impl Cuts {
    /// A run that `stop` ends, cut as `plan` says.
    pub fn new(plan: CutPlan, stop: Stop) -> Self {
        Self(Rc::new(State {
            plan,
            stop,
            events: Cell::new(0),
            struck: Cell::new(false),
            observer: OnceCell::new(),
        }))
    }

    /// A run that is not cut by plan.
    pub fn none(stop: Stop) -> Self {
        Self::new(CutPlan::default(), stop)
    }

    /// From now on `observer` is called before each event of a drive. There can be one.
    pub fn observe(&self, observer: impl Fn() + 'static) {
        let is_first = self.0.observer.set(Box::new(observer)).is_ok();
        assert!(is_first, "a run has one observer");
    }

    /// As [`Self::event`], for an event of a drive.
    pub fn drive_event(&self) -> Verdict {
        if let Some(observer) = self.0.observer.get()
            && !self.is_stopped()
        {
            observer();
        }
        self.event()
    }

    /// Called before each event takes effect.
    pub fn event(&self) -> Verdict {
        let state = &*self.0;
        if state.stop.is_raised() {
            return Verdict::Ignored;
        }
        let number = state.events.get();
        if state.plan.at_event == Some(number) {
            state.struck.set(true);
            state.stop.raise();
            return Verdict::Struck(state.plan.kind);
        }
        state.events.set(number + 1);
        Verdict::Happens(number)
    }

    /// Events that took effect.
    pub fn events_so_far(&self) -> u64 {
        self.0.events.get()
    }

    /// Whether the planned cut has struck.
    pub fn has_struck(&self) -> bool {
        self.0.struck.get()
    }

    /// Whether the run has ended, by the plan or otherwise.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.is_raised()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_up_to_the_cut_and_never_after_it() {
        let stop = Stop::new();
        let cuts = Cuts::new(CutPlan { at_event: Some(2), kind: CutKind::Kill }, stop.clone());
        assert_eq!(cuts.event(), Verdict::Happens(0));
        assert_eq!(cuts.event(), Verdict::Happens(1));
        assert!(!stop.is_raised());
        assert_eq!(cuts.event(), Verdict::Struck(CutKind::Kill));
        assert!(stop.is_raised() && cuts.has_struck());
        assert_eq!(cuts.event(), Verdict::Ignored);
        assert_eq!(cuts.events_so_far(), 2);
    }

    #[test]
    fn a_stop_from_elsewhere_ends_the_events_too() {
        let stop = Stop::new();
        let cuts = Cuts::none(stop.clone());
        assert_eq!(cuts.event(), Verdict::Happens(0));
        stop.raise();
        assert_eq!(cuts.event(), Verdict::Ignored);
        assert!(!cuts.has_struck());
    }
}
