//! The conversion of a volume while it is served: ordered over one connection, copied beside the clients, and handed to the server,
//! which goes on with the new members.
//!
//! 1. One at a time. Members are not replaced meanwhile, and the volume does not grow; nor does one begin beside such an order.
//! 2. Until the switch begins, whoever ordered it may give it up, and a stop does. From then on both wait for its end.
//! 3. The server goes on with the new members at once. The old ones are closed beside that, and then whoever ordered it is answered.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::Path;
use std::rc::Rc;

use super::status::ConversionStatus;
use crate::event_loop::Loop;
use crate::volume::convert_served::{Converter, Progress, Switched};
use crate::volume::{OpenVolume, VolumeError};
use crate::wait::{Notify, Raced, race, run_apart};

/// The conversions of a server. A clone is another handle to the same.
#[derive(Clone, Default)]
pub(super) struct Conversions(Rc<Inner>);

#[derive(Default)]
struct Inner {
    /// How far the one is that is under way, if any is.
    under_way: RefCell<Option<Rc<Progress>>>,
    /// Other orders that are being carried out.
    others: Cell<usize>,
    is_switching: Cell<bool>,
    is_stopping: Cell<bool>,
    /// What the server is to go on with, until it has taken it.
    switched: RefCell<Option<OpenVolume>>,
    /// What it had before, until somebody has taken that to close it.
    before: RefCell<Option<OpenVolume>>,
    /// Of all of these.
    changed: Notify,
}

/// One is under way as long as this is there.
struct UnderWay(Conversions);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.under_way.replace(None);
    }
}

/// An order of another kind is being carried out as long as this is there.
pub(super) struct Other(Conversions);

impl Drop for Other {
    fn drop(&mut self) {
        self.0.0.others.set(self.0.0.others.get() - 1);
    }
}

/// What became of it where nothing went wrong.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is converted.
    Converted {
        /// Pages with contents that were copied.
        pages: u64,
        /// Why the members from before could not be closed in order, if so. The volume does not need them.
        not_closed: Option<VolumeError>,
    },
    /// Who ordered it has given it up, or the server stops: the volume is what it was.
    GivenUp,
}

impl Conversions {
    /// Begins another order: no conversion begins as long as it is carried out.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] while one is under way.
    pub(super) fn begin_other(&self) -> Result<Other, VolumeError> {
        self.check_none()?;
        self.0.others.set(self.0.others.get() + 1);
        Ok(Other(self.clone()))
    }

    fn check_none(&self) -> Result<(), VolumeError> {
        let why = "the volume is being converted to other members; wait until that has ended";
        if self.0.under_way.borrow().is_some() { Err(VolumeError::Refused(why.to_owned())) } else { Ok(()) }
    }

    /// How far the one is that is under way, if any is.
    pub(super) fn progress(&self) -> Option<ConversionStatus> {
        self.0.under_way.borrow().as_ref().map(|progress| ConversionStatus {
            doing: progress.doing.get().to_owned(),
            done_bytes: progress.done_bytes.get(),
            all_bytes: progress.all_bytes.get(),
        })
    }

    /// That one can begin.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] beside another order.
    pub(super) fn check_can_begin(&self) -> Result<(), VolumeError> {
        self.check_none()?;
        let why =
            "the volume is growing, or a member of it is being replaced; convert it once that has ended";
        if self.0.others.get() > 0 { Err(VolumeError::Refused(why.to_owned())) } else { Ok(()) }
    }

    fn begin(&self, progress: &Rc<Progress>) -> Result<UnderWay, VolumeError> {
        self.check_can_begin()?;
        self.0.under_way.replace(Some(Rc::clone(progress)));
        Ok(UnderWay(self.clone()))
    }

    /// Converts the volume to the members described in `from`, unless `given_up` comes before the switch. `begun` is called once
    /// nothing is in its way.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] beside another order; as [`Converter::copy`].
    pub(super) async fn convert(
        &self,
        event_loop: &Loop,
        converter: &Converter,
        from: &Path,
        progress: &Rc<Progress>,
        begun: impl FnOnce(),
        given_up: impl Future<Output = ()>,
    ) -> Result<Outcome, VolumeError> {
        let under_way = self.begin(progress)?;
        begun();
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
                    let before = conversions.hand_over(open).await;
                    progress.is_at("closing the members that it had", 0, 1);
                    Ok(Outcome::Converted { pages, not_closed: before.close().await.err() })
                }
                Err(error) => Err(error),
            };
            conversions.0.is_switching.set(false);
            conversions.0.changed.all();
            outcome
        };
        run_apart(event_loop, switch).await
    }

    /// Waits until the server has gone on with `open`; answers what it had before.
    async fn hand_over(&self, open: OpenVolume) -> OpenVolume {
        let inner = &self.0;
        inner.switched.replace(Some(open));
        inner.changed.all();
        inner.changed.until(|| inner.before.borrow_mut().take()).await
    }

    /// Waits until there is something for the server to go on with.
    pub(super) async fn switches(&self) {
        self.0.changed.until(|| self.0.switched.borrow().is_some().then_some(())).await;
    }

    /// What that is.
    pub(super) fn take(&self) -> Option<OpenVolume> {
        self.0.switched.borrow_mut().take()
    }

    /// The server has gone on, and does not use what it had before any more.
    pub(super) fn give_back(&self, before: OpenVolume) {
        self.0.before.replace(Some(before));
        self.0.changed.all();
    }

    /// None begins any more, nor goes on unless it switches; waits for that switch.
    pub(super) async fn stop(&self) {
        let inner = &self.0;
        inner.is_stopping.set(true);
        inner.changed.all();
        let is_settled = || !inner.is_switching.get() || inner.switched.borrow().is_some();
        inner.changed.until(|| is_settled().then_some(())).await;
    }

    /// Waits until the members from before the last one are closed.
    pub(super) async fn end(&self) {
        self.0.changed.until(|| (!self.0.is_switching.get()).then_some(())).await;
    }

    async fn stops(&self) {
        self.0.changed.until(|| self.0.is_stopping.get().then_some(())).await;
    }
}
