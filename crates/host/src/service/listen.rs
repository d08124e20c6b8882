//! Where a server listens.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use super::Address;
use crate::event_loop::Loop;
use crate::net::{Listener, Place, SocketAccess, SocketFile};
use crate::volume::{CONTROL_SOCKET, LockedVolume, STATUS_SOCKET, VolumeError};

/// All that a server listens on; whoever connects waits to be accepted.
pub(super) struct Listeners {
    /// For clients, each with what kind of peer comes there.
    pub(super) nbd: Vec<(Listener, &'static str)>,
    /// For orders.
    pub(super) control: Listener,
    /// For `evenkeel status`.
    pub(super) status: Listener,
    /// For scrapes, and where.
    pub(super) metrics: Option<(Listener, SocketAddr)>,
}

impl Listeners {
    /// Takes every address.
    ///
    /// # Errors
    ///
    /// The first that cannot be had; then none is kept.
    pub(super) fn take(
        event_loop: &Loop,
        volume: &LockedVolume,
        nbd: Vec<Address>,
        access: SocketAccess,
        metrics: Option<&str>,
    ) -> Result<Self, VolumeError> {
        let in_folder = |name: &str| Listener::unix(event_loop, &volume.folder().join(name));
        Ok(Self {
            nbd: nbd
                .into_iter()
                .map(|address| of_clients(event_loop, address, access))
                .collect::<Result<_, _>>()?,
            control: in_folder(CONTROL_SOCKET)?,
            status: in_folder(STATUS_SOCKET)?,
            metrics: metrics.map(|address| of_metrics(event_loop, address)).transpose()?,
        })
    }

    /// The files of those that have one.
    pub(super) fn files(&self) -> Vec<SocketFile> {
        let of_clients = self.nbd.iter().map(|(listener, _)| listener);
        of_clients.chain([&self.control, &self.status]).filter_map(Listener::file).collect()
    }

    /// Where clients connect; `None` for a socket that has no name.
    pub(super) fn places(&self) -> Vec<Option<Place>> {
        self.nbd.iter().map(|(listener, _)| listener.place()).collect()
    }
}

pub(super) fn of_clients(
    event_loop: &Loop,
    address: Address,
    access: SocketAccess,
) -> Result<(Listener, &'static str), VolumeError> {
    let refused = |what: &str, error| VolumeError::Refused(format!("cannot listen on {what}: {error}"));
    match address {
        Address::Unix(path) => Ok((Listener::unix_for(event_loop, &path, access)?, "unix")),
        Address::Tcp(address) => {
            let listener = Listener::tcp(event_loop, address.as_str());
            Ok((listener.map_err(|error| refused(&address, error))?, "tcp"))
        }
        Address::Inherited(socket) => {
            let what = format!("descriptor {}, handed over with LISTEN_FDS", socket.as_raw_fd());
            let listener = Listener::from_fd(event_loop, socket);
            Ok((listener.map_err(|error| refused(&what, error))?, "inherited"))
        }
    }
}

fn of_metrics(event_loop: &Loop, address: &str) -> Result<(Listener, SocketAddr), VolumeError> {
    let refused = |error| VolumeError::Refused(format!("--metrics {address}: {error}"));
    let listener = Listener::tcp(event_loop, address).map_err(refused)?;
    let at = listener.tcp_address().map_err(refused)?;
    Ok((listener, at))
}
