//! A volume served over NBD, from the first signal that is heard to the last byte that is taken home.
//!
//! ```text
//! mod      lock, take addresses, open, accept, stop
//! listen   the addresses
//! opening  ends the process at a signal where opening the volume holds the loop
//! status   what it does, as one document: over a socket in the volume's folder; mirror_status what a mirror's members do
//! metrics  the same for Prometheus, over HTTP
//! control  orders to replace a member or to grow, over another socket
//! events   what an operator should hear of: lines, counts, and what is wrong now
//! tend     what the server of a mirror does of itself
//! salvage  a damaged volume, to be read only
//! ```
//!
//! 1. Every address is taken before anything of the volume is written: a start that cannot listen has changed nothing.
//!    Nobody is accepted before recovery is done.
//! 2. The first SIGTERM, SIGHUP or Ctrl-C lets requests under way finish, makes everything durable and takes it home; the
//!    second, which is no SIGHUP, leaves at once. Then the arena keeps what was acknowledged, as after a kill.
//! 3. Where files had been removed while they were served, without which the volume is not whole, its end is an error.
//! 4. One connection's end, or a client that cannot be accepted, ends nothing else.

pub mod control;
pub mod events;
mod listen;
mod metrics;
pub mod mirror_status;
mod opening;
pub mod salvage;
pub mod status;
mod tend;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_engine::env::Env;
use signal_hook::consts::SIGHUP;

use crate::arena::SharedArena;
use crate::event_loop::{Loop, Signals, race};
use crate::nbd::export::{Export, VolumeExport};
use crate::nbd::limits::Limits;
use crate::nbd::server::{Ending, Peer, Server};
use crate::nbd::tls::TlsServer;
use crate::nbd::uri::of_place;
use crate::net::{self, ByteStream, Listener, Place, SocketAccess};
use crate::path_error::PathError;
use crate::stop_signals::STOP_SIGNALS;
use crate::volume::devices::{HomeDevice, LogDevice};
use crate::volume::{LocalVolume, LockedVolume, OpenVolume, RunOptions, VolumeError};

use events::watch::Watcher;
use events::{About, Kind, Reporter};
use listen::Listeners;
use opening::Opening;
pub use tend::ScrubOptions;
use tend::Tended;

/// How long to wait after a connection could not be accepted: descriptors may be short.
const ACCEPT_AGAIN_NS: u64 = 100_000_000;

/// How long a stop waits for file systems to say where the members' paths lead by now.
const LAST_LOOK_MAX_NS: u64 = 1_000_000_000;

/// The server of a volume on this machine.
type VolumeServer = Server<Loop, VolumeExport<Loop, SharedArena, HomeDevice, LogDevice>>;

/// Where to listen.
#[derive(Debug)]
pub enum Address {
    /// A Unix socket, for this user only.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
    /// A socket that listens already.
    Inherited(OwnedFd),
}

/// Who encrypts connections by the certificates in `folder`, if that is given.
fn tls_of(folder: Option<&Path>) -> Result<Option<TlsServer>, VolumeError> {
    let refused = |folder: &Path, error| VolumeError::Refused(format!("--tls {}: {error}", folder.display()));
    folder.map(|folder| TlsServer::from_folder(folder).map_err(|error| refused(folder, error))).transpose()
}

/// What to serve, and where.
#[derive(Debug)]
pub struct Options {
    /// Where clients connect.
    pub nbd: Vec<Address>,
    /// Who may connect to the Unix sockets among them.
    pub access: SocketAccess,
    /// Folder of certificates: then nothing is served without TLS.
    pub tls: Option<PathBuf>,
    /// `HOST:PORT` of the metrics.
    pub metrics: Option<String>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Bounds of what clients may ask for.
    pub limits: Limits,
    /// How the volume is run.
    pub open: RunOptions,
    /// How rot is looked for in a mirror.
    pub scrub: ScrubOptions,
    /// Says why the process ends where nothing else can, since its loop is held.
    pub tell_end: fn(&str),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Everything is durable and home.
    Closed,
    /// The same, but files had been removed without which the volume is not whole: which, and what is left to do.
    Gone(String),
    /// A signal came before the volume was open: nothing was served.
    BeforeServing,
    /// A second signal came: what was acknowledged is kept in memory until the next opening.
    AtOnce {
        /// Which files went with the server, as they had been removed, where the next opening cannot do without them.
        gone: Option<String>,
    },
}

/// Moments that somebody may want to hear of.
#[derive(Debug)]
pub enum Event<'a> {
    /// Clients may connect.
    Ready {
        /// The volume.
        volume: &'a OpenVolume,
        /// Where they may: one for each of [`Options::nbd`]; `None` for a socket that has no name.
        places: Vec<Option<Place>>,
        /// Where the metrics are.
        metrics: Option<std::net::SocketAddr>,
    },
    /// A signal came; the volume is being closed.
    Stopping,
}

/// Serves the volume in `folder` until a signal comes.
///
/// # Errors
///
/// Those of opening it and of listening; the volume's failure where it could not be closed.
pub async fn run(
    event_loop: &Loop,
    folder: &Path,
    options: Options,
    tell: impl Fn(Event<'_>) + 'static,
) -> Result<Ended, VolumeError> {
    let cannot_listen = |error| PathError::new(folder, "cannot listen for signals", error);
    let signals = event_loop.signals(&STOP_SIGNALS).map_err(cannot_listen)?;
    let tls = tls_of(options.tls.as_deref())?;
    let reporter = Reporter::new(event_loop, folder.display().to_string());
    let locked = LockedVolume::lock(folder)?;
    let listeners = {
        let metrics = options.metrics.as_deref();
        Listeners::take(event_loop, &locked, options.nbd, options.access, metrics)?
    };
    reporter.tell(
        Kind::Starting,
        &About::default(),
        "starting: what a cut or a kill left undone is done first",
    );
    if tls.is_none() {
        warn_of_open_addresses(&reporter, &listeners, options.access);
    }
    warn_of_open_metrics(&reporter, &listeners);
    let opening = Opening::begin(options.tell_end).map_err(cannot_listen)?;
    let opened = race(async { Some(locked.open(event_loop, options.open).await) }, async {
        let _came = signals.next().await;
        None
    });
    let Some(open) = opened.await else {
        // What is under way may hold the end of the loop as well.
        opening.stay();
        return Ok(Ended::BeforeServing);
    };
    let open = open?;
    drop(opening);

    let has_tls = tls.is_some();
    let export = listeners.places().into_iter().flatten().next().map(|at| match &at {
        Place::Unix(path) => (of_place(&at, has_tls), Some(path.clone())),
        Place::Tcp(_) => (of_place(&at, has_tls), None),
    });
    let watcher = Watcher::begin(event_loop, &open, reporter.clone(), export, listeners.files());
    let mut export = VolumeExport::new(open.volume.clone(), "");
    if options.read_only {
        export = export.read_only();
    }
    let server: VolumeServer = Server::new(event_loop.clone(), export, options.limits, tls);
    let (places, metrics) = (listeners.places(), listeners.metrics.as_ref().map(|(_, at)| *at));
    // Nobody is accepted before the loop runs again.
    for (listener, peer) in listeners.nbd {
        accept(event_loop, listener, server.clone(), reporter.clone(), peer);
    }
    let workers = control::Workers { replacer: open.replacer(), grower: open.grower() };
    control::serve(event_loop, listeners.control, workers);
    let tended = tend(event_loop, &open, options.scrub, &watcher);
    let watched =
        status::Watched::new(event_loop, &open, server.clone(), options.read_only, tended, watcher.clone());
    let watched = Rc::new(watched);
    serve_status(event_loop, listeners.status, Rc::clone(&watched));
    if let Some((listener, _)) = listeners.metrics {
        metrics::serve(event_loop, listener, watched);
    }
    let ready =
        format!("ready: clients may connect to this volume of layout {}", open.description().layout.name());
    reporter.tell(Kind::Ready, &About::default(), ready);
    tell(Event::Ready { volume: &open, places, metrics });
    let _came = signals.next().await;
    let stopping = "stopping: what is acknowledged is made durable (a second signal ends at once)";
    reporter.tell(Kind::Stopping, &About::default(), stopping);
    watcher.look_at_lengths();
    watcher.stopping();
    tell(Event::Stopping);
    if !stop(&signals, &server, open).await? {
        return Ok(Ended::AtOnce { gone: watcher.gone() });
    }
    if let Some(what) = watcher.gone() {
        return Ok(Ended::Gone(what));
    }
    race(watcher.look_at_paths(), event_loop.sleep(LAST_LOOK_MAX_NS)).await;
    let stopped = format!("stopped: everything is durable and home{}", watcher.not_found_again());
    reporter.tell(Kind::Stopped, &About::default(), stopped);
    Ok(Ended::Closed)
}

/// Tells of addresses that other machines or all users reach, where nothing protects them.
fn warn_of_open_addresses(reporter: &Reporter, listeners: &Listeners, access: SocketAccess) {
    let is_for_all = access.mode.is_some_and(|mode| mode & 0o002 != 0);
    for place in listeners.places().into_iter().flatten() {
        if let (Place::Unix(path), true) = (&place, is_for_all) {
            let why = format!(
                "{}: every user of this machine may connect there: whoever does reads and writes; let a group in instead \
                 (--socket-mode 660 --socket-group GROUP), or use --tls",
                path.display()
            );
            reporter.tell(Kind::SocketForAll, &About::default(), why);
        }
        if let Place::Tcp(at) = place
            && !at.ip().to_canonical().is_loopback()
        {
            let why = format!(
                "{at}: other machines may connect there, without TLS: whoever reaches it reads and writes; listen on \
                 127.0.0.1, or use --tls"
            );
            reporter.tell(Kind::TcpWithoutTls, &About::default(), why);
        }
    }
}

/// Tells of metrics that other machines reach.
fn warn_of_open_metrics(reporter: &Reporter, listeners: &Listeners) {
    if let Some((_, at)) = listeners.metrics.as_ref().filter(|(_, at)| !at.ip().to_canonical().is_loopback())
    {
        let why = format!(
            "{at}: other machines may read the metrics there; listen on 127.0.0.1 unless they are to"
        );
        reporter.tell(Kind::MetricsForAll, &About::default(), why);
    }
}

/// Does what the server of a mirror does of itself.
fn tend(event_loop: &Loop, open: &OpenVolume, scrub: ScrubOptions, watcher: &Watcher) -> Tended {
    open.mirror().map_or_else(Tended::default, |mirror| {
        Tended::begin(event_loop, &open.volume, mirror, scrub, watcher)
    })
}

/// Closes the volume, unless a second signal comes before: whether it is closed.
async fn stop(signals: &Signals, server: &VolumeServer, open: OpenVolume) -> Result<bool, VolumeError> {
    let closed = race(
        async {
            server.stop().await;
            Some(open.close().await)
        },
        async {
            // A terminal that closes may tell its shell and the kernel, and both tell the server.
            while matches!(signals.next().await, Ok(SIGHUP)) {}
            None
        },
    );
    match closed.await {
        Some(closed) => closed.map(|()| true),
        None => Ok(false),
    }
}

/// Serves whoever connects, for as long as the loop runs.
fn accept<X: Export>(
    event_loop: &Loop,
    listener: Listener,
    server: Server<Loop, X>,
    reporter: Reporter,
    peer: &'static str,
) {
    let env = event_loop.clone();
    event_loop.spawn(async move {
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    let message = format!("cannot accept connections for now: {error}");
                    reporter.tell(Kind::AcceptFailed, &About::default(), message);
                    env.sleep(ACCEPT_AGAIN_NS).await;
                    continue;
                }
            };
            let (server, reporter) = (server.clone(), reporter.clone());
            env.spawn(async move {
                let peer = match stream.peer() {
                    Some(net::Peer::Machine(address)) => Peer::at(peer, address),
                    Some(net::Peer::Process(pid)) => Peer::process(peer, pid),
                    None => peer.into(),
                };
                let ending = server.serve(stream, peer).await;
                // Those that are evicted are counted: there may be many in a second.
                if !matches!(ending, Ending::Disconnected | Ending::Stopped | Ending::Evicted) {
                    let message = format!("a connection ended: {ending}");
                    reporter.tell(Kind::ClientFailed, &About::default(), message);
                }
            });
        }
    });
}

fn serve_status(event_loop: &Loop, listener: Listener, watched: Rc<status::Watched>) {
    let env = event_loop.clone();
    event_loop.spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(ACCEPT_AGAIN_NS).await;
                continue;
            };
            let document = watched.document().to_json().into_bytes();
            let limit = env.clone();
            env.spawn(async move {
                let write = async {
                    let _a_reader_that_left_is_fine = stream.write(document).await;
                };
                race(write, limit.sleep(10 * ACCEPT_AGAIN_NS)).await;
                stream.shutdown();
            });
        }
    });
}

/// The volume of a server, for what is told of it.
pub(crate) type Told = LocalVolume;
