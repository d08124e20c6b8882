//! Where a server listens, and how it takes connections.

use std::io::ErrorKind;
use std::os::fd::AsRawFd;

use evenkeel_engine::env::Env;

use super::events::{About, Kind, Reporter};
use super::http::{HttpOptions, Site};
use super::{ACCEPT_AGAIN_NS, Address};
use crate::event_loop::Loop;
use crate::front::session::Peer;
use crate::front::{Front, Protection};
use crate::net::{self, Listener, Place, SocketAccess, SocketFile};
use crate::remedy::Remedy;
use crate::volume::{CONTROL_SOCKET, LockedVolume, STATUS_SOCKET, VolumeError};

/// All that a server listens on; whoever connects waits to be accepted.
pub(super) struct Listeners {
    /// Sockets for clients, each with what kind of peer comes there.
    pub(super) clients: Vec<(Listener, &'static str)>,
    /// The socket for orders.
    pub(super) control: Listener,
    /// The socket for whoever asks for the status.
    pub(super) status: Listener,
    /// The socket for scrapes.
    pub(super) metrics: Option<Site>,
    /// The socket for browsers.
    pub(super) http: Option<Site>,
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
        clients: Vec<Address>,
        access: SocketAccess,
        metrics: Option<&str>,
        http: Option<&HttpOptions>,
    ) -> Result<Self, VolumeError> {
        let in_folder = |name: &str| Listener::unix(event_loop, &volume.folder().join(name));
        Ok(Self {
            clients: listen_for_clients(event_loop, clients, access)?,
            control: in_folder(CONTROL_SOCKET)?,
            status: in_folder(STATUS_SOCKET)?,
            metrics: metrics.map(listen_for_scrapes).transpose()?,
            http: http.map(listen_for_browsers).transpose()?,
        })
    }

    /// The files of those that have one.
    pub(super) fn files(&self) -> Vec<SocketFile> {
        let of_clients = self.clients.iter().map(|(listener, _)| listener);
        of_clients.chain([&self.control, &self.status]).filter_map(Listener::file).collect()
    }
}

/// The addresses where clients connect; `None` for a socket that has no name.
pub(super) fn places(clients: &[(Listener, &'static str)]) -> Vec<Option<Place>> {
    clients.iter().map(|(listener, _)| listener.place()).collect()
}

pub(super) fn listen_for_clients(
    event_loop: &Loop,
    addresses: Vec<Address>,
    access: SocketAccess,
) -> Result<Vec<(Listener, &'static str)>, VolumeError> {
    addresses.into_iter().map(|address| listen_for_client(event_loop, address, access)).collect()
}

fn listen_for_client(
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

fn listen_for_scrapes(address: &str) -> Result<Site, VolumeError> {
    Site::of_metrics(address)
        .map_err(|error| VolumeError::Refused(format!("cannot listen for scrapes on {address}: {error}")))
}

fn listen_for_browsers(options: &HttpOptions) -> Result<Site, VolumeError> {
    Site::of_page(options).map_err(|error| {
        let refused =
            |why: String| VolumeError::Refused(format!("cannot show the page on {}: {why}", options.address));
        match error.kind() == ErrorKind::PermissionDenied && !options.is_public {
            true => {
                refused("other machines reach it; choose 127.0.0.1".to_owned()).with(Remedy::ShowToOthers)
            }
            false => refused(error.to_string()),
        }
    })
}

/// Tells of addresses that other machines or all users reach, where nothing protects them.
pub(super) fn warn_of_open_addresses(
    reporter: &Reporter,
    places: impl Iterator<Item = Place>,
    access: SocketAccess,
    protection: Protection,
) {
    if protection == Protection::Authenticated {
        return;
    }
    let is_for_all = access.mode.is_some_and(|mode| mode & 0o002 != 0);
    for place in places {
        if let (Place::Unix(path), true) = (&place, is_for_all) {
            let why = format!(
                "{}: every user of this machine may connect there: whoever does reads and writes",
                path.display()
            );
            reporter.report(
                Kind::SocketForAll,
                &About::default(),
                reporter.advised(why, &Remedy::LetGroupIn),
            );
        }
        if let Place::Tcp(at) = place
            && !at.ip().to_canonical().is_loopback()
        {
            let (kind, how, remedy) = match protection {
                Protection::None => (Kind::TcpWithoutTls, "without TLS", Remedy::ListenLocally),
                _ => (Kind::TlsForAll, "and need no certificate", Remedy::AskForCertificates),
            };
            let why =
                format!("{at}: other machines may connect there, {how}: whoever reaches it reads and writes");
            reporter.report(kind, &About::default(), reporter.advised(why, &remedy));
        }
    }
}

/// Has `front` serve whoever connects, for as long as the loop runs.
pub(super) fn accept<F: Front>(
    event_loop: &Loop,
    (listener, peer): (Listener, &'static str),
    front: F,
    reporter: Reporter,
) {
    let env = event_loop.clone();
    event_loop.spawn(async move {
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    let message = format!("cannot accept connections for now: {error}");
                    reporter.report(Kind::AcceptFailed, &About::default(), message);
                    env.sleep(ACCEPT_AGAIN_NS).await;
                    continue;
                }
            };
            let (front, reporter) = (front.clone(), reporter.clone());
            env.spawn(async move {
                let peer = match stream.peer() {
                    Some(net::Peer::Machine(address)) => Peer::at(peer, address),
                    Some(net::Peer::Process(pid)) => Peer::process(peer, pid),
                    None => peer.into(),
                };
                if let Some(why) = front.serve(stream, peer).await {
                    let message = format!("a connection ended: {why}");
                    reporter.report(Kind::ClientFailed, &About::default(), message);
                }
            });
        }
    });
}

/// Tells of metrics, and of a page, that other machines reach.
pub(super) fn warn_of_open_sites(reporter: &Reporter, listeners: &Listeners) {
    for (site, kind, what) in [
        (&listeners.metrics, Kind::MetricsForAll, "the metrics"),
        (&listeners.http, Kind::PageForAll, "the page, with names of files and devices"),
    ] {
        if let Some(Site { at, .. }) = site.as_ref().filter(|site| !site.at.ip().to_canonical().is_loopback())
        {
            let why =
                format!("{at}: other machines may read {what} there; listen on 127.0.0.1 unless they are to");
            reporter.report(kind, &About::default(), why);
        }
    }
}
