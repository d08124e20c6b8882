//! Which losses of log devices are known, and by whom: the heads of those that count, and the [`Witness`].
//!
//! 1. A loss is noted on every device that counts, then with the witness, before anything is acknowledged without the lost one,
//!    or written home that the lost one may know better.
//! 2. The witness is never more than one loss behind the devices.
//! 3. One at a time writes heads: a number is on all of them, or the next one is not begun.

use std::rc::Rc;

use super::log_copy::Joining;
use super::log_devices::{Inner, Witness};
use crate::device::{Device, Durability};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::log_head::{HEAD_COPIES, LogHead};
use crate::join;
use crate::planted::{Bug, is_planted};

/// Bits of the number that stands for the losses that are chance; those above count. Two devices that were each the last,
/// one after the other, must not come to the same.
const LOSSES_CHANCE_BITS: u32 = 32;

/// How many losses a number stands for.
pub(crate) fn loss_count(number: u64) -> u64 {
    number >> LOSSES_CHANCE_BITS
}

/// The number for more losses than this one stands for, and than any device can have come to that knows no more: beside who
/// says so, none of these counts. `chance` tells it from others.
pub(crate) fn beyond(number: u64, chance: u32) -> u64 {
    // Of one more, those that were not told count too.
    (loss_count(number) + 2) << LOSSES_CHANCE_BITS | u64::from(chance)
}

impl<E: Env, L: Device, W: Witness> Inner<E, L, W> {
    /// Those that take part, and what is to count from now on beside them, each with its place.
    fn counting(&self) -> Vec<(usize, Rc<L>)> {
        let members = self.in_sync().filter_map(|(place, member)| Some((place, member.device()?)));
        let joining = self.joining.borrow();
        let joining = joining.as_ref().filter(|joining| joining.counts.get());
        members.chain(joining.map(|joining| (joining.place, Rc::clone(&joining.device)))).collect()
    }

    /// One more device counts for nobody from now on: nothing is acknowledged before that is noted.
    pub(super) fn note_loss(&self) {
        self.losses.set(self.losses.get() + 1);
    }

    /// Notes the losses that are not, and waits until all are; before the volume is known to open, they are counted only.
    pub(super) async fn losses_noted(&self) -> Result<(), DeviceError> {
        match self.resumed.get() {
            true => self.note_losses().await,
            false => self.check_alive(),
        }
    }

    /// Notes the losses that are not, and waits until all are: what is written from now on is only what those that are there
    /// know of.
    pub(super) async fn note_losses(&self) -> Result<(), DeviceError> {
        self.check_alive()?;
        let is_told = || self.losses.get() == 0 && self.number.get() == self.noted.get();
        while !is_told() && !is_planted(Bug::LogLossUntold) {
            if self.noting.replace(true) {
                self.changed.until(|| (!self.noting.get()).then_some(())).await;
                self.check_alive()?;
                continue;
            }
            // A number that an earlier opening came to and could not tell is told first: the witness is never more than one
            // behind.
            let is_new = self.number.get() == self.noted.get();
            let losses = if is_new { self.losses.get() } else { 0 };
            let chance = self.env.random() & ((1 << LOSSES_CHANCE_BITS) - 1);
            let next = (loss_count(self.noted.get()) + 1) << LOSSES_CHANCE_BITS | chance;
            let number = if is_new { next } else { self.number.get() };
            match self.note(number).await {
                Ok(()) => {
                    self.noted.set(number);
                    self.losses.set(self.losses.get() - losses);
                }
                Err(error) => {
                    self.failure.replace(Some(error));
                }
            }
            self.noting.set(false);
            self.changed.all();
            self.check_alive()?;
        }
        Ok(())
    }

    async fn note(&self, losses: u64) -> Result<(), DeviceError> {
        self.number.set(losses);
        join::all(self.counting().into_iter().map(|(place, device)| async move {
            if let Err(error) = self.limited(self.write_head(place, &device, losses)).await {
                self.fail_device(&device, error);
            }
        }))
        .await;
        self.check_alive()?;
        self.witness.note(self.volume.get(), losses).await
    }

    /// The head of a device that is there or is about to be.
    fn head_of(&self, place: usize, device: &Rc<L>) -> Option<LogHead> {
        match self.members[place].has(device) {
            true => self.members[place].head.get(),
            false => self.joining.borrow().as_ref().filter(|it| it.is(device)).and_then(|it| it.head.get()),
        }
    }

    async fn write_head(&self, place: usize, device: &Rc<L>, losses: u64) -> Result<(), DeviceError> {
        let generation = self.head_of(place, device).map_or(0, |head| head.generation + 1);
        let (volume, places) = (self.volume.get(), self.members.len() as u16);
        let head = LogHead { volume, generation, place: place as u16, places, losses };
        device.write(head.offset(), &head.encode(), Durability::Durable).await?;
        if self.members[place].has(device) {
            self.members[place].head.set(Some(head));
        } else if let Some(joining) = self.joining.borrow().as_ref().filter(|it| it.is(device)) {
            joining.head.set(Some(head));
        }
        Ok(())
    }

    /// Writes the head of the device at this place, with the losses so far.
    pub(super) async fn write_head_at(&self, place: usize) -> Result<(), DeviceError> {
        match self.members[place].device() {
            Some(device) => self.write_head(place, &device, self.number.get()).await,
            None => Ok(()),
        }
    }

    /// Writes the head of a device that is about to count, with the losses so far, and has it count; while nobody notes a
    /// loss. Whatever it answers, its head may say from now on that it counts: if it fails, it was lost.
    pub(super) async fn count(&self, joining: &Rc<Joining<L>>) -> Result<(), DeviceError> {
        self.changed.until(|| (!self.noting.replace(true)).then_some(())).await;
        joining.counts.set(true);
        let (place, device) = (joining.place, &joining.device);
        let written = self.limited(self.write_head(place, device, self.number.get())).await;
        self.noting.set(false);
        self.changed.all();
        if let Err(error) = written {
            self.fail_joining(device, error);
        }
        self.losses_noted().await
    }

    /// Which copy of its head a device writes next, if it has one that is whole.
    pub(super) fn next_copy(&self, place: usize) -> Option<usize> {
        self.members[place].head.get().map(|head| ((head.generation + 1) % HEAD_COPIES) as usize)
    }

    /// Writes the next head of a device, that says what the one before does; while nobody notes a loss.
    pub(super) async fn write_head_again(&self, place: usize) -> Result<(), DeviceError> {
        self.changed.until(|| (!self.noting.replace(true)).then_some(())).await;
        let written = self.limited(self.write_head_at(place)).await;
        self.noting.set(false);
        self.changed.all();
        if let Err(error) = written {
            self.fail(place, error);
        }
        self.losses_noted().await
    }
}
