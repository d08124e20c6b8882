//! A damaged volume served over NBD, to be read only.
//!
//! 1. Nothing of the volume is written. Ranges that are lost read as errors; all others as salvage has them, named or not.

use std::path::Path;

use super::events::Reporter;
use super::listen::of_clients;
use super::{Address, STOP_SIGNALS, accept, tls_of};
use crate::event_loop::{Loop, race};
use crate::front::nbd::export::DeviceExport;
use crate::front::nbd::limits::Limits;
use crate::front::nbd::server::Server;
use crate::net::{Place, SocketAccess};
use crate::path_error::PathError;
use crate::volume::salvage::OpenSalvage;
use crate::volume::{LockedVolume, VolumeError};
use evenkeel_engine::options::OpenOptions;

/// What to serve, and where.
#[derive(Debug)]
pub struct Options {
    /// Where clients connect.
    pub nbd: Vec<Address>,
    /// Who may connect to Unix sockets.
    pub access: SocketAccess,
    /// Folder of certificates: then nothing is served without TLS.
    pub tls: Option<std::path::PathBuf>,
    /// Bounds of what clients may ask for.
    pub limits: Limits,
    /// How the volume is run.
    pub open: OpenOptions,
}

/// Serves what there is of the volume in `folder` until a signal comes; answers whether it was served at all. `ready` is
/// told what is known of it, and where clients may connect.
///
/// # Errors
///
/// Those of opening it and of listening.
pub async fn run(
    event_loop: &Loop,
    folder: &Path,
    options: Options,
    ready: impl FnOnce(&OpenSalvage, Vec<Option<Place>>),
) -> Result<bool, VolumeError> {
    let cannot_listen = |error| PathError::new(folder, "cannot listen for signals", error);
    let signals = event_loop.signals(&STOP_SIGNALS).map_err(cannot_listen)?;
    let tls = tls_of(options.tls.as_deref())?;
    let locked = LockedVolume::lock(folder)?;
    let listeners: Vec<_> = options
        .nbd
        .into_iter()
        .map(|address| of_clients(event_loop, address, options.access))
        .collect::<Result<_, VolumeError>>()?;
    let opened =
        race(async { Some(OpenSalvage::open(event_loop, locked, options.open, |_, _| ()).await) }, async {
            let _came = signals.next().await;
            None
        });
    let Some(open) = opened.await else { return Ok(false) };
    let open = open?;
    let export = DeviceExport::new(open.salvaged.volume.clone(), "").read_only();
    let server = Server::new(event_loop.clone(), export, options.limits, tls);
    let reporter = Reporter::new(event_loop, folder.display().to_string());
    let places = listeners.iter().map(|(listener, _)| listener.place()).collect();
    for (listener, peer) in listeners {
        accept(event_loop, listener, server.clone(), reporter.clone(), peer);
    }
    ready(&open, places);
    let _came = signals.next().await;
    race(server.stop(), async {
        let _again = signals.next().await;
    })
    .await;
    Ok(true)
}
