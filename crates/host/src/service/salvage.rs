//! A damaged volume served by a front end, to be read only.
//!
//! 1. Nothing of the volume is written. Ranges that are lost read as errors; all others as salvage has them, named or not.

use std::path::Path;

use super::events::Reporter;
use super::listen::{self, listen_for_clients};
use super::{Address, STOP_SIGNALS};
use crate::event_loop::{Loop, race};
use crate::front::{Front, FrontSetup};
use crate::net::{Place, SocketAccess};
use crate::path_error::PathError;
use crate::remedy::Advise;
use crate::volume::salvage::{LocalSource, OpenSalvage};
use crate::volume::{LockedVolume, VolumeError};
use evenkeel_engine::conversion::SwitchedVolume;
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::salvage::SalvagedVolume;

/// What to serve, and where.
#[derive(Debug)]
pub struct Options {
    /// Addresses for clients.
    pub clients: Vec<Address>,
    /// Access to the Unix sockets among them.
    pub access: SocketAccess,
    /// How the volume is run.
    pub open: OpenOptions,
    /// What an operator is told to do, in the words of the program that serves.
    pub advise: Advise,
}

/// Serves what there is of the volume in `folder` by the front end of `setup` until a signal comes; answers whether it was
/// served at all. `ready` is told what is known of it, and where clients may connect.
///
/// # Errors
///
/// Those of opening it and of listening.
pub async fn run(
    event_loop: &Loop,
    folder: &Path,
    setup: impl FrontSetup<SwitchedVolume<SalvagedVolume<Loop, LocalSource>>>,
    options: Options,
    ready: impl FnOnce(&OpenSalvage, Vec<Option<Place>>),
) -> Result<bool, VolumeError> {
    let cannot_listen = |error| PathError::new(folder, "cannot listen for signals", error);
    let signals = event_loop.signals(&STOP_SIGNALS).map_err(cannot_listen)?;
    let locked = LockedVolume::lock(folder)?;
    let listeners = listen_for_clients(event_loop, options.clients, options.access)?;
    let opened =
        race(async { Some(OpenSalvage::open(event_loop, locked, options.open, |_, _| ()).await) }, async {
            let _came = signals.next().await;
            None
        });
    let Some(open) = opened.await else { return Ok(false) };
    let open = open?;
    let front = setup.begin(event_loop, SwitchedVolume::new(open.salvaged.volume.clone()), true).await?;
    let reporter = Reporter::new(event_loop, folder.display().to_string(), options.advise);
    let places = listen::places(&listeners);
    for listener in listeners {
        listen::accept(event_loop, listener, front.clone(), reporter.clone());
    }
    ready(&open, places);
    let _came = signals.next().await;
    let ended = race(front.stop(), async {
        let _again = signals.next().await;
        Ok(())
    });
    ended.await.map(|()| true)
}
