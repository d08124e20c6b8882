//! The conversion of a volume while it is served: ordered over one connection, copied beside the clients, and handed to the server,
//! which goes on with the new members.
//!
//! 1. One at a time. Members are not replaced meanwhile, and the volume does not grow.
//! 2. Until the switch begins, whoever ordered it may give it up, and a stop does. From then on both wait for its end.
//! 3. Whoever ordered it is answered when the old members are closed.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::Path;
use std::rc::Rc;

use crate::event_loop::Loop;
use crate::volume::convert_served::{Converter, Progress, Switched};
use crate::volume::{OpenVolume, VolumeError};
use crate::wait::{Notify, Raced, race, run_apart};

/// The conversions of a server. A clone is another handle to the same.
#[derive(Clone, Default)]
pub(super) struct Conversions(Rc<Inner>);

#[derive(Default)]
struct Inner {
    is_under_way: Cell<bool>,
    is_switching: Cell<bool>,
    is_stopping: Cell<bool>,
    /// What the server is to go on with, until it has taken it.
    switched: RefCell<Option<OpenVolume>>,
    /// Whether it has not gone on with it yet.
    is_handed_over: Cell<bool>,
    /// Of all of these.
    changed: Notify,
}

/// One is under way as long as this is there.
struct UnderWay(Conversions);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.is_under_way.set(false);
    }
}

/// What became of it where nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is converted; so many pages with contents were copied.
    Converted(u64),
    /// Who ordered it has given it up, or the server stops: the volume is what it was.
    GivenUp,
}

impl Conversions {
    /// Why nothing else may be done to its members, if so.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] while one is under way.
    pub(super) fn check_none(&self) -> Result<(), VolumeError> {
        match self.0.is_under_way.get() {
            true => {
                let why = "the volume is being converted to other members; wait until that has ended";
                Err(VolumeError::Refused(why.to_owned()))
            }
            false => Ok(()),
        }
    }

    /// Converts the volume to the members described in `from`, unless `given_up` comes before the switch.
    ///
    /// # Errors
    ///
    /// As [`Self::check_none`] and [`Converter::copy`].
    pub(super) async fn convert(
        &self,
        event_loop: &Loop,
        converter: &Converter,
        from: &Path,
        progress: &Rc<Progress>,
        given_up: impl Future<Output = ()>,
    ) -> Result<Outcome, VolumeError> {
        self.check_none()?;
        self.0.is_under_way.set(true);
        let under_way = UnderWay(self.clone());
        let ended = race(given_up, self.stops());
        let copied = match race(ended, converter.copy(from, progress)).await {
            Raced::First(_) => return Ok(Outcome::GivenUp),
            Raced::Second(copied) => copied?,
        };
        self.0.is_switching.set(true);
        let (conversions, progress) = (self.clone(), Rc::clone(progress));
        let switch = async move {
            let _until_then = under_way;
            let switched = copied.take_place(&progress).await;
            let outcome = match switched {
                Ok(Switched { open, pages }) => {
                    conversions.hand_over(open).await;
                    Ok(Outcome::Converted(pages))
                }
                Err(error) => Err(error),
            };
            conversions.0.is_switching.set(false);
            conversions.0.changed.all();
            outcome
        };
        run_apart(event_loop, switch).await
    }

    /// Waits until the server has gone on with `open`, or stops.
    async fn hand_over(&self, open: OpenVolume) {
        let inner = &self.0;
        inner.switched.replace(Some(open));
        inner.is_handed_over.set(true);
        inner.changed.all();
        inner.changed.until(|| (!inner.is_handed_over.get()).then_some(())).await;
    }

    /// What the server is to go on with from now on, once there is something.
    pub(super) async fn next(&self) {
        self.0.changed.until(|| self.0.switched.borrow().is_some().then_some(())).await;
    }

    /// Takes it; whoever waits for it is told when `go_on` has ended.
    pub(super) async fn take(&self, go_on: impl AsyncFnOnce(OpenVolume)) {
        let switched = self.0.switched.borrow_mut().take();
        if let Some(open) = switched {
            go_on(open).await;
            self.0.is_handed_over.set(false);
            self.0.changed.all();
        }
    }

    /// None begins any more, nor goes on unless it switches; waits for that.
    pub(super) async fn stop(&self) {
        let inner = &self.0;
        inner.is_stopping.set(true);
        inner.changed.all();
        let is_settled = || !inner.is_switching.get() || inner.switched.borrow().is_some();
        inner.changed.until(|| is_settled().then_some(())).await;
    }

    async fn stops(&self) {
        self.0.changed.until(|| self.0.is_stopping.get().then_some(())).await;
    }
}
