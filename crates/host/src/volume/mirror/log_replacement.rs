//! A log device takes another's place while the volume is served.
//!
//! 1. What is in the place keeps it until the new one has everything, and the description names that. A cut before leaves
//!    the volume as it was.
//! 2. A drive that is to take its own place again is failed first: nobody relies on what is overwritten.

use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};

use super::{Entry, Mirror, MirrorDrive, REPLACED, shutdown};
use crate::volume::member::Place;
use crate::volume::slot::Slot;

impl Mirror {
    /// That another log device can take the place of that at `place`; that one itself, if `by_itself`.
    pub(in crate::volume) fn check_log_can_go(&self, place: usize, by_itself: bool) -> Result<(), Error> {
        if self.logs.copying().is_some() {
            return Err(Error::Unusable(
                "another log device is being replaced: try again once that has ended".to_owned(),
            ));
        }
        // The one that is there is copied from, where it is the last.
        if by_itself { self.check_other_logs(place) } else { Ok(()) }
    }

    /// Begins to put `drive`, which is at `new`, in the place of a log device: what the others hold is copied to it.
    /// `describe` is called once it has everything.
    ///
    /// # Errors
    ///
    /// Where it cannot be begun. Why it comes to nothing later, events tell.
    pub(in crate::volume) async fn replace_log(
        &self,
        place: usize,
        new: &Place,
        drive: MirrorDrive,
        describe: impl FnOnce() -> Result<(), Error> + 'static,
    ) -> Result<(), Error> {
        let held = self.held(Slot::Log(place)).ok();
        let is_itself = held.is_some_and(|held| Rc::ptr_eq(&held, drive.drive()));
        self.check_log_can_go(place, is_itself)?;
        if is_itself {
            self.logs.fail(place, DeviceError { doing: REPLACED, errno: shutdown() });
            self.until_idle(drive.drive()).await?;
        }
        let taken = Rc::clone(drive.drive());
        let copy = self.logs.replace(place, drive).await?;
        self.new_log.replace(Some(new.clone()));
        let (mirror, new) = (self.clone(), new.clone());
        let bytes_per_s = self.options.rebuild_bytes_per_s;
        self.event_loop.spawn(async move {
            let named = || {
                describe()?;
                let mut entries = mirror.log_entries.borrow_mut();
                let generation = entries[place].generation + 1;
                entries[place] = Entry { place: new, why: None, generation, drive: Some(taken) };
                Ok(())
            };
            if copy.complete(bytes_per_s, named).await.is_ok() {
                mirror.watch_log(place);
            }
        });
        Ok(())
    }
}
